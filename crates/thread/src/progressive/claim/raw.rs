//! The lock without its data, for those who keep it in a structure of their own.

use core::cell::Cell;
use core::fmt;
use std::time::Instant;

use super::super::line::Sign;
use super::super::turnstile::Turnstile;
use super::holders::Holders;
use super::ord;
use super::unfinished::Unfinished;
use super::word::{self, ALONE, ATOMIC, CHANGING, CLAIMING, Claims, JOINER, OPEN, READER};
use crate::sync::Ordering;

/// [`ClaimLock`](super::ClaimLock) without data: the word and its transitions, whose numbers (T1…)
/// are explained in `word.rs`.
///
/// A call whose name has two states or ends in `_done` needs a hold in the first state, and gives
/// it up: `join_to_claim` needs a join hold and leaves a claim hold. A call without that hold makes
/// the counts wrong; it is no danger to memory by itself.
///
/// Calls that may wait have three forms. `try_` calls never wait. `_until` calls stop at their
/// deadline. Both return false if the caller still has what it had before the call; where a
/// transition has two steps, the `_until` call returns [`Unfinished`].
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

    /// Joins from outside and waits for the claim phase (T15).
    ///
    /// # Panics
    /// If 524,287 readers are inside.
    #[inline]
    pub fn claim(&self) {
        let word = self.0.enter(word::claim, ord::CLAIM);
        if !word::is_claiming(word) {
            self.0.settle(word::is_claiming, None);
        }
    }

    /// Like [`claim`](Self::claim), but false instead of a panic.
    #[inline]
    #[must_use]
    pub fn claim_unless_full(&self) -> bool {
        let entered = self.0.enter_unless_full(word::claim, ord::CLAIM);
        entered
            .is_some_and(|word| word::is_claiming(word) || self.0.settle(word::is_claiming, None))
    }

    /// Claims if nobody is inside.
    #[inline]
    #[must_use]
    pub fn try_claim(&self) -> bool {
        self.0.try_enter(word::claim_at_once, ord::CLAIM).is_some()
    }

    /// Waits for [`claim`](Self::claim) until `deadline`; false if that passed first.
    #[must_use]
    pub fn claim_until(&self, deadline: Instant) -> bool {
        self.0.enter_until(word::claim, ord::CLAIM, Some(deadline)).is_some()
            && self.settle_or(word::is_claiming, deadline, word::claim_back_out)
    }

    /// Ends a claim hold: retracts (T5). Its marks, if it made any, it has taken back before.
    #[inline]
    pub fn claim_done(&self) {
        self.join_done();
    }

    /// Waits to change beside others that do, without a claim of its own (T12).
    ///
    /// # Panics
    /// If 524,287 are inside.
    #[inline]
    pub fn atomic(&self) {
        let word = self.0.enter(word::atomic, ord::ATOMIC);
        if !word::is_changing(word) {
            self.0.settle(word::is_changing, None);
        }
    }

    /// Like [`atomic`](Self::atomic), but false instead of a panic.
    #[inline]
    #[must_use]
    pub fn atomic_unless_full(&self) -> bool {
        let entered = self.0.enter_unless_full(word::atomic, ord::ATOMIC);
        entered
            .is_some_and(|word| word::is_changing(word) || self.0.settle(word::is_changing, None))
    }

    /// Changes beside others that do, if nobody is in the way.
    #[inline]
    #[must_use]
    pub fn try_atomic(&self) -> bool {
        self.0.try_enter(word::atomic_at_once, ord::ATOMIC).is_some()
    }

    /// Waits for [`atomic`](Self::atomic) until `deadline`; false if that passed first.
    #[must_use]
    pub fn atomic_until(&self, deadline: Instant) -> bool {
        self.0.enter_until(word::atomic, ord::ATOMIC, Some(deadline)).is_some()
            && self.settle_or(word::is_changing, deadline, word::atomic_back_out)
    }

    /// Ends an atomic hold (T7).
    #[inline]
    pub fn atomic_done(&self) {
        self.0.change(ord::ATOMIC_DONE, |word| Some(word::atomic_done(word)));
    }

    /// A reader joins those who will claim (T3). It does not wait.
    #[inline]
    pub fn read_to_join(&self) {
        self.0.change(ord::JOIN, |word| Some(word::join(word)));
    }

    /// A reader joins and waits for the claim phase (T3, T4).
    #[inline]
    pub fn read_to_claim(&self) {
        self.go(ord::JOIN, word::join, word::is_claiming);
    }

    /// A reader claims, if nobody else reads.
    #[inline]
    #[must_use]
    pub fn try_read_to_claim(&self) -> bool {
        self.try_go(ord::JOIN, word::join, word::is_claiming)
    }

    /// As [`read_to_claim`](Self::read_to_claim), until `deadline`; if that passed first, it is
    /// still a reader.
    #[must_use]
    pub fn read_to_claim_until(&self, deadline: Instant) -> bool {
        self.read_to_join();
        self.settle_or(word::is_claiming, deadline, word::join_back_to_read)
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

    /// A joiner gives up and reads (T14): at once while others read; else it waits until the claim
    /// and the atomic phase are over.
    #[inline]
    pub fn join_to_read(&self) {
        self.go(ord::TO_READ, word::to_read, word::is_reading);
    }

    /// A joiner gives up and reads, if it need not wait.
    #[inline]
    #[must_use]
    pub fn try_join_to_read(&self) -> bool {
        self.try_go(ord::TO_READ, word::to_read, word::is_reading)
    }

    /// As [`join_to_read`](Self::join_to_read), until `deadline`.
    ///
    /// # Errors
    /// If that passed first: [`Back`](Unfinished::Back) if it is a joiner as before,
    /// [`HalfWay`](Unfinished::HalfWay) if it is an atomic, since the claim phase that it had
    /// joined for is over.
    pub fn join_to_read_until(&self, deadline: Instant) -> Result<(), Unfinished> {
        // Asked in the exchange: before it, the atomic phase can end at any time.
        let was_changing = Cell::new(false);
        self.0.change(ord::TO_READ, |word| {
            was_changing.set(word::is_changing(word));
            Some(word::to_read(word))
        });
        if !was_changing.get() {
            self.settle_refuge(deadline)
        } else if self.settle_or(word::is_reading, deadline, word::read_back_to_join) {
            Ok(())
        } else {
            Err(Unfinished::Back(()))
        }
    }

    /// A joiner gives up and changes beside others, without a claim of its own (T13): at once while
    /// the atomic phase lasts that it came from; else it waits for the next one.
    #[inline]
    pub fn join_to_atomic(&self) {
        self.claim_to_atomic();
    }

    /// A joiner gives up and changes beside others, if it need not wait.
    #[inline]
    #[must_use]
    pub fn try_join_to_atomic(&self) -> bool {
        self.try_claim_to_atomic()
    }

    /// As [`join_to_atomic`](Self::join_to_atomic), until `deadline`; if that passed first, it is
    /// still a joiner.
    #[must_use]
    pub fn join_to_atomic_until(&self, deadline: Instant) -> bool {
        self.claim_to_atomic_until(deadline)
    }

    /// Ends a join hold: retracts (T5).
    #[inline]
    pub fn join_done(&self) {
        self.0.change(ord::JOIN_DONE, |word| Some(word::join_done(word)));
    }

    /// A claimant moves on and waits for the atomic phase: until nobody claims any more (T6).
    #[inline]
    pub fn claim_to_atomic(&self) {
        self.go(ord::ON_TO_ATOMIC, word::to_atomic, word::is_changing);
    }

    /// A claimant moves on to the atomic phase, if nobody else claims.
    #[inline]
    #[must_use]
    pub fn try_claim_to_atomic(&self) -> bool {
        self.try_go(ord::ON_TO_ATOMIC, word::to_atomic, word::is_changing)
    }

    /// As [`claim_to_atomic`](Self::claim_to_atomic), until `deadline`; if that passed first, it
    /// still claims.
    #[must_use]
    pub fn claim_to_atomic_until(&self, deadline: Instant) -> bool {
        self.0.change(ord::ON_TO_ATOMIC, |word| Some(word::to_atomic(word)));
        self.settle_or(word::is_changing, deadline, word::atomic_back_to_join)
    }

    /// A claimant gives up without letting go (T14): it waits until the others have made their
    /// changes, and reads again.
    #[inline]
    pub fn claim_to_read(&self) {
        self.join_to_read();
    }

    /// A claimant gives up and reads, if nobody else claims and nobody waits for Atomic.
    #[inline]
    #[must_use]
    pub fn try_claim_to_read(&self) -> bool {
        self.try_join_to_read()
    }

    /// As [`claim_to_read`](Self::claim_to_read), until `deadline`.
    ///
    /// # Errors
    /// If that passed first: [`Back`](Unfinished::Back) if it still claims,
    /// [`HalfWay`](Unfinished::HalfWay) if it is an atomic, since the claim phase is over.
    pub fn claim_to_read_until(&self, deadline: Instant) -> Result<(), Unfinished> {
        self.0.change(ord::TO_READ, |word| Some(word::to_read(word)));
        self.settle_refuge(deadline)
    }

    /// Waits to read until `deadline`, after a T14 that did not begin in the atomic phase, or else
    /// takes it back.
    fn settle_refuge(&self, deadline: Instant) -> Result<(), Unfinished> {
        if self.0.settle(word::is_reading, Some(deadline)) {
            return Ok(());
        }
        match self.0.change(Ordering::Relaxed, word::refuge_back) {
            None => {
                self.0.settle(word::is_reading, None);
                Ok(())
            }
            Some(word) if word::is_claiming(word) => Err(Unfinished::Back(())),
            Some(_) => {
                self.0.settle(word::is_changing, None);
                Err(Unfinished::HalfWay(()))
            }
        }
    }

    /// An atomic becomes a reader, once the last atomic has left or moved on (T8).
    #[inline]
    pub fn atomic_to_read(&self) {
        self.go(ord::ATOMIC_TO_READ, word::atomic_to_read, word::is_reading);
    }

    /// An atomic becomes a reader, if it is the last one.
    #[inline]
    #[must_use]
    pub fn try_atomic_to_read(&self) -> bool {
        self.try_go(ord::ATOMIC_TO_READ, word::atomic_to_read, word::is_reading)
    }

    /// As [`atomic_to_read`](Self::atomic_to_read), until `deadline`; if that passed first, it is
    /// still an atomic.
    #[must_use]
    pub fn atomic_to_read_until(&self, deadline: Instant) -> bool {
        self.0.change(ord::ATOMIC_TO_READ, |word| Some(word::atomic_to_read(word)));
        self.settle_or(word::is_reading, deadline, word::read_back_to_atomic)
    }

    /// An atomic joins again, for the next round (T9). It does not wait.
    #[inline]
    pub fn atomic_to_join(&self) {
        self.0.change(ord::ATOMIC_TO_JOIN, |word| Some(word::atomic_to_join(word)));
    }

    /// An atomic joins again and waits for the next claim phase (T9, T4).
    #[inline]
    pub fn atomic_to_claim(&self) {
        self.go(ord::ATOMIC_TO_JOIN, word::atomic_to_join, word::is_claiming);
    }

    /// An atomic claims for the next round, if it is the last one and nobody waits to read.
    #[inline]
    #[must_use]
    pub fn try_atomic_to_claim(&self) -> bool {
        self.try_go(ord::ATOMIC_TO_JOIN, word::atomic_to_join, word::is_claiming)
    }

    /// As [`atomic_to_claim`](Self::atomic_to_claim), until `deadline`.
    ///
    /// # Errors
    /// If that passed first: [`Back`](Unfinished::Back) if it is an atomic as before,
    /// [`HalfWay`](Unfinished::HalfWay) if it is a joiner, since other atomics already read again.
    pub fn atomic_to_claim_until(&self, deadline: Instant) -> Result<(), Unfinished> {
        self.atomic_to_join();
        if self.0.settle(word::is_claiming, Some(deadline)) {
            Ok(())
        } else if self.0.change(Ordering::Relaxed, word::join_back_to_atomic).is_some() {
            Err(Unfinished::Back(()))
        } else if self.try_join_to_claim() {
            Ok(())
        } else {
            Err(Unfinished::HalfWay(()))
        }
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

    /// The exclusive joiner becomes an atomic (T11): the atomic phase, which others may join.
    #[inline]
    pub fn alone_to_atomic(&self) {
        self.0.trade(ALONE, CHANGING + ATOMIC, ord::ALONE_DONE);
    }

    /// The exclusive joiner becomes a reader, beside others that may come (T11).
    #[inline]
    pub fn alone_to_read(&self) {
        self.0.trade(ALONE, OPEN + READER, ord::ALONE_DONE);
    }

    /// Makes a change and waits for its sign.
    #[inline]
    fn go(&self, order: Ordering, next: fn(u64) -> u64, sign: Sign) {
        self.0.change(order, |word| Some(next(word)));
        self.0.settle(sign, None);
    }

    /// Makes a change if the word then has its sign; whether it did.
    #[inline]
    fn try_go(&self, order: Ordering, next: fn(u64) -> u64, sign: Sign) -> bool {
        let at_once = |word| Some(next(word)).filter(|new| sign(*new));
        self.0.change(order, at_once).is_some() && self.0.settle(sign, None)
    }

    /// Waits for the sign until `deadline`, or else takes the change before back. If that cannot be
    /// any more, the sign has come at that moment.
    fn settle_or(&self, sign: Sign, deadline: Instant, back: fn(u64) -> Option<u64>) -> bool {
        self.0.settle(sign, Some(deadline))
            || self.0.change(Ordering::Relaxed, back).is_none() && self.0.settle(sign, None)
    }

    #[cfg(test)]
    pub(in super::super) fn assert_at_rest(&self) {
        self.0.assert_at_rest();
    }
}
