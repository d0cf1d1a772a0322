//! How long a thread spins before it sleeps: a little, and never without bound.
//!
//! Sleeps are [`lockspan_park::nap`]: `std::thread::sleep` is a cancellation point, and a lock call
//! must not end in the middle.

use core::hint::spin_loop;
use std::time::{Duration, Instant};

use lockspan_park::nap;

use crate::sync::{MODEL, thread};

/// A few long pauses. Between them the word is left alone: on a busy lock the holder's cache line
/// stays with the holder, which is worth more than to see a release a moment earlier.
#[derive(Debug)]
pub(crate) struct Spin {
    pauses: &'static [u32],
}

impl Spin {
    /// Before a thread gets in line: long enough for some short sections on another core.
    pub(crate) fn before_the_line() -> Self {
        Self { pauses: &[32, 64, 64] }
    }

    /// For others to end their sections, which are often shorter than one long pause: looks soon,
    /// and then less and less often.
    pub(crate) fn for_a_section() -> Self {
        Self { pauses: &[4, 8, 16, 32, 64, 64] }
    }

    /// In line: long enough for a hand-over that has begun.
    pub(crate) fn in_line() -> Self {
        Self { pauses: &[32] }
    }

    /// Next in line, and woken ahead: long enough for the turn before, if that is short.
    pub(crate) fn before_a_turn() -> Self {
        Self { pauses: &[16; 32] }
    }

    /// Pauses; false when the spin is over. A model never spins.
    pub(crate) fn again(&mut self) -> bool {
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

/// Gives the processor away a few times. A holder that has not ended its section by the end of a
/// spin has probably lost its processor, and gets on soonest if it is given this one: that is
/// cheaper than a sleep and a wake. Where many want the processor each time may last, so there is
/// an end to it.
#[derive(Debug)]
pub(crate) struct Yield {
    left: u32,
    end: Instant,
}

impl Yield {
    /// Not beyond `end`.
    pub(crate) fn until(end: Instant) -> Self {
        Self { left: 10, end }
    }

    /// Gives the processor away; false when that is over. A model never does.
    pub(crate) fn again(&mut self) -> bool {
        if MODEL || self.left == 0 || Instant::now() >= self.end {
            return false;
        }
        self.left -= 1;
        thread::yield_now();
        true
    }
}

/// Waits for another thread that is sure to be done soon: gives the processor away, and sleeps if
/// that does not help, as the other may have a lower priority.
#[derive(Debug)]
pub(crate) struct Patience {
    yields: u32,
}

impl Patience {
    pub(crate) fn new() -> Self {
        Self { yields: 100 }
    }

    pub(crate) fn wait(&mut self) {
        if MODEL || self.yields > 0 {
            self.yields = self.yields.saturating_sub(1);
            thread::yield_now();
        } else {
            nap(Duration::from_micros(50));
        }
    }
}

/// Sleeps for another thread that may take its time: longer and longer, up to a millisecond.
#[derive(Debug)]
pub(crate) struct Naps {
    next: Duration,
}

impl Naps {
    const LONGEST: Duration = Duration::from_millis(1);

    pub(crate) fn new() -> Self {
        Self { next: Duration::from_micros(20) }
    }

    /// Sleeps, but no longer than `left`.
    pub(crate) fn nap(&mut self, left: Option<Duration>) {
        if MODEL {
            return thread::yield_now();
        }
        nap(self.next(left));
    }

    /// How long the next nap is.
    fn next(&mut self, left: Option<Duration>) -> Duration {
        let next = self.next;
        self.next = (next * 2).min(Self::LONGEST);
        left.map_or(next, |left| next.min(left))
    }
}

#[cfg(all(test, not(any(lockspan_loom, lockspan_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn naps_grow_and_end_in_time() {
        let mut naps = Naps::new();
        let micros = [(None, 20), (Some(1_000), 40), (Some(7), 7), (None, 160), (Some(0), 0)];
        for (left, nap) in micros {
            assert_eq!(naps.next(left.map(Duration::from_micros)), Duration::from_micros(nap));
        }
        for _ in 0..10 {
            naps.next(None);
        }
        assert_eq!(naps.next(None), Naps::LONGEST);
        assert_eq!(naps.next(Some(Duration::from_micros(999))), Duration::from_micros(999));
    }
}
