//! A counter that every thread may add to at the price of a plain addition.
//!
//! Each part has two words: the first is changed by sections alone, the second by atomic
//! read-modify-writes of threads that can run no section. So neither has to know of the other.

use std::fmt;

use super::parts::Parts;
use crate::sync::machine::{AtomicU64, Ordering};

/// A counter of which each processor has a part. It wraps around, as [`i64::wrapping_add`] does.
///
/// ```
/// use lockspan_thread::percpu::Counter;
///
/// let hits = Counter::new();
/// hits.add(2);
/// hits.add(-1);
/// assert_eq!(hits.sum(), 1);
/// ```
pub struct Counter {
    parts: Parts,
}

impl fmt::Debug for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Counter").field(&self.sum()).finish()
    }
}

impl Default for Counter {
    fn default() -> Self {
        Self::new()
    }
}

impl Counter {
    /// A counter at 0. It takes 128 bytes for each processor that the machine can have.
    #[must_use]
    pub fn new() -> Self {
        Self { parts: Parts::new(2 * size_of::<u64>(), 0) }
    }

    /// Adds `n`.
    #[inline]
    pub fn add(&self, n: i64) {
        if let Some(area) = self.parts.area() {
            // SAFETY: each part begins with a word that only this call writes.
            let done = unsafe { area.add(self.parts.regions(), n) };
            if done {
                return;
            }
        }
        self.add_atomically(n);
    }

    /// Adds without a section.
    #[cold]
    fn add_atomically(&self, n: i64) {
        let part = self.parts.of_this_thread();
        self.words(part)[1].fetch_add(n.cast_unsigned(), Ordering::Relaxed);
    }

    /// Adds up the parts, one after the other. The sum contains everything that was added before
    /// the call as far as this thread is synchronized with it, and may contain what is added during
    /// the call.
    #[must_use]
    pub fn sum(&self) -> i64 {
        let parts = (0..=self.parts.cpus()).flat_map(|part| self.words(part));
        let sum = parts.fold(0, |sum: u64, word| sum.wrapping_add(word.load(Ordering::Relaxed)));
        sum.cast_signed()
    }

    fn words(&self, part: usize) -> &[AtomicU64; 2] {
        let words: *mut [AtomicU64; 2] = self.parts.part(part).cast();
        // SAFETY: a part has room for two words, is aligned for them, began as zeros, and is only
        // ever touched as atomics and by whole instructions.
        unsafe { &*words }
    }
}
