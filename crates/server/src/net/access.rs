//! Whom a connection speaks for, and what it may do.
//!
//! | command | needs |
//! |---|---|
//! | `HELLO` with `AUTH`, `AUTH`, `QUIT`, `RESET` | nothing |
//! | `LS.ACQUIRE`, `LS.CONVERT`, `LS.REASSERT`, also by `LS.TELL` | *read*; *write* to upgrade |
//! | `LS.LOCK`, `LS.RENEW` | the same, and a lock is its user's own |
//! | `LS.LOCKALL` | the same, for each record |
//! | `LS.RELEASE`, `LS.CANCEL`, also by `LS.TELL` | *read* or *write*: others can't hold it |
//! | `LS.INSPECT`, `LS.HISTORY` | *inspect* |
//! | whatever names a session | its secret number, and that it is the user's own |
//! | `LS.END`, which takes a public id, and `LS.TAKEBACK` | *admin* of all |
//! | who holds a record, asked by `LS.TELL` of a waiter | a wait there; *inspect*, or no names |
//! | `LS.LOCKS`, `LS.WAITS` | a login; shows what the user may *inspect* |
//! | `LS.SESSIONS`, `CLIENT LIST` | a login; shows their own, or all to who may *inspect* all |
//! | `LS.UNLOCK` | that the lock is the user's own |
//! | all else | a login |
//!
//! `tests/service/rights.rs` goes through every command, flag and message.
//!
//! **Invariant:** a session or a lock of another user is answered as one that there is not, so that
//! nobody finds out which numbers are in use. Only `LS.OPEN` with a number and `LS.LOCK` with an id
//! can't hide it, since they would begin one: they answer as to a number that was used before.
//!
//! Who shows an epoch that the server has not come to says that its storage went back in time. That
//! makes it begin a term above, in which nothing is granted until all have re-asserted, and epochs
//! are used up by it: so it is believed of those who may *admin* all, and of nobody else.

use std::sync::Arc;
use std::time::Instant;

use lockspan_protocol::server::reply_to;
use lockspan_protocol::{
    AcquireRefusal, Claim, Epoch, Mode, NotServed, ReassertRefusal, Record, Refusal, SessionId,
    ToNode, ToServer, Token,
};
use lockspan_wire::{Command, CommandError, ErrorCode, Event, LockGrant, reply};

use super::connection::Connection;
use super::locks::no_such;
use super::peers::Peer;
use crate::service::{Seat, Service, Work, session_of};
use crate::users::{User, Verb};

/// Whom a connection speaks for.
#[derive(Debug)]
pub(super) enum Access {
    /// There are no users: whoever is here may do everything.
    Everybody,
    /// Nobody has logged in.
    Nobody,
    /// This user.
    User(Known),
}

/// A user, with what they may do to the datatype that was named last.
#[derive(Debug)]
pub(super) struct Known {
    user: Arc<User>,
    datatype: Vec<u8>,
    verbs: [bool; 4],
    /// The log has that they showed a later epoch.
    logged: bool,
}

/// Why a command is not carried out.
#[derive(Debug)]
pub(super) enum Denied {
    /// It is beyond the user's rights.
    Right(CommandError),
    /// It shows an epoch that the user is not believed.
    Epoch(CommandError),
    /// It shows an epoch, and there is none to compare it with now.
    NotServed(NotServed),
}

impl From<CommandError> for Denied {
    fn from(why: CommandError) -> Self {
        Self::Right(why)
    }
}

impl Known {
    pub(super) fn new(user: Arc<User>) -> Self {
        // No datatype is empty.
        Self { user, datatype: Vec::new(), verbs: [false; 4], logged: false }
    }

    fn may(&mut self, verb: Verb, datatype: &[u8]) -> bool {
        if self.datatype != datatype {
            self.datatype = datatype.to_owned();
            self.verbs = Verb::ALL.map(|verb| self.user.may(verb, datatype));
        }
        self.verbs[verb as usize]
    }

