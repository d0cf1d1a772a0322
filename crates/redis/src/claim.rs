//! What we have at one record: held, in line, or asked for.

use std::sync::Arc;
use std::time::Duration;

use lockspan_protocol::{Mode, Seq, Token};
use tokio::time::Instant;

use crate::alarms::Alarm;
use crate::keys::Keys;
use crate::script::Op;

/// A lock of ours, with one identifier for all its life.
#[derive(Debug)]
pub(crate) struct Claim {
    /// The number in its identifier.
    pub(crate) count: u64,
    pub(crate) keys: Arc<Keys>,
    /// The number under which the node knows it.
    pub(crate) seq: Seq,
    /// The number of the upgrade that it waits for.
    pub(crate) upgrade: Option<Seq>,
    /// What is held, or asked for if nothing is.
    pub(crate) mode: Mode,
    pub(crate) token: Token,
    /// What has yet to succeed. Nothing: it is held, as far as we know.
    pub(crate) pending: Option<Op>,
    /// It stands in line.
    pub(crate) is_queued: bool,
    pub(crate) alarm: Option<Alarm>,
    pub(crate) trouble: Retry,
    /// Its lease counts from then or later.
    pub(crate) renewed: Instant,
    /// When we last heard that something became of it.
    pub(crate) changed: Instant,
    /// A call whose answer did not come can still reach Redis later, or its end was not renewed: it
    /// is not converted any more, and a word that it is granted is not believed but asked about.
    pub(crate) is_doubtful: bool,
    /// Redis may have heard of it.
    pub(crate) was_sent: bool,
}

/// How long something has not worked, and when it is tried again.
#[derive(Debug, Default)]
pub(crate) struct Retry {
    pub(crate) since: Option<Instant>,
    pause: Duration,
}

impl Retry {
    /// It has failed once more: how long to wait, and for how long it fails already.
    pub(crate) fn failed(&mut self, now: Instant) -> (Duration, Duration) {
        self.pause = (self.pause * 2).clamp(Duration::from_millis(10), Duration::from_millis(500));
        (self.pause, now - *self.since.get_or_insert(now))
    }
}

impl Claim {
    pub(crate) fn new(seq: Seq, mode: Mode, keys: Arc<Keys>) -> Self {
        let acquire = if mode == Mode::Read { Op::AcquireRead } else { Op::AcquireWrite };
        Self {
            count: seq.0,
            keys,
            seq,
            upgrade: None,
            mode,
            token: Token::default(),
            pending: Some(acquire),
            is_queued: false,
            alarm: None,
            trouble: Retry::default(),
            renewed: Instant::now(),
            changed: Instant::now(),
            is_doubtful: false,
            was_sent: false,
        }
    }

    /// Whether something of it is held, be it while an upgrade waits.
    pub(crate) fn is_held(&self) -> bool {
        !matches!(self.pending, Some(Op::AcquireRead | Op::AcquireWrite))
    }

    /// Whether a downgrade may still come to Redis: after an upgrade it would make a reader of the
    /// writer.
    pub(crate) fn may_be_undone(&self) -> bool {
        self.is_doubtful || self.pending == Some(Op::Downgrade)
    }

    /// How it ends, given what is known about it.
    pub(crate) fn end(&self) -> Op {
        match (self.pending, self.mode) {
            _ if self.is_doubtful => Op::Cancel,
            (None, Mode::Read) => Op::ReleaseRead,
            (None, _) => Op::ReleaseWrite,
            (Some(_), _) => Op::Cancel,
        }
    }
}

/// A lock of ours that is over, until Redis has heard it.
#[derive(Debug)]
pub(crate) struct Leaving {
    pub(crate) keys: Arc<Keys>,
    pub(crate) record: lockspan_protocol::Record,
    pub(crate) trouble: Retry,
    pub(crate) alarm: Option<Alarm>,
    /// Then its lease is over, and there is nothing left to say.
    pub(crate) until: Instant,
}
