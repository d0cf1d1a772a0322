//! What a thread says about itself: by which biases it is in.
//!
//! | slot value | meaning |
//! |------------|---------|
//! | `EMPTY`    | free |
//! | `NEVER`    | only in the first slot of nobody's record: not free |
//! | more       | the mark of a lock that the thread is in by its bias, or tries to be |
//!
//! The first slot is the fast path's, which looks at nothing else; it is not tried while another
//! slot is in use, so that a thread that locks what it holds is noticed.

use super::ord;
use crate::sync::{AtomicUsize, Ordering};

const EMPTY: usize = 0;
#[cfg(not(lockspan_loom))]
const NEVER: usize = 1;

/// How many locks a thread can hold by their biases. A model has no time for more than two.
pub(super) const SLOTS: usize = if cfg!(lockspan_loom) { 2 } else { 8 };

/// A thread's slots. Two cache lines of its own, as processors fetch them in pairs.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Record {
    first: AtomicUsize,
    others: [AtomicUsize; SLOTS - 1],
    /// How many of the others are in use.
    nested: AtomicUsize,
}

impl Record {
    /// One with empty slots.
    #[cfg(not(lockspan_loom))]
    pub(super) const fn new() -> Self {
        Self::with_first(EMPTY)
    }

    /// One with empty slots; loom's atomics cannot be made at compile time.
    #[cfg(lockspan_loom)]
    pub(super) fn new() -> Self {
        let slot = || AtomicUsize::new(EMPTY);
        Self { first: slot(), others: [slot(); SLOTS - 1], nested: slot() }
    }

    /// Nobody's: its first slot is never free.
    #[cfg(not(lockspan_loom))]
    pub(super) const fn of_nobody() -> Self {
        Self::with_first(NEVER)
    }

    #[cfg(not(lockspan_loom))]
    const fn with_first(first: usize) -> Self {
        Self {
            first: AtomicUsize::new(first),
            others: [const { AtomicUsize::new(EMPTY) }; SLOTS - 1],
            nested: AtomicUsize::new(0),
        }
    }

    /// Puts `mark` into the first slot, if that is free.
    #[inline]
    pub(super) fn fill_first(&self, mark: usize) -> bool {
        let is_free = self.first.load(Ordering::Relaxed) == EMPTY;
        if is_free {
            self.first.store(mark, Ordering::Relaxed);
        }
        is_free
    }

    /// Empties the first slot.
    #[inline]
    pub(super) fn empty_first(&self) {
        self.first.store(EMPTY, ord::LEAVE);
    }

    /// Puts `mark` into another slot; its number, if one was free.
    pub(super) fn fill_other(&self, mark: usize) -> Option<usize> {
        let at = self.others.iter().position(|slot| slot.load(Ordering::Relaxed) == EMPTY)?;
        self.others[at].store(mark, Ordering::Relaxed);
        self.nested.store(self.nested.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        Some(at)
    }

    /// Empties another slot.
    pub(super) fn empty_other(&self, at: usize) {
        self.others[at].store(EMPTY, ord::LEAVE);
        self.nested.store(self.nested.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
    }

    /// Whether another slot than the first is in use.
    #[cfg(not(lockspan_loom))]
    pub(super) fn is_nested(&self) -> bool {
        self.nested.load(Ordering::Relaxed) > 0
    }

    /// Whether a slot has the mark. If none has, what its thread did under the lock is visible.
    pub(super) fn has(&self, mark: usize) -> bool {
        let slots = std::iter::once(&self.first).chain(&self.others);
        slots.map(|slot| slot.load(ord::LOOK)).fold(false, |found, slot| found | (slot == mark))
    }

    /// Whether all slots are free: no guard of the thread is left, not even a forgotten one.
    #[cfg(not(lockspan_loom))]
    pub(super) fn is_empty(&self) -> bool {
        !self.is_nested() && self.first.load(Ordering::Relaxed) == EMPTY
    }
}
