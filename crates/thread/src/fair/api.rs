//! The lock as its users see it: lock_api's traits, and what lock_api has no word for.

#[cfg(all(test, not(any(lockspan_loom, lockspan_shuttle))))]
mod tests;

use core::fmt;
use core::future::Future;
use core::mem;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use lockspan_park::Deadline;

use super::node::Kind;
use super::policy::Policy;
use super::raw::RawRwLock;
use super::task::Acquire;
use super::{PolicyRwLock, RwLockReadGuard, RwLockWriteGuard};

impl<P: Policy> RawRwLock<P> {
    /// Takes a read lock, past all waiters, unless a writer holds the lock; otherwise waits in the
    /// queue. For a thread that may already hold a read lock.
    pub fn lock_shared_recursive(&self) {
        if !self.try_lock_shared_recursive() {
            self.acquire(Kind::Read, None);
        }
    }

    /// Like [`lock_shared_recursive`](Self::lock_shared_recursive), but returns `false` instead of
    /// waiting.
    #[must_use]
    pub fn try_lock_shared_recursive(&self) -> bool {
        self.try_read_recursive()
    }

    /// Waits for a read lock until `deadline`; false if that passed first.
    #[doc(hidden)]
    #[must_use]
    pub fn lock_shared_deadline(&self, deadline: Deadline) -> bool {
        self.try_acquire(Kind::Read) || self.acquire(Kind::Read, Some(deadline))
    }

    /// Waits for the write lock until `deadline`; false if that passed first.
    #[doc(hidden)]
    #[must_use]
    pub fn lock_exclusive_deadline(&self, deadline: Deadline) -> bool {
        self.try_acquire(Kind::Write) || self.acquire(Kind::Write, Some(deadline))
    }

    /// T5 for a caller whose guard is gone: if the policy's clock panics, the upgradable hold is
    /// released, as lock_api demands of a call that is given a hold and unwinds.
    fn upgrade_or_release(&self, deadline: Option<Deadline>) -> bool {
        struct Release<'a, P: Policy>(&'a RawRwLock<P>);

        impl<P: Policy> Drop for Release<'_, P> {
            fn drop(&mut self) {
                self.0.upgradable_done();
            }
        }

        let release = Release(self);
        let is_writer = self.upgrade(deadline);
        mem::forget(release);
        is_writer
    }

    /// Takes a read lock if nobody else holds or waits for the lock: the shortest path. `false`
    /// says nothing about why.
    #[doc(hidden)]
    #[must_use]
    #[inline(always)]
    pub fn try_lock_shared_alone(&self) -> bool {
        self.try_enter_free(Kind::Read)
    }

    /// Takes the write lock if nobody else holds or waits for the lock: the shortest path.
    #[doc(hidden)]
    #[must_use]
    #[inline(always)]
    pub fn try_lock_exclusive_alone(&self) -> bool {
        self.try_enter_free(Kind::Write)
    }

    /// [`leave_shared`](Self::leave_shared) if nobody waits and nobody is still inside a call for
    /// others; otherwise `false`, and nothing has changed.
    ///
    /// # Safety
    /// `this` points to a live lock; if it is held for reading, the caller gives up a read hold.
    #[doc(hidden)]
    #[must_use]
    #[inline(always)]
    pub unsafe fn try_leave_shared(this: *const Self) -> bool {
        // SAFETY: the same contract.
        unsafe { Self::try_leave(this, Kind::Read) }
    }

    /// [`leave_exclusive`](Self::leave_exclusive), likewise.
    ///
    /// # Safety
    /// `this` points to a live lock; if it is held for writing, the caller gives up that hold.
    #[doc(hidden)]
    #[must_use]
    #[inline(always)]
    pub unsafe fn try_leave_exclusive(this: *const Self) -> bool {
        // SAFETY: the same contract.
        unsafe { Self::try_leave(this, Kind::Write) }
    }

    /// Ends a read hold of a lock that its next owner may free at once, as C programs do: that
    /// owner's own release waits until this call has done with the lock.
    ///
    /// # Safety
    /// `this` points to a live lock, and the caller gives up a read hold of it.
    #[doc(hidden)]
    pub unsafe fn leave_shared(this: *const Self) {
        // SAFETY: the same contract.
        unsafe { Self::leave(this, Kind::Read) };
    }

    /// Ends the write hold of a lock that its next owner may free at once, as
    /// [`leave_shared`](Self::leave_shared) does.
    ///
    /// # Safety
    /// `this` points to a live lock, and the caller gives up the write hold of it.
    #[doc(hidden)]
    pub unsafe fn leave_exclusive(this: *const Self) {
        // SAFETY: the same contract.
        unsafe { Self::leave(this, Kind::Write) };
    }
}

