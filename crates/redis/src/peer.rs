//! How the node's words, and the answers of Redis, get to the desk.

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
pub(crate) struct Mouth(pub(crate) UnboundedSender<Work>);

impl Mouth {
    pub(crate) fn new() -> (Self, UnboundedReceiver<Work>) {
        let (send, receive) = unbounded_channel();
        (Self(send), receive)
    }

    /// If the desk has ended, so has everything that it could be told about.
    pub(crate) fn say(&self, work: Work) {
        let _ = self.0.send(work);
    }
}

impl Peer for Mouth {
    fn tell(&self, session: SessionId, message: ToServer) {
        self.say(Work::Told(session, message));
    }

    fn close(&self) {
        self.say(Work::Close);
    }
}
