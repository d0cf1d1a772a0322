//! [`Lock`] with its data: how to come in, and where each guard can go.

use std::time::Duration;

use super::super::guard::{Guard, Locked};
use super::super::state::{Atomic, Holds, HoldsAlone, Read, Seek, Write, sealed};
use super::RawLock;
use crate::progressive::until;

/// A lock with the states Read, Seek, Write and Atomic; see the [module](super).
pub type Lock<T> = Locked<RawLock, T>;
/// Guard of a reader, beside other readers.
pub type ReadGuard<'a, T> = Guard<'a, RawLock, Read, T>;
/// Guard of the seeker: it reads beside readers, and can become the writer.
pub type SeekGuard<'a, T> = Guard<'a, RawLock, Seek, T>;
/// Guard of the writer, which is alone.
pub type WriteGuard<'a, T> = Guard<'a, RawLock, Write, T>;
/// Guard of an atomic: it changes atomic variables in the data, beside other atomics.
pub type AtomicGuard<'a, T> = Guard<'a, RawLock, Atomic, T>;

impl sealed::Sealed<Read> for RawLock {}
impl sealed::Sealed<Seek> for RawLock {}
impl sealed::Sealed<Write> for RawLock {}
impl sealed::Sealed<Atomic> for RawLock {}

impl Holds<Read> for RawLock {
    #[inline]
    fn leave(&self) {
        self.read_done();
    }
}

impl Holds<Seek> for RawLock {
    #[inline]
    fn leave(&self) {
        self.seek_done();
    }
}

impl Holds<Write> for RawLock {
    #[inline]
    fn leave(&self) {
        self.write_done();
    }
}

impl Holds<Atomic> for RawLock {
    #[inline]
    fn leave(&self) {
        self.atomic_done();
    }
}

// SAFETY: I1 and I2 of the module: with WRITE set and no reader left there is nobody else.
unsafe impl HoldsAlone<Write> for RawLock {}

#[cfg(not(lockspan_loom))]
impl<T> Locked<RawLock, T> {
    /// A lock around `data`.
    pub const fn new(data: T) -> Self {
        Self::from_parts(RawLock::new(), data)
    }
}

impl<T: ?Sized> Locked<RawLock, T> {
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

    /// Waits to seek: to read beside readers, as the only one that may become the writer.
    #[inline]
    pub fn seek(&self) -> SeekGuard<'_, T> {
        self.raw.seek();
        self.guard()
    }

    /// Seeks if nobody is in the way.
    #[inline]
    pub fn try_seek(&self) -> Option<SeekGuard<'_, T>> {
        self.raw.try_seek().then(|| self.guard())
    }

    /// Waits to seek for `timeout` at most.
    pub fn seek_timeout(&self, timeout: Duration) -> Option<SeekGuard<'_, T>> {
        self.raw.seek_until(until(timeout)).then(|| self.guard())
    }

    /// Waits to write.
    #[inline]
    pub fn write(&self) -> WriteGuard<'_, T> {
        self.raw.write();
        self.guard()
    }

    /// Writes if nobody is in the way.
    #[inline]
    pub fn try_write(&self) -> Option<WriteGuard<'_, T>> {
        self.raw.try_write().then(|| self.guard())
    }

    /// Waits to write for `timeout` at most.
    pub fn write_timeout(&self, timeout: Duration) -> Option<WriteGuard<'_, T>> {
        self.raw.write_until(until(timeout)).then(|| self.guard())
    }

    /// Waits to change the data by its own atomics, beside others that do.
    #[inline]
    pub fn atomic(&self) -> AtomicGuard<'_, T> {
        self.raw.atomic();
        self.guard()
    }

    /// As [`atomic`](Self::atomic), if nobody is in the way.
    #[inline]
    pub fn try_atomic(&self) -> Option<AtomicGuard<'_, T>> {
        self.raw.try_atomic().then(|| self.guard())
    }

    /// As [`atomic`](Self::atomic), for `timeout` at most.
    pub fn atomic_timeout(&self, timeout: Duration) -> Option<AtomicGuard<'_, T>> {
        self.raw.atomic_until(until(timeout)).then(|| self.guard())
    }
}

