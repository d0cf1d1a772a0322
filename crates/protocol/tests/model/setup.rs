//! What a small world is made of, and what may happen in it how often.

use std::sync::LazyLock;
use std::time::Duration;

use lockspan_protocol::cache::{Config, PageLimits};
use lockspan_protocol::{
    Bugs, GroupSet, Handoff, Limits, LockCache, LockServer, Record, ServerId, SessionId, StayLimits,
};

use super::frozen::Memo;
use super::node::Op;

pub(crate) static RECORD: LazyLock<Record> =
    LazyLock::new(|| Record::new("r", "x").expect("a good name"));
pub(crate) const SERVER: ServerId = ServerId(0);
/// The sessions of a node are numbered from here, times its number plus one.
const SESSIONS: u64 = 1000;

/// How often something may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    /// Threads that give up waiting.
    pub(crate) withdraws: u8,
    /// Messages that arrive twice.
    pub(crate) doubles: u8,
    /// Messages to a node that are lost, and cancels.
    pub(crate) losses: u8,
    /// Messages of any kind that are lost.
    pub(crate) any_losses: u8,
    /// Times that the clock moves on, each to the next deadline of anybody.
    pub(crate) passes: u8,
    pub(crate) node_crashes: u8,
    pub(crate) server_crashes: u8,
}

/// A small world; for the checker, the model.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) scripts: [&'static [Op]; 2],
    pub(crate) handoff: Handoff,
    pub(crate) budget: Budget,
    /// The sessions are not open at the beginning.
    pub(crate) cold: bool,
    /// What is written is durable some time later, and may not be when the server crashes.
    pub(crate) slow_disk: bool,
    /// What a node and the server say to each other arrives in the order in which it was said.
    pub(crate) ordered: bool,
    /// What node 1 says and is told arrives at once.
    pub(crate) prompt: bool,
    /// When the server crashes, all messages under way are lost, and the nodes are told.
    pub(crate) connected: bool,
    /// Leases are short and nothing is sent again before they end.
    pub(crate) short_leases: bool,
    pub(crate) bugs: Bugs,
    pub(crate) servers: Memo<LockServer>,
    pub(crate) caches: Memo<LockCache>,
}

impl Setup {
    pub(crate) fn new(scripts: [&'static [Op]; 2], budget: Budget) -> Self {
        Self {
            scripts,
            handoff: Handoff::Direct,
            budget,
            cold: false,
            slow_disk: false,
            ordered: false,
            prompt: false,
            connected: false,
            short_leases: false,
            bugs: Bugs::NONE,
            servers: Memo::new(),
            caches: Memo::new(),
        }
    }

    /// Turns are handed over by a retry.
    pub(crate) fn retry(self) -> Self {
        Self { handoff: Handoff::Retry, ..self }
    }

    pub(crate) fn ordered(self) -> Self {
        Self { ordered: true, ..self }
    }

    pub(crate) fn prompt(self) -> Self {
        Self { prompt: true, ..self }
    }

    pub(crate) fn connected(self) -> Self {
        Self { connected: true, ..self }
    }

    pub(crate) fn short_leases(self) -> Self {
        Self { short_leases: true, ..self }
    }

    pub(crate) fn cold(self) -> Self {
        Self { cold: true, slow_disk: true, ..self }
    }

    fn ttl(&self) -> Duration {
        Duration::from_secs(if self.short_leases { 1 } else { 10 })
    }

    fn resend(&self) -> Duration {
        if self.short_leases { Duration::from_secs(5) } else { Duration::from_millis(500) }
    }

    pub(crate) fn server(&self) -> LockServer {
        let limits = Limits { resend: self.resend(), bugs: self.bugs, ..Limits::default() };
        LockServer::new(limits, 1, 1)
    }

    pub(crate) fn cache(&self, node: usize) -> LockCache {
        LockCache::new(Config {
            first_session: SessionId(SESSIONS * (node as u64 + 1)),
            ttl: self.ttl(),
            handoff: self.handoff,
            label: None,
            resend: self.resend(),
            stay: StayLimits::default(),
            records: 2,
            owners: 2,
            pages: PageLimits { claims: 1, bytes: 1 << 10, window: 1 },
            bugs: self.bugs,
        })
    }

    pub(crate) fn node_of(session: SessionId) -> usize {
        (session.0 / SESSIONS) as usize - 1
    }

    /// The one group that the server serves.
    pub(crate) fn groups() -> GroupSet {
        GroupSet::from_iter([RECORD.group()])
    }
}
