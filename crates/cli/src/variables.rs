//! The variables that have a meaning, so that one with a typing error is not ignored in silence.

use std::ffi::OsString;

use crate::{login, options};

/// What the names of all of them begin with.
const PREFIX: &str = "LOCKSPAN_";

/// Variables of the commands that use a service, and those that `run` gives to its command.
const OF_COMMANDS: [&str; 13] = [
    login::URL,
    "LOCKSPAN_USER",
    login::PASSWORD,
    "LOCKSPAN_PASSWORD_FILE",
    "LOCKSPAN_CA",
    "LOCKSPAN_CERT",
    "LOCKSPAN_KEY",
    "LOCKSPAN_BIN",
    "LOCKSPAN_RECORD",
    "LOCKSPAN_TOKEN",
    "LOCKSPAN_TOKENS",
    "LOCKSPAN_RUN",
    "LOCKSPAN_HELD",
];

/// Variables of the libraries and of their tests, which may be set for a whole terminal.
const OF_LIBRARIES: [&str; 2] = ["LOCKSPAN_REVOCABLE_BACKEND", "LOCKSPAN_STRESS_BILLIONS"];

/// Beginnings of names that tests and tools of the repository choose.
const OF_TESTS: [&str; 8] = [
    "LOCKSPAN_TEST_",
    "LOCKSPAN_FUZZ_",
    "LOCKSPAN_MODEL",
    "LOCKSPAN_SCHEDULES",
    "LOCKSPAN_SCREENSHOTS",
    "LOCKSPAN_NODE",
    "LOCKSPAN_PYTHON",
    "LOCKSPAN_PROMTOOL",
];

/// A warning for each variable of this process that begins as ours do and has no meaning.
pub(crate) fn unknown() -> Vec<String> {
    unknown_among(std::env::vars_os().map(|(name, _)| name))
}

fn unknown_among(names: impl Iterator<Item = OsString>) -> Vec<String> {
    let known = || OF_COMMANDS.iter().map(|name| (*name).to_owned()).chain(options::variables());
    let is_known = |name: &str| {
        known().any(|known| known == name)
            || OF_LIBRARIES.contains(&name)
            || OF_TESTS.iter().any(|begin| name.starts_with(begin))
    };
    let names = names.map(|name| name.to_string_lossy().into_owned());
    let mut names: Vec<_> =
        names.filter(|name| name.starts_with(PREFIX) && !is_known(name)).collect();
    names.sort();
    let warning = |name: &String| {
        let likeness = |known: &String| strsim::normalized_damerau_levenshtein(known, name);
        let near = known().max_by(|one, other| likeness(one).total_cmp(&likeness(other)));
        let near = near.filter(|near| likeness(near) > 0.75);
        let hint = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        format!("the environment variable {name} is unknown and ignored{hint}")
    };
    names.iter().map(warning).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(names: &[&str]) -> Vec<String> {
        unknown_among(names.iter().map(OsString::from))
    }

    #[test]
    fn a_variable_with_a_typing_error_is_told_with_the_nearest() {
        let told = said(&["LOCKSPAN_MAXLEASE", "LOCKSPAN_PASSWROD", "LOCKSPAN_QQQ", "PATH"]);
        let warning = |name: &str, hint: &str| {
            format!("the environment variable {name} is unknown and ignored{hint}")
        };
        let expected = [
            warning("LOCKSPAN_MAXLEASE", "; did you mean LOCKSPAN_MAX_LEASE?"),
            warning("LOCKSPAN_PASSWROD", "; did you mean LOCKSPAN_PASSWORD?"),
            warning("LOCKSPAN_QQQ", ""),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn what_is_read_anywhere_is_known() {
        let all: Vec<_> = options::variables().collect();
        assert!(all.len() > 30 && all.contains(&"LOCKSPAN_CONFIG".to_owned()), "{all:?}");
        let all: Vec<_> = all.iter().map(String::as_str).chain(OF_COMMANDS).collect();
        assert_eq!(said(&all), [""; 0]);
        assert_eq!(said(&["LOCKSPAN_TEST_STOP", "LOCKSPAN_REVOCABLE_BACKEND"]), [""; 0]);
    }
}
