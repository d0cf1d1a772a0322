//! A small lock for rare and short work, which a fork cannot leave shut.
//!
//! The word is 0, or 1 + the number of forks at the time when it was latched. A child has counted
//! one fork more than its parent, and of the parent's threads only the one that forked lives on in
//! it, which latched nothing. So a latch with an older number was shut by a thread that is not
//! there, and whoever meets it may open it. What the latch guards must be sound at each moment of
//! the work: that is up to its users.

use super::native::forks;
use crate::spin::Patience;
use crate::sync::machine::{AtomicU32, Ordering};

/// The lock. Open if all its bits are 0.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Latch(AtomicU32);

/// Opens the latch when it goes.
#[derive(Debug)]
pub(crate) struct Latched<'a>(&'a Latch);

impl Drop for Latched<'_> {
    fn drop(&mut self) {
        // Release: the work is visible to whoever finds the latch open.
        self.0.0.store(0, Ordering::Release);
    }
}

impl Latch {
    /// An open one.
    pub(crate) const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Waits until it is open, and shuts it.
    pub(crate) fn shut(&self) -> Latched<'_> {
        let mut patience = Patience::new();
        let ours = forks().wrapping_add(1);
        loop {
            let seen = self.0.load(Ordering::Relaxed);
            // SeqCst, as the barrier that follows in another module pairs with this store.
            let to_ours = |from| {
                self.0.compare_exchange(from, ours, Ordering::SeqCst, Ordering::Relaxed).is_ok()
            };
            if seen != ours && to_ours(seen) {
                return Latched(self);
            }
            patience.wait();
        }
    }

    /// Waits until it is open.
    pub(crate) fn wait(&self) {
        let mut patience = Patience::new();
        let ours = forks().wrapping_add(1);
        loop {
            match self.0.load(Ordering::Acquire) {
                0 => return,
                seen if seen == ours => patience.wait(),
                // The thread that shut it did not come along into this process.
                _ => drop(self.shut()),
            }
        }
    }
}
