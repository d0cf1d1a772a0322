//! What a small world of two servers is made of, and what may happen in it how often.

use std::sync::LazyLock;
use std::time::Duration;

use lockspan_protocol::cache::{Config, PageLimits};
use lockspan_protocol::{
    Bugs, GroupSet, Handoff, Limits, LockCache, LockServer, Record, ServerId, SessionId,
    StayLimits, margin,
};

use crate::frozen::Memo;
use crate::node::Op;

pub(crate) static RECORD: LazyLock<Record> =
    LazyLock::new(|| Record::new("r", "x").expect("a good name"));
/// Of another group, which nobody serves: wanting it opens a session.
pub(crate) static OTHER: LazyLock<Record> =
    LazyLock::new(|| Record::new("r", "y").expect("a good name"));

/// The sessions of a node are numbered from here, times its number plus one.
const SESSIONS: u64 = 1000;

/// The lease of a session. What is not answered is sent again with the next keep-alive, a third of
/// this later.
const TTL: Duration = Duration::from_millis(1200);

/// How often something may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    /// Groups that are moved from one living server to the other.
    pub(crate) moves: u8,
    /// Servers that are replaced although they live.
    pub(crate) suspicions: u8,
    /// Messages that are late: anything may happen before they arrive.
    pub(crate) delays: u8,
    /// Times that the clock moves on, each to the next deadline of anybody.
    pub(crate) passes: u8,
    /// Ways between a node and a server on which all is lost from then on.
    pub(crate) cuts: u8,
    /// Nodes that are not heard of any more.
    pub(crate) crashes: u8,
}

/// A small world; for the checker, the model.
#[derive(Debug)]
pub(crate) struct Moves {
    pub(crate) scripts: [&'static [Op]; 2],
    pub(crate) budget: Budget,
    /// Messages between nodes and servers arrive in any order, however many are late.
    pub(crate) any_order: bool,
    /// The nodes have a session with the second server, too, from the beginning.
    pub(crate) both: bool,
    /// The first node's thread is in from the beginning.
    pub(crate) held: bool,
    /// The second node has asked from the beginning.
    pub(crate) asked: bool,
    /// The group has moved from the first server to the second already, and what the second has
    /// answered to the first node's re-assertions is late.
    pub(crate) unanswered: bool,
    /// Nodes are told of each term by those who know, not only by the servers.
    pub(crate) news: bool,
    /// The store's answer to a server that wants to act on is a message, and may be late. Without
    /// this, a server that was replaced does not hear so before its own lease is over.
    pub(crate) confirms: bool,
    /// Clocks of nodes are slow and those of servers are fast, by as much as they may be.
    pub(crate) skewed: bool,
    pub(crate) bugs: Bugs,
    pub(crate) servers: Memo<LockServer>,
    pub(crate) caches: Memo<LockCache>,
}

impl Moves {
    pub(crate) fn new(scripts: [&'static [Op]; 2], budget: Budget) -> Self {
        Self {
            scripts,
            budget,
            any_order: false,
            both: false,
            held: false,
            asked: false,
            unanswered: false,
            news: false,
            confirms: false,
            skewed: false,
            bugs: Bugs::NONE,
            servers: Memo::new(),
            caches: Memo::new(),
        }
    }

    pub(crate) fn any_order(self) -> Self {
        Self { any_order: true, ..self }
    }

    pub(crate) fn both(self) -> Self {
        Self { both: true, ..self }
    }

    pub(crate) fn held(self) -> Self {
        Self { held: true, ..self }
    }

    pub(crate) fn asked(self) -> Self {
        Self { asked: true, ..self }
    }

    pub(crate) fn unanswered(self) -> Self {
        Self { unanswered: true, ..self }
    }

    pub(crate) fn news(self) -> Self {
        Self { news: true, ..self }
    }

    pub(crate) fn confirms(self) -> Self {
        Self { confirms: true, ..self }
    }

    pub(crate) fn skewed(self) -> Self {
        Self { skewed: true, ..self }
    }

    pub(crate) fn server(&self) -> LockServer {
        let limits = Limits { resend: Self::third(), bugs: self.bugs, ..Limits::default() };
        LockServer::new(limits, 1, 1)
    }

    pub(crate) fn cache(&self, node: usize) -> LockCache {
        LockCache::new(Config {
            first_session: SessionId(SESSIONS * (node as u64 + 1)),
            ttl: TTL,
            handoff: Handoff::Direct,
            label: None,
            resend: Self::third(),
            stay: StayLimits::default(),
            records: 2,
            owners: 2,
            pages: PageLimits { claims: 1, bytes: 1 << 10, window: 1 },
            bugs: self.bugs,
        })
    }

    /// After how long what is not answered is sent again, and servers ask whether they may act on.
    pub(crate) fn third() -> Duration {
        TTL / 3
    }

    /// For how long a server may act that was confirmed.
    pub(crate) fn acts() -> Duration {
        TTL * 2 / 3
    }

    /// For how long it believes so, by its own clock.
    pub(crate) fn own_lease() -> Duration {
        Self::acts() - margin(Self::acts())
    }

    pub(crate) fn node_of(session: SessionId) -> usize {
        (session.0 / SESSIONS) as usize - 1
    }

    /// The group that moves.
    pub(crate) fn groups() -> GroupSet {
        GroupSet::from_iter([RECORD.group()])
    }

    pub(crate) fn server_id(server: usize) -> ServerId {
        ServerId(server as u32)
    }
}
