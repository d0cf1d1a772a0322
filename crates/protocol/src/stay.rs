//! How long a node may keep a record that somebody else waits for.
//!
//! Local threads go first at the beginning: the record is here and the others are far. Once others
//! wait, the stay is bounded by a number of turns that *begin* after the revoke, and by a time,
//! whichever is over first. A turn that has begun is never interrupted.

use std::time::Duration;

use crate::time::Tick;

/// The bounds, before they are put to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StayLimits {
    /// Turns that may begin after a revoke.
    pub turns: u32,
    /// How long after a revoke turns may begin.
    pub time: Duration,
}

impl Default for StayLimits {
    /// 16 turns, 2 milliseconds.
    fn default() -> Self {
        Self { turns: 16, time: Duration::from_millis(2) }
    }
}

/// What is left of a stay. The driver asks it before each turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stay {
    turns_left: u32,
    until: Tick,
}

impl Stay {
    /// A stay that begins `now`.
    #[must_use]
    pub fn begin(now: Tick, limits: StayLimits) -> Self {
        Self { turns_left: limits.turns, until: now + limits.time }
    }

    /// No further turn.
    #[must_use]
    pub fn over() -> Self {
        Self { turns_left: 0, until: Tick::ZERO }
    }

    /// Whether one more local turn may begin `now`; if so, it is counted.
    pub fn turn(&mut self, now: Tick) -> bool {
        let may = !self.is_over(now);
        if may {
            self.turns_left -= 1;
        }
        may
    }

    /// Whether no turn may begin any more.
    #[must_use]
    pub fn is_over(&self, now: Tick) -> bool {
        self.turns_left == 0 || now >= self.until
    }

    /// When it is over at the latest.
    #[must_use]
    pub fn until(&self) -> Tick {
        self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: StayLimits = StayLimits { turns: 2, time: Duration::from_millis(1) };

    #[test]
    fn a_stay_ends_with_its_turns() {
        let mut stay = Stay::begin(Tick(5), LIMITS);
        assert!(stay.turn(Tick(5)) && stay.turn(Tick(6)));
        assert!(!stay.turn(Tick(7)));
        assert!(stay.is_over(Tick(7)));
    }

    #[test]
    fn a_stay_ends_with_its_time() {
        let mut stay = Stay::begin(Tick(5), LIMITS);
        assert!(stay.turn(Tick(1004)));
        assert!(!stay.turn(Tick(1005)));
        assert_eq!(stay.until(), Tick(1005));
    }

    #[test]
    fn no_turn_begins_in_a_stay_that_is_over() {
        assert!(!Stay::over().turn(Tick::ZERO));
    }
}