    fn check(&mut self, verb: Verb, record: &Record) -> Result<(), CommandError> {
        if self.may(verb, record.datatype()) {
            return Ok(());
        }
        let datatype = record.datatype().escape_ascii();
        let text =
            format!("user {} lacks the right to {verb} datatype {datatype}", self.user.name());
        Err(CommandError::new(ErrorCode::NoPerm, text))
    }

    fn check_everywhere(&self, verb: Verb) -> Result<(), CommandError> {
        if self.user.may_everywhere(verb) {
            return Ok(());
        }
        let text = format!("user {} lacks the right to {verb} everything", self.user.name());
        Err(CommandError::new(ErrorCode::NoPerm, text))
    }

    /// Whether what is said of epochs can be, as far as the server knows. Its epochs only rise, so
    /// it still can when the table hears of it.
    fn check_epoch(
        &mut self,
        service: &Service,
        record: &Record,
        epoch: Epoch,
        claim: Option<&Claim>,
    ) -> Result<(), Denied> {
        if self.user.may_everywhere(Verb::Admin) {
            return Ok(());
        }
        let Some(present) = service.epoch_of(record) else {
            return Err(Denied::NotServed(NotServed { group: record.group() }));
        };
        // What is re-asserted was granted in an earlier one.
        let held = match claim {
            Some(Claim::Held { token }) => Some(token.epoch()),
            _ => None,
        };
        if epoch <= present && held.is_none_or(|held| held < present) {
            return Ok(());
        }
        let shown = held.map_or(epoch, |held| held.max(epoch));
        let user = self.user.name();
        if !std::mem::replace(&mut self.logged, true)
            && let Some(more) = service.shown_epochs.may_log(Instant::now())
        {
            tracing::warn!(
                "user {user} reports {shown}, but the current one is {present}: ignored. If the \
                 data directory is an old copy, a user with the admin right on everything must \
                 report it{more}"
            );
        }
        let text = format!("user {user} may not report {shown}: the current one is {present}");
        Err(Denied::Epoch(CommandError::new(ErrorCode::NoPerm, text)))
    }
}

fn verb_of(mode: Mode) -> Verb {
    if mode == Mode::Read { Verb::Read } else { Verb::Write }
}

/// An upgrade is a write, whatever mode it names: that is what the table makes of it.
fn mode_of(mode: Mode, upgrade: bool) -> Mode {
    if upgrade { Mode::Write } else { mode }
}

/// What a re-assertion asks for.
fn claimed(mode: Mode, claim: &Claim) -> Mode {
    mode_of(mode, matches!(claim, Claim::Waiting { upgrade: true, .. }))
}

impl Access {
    pub(super) fn is_everybody(&self) -> bool {
        matches!(self, Self::Everybody)
    }

    pub(super) fn is_nobody(&self) -> bool {
        matches!(self, Self::Nobody)
    }

    /// The user's name.
    pub(super) fn user(&self) -> Option<&Arc<str>> {
        match self {
            Self::User(known) => Some(known.user.name()),
            Self::Everybody | Self::Nobody => None,
        }
    }

    pub(super) fn may(&self, verb: Verb, datatype: &[u8]) -> bool {
        match self {
            Self::Everybody => true,
            Self::Nobody => false,
            Self::User(known) => known.user.may(verb, datatype),
        }
    }

    pub(super) fn may_everywhere(&self, verb: Verb) -> bool {
        match self {
            Self::Everybody => true,
            Self::Nobody => false,
            Self::User(known) => known.user.may_everywhere(verb),
        }
    }

    /// Whether a line about this connection is shown.
    pub(super) fn may_see(&self, peer: &Peer) -> bool {
        self.may_everywhere(Verb::Inspect)
            || self.user().is_some_and(|user| peer.about(|about| *about.user == **user))
    }

