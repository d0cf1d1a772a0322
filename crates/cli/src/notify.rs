//! Words for the service manager: systemd's `sd_notify`, which is a datagram to a socket.
//!
//! The variable `NOTIFY_SOCKET` names it: a path, or `@` and an abstract name. Nobody needs to
//! listen: without the variable nothing is said, and what can't be said is a warning.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use tracing::warn;

const VARIABLE: &str = "NOTIFY_SOCKET";

/// The manager that waits to hear from us, if there is one.
#[derive(Debug)]
pub(crate) struct Manager {
    address: Option<SocketAddr>,
}

impl Manager {
    /// Nobody.
    pub(crate) const fn none() -> Self {
        Self { address: None }
    }

    /// The one that `NOTIFY_SOCKET` names.
    pub(crate) fn from_env() -> Self {
        let name = std::env::var_os(VARIABLE).filter(|name| !name.is_empty());
        let address = name.and_then(|name| {
            let found = address_of(&name);
            found.inspect_err(|bad| warn!("{VARIABLE}={}: {bad}", name.display())).ok()
        });
        Self { address }
    }

    /// The service can be used.
    pub(crate) fn ready(&self) {
        self.say("READY=1");
    }

    /// The service is about to end.
    pub(crate) fn stopping(&self) {
        self.say("STOPPING=1");
    }

    fn say(&self, word: &str) {
        let Some(address) = &self.address else { return };
        let sent = UnixDatagram::unbound().and_then(|socket| {
            // A manager that does not read must not hold the service up.
            socket.set_nonblocking(true)?;
            socket.send_to_addr(word.as_bytes(), address)
        });
        if let Err(bad) = sent {
            warn!("can't send {word} to the service manager: {bad}");
        }
    }
}

fn address_of(name: &OsStr) -> io::Result<SocketAddr> {
    match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        [b'/', ..] => SocketAddr::from_pathname(name),
        _ => Err(io::Error::other(
            "is neither an absolute path nor an abstract name that begins with @",
        )),
    }
}
