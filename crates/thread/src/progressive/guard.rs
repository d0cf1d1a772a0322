//! A lock with its data, and the guard that all of them share.

use core::cell::UnsafeCell;
use core::fmt;
use core::marker::PhantomData;
use core::mem;
use core::ops::{Deref, DerefMut};

use super::state::{Holds, HoldsAlone};

/// A progressive lock `R` around its data; see [`Lock`](super::Lock),
/// [`UpgradeLock`](super::UpgradeLock) and [`ClaimLock`](super::ClaimLock).
#[derive(Default)]
pub struct Locked<R, T: ?Sized> {
    pub(super) raw: R,
    data: UnsafeCell<T>,
}

// SAFETY: `&mut T` is only given out by `DerefMut` of a guard that is alone (`HoldsAlone`) and by
// `get_mut`; all else is `&T`, which T: Sync allows to share. T: Send, since who is alone may move
// the data out in another thread.
unsafe impl<R: Sync, T: ?Sized + Send + Sync> Sync for Locked<R, T> {}

impl<R: Default, T> Locked<R, T> {
    pub(super) fn around(data: T) -> Self {
        Self { raw: R::default(), data: UnsafeCell::new(data) }
    }
}

impl<R, T> Locked<R, T> {
    #[cfg(not(lockspan_loom))]
    pub(super) const fn from_parts(raw: R, data: T) -> Self {
        Self { raw, data: UnsafeCell::new(data) }
    }

    /// The data; nobody can hold the lock any more.
    pub fn into_inner(self) -> T {
        self.data.into_inner()
    }
}

impl<R, T: ?Sized> Locked<R, T> {
    /// The data, without locking: the exclusive borrow shows that nobody holds the lock.
    pub fn get_mut(&mut self) -> &mut T {
        self.data.get_mut()
    }

    /// A guard for a hold that the caller has just taken.
    pub(super) fn guard<S>(&self) -> Guard<'_, R, S, T>
    where
        R: Holds<S>,
    {
        Guard { lock: self, state: PhantomData }
    }
}

impl<R: Default, T> From<T> for Locked<R, T> {
    fn from(data: T) -> Self {
        Self::around(data)
    }
}

/// The data is not shown: to look at it takes a hold.
impl<R: fmt::Debug, T: ?Sized> fmt::Debug for Locked<R, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locked").field("raw", &self.raw).finish_non_exhaustive()
    }
}

/// A hold in the state `S`. Dropped, it ends; each transition consumes it and gives the next.
#[must_use = "a guard that is not kept ends at once"]
pub struct Guard<'a, R: Holds<S>, S, T: ?Sized> {
    lock: &'a Locked<R, T>,
    state: PhantomData<S>,
}

impl<'a, R: Holds<S>, S, T: ?Sized> Guard<'a, R, S, T> {
    pub(super) fn raw(this: &Self) -> &'a R {
        &this.lock.raw
    }

    /// The guard for the state that the raw lock has just moved to.
    pub(super) fn moved<N>(this: Self) -> Guard<'a, R, N, T>
    where
        R: Holds<N>,
    {
        let lock = this.lock;
        mem::forget(this);
        Guard { lock, state: PhantomData }
    }

    /// The next guard if the raw lock has moved, or else this one.
    pub(super) fn moved_if<N>(this: Self, has_moved: bool) -> Result<Guard<'a, R, N, T>, Self>
    where
        R: Holds<N>,
    {
        if has_moved { Ok(Self::moved(this)) } else { Err(this) }
    }
}

impl<R: Holds<S>, S, T: ?Sized> Drop for Guard<'_, R, S, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.raw.leave();
    }
}

impl<R: Holds<S>, S, T: ?Sized> Deref for Guard<'_, R, S, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this hold excludes everybody who is alone, and only those have a `&mut T`.
        unsafe { &*self.lock.data.get() }
    }
}

impl<R: HoldsAlone<S>, S, T: ?Sized> DerefMut for Guard<'_, R, S, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: `HoldsAlone`: there is no other hold, so no other borrow.
        unsafe { &mut *self.lock.data.get() }
    }
}

impl<R: Holds<S>, S, T: ?Sized + fmt::Debug> fmt::Debug for Guard<'_, R, S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<R: Holds<S>, S, T: ?Sized + fmt::Display> fmt::Display for Guard<'_, R, S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
