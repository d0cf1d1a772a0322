//! What listens at an address that a server wanted for itself.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use lockspan_client::{ConnectError, Options, Plain};
use lockspan_wire::Value;

use crate::resp::Connection;

/// How long it may take for each answer: the server that asks does not start anyway.
const PATIENCE: Duration = Duration::from_secs(1);

/// Says it, if it is a Lockspan server. No user and no password are sent.
pub(crate) fn of(at: SocketAddr) -> Option<String> {
    let ip = match at.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    let url = format!("lockspan://{}", SocketAddr::new(ip, at.port()));
    let options = Options::new().name("lockspan serve");
    match Plain::open(&options, &url, PATIENCE) {
        Ok(stream) => {
            let process = process(Connection::new(stream));
            let process = process.map(|number| format!(" (process {number})")).unwrap_or_default();
            Some(format!("A Lockspan server answers there{process}"))
        }
        Err(ConnectError::Login { .. }) => {
            Some("A Lockspan server with users answers there".to_owned())
        }
        // What our server says to whoever does not speak TLS.
        Err(ConnectError::Refused { said, .. }) if said.contains("lockspans://") => {
            Some("A Lockspan server with TLS answers there".to_owned())
        }
        Err(_) => None,
    }
}

/// The number of its process.
fn process(mut connection: Connection) -> Option<u32> {
    let Value::Bulk(text) = connection.ask(&[b"INFO", b"server"]).ok()? else { return None };
    let text = std::str::from_utf8(&text).ok()?;
    text.lines().find_map(|line| line.strip_prefix("process_id:"))?.trim().parse().ok()
}
