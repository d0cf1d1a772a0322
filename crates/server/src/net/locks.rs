//! Commands about locks.

use std::sync::Arc;
use std::time::Duration;

use lockspan_protocol::server::reply_to;
use lockspan_protocol::{
    Annotation, Client, Record, Refusal, SessionId, SessionRefusal, Term, ToNode, ToServer,
};
use lockspan_wire::{
    Command, CommandError, ErrorCode, Event, Events, LockId, Protocol, PublicId, Value, reply,
};

use super::connection::Connection;
use crate::config::Address;
use crate::service::{
    LockAllWish, LockTag, LockWish, Seat, Service, Wish, Work, check_waits, session_of,
};
use crate::users::Verb;

/// The lease of a session that names none, if the limits allow it.
const LEASE: Duration = Duration::from_secs(10);

/// Whether groups may be at other servers. One server has all of them.
const SHARES_GROUPS: bool = false;

/// A reply now, or none because it comes later.
type Answer = Result<Option<Value>, CommandError>;

impl Connection {
    /// `LS.TELL`: a node's message. Its answers are events, also those of a refusal.
    pub(super) fn tell(&mut self, session: SessionId, message: ToServer, work: &mut Work) {
        if self.protocol == Protocol::Resp2 {
            let text = "LS.TELL: its replies are pushes, which need RESP3; send HELLO 3 first";
            let value = Value::error(ErrorCode::Err, text);
            self.outbox.reply(&value, &mut work.dirty);
            return;
        }
        if matches!(message, ToServer::Open { .. })
            && let Err(why) = check_version(self.speaks, SHARES_GROUPS)
        {
            self.outbox.reply(&why.into(), &mut work.dirty);
            return;
        }
        let event = match message {
            ToServer::Open { ttl, handoff } => {
                let outbox = Arc::clone(&self.outbox);
                let join = |seat: &Arc<Seat>| seat.listen_as_node(&outbox);
                let owner = self.access.user();
                let client = if self.speaks < 2 { Client::Stranger } else { Client::Node };
                let wish = (ttl, handoff, client);
                match self.shared.service.open(session, wish, owner, join, work) {
                    Ok(seat) => {
                        self.remember(&seat);
                        None
                    }
                    Err(why) => Some(Event::NotOpened(why)),
                }
            }
            message => self.tell_open(session, message, work),
        };
        if let Some(event) = event {
            self.outbox.event(session, &event, false, &mut work.dirty);
        }
    }

    /// A message of a session that should be open; what its node is told if it is refused.
    fn tell_open(
        &mut self,
        session: SessionId,
        message: ToServer,
        work: &mut Work,
    ) -> Option<Event> {
        // Mostly it is the last that was named: it is taken out and put back, for a count of its
        // owners is changed by all threads.
        let last = self.last.take_if(|last| last.id == session && last.is_alive());
        let found = last.map_or_else(|| self.seat(session), Ok);
        let Ok(seat) = found else { return Some(Event::Node(ToNode::NoSession)) };
        let event = self.tell_seat(&seat, message, work);
        self.last = Some(seat);
        event
    }

    fn tell_seat(&mut self, seat: &Arc<Seat>, message: ToServer, work: &mut Work) -> Option<Event> {
        let session = seat.id;
        if self.told != Some(session) {
            seat.listen_as_node(&self.outbox);
            self.told = Some(session);
        }
        let service = &self.shared.service;
        let refused = match message {
            ToServer::KeepAlive { number } => service.keep_alive(session, number, work).err(),
            ToServer::Close => service.close(session, work).err(),
            ToServer::Label { label } => {
                seat.set_label(label);
                None
            }
            ToServer::WhoHolds { record, seq } => {
                let may = self.access.may(Verb::Inspect, record.datatype());
                return service.held_by(seat, record, seq, may).map(Event::Node);
            }
            // To what is not answered, a refusal says no more than that there is no session.
            message @ (ToServer::Release { .. } | ToServer::Cancel { .. }) => {
                match service.tell_table(seat, message, work) {
                    Err(Refusal::Session(why)) => Some(why),
                    Ok(()) | Err(_) => None,
                }
            }
            message => {
                let told = service.tell_table(seat, message.clone(), work);
                return told.err().and_then(|why| reply_to(&message, &why)).map(Event::Node);
            }
        };
        let is_unknown = refused == Some(SessionRefusal::Unknown);
        is_unknown.then_some(Event::Node(ToNode::NoSession))
    }

