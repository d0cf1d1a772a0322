//! Sockets: listeners, one task for each connection, and the commands that clients send.

mod access;
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
pub(crate) mod strangers;

use std::sync::Arc;
use std::time::Instant;

use crate::config::{Address, Config};
use crate::seldom::Seldom;
use crate::service::Service;
use crate::stats::Stats;
use crate::users::Users;
use attention::Vigil;
use peers::Peers;
use strangers::Strangers;

/// What every connection of a server knows.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) service: Arc<Service>,
    pub(crate) config: Config,
    pub(crate) peers: Peers,
    /// Those who have yet to log in, or are in their handshake.
    pub(crate) strangers: Arc<Strangers>,
    /// Those who may log in; none: whoever connects may do everything.
    pub(crate) users: Option<Arc<Users>>,
    /// Connections that are refused, for the log.
    pub(crate) refusals: Seldom,
    pub(crate) vigil: Option<Vigil>,
    /// Where the server listens.
    pub(crate) addresses: Vec<Address>,
    /// 40 hexadecimal digits, drawn for this run.
    pub(crate) run_id: String,
    pub(crate) started: Instant,
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
