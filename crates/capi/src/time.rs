//! The times of timed calls: `CLOCK_MONOTONIC`, absolute.

use std::time::{Duration, Instant};

use libc::timespec;
use lockspan_park::Deadline;

/// A later time than this from now is never waited for: some thirty years.
const LONG: Duration = Duration::from_secs(1 << 30);

/// The time in `until` as the fair lock takes it; `None` if it is null or no time.
///
/// # Safety
///
/// `until` is null or points to a `timespec`.
pub(crate) unsafe fn deadline(until: *const timespec) -> Option<Deadline> {
    // SAFETY: the same contract.
    let (secs, nanos) = unsafe { parts(until) }?;
    Some(Deadline::monotonic(secs, nanos))
}

/// The time in `until` as a progressive lock takes it; `None` if it is null or no time. What is
/// past becomes now, and what is very far away becomes [`LONG`] from now.
///
/// # Safety
///
/// `until` is null or points to a `timespec`.
pub(crate) unsafe fn instant(until: *const timespec) -> Option<Instant> {
    // SAFETY: the same contract.
    let (secs, nanos) = unsafe { parts(until) }?;
    let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a live timespec that the call may fill.
    let answer = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    assert_eq!(answer, 0, "the kernel has no monotonic clock");
    let (now_secs, now_nanos) = fields(&now);
    // In this order a pause between the two clocks makes the wait longer, not shorter.
    Some(Instant::now() + left((secs, nanos), (now_secs, now_nanos as u32)))
}

/// The time from `now` to `until`, each in seconds and nanoseconds.
fn left(until: (i64, u32), now: (i64, u32)) -> Duration {
    let nanos = |(secs, nanos): (i64, u32)| i128::from(secs) * 1_000_000_000 + i128::from(nanos);
    let left = nanos(until) - nanos(now);
    let longest = LONG.as_nanos() as i128;
    Duration::from_nanos(left.clamp(0, longest) as u64)
}

/// Seconds and nanoseconds, if they are a time.
///
/// # Safety
///
/// `until` is null or points to a `timespec`.
unsafe fn parts(until: *const timespec) -> Option<(i64, u32)> {
    // SAFETY: null, or valid by the caller's word.
    let (secs, nanos) = fields(unsafe { until.as_ref() }?);
    let nanos = u32::try_from(nanos).ok().filter(|&n| n < 1_000_000_000)?;
    Some((secs, nanos))
}

fn fields(time: &timespec) -> (i64, i64) {
    #[allow(clippy::useless_conversion, reason = "both fields are 32 bits on some targets")]
    (i64::from(time.tv_sec), i64::from(time.tv_nsec))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_never_negative_and_never_longer_than_long() {
        let now = (100, 500);
        assert_eq!(left((100, 501), now), Duration::from_nanos(1));
        assert_eq!(left((101, 499), now), Duration::from_nanos(999_999_999));
        for past in [(100, 500), (100, 499), (99, 999_999_999), (0, 0), (-1, 0), (i64::MIN, 0)] {
            assert_eq!(left(past, now), Duration::ZERO, "{past:?}");
        }
        assert_eq!(left((i64::MAX, 999_999_999), now), LONG);
    }
}
