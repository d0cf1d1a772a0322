//! `LS.LOCKALL`: several locks, one after the other, with one reply.
//!
//! Each record gets the lock that `LS.LOCK` with the same id would take: a session of its own, a
//! handle of its own, and `LS.RENEW` and `LS.UNLOCK` as ever. The records are locked in the byte
//! order of (datatype, id). The next one is asked for when the one before is granted, so nothing
//! behind the record that is waited for is held. By that order commands that hold nothing else
//! never wait for each other in a cycle.
//!
//! A [`Chain`] goes with the [`Slot`] of the reply, from lock to lock.
//!
//! | what happens | what follows |
//! |---|---|
//! | a lock is granted | the server keeps its lease, and asks for the next |
//! | the last lock is granted | all leases are whole; the reply has all handles |
//! | the reply becomes anything else: null, an error | [`Slot::fill`]: the locks are ended |
//! | the connection closes, no `ID` | the locks are ended |
//! | the connection closes, with `ID` | the leases run; a repeat finds the locks and goes on |
//!
//! With `ID` the same lock can be in several chains: the command and its repeats. So "the locks are
//! ended" leaves out a lock that a client was told of, and one that another command still waits
//! with: see [`Service::end_abandoned`].
//!
//! **Invariant:** a chain whose reply is known holds nothing, or all of its records.
//!
//! **Order of locks:** the desk, then a seat, then the steps of a chain, then [`Abandoned`].

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockspan_protocol::{Annotation, Mode, Record, SessionRefusal, Tick, Token};
use lockspan_wire::{CommandError, LockHandle, Value, Wait, reply};

use super::lock::{LockGranted, LockTag, LockWish};
use super::seat::Seat;
use super::{Service, Work};
use crate::clock;
use crate::net::outbox::{Outbox, Slot};

/// What `LS.LOCKALL` asks for.
#[derive(Debug)]
pub(crate) struct LockAllWish {
    /// Each once, in the order in which they are locked; not empty.
    pub(crate) records: Vec<(Record, Mode)>,
    pub(crate) wait: Wait,
    pub(crate) ttl: Duration,
    pub(crate) tag: LockTag,
    pub(crate) owner: Option<Arc<str>>,
    pub(crate) label: Option<Annotation>,
    pub(crate) note: Option<Annotation>,
}

/// Locks that end because their chain has failed, each with the reply that it was taken for.
/// [`Service::finish`] closes them.
#[derive(Debug, Default)]
pub(super) struct Abandoned(Mutex<Vec<(Arc<Seat>, Slot)>>);

impl Abandoned {
    pub(super) fn take(&self) -> Vec<(Arc<Seat>, Slot)> {
        std::mem::take(&mut *crate::lock(&self.0))
    }

    fn add(&self, links: impl IntoIterator<Item = Link>) {
        crate::lock(&self.0).extend(links.into_iter().map(|link| (link.seat, link.slot)));
    }

    pub(super) fn is_empty(&self) -> bool {
        crate::lock(&self.0).is_empty()
    }
}

/// The locks of one `LS.LOCKALL`.
#[derive(Debug)]
pub(crate) struct Chain {
    wish: LockAllWish,
    /// When the wait for all of them is over, if it ever is.
    until: Option<Tick>,
    steps: Mutex<Steps>,
    abandoned: Arc<Abandoned>,
}

#[derive(Debug)]
struct Steps {
    left: VecDeque<(Record, Mode)>,
    /// The locks that are held, in order.
    held: Vec<Link>,
    /// Whose session waits.
    current: Option<Arc<Seat>>,
    /// The reply is known.
    is_over: bool,
}

/// A lock that is held.
#[derive(Debug)]
struct Link {
    seat: Arc<Seat>,
    /// The reply of the chain, without the chain.
    slot: Slot,
    record: Record,
    mode: Mode,
    token: Token,
}

impl Chain {
    /// The reply is something else than all locks: those that are held end.
    pub(crate) fn failed(&self) {
        let mut steps = crate::lock(&self.steps);
        steps.is_over = true;
        self.abandoned.add(steps.held.drain(..));
    }

    /// Its connection has closed. Who brought an id may ask again.
    pub(crate) fn forsaken(&self) {
        if !self.wish.tag.brought {
            self.failed();
        }
    }

    /// The session that it waits in.
    pub(crate) fn current(&self) -> Option<Arc<Seat>> {
        crate::lock(&self.steps).current.clone()
    }

    /// How long the next lock may be waited for.
    fn wait(&self) -> Wait {
        match self.until {
            Some(until) => Wait::Ms(until.since(clock::now())),
            None => self.wish.wait,
        }
    }
}

impl Service {
    /// `LS.LOCKALL`: begins with the first record.
    pub(crate) fn lock_all(
        &self,
        outbox: &Arc<Outbox>,
        wish: LockAllWish,
        work: &mut Work,
    ) -> Result<(Arc<Chain>, Arc<Seat>), CommandError> {
        let until = match wish.wait {
            Wait::Ms(time) => Some(clock::now() + time),
            _ => None,
        };
        let mut left: VecDeque<_> = wish.records.iter().cloned().collect();
        let first = left.pop_front();
        let steps = Steps { left, held: Vec::new(), current: None, is_over: false };
        let abandoned = Arc::clone(&self.abandoned);
        let chain = Arc::new(Chain { wish, until, steps: Mutex::new(steps), abandoned });
        let first = first.expect("the reader refuses a command without records");
        let slot = || outbox.open_slot().with_chain(Arc::clone(&chain));
        let seat = self.lock_one(&chain, first, slot, work)?;
        Ok((chain, seat))
    }

