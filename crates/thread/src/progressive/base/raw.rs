//! The lock without its data, for those who keep it in a structure of their own.

use core::fmt;
use std::time::Instant;

use super::super::turnstile::Turnstile;
use super::holders::Holders;
use super::ord;
use super::word::{self, Base, READER, SEEK, WRITE};
use crate::sync::Ordering;

/// [`Lock`](super::Lock) without data: the word and its transitions, whose numbers (T1…) are
/// explained in `word.rs`.
///
/// A call whose name has two states or ends in `_done` needs a hold in the first state, and gives
/// it up: `write_to_seek` needs the write hold and leaves the seek hold. A call without that hold
/// makes the counts wrong; it is no danger to memory by itself.
pub struct RawLock(Turnstile<Base>);

// As `docs/progressive.md` says.
#[cfg(all(
    target_os = "linux",
    target_pointer_width = "64",
    not(any(lockspan_loom, lockspan_shuttle))
))]
const _: () = assert!(size_of::<RawLock>() == 40);

impl Default for RawLock {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for RawLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RawLock").field(&self.holders()).finish()
    }
}

impl RawLock {
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
    /// If 524,286 readers are inside.
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

    /// Ends a read hold (T5).
    #[inline]
    pub fn read_done(&self) {
        self.0.trade(READER, 0, ord::READ_DONE);
    }

    /// Waits to seek (T2).
    ///
    /// # Panics
    /// If 524,287 readers are inside.
    #[inline]
    pub fn seek(&self) {
        self.0.enter(word::seek, ord::SEEK);
    }

    /// Like [`seek`](Self::seek), but false instead of a panic.
    #[inline]
    #[must_use]
    pub fn seek_unless_full(&self) -> bool {
        self.0.enter_unless_full(word::seek, ord::SEEK).is_some()
    }

    /// Seeks if nobody is in the way.
    #[inline]
    #[must_use]
    pub fn try_seek(&self) -> bool {
        self.0.try_enter(word::seek, ord::SEEK).is_some()
    }

    /// Waits to seek until `deadline`; false if that passed first.
    #[must_use]
    pub fn seek_until(&self, deadline: Instant) -> bool {
        self.0.enter_until(word::seek, ord::SEEK, Some(deadline)).is_some()
    }

    /// Ends the seek hold (T6).
    #[inline]
    pub fn seek_done(&self) {
        self.0.trade(SEEK, 0, ord::SEEK_DONE);
    }

    /// Waits to write (T3).
    #[inline]
    pub fn write(&self) {
        let word = self.0.enter_idle(word::write, ord::WRITE);
        if !word::no_reader(word) {
            self.0.settle(word::no_reader, None);
        }
    }

    /// Writes if nobody is in the way.
    #[inline]
    #[must_use]
    pub fn try_write(&self) -> bool {
        self.0.try_enter(word::write_at_once, ord::WRITE).is_some()
    }

    /// Waits to write until `deadline`; false if that passed first.
    #[must_use]
    pub fn write_until(&self, deadline: Instant) -> bool {
        self.0.enter_until(word::write, ord::WRITE, Some(deadline)).is_some()
            && self.settle_or(deadline, word::write_back_out)
    }

    /// Ends the write hold (T7).
    #[inline]
    pub fn write_done(&self) {
        self.0.trade(WRITE, 0, ord::WRITE_DONE);
    }

    /// Waits to change beside others that do (T4).
    ///
    /// # Panics
    /// If 524,287 readers and atomics are inside.
    #[inline]
    pub fn atomic(&self) {
        let word = self.0.enter(word::atomic, ord::ATOMIC);
        if !word::no_reader(word) {
            self.0.settle(word::no_reader, None);
        }
    }

    /// Like [`atomic`](Self::atomic), but false instead of a panic.
    #[inline]
    #[must_use]
    pub fn atomic_unless_full(&self) -> bool {
        let entered = self.0.enter_unless_full(word::atomic, ord::ATOMIC);
        entered.is_some_and(|word| word::no_reader(word) || self.0.settle(word::no_reader, None))
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
            && self.settle_or(deadline, word::atomic_back_out)
    }

    /// Ends an atomic hold (T8).
    #[inline]
    pub fn atomic_done(&self) {
        self.0.change(ord::ATOMIC_DONE, |word| Some(word::atomic_done(word)));
    }

    /// A reader becomes the seeker, if there is none and nobody writes or waits to (T9).
    #[inline]
    #[must_use]
    pub fn try_read_to_seek(&self) -> bool {
        self.0.change_if_open(word::read_to_seek).is_some()
    }

