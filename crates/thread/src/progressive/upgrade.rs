//! Read and Atomic, and an upgrade from one to the other that is never refused.
//!
//! # When to use it
//!
//! Use it when readers find that something has to be changed, and the changes of several threads
//! can be made at the same time, with atomic variables. No reader sees the data change while it
//! reads: the changes are made when all readers have left or upgraded.
//!
//! ```
//! use std::sync::atomic::{AtomicU32, Ordering};
//! use lockspan_thread::progressive::upgrade::{ReadGuard, UpgradeLock};
//!
//! let hits = UpgradeLock::new(AtomicU32::new(0));
//! {
//!     let read = hits.read();
//!     if read.load(Ordering::Relaxed) == 0 {
//!         let atomic = ReadGuard::atomic(read);
//!         atomic.fetch_add(1, Ordering::Relaxed);
//!     }
//! }
//! assert_eq!(hits.into_inner().into_inner(), 1);
//! ```
//!
//! # What is promised
//!
//! - An upgrade is never refused. It waits until every other reader has left or upgraded too. So a
//!   reader must not wait for a thread that has upgraded: that is a deadlock.
//! - There is no way back from Atomic to Read. [`Lock`](super::Lock) has one.
//! - A thread that cannot enter waits in a queue. Others can pass the first in the queue for at
//!   most 200 µs.

// The word is that of `base`, of which only the readers and the atomics are used: its transitions
// T1, T4, T5, T8 and T10, with its orderings. T10 is refused there beside a seeker or a writer;
// here there is none.

use core::fmt;
use std::time::{Duration, Instant};

use super::base::{Holders, RawLock};
use super::guard::{Guard, Locked};
use super::state::{Atomic, Holds, Read, sealed};
use super::until;

/// A lock with the states Read and Atomic, and an upgrade that is never refused; see the
/// [module](self).
pub type UpgradeLock<T> = Locked<RawUpgradeLock, T>;
/// Guard of a reader, beside other readers.
pub type ReadGuard<'a, T> = Guard<'a, RawUpgradeLock, Read, T>;
/// Guard of an atomic: it changes atomic variables in the data, beside other atomics.
pub type AtomicGuard<'a, T> = Guard<'a, RawUpgradeLock, Atomic, T>;

/// [`UpgradeLock`] without data: the word and its transitions.
#[derive(Default)]
pub struct RawUpgradeLock(RawLock);

impl fmt::Debug for RawUpgradeLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl RawUpgradeLock {
    /// An unlocked lock.
    #[cfg(not(lockspan_loom))]
    #[must_use]
    pub const fn new() -> Self {
        Self(RawLock::new())
    }

    /// Who is inside; nobody seeks, writes or returns here.
    #[must_use]
    pub fn holders(&self) -> Holders {
        self.0.holders()
    }

    /// Whether nobody is inside and nobody waits to come in.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.0.is_idle()
    }

    /// Waits to read.
    ///
    /// # Panics
    /// If 524,286 readers are inside.
    #[inline]
    pub fn read(&self) {
        self.0.read();
    }

    /// Like [`read`](Self::read), but false instead of a panic.
    #[inline]
    #[must_use]
    pub fn read_unless_full(&self) -> bool {
        self.0.read_unless_full()
    }

    /// Reads if nobody is in the way.
    #[inline]
    #[must_use]
    pub fn try_read(&self) -> bool {
        self.0.try_read()
    }

    /// Waits to read until `deadline`; false if that passed first.
    #[must_use]
    pub fn read_until(&self, deadline: Instant) -> bool {
        self.0.read_until(deadline)
    }

    /// Ends a read hold.
    #[inline]
    pub fn read_done(&self) {
        self.0.read_done();
    }

    /// A reader becomes an atomic, and waits until all readers have left or done the same.
    #[inline]
    pub fn read_to_atomic(&self) {
        let has_moved = self.0.read_to_atomic();
        debug_assert!(has_moved, "nobody seeks or writes here");
    }

    /// A reader becomes an atomic, if nobody else reads.
    #[inline]
    #[must_use]
    pub fn try_read_to_atomic(&self) -> bool {
        self.0.try_read_to_atomic()
    }

    /// As [`read_to_atomic`](Self::read_to_atomic), until `deadline`; if that passed first, it is
    /// still a reader.
    #[must_use]
    pub fn read_to_atomic_until(&self, deadline: Instant) -> bool {
        self.0.read_to_atomic_until(deadline)
    }

    /// Ends an atomic hold.
    #[inline]
    pub fn atomic_done(&self) {
        self.0.atomic_done();
    }
}

