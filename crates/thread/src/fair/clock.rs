//! The clock behind [`Bounded`](super::Bounded): cheap, monotonic, and only as exact as a bound
//! on waiting needs.
//!
//! It is read once in each acquisition that finds somebody waiting, so its price counts. On x86-64
//! a reading is one `rdtsc`, a third of a system clock's price, if the time-stamp counter can be
//! trusted; the first reading in a process calibrates it for some 80 µs. Elsewhere it is the
//! system's monotonic clock.
//!
//! # When the counter is trusted
//!
//! Two things must hold: CPUID says that it is *invariant* (it ticks at one rate in every power
//! state), and Linux uses it as its own clock: `current_clocksource` is `tsc`. Only the kernel
//! knows whether the counters of all sockets agree; where they do not, it marks the counter as
//! unstable and goes to another clock, and times from two processors could not be compared here.
//! Under a hypervisor Linux prefers `tsc` to `kvm-clock` and the like whenever the counter is
//! invariant and stable, so one of those names means that it is not, or that the user has decided
//! against it. If the file cannot be read, the counter is not trusted.
//!
//! # Fork
//!
//! No thread waits for another one's calibration: in a child of a fork that thread may not exist.
//! Several may calibrate, and the first result counts for all.

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

#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
mod counter {
    use core::arch::x86_64::{__cpuid, _rdtsc};

    use lockspan_park::{monotonic_nanos, uncancelled};

    use crate::sync::machine::{AtomicU64, Ordering};

    /// What a tick is, in one word, so that it is known as a whole or not at all: the ticks of a
    /// microsecond, and in the lowest bit whether they are the counter's.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Rate(u64);

    impl Rate {
        const SYSTEM: Self = Self(1_000 << 1);

        fn counter(per_micro: u64) -> Self {
            Self((per_micro.clamp(1, u64::MAX >> 1) << 1) | 1)
        }

        fn is_counter(self) -> bool {
            self.0 & 1 != 0
        }
    }

    #[inline]
    pub(super) fn ticks() -> u64 {
        if rate().is_counter() { read() } else { monotonic_nanos() }
    }

    #[inline]
    pub(super) fn per_micro() -> u64 {
        rate().0 >> 1
    }

    /// 0 until it is known; no rate is 0.
    static RATE: AtomicU64 = AtomicU64::new(0);

    #[inline]
    fn rate() -> Rate {
        match RATE.load(Ordering::Relaxed) {
            0 => calibrate(),
            known => Rate(known),
        }
    }

    #[cold]
    fn calibrate() -> Rate {
        #[cfg(test)]
        super::pause::here();
        let mine = measure();
        let set = RATE.compare_exchange(0, mine.0, Ordering::Relaxed, Ordering::Relaxed);
        set.map_or_else(Rate, |_| mine)
    }

    #[inline]
    fn read() -> u64 {
        // SAFETY: every x86-64 processor has the instruction; user space may use it on every OS
        // that Rust supports (where it is forbidden, `Instant` fails as well).
        unsafe { _rdtsc() }
    }

    fn measure() -> Rate {
        if !is_invariant() || !is_trusted(&mut [0; 64]) {
            return Rate::SYSTEM;
        }
        // A pause of this thread can only make a sample too small; the largest is the true one.
        Rate::counter((0..8).map(|_| sample()).max().unwrap_or(1))
    }

    /// Does the counter tick at one rate, whatever the processor does?
    fn is_invariant() -> bool {
        const POWER_LEAF: u32 = 0x8000_0007;
        const INVARIANT_TSC: u32 = 1 << 8;
        let highest = __cpuid(0x8000_0000).eax;
        highest >= POWER_LEAF && __cpuid(POWER_LEAF).edx & INVARIANT_TSC != 0
    }

    /// Is it the kernel's own clock? Reads the file into `room`: no heap, as the preload library
    /// may be here in the middle of `malloc`.
    fn is_trusted(room: &mut [u8]) -> bool {
        let path = c"/sys/devices/system/clocksource/clocksource0/current_clocksource";
        // These three calls are cancellation points.
        uncancelled(|| {
            // SAFETY: the path ends with a zero.
            let file = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
            if file < 0 {
                return false;
            }
            // SAFETY: the room is this frame's caller's, and as long as the call is told.
            let length = unsafe { libc::read(file, room.as_mut_ptr().cast(), room.len()) };
            // SAFETY: opened above, and not used again.
            unsafe { libc::close(file) };
            usize::try_from(length).is_ok_and(|length| names_counter(&room[..length]))
        })
    }

    /// Whether that is the counter's name, as the kernel's file has it.
    fn names_counter(source: &[u8]) -> bool {
        source.trim_ascii() == b"tsc"
    }

    /// Ticks per microsecond over some microseconds: the counter is read between two looks at the
    /// clock, at both ends.
    fn sample() -> u64 {
        let start = monotonic_nanos();
        let begin = read();
        loop {
            // Counters that are out of step may seem to go back when the thread changes processors.
            let ticks = read().saturating_sub(begin);
            let nanos = monotonic_nanos().saturating_sub(start);
            if nanos >= 10_000 {
                return ticks.saturating_mul(1_000) / nanos;
            }
            core::hint::spin_loop();
        }
    }

    #[cfg(all(test, not(any(lockspan_loom, lockspan_shuttle))))]
    mod tests {
        use super::*;

        #[test]
        fn fair_s20_only_the_counters_own_name_is_trusted() {
            assert!(names_counter(b"tsc\n") && names_counter(b"tsc"));
            for other in ["", "\n", "hpet\n", "kvm-clock\n", "acpi_pm", "xen", "tsc-early\n"] {
                assert!(!names_counter(other.as_bytes()), "{other:?}");
            }
            assert!(!names_counter(b"hyperv_clocksource_tsc_page\n"));
        }

        #[test]
        fn a_rate_says_whose_ticks_it_counts() {
            assert!(!Rate::SYSTEM.is_counter() && Rate::SYSTEM.0 >> 1 == 1_000);
            for (ticks, counted) in [(2_500, 2_500), (0, 1), (u64::MAX, u64::MAX >> 1)] {
                let rate = Rate::counter(ticks);
                assert!(rate.is_counter() && rate.0 >> 1 == counted, "{rate:?}");
            }
        }

        #[test]
        fn fair_s20_what_the_kernel_says_is_what_is_used() {
            let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
            let named = std::fs::read(path).is_ok_and(|name| names_counter(&name));
            assert_eq!(is_trusted(&mut [0; 64]), named);
            assert_eq!(rate().is_counter(), named && is_invariant());
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", not(miri))))]
mod counter {
    #[inline]
    pub(super) fn ticks() -> u64 {
        lockspan_park::monotonic_nanos()
    }

    #[inline]
    pub(super) fn per_micro() -> u64 {
        1_000
    }
}

/// Stops a thread in the middle of a calibration, for tests.
#[cfg(test)]
pub(super) mod pause {
    use crate::sync::machine::{AtomicU32, Ordering};

    /// Nobody is to stop.
    pub(in super::super) const OFF: u32 = 0;
    /// Whoever calibrates is to stop.
    pub(in super::super) const ON: u32 = 1;
    /// A thread has stopped.
    pub(in super::super) const STOPPED: u32 = 2;

    pub(in super::super) static STATE: AtomicU32 = AtomicU32::new(OFF);

    pub(in super::super) fn here() {
        let stop = STATE.compare_exchange(ON, STOPPED, Ordering::AcqRel, Ordering::Acquire);
        while stop.is_ok() && STATE.load(Ordering::Acquire) == STOPPED {
            std::thread::yield_now();
        }
    }
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