    /// A reader becomes an atomic and waits until all readers have left or done the same (T10);
    /// false at once, and still a reader, if somebody seeks or waits to write.
    #[inline]
    #[must_use]
    pub fn read_to_atomic(&self) -> bool {
        self.0.change(ord::READ_TO_ATOMIC, word::read_to_atomic).is_some()
            && self.0.settle(word::no_reader, None)
    }

    /// A reader becomes an atomic, if nobody else reads, seeks or waits to write.
    #[inline]
    #[must_use]
    pub fn try_read_to_atomic(&self) -> bool {
        let at_once = |word| word::read_to_atomic(word).filter(|new| word::no_reader(*new));
        self.0.change(ord::READ_TO_ATOMIC, at_once).is_some()
            && self.0.settle(word::no_reader, None)
    }

    /// As [`read_to_atomic`](Self::read_to_atomic), until `deadline`; if that passed first, it is
    /// still a reader.
    #[must_use]
    pub fn read_to_atomic_until(&self, deadline: Instant) -> bool {
        self.0.change(ord::READ_TO_ATOMIC, word::read_to_atomic).is_some()
            && self.settle_or(deadline, word::atomic_back_to_read)
    }

    /// The seeker becomes the writer: no reader comes in any more, and it waits for those who are
    /// there to leave (T11).
    #[inline]
    pub fn seek_to_write(&self) {
        self.0.trade(SEEK, WRITE, Ordering::Relaxed);
        self.0.settle(word::no_reader, None);
    }

    /// The seeker becomes the writer, if no reader is there.
    #[inline]
    #[must_use]
    pub fn try_seek_to_write(&self) -> bool {
        let next = |word| word::no_reader(word).then(|| word - SEEK + WRITE);
        self.0.change(ord::TRY_SEEK_TO_WRITE, next).is_some()
    }

    /// As [`seek_to_write`](Self::seek_to_write), until `deadline`; if that passed first, it still
    /// seeks.
    #[must_use]
    pub fn seek_to_write_until(&self, deadline: Instant) -> bool {
        self.0.trade(SEEK, WRITE, Ordering::Relaxed);
        self.settle_or(deadline, word::write_back_to_seek)
    }

    /// The seeker becomes a reader (T12).
    #[inline]
    pub fn seek_to_read(&self) {
        self.0.trade(SEEK, READER, Ordering::Relaxed);
    }

    /// The writer becomes the seeker (T13).
    #[inline]
    pub fn write_to_seek(&self) {
        self.0.trade(WRITE, SEEK, ord::WRITE_TO_SEEK);
    }

    /// The writer becomes a reader (T14).
    #[inline]
    pub fn write_to_read(&self) {
        self.0.trade(WRITE, READER, ord::WRITE_TO_READ);
    }

    /// An atomic becomes a reader, once the last atomic has left or done the same (T15). From this
    /// call on no atomic joins.
    #[inline]
    pub fn atomic_to_read(&self) {
        self.0.change(ord::ATOMIC_TO_READ, |word| Some(word::atomic_to_read(word)));
        self.0.settle(word::some_reader, None);
    }

    /// An atomic becomes a reader, if it is the last one.
    #[inline]
    #[must_use]
    pub fn try_atomic_to_read(&self) -> bool {
        let at_once = |word| Some(word::atomic_to_read(word)).filter(|new| word::some_reader(*new));
        self.0.change(ord::ATOMIC_TO_READ, at_once).is_some()
            && self.0.settle(word::some_reader, None)
    }

    /// As [`atomic_to_read`](Self::atomic_to_read), until `deadline`; if that passed first, it is
    /// still an atomic.
    #[must_use]
    pub fn atomic_to_read_until(&self, deadline: Instant) -> bool {
        self.0.change(ord::ATOMIC_TO_READ, |word| Some(word::atomic_to_read(word)));
        self.0.settle(word::some_reader, Some(deadline))
            || self.0.change(Ordering::Relaxed, word::returner_back_to_atomic).is_none()
                && self.0.settle(word::some_reader, None)
    }

    /// Waits for the last reader until `deadline`, or else takes the change before back. If that
    /// cannot be any more, the last reader has left at that moment.
    fn settle_or(&self, deadline: Instant, back: fn(u64) -> Option<u64>) -> bool {
        self.0.settle(word::no_reader, Some(deadline))
            || self.0.change(Ordering::Relaxed, back).is_none()
                && self.0.settle(word::no_reader, None)
    }

    #[cfg(all(test, not(any(lockspan_loom, lockspan_shuttle))))]
    pub(in super::super) fn turnstile(&self) -> &Turnstile<Base> {
        &self.0
    }

    #[cfg(test)]
    pub(in super::super) fn assert_at_rest(&self) {
        self.0.assert_at_rest();
    }
}
