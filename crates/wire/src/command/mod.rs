//! What a connection may ask of a server.

pub(crate) mod catalog;
mod inline;
mod parse;
mod redis;
mod take;

use std::time::Duration;

use bytes::Bytes;
use lockspan_protocol::{
    Annotation, Claim, Epoch, GroupSet, Handoff, Mode, Owner, Record, Seq, SessionId, ToServer,
};

use crate::handle::{LockGrant, LockHandle, LockId};
use crate::limits::Protocol;
use crate::public::PublicId;
use crate::secret::Secret;

pub use take::take_command;
#[cfg(test)]
pub(crate) use take::take_long;

/// One command, its arguments read and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Command {
    /// `LS.TELL`: a node's message. It has no reply; what there is to say comes as events.
    Tell {
        /// Of which session.
        session: SessionId,
        /// What.
        message: ToServer,
    },
    /// `HELLO [2|3 [AUTH user password] [SETNAME name] [LOCKSPAN version]]`.
    Hello {
        /// The version to speak from now on.
        protocol: Option<Protocol>,
        /// User and password.
        auth: Option<(Bytes, Secret)>,
        /// A name for the connection.
        name: Option<Bytes>,
        /// The latest protocol of nodes that the client speaks, see
        /// [`NODE_PROTOCOL`](crate::NODE_PROTOCOL).
        speaks: Option<u32>,
    },
    /// `AUTH [user] password`.
    Auth {
        /// The user, or the default one.
        user: Option<Bytes>,
        /// The password.
        password: Secret,
    },
    /// `PING [text]`.
    Ping(Option<Bytes>),
    /// `ECHO text`.
    Echo(Bytes),
    /// `QUIT`: answer `OK` and close.
    Quit,
    /// `RESET`: as if the connection were new.
    Reset,
    /// `SELECT n`: there is only 0.
    Select(i64),
    /// `COMMAND [COUNT|LIST|INFO name...|DOCS name...]`: the arguments, for
    /// [`command_info`](crate::reply::command_info).
    CommandInfo(Vec<Bytes>),
    /// `INFO [section...]`.
    Info(Vec<Bytes>),
    /// `CLIENT ...`.
    Client(ClientCommand),
    /// `SUBSCRIBE channel...`.
    Subscribe(Vec<Bytes>),
    /// `UNSUBSCRIBE [channel...]`: all, if none is named.
    Unsubscribe(Vec<Bytes>),
    /// `LS.OPEN [LEASE ms] [HANDOFF direct|retry] [EVENTS push|message|none] [SESSION id] [LABEL
    /// text]`.
    Open {
        /// The secret number of the session, or a new one.
        session: Option<SessionId>,
        /// The lease, or the server's own choice.
        ttl: Option<Duration>,
        /// How waits end.
        handoff: Handoff,
        /// How this connection hears of events.
        events: Events,
        /// How the session is shown to people.
        label: Option<Annotation>,
    },
    /// `LS.LABEL session text`.
    Label {
        /// Which.
        session: SessionId,
        /// How it is shown to people.
        label: Annotation,
    },
    /// `LS.KEEP session`.
    Keep {
        /// Which.
        session: SessionId,
    },
    /// `LS.CLOSE session`.
    Close {
        /// Which.
        session: SessionId,
    },
    /// `LS.EVENTS session push|message|none`: this connection hears of the session's events.
    Attach {
        /// Which.
        session: SessionId,
        /// How.
        events: Events,
    },
    /// `LS.ACQUIRE session record R|W [WAIT ms|forever] [SEQ n] [UPGRADE] [NOTE text] [OWNER
    /// n]...`.
    Acquire {
        /// For whom.
        session: SessionId,
        /// What.
        record: Record,
        /// How.
        mode: Mode,
        /// How long the reply may take.
        wait: Wait,
        /// The number of the acquire, or the next one.
        seq: Option<Seq>,
        /// The session reads the record, and keeps that while it waits.
        upgrade: bool,
        /// Who waits, for deadlock detection.
        owners: Vec<Owner>,
        /// What it is for, shown to people.
        note: Option<Annotation>,
    },
    /// `LS.RELEASE session record seq [KEEP n]`.
    Release {
        /// Whose.
        session: SessionId,
        /// What.
        record: Record,
        /// The last number that is over.
        seq: Seq,
        /// The number under which the session goes on reading.
        keep: Option<Seq>,
    },
    /// `LS.CONVERT session record seq R|W [WAIT ms|forever]`.
    Convert {
        /// Whose.
        session: SessionId,
        /// What.
        record: Record,
        /// The grant.
        seq: Seq,
        /// What it is to become.
        mode: Mode,
        /// How long the reply may take.
        wait: Wait,
    },
    /// `LS.CANCEL session record seq`.
    Cancel {
        /// Whose.
        session: SessionId,
        /// What.
        record: Record,
        /// The acquire.
        seq: Seq,
    },
    /// `LS.LOCKALL numrecords record R|W [record R|W ...]` and the options of `LS.LOCK`: several
    /// locks, all or none.
    LockAll {
        /// What and how: each record once, in the order in which they are locked. Not empty.
        records: Vec<(Record, Mode)>,
        /// How long the reply may take, for all together.
        wait: Wait,
        /// The lease of each, or the server's own choice.
        ttl: Option<Duration>,
        /// What names these locks; the server draws an id if there is none.
        id: Option<LockId>,
        /// How the sessions are shown to people.
        label: Option<Annotation>,
        /// What the locks are for, shown to people.
        note: Option<Annotation>,
    },
    /// `LS.LOCK record R|W [WAIT ms|forever] [LEASE ms] [ID uuid] [LABEL text] [NOTE text]`: a lock
    /// with a session of its own.
    Lock {
        /// What.
        record: Record,
        /// How.
        mode: Mode,
        /// How long the reply may take: until it is granted, if that is not said.
        wait: Wait,
        /// The lease, or the server's own choice.
        ttl: Option<Duration>,
        /// What names this lock; the server draws an id if there is none.
        id: Option<LockId>,
        /// How the session is shown to people.
        label: Option<Annotation>,
        /// What the lock is for, shown to people.
        note: Option<Annotation>,
    },
    /// `LS.RENEW record handle`.
    Renew {
        /// What.
        record: Record,
        /// Whose id.
        id: LockId,
        /// How it was granted, with which token and seal.
        grant: LockGrant,
    },
    /// `LS.UNLOCK record handle`.
    Unlock {
        /// What.
        record: Record,
        /// The handle, or the id alone.
        handle: LockHandle,
    },
    /// `LS.REASSERT session record epoch seq R|W HELD token [FORMER id]`, or `... WAITING
    /// [TICKET n] [UPGRADE] [OWNER n]... [FORMER id]`.
    Reassert {
        /// Who speaks.
        session: SessionId,
        /// What.
        record: Record,
        /// The new epoch.
        epoch: Epoch,
        /// The session that held it, if it is another.
        former: Option<SessionId>,
        /// The number of the acquire.
        seq: Seq,
        /// How.
        mode: Mode,
        /// Held or waited for.
        claim: Claim,
    },
    /// `LS.REASSERTED session epoch count sum [GROUPS ranges] [FORMER id]`.
    Reasserted {
        /// Who speaks.
        session: SessionId,
        /// Which groups; all, if none are named.
        groups: GroupSet,
        /// The new epoch.
        epoch: Epoch,
        /// The session that held them, if it is another.
        former: Option<SessionId>,
        /// How many seqs.
        count: u32,
        /// Their sum.
        sum: u64,
    },
    /// `LS.INSPECT record`.
    Inspect {
        /// What.
        record: Record,
    },
    /// `LS.HISTORY record [COUNT n]`.
    History {
        /// What.
        record: Record,
        /// At most so many things.
        count: usize,
    },
    /// `LS.WAITS`.
    Waits,
    /// `LS.LOCKS [cursor] [MATCH pattern] [COUNT n]`.
    Locks {
        /// Where to go on; 0 to begin.
        cursor: u64,
        /// About how many.
        count: usize,
        /// Names to show, with `*`, `?` and `[a-z]`.
        pattern: Option<Bytes>,
    },
    /// `LS.END id`: an operator's wish, so it takes the id that lists show.
    End {
        /// Which.
        id: PublicId,
    },
    /// `LS.TAKEBACK record [WAIT ms]`: an operator asks the holders to give the record back.
    TakeBack {
        /// What.
        record: Record,
        /// For how long.
        wait: Option<Duration>,
    },
    /// `LS.SESSIONS [AFTER id] [COUNT n]`.
    Sessions {
        /// Only those with a public id above this one.
        after: Option<PublicId>,
        /// At most so many.
        count: usize,
    },
    /// `LS.SLOTS`.
    Slots,
    /// `CLUSTER SLOTS`.
    ClusterSlots,
}

