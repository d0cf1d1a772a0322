//! A point in time until which a thread is ready to sleep.

use std::time::{Duration, Instant};

#[cfg(target_os = "linux")]
pub use self::linux::Deadline;
#[cfg(not(target_os = "linux"))]
pub use self::portable::Deadline;

impl Deadline {
    /// The deadline that lies `timeout` from now; `None` if that is too far away to be written.
    pub fn after(timeout: Duration) -> Option<Self> {
        Instant::now().checked_add(timeout).map(Self::from)
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use super::{Duration, Instant};

    /// In nanoseconds.
    const SECOND: u32 = 1_000_000_000;

    /// An absolute time on one of the kernel's clocks.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Deadline {
        pub(crate) realtime: bool,
        pub(crate) secs: i64,
        pub(crate) nanos: u32,
    }

    impl Deadline {
        /// A time on `CLOCK_MONOTONIC`. More than a second's nanoseconds are carried over.
        pub const fn monotonic(secs: i64, nanos: u32) -> Self {
            Self::new(false, secs, nanos)
        }

        /// A time on `CLOCK_REALTIME`: if that clock is set, the deadline moves with it.
        pub const fn realtime(secs: i64, nanos: u32) -> Self {
            Self::new(true, secs, nanos)
        }

        const fn new(realtime: bool, secs: i64, nanos: u32) -> Self {
            let secs = secs.saturating_add((nanos / SECOND) as i64);
            Self { realtime, secs, nanos: nanos % SECOND }
        }

        /// True once the clock has reached this time.
        pub fn passed(&self) -> bool {
            self.left().is_zero()
        }

        /// How long it is until then, as the clock goes now; zero once it has passed.
        pub fn left(&self) -> Duration {
            let clock = if self.realtime { libc::CLOCK_REALTIME } else { libc::CLOCK_MONOTONIC };
            let (secs, nanos) = now(clock);
            let left = (i128::from(self.secs) - i128::from(secs)) * i128::from(SECOND)
                + (i128::from(self.nanos) - i128::from(nanos));
            let left = left.max(0).unsigned_abs();
            let (secs, nanos) = (left / u128::from(SECOND), left % u128::from(SECOND));
            Duration::new(secs as u64, nanos as u32)
        }
    }

    impl From<Instant> for Deadline {
        fn from(at: Instant) -> Self {
            // In this order a pause between the two makes the deadline late, not early.
            let left = at.saturating_duration_since(Instant::now());
            let (secs, nanos) = now(libc::CLOCK_MONOTONIC);
            let nanos = nanos as u64 + u64::from(left.subsec_nanos());
            let carry = Duration::from_nanos(nanos);
            let secs = secs.saturating_add_unsigned(left.as_secs() + carry.as_secs());
            Self::monotonic(secs, carry.subsec_nanos())
        }
    }

    fn now(clock: libc::clockid_t) -> (i64, i64) {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is a live timespec that the call may fill.
        let answer = unsafe { libc::clock_gettime(clock, &raw mut time) };
        assert_eq!(answer, 0, "the kernel has no clock {clock}");
        #[allow(clippy::useless_conversion, reason = "both fields are 32 bits on some targets")]
        (i64::from(time.tv_sec), i64::from(time.tv_nsec))
    }
}

#[cfg(not(target_os = "linux"))]
mod portable {
    use super::{Duration, Instant};

    /// An absolute time on the system's monotonic clock.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Deadline(pub(crate) Instant);

    impl Deadline {
        /// True once the clock has reached this time.
        pub fn passed(&self) -> bool {
            self.left().is_zero()
        }

        /// How long it is until then; zero once it has passed.
        pub fn left(&self) -> Duration {
            self.0.saturating_duration_since(Instant::now())
        }
    }

    impl From<Instant> for Deadline {
        fn from(at: Instant) -> Self {
            Self(at)
        }
    }
}
