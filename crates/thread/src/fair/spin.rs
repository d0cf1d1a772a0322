//! How long a thread spins before it sleeps: a little, and never without bound.

use core::hint::spin_loop;

use crate::sync::MODEL;

/// A few long pauses. Between them the word is left alone: on a busy lock the holder's cache line
/// stays with the holder, which is worth more than to see a release a moment earlier.
#[derive(Debug)]
pub(super) struct Spin {
    pauses: &'static [u32],
}

impl Spin {
    /// Before a thread gets in line: long enough for some short sections on another core.
    pub(super) fn before_the_line() -> Self {
        Self { pauses: &[32, 64, 64] }
    }

    /// In line: long enough for a hand-over that has begun.
    pub(super) fn in_line() -> Self {
        Self { pauses: &[32] }
    }

    /// Pauses; false when the spin is over. A model never spins.
    pub(super) fn again(&mut self) -> bool {
        let Some((pause, rest)) = self.pauses.split_first().filter(|_| !MODEL) else {
            return false;
        };
        self.pauses = rest;
        for _ in 0..*pause {
            spin_loop();
        }
        true
    }
}
