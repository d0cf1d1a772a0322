//! Time as the machines see it: a number that the driver passes in and that never goes back.

use std::fmt;
use std::ops::Add;
use std::time::Duration;

/// A moment, in microseconds since some origin of the driver's choice.
///
/// Drivers take it from a clock that also runs while the machine is suspended (`CLOCK_BOOTTIME`),
/// never from the wall clock. Two machines' ticks are not comparable, and the protocol never
/// compares them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(pub u64);

impl Tick {
    /// The origin.
    pub const ZERO: Self = Self(0);

    /// How long after `earlier` this is; nothing if it is not after.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Tick {
    type Output = Self;

    /// Later by `span`; a moment past the end of time is the end of time.
    fn add(self, span: Duration) -> Self {
        let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(micros))
    }
}

impl fmt::Display for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06} s", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}
