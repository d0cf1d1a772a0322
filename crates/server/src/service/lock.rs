//! `LS.LOCK`, `LS.RENEW`, `LS.UNLOCK`: locks with a session of their own.
//!
//! The session holds or waits for one record, and ends with the lock. Its
//! number follows from the lock's id and record ([`session_of`]), so that whoever knows the id or
//! the handle finds the lock, on every connection and after a restart, and nobody else does.
//!
//! | state | begins with | the session's lease |
//! |---|---|---|
//! | opening | `LS.LOCK` | begins when the session is durable |
//! | waiting | the session is open | kept by the server while a command waits |
//! | waiting, alone | the last connection that waited is gone | runs; whole at that moment |
//! | passed over | the grant, if nobody waits then: the next in line has it | runs |
//! | held, not told | the grant, if its reply waits for an earlier one | kept by the server |
//! | held | the reply; whole at the grant | kept by `LS.RENEW` and by a repeat |
//! | unknown | a restart of the server | as the registry says |
//! | over | the end of `WAIT` | runs |
//!
//! A repeat of `LS.LOCK` goes on waiting, gets in line again if it was passed over, finds the lock
//! held, or is answered null if it is over.
//! After a restart `LS.RENEW` makes the lock held again, and a repeat makes it wait again.
//! `LS.UNLOCK` and the end of the lease end the session in every state. An `LS.UNLOCK` that comes
//! before the session is open closes it when it is; one that overtakes its `LS.LOCK` makes that
//! stale. So after the reply to `LS.UNLOCK` the lock is not granted any more.
//!
//! A lock whose client brought no id can't be asked for again: it is closed instead of *waiting,
//! alone* and *over*.
//!
//! **Invariant:** one id is at most one lock, once. While the session is there, a repeat finds its
//! claim by [`Seat::lock_seq`]; when it is gone, the registry does not open its number again for as
//! long as the longest lease.
//!
//! **Invariant:** a held lock ends by `LS.UNLOCK` or by its lease alone, and never because a
//! connection has closed: its client may be inside.
//!
//! **Invariant:** a lock is held only if a connection was there to be told of it. Clients that give
//! up and come back with a new id would otherwise be served one abandoned wait after the other, a
//! lease each, and nobody would ever be inside.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use blake2::digest::consts::U8;
use blake2::{Blake2b, Digest as _};
use lockspan_protocol::{
    Annotation, Claim, Client, Handoff, Mode, Record, Seq, SessionId, SessionRefusal, Tick,
    ToServer, Token,
};
use lockspan_wire::{CommandError, ErrorCode, LockGrant, LockHandle, LockId, Value, Wait, reply};

use super::acquire::{Wish, show};
use super::patience::PatienceKey;
use super::seat::{OneLock, Seat};
use super::timer::DUE_AT_ONCE;
use super::{Service, Work};
use crate::net::outbox::{Outbox, Slot};

/// What `LS.LOCK` asks for.
#[derive(Clone, Debug)]
pub(crate) struct LockWish {
    pub(crate) record: Record,
    pub(crate) mode: Mode,
    pub(crate) wait: Wait,
    pub(crate) tag: LockTag,
    /// What it is for, shown to people.
    pub(crate) note: Option<Annotation>,
}

/// Which lock a command is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LockTag {
    pub(crate) id: LockId,
    /// The client has drawn the id, so that it can ask again.
    pub(crate) brought: bool,
}

/// An `LS.LOCK` that waits for its session to be open.
#[derive(Debug)]
pub(crate) struct LockAsk {
    pub(super) wish: LockWish,
    pub(super) slot: Slot,
}

/// A lock that was granted and whose client has yet to be told.
#[derive(Debug)]
pub(super) struct LockGranted {
    pub(super) seat: Arc<Seat>,
    pub(super) slot: Slot,
    pub(super) tag: LockTag,
    pub(super) record: Record,
    pub(super) mode: Mode,
    pub(super) token: Token,
}

/// The session of the lock with this id on this record. The number says nothing about the id.
pub(crate) fn session_of(id: LockId, record: &Record) -> SessionId {
    let mut hasher = Blake2b::<U8>::new_with_prefix(b"lockspan: the session of a lock");
    hasher.update(id.reveal().to_be_bytes());
    hasher.update(record.as_bytes());
    SessionId(u64::from_be_bytes(hasher.finalize().into()).max(1))
}

