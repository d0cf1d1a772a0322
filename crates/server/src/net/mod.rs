//! Sockets: listeners, one task for each connection, and the commands that clients send.

mod access;
pub(crate) mod admission;
pub(crate) mod attention;
pub(crate) mod budget;
mod commands;
mod connection;
pub(crate) mod glob;
mod held;
mod info;
pub(crate) mod listen;
mod locks;
mod login;
mod long;
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
use crate::turn::Lane;
use crate::users::Users;
use admission::Admission;
use attention::Vigil;
use budget::Budget;
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
    /// Where connections wait whose commands take long.
    pub(crate) lane: Lane,
    /// What may wait for all of them together.
    pub(crate) budget: Arc<Budget>,
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
    /// Connections that are closed because they don't read.
    pub(crate) slow_readers: Seldom,
}

impl Shared {
    /// What the server has done, and has now.
    pub(crate) fn stats(&self) -> Stats {
        Stats {
            connections: self.peers.len() as u64,
            bytes_out: self.peers.sent_bytes(),
            bytes_waiting: self.budget.sum() as u64,
            ..self.service.stats()
        }
    }
}
