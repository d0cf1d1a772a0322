//! The clock behind [`Bounded`](super::Bounded): cheap, monotonic, and only as exact as a bound
//! on waiting needs.
//!
//! It is read once in each acquisition that finds somebody waiting, so its price counts. On x86-64
//! with an invariant time-stamp counter a reading is one `rdtsc`, a third of a system clock's
//! price; the first reading in a process calibrates the counter for some 80 µs. Elsewhere it is
//! [`std::time::Instant`].

use std::sync::OnceLock;
use std::time::Instant;

/// Ticks since some fixed time in the past.
#[inline]
pub(super) fn now() -> u64 {
    counter::ticks()
}

/// How many ticks `micros` microseconds have.
#[inline]
pub(super) fn from_micros(micros: u64) -> u64 {
    micros.saturating_mul(counter::per_micro())
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod counter {
    use core::arch::x86_64::{__cpuid, _rdtsc};

    use super::{Instant, OnceLock};

    #[derive(Clone, Copy)]
    struct Rate {
        invariant: bool,
        per_micro: u64,
    }

    #[inline]
    pub(super) fn ticks() -> u64 {
        if rate().invariant { read() } else { super::system_nanos() }
    }

    #[inline]
    pub(super) fn per_micro() -> u64 {
        rate().per_micro
    }

    #[inline]
    fn rate() -> Rate {
        static RATE: OnceLock<Rate> = OnceLock::new();
        *RATE.get_or_init(measure)
    }

    #[inline]
    fn read() -> u64 {
        // SAFETY: every x86-64 processor has the instruction; user space may use it on every OS
        // that Rust supports (where it is forbidden, `Instant` fails as well).
        unsafe { _rdtsc() }
    }

    #[cold]
    fn measure() -> Rate {
        const POWER_LEAF: u32 = 0x8000_0007;
        const INVARIANT_TSC: u32 = 1 << 8;
        let highest = __cpuid(0x8000_0000).eax;
        if highest < POWER_LEAF || __cpuid(POWER_LEAF).edx & INVARIANT_TSC == 0 {
            return Rate { invariant: false, per_micro: 1_000 };
        }
        // A pause of this thread can only make a sample too small; the largest is the true one.
        let per_micro = (0..8).map(|_| sample()).max().unwrap_or(1);
        Rate { invariant: true, per_micro: per_micro.max(1) }
    }

    /// Ticks per microsecond over some microseconds: the counter is read between two looks at the
    /// clock, at both ends.
    fn sample() -> u64 {
        let start = Instant::now();
        let begin = read();
        loop {
            let ticks = read() - begin;
            let nanos = start.elapsed().as_nanos() as u64;
            if nanos >= 10_000 {
                return ticks * 1_000 / nanos;
            }
            core::hint::spin_loop();
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod counter {
    #[inline]
    pub(super) fn ticks() -> u64 {
        super::system_nanos()
    }

    #[inline]
    pub(super) fn per_micro() -> u64 {
        1_000
    }
}

fn system_nanos() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

#[cfg(all(test, not(any(lockspan_loom, lockspan_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_microsecond_has_ticks() {
        assert!(from_micros(1) > 0);
        assert_eq!(from_micros(u64::MAX), u64::MAX, "a bound too long to write is no bound");
    }

    #[test]
    fn the_clock_does_not_go_back() {
        let mut last = now();
        for _ in 0..10_000 {
            let next = now();
            assert!(next >= last);
            last = next;
        }
    }
}
