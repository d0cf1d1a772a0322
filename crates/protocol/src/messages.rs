//! What nodes and servers say to each other. No message waits for another: each is complete, may
//! come twice, late, in any order or not at all.
//!
//! The numbers in a message say what it is about. `seq` names the acquire; a message that names an
//! earlier one than its receiver knows changes nothing. `epoch` names the term of a group's owner.

use std::time::Duration;

use crate::annotation::Annotation;
use crate::ids::{Owner, Seq, SessionId};
use crate::mode::Mode;
use crate::record::Record;
use crate::refusal::AcquireRefusal;
use crate::slot::GroupSet;
use crate::token::{Epoch, Ticket, Token};

/// How a waiting acquire learns that its turn has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Handoff {
    /// The server pushes the grant: three messages for a contended acquire.
    Direct,
    /// The server pushes a retry, and the client acquires again: six messages. For clients that
    /// cannot receive a pushed grant.
    Retry,
}

/// What kind of client a session belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Client {
    /// A node of this protocol: it knows which groups an extension is for, and stops talking to a
    /// server about a group when it has heard of a later owner.
    Node,
    /// Any other client: a program that speaks plain RESP, or a node of an older version. It
    /// believes that an extension is for all that it has, so its session is not extended at all
    /// when that is not true.
    Stranger,
}

/// From a node to a server. The session is told beside the message: a connection knows its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ToServer {
    /// Begin a session. Idempotent; answered by [`ToNode::Opened`] when it is durable.
    Open {
        /// How long the session lives without a keep-alive.
        ttl: Duration,
        /// How its waits end.
        handoff: Handoff,
    },
    /// The node lives. Answered by [`ToNode::Alive`] with the same number, unless the session has
    /// yet to re-assert what it holds: then by [`ToNode::Serving`].
    KeepAlive {
        /// Grows with each; tells the node which of its sendings was answered.
        number: u64,
    },
    /// The session ends now, with everything in it.
    Close,
    /// Names the session for people: `program@host[pid]`. Not answered; a later one replaces it.
    Label {
        /// The name.
        label: Annotation,
    },
    /// Says for people what the acquire `seq` is for. Not answered; a later one replaces it. It
    /// follows its acquire or re-assertion, and is forgotten with it.
    Note {
        /// Which record.
        record: Record,
        /// Which acquire.
        seq: Seq,
        /// What it is for.
        note: Annotation,
    },
    /// Asks who holds the record for which the acquire `seq` waits. Answered by
    /// [`ToNode::HeldBy`].
    WhoHolds {
        /// Which record.
        record: Record,
        /// The acquire that waits.
        seq: Seq,
    },
    /// Grant the record, now or later. Idempotent: the same seq is answered again. Everything of
    /// this session at this record with an earlier seq is over, but for the read under an upgrade.
    Acquire {
        /// What.
        record: Record,
        /// How.
        mode: Mode,
        /// New for each acquire and each conversion.
        seq: Seq,
        /// The epoch of the record's group, as the node knows it.
        epoch: Epoch,
        /// The session's threads hold the record for reading and keep it while they wait to write.
        upgrade: bool,
        /// Who waits, for deadlock detection. A repeated acquire replaces them. Empty: no
        /// detection.
        owners: Vec<Owner>,
    },
    /// The grant `seq` and everything before it is over; what was granted remains for reading, as
    /// number `keep`, if there is one. Not answered: if it is lost, the next revoke asks again.
    Release {
        /// What.
        record: Record,
        /// The last number that is over.
        seq: Seq,
        /// The number under which the session goes on reading: a downgrade.
        keep: Option<Seq>,
    },
    /// The waiter `seq` has gone. If its grant has crossed this, it is given back by it.
    Cancel {
        /// What.
        record: Record,
        /// The acquire that is withdrawn.
        seq: Seq,
        /// For an upgrade: the number under which the session goes on reading.
        keep: Option<Seq>,
    },
    /// A revoke can't be answered at once: who holds the record, and whom they wait for on this
    /// node.
    Report {
        /// What.
        record: Record,
        /// The grant that was revoked.
        seq: Seq,
        /// Grows with each report; a late one does not replace a later one.
        number: u64,
        /// Owners that hold the record.
        holders: Vec<Owner>,
        /// Waits between owners on this node, as far as they lead away from the holders.
        waits: Vec<LocalWait>,
    },
    /// After a restart or a change of owner: what the node held or waited for before.
    Reassert {
        /// What.
        record: Record,
        /// The new epoch, of which [`ToNode::Serving`] told.
        epoch: Epoch,
        /// The session that held it; after a restart of the same server it is the same session.
        former: SessionId,
        /// The number of the acquire, unchanged.
        seq: Seq,
        /// How.
        mode: Mode,
        /// Whether it was held or waited for.
        claim: Claim,
    },
    /// Of what is re-asserted, so much has a seq from `first` to `last`. Answered by
    /// [`ToNode::Heard`]: the node tells little at a time, and goes on when the server has it.
    Page {
        /// As [`ToNode::Serving`] named them.
        groups: GroupSet,
        /// The new epoch.
        epoch: Epoch,
        /// The session that held them.
        former: SessionId,
        /// The first seq of the page, which names it.
        first: Seq,
        /// Its last seq.
        last: Seq,
        /// How many different seqs of it were re-asserted.
        count: u32,
        /// Their sum, wrapping: the server must have these and no others.
        sum: u64,
    },
    /// A former session of this node had nothing in these groups. It is said *as* that session, so
    /// that a node that has nothing there needs no session with the new owner. Answered by
    /// [`ToNode::Recovered`].
    Nothing {
        /// As [`ToNode::Serving`] named them.
        groups: GroupSet,
        /// The new epoch.
        epoch: Epoch,
    },
    /// That was all: `count` re-assertions for these groups.
    Reasserted {
        /// As [`ToNode::Serving`] named them.
        groups: GroupSet,
        /// The new epoch.
        epoch: Epoch,
        /// The session that held them.
        former: SessionId,
        /// How many different seqs were re-asserted.
        count: u32,
        /// Their sum, wrapping: the server must have these and no others.
        sum: u64,
    },
}