    /// Asks for one lock of a chain.
    fn lock_one(
        &self,
        chain: &Arc<Chain>,
        (record, mode): (Record, Mode),
        slot: impl FnOnce() -> Slot,
        work: &mut Work,
    ) -> Result<Arc<Seat>, CommandError> {
        let LockAllWish { ttl, tag, owner, label, note, .. } = &chain.wish;
        let wish = LockWish { record, mode, wait: chain.wait(), tag: *tag, note: note.clone() };
        // Before anybody else can go on with the lock, and with the next one.
        let slot = |seat: &Arc<Seat>| {
            crate::lock(&chain.steps).current = Some(Arc::clone(seat));
            slot()
        };
        let seat = self.lock_in(slot, *ttl, owner.as_ref(), wish, work)?;
        if let Some(label) = label {
            seat.set_label(label.clone());
        }
        Ok(seat)
    }

    /// A lock of a chain was granted: asks for the next, or replies.
    pub(super) fn lock_next(&self, chain: &Arc<Chain>, granted: LockGranted, work: &mut Work) {
        let LockGranted { seat, slot, tag, record, mode, token } = granted;
        if slot.is_closed() && !tag.brought {
            chain.failed();
        }
        let link = Link { seat, slot: slot.clone().without_chain(), record, mode, token };
        // The server keeps the lease until the reply goes out or its connection closes. Not with
        // the steps locked: whoever fills a slot may have a seat locked.
        link.seat.hold_back(link.slot.clone());
        let next = {
            let mut steps = crate::lock(&chain.steps);
            if steps.is_over {
                chain.abandoned.add([link]);
                return;
            }
            work.vigils.push(Arc::clone(&link.seat));
            steps.held.push(link);
            steps.current = None;
            steps.left.pop_front()
        };
        match next {
            // A repeat goes on from here.
            Some(_) if slot.is_closed() => {}
            Some(next) => {
                if let Err(why) = self.lock_one(chain, next, || slot.clone(), work) {
                    slot.fill(&why.into(), &mut work.dirty);
                }
            }
            None => self.all_locked(chain, slot, work),
        }
    }

    /// All locks of a chain are held: their leases are whole from now on.
    fn all_locked(&self, chain: &Arc<Chain>, slot: Slot, work: &mut Work) {
        let is_next = slot.is_next();
        let id = chain.wish.tag.id;
        let links = {
            let mut steps = crate::lock(&chain.steps);
            if std::mem::replace(&mut steps.is_over, true) {
                // Its connection has closed meanwhile, and its locks are ended.
                return;
            }
            std::mem::take(&mut steps.held)
        };
        let locked = |link: &Link, work: &mut Work| {
            let Link { seat, record, mode, token, .. } = link;
            let lease = self.keep_lock(seat.id, work)?;
            // The lease is kept until the reply goes out, but is not whole then.
            let lease = if is_next { lease } else { lease / 2 };
            let grant = self.public_key.seal(id, record, *mode, *token);
            let handle = LockHandle { id, grant: Some(grant) };
            Ok(reply::locked_of(record, &handle, *mode, *token, lease))
        };
        let all: Result<Vec<_>, CommandError> =
            links.iter().map(|link| locked(link, work)).collect();
        match all.and_then(|all| self.all_replied(&links, work).map(|()| all)) {
            Ok(all) => slot.without_chain().fill(&Value::Array(all), &mut work.dirty),
            // One of them has ended meanwhile.
            Err(why) => {
                crate::lock(&chain.steps).held = links;
                slot.fill(&why.into(), &mut work.dirty);
            }
        }
    }

    /// The reply tells of all of these locks from now on: another chain that fails does not end
    /// them any more. An error, and none is told of, if one of them has ended.
    fn all_replied(&self, links: &[Link], work: &mut Work) -> Result<(), CommandError> {
        // With the registry locked, so that none of them is closed meanwhile.
        let told = self.with_desk(work, |desk, _| {
            links.iter().try_for_each(|link| desk.registry.check_open(link.seat.id))?;
            links.iter().for_each(|link| link.seat.lock_was_replied());
            Ok(())
        });
        told.map_err(|why: SessionRefusal| CommandError::from(&why))
    }

    /// Ends a lock of a chain that has failed; but not if a client was told that it holds the lock,
    /// or if another command has it and waits for the next one. That is so if the `ID` is used by
    /// several commands.
    pub(super) fn end_abandoned(&self, seat: &Arc<Seat>, slot: &Slot, work: &mut Work) {
        let from = work.from;
        self.with_desk(work, |desk, _| {
            if !seat.is_for_another(slot) {
                // It may have ended by itself.
                let _ = desk.close(seat.id, from);
            }
        });
    }
}

impl Drop for Chain {
    /// No command knows of the chain any more: its connection closed before the reply was known.
    fn drop(&mut self) {
        self.forsaken();
    }
}