impl sealed::Sealed<Read> for RawUpgradeLock {}
impl sealed::Sealed<Atomic> for RawUpgradeLock {}

impl Holds<Read> for RawUpgradeLock {
    #[inline]
    fn leave(&self) {
        self.read_done();
    }
}

impl Holds<Atomic> for RawUpgradeLock {
    #[inline]
    fn leave(&self) {
        self.atomic_done();
    }
}

#[cfg(not(lockspan_loom))]
impl<T> Locked<RawUpgradeLock, T> {
    /// A lock around `data`.
    pub const fn new(data: T) -> Self {
        Self::from_parts(RawUpgradeLock::new(), data)
    }
}

impl<T: ?Sized> Locked<RawUpgradeLock, T> {
    /// Waits to read.
    #[inline]
    pub fn read(&self) -> ReadGuard<'_, T> {
        self.raw.read();
        self.guard()
    }

    /// Reads if nobody is in the way.
    #[inline]
    pub fn try_read(&self) -> Option<ReadGuard<'_, T>> {
        self.raw.try_read().then(|| self.guard())
    }

    /// Waits to read for `timeout` at most.
    pub fn read_timeout(&self, timeout: Duration) -> Option<ReadGuard<'_, T>> {
        self.raw.read_until(until(timeout)).then(|| self.guard())
    }
}

impl<'a, T: ?Sized> Guard<'a, RawUpgradeLock, Read, T> {
    /// R→A: waits until every reader has left or done the same.
    #[inline]
    pub fn atomic(this: Self) -> AtomicGuard<'a, T> {
        Self::raw(&this).read_to_atomic();
        Self::moved(this)
    }

    /// R→A, if nobody else reads.
    ///
    /// # Errors
    /// The guard as it was.
    #[inline]
    pub fn try_atomic(this: Self) -> Result<AtomicGuard<'a, T>, Self> {
        let has_moved = Self::raw(&this).try_read_to_atomic();
        Self::moved_if(this, has_moved)
    }

    /// R→A, within `timeout`.
    ///
    /// # Errors
    /// The guard as it was; others may read again.
    pub fn atomic_timeout(this: Self, timeout: Duration) -> Result<AtomicGuard<'a, T>, Self> {
        let has_moved = Self::raw(&this).read_to_atomic_until(until(timeout));
        Self::moved_if(this, has_moved)
    }
}

#[cfg(all(test, not(any(lockspan_loom, lockspan_shuttle))))]
mod tests {
    use super::{Duration, ReadGuard, UpgradeLock};

    #[test]
    fn an_upgrade_that_does_not_succeed_gives_the_reader_back() {
        let lock = UpgradeLock::new(());
        let (one, two) = (lock.read(), lock.read());
        let one = ReadGuard::try_atomic(one).unwrap_err();
        let one = ReadGuard::atomic_timeout(one, Duration::from_millis(1)).unwrap_err();
        assert!(lock.try_read().is_some(), "others may read again");
        drop(two);
        let atomic = ReadGuard::try_atomic(one).unwrap();
        assert!(lock.try_read().is_none());
        assert!(lock.read_timeout(Duration::from_millis(1)).is_none());
        drop(atomic);
        let read = lock.read_timeout(Duration::from_secs(60)).unwrap();
        drop(ReadGuard::atomic_timeout(read, Duration::from_secs(60)).unwrap());
        drop(ReadGuard::atomic(lock.read()));
        assert!(lock.raw.is_idle());
    }
}
