//! The clock of leases: `CLOCK_BOOTTIME`, which also runs while the machine is suspended.
//!
//! It is read after every cached acquire, so that a process which was stopped or suspended past its
//! lease notices before it uses the record. The kernel maps it into the process: a reading is a few
//! instructions, no system call.

use lockspan_protocol::Tick;
use rustix::time::{ClockId, clock_gettime};

/// The present moment, in microseconds since the machine was started.
#[inline]
pub(crate) fn now() -> Tick {
    let time = clock_gettime(ClockId::Boottime);
    // Both are positive and small enough for this clock.
    Tick(time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1_000)
}