/// When the leases of locks that wait are extended next.
#[derive(Debug, Default)]
pub(super) struct Vigils(Mutex<BTreeMap<PatienceKey, Arc<Seat>>>);

impl Vigils {
    pub(super) fn next_deadline(&self) -> Option<Tick> {
        crate::lock(&self.0).first_key_value().map(|(key, _)| key.until())
    }

    fn add(&self, at: Tick, seat: Arc<Seat>) {
        crate::lock(&self.0).insert(PatienceKey::new(at), seat);
    }

    /// Those whose time has come, as many as are extended at a time.
    fn due(&self, now: Tick) -> Vec<Arc<Seat>> {
        let mut all = crate::lock(&self.0);
        let mut due = Vec::new();
        while due.len() < DUE_AT_ONCE
            && let Some(first) = all.first_entry()
            && first.key().until() <= now
        {
            due.push(first.remove());
        }
        due
    }
}

impl Service {
    /// `LS.LOCK`: opens the lock's session, or finds it. The rest follows when it is open.
    pub(crate) fn lock(
        &self,
        outbox: &Arc<Outbox>,
        ttl: Duration,
        owner: Option<&Arc<str>>,
        wish: LockWish,
        work: &mut Work,
    ) -> Result<Arc<Seat>, CommandError> {
        self.lock_in(|_| outbox.open_slot(), ttl, owner, wish, work)
    }

    /// The same, with the reply in this slot, which is made when the seat is known and before
    /// anybody goes on with the lock. An error that is returned has not used it.
    pub(super) fn lock_in(
        &self,
        slot: impl FnOnce(&Arc<Seat>) -> Slot,
        ttl: Duration,
        owner: Option<&Arc<str>>,
        wish: LockWish,
        work: &mut Work,
    ) -> Result<Arc<Seat>, CommandError> {
        let session = session_of(wish.tag.id, &wish.record);
        let join = |seat: &Arc<Seat>| seat.await_lock(LockAsk { wish, slot: slot(seat) });
        let opening = (ttl, Handoff::Direct, Client::Stranger);
        self.open(session, opening, owner, join, work).map_err(|why| match why {
            SessionRefusal::Unknown => {
                let text = "the lock with this ID has ended: it was unlocked, or its lease expired \
                            before it was renewed; use a new random ID for each lock";
                CommandError::new(ErrorCode::Stale, text)
            }
            SessionRefusal::Differs => {
                let text = "this ID is used for a lock with another LEASE; repeat the command with \
                            the same LEASE, or use a new ID";
                CommandError::new(ErrorCode::Refused, text)
            }
            why => CommandError::from(&why),
        })
    }

    /// The session of an `LS.LOCK` is open: acquires, or finds what was acquired before.
    pub(super) fn lock_opened(&self, seat: &Arc<Seat>, ask: LockAsk, work: &mut Work) {
        let LockAsk { wish, slot } = ask;
        let tag = wish.tag;
        if slot.is_closed() {
            // Nobody would hear of it. Who brought the id may ask again.
            if !tag.brought {
                work.over.push(Arc::clone(seat));
            }
            return;
        }
        if let Err(why) = self.acquire_lock(seat, &slot, wish, work) {
            slot.fill(&why.into(), &mut work.dirty);
            if !tag.brought {
                work.over.push(Arc::clone(seat));
            }
        }
    }

    fn acquire_lock(
        &self,
        seat: &Arc<Seat>,
        slot: &Slot,
        wish: LockWish,
        work: &mut Work,
    ) -> Result<(), CommandError> {
        let LockWish { record, mode, wait, tag, note } = wish;
        check_mode(seat.one_lock(mode), &record)?;
        // Who asks for the lock has not heard that it was granted, so it is not inside.
        let claim = Claim::Waiting { ticket: None, upgrade: false, owners: Vec::new() };
        self.recover_lock(seat, &record, mode, claim, work)?;
        let shard = self.shard_of(record.group());
        self.with_shard(shard, work, |shard, now, work| {
            if seat.one_lock(mode) == OneLock::Over {
                slot.clone().fill(&Value::Null, &mut work.dirty);
                return Ok(());
            }
            let (seq, upgrade, owners) = (Some(seat.lock_seq()), false, Vec::new());
            let wish = Wish { record, mode, wait, seq, upgrade, owners, note };
            self.ask(shard, seat, (|| Ok(slot.clone()), Some(tag)), wish, now, work)
        })
    }

