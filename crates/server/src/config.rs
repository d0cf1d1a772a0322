//! Options of a server.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use lockspan_protocol::Limits;
use lockspan_tls::ServerFiles;
use lockspan_wire::WireLimits;

use crate::audit::AuditGate;

/// The default port of the lock service.
pub const DEFAULT_PORT: u16 = 7420;

/// For each record that a server may keep, so many grants and waits: sessions share records.
pub(crate) const CLAIMS_PER_RECORD: usize = 4;

/// Options of a server. [`Config::default`] listens on the loopback address, port 7420, and keeps
/// nothing on disk.
///
/// The default limits allow clients to make the server use some 20 GiB of memory.
/// [`Config::for_this_machine`] chooses limits that fit the machine.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen. Defaults to `127.0.0.1:7420`. Port 0 means any free port;
    /// [`Server::addresses`](crate::Server::addresses) tells which.
    pub listen: Vec<Address>,
    /// Where epochs and sessions are stored. Defaults to nowhere.
    pub data: Data,
    /// Where the web page and the metrics are served over HTTP. Defaults to nowhere. Port 0 means
    /// any free port; [`Server::http_address`](crate::Server::http_address) tells which.
    pub http: Option<Http>,
    /// Limits and times of the lock protocol. Leases are at most 60 s by default.
    pub protocol: Limits,
    /// Limits on what a client may send.
    pub wire: WireLimits,
    /// How many bytes of events may be buffered for a client that does not read, and of replies
    /// behind one that is not ready yet. Beyond that its connection is closed. Defaults to 8 MiB.
    /// Other replies need no such limit: while 64 KiB of them are buffered, further commands of the
    /// client are not read.
    pub outbox: usize,
    /// How many bytes may be buffered for all clients together, including incomplete commands.
    /// Beyond that the connection with the largest buffer is closed. Defaults to 256 MiB; at least
    /// [`outbox`](Self::outbox) and the longest frame.
    pub outboxes: usize,
    /// How long the commands of one connection may keep a thread before other connections have
    /// their turn. Defaults to 1 ms. Shorter turns are fairer and cost more. A single step is not
    /// interrupted.
    pub turn: Duration,
    /// How many connections the server accepts. Defaults to 10,000. If there are users, the last
    /// few are reserved for users that may `admin` everything.
    pub connections: usize,
    /// How many connections one user may have. Defaults to 2,500.
    pub connections_per_user: usize,
    /// Into how many tables, each with its own mutex, the records are divided: 1 to 256. Defaults
    /// to 16.
    pub shards: usize,
    /// The server stops after this time without a session and a connection. Defaults to never.
    pub idle_exit: Option<Duration>,
    /// How long [`Server::stop`](crate::Server::stop) waits for clients to read what they were
    /// sent. Defaults to 2 s.
    pub stop_grace: Duration,
    /// After this time without data from a TCP client, TCP keepalive probes are sent: 1 s to 9 h. A
    /// client that does not answer them for 30 s, or receives nothing for this time and 30 s, is
    /// disconnected. Its sessions live on until their leases expire.
    pub keepalive: Duration,
    /// Certificate and key for TLS, on every TCP port. Defaults to no TLS. Socket files never have
    /// TLS; they are protected by their mode.
    pub tls: Option<ServerFiles>,
    /// The file of users, see [`users`](crate::users). Defaults to none: then everybody who can
    /// connect may do everything.
    pub users: Option<PathBuf>,
    /// How many sessions one user may have. Defaults to 25,000. Sessions from before a restart are
    /// accepted beyond it.
    pub sessions_per_user: usize,
    /// How many records the sessions of one user may hold or wait for. Defaults to 4,000,000.
    /// Records from before a restart are accepted beyond it.
    pub records_per_user: usize,
    /// How long a client may take to log in. Defaults to 30 s.
    pub login_within: Duration,
    /// Whether to listen on addresses that other machines can reach without TLS and users. Defaults
    /// to `false`.
    pub insecure: bool,
    /// Who may connect to the socket files. Defaults to the user of the process.
    pub socket: SocketRights,
    /// What is known of an earlier run whose data were lost. Defaults to none.
    pub lost: Option<LostData>,
    /// Closed by the log writer when it can no longer keep lines about operators' actions: then
    /// operators' commands are refused.
    pub audit: AuditGate,
}

/// Who may connect to a socket file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketRights {
    /// The mode of the file: users that may write to it may connect. Defaults to `0o600`.
    pub mode: u32,
    /// The group of the file, by number. Defaults to that of the process.
    pub group: Option<u32>,
}

impl Default for SocketRights {
    /// The user of the process alone.
    fn default() -> Self {
        Self { mode: 0o600, group: None }
    }
}

/// What is known of an earlier run whose data were deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostData {
    /// The epoch of that run: the tokens of this one are higher.
    pub epoch: u32,
    /// Whether locks may have been held when that run ended: then nothing is granted until every
    /// lease of it has expired.
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

/// The default port of the web page and the metrics.
pub const DEFAULT_HTTP_PORT: u16 = 7421;

/// Where the web page and the metrics are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Http {
    /// The address to listen on.
    pub at: SocketAddr,
    /// Whether the server fails to start if it cannot listen there. If `false`, it logs a warning
    /// and starts without the page.
    pub required: bool,
}

/// Where epochs and sessions are stored, so that a restart continues where the last run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// In the file `lockspan.data` of this directory, which is created if needed. If the server
    /// listens only on socket files, sessions are not synced to disk: after a crash of the machine
    /// nothing is granted until the longest possible lease has expired.
    Dir(PathBuf),
    /// Nowhere. After a restart the server grants nothing until the longest possible lease has
    /// expired, because it does not know the sessions of the last run.
    None {
        /// There was no earlier run, or all its clients are gone: grant at once. If that is not
        /// true, two clients can hold the same record.
        fresh: bool,
    },
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A TCP port.
    Tcp(SocketAddr),
    /// A Unix socket file.
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
            "{:?} is not an address: use <ip>:<port>, as in 127.0.0.1:{DEFAULT_PORT}, or \
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
