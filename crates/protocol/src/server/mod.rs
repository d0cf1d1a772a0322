//! The server side: sessions with their leases, tables of records, and a wait-for graph.
//!
//! | part | what it knows | a server has |
//! |---|---|---|
//! | [`Registry`](registry::Registry) | sessions, leases, terms: all that is durable | one |
//! | [`LockTable`] | the records of its groups: holders, waiters, recovery | one per shard |
//! | [`WaitGraph`] | owners that wait for owners | one |
//! | [`LockServer`] | all three, for a driver with one thread | one, instead of the parts |
//!
//! The parts exchange inputs and outputs too, so that a driver can run each shard in its own
//! thread.

mod budget;
mod claims;
mod graph;
mod lock_server;
mod names;
pub mod registry;
pub mod table;
#[cfg(test)]
mod tests;
pub mod watch;
mod window;

use std::time::Duration;

use crate::ids::{SessionId, StoreId};
use crate::messages::{Client, Handoff, Term, ToNode, ToServer};
use crate::slot::GroupSet;
use crate::time::Tick;
use crate::token::Epoch;

/// Scan at most this many entries per entry returned: the caller may lack the right to see the
/// rest.
const LOOKED: usize = 64;

pub use budget::Budget;
pub use graph::{Fact, OwnersView, SEARCH_PAUSE, Scope, Victim, WaitGraph};
pub use lock_server::{LockServer, reply_to};
pub use table::{LockTable, UserQuota};

/// What happens to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A session's node says something.
    Message {
        /// Whose session.
        session: SessionId,
        /// What it says.
        message: ToServer,
    },
    /// A client that is no node of this protocol opens a session; see [`Client::Stranger`]. A node
    /// says [`ToServer::Open`].
    Admit {
        /// Its session.
        session: SessionId,
        /// Its lease.
        ttl: Duration,
        /// How its waits end.
        handoff: Handoff,
    },
    /// Serve these groups from now on: nobody else does. Before its first one after a start, a
    /// server is to be shown no message: it would take a session that it is about to list for an
    /// unknown one.
    Take {
        /// Which.
        groups: GroupSet,
        /// The highest epoch that any of them ever had.
        above: Epoch,
        /// The sessions in the store of their former owner.
        listed: Vec<Listed>,
    },
    /// Serve these groups no more: somebody else will, and counts on the leases of this server's
    /// sessions coming to their end there. What nodes have there is not extended any more, since no
    /// extension names the groups. A stranger does not know that, so the session of one that has
    /// something there is not extended at all, not even after a restart. Nobody may take the groups
    /// before [`Output::Left`] says that this is durable; if the server dies before, they are still
    /// its own.
    Leave {
        /// Which.
        groups: GroupSet,
    },
    /// An operator wants a session to end: it is not extended any more, not even after a restart,
    /// and its node is told at once that it has no session. What it has goes on when its node
    /// closes it, or when its lease is over.
    Retire {
        /// Which.
        session: SessionId,
    },
    /// The server's own lease with its cluster; past it the server answers nobody.
    Own {
        /// Its end; none if the server is alone.
        until: Option<Tick>,
    },
    /// A write to storage is durable.
    Stored {
        /// Which.
        store: StoreId,
    },
    /// Time has passed.
    Tick,
}

/// A session that was in the store when a term began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Which.
    pub session: SessionId,
    /// Its lease.
    pub ttl: Duration,
    /// How its waits end.
    pub handoff: Handoff,
    /// It is a session with this server, from before a restart; otherwise with another one, and its
    /// node has to open a session here to speak for it.
    pub here: bool,
    /// As it was stored last, see [`Store::Session`]: it is not extended any more.
    pub last: bool,
    /// Whose it is. Where that is not known, a stranger's.
    pub client: Client,
    /// For how long, from now on, its server may still extend it: zero if that server has left the
    /// groups or is known to have stopped; otherwise the time for which a server may act after it
    /// was last confirmed.
    pub acts: Duration,
}

/// What a server wants done, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Tell a session's node.
    Send {
        /// Whose session.
        session: SessionId,
        /// What.
        message: ToNode,
    },
    /// Make it durable, and come back with [`Input::Stored`]. Try until it is. Writes become
    /// durable in the order in which they are put out.
    Store {
        /// Names it.
        store: StoreId,
        /// What.
        what: Store,
    },
    /// The session has ended, and nothing of it is left.
    Ended {
        /// Which.
        session: SessionId,
    },
    /// A listed session of another server is not waited for any more in the groups that were taken
    /// together, and is forgotten there.
    Settled {
        /// Which.
        former: SessionId,
    },
    /// A node has shown a later epoch, or the tokens of this one are used up: these groups are not
    /// served until they are taken again, above this epoch.
    Behind {
        /// Which.
        groups: GroupSet,
        /// The highest epoch known now.
        above: Epoch,
    },
    /// After each [`Input::Leave`], in their order: somebody else may take these groups now, with
    /// the sessions that are in this server's store.
    Left {
        /// Those that were left and have not been taken again since.
        groups: GroupSet,
    },
}

/// What is durable: epochs and sessions, nothing per grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Store {
    /// These groups are in this epoch.
    Epoch(Term),
    /// The session is open with this server. Replaces what was stored of it before.
    Session {
        /// Which.
        session: SessionId,
        /// Its lease.
        ttl: Duration,
        /// How its waits end.
        handoff: Handoff,
        /// It is not extended any more: an operator has ended it, or it is a stranger's and had
        /// something in groups that were left.
        last: bool,
        /// Whose it is.
        client: Client,
    },
    /// The session with this server is over: no owner may find it any more.
    Forget {
        /// Which.
        session: SessionId,
    },
    /// A listed session of another server is over in these groups, which this server has taken in
    /// this epoch. It stays listed for all others: those of another hand-over, and those that this
    /// server has left since. Of a group that is in another epoch by now it says nothing.
    Settle {
        /// Which session.
        former: SessionId,
        /// Where.
        term: Term,
    },
}