    /// Whether a renewal may show this token, which re-asserts it if the session is unrecovered.
    pub(super) fn check_token(
        &mut self,
        service: &Service,
        record: &Record,
        token: Token,
        unrecovered: bool,
    ) -> Result<(), CommandError> {
        let Self::User(known) = self else { return Ok(()) };
        let present = service.epoch_of(record);
        if !unrecovered && Some(token.epoch()) <= present {
            return Ok(());
        }
        let claim = Claim::Held { token };
        let epoch = present.unwrap_or_else(|| token.epoch());
        match known.check_epoch(service, record, epoch, Some(&claim)) {
            Ok(()) => Ok(()),
            Err(Denied::Right(why) | Denied::Epoch(why)) => Err(why),
            Err(Denied::NotServed(why)) => Err(CommandError::from(&why)),
        }
    }

    /// Whether it may speak for a session: that is up to its own user.
    pub(super) fn owns(&self, seat: &Seat) -> bool {
        match self {
            Self::Everybody => true,
            Self::Nobody => false,
            Self::User(known) => seat.belongs_to(known.user.name()),
        }
    }
}

impl Connection {
    /// Whether the command may be carried out, as far as that does not depend on its session.
    pub(super) fn permit(&mut self, command: &Command, work: &mut Work) -> Result<(), Denied> {
        let known = match &mut self.access {
            Access::Everybody => return Ok(()),
            Access::Nobody => return Ok(permit_nobody(command)?),
            Access::User(known) => known,
        };
        let service = &self.shared.service;
        if service.has_orphans() {
            let named = sessions_of(command).into_iter();
            named.for_each(|session| service.claim(session, known.user.name(), work));
        }
        match command {
            Command::Acquire { record, mode, upgrade, .. } => {
                known.check(verb_of(mode_of(*mode, *upgrade)), record)?;
            }
            Command::Convert { record, mode, .. }
            | Command::Lock { record, mode, .. }
            | Command::Renew { record, grant: LockGrant { mode, .. }, .. } => {
                known.check(verb_of(*mode), record)?;
            }
            Command::LockAll { records, .. } => {
                for (record, mode) in records {
                    known.check(verb_of(*mode), record)?;
                }
            }
            Command::Inspect { record } | Command::History { record, .. } => {
                known.check(Verb::Inspect, record)?;
            }
            // Only who may read a record can have it. In a grace, a release is remembered.
            Command::Release { record, .. } | Command::Cancel { record, .. } => {
                known.check(Verb::Read, record)?;
            }
            Command::Reassert { record, mode, epoch, claim, .. } => {
                known.check(verb_of(claimed(*mode, claim)), record)?;
                known.check_epoch(service, record, *epoch, Some(claim))?;
            }
            Command::End { .. } | Command::TakeBack { .. } => {
                known.check_everywhere(Verb::Admin)?;
            }
            Command::Tell { message, .. } => match message {
                ToServer::Acquire { record, mode, epoch, upgrade, .. } => {
                    known.check(verb_of(mode_of(*mode, *upgrade)), record)?;
                    known.check_epoch(service, record, *epoch, None)?;
                }
                ToServer::Reassert { record, mode, epoch, claim, .. } => {
                    known.check(verb_of(claimed(*mode, claim)), record)?;
                    known.check_epoch(service, record, *epoch, Some(claim))?;
                }
                ToServer::Release { record, .. } | ToServer::Cancel { record, .. } => {
                    known.check(Verb::Read, record)?;
                }
                _ => {}
            },
            _ => {}
        }
        Ok(())
    }

    /// A command that goes around the session's seat is for its user all the same.
    pub(super) fn check_session(&self, session: SessionId) -> Result<(), CommandError> {
        if self.access.is_everybody() {
            return Ok(());
        }
        let seat = self.shared.service.seat(session);
        let is_own = seat.is_some_and(|seat| self.access.owns(&seat));
        if is_own { Ok(()) } else { Err(no_such(session)) }
    }