    /// The connection hears of a session's events from now on, or not any more.
    pub(super) fn attach(
        &mut self,
        session: SessionId,
        events: Events,
    ) -> Result<(), CommandError> {
        let seat = self.seat(session)?;
        self.told = None;
        match events {
            Events::Push if self.protocol == Protocol::Resp2 => {
                let text = "EVENTS push needs RESP3: send HELLO 3 first, or use EVENTS message";
                return Err(CommandError::new(ErrorCode::Err, text));
            }
            Events::Push => seat.listen(&self.outbox, false)?,
            Events::Message => seat.listen(&self.outbox, true)?,
            Events::None => seat.stop_listening(&self.outbox),
        }
        Ok(())
    }

    /// The other commands about locks.
    pub(super) fn run_lock_command(&mut self, command: Command, work: &mut Work) -> Answer {
        let now = |value: Value| Ok(Some(value));
        match command {
            Command::Open { .. } => self.open(command, work),
            Command::Keep { session } => {
                self.check_session(session)?;
                let left = self.shared.service.keep(session, work)?;
                now(reply::kept(left))
            }
            Command::Close { session } => {
                self.check_session(session)?;
                let closed = self.shared.service.close(session, work);
                closed.map_err(|why| CommandError::from(&why))?;
                now(Value::OK)
            }
            Command::End { id } => {
                let left = self.end(id, work)?;
                now(reply::ends(left))
            }
            Command::TakeBack { record, wait } => {
                let asked = self.take_back(record, wait)?;
                now(reply::kept(asked))
            }
            Command::Label { session, label } => {
                self.seat(session)?.set_label(label);
                now(Value::OK)
            }
            Command::Attach { session, events } => {
                self.attach(session, events)?;
                now(Value::OK)
            }
            Command::Acquire { session, record, mode, wait, seq, upgrade, owners, note } => {
                let seat = self.seat(session)?;
                let wish = Wish { record, mode, wait, seq, upgrade, owners, note };
                self.shared.service.acquire(&seat, &self.outbox, wish, work)?;
                Ok(None)
            }
            Command::Convert { session, record, seq, mode, wait } => {
                let seat = self.seat(session)?;
                let service = &self.shared.service;
                service.convert(&seat, &self.outbox, (record, seq), (mode, wait), work)?;
                Ok(None)
            }
            Command::Release { session, record, seq, keep } => {
                let seat = self.seat(session)?;
                self.shared.service.release(&seat, (record, seq, keep), work).map(Some)
            }
            Command::Cancel { session, record, seq } => {
                let seat = self.seat(session)?;
                self.shared.service.cancel(&seat, &record, seq, work).map(Some)
            }
            Command::Lock { .. } => self.lock(command, work),
            Command::LockAll { .. } => self.lock_all(command, work),
            Command::Renew { record, id, grant } => {
                let (session, service) = (session_of(id, &record), &self.shared.service);
                let seat = service.seat(session).filter(|seat| self.access.owns(seat));
                let seat = seat.ok_or_else(lock_is_over)?;
                service.check_seal(id, &record, &grant)?;
                let unrecovered = service.is_unrecovered(session);
                self.access.check_token(service, &record, grant.token, unrecovered)?;
                now(reply::kept(service.renew_lock(&seat, &record, grant, work)?))
            }
            Command::Unlock { record, handle } => {
                let service = &self.shared.service;
                let session = session_of(handle.id, &record);
                let seat = service.seat(session).or_else(|| service.unlock_unseen(session, work));
                let Some(seat) = seat.filter(|seat| self.access.owns(seat)) else {
                    return now(reply::ended(false));
                };
                if let Some(grant) = &handle.grant {
                    service.check_seal(handle.id, &record, grant)?;
                }
                now(reply::ended(service.unlock(&seat, &record, work)?))
            }
            Command::Reassert { session, record, epoch, former, seq, mode, claim } => {
                let former = former.unwrap_or(session);
                let message = ToServer::Reassert { record, epoch, former, seq, mode, claim };
                let seat = self.seat(session)?;
                self.shared.service.reassert(&seat, message, work)?;
                now(Value::OK)
            }
            Command::Reasserted { session, groups, epoch, former, count, sum } => {
                let seat = self.seat(session)?;
                let (told, former) = (Term { groups, epoch }, former.unwrap_or(session));
                self.shared.service.reasserted(&seat, told, former, (count, sum), work)?;
                now(Value::OK)
            }
            command => self.show(&command),
        }
    }

