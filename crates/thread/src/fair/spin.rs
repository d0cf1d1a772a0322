//! How long a thread spins before it sleeps: a little, and never without bound.

use core::hint::spin_loop;

use crate::sync::MODEL;

/// A bounded spin whose pauses double.
#[derive(Debug)]
pub(super) struct Spin {
    round: u32,
    rounds: u32,
}

/// Pauses of the longest round: 2 to this power.
const LONGEST: u32 = 5;

impl Spin {
    /// Before a thread gets in line: long enough for a short section on another core.
    pub(super) fn before_the_line() -> Self {
        Self { round: 0, rounds: 7 }
    }

    /// In line: long enough for a hand-over that has begun.
    pub(super) fn in_line() -> Self {
        Self { round: 0, rounds: 6 }
    }

    /// Pauses; false when the spin is over. A model never spins.
    pub(super) fn again(&mut self) -> bool {
        if MODEL || self.round >= self.rounds {
            return false;
        }
        for _ in 0..1_u32 << self.round.min(LONGEST) {
            spin_loop();
        }
        self.round += 1;
        true
    }
}