// SAFETY: I1: a writer is alone; `lock_*` returns only with the hold.
unsafe impl<P: Policy> lock_api::RawRwLock for RawRwLock<P> {
    #[allow(clippy::declare_interior_mutable_const, reason = "lock_api's way to make a lock")]
    const INIT: Self = Self::new();

    type SharedGuard = ();
    type ExclusiveGuard = ();

    #[inline]
    fn lock_shared(&self) {
        self.read();
    }

    #[inline]
    fn try_lock_shared(&self) -> Option<()> {
        self.try_acquire(Kind::Read).then_some(())
    }

    #[inline]
    unsafe fn unlock_shared(&self, (): ()) {
        self.read_done();
    }

    #[inline]
    fn lock_exclusive(&self) {
        self.write();
    }

    #[inline]
    fn try_lock_exclusive(&self) -> Option<()> {
        self.try_acquire(Kind::Write).then_some(())
    }

    #[inline]
    unsafe fn unlock_exclusive(&self, (): ()) {
        self.write_done();
    }

    fn is_locked(&self) -> bool {
        self.held()
    }

    fn is_locked_exclusive(&self) -> bool {
        self.held_by_writer()
    }
}

// SAFETY: these end the hold as the plain calls do.
unsafe impl<P: Policy> lock_api::RawRwLockFair for RawRwLock<P> {
    unsafe fn unlock_shared_fair(&self, (): ()) {
        self.done_fairly(Kind::Read);
    }

    unsafe fn unlock_exclusive_fair(&self, (): ()) {
        self.done_fairly(Kind::Write);
    }
}

// SAFETY: T6 leaves one read hold in place of the write hold.
unsafe impl<P: Policy> lock_api::RawRwLockDowngrade for RawRwLock<P> {
    unsafe fn downgrade(&self, (): ()) {
        self.downgrade(Kind::Read);
    }
}

// SAFETY: true means that the hold was taken.
unsafe impl<P: Policy> lock_api::RawRwLockTimed for RawRwLock<P> {
    type Duration = Duration;
    type Instant = Instant;

    fn try_lock_shared_for(&self, timeout: Duration) -> Option<()> {
        let ok = self.try_acquire(Kind::Read) || self.acquire(Kind::Read, Deadline::after(timeout));
        ok.then_some(())
    }

    fn try_lock_shared_until(&self, timeout: Instant) -> Option<()> {
        self.lock_shared_deadline(timeout.into()).then_some(())
    }

    fn try_lock_exclusive_for(&self, timeout: Duration) -> Option<()> {
        let ok =
            self.try_acquire(Kind::Write) || self.acquire(Kind::Write, Deadline::after(timeout));
        ok.then_some(())
    }

    fn try_lock_exclusive_until(&self, timeout: Instant) -> Option<()> {
        self.lock_exclusive_deadline(timeout.into()).then_some(())
    }
}

// SAFETY: U is one bit: one upgradable reader at a time; T5 leaves it alone with the lock.
unsafe impl<P: Policy> lock_api::RawRwLockUpgrade for RawRwLock<P> {
    type UpgradableGuard = ();

    fn lock_upgradable(&self) {
        if !self.try_acquire(Kind::Upgradable) {
            self.acquire(Kind::Upgradable, None);
        }
    }

