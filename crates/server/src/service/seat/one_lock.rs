//! The session of a lock of `LS.LOCK`: its mode, its number, and whether anybody waits for it.

use lockspan_protocol::{Mode, Seq};

use super::super::lock::LockAsk;
use super::Seat;
use crate::net::outbox::Slot;

/// The first acquire of a lock's session.
const FIRST_SEQ: Seq = Seq(1);

/// What the lock of a session is to a command that names a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::service) enum OneLock {
    /// The same lock.
    Own,
    /// The same, and nobody waits for it any more: the `WAIT` is over.
    Over,
    /// A lock in the other mode.
    Other,
}

/// What is known of the lock, if the session is one's.
#[derive(Debug, Default)]
pub(super) struct LockState {
    /// Its mode, as far as it is known, and whether it is over.
    one: Option<(Mode, OneLock)>,
    /// The number of its present acquire, after the first: see [`Seat::lock_seq`].
    seq: Option<Seq>,
    /// It was unlocked before its session was open, which is closed as soon as it is.
    pub(super) is_unlocked: bool,
    /// A reply or a renewal says that it is held: its client may be inside.
    pub(super) is_told: bool,
    /// A reply tells its client that the lock is held. Unlike [`is_told`](Self::is_told) it does
    /// not speak of an `LS.LOCKALL` that has the lock and waits for the next one.
    is_replied: bool,
    /// Replies that tell of its grant, and wait for an earlier reply of their connection.
    held_back: Vec<Slot>,
    /// The server keeps the lease: the lock is waited for, or a reply is held back.
    is_watched: bool,
}

impl LockState {
    /// Whether the session is that of a lock.
    pub(super) fn is_one(&self) -> bool {
        self.one.is_some()
    }
}

impl Seat {
    /// An `LS.LOCK` waits for the session to be open.
    pub(in crate::service) fn await_lock(&self, ask: LockAsk) {
        self.lock().lock_opens.push(ask);
    }

    /// The lock is unlocked before its session is open, which is closed when it is. Whether an
    /// `LS.LOCK` waits for that; it hears that the lock is over.
    pub(in crate::service) fn unlock_early(&self) -> bool {
        let mut inner = self.lock();
        inner.lock.is_unlocked = true;
        !inner.lock_opens.is_empty()
    }

    /// What the lock of this session is; from now on it has this mode, if it is not known.
    pub(in crate::service) fn one_lock(&self, mode: Mode) -> OneLock {
        let mut inner = self.lock();
        let (known, lock) = *inner.lock.one.get_or_insert((mode, OneLock::Own));
        if known == mode { lock } else { OneLock::Other }
    }

    /// Nobody waits for the lock any more. Its session ends with its lease, as if it were closed.
    pub(in crate::service) fn lock_is_over(&self) {
        let mut inner = self.lock();
        inner.closed = true;
        if let Some((_, lock)) = &mut inner.lock.one {
            *lock = OneLock::Over;
        }
    }

    /// The number of the lock's acquire. It changes when a grant found nobody, see
    /// [`Service::pass_over`](crate::service::Service::pass_over). Called with the record's table
    /// locked.
    pub(in crate::service) fn lock_seq(&self) -> Seq {
        self.lock().lock.seq.unwrap_or(FIRST_SEQ)
    }

    /// A client has shown that it was told of the grant.
    pub(in crate::service) fn lock_was_told(&self) {
        self.lock().lock.is_told = true;
    }

    /// A reply tells a client that it holds the lock, or the client has shown that one did.
    pub(in crate::service) fn lock_was_replied(&self) {
        self.lock().lock.is_replied = true;
    }

    /// Whether the lock is somebody else's too than that of the command with this reply: a client
    /// was told that it holds the lock, or another command has it and goes on waiting.
    pub(in crate::service) fn is_for_another(&self, reply: &Slot) -> bool {
        let lock = &self.lock().lock;
        let is_open = |slot: &Slot| !slot.is_closed() && !slot.is_sent();
        lock.is_replied || lock.held_back.iter().any(|slot| slot != reply && is_open(slot))
    }

    /// The grant `seq` of the lock is to be given back, for nobody was told of it; false if
    /// somebody was meanwhile. Called with the record's table locked, as grants are told.
    pub(in crate::service) fn pass_over(&self, seq: Seq) -> bool {
        let lock = &mut self.lock().lock;
        let passes = !lock.is_told && lock.seq.unwrap_or(FIRST_SEQ) == seq;
        if passes {
            lock.seq = Some(Seq(seq.0 + 1));
        }
        passes
    }

    /// This reply tells of the lock's grant, and waits for an earlier one.
    pub(in crate::service) fn hold_back(&self, reply: Slot) {
        self.lock().lock.held_back.push(reply);
    }

    /// The server keeps the lease from now on; false if it did already.
    pub(in crate::service) fn begin_vigil(&self) -> bool {
        !std::mem::replace(&mut self.lock().lock.is_watched, true)
    }

    /// Whether a command still waits for the lock, or for a reply that is held back. If none does,
    /// the lease is not kept any more.
    pub(in crate::service) fn goes_on_waiting(&self) -> bool {
        let mut inner = self.lock();
        inner.lock.held_back.retain(|slot| !slot.is_closed() && !slot.is_sent());
        // A connection may have gone while its command was on the way here.
        let mut asks = inner.asks.iter();
        let waits = asks.any(|ask| ask.lock.is_some() && !ask.slot.is_closed());
        drop(asks);
        inner.lock.is_watched = waits || !inner.lock.held_back.is_empty();
        inner.lock.is_watched
    }
}