    fn open(&mut self, command: Command, work: &mut Work) -> Answer {
        let Command::Open { session, ttl, handoff, events, label } = command else {
            return Ok(None);
        };
        if events == Events::Push && self.protocol == Protocol::Resp2 {
            let text = "EVENTS push needs RESP3: send HELLO 3 first, or use EVENTS message";
            return Err(CommandError::new(ErrorCode::Err, text));
        }
        check_waits(&self.outbox)?;
        let ttl = ttl.unwrap_or_else(|| self.default_lease());
        let session = match session {
            Some(session) => session,
            None => SessionId(draw()?),
        };
        let outbox = Arc::clone(&self.outbox);
        let listen = |seat: &Arc<Seat>| match events {
            Events::Push => seat.listen(&outbox, false),
            Events::Message => seat.listen(&outbox, true),
            Events::None => Ok(()),
        };
        // A new session has no listener yet, so that only one that is known can refuse another.
        if let Some(seat) = self.shared.service.seat(session).filter(|it| self.access.owns(it)) {
            listen(&seat)?;
        }
        let join = |seat: &Arc<Seat>| {
            let _ = listen(seat);
            Service::await_open(seat, outbox.open_slot());
        };
        let owner = self.access.user();
        let wish = (ttl, handoff, Client::Stranger);
        let opened = self.shared.service.open(session, wish, owner, join, work);
        let seat = opened.map_err(|why| CommandError::from(&why))?;
        self.label(&seat, label);
        self.remember(&seat);
        Ok(None)
    }

    /// The session is called so. If its client does not say how, and has not before, it is called
    /// after the connection.
    fn label(&self, seat: &Seat, label: Option<Annotation>) {
        let known = || if seat.label().is_some() { None } else { self.peer.label() };
        if let Some(label) = label.or_else(known) {
            seat.set_label(label);
        }
    }

    /// `LS.LOCK`: the reply comes when the record is granted.
    fn lock(&mut self, command: Command, work: &mut Work) -> Answer {
        let Command::Lock { record, mode, wait, ttl, id, label, note } = command else {
            return Ok(None);
        };
        check_waits(&self.outbox)?;
        let tag = match id {
            Some(id) => LockTag { id, brought: true },
            None => LockTag { id: draw_id()?, brought: false },
        };
        let ttl = ttl.unwrap_or_else(|| self.default_lease());
        let (owner, wish) = (self.access.user(), LockWish { record, mode, wait, tag, note });
        let seat = self.shared.service.lock(&self.outbox, ttl, owner, wish, work)?;
        self.label(&seat, label);
        self.remember(&seat);
        Ok(None)
    }

    /// `LS.LOCKALL`: the reply comes when the last record is granted.
    fn lock_all(&mut self, command: Command, work: &mut Work) -> Answer {
        let Command::LockAll { records, wait, ttl, id, label, note } = command else {
            return Ok(None);
        };
        check_waits(&self.outbox)?;
        let tag = match id {
            Some(id) => LockTag { id, brought: true },
            None => LockTag { id: draw_id()?, brought: false },
        };
        let ttl = ttl.unwrap_or_else(|| self.default_lease());
        let label = label.or_else(|| self.peer.label());
        let owner = self.access.user().cloned();
        let wish = LockAllWish { records, wait, ttl, tag, owner, label, note };
        let (chain, seat) = self.shared.service.lock_all(&self.outbox, wish, work)?;
        self.remember(&seat);
        self.chains.retain(|chain| chain.strong_count() > 0);
        self.chains.push(Arc::downgrade(&chain));
        Ok(None)
    }

    /// The lease of a session that names none.
    fn default_lease(&self) -> Duration {
        let limits = &self.shared.service.limits;
        LEASE.clamp(limits.ttl_min, limits.ttl_max)
    }

