//! The deadlines of timed calls, on the two clocks that POSIX lets a lock call wait on.

pub(crate) use lockspan_park::Deadline;

/// The clock that a deadline is read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// `CLOCK_REALTIME`: a deadline on it follows changes of the clock.
    Realtime,
    /// `CLOCK_MONOTONIC`.
    Monotonic,
}

/// The deadline of a C `timespec`; `None` if its nanoseconds are not in `0..1_000_000_000`.
pub(crate) fn deadline(clock: Clock, secs: i64, nanos: i64) -> Option<Deadline> {
    let nanos = u32::try_from(nanos).ok().filter(|&n| n < 1_000_000_000)?;
    Some(match clock {
        Clock::Realtime => Deadline::realtime(secs, nanos),
        Clock::Monotonic => Deadline::monotonic(secs, nanos),
    })
}
