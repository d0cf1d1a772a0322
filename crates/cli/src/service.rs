//! Which service is used: in words for a person, and a connection to it.

use lockspan_client::{local, shown_url};

use crate::args::Service;
use crate::exit::{Failure, say};
use crate::explain;
use crate::resp::Connection;

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

/// A connection for `lockspan COMMAND`, which asks a Lockspan server. `None`: it is the user's own,
/// and does not run.
pub(crate) fn open(service: &Service, command: &str) -> Result<Option<Connection>, Failure> {
    if explain::is_redis(&service.url) {
        return Err(explain::not_on_redis(command, &service.url));
    }
    let connection = Connection::open(&service.url)?;
    // Nobody has said which service it should be.
    if connection.is_some() && service.url == local::URL {
        say(format!("at {}", name(&service.url)));
    }
    Ok(connection)
}
