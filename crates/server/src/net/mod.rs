//! Sockets: listeners, one task for each connection, and the commands that clients send.

pub(crate) mod attention;
mod commands;
mod connection;
mod glob;
mod info;
pub(crate) mod listen;
mod locks;
pub(crate) mod outbox;
pub(crate) mod peers;
pub(crate) mod stream;

use std::sync::Arc;
use std::time::Instant;

use crate::config::{Address, Config};
use crate::service::Service;
use attention::Vigil;
use peers::Peers;

/// What every connection of a server knows.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) service: Arc<Service>,
    pub(crate) config: Config,
    pub(crate) peers: Peers,
    pub(crate) vigil: Option<Vigil>,
    /// Where the server listens.
    pub(crate) addresses: Vec<Address>,
    /// 40 hexadecimal digits, drawn for this run.
    pub(crate) run_id: String,
    pub(crate) started: Instant,
}