    /// `LS.END`: an operator ends a session. How long its last lease lasts.
    fn end(&self, id: PublicId, work: &mut Work) -> Result<Duration, CommandError> {
        let gate = self.shared.config.audit.check();
        gate.map_err(|why| CommandError::new(ErrorCode::Limit, why))?;
        let user = self.access.user().map_or("-", |user| &**user);
        self.shared.service.end_session(user, id, work)
    }

    /// `LS.TAKEBACK`: an operator asks the holders of a record to give it back. Returns for how
    /// long.
    fn take_back(&self, record: Record, wait: Option<Duration>) -> Result<Duration, CommandError> {
        let gate = self.shared.config.audit.check();
        gate.map_err(|why| CommandError::new(ErrorCode::Limit, why))?;
        let user = self.access.user().map_or("-", |user| &**user);
        Service::begin_taking_back(&self.shared, user, record, wait)
            .map_err(|why| CommandError::new(ErrorCode::Refused, why))
    }

    /// Which slots are served. What else people ask may take longer, see `long`.
    fn show(&self, command: &Command) -> Answer {
        let service = &self.shared.service;
        Ok(Some(match command {
            Command::Slots => {
                let address = self.shared.addresses.first().map(Address::to_string);
                reply::slots(&service.terms(), &address.unwrap_or_default())
            }
            Command::ClusterSlots => {
                let groups = service.terms().iter().map(|term| term.groups).collect::<Vec<_>>();
                let all = groups.into_iter().reduce(|all, more| all.or(more)).unwrap_or_default();
                let tcp = self.shared.addresses.iter().find_map(|address| match address {
                    Address::Tcp(at) => Some(at),
                    Address::Unix(_) => None,
                });
                let (host, port) =
                    tcp.map_or((String::new(), 0), |at| (at.ip().to_string(), at.port()));
                reply::cluster_slots(all, &host, port, &self.shared.run_id)
            }
            _ => {
                let text = "this version of the server does not know this command";
                return Err(CommandError::new(ErrorCode::Err, text));
            }
        }))
    }
}

pub(super) fn no_such(session: SessionId) -> CommandError {
    let text = format!("{session}: {}", SessionRefusal::Unknown);
    CommandError::new(ErrorCode::NoSession, text)
}

/// What the holder of a lock hears whose session is gone.
fn lock_is_over() -> CommandError {
    let text = "no such lock: it was unlocked, or its lease expired; take a new lock";
    CommandError::new(ErrorCode::NoSession, text)
}

/// The id of a lock whose client brings none.
fn draw_id() -> Result<LockId, CommandError> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).map_err(|why| {
        CommandError::new(
            ErrorCode::Err,
            format!("LS.LOCK: the system has no random numbers: {why}"),
        )
    })?;
    Ok(LockId::new(u128::from_be_bytes(bits)))
}

/// A number for a session. It is a secret, so all its 64 bits are random.
fn draw() -> Result<u64, CommandError> {
    let drawn = getrandom::u64().map_err(|why| {
        CommandError::new(
            ErrorCode::Err,
            format!("LS.OPEN: the system has no random numbers: {why}"),
        )
    })?;
    Ok(drawn.max(1))
}

/// Whether a node of this protocol may open a session. One of protocol 1 takes an extension for one
/// of all that it has, which is not so where other servers may have some of the groups.
fn check_version(speaks: u32, shares_groups: bool) -> Result<(), CommandError> {
    if speaks >= 2 || !shares_groups {
        return Ok(());
    }
    let text = format!(
        "LS.TELL: this client speaks version {speaks} of the protocol of nodes, and the servers of \
         a cluster need version 2 or later: upgrade the lockspan client"
    );
    Err(CommandError::new(ErrorCode::Refused, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_node_is_refused_where_groups_are_shared_and_told_what_to_upgrade() {
        assert!(check_version(1, false).is_ok(), "one server has all groups");
        assert!(check_version(2, true).is_ok());
        let Err(why) = check_version(1, true) else { panic!("it is unsafe") };
        assert!(why.to_string().ends_with("upgrade the lockspan client"), "{why}");
    }
}