    /// A lock was granted: its lease begins now, and then its client is told.
    pub(super) fn lock_granted(&self, granted: LockGranted, work: &mut Work) {
        if let Some(chain) = granted.slot.chain().cloned() {
            return self.lock_next(&chain, granted, work);
        }
        let LockGranted { seat, slot, tag, record, mode, token } = granted;
        if !tag.brought && slot.is_closed() {
            // Nobody has heard of this lock, and nobody can ask for it again.
            work.over.push(seat);
            return;
        }
        let is_next = slot.is_next();
        // Before the lease is kept: an `LS.LOCKALL` that fails ends the lock earlier, or not.
        seat.lock_was_replied();
        let value = match self.keep_lock(seat.id, work) {
            Ok(lease) => {
                // The lease is kept until the reply goes out, but is not whole then.
                let lease = if is_next { lease } else { lease / 2 };
                let grant = self.public_key.seal(tag.id, &record, mode, token);
                let handle = LockHandle { id: tag.id, grant: Some(grant) };
                reply::locked(&handle, mode, token, lease)
            }
            Err(why) => why.into(),
        };
        slot.clone().fill(&value, &mut work.dirty);
        if !is_next {
            seat.hold_back(slot);
            work.vigils.push(seat);
        }
    }

    /// The lock was granted while no command waited for it: the next in line has it. A repeat of
    /// the `LS.LOCK` that comes later gets in line again, behind the others, with the next number.
    pub(super) fn pass_over(&self, seat: &Arc<Seat>, record: &Record, seq: Seq, work: &mut Work) {
        let shard = self.shard_of(record.group());
        self.with_shard(shard, work, |shard, now, work| {
            if seat.pass_over(seq) {
                let message = ToServer::Release { record: record.clone(), seq, keep: None };
                // If the group is not served any more, nothing is held there.
                let _ = self.say(shard, seat, message, now, work);
            }
        });
    }

    /// A handle is one that this server, or an earlier run on its data, has given. Otherwise one
    /// who waited could say after a restart that it holds the lock, with a token above that of the
    /// holder.
    pub(crate) fn check_seal(
        &self,
        id: LockId,
        record: &Record,
        grant: &LockGrant,
    ) -> Result<(), CommandError> {
        if self.public_key.is_sealed(id, record, grant) {
            return Ok(());
        }
        let text = "wrong handle for this record: pass the handle exactly as in the reply to \
                    LS.LOCK";
        Err(CommandError::new(ErrorCode::NotHeld, text))
    }

    /// `LS.RENEW`: how long the lease is from now on.
    pub(crate) fn renew_lock(
        &self,
        seat: &Arc<Seat>,
        record: &Record,
        LockGrant { mode, token, .. }: LockGrant,
        work: &mut Work,
    ) -> Result<Duration, CommandError> {
        self.check_seat(seat, work)?;
        check_mode(seat.one_lock(mode), record)?;
        seat.lock_was_told();
        self.recover_lock(seat, record, mode, Claim::Held { token }, work)?;
        let shard = self.shard_of(record.group());
        let (held, _) =
            self.with_shard(shard, work, |shard, _, _| shard.table.look_own(seat.id, record));
        let is_it = held.is_some_and(|claim| claim.token == Some(token) && claim.mode == mode);
        if !is_it {
            let text = format!("the lock on {} is no longer held", show(record));
            return Err(CommandError::new(ErrorCode::NotHeld, text));
        }
        seat.lock_was_replied();
        self.keep_lock(seat.id, work)
    }

    /// Extends the lease of a lock that is held, for its client: how long it is from now on.
    pub(super) fn keep_lock(
        &self,
        session: SessionId,
        work: &mut Work,
    ) -> Result<Duration, CommandError> {
        let seen = self.with_desk(work, |desk, _| desk.registry.open_session(session));
        if seen.is_some_and(|seen| seen.last) {
            let text = "an operator has ended this lock, and its lease is no longer extended: stop \
                        using the record, and take a new lock";
            return Err(CommandError::new(ErrorCode::NotHeld, text));
        }
        self.keep(session, work)
    }