/// What is re-asserted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Claim {
    /// A grant.
    Held {
        /// Its token, which it keeps.
        token: Token,
    },
    /// An acquire in line.
    Waiting {
        /// Its place, if the old server had told it.
        ticket: Option<Ticket>,
        /// It waits with a read in hand.
        upgrade: bool,
        /// Who waits.
        owners: Vec<Owner>,
    },
}

/// Who holds a record, for people.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holder {
    /// The label of the session, or its public id if it has none.
    pub label: Annotation,
    /// What the acquire is for, if that was said.
    pub note: Option<Annotation>,
    /// How it holds the record.
    pub mode: Mode,
    /// For how long the session has had the record, cached or in use. Zero if that is not known.
    pub held: Duration,
}

/// On one node, `waiter` waits for something that `holder` has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LocalWait {
    /// Who waits.
    pub waiter: Owner,
    /// For whom.
    pub holder: Owner,
}

/// A set of groups and the epoch in which the sender serves them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Term {
    /// Which groups.
    pub groups: GroupSet,
    /// Since when.
    pub epoch: Epoch,
}

/// From a server to a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ToNode {
    /// The session is durable.
    Opened {
        /// What this server serves, each term with its epoch.
        terms: Vec<Term>,
    },
    /// The keep-alive with this number has come, and the lease was extended for what the session
    /// has in these groups. What it has in others ends when the lease as it stood before ends.
    Alive {
        /// Of the keep-alive.
        number: u64,
        /// The groups that the server serves, without those in which the session has yet to
        /// re-assert.
        groups: GroupSet,
    },
    /// The server gives these groups up, and the session holds or waits for records in them. The
    /// next owner is to be found, and told what the session has there.
    Moved {
        /// Which groups.
        groups: GroupSet,
    },
    /// This server does not know the session, or has ended it: everything in it is lost.
    NoSession,
    /// A term has begun. A node that knows an earlier epoch of these groups re-asserts.
    Serving(Term),
    /// The answer to [`ToServer::Page`].
    Heard {
        /// Which term.
        term: Term,
        /// The former session.
        former: SessionId,
        /// The first seq of the page.
        first: Seq,
        /// The server has all of the page. If not, the node re-asserts what is in it again.
        whole: bool,
    },
    /// The server has all that was re-asserted in the name of this former session in this term.
    Recovered {
        /// Which term.
        term: Term,
        /// The former session.
        former: SessionId,
    },
    /// The former session is not among those that may speak for this term: what rested on it there
    /// is lost, and what waited there has to acquire anew.
    Unlisted {
        /// Which term.
        term: Term,
        /// The former session.
        former: SessionId,
    },
    /// The acquire `seq` is granted.
    Granted {
        /// What.
        record: Record,
        /// Which acquire.
        seq: Seq,
        /// How.
        mode: Mode,
        /// For the store behind the record.
        token: Token,
        /// Somebody waits for it in this mode: return it as soon as the present holders release it.
        give_back: Option<Mode>,
    },
    /// The acquire `seq` waits in line; a grant or a retry follows. (The answer RETRY of old.)
    Queued {
        /// What.
        record: Record,
        /// Which acquire.
        seq: Seq,
        /// Its place, to be kept for a re-assertion.
        ticket: Ticket,
        /// How many waiters would be served before it when this was sent: its index in the
        /// [order of turns](crate::server::table::RecordView::waiters). Of those of its own mode
        /// [`AHEAD_MAX`](crate::AHEAD_MAX) are counted. A server that does not know says
        /// [`AHEAD_UNKNOWN`](crate::AHEAD_UNKNOWN).
        ahead: u32,
    },
    /// The answer to [`ToServer::WhoHolds`]; it decides nothing.
    HeldBy {
        /// Which record.
        record: Record,
        /// The acquire that waits.
        seq: Seq,
        /// As in [`ToNode::Queued`].
        ahead: u32,
        /// Sessions that hold the record, or some of them. Empty if the waiter may not know them.
        holders: Vec<Holder>,
    },
    /// The record is reserved for the acquire `seq`, for a while: acquire again.
    Retry {
        /// What.
        record: Record,
        /// Which acquire.
        seq: Seq,
    },
    /// Somebody wants the record that was granted under `seq`: release it, or downgrade it.
    Revoke {
        /// What.
        record: Record,
        /// Which grant.
        seq: Seq,
        /// What the other wants.
        wanted: Mode,
        /// When it was said, in the order of tickets: of all that is said about a grant, the last
        /// counts.
        at: Ticket,
    },
    /// Nobody wants the record any more that was granted under `seq`: what was said about giving it
    /// up is void.
    Keep {
        /// What.
        record: Record,
        /// Which grant.
        seq: Seq,
        /// When it was said.
        at: Ticket,
    },
    /// The acquire `seq` is refused, and waits no more.
    Refused {
        /// What.
        record: Record,
        /// Which acquire.
        seq: Seq,
        /// Why.
        why: AcquireRefusal,
    },
    /// The grant `seq` is void, although the session lives: somebody re-asserted a later one.
    Lost {
        /// What.
        record: Record,
        /// Which grant.
        seq: Seq,
    },
}