    fn try_lock_upgradable(&self) -> Option<()> {
        self.try_acquire(Kind::Upgradable).then_some(())
    }

    unsafe fn unlock_upgradable(&self, (): ()) {
        self.upgradable_done();
    }

    unsafe fn upgrade(&self, (): ()) {
        self.upgrade_or_release(None);
    }

    unsafe fn try_upgrade(&self, (): ()) -> Result<(), ()> {
        if self.try_upgrade() { Ok(()) } else { Err(()) }
    }
}

// SAFETY: ends the hold as the plain call does.
unsafe impl<P: Policy> lock_api::RawRwLockUpgradeFair for RawRwLock<P> {
    unsafe fn unlock_upgradable_fair(&self, (): ()) {
        self.done_fairly(Kind::Upgradable);
    }
}

// SAFETY: each leaves exactly the hold that its guard stands for.
unsafe impl<P: Policy> lock_api::RawRwLockUpgradeDowngrade for RawRwLock<P> {
    unsafe fn downgrade_upgradable(&self, (): ()) {
        self.downgrade_upgradable();
    }

    unsafe fn downgrade_to_upgradable(&self, (): ()) {
        self.downgrade(Kind::Upgradable);
    }
}

// SAFETY: on a time-out the upgradable hold stays.
unsafe impl<P: Policy> lock_api::RawRwLockUpgradeTimed for RawRwLock<P> {
    fn try_lock_upgradable_for(&self, timeout: Duration) -> Option<()> {
        let ok = self.try_acquire(Kind::Upgradable)
            || self.acquire(Kind::Upgradable, Deadline::after(timeout));
        ok.then_some(())
    }

    fn try_lock_upgradable_until(&self, timeout: Instant) -> Option<()> {
        let ok = self.try_acquire(Kind::Upgradable)
            || self.acquire(Kind::Upgradable, Some(timeout.into()));
        ok.then_some(())
    }

    unsafe fn try_upgrade_for(&self, (): (), timeout: Duration) -> Result<(), ()> {
        if self.upgrade_or_release(Deadline::after(timeout)) { Ok(()) } else { Err(()) }
    }

    unsafe fn try_upgrade_until(&self, (): (), timeout: Instant) -> Result<(), ()> {
        if self.upgrade_or_release(Some(timeout.into())) { Ok(()) } else { Err(()) }
    }
}

/// Methods of [`RwLock`](super::RwLock) beyond those of [`lock_api`]: futures and recursive reads.
///
/// ```
/// use lockspan_thread::fair::{RwLock, RwLockExt};
///
/// # poll_once(async {
/// let lock = RwLock::new(5);
/// *lock.write_async().await += 1;
/// assert_eq!(*lock.read_async().await, 6);
/// # });
/// # /// No runtime is needed: nothing here waits.
/// # fn poll_once(future: impl Future<Output = ()>) {
/// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
/// #     assert!(std::pin::pin!(future).poll(&mut context).is_ready());
/// # }
/// ```
///
/// Other crates cannot implement it.
pub trait RwLockExt: sealed::Sealed {
    /// The data in the lock.
    type Data: ?Sized;
    /// The lock's policy.
    type Policy: Policy;

    /// Takes a read lock without blocking the thread. Tasks and threads wait in the same queue.
    ///
    /// Works in any executor. Dropping the future is safe at any time and never waits. Its waker
    /// may run in any thread that uses the lock: it may use the lock too, but must not wait for it.
    ///
    /// A waker should put its task into a queue, as executors do. A waker that polls the task
    /// inside `wake` works too, but on the stack of the thread that released the lock: if the task
    /// releases the lock, that calls the next waker, one level deeper for each waiting task. Some
    /// thousands fit into a stack of 8 MB, a hundred thousand do not.
    fn read_async(&self) -> ReadAsync<'_, Self::Data, Self::Policy>;

    /// Takes the write lock without blocking the thread, as [`read_async`] does. Wakers that poll
    /// inside `wake` concern writers most: each writer wakes the next.
    ///
    /// [`read_async`]: RwLockExt::read_async
    fn write_async(&self) -> WriteAsync<'_, Self::Data, Self::Policy>;

