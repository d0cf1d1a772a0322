//! The clock of one machine: it runs at its own rate and starts anywhere.
//!
//! The world has one *virtual time*, in microseconds; a machine sees it only through its clock.
//! What a machine does "at tick t" happens at the first virtual moment at which its clock shows
//! `t`.

use lockspan_protocol::Tick;

/// A million: rates are in parts of it.
const PPM: u64 = 1_000_000;

/// A clock whose rate is constant and whose origin means nothing to anybody else.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// Ticks in a million microseconds of virtual time.
    rate: u64,
    offset: u64,
}

impl Clock {
    /// A clock that gains `drift_ppm` (or loses, below zero) and shows `offset` at the beginning.
    pub(crate) fn new(drift_ppm: i64, offset: u64) -> Self {
        let rate = PPM.checked_add_signed(drift_ppm).filter(|&rate| rate > 0);
        Self { rate: rate.expect("a clock does not stand still"), offset }
    }

    /// What it shows at the virtual moment `at`.
    pub(crate) fn at(self, at: u64) -> Tick {
        Tick(self.offset + at * self.rate / PPM)
    }

    /// The first virtual moment at which it shows `tick` or later.
    pub(crate) fn when(self, tick: Tick) -> u64 {
        let ticks = u128::from(tick.0.saturating_sub(self.offset));
        let at = (ticks * u128::from(PPM)).div_ceil(u128::from(self.rate));
        u64::try_from(at).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_is_shown_from_its_first_moment_on_and_not_before() {
        for drift in [-500_000, -50_000, -1, 0, 7, 50_000, 900_000] {
            let clock = Clock::new(drift, 1234);
            for tick in [1234, 1235, 2000, 999_999, 123_456_789] {
                let at = clock.when(Tick(tick));
                assert!(clock.at(at) >= Tick(tick), "{drift} {tick}");
                assert!(at == 0 || clock.at(at - 1) < Tick(tick), "{drift} {tick}");
            }
        }
    }

    #[test]
    fn the_end_of_time_is_never_reached() {
        assert!(Clock::new(900_000, 0).when(Tick(u64::MAX)) > u64::MAX / 2);
    }
}