/// How a connection hears of a session's events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Events {
    /// RESP3 pushes: `>N lockspan <session> <kind> ...`.
    Push,
    /// Messages of the channel `lockspan:<session>`, for clients that drop unknown pushes.
    Message,
    /// Not at all.
    #[default]
    None,
}

/// How long a reply may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// It comes at once: granted or queued.
    #[default]
    No,
    /// Granted, or null when the time is over.
    Ms(Duration),
    /// Granted, or refused.
    Forever,
}

/// `CLIENT`, as far as client libraries use it when they connect.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientCommand {
    /// `ID`: the number of the connection.
    Id,
    /// `GETNAME`.
    GetName,
    /// `SETNAME name`.
    SetName(Bytes),
    /// `SETINFO attribute value`: which library it is.
    SetInfo {
        /// `lib-name` or `lib-ver`, as it was sent.
        attribute: Bytes,
        /// Its value.
        value: Bytes,
    },
    /// `INFO`: a line about this connection.
    Info,
    /// `LIST [AFTER n]`: a line about each connection, by their numbers.
    List {
        /// Only those with a higher number than this.
        after: u64,
    },
    /// `NO-EVICT on|off`: nothing is ever evicted, so `OK`.
    NoEvict,
    /// `NO-TOUCH on|off`: `OK`.
    NoTouch,
    /// `TRACKING OFF`: it is never on, so `OK`.
    TrackingOff,
    /// `REPLY ON`: it is never off, so `OK`.
    ReplyOn,
}
