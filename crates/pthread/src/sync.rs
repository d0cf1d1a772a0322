//! The only door to atomics, futexes and spinning for the process-shared lock.
//!
//! A [`Word`] is 64 bits that change in one step, either half of which threads of any process can
//! sleep on. Under `--cfg lockspan_loom` the file `sync_loom.rs` stands here instead, with the same
//! names, so a model run checks the code we ship.
//!
//! The kernel compares 32 bits of a word that we change 64 bits at a time. To x86-64 that is one
//! cache line like any other: the locked change is whole, and a read of a half sees one side of it.
//! Rust's memory model has no such pair of accesses, so Miri, which plays the kernel's part itself,
//! refuses the tests that sleep; loom and the C programs run in its place.

pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::Ordering;

use std::sync::atomic::AtomicU64;

use crate::clock::Deadline;

/// How often a waiter looks again before it sleeps.
pub(crate) const SPINS: u32 = 100;

/// Which 32 bits of a [`Word`] a sleeper watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    Low,
    High,
}

/// Why [`Word::wait`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// Woken, interrupted by a signal, or the half had changed already: look again.
    LookAgain,
    /// The deadline has passed.
    TimedOut,
}

/// 64 bits of shared memory. All zero is its first state.
#[repr(transparent)]
#[derive(Debug)]
pub(crate) struct Word(AtomicU64);

impl Word {
    /// A word in its first state.
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    pub(crate) fn load(&self, order: Ordering) -> u64 {
        self.0.load(order)
    }

    /// `old → new`, or the value found instead.
    pub(crate) fn change(&self, old: u64, new: u64, order: Ordering) -> Result<(), u64> {
        self.0.compare_exchange_weak(old, new, order, Ordering::Relaxed).map(drop)
    }

    pub(crate) fn fetch_sub(&self, less: u64, order: Ordering) -> u64 {
        self.0.fetch_sub(less, order)
    }

    /// Sleeps while `half` is as in `seen`, until a [`Word::wake`] of that half with a class in
    /// common, or the deadline.
    pub(crate) fn wait(&self, half: Half, seen: u64, class: u32, until: Option<Deadline>) -> Woken {
        let address = address(&raw const *self, half);
        let expected = match half {
            Half::Low => seen as u32,
            Half::High => (seen >> 32) as u32,
        };
        let clock = match until {
            Some(at) if at.is_realtime() => libc::FUTEX_CLOCK_REALTIME,
            _ => 0,
        };
        let time = until.map(|at| at.timespec());
        let time = time.as_ref().map_or(std::ptr::null(), |t| &raw const *t);
        // SAFETY: FUTEX_WAIT_BITSET only reads the 4 aligned bytes at `address`, which lie in
        // `self`, and `time`, which is null or points to a timespec of this frame. Without the
        // private flag, as sleepers of other processes share the word.
        let done = unsafe {
            libc::syscall(
                libc::SYS_futex,
                address,
                libc::FUTEX_WAIT_BITSET | clock,
                expected,
                time,
                std::ptr::null::<u32>(),
                class,
            )
        };
        if done != -1 {
            return Woken::LookAgain;
        }
        let error = crate::errno::get();
        // Any other error would come again at once, and the caller's loop would never sleep.
        debug_assert!(matches!(error, libc::ETIMEDOUT | libc::EAGAIN | libc::EINTR), "{error}");
        if error == libc::ETIMEDOUT { Woken::TimedOut } else { Woken::LookAgain }
    }

    /// Wakes all sleepers on `half` that share a class with `class`. Does not touch the word: the
    /// memory may be somebody else's by now, or gone.
    pub(crate) fn wake(this: *const Self, half: Half, class: u32) {
        let address = address(this, half);
        // SAFETY: FUTEX_WAKE_BITSET uses the address as a name only: it reads and writes nothing
        // there, and of memory that is gone it says EFAULT. A sleeper of a later user of the memory
        // is woken once too often, which every futex user must bear.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                address,
                libc::FUTEX_WAKE_BITSET,
                i32::MAX,
                std::ptr::null::<libc::timespec>(),
                std::ptr::null::<u32>(),
                class,
            )
        };
    }
}

/// Where `half` of the word at `this` lies; a name for the kernel, never read through here.
fn address(this: *const Word, half: Half) -> *const u32 {
    let high_first = cfg!(target_endian = "big");
    this.cast::<u32>().wrapping_add(usize::from((half == Half::High) != high_first))
}
