//! The clock that all processes of a machine share, the one by which leases are counted.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds since the machine was started.
#[must_use]
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    // Both are positive and small enough for this clock.
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