impl<'a, T: ?Sized> Guard<'a, RawLock, Read, T> {
    /// R→S: becomes the seeker, unless there is one, or somebody writes or waits to.
    ///
    /// # Errors
    /// The guard as it was. Who must have the seek hold drops it and asks the lock.
    #[inline]
    pub fn try_seek(this: Self) -> Result<SeekGuard<'a, T>, Self> {
        let has_moved = Self::raw(&this).try_read_to_seek();
        Self::moved_if(this, has_moved)
    }

    /// R→A: waits until every reader has left or done the same.
    ///
    /// # Errors
    /// The guard as it was, at once, if somebody seeks or waits to write: that one may be waiting
    /// for this reader to leave.
    #[inline]
    pub fn atomic(this: Self) -> Result<AtomicGuard<'a, T>, Self> {
        let has_moved = Self::raw(&this).read_to_atomic();
        Self::moved_if(this, has_moved)
    }

    /// R→A, if nobody else reads, seeks or waits to write.
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
    /// The guard as it was: at once if somebody seeks or waits to write, else after `timeout`.
    pub fn atomic_timeout(this: Self, timeout: Duration) -> Result<AtomicGuard<'a, T>, Self> {
        let has_moved = Self::raw(&this).read_to_atomic_until(until(timeout));
        Self::moved_if(this, has_moved)
    }
}

impl<'a, T: ?Sized> Guard<'a, RawLock, Seek, T> {
    /// S→W: lets no reader in any more and waits until those inside have left.
    #[inline]
    pub fn write(this: Self) -> WriteGuard<'a, T> {
        Self::raw(&this).seek_to_write();
        Self::moved(this)
    }

    /// S→W, if no reader is there.
    ///
    /// # Errors
    /// The guard as it was.
    #[inline]
    pub fn try_write(this: Self) -> Result<WriteGuard<'a, T>, Self> {
        let has_moved = Self::raw(&this).try_seek_to_write();
        Self::moved_if(this, has_moved)
    }

    /// S→W, within `timeout`.
    ///
    /// # Errors
    /// The guard as it was; readers come in again.
    pub fn write_timeout(this: Self, timeout: Duration) -> Result<WriteGuard<'a, T>, Self> {
        let has_moved = Self::raw(&this).seek_to_write_until(until(timeout));
        Self::moved_if(this, has_moved)
    }

    /// S→R: another may seek.
    #[inline]
    pub fn read(this: Self) -> ReadGuard<'a, T> {
        Self::raw(&this).seek_to_read();
        Self::moved(this)
    }
}

impl<'a, T: ?Sized> Guard<'a, RawLock, Write, T> {
    /// W→S: readers come in again, and nobody writes in between.
    #[inline]
    pub fn seek(this: Self) -> SeekGuard<'a, T> {
        Self::raw(&this).write_to_seek();
        Self::moved(this)
    }

    /// W→R: nobody writes in between.
    #[inline]
    pub fn read(this: Self) -> ReadGuard<'a, T> {
        Self::raw(&this).write_to_read();
        Self::moved(this)
    }
}

impl<'a, T: ?Sized> Guard<'a, RawLock, Atomic, T> {
    /// A→R: waits until the last atomic has left or done the same; none joins any more.
    #[inline]
    pub fn read(this: Self) -> ReadGuard<'a, T> {
        Self::raw(&this).atomic_to_read();
        Self::moved(this)
    }

    /// A→R, if it is the last atomic.
    ///
    /// # Errors
    /// The guard as it was.
    #[inline]
    pub fn try_read(this: Self) -> Result<ReadGuard<'a, T>, Self> {
        let has_moved = Self::raw(&this).try_atomic_to_read();
        Self::moved_if(this, has_moved)
    }

    /// A→R, within `timeout`.
    ///
    /// # Errors
    /// The guard as it was.
    pub fn read_timeout(this: Self, timeout: Duration) -> Result<ReadGuard<'a, T>, Self> {
        let has_moved = Self::raw(&this).atomic_to_read_until(until(timeout));
        Self::moved_if(this, has_moved)
    }
}
