//! An absolute point of time on one of the two clocks that POSIX lets a lock call wait on.

/// The clock a deadline is read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// `CLOCK_REALTIME`: a deadline on it follows changes of the clock.
    Realtime,
    /// `CLOCK_MONOTONIC`.
    Monotonic,
}

/// When a waiting call gives up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    pub(crate) clock: Clock,
    pub(crate) secs: i64,
    pub(crate) nanos: u32,
}

impl Deadline {
    /// The deadline of a C `timespec`; `None` if its nanoseconds are not in `0..1_000_000_000`.
    ///
    /// Seconds before the epoch are a time long past, which second 0 is as well, and the kernel
    /// refuses negative ones.
    pub(crate) fn new(clock: Clock, secs: i64, nanos: i64) -> Option<Self> {
        let nanos = u32::try_from(nanos).ok().filter(|&n| n < 1_000_000_000)?;
        let (secs, nanos) = if secs < 0 { (0, 0) } else { (secs, nanos) };
        Some(Self { clock, secs, nanos })
    }
}
