//! A point in time until which a thread is ready to sleep.

use std::time::{Duration, Instant};

#[cfg(target_os = "linux")]
pub use self::linux::{Deadline, monotonic_nanos};
#[cfg(not(target_os = "linux"))]
pub use self::portable::{Deadline, monotonic_nanos};

/// `secs` in a C type that may be smaller: what does not fit becomes its highest value. For times
/// that are not negative; a time beyond 2^31 seconds is as good as never.
#[cfg(target_os = "linux")]
pub(crate) fn saturating<T: From<i32> + TryFrom<S>, S>(secs: S) -> T {
    T::try_from(secs).unwrap_or_else(|_| T::from(i32::MAX))
}

impl Deadline {
    /// The deadline that lies `timeout` from now; `None` if that is too far away to be written.
    pub fn after(timeout: Duration) -> Option<Self> {
        Instant::now().checked_add(timeout).map(Self::from)
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use super::{Duration, Instant, saturating};

    /// In nanoseconds.
    const SECOND: u32 = 1_000_000_000;

    /// An absolute time on one of the kernel's clocks, never before that clock's beginning: the
    /// kernel refuses negative times.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Deadline {
        pub(crate) realtime: bool,
        pub(crate) secs: i64,
        pub(crate) nanos: u32,
    }

    impl Deadline {
        /// A time on `CLOCK_MONOTONIC`. More than a second's nanoseconds are carried over. A time
        /// before the clock's beginning has passed, and so has the beginning, which it becomes.
        pub const fn monotonic(secs: i64, nanos: u32) -> Self {
            Self::new(false, secs, nanos)
        }

        /// A time on `CLOCK_REALTIME`: if that clock is set, the deadline moves with it.
        pub const fn realtime(secs: i64, nanos: u32) -> Self {
            Self::new(true, secs, nanos)
        }

        const fn new(realtime: bool, secs: i64, nanos: u32) -> Self {
            let secs = secs.saturating_add((nanos / SECOND) as i64);
            if secs < 0 {
                return Self { realtime, secs: 0, nanos: 0 };
            }
            Self { realtime, secs, nanos: nanos % SECOND }
        }

        /// Whether it is a time on `CLOCK_REALTIME`.
        pub const fn is_realtime(&self) -> bool {
            self.realtime
        }

        /// The time as the kernel takes it; one too far away for its type becomes the latest that
        /// the type has.
        pub fn timespec(&self) -> libc::timespec {
            libc::timespec { tv_sec: saturating(self.secs), tv_nsec: self.nanos as _ }
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

    /// The monotonic clock, in nanoseconds since some fixed time before this process began.
    pub fn monotonic_nanos() -> u64 {
        let (secs, nanos) = now(libc::CLOCK_MONOTONIC);
        (secs as u64).wrapping_mul(u64::from(SECOND)).wrapping_add(nanos as u64)
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
    use std::ptr;

    use super::{Duration, Instant};
    use crate::sync::machine::{AtomicPtr, Ordering};

    /// The monotonic clock, in nanoseconds since the first call.
    pub fn monotonic_nanos() -> u64 {
        /// Nobody waits for another thread's reading: in a child of a fork it may never come.
        static START: AtomicPtr<Instant> = AtomicPtr::new(ptr::null_mut());
        let mut start = START.load(Ordering::Acquire);
        if start.is_null() {
            let mine = Box::into_raw(Box::new(Instant::now()));
            let order = (Ordering::AcqRel, Ordering::Acquire);
            start = match START.compare_exchange(ptr::null_mut(), mine, order.0, order.1) {
                Ok(_) => mine,
                Err(theirs) => {
                    // SAFETY: made above, and nobody else has seen it.
                    drop(unsafe { Box::from_raw(mine) });
                    theirs
                }
            };
        }
        // SAFETY: the first one stays forever.
        unsafe { &*start }.elapsed().as_nanos() as u64
    }

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
