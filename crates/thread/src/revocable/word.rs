//! What lies under a revocable lock.

use crate::sync::machine::{AtomicU64, Ordering};

/// A word under a [`Lock`](super::Lock): changed through a ticket, seen by everybody.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Word(AtomicU64);

impl Word {
    /// A word with a value.
    #[must_use]
    pub const fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }

    /// Its value at this moment, whoever owns the lock. What the owner stored before is seen as
    /// well.
    #[inline]
    #[must_use]
    pub fn peek(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    #[inline]
    pub(super) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Release);
    }

    #[inline]
    pub(super) fn as_ptr(&self) -> *mut u64 {
        self.0.as_ptr()
    }
}