    /// Tells that the command is not carried out: a node by an event, all others by a reply.
    pub(super) fn deny(&self, command: &Command, why: &Denied, work: &mut Work) {
        let answer = match command {
            Command::Tell { session, message } if !self.access.is_nobody() => {
                answer_to(message, why).map(|answer| (*session, answer))
            }
            _ => {
                let why = match why {
                    Denied::Right(why) | Denied::Epoch(why) => why.clone(),
                    Denied::NotServed(why) => CommandError::from(why),
                };
                self.outbox.reply(&why.into(), &mut work.dirty);
                return;
            }
        };
        if let Some((session, answer)) = answer {
            // Only for sessions of its own user: nobody tells anything in another's name.
            if let Command::Tell { message, .. } = command
                && matches!(message, ToServer::Reassert { .. })
                && !matches!(why, Denied::NotServed(_))
                && let Some(seat) = self.shared.service.seat(session)
                && self.access.owns(&seat)
            {
                self.shared.service.disown(&seat, message, work);
            }
            self.outbox.event(session, &Event::Node(answer), false, &mut work.dirty);
        }
    }
}

/// The sessions that a command is said for.
fn sessions_of(command: &Command) -> Vec<SessionId> {
    match command {
        Command::Open { session, .. } => session.iter().copied().collect(),
        Command::Keep { session }
        | Command::Close { session }
        | Command::Attach { session, .. }
        | Command::Label { session, .. }
        | Command::Acquire { session, .. }
        | Command::Convert { session, .. }
        | Command::Release { session, .. }
        | Command::Cancel { session, .. } => vec![*session],
        Command::Lock { id, record, .. } => id.iter().map(|id| session_of(*id, record)).collect(),
        Command::LockAll { id, records, .. } => {
            let of = |id| records.iter().map(move |(record, _)| session_of(id, record));
            id.iter().flat_map(|id| of(*id)).collect()
        }
        Command::Renew { id, record, .. } => vec![session_of(*id, record)],
        Command::Unlock { handle, record } => vec![session_of(handle.id, record)],
        Command::Reassert { session, former, .. } | Command::Reasserted { session, former, .. } => {
            former.iter().copied().chain([*session]).collect()
        }
        Command::Tell { session, message } => match message {
            ToServer::Reassert { former, .. }
            | ToServer::Page { former, .. }
            | ToServer::Reasserted { former, .. } => {
                vec![*session, *former]
            }
            _ => vec![*session],
        },
        Command::Subscribe(channels) => {
            channels.iter().filter_map(|channel| reply::channel_session(channel)).collect()
        }
        _ => Vec::new(),
    }
}

fn permit_nobody(command: &Command) -> Result<(), CommandError> {
    match command {
        Command::Hello { auth: Some(_), .. }
        | Command::Auth { .. }
        | Command::Quit
        | Command::Reset => Ok(()),
        _ => {
            let text = "log in first: AUTH user password, or HELLO 3 AUTH user password";
            Err(CommandError::new(ErrorCode::NoAuth, text))
        }
    }
}

/// What a node hears that said something it may not.
fn answer_to(message: &ToServer, why: &Denied) -> Option<ToNode> {
    match (message, why) {
        (ToServer::Acquire { .. }, Denied::NotServed(why)) => {
            reply_to(message, &Refusal::Acquire(AcquireRefusal::NotServed(*why)))
        }
        (_, Denied::NotServed(why)) => {
            reply_to(message, &Refusal::Reassert(ReassertRefusal::NotServed(*why)))
        }
        (ToServer::Reassert { record, seq, claim: Claim::Held { .. }, .. }, _) => {
            Some(ToNode::Lost { record: record.clone(), seq: *seq })
        }
        // It goes on reading what it can't have.
        (
            ToServer::Release { record, keep: Some(keep), .. }
            | ToServer::Cancel { record, keep: Some(keep), .. },
            _,
        ) => Some(ToNode::Lost { record: record.clone(), seq: *keep }),
        // It says so again from time to time; once the epoch has come it is answered.
        (_, Denied::Epoch(_)) => None,
        (
            ToServer::Acquire { record, seq, mode, upgrade, .. }
            | ToServer::Reassert { record, seq, mode, claim: Claim::Waiting { upgrade, .. }, .. },
            Denied::Right(_),
        ) => {
            let why = AcquireRefusal::Denied { mode: mode_of(*mode, *upgrade) };
            Some(ToNode::Refused { record: record.clone(), seq: *seq, why })
        }
        _ => None,
    }
}
