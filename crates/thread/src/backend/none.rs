//! Where there are no restartable sequences: nothing works but the plain lock.

use std::convert::Infallible;

use super::{Backend, Claim, Outcome, Regions};
use crate::sync::machine::{AtomicU32, Ordering};

/// There is none: no thread has an area.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Area(Infallible);

/// How a conditional store with a comparison ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(dead_code, reason = "without sections none ends")]
pub(crate) enum Compared {
    Stored,
    Differs,
    Lost,
}

impl Area {
    pub(crate) fn current() -> Option<Self> {
        None
    }

    /// None has any.
    pub(crate) fn distance() -> u64 {
        0
    }

    pub(crate) fn at_distance(_: u64) -> Option<Self> {
        None
    }

    pub(crate) fn cpu(self) -> usize {
        match self.0 {}
    }

    /// # Safety
    /// None: this is never called.
    pub(crate) unsafe fn store_if(self, _: Claim, _: *mut u64, _: u64) -> bool {
        match self.0 {}
    }

    /// # Safety
    /// None: this is never called.
    pub(crate) unsafe fn add_if(self, _: Claim, _: *mut u64, _: u64) -> bool {
        match self.0 {}
    }

    /// # Safety
    /// None: this is never called.
    pub(crate) unsafe fn store_if_equal(self, _: Claim, _: *mut u64, _: (u64, u64)) -> Compared {
        match self.0 {}
    }

    /// # Safety
    /// None: this is never called.
    pub(crate) unsafe fn exchange_on(self, _: u32, _: *mut u64, _: u64, _: u64) -> bool {
        match self.0 {}
    }

    /// # Safety
    /// None: this is never called.
    pub(crate) unsafe fn add(self, _: &Regions, _: i64) -> bool {
        match self.0 {}
    }

    /// # Safety
    /// None: this is never called.
    pub(crate) unsafe fn push(self, _: &Regions, _: u64) -> Outcome {
        match self.0 {}
    }

    /// # Safety
    /// None: this is never called.
    pub(crate) unsafe fn pop(self, _: &Regions) -> Result<u64, Outcome> {
        match self.0 {}
    }

    /// # Safety
    /// None: this is never called.
    pub(crate) unsafe fn push_many(self, _: &Regions, _: &[u64]) -> Outcome {
        match self.0 {}
    }

    /// # Safety
    /// None: this is never called.
    pub(crate) unsafe fn pop_many(self, _: &Regions, _: &mut [u64]) -> Outcome {
        match self.0 {}
    }
}

pub(crate) fn try_backend(backend: Backend) -> Result<String, String> {
    match backend {
        Backend::Plain => Ok("an ordinary lock needs nothing".to_owned()),
        _ => Err("only on Linux, on x86-64, outside of Miri and models".to_owned()),
    }
}

/// There is nothing to prepare.
pub(super) fn adopt(_: Backend) {}

/// As many as run at once.
pub(crate) fn possible_cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Forks are not counted here.
pub(crate) fn forks() -> u32 {
    0
}

/// There are no sections.
pub(crate) fn stop_sections_on(_cpu: usize) {}

/// There are no sections.
pub(crate) fn stop_sections() {}

/// Nobody relies on it: the backend that would is not to be had.
pub(crate) fn barrier() {}

/// Forks are not counted here.
pub(crate) fn follow_forks(word: &'static AtomicU32) {
    word.store(forks(), Ordering::Relaxed);
}

/// Nobody counts, so nobody has to stop.
pub(crate) fn forget_forks() {}

/// There are no signals to send: the backend that would is not to be had.
#[cfg(feature = "signals")]
pub(crate) mod signal {
    use crate::sync::machine::{AtomicU32, AtomicU64};

    /// What becomes of a signal.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[expect(dead_code, reason = "none is sent")]
    pub(crate) enum Sent {
        Arrives,
        MayBeHeld,
    }

    pub(crate) fn interrupt(_thread: u32) -> Sent {
        Sent::MayBeHeld
    }

    pub(crate) fn is_running(_thread: u32) -> bool {
        true
    }

    pub(crate) fn follow_thread(
        _thread: &'static AtomicU32,
        _flag: &'static AtomicU64,
        _comes_again: &'static AtomicU32,
    ) {
    }

    pub(crate) fn forget_thread() {}

    /// Stores nothing.
    ///
    /// # Safety
    /// None: no words are touched.
    pub(crate) unsafe fn store_if(_: *mut u64, _: *const u64, _: u64, _: *mut u64, _: u64) -> bool {
        false
    }
}
