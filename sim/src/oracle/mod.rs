//! Who says what is wrong. The oracle knows only what clients were told: when a thread went in and
//! left, with which token, and until when its node's lease stands by the node's own clock. It looks
//! into a server only to see that nothing is left over there.
//!
//! - **exclusion**: among guards whose lease stands by their own clock, never two writers, never a
//!   writer with a reader (all whose clocks keep the margin and whose storage keeps what it has;
//!   elsewhere it is counted)
//! - **token**: write tokens of a record strictly rise as they are used; a read's is at least the
//!   last write's and below the next (the same; that no token is granted twice, and that no
//!   re-assertion brings back a token that a later one has replaced, in all)
//! - **fence**: of writes that the store behind a record accepts, none has a lower token than one
//!   before, and none overwrites what its writer has not seen (all)
//! - **lost**: a guard past its lease is reported lost when its node next runs, before anything
//!   else happens to it (all)
//! - nothing is lost before its lease is over: a restart of a server costs nobody a grant (calm,
//!   jitter, restart)
//! - no guard is lost where nothing happens but that groups move and servers join (moving)
//! - **epoch**: no grant is opened of an earlier epoch than the node knows, and nothing is opened,
//!   drained or refused because a server says so that the node knows to be replaced (all)
//! - **order**: see `order` (calm, and with restarts)
//! - **store**: see `forgets` (all)
//! - **stay**: after a drain at most so many turns begin on a node, and none after its time (all)
//! - **deadlock**: whoever is refused for a deadlock was in a cycle, see `deadlocks` (calm)
//! - **waiting**: when nothing fails (any more), everybody who waits is served in the time that the
//!   plan states (all)
//! - **leak**: what is over does not come back (`books`); what no thread needs and everybody has
//!   given back is unknown to the servers in the end, also sessions, listed sessions
//!   of other servers, and their entries in stores (all)
//! - **refusal**: a machine refuses what a correct driver may say (all)
//! - **panic**: a machine's own assertion (all)

pub(crate) mod books;
pub(crate) mod deadlocks;
pub(crate) mod forgets;
pub(crate) mod guards;
pub(crate) mod order;
pub(crate) mod stays;

use std::fmt;

/// What kind of promise was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Two guards that exclude each other.
    Exclusion,
    /// Tokens out of order, or one twice.
    Token,
    /// The fence let something through.
    Fence,
    /// A guard past its lease was not reported lost, or one within its lease was.
    NotLost,
    /// A node heeded an owner that has been replaced, as it knew.
    Epoch,
    /// Somebody was overtaken.
    Order,
    /// A record went on before the store has forgotten its session.
    Store,
    /// A node kept what others wait for.
    Stay,
    /// A transaction was refused, and was in no cycle.
    Deadlock,
    /// Somebody waits for too long.
    Waiting,
    /// Something is left over.
    Leak,
    /// A machine refused what it must not refuse.
    Refusal,
    /// A machine panicked.
    Panic,
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Which kind.
    pub kind: Kind,
    /// In words.
    pub what: String,
}

impl Failure {
    pub(crate) fn new(kind: Kind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into() }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exclusion => "exclusion",
            Self::Token => "token",
            Self::Fence => "fence",
            Self::NotLost => "lost",
            Self::Epoch => "epoch",
            Self::Order => "order",
            Self::Store => "store",
            Self::Stay => "stay",
            Self::Deadlock => "deadlock",
            Self::Waiting => "waiting",
            Self::Leak => "leak",
            Self::Refusal => "refusal",
            Self::Panic => "panic",
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.what)
    }
}
