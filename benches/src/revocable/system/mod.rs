//! What is asked of the operating system. Only Linux answers; elsewhere threads are not pinned, and
//! what cannot be known is not a number or 0.

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod body;
#[cfg(not(target_os = "linux"))]
#[path = "other.rs"]
mod body;
#[cfg(target_os = "linux")]
mod counters;

use rustix::time::{ClockId, clock_gettime};

pub(crate) use self::body::{
    Counters, cpus, is_asleep, membarrier, pin, sample, switches, this_thread,
};

/// CPU time of this thread so far, in nanoseconds; that of other threads and processes is not in
/// it.
pub(crate) fn thread_time() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // Neither is negative.
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
