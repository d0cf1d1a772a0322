//! Which service is used, in words for a person.

use lockspan_client::{local, shown_url};

/// The URL without secrets; of the user's own service also its socket and its process.
pub(crate) fn name(url: &str) -> String {
    if url != local::URL {
        return shown_url(url);
    }
    match local::socket() {
        Ok(socket) => match local::process(&socket) {
            Some(process) => format!("{url} ({}, {process})", socket.display()),
            None => format!("{url} ({})", socket.display()),
        },
        Err(_) => url.to_owned(),
    }
}
