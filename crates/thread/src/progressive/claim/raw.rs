//! The lock without its data, for those who keep it in a structure of their own.

use core::fmt;
use std::time::Instant;

use super::super::turnstile::Turnstile;
use super::holders::Holders;
use super::ord;
use super::word::{self, ALONE, ATOMIC, CHANGING, CLAIMING, Claims, JOINER, OPEN, READER};
use crate::sync::Ordering;

/// [`ClaimLock`](super::ClaimLock) without data: the word and its transitions.
///
/// Each call but the first ones needs a hold that the caller has and gives up by it; the name says
/// which: `join_to_claim` needs a join hold and leaves a claim hold. A call without the hold
/// confuses the count; it is no danger to memory by itself.
pub struct RawClaimLock(Turnstile<Claims>);

impl Default for RawClaimLock {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for RawClaimLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RawClaimLock").field(&self.holders()).finish()
    }
}

impl RawClaimLock {
    /// An unlocked lock.
    #[cfg(not(lockspan_loom))]
    #[must_use]
    pub const fn new() -> Self {
        Self(Turnstile::new())
    }

    /// An unlocked lock.
    #[cfg(lockspan_loom)]
    pub(in super::super) fn new() -> Self {
        Self(Turnstile::new())
    }

    /// Who is inside. The lock does not wait for this look, nor this look for the lock.
    #[must_use]
    pub fn holders(&self) -> Holders {
        word::holders(self.0.fields())
    }