    /// `LS.UNLOCK`: whether there was a lock to end.
    pub(crate) fn unlock(
        &self,
        seat: &Arc<Seat>,
        record: &Record,
        work: &mut Work,
    ) -> Result<bool, CommandError> {
        if !seat.is_open() {
            // With the registry locked, so that the session does not open meanwhile.
            let early = self.with_desk(work, |desk, _| match desk.registry.check_open(seat.id) {
                Ok(()) => Ok(None),
                // It is being opened, or is over.
                Err(SessionRefusal::Unknown) => Ok(Some(seat.unlock_early())),
                Err(why) => Err(CommandError::from(&why)),
            });
            if let Some(some) = early? {
                return Ok(some);
            }
        }
        let unrecovered = self.is_unrecovered(seat.id);
        let shard = self.shard_of(record.group());
        let own = self.with_shard(shard, work, |shard, _, _| shard.table.look_own(seat.id, record));
        let some = unrecovered || own.0.is_some() || own.1.is_some();
        Ok(self.close(seat.id, work).is_ok() && some)
    }

    /// `LS.UNLOCK` of a lock that nobody has asked for: an `LS.LOCK` with its id that comes late is
    /// stale. The seat, if one has come meanwhile.
    pub(crate) fn unlock_unseen(&self, session: SessionId, work: &mut Work) -> Option<Arc<Seat>> {
        self.with_desk(work, |desk, now| {
            let seat = desk.seats.get(&session).cloned();
            if seat.is_none() {
                desk.registry.forestall(now, session);
            }
            seat
        })
    }

    /// Whether a restarted server waits for the session to say what it had.
    pub(crate) fn is_unrecovered(&self, session: SessionId) -> bool {
        crate::lock(&self.desk).registry.is_unrecovered(session)
    }

    /// Tells a restarted server what the lock's session had, if it has yet to hear of it.
    fn recover_lock(
        &self,
        seat: &Arc<Seat>,
        record: &Record,
        mode: Mode,
        claim: Claim,
        work: &mut Work,
    ) -> Result<(), CommandError> {
        if !self.is_unrecovered(seat.id) {
            return Ok(());
        }
        let (former, seq) = (seat.id, seat.lock_seq());
        for term in self.terms() {
            let (groups, epoch) = (term.groups, term.epoch);
            let is_here = groups.contains(record.group());
            if is_here {
                let (record, claim) = (record.clone(), claim.clone());
                let told = ToServer::Reassert { record, epoch, former, seq, mode, claim };
                self.tell_table(seat, told, work).map_err(|why| CommandError::from(&why))?;
            }
            let (count, sum) = if is_here { (1, seq.0) } else { (0, 0) };
            let told = ToServer::Reasserted { groups, epoch, former, count, sum };
            self.tell_table(seat, told, work).map_err(|why| CommandError::from(&why))?;
        }
        Ok(())
    }

    /// A command waits for this lock from now on, or its reply is held back: the server keeps the
    /// lease meanwhile, for the client can't.
    pub(super) fn watch_over(&self, seat: Arc<Seat>, work: &mut Work) {
        let now = self.keep_waiting(&seat, work);
        if seat.begin_vigil() {
            self.vigils.add(now + seat.ttl / 3, seat);
            self.ring_by(self.vigils.next_deadline());
        }
    }

    /// Extends the leases of locks that wait: of up to [`DUE_AT_ONCE`].
    pub(super) fn keep_vigils(&self, now: Tick, work: &mut Work) {
        for seat in self.vigils.due(now) {
            if seat.goes_on_waiting() {
                let now = self.keep_waiting(&seat, work);
                self.vigils.add(now + seat.ttl / 3, seat);
            }
        }
    }

    /// Extends the lease of a lock that waits, as its client can't; tells when that is.
    pub(super) fn keep_waiting(&self, seat: &Seat, work: &mut Work) -> Tick {
        self.with_desk(work, |desk, now| {
            // If it can't be extended it ends, and the command that waits hears so.
            let _ = desk.registry.keep_alive(now, seat.id, 0, &mut VecDeque::new());
            now
        })
    }
}

fn check_mode(lock: OneLock, record: &Record) -> Result<(), CommandError> {
    if lock != OneLock::Other {
        return Ok(());
    }
    let text = format!(
        "this ID is used for a lock on {} in the other mode; use a new random ID for each lock",
        show(record)
    );
    Err(CommandError::new(ErrorCode::Already, text))
}
