//! Who to be at a service, and whom to trust: from variables, which no list of processes shows.

use std::ffi::OsString;

/// The variable with the password; a command under a lock does not inherit it.
pub(crate) const PASSWORD: &str = "LOCKSPAN_PASSWORD";

/// The variable with the URL.
pub(crate) const URL: &str = "LOCKSPAN_URL";

/// The URL that a command under a lock inherits, if this one has a password.
pub(crate) fn without_password(url: &str) -> Option<String> {
    let place = url.split('?').next().unwrap_or_default();
    let (login, _) = place.rsplit_once('@')?;
    let begin = login.find("://").map_or(0, |at| at + "://".len());
    let (user, _) = login[begin..].split_once(':')?;
    Some(format!("{}{}", &url[..begin + user.len()], &url[login.len()..]))
}

/// Variables that say who to be and whom to trust. An empty one counts as not set.
fn given(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Whether a user and a password are given, in the URL or in variables.
pub(crate) fn is_given(url: &str) -> bool {
    let in_url = url.contains('@') || url.contains("password-file=");
    in_url || given(PASSWORD).or_else(|| given("LOCKSPAN_PASSWORD_FILE")).is_some()
}

/// Sets what the variables say, on the options of either crate: they have the same methods.
macro_rules! with_login {
    ($options:expr) => {{
        let mut options = $options;
        if let Some(user) = given("LOCKSPAN_USER") {
            options = options.user(user.to_string_lossy());
        }
        if let Some(password) = given(PASSWORD) {
            options = options.password(password.into_encoded_bytes());
        }
        if let Some(path) = given("LOCKSPAN_PASSWORD_FILE") {
            options = options.password_file(path);
        }
        if let Some(path) = given("LOCKSPAN_CA") {
            options = options.ca(path);
        }
        // One without the other is an error of the connection, which names it.
        if let Some(path) = given("LOCKSPAN_CERT") {
            options = options.cert(path);
        }
        if let Some(path) = given("LOCKSPAN_KEY") {
            options = options.key(path);
        }
        options
    }};
}

/// Choices for a connection that locks, to a server or to a Redis, with what the variables say.
pub(crate) fn options() -> lockspan_redis::Options {
    with_login!(lockspan_redis::Options::new())
}

/// Choices for a connection that asks a server, with what the variables say.
pub(crate) fn server_options() -> lockspan_client::Options {
    with_login!(lockspan_client::Options::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_inherits_no_password() {
        for (url, left) in [
            ("lockspans://ann:pw@h:1?ca=/a@b", Some("lockspans://ann@h:1?ca=/a@b")),
            ("lockspan://:p@w@h", Some("lockspan://@h")),
            ("lockspan://ann@h:1", None),
            ("lockspans://h:1?ca=/a@b", None),
            ("local:", None),
        ] {
            assert_eq!(without_password(url).as_deref(), left, "{url}");
        }
    }
}