    /// Takes a read lock, past all waiters, unless a writer holds the lock. For a thread that may
    /// already read, where waiting behind a writer would be a deadlock. Readers that always use it
    /// can starve writers.
    fn read_recursive(&self) -> RwLockReadGuard<'_, Self::Data, Self::Policy>;

    /// Like [`read_recursive`](RwLockExt::read_recursive), but returns `None` if a writer holds the
    /// lock.
    fn try_read_recursive(&self) -> Option<RwLockReadGuard<'_, Self::Data, Self::Policy>>;
}

mod sealed {
    #[expect(unnameable_types, reason = "other crates must not implement it")]
    pub trait Sealed {}
}

impl<T: ?Sized, P: Policy> sealed::Sealed for PolicyRwLock<T, P> {}

impl<T: ?Sized, P: Policy> RwLockExt for PolicyRwLock<T, P> {
    type Data = T;
    type Policy = P;

    fn read_async(&self) -> ReadAsync<'_, T, P> {
        // SAFETY: the raw lock is only used to take a hold, for which a guard is made.
        let raw = unsafe { self.raw() };
        ReadAsync { lock: self, hold: Acquire::new(raw, Kind::Read) }
    }

    fn write_async(&self) -> WriteAsync<'_, T, P> {
        // SAFETY: the raw lock is only used to take a hold, for which a guard is made.
        let raw = unsafe { self.raw() };
        WriteAsync { lock: self, hold: Acquire::new(raw, Kind::Write) }
    }

    fn read_recursive(&self) -> RwLockReadGuard<'_, T, P> {
        // SAFETY: the raw lock is only used to take a hold, for which a guard is made.
        unsafe { self.raw() }.lock_shared_recursive();
        // SAFETY: the read hold is ours.
        unsafe { self.make_read_guard_unchecked(()) }
    }

    fn try_read_recursive(&self) -> Option<RwLockReadGuard<'_, T, P>> {
        // SAFETY: the raw lock is only used to take a hold, for which a guard is made.
        let held = unsafe { self.raw() }.try_lock_shared_recursive();
        // SAFETY: the read hold is ours.
        held.then(|| unsafe { self.make_read_guard_unchecked(()) })
    }
}

/// The future of [`RwLockExt::read_async`].
#[must_use = "a future does nothing unless it is awaited"]
pub struct ReadAsync<'a, T: ?Sized, P: Policy> {
    lock: &'a PolicyRwLock<T, P>,
    hold: Acquire<'a, P>,
}

/// The future of [`RwLockExt::write_async`].
#[must_use = "a future does nothing unless it is awaited"]
pub struct WriteAsync<'a, T: ?Sized, P: Policy> {
    lock: &'a PolicyRwLock<T, P>,
    hold: Acquire<'a, P>,
}

impl<'a, T: ?Sized, P: Policy> Future for ReadAsync<'a, T, P> {
    type Output = RwLockReadGuard<'a, T, P>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        ready!(Pin::new(&mut self.hold).poll(context));
        // SAFETY: the read hold is ours.
        Poll::Ready(unsafe { self.lock.make_read_guard_unchecked(()) })
    }
}

impl<'a, T: ?Sized, P: Policy> Future for WriteAsync<'a, T, P> {
    type Output = RwLockWriteGuard<'a, T, P>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        ready!(Pin::new(&mut self.hold).poll(context));
        // SAFETY: the write hold is ours.
        Poll::Ready(unsafe { self.lock.make_write_guard_unchecked(()) })
    }
}

impl<T: ?Sized, P: Policy> fmt::Debug for ReadAsync<'_, T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadAsync").field("hold", &self.hold).finish_non_exhaustive()
    }
}

impl<T: ?Sized, P: Policy> fmt::Debug for WriteAsync<'_, T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteAsync").field("hold", &self.hold).finish_non_exhaustive()
    }
}
