//! What a server is started with.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use lockspan_protocol::Limits;
use lockspan_tls::ServerFiles;
use lockspan_wire::WireLimits;

use crate::audit::AuditGate;

/// The port of the service.
pub const DEFAULT_PORT: u16 = 7420;

/// For each record that a server may keep, so many grants and waits: sessions share records.
pub(crate) const CLAIMS_PER_RECORD: usize = 4;

/// Plain data; [`Config::default`] is a server on the loopback address that keeps nothing on disk.
/// Its limits need some 20 GiB of memory at the worst; those of [`Config::for_this_machine`] fit.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen. Port 0 is a free one; [`Server::addresses`](crate::Server::addresses) tells
    /// which.
    pub listen: Vec<Address>,
    /// Where epochs and sessions are kept.
    pub data: Data,
    /// Where a page for people and metrics are served over HTTP, if they are. Port 0 is a free one;
    /// [`Server::http_address`](crate::Server::http_address) tells which.
    pub http: Option<Http>,
    /// Bounds and times of the lock protocol.
    pub protocol: Limits,
    /// Bounds on what a client may send.
    pub wire: WireLimits,
    /// Bytes of events that may wait for a client that does not read, and of replies behind one
    /// that is not known yet. Past it its connection is closed. Other replies need no such bound:
    /// while 64 KiB of them wait, the client's commands are not carried out.
    pub outbox: usize,
    /// Bytes that may wait for all clients together, with those of commands that are not all there
    /// yet. Past it the connection is closed for which most wait. Not below
    /// [`outbox`](Self::outbox) and the longest frame.
    pub outboxes: usize,
    /// How long one connection's commands may keep a thread before other connections have their
    /// turn. Shorter turns are fairer and cost more. A single step is not interrupted.
    pub turn: Duration,
    /// How many connections there may be. Where there are users, the last few are kept for those
    /// who may `admin` everything.
    pub connections: usize,
    /// How many of them one user may have.
    pub connections_per_user: usize,
    /// How many tables the records are divided among, each with a lock of its own: 1 to 256.
    pub shards: usize,
    /// The server stops when there was no session and no connection for so long.
    pub idle_exit: Option<Duration>,
    /// How long a stop waits for clients to read what they were sent.
    pub stop_grace: Duration,
    /// When nothing came from a TCP client for so long, the system asks whether it is still there.
    /// A client that does not answer for 30 s, or takes nothing for this time and 30 s, is
    /// disconnected; its sessions live as long as their leases. From 1 s to 9 h.
    pub keepalive: Duration,
    /// TLS, on every TCP port; socket files have their mode.
    pub tls: Option<ServerFiles>,
    /// The file of those who may log in, see [`users`](crate::users). Without it whoever can
    /// connect may do everything.
    pub users: Option<PathBuf>,
    /// How many sessions one user may have; those that were there before a restart are let in
    /// beyond it.
    pub sessions_per_user: usize,
    /// How many records the sessions of one user may hold or wait for; those that were there before
    /// a restart are let in beyond it.
    pub records_per_user: usize,
    /// How long a client may take to log in, where that is needed.
    pub login_within: Duration,
    /// Listens on addresses that other machines reach even without TLS and users.
    pub insecure: bool,
    /// Who may connect to the socket files.
    pub socket: SocketRights,
    /// The data of an earlier run were lost, and this is known of them.
    pub lost: Option<LostData>,
    /// What writes the log closes it when lines about operators' actions can't be kept any more.
    pub audit: AuditGate,
}

/// Who may connect to a socket file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketRights {
    /// Its mode: who may write to it may connect.
    pub mode: u32,
    /// Its group, by number; otherwise that of the process.
    pub group: Option<u32>,
}

impl Default for SocketRights {
    /// The user of the process alone.
    fn default() -> Self {
        Self { mode: 0o600, group: None }
    }
}

/// What is known of a run whose data were deleted under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostData {
    /// Its epoch: tokens go on above it.
    pub epoch: u32,
    /// It may not have ended by itself, with nothing held: nothing is granted until every lease of
    /// it is over.
    pub held: bool,
}

impl Default for Config {
    fn default() -> Self {
        let loopback = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), DEFAULT_PORT);
        Self {
            listen: vec![Address::Tcp(loopback)],
            data: Data::None { fresh: false },
            http: None,
            protocol: Limits { ttl_max: Duration::from_secs(60), ..Limits::default() },
            wire: WireLimits::default(),
            outbox: 8 << 20,
            outboxes: 256 << 20,
            turn: Duration::from_millis(1),
            connections: 10_000,
            connections_per_user: 2_500,
            shards: 16,
            idle_exit: None,
            stop_grace: Duration::from_secs(2),
            keepalive: lockspan_tls::KEEPALIVE,
            tls: None,
            users: None,
            sessions_per_user: 25_000,
            records_per_user: 4_000_000,
            login_within: Duration::from_secs(30),
            insecure: false,
            socket: SocketRights::default(),
            lost: None,
            audit: AuditGate::default(),
        }
    }
}

/// The port of the page and the metrics.
pub const DEFAULT_HTTP_PORT: u16 = 7421;

/// Where a server is to be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Http {
    /// An address of this machine.
    pub at: SocketAddr,
    /// A server that can't listen there does not start. Otherwise it says so, and starts without.
    pub required: bool,
}

/// Where epochs and sessions are kept, so that a restart continues where the last run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// In `lockspan.data` in this directory, which is made if it is not there. If the server
    /// listens on socket files alone, its sessions are not synced: after a crash of the machine
    /// nothing is granted until the longest lease that it could have given is over.
    Dir(PathBuf),
    /// Nowhere. A restart knows of no session, so it grants nothing until the longest lease that it
    /// could have given is over.
    None {
        /// There was no run before this one, or all its clients are gone: grant at once. If that is
        /// not true, two clients can hold the same record.
        fresh: bool,
    },
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A TCP port.
    Tcp(SocketAddr),
    /// A socket file.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Why a text is not an [`Address`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadAddress {
    text: String,
}

impl fmt::Display for BadAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not an address: write <ip>:<port>, as in 127.0.0.1:{DEFAULT_PORT}, or \
             unix:<path>",
            self.text
        )
    }
}

impl std::error::Error for BadAddress {}

impl FromStr for Address {
    type Err = BadAddress;

    /// `127.0.0.1:7420`, `[::1]:7420`, `localhost:7420`, `unix:/run/lockspan.sock`.
    fn from_str(text: &str) -> Result<Self, BadAddress> {
        let bad = || BadAddress { text: text.to_owned() };
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() { Err(bad()) } else { Ok(Self::Unix(path.into())) };
        }
        let address = match text.strip_prefix("localhost:") {
            Some(port) => format!("127.0.0.1:{port}").parse(),
            None => text.parse(),
        };
        address.map(Self::Tcp).map_err(|_| bad())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written_alike() {
        for text in ["127.0.0.1:7420", "[::1]:0", "unix:/run/lockspan.sock"] {
            let address: Address = text.parse().expect(text);
            assert_eq!(address.to_string(), text);
        }
        let local: Address = "localhost:1".parse().expect("localhost is loopback");
        assert_eq!(local.to_string(), "127.0.0.1:1");
        for text in ["", "unix:", "7420", "localhost", "example.org:1", "127.0.0.1:99999"] {
            let why = text.parse::<Address>().expect_err(text).to_string();
            assert!(why.contains("127.0.0.1:7420") && why.contains(text), "{why}");
        }
    }
}