    /// Whether nobody is inside and nobody waits to come in.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.0.is_idle()
    }

    /// Waits to read (T1).
    ///
    /// # Panics
    /// If 524,287 readers are inside.
    #[inline]
    pub fn read(&self) {
        self.0.enter(word::read, ord::READ);
    }

    /// Like [`read`](Self::read), but false instead of a panic.
    #[inline]
    #[must_use]
    pub fn read_unless_full(&self) -> bool {
        self.0.enter_unless_full(word::read, ord::READ).is_some()
    }

    /// Reads if nobody is in the way.
    #[inline]
    #[must_use]
    pub fn try_read(&self) -> bool {
        self.0.try_enter(word::read, ord::READ).is_some()
    }

    /// Waits to read until `deadline`; false if that passed first.
    #[must_use]
    pub fn read_until(&self, deadline: Instant) -> bool {
        self.0.enter_until(word::read, ord::READ, Some(deadline)).is_some()
    }

    /// Ends a read hold (T2).
    #[inline]
    pub fn read_done(&self) {
        self.0.change(ord::READ_DONE, |word| Some(word::read_done(word)));
    }

    /// A reader joins those who will claim (T3). It does not wait.
    #[inline]
    pub fn read_to_join(&self) {
        self.0.change(ord::JOIN, |word| Some(word::join(word)));
    }

    /// A joiner waits for the claim phase (T4): until all readers have left or joined, and, if it
    /// came from the atomic phase, until that is over.
    #[inline]
    pub fn join_to_claim(&self) {
        self.0.settle(word::is_claiming, None);
    }

    /// Whether the claim phase has begun; if so, the joiner claims (T4).
    #[inline]
    #[must_use]
    pub fn try_join_to_claim(&self) -> bool {
        self.0.is_settled(word::is_claiming)
    }

    /// As [`join_to_claim`](Self::join_to_claim), until `deadline`; if that passed first, it is
    /// still a joiner.
    #[must_use]
    pub fn join_to_claim_until(&self, deadline: Instant) -> bool {
        self.0.settle(word::is_claiming, Some(deadline))
    }

    /// Ends a join hold: retracts (T5).
    #[inline]
    pub fn join_done(&self) {
        self.0.change(ord::JOIN_DONE, |word| Some(word::join_done(word)));
    }

    /// Ends a claim hold: retracts (T5). Its marks, if it made any, it has taken back before.
    #[inline]
    pub fn claim_done(&self) {
        self.join_done();
    }

    /// A claimant moves on and waits for the atomic phase: until nobody claims any more (T6).
    #[inline]
    pub fn claim_to_atomic(&self) {
        self.0.change(ord::ON_TO_ATOMIC, |word| Some(word::on_to_atomic(word)));
        self.0.settle(word::is_changing, None);
    }

    /// As [`claim_to_atomic`](Self::claim_to_atomic), until `deadline`; if that passed first, it
    /// still claims.
    #[must_use]
    pub fn claim_to_atomic_until(&self, deadline: Instant) -> bool {
        self.0.change(ord::ON_TO_ATOMIC, |word| Some(word::on_to_atomic(word)));
        self.0.settle(word::is_changing, Some(deadline))
            || self.0.change(Ordering::Relaxed, word::back_to_claim).is_none()
                && self.0.settle(word::is_changing, None)
    }

    /// A claimant gives up without letting go (T6, T8): it waits until the others have made their
    /// changes, changes nothing, and reads again.
    #[inline]
    pub fn claim_to_read(&self) {
        self.claim_to_atomic();
        self.atomic_to_read();
    }

    /// Ends an atomic hold (T7).
    #[inline]
    pub fn atomic_done(&self) {
        self.0.change(ord::ATOMIC_DONE, |word| Some(word::atomic_done(word)));
    }

    /// An atomic becomes a reader, once the last atomic has left or moved on (T8).
    #[inline]
    pub fn atomic_to_read(&self) {
        self.0.change(ord::ATOMIC_TO_READ, |word| Some(word::atomic_to_read(word)));
        self.0.settle(word::is_reading, None);
    }

    /// As [`atomic_to_read`](Self::atomic_to_read), until `deadline`; if that passed first, it is
    /// still an atomic.
    #[must_use]
    pub fn atomic_to_read_until(&self, deadline: Instant) -> bool {
        self.0.change(ord::ATOMIC_TO_READ, |word| Some(word::atomic_to_read(word)));
        self.0.settle(word::is_reading, Some(deadline))
            || self.0.change(Ordering::Relaxed, word::back_to_atomic).is_none()
                && self.0.settle(word::is_reading, None)
    }

    /// An atomic joins again, for the next round (T9). It does not wait.
    #[inline]
    pub fn atomic_to_join(&self) {
        self.0.change(ord::ATOMIC_TO_JOIN, |word| Some(word::atomic_to_join(word)));
    }

    /// Waits to join alone: nobody else is inside until this one moves on (T10).
    #[inline]
    pub fn join_alone(&self) {
        self.0.enter_idle(word::be_alone, ord::ALONE);
    }

    /// Joins alone if the lock is idle.
    #[inline]
    #[must_use]
    pub fn try_join_alone(&self) -> bool {
        self.0.try_enter(word::be_alone, ord::ALONE).is_some()
    }

    /// Waits to join alone until `deadline`; false if that passed first.
    #[must_use]
    pub fn join_alone_until(&self, deadline: Instant) -> bool {
        self.0.enter_until(word::be_alone, ord::ALONE, Some(deadline)).is_some()
    }

    /// Ends the exclusive join (T11).
    #[inline]
    pub fn alone_done(&self) {
        self.0.trade(ALONE, OPEN, ord::ALONE_DONE);
    }

    /// The exclusive joiner claims (T11): the claim phase, with one claimant.
    #[inline]
    pub fn alone_to_claim(&self) {
        self.0.trade(ALONE, CLAIMING + JOINER, ord::ALONE_DONE);
    }

    /// The exclusive joiner becomes an atomic (T11): the atomic phase, with one atomic.
    #[inline]
    pub fn alone_to_atomic(&self) {
        self.0.trade(ALONE, CHANGING + ATOMIC, ord::ALONE_DONE);
    }

    /// The exclusive joiner becomes a reader, beside others that may come (T11).
    #[inline]
    pub fn alone_to_read(&self) {
        self.0.trade(ALONE, OPEN + READER, ord::ALONE_DONE);
    }

    #[cfg(test)]
    pub(in super::super) fn assert_at_rest(&self) {
        self.0.assert_at_rest();
    }
}
