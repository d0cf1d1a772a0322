//! How the node's words, and the answers of Redis, get to the desk.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lockspan_client::Peer;
use lockspan_protocol::{Record, SessionId, ToServer};
use redis::{RedisError, Value};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;

use crate::link::Link;
use crate::script::Op;

/// What the desk works off, in order.
#[derive(Debug)]
pub(crate) enum Work {
    /// The node says this.
    Told(SessionId, ToServer),
    /// The node is at its end.
    Close,
    /// There is a connection again.
    Linked(u64, Link),
    /// There is none yet, for this reason.
    Unlinked(RedisError),
}

/// What became of a call.
#[derive(Debug)]
pub(crate) struct Done {
    /// The connection's number.
    pub(crate) link: u64,
    pub(crate) record: Record,
    /// The identifier's number.
    pub(crate) count: u64,
    pub(crate) op: Op,
    /// The round of renewing that it is part of.
    pub(crate) round: Option<u64>,
    /// When it was called.
    pub(crate) sent: Instant,
    /// Nothing: there was no connection.
    pub(crate) result: Option<Result<Value, RedisError>>,
}

/// The node's end of the way to the desk.
#[derive(Clone, Debug)]
pub(crate) struct Mouth {
    work: UnboundedSender<Work>,
    /// Whether Redis can be reached, as the desk last saw.
    is_connected: Arc<AtomicBool>,
}

impl Mouth {
    pub(crate) fn new() -> (Self, UnboundedReceiver<Work>) {
        let (work, receive) = unbounded_channel();
        (Self { work, is_connected: Arc::new(AtomicBool::new(true)) }, receive)
    }

    /// The desk has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.work.is_closed()
    }

    /// What the desk has seen of the connection. It decides nothing.
    pub(crate) fn connected(&self, is_connected: bool) {
        self.is_connected.store(is_connected, Ordering::Relaxed);
    }

    /// If the desk has ended, so has everything that it could be told about.
    pub(crate) fn say(&self, work: Work) {
        let _ = self.work.send(work);
    }
}

impl Peer for Mouth {
    fn tell(&self, session: SessionId, message: ToServer) {
        self.say(Work::Told(session, message));
    }

    fn close(&self) {
        self.say(Work::Close);
    }

    fn is_connected(&self) -> bool {
        self.is_connected.load(Ordering::Relaxed)
    }
}
