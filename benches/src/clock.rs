//! The cheapest clock of the machine, in ticks, and its rate.
//!
//! On x86_64 a tick is one count of the time stamp counter, which is constant and common to all
//! cores on every machine worth measuring; elsewhere a tick is a nanosecond of `Instant`.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The present, in ticks.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
pub(crate) fn now() -> u64 {
    // SAFETY: RDTSC is part of every x86_64 processor; it reads a counter and touches no memory.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// The present, in ticks.
#[inline(always)]
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn now() -> u64 {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    // Never 0: a stop flag uses 0 for "not yet".
    EPOCH.get_or_init(Instant::now).elapsed().as_nanos() as u64 + 1
}

/// Ticks in a nanosecond, measured once against `Instant`.
pub(crate) fn ticks_per_ns() -> f64 {
    static RATE: OnceLock<f64> = OnceLock::new();
    *RATE.get_or_init(|| {
        let (wall, ticks) = (Instant::now(), now());
        std::thread::sleep(Duration::from_millis(100));
        let ticks = now() - ticks;
        ticks as f64 / wall.elapsed().as_nanos() as f64
    })
}

/// `ticks` as nanoseconds.
pub(crate) fn ns(ticks: u64) -> f64 {
    ticks as f64 / ticks_per_ns()
}

/// `duration` as ticks.
pub(crate) fn ticks(duration: Duration) -> u64 {
    (duration.as_nanos() as f64 * ticks_per_ns()) as u64
}

/// Keeps the CPU busy for `ticks`.
#[inline]
pub(crate) fn hold(ticks: u64) {
    let start = now();
    while now().wrapping_sub(start) < ticks {
        std::hint::spin_loop();
    }
}
