//! Sockets: listeners, one task for each connection, and the commands that clients send.

mod access;
pub(crate) mod admission;
pub(crate) mod attention;
mod commands;
mod connection;
pub(crate) mod glob;
mod info;
pub(crate) mod listen;
mod locks;
mod login;
pub(crate) mod outbox;
pub(crate) mod peers;
pub(crate) mod socket_file;
mod spare;

use std::sync::Arc;
use std::time::Instant;

use crate::config::{Address, Config};
use crate::seldom::Seldom;
use crate::service::Service;
use crate::stats::Stats;
use crate::users::Users;
use admission::Admission;
use attention::Vigil;
use peers::Peers;

/// What every connection of a server knows.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) service: Arc<Service>,
    pub(crate) config: Config,
    pub(crate) peers: Peers,
    /// How many connections there are, and may be.
    pub(crate) admission: Arc<Admission>,
    /// Those who may log in; none: whoever connects may do everything.
    pub(crate) users: Option<Arc<Users>>,
    /// What clients can cause in the log, as often as they like.
    pub(crate) floods: Floods,
    pub(crate) vigil: Option<Vigil>,
    /// Where the server listens.
    pub(crate) addresses: Vec<Address>,
    /// 40 hexadecimal digits, drawn for this run.
    pub(crate) run_id: String,
    pub(crate) started: Instant,
}

/// Lines of the log that clients cause, each kind with its bound.
#[derive(Debug, Default)]
pub(crate) struct Floods {
    /// Connections and logins that are refused because of a limit.
    pub(crate) refused: Seldom,
    /// Handshakes that fail.
    pub(crate) no_tls: Seldom,
}

impl Shared {
    /// What the server has done, and has now.
    pub(crate) fn stats(&self) -> Stats {
        Stats {
            connections: self.peers.len() as u64,
            bytes_out: self.peers.sent_bytes(),
            ..self.service.stats()
        }
    }
}
