//! When the turn of the first in line is due, for arrivals that ask whether they may still pass.
//!
//! The first in line sets `CLOSED` at that time, if it runs. It may have no processor: a lower
//! priority, a full machine, a debugger. So every arrival that finds somebody in line asks as well.
//!
//! The values here are hints and no flags: they are read and written with `Relaxed`, and one that
//! is out of date costs an arrival a place in line, or lets one more of them pass. The lock is safe
//! whatever they are, since [`turnstile`](super::turnstile) lets an arrival wait at any time.

use std::time::Instant;

use crate::fair::{Bounded, Policy as _};
use crate::sync::{AtomicU32, AtomicU64, MODEL, Ordering};

/// The clock is asked by one of so many arrivals that pass: a reading costs more than the lock.
const ASKING: u32 = 16;

/// A clock with ticks that fit into an atomic.
type Clock = Bounded<1>;

/// The time at which arrivals stop passing.
#[derive(Debug)]
pub(super) struct Due {
    /// In ticks of [`Clock`]. In a model: whether it has ever been set.
    at: AtomicU64,
    /// How many arrivals may still pass before one asks the clock.
    unasked: AtomicU32,
}

impl Due {
    #[cfg(not(lockspan_loom))]
    pub(super) const fn new() -> Self {
        Self { at: AtomicU64::new(0), unasked: AtomicU32::new(0) }
    }

    /// loom's atomics cannot be made at compile time.
    #[cfg(lockspan_loom)]
    pub(super) fn new() -> Self {
        Self { at: AtomicU64::new(0), unasked: AtomicU32::new(0) }
    }

    /// The first reading of the clock in a process takes its time: not with a mutex held.
    pub(super) fn prepare() {
        if !MODEL {
            a_microsecond();
        }
    }

    /// From `closes` on, arrivals stop passing.
    pub(super) fn set(&self, closes: Instant) {
        let at = if MODEL {
            1
        } else {
            let left = closes.saturating_duration_since(Instant::now());
            let micros = u64::try_from(left.as_micros()).unwrap_or(u64::MAX);
            Clock::now().saturating_add(micros.saturating_mul(a_microsecond()))
        };
        self.at.store(at, Ordering::Relaxed);
        self.unasked.store(0, Ordering::Relaxed);
    }

    /// Whether that time has come, as far as an arrival can tell that does not ask each time: after
    /// it at most [`ASKING`] − 1 arrivals pass, and as many for each thread that was interrupted
    /// between the load and the store of `unasked`.
    pub(super) fn has_come(&self) -> bool {
        if MODEL {
            return self.may_have_come();
        }
        let unasked = self.unasked.load(Ordering::Relaxed);
        if unasked > 0 {
            self.unasked.store(unasked - 1, Ordering::Relaxed);
            return false;
        }
        let left = self.at.load(Ordering::Relaxed).saturating_sub(Clock::now());
        // Close to the time each arrival asks.
        if left > 10 * a_microsecond() {
            self.unasked.store(ASKING - 1, Ordering::Relaxed);
        }
        left == 0
    }

    /// Models have no clock. loom tries both answers: this load may see the value before `set`.
    #[cfg(not(lockspan_shuttle))]
    fn may_have_come(&self) -> bool {
        self.at.load(Ordering::Relaxed) != 0
    }

    /// Models have no clock. shuttle draws the answer.
    #[cfg(lockspan_shuttle)]
    fn may_have_come(&self) -> bool {
        use shuttle::rand::Rng as _;
        self.at.load(Ordering::Relaxed) != 0 && shuttle::rand::thread_rng().gen_range(0..2) == 0
    }
}

/// Ticks of [`Clock`].
fn a_microsecond() -> u64 {
    Clock::quantum().max(1)
}
