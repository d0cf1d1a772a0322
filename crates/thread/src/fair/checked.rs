//! A lock that tells a thread that is about to wait for itself.
//!
//! Each thread keeps a list of the checked locks that it holds. Taking one of them again panics
//! with the place where it was taken first, instead of a deadlock. For that the guards must
//! stay on their thread: they are not `Send`. A guard that is leaked (`mem::forget`) is a hold that
//! never ends, also if another lock takes the place of the leaked one in memory.
//!
//! # Invariants
//!
//! - **I1** A call that panics leaves no new hold, and a call that was given a hold and panics has
//!   released it: lock_api's contract, since the guard is gone by then. That is `upgrade` alone;
//!   the other calls that are given a hold do not panic. The list says the same as the lock.
//! - **I2** The place of a hold is the caller's line, for every call. So each method takes
//!   `Location::caller()` itself: inside a closure it would be the closure's own line.

#[cfg(all(test, not(any(lockspan_loom, lockspan_shuttle))))]
mod tests;

use core::cell::RefCell;
use core::fmt;
use core::marker::PhantomData;
use core::panic::Location;
use std::time::{Duration, Instant};

use lock_api::{RawRwLockDowngrade, RawRwLockTimed, RawRwLockUpgrade, RawRwLockUpgradeDowngrade};

use super::policy::{Bounded, Policy};
use super::raw::RawRwLock;

/// [`RawRwLock`] that panics where a thread would deadlock with itself. Use
/// [`CheckedRwLock`](super::CheckedRwLock).
pub struct RawCheckedRwLock<P: Policy = Bounded> {
    raw: RawRwLock<P>,
}

/// Marker in the guards of a [`CheckedRwLock`](super::CheckedRwLock): it makes them not `Send`.
#[derive(Debug)]
pub struct OnThisThread(PhantomData<*const ()>);

type Mode = &'static str;
const READING: Mode = "reading";
const WRITING: Mode = "writing";
const UPGRADABLE: Mode = "upgradable reading";

#[derive(Clone, Copy)]
struct Hold {
    lock: usize,
    mode: Mode,
    taken_at: &'static Location<'static>,
}

impl Hold {
    #[track_caller]
    fn panic(self, wanted: Mode) -> ! {
        let Self { mode, taken_at, .. } = self;
        panic!(
            "self-deadlock: this thread holds the lock for {mode} since {taken_at} and would wait \
             for itself to take it for {wanted}; release it first"
        );
    }
}

thread_local! {
    static HELD: RefCell<Vec<Hold>> = const { RefCell::new(Vec::new()) };
}

impl<P: Policy> RawCheckedRwLock<P> {
    fn address(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    /// What `f` makes of this thread's holds; `None` in a thread that is about to end, whose list
    /// has gone before its other thread-local values.
    fn held<R>(f: impl FnOnce(&mut Vec<Hold>) -> R) -> Option<R> {
        HELD.try_with(|held| f(&mut held.borrow_mut())).ok()
    }

    /// Panics if this thread holds the lock: even a second read is a deadlock if a writer gets
    /// in line between the two.
    #[track_caller]
    fn check(&self, wanted: Mode) {
        if let Some(hold) = self.clash(None) {
            hold.panic(wanted);
        }
    }

    /// A hold of this thread in a mode other than `but`.
    fn clash(&self, but: Option<Mode>) -> Option<Hold> {
        let clashes = |hold: &&Hold| hold.lock == self.address() && Some(hold.mode) != but;
        Self::held(|held| held.iter().find(clashes).copied()).flatten()
    }

    fn note(&self, mode: Mode, taken_at: &'static Location<'static>) -> OnThisThread {
        Self::held(|held| held.push(Hold { lock: self.address(), mode, taken_at }));
        OnThisThread(PhantomData)
    }

    /// Takes the newest hold in that mode off the list; where it was taken.
    fn forget(&self, mode: Mode) -> Option<&'static Location<'static>> {
        let ours = |hold: &Hold| hold.lock == self.address() && hold.mode == mode;
        let forgotten =
            Self::held(|held| held.iter().rposition(ours).map(|at| held.swap_remove(at)));
        forgotten.flatten().map(|hold| hold.taken_at)
    }

    /// The hold stays, in another mode.
    fn change(&self, from: Mode, to: Mode) -> OnThisThread {
        Self::held(|held| {
            let ours = |hold: &&mut Hold| hold.lock == self.address() && hold.mode == from;
            if let Some(hold) = held.iter_mut().rev().find(ours) {
                hold.mode = to;
            }
        });
        OnThisThread(PhantomData)
    }
}

// SAFETY: the lock beneath does the excluding.
unsafe impl<P: Policy> lock_api::RawRwLock for RawCheckedRwLock<P> {
    #[allow(clippy::declare_interior_mutable_const, reason = "lock_api's way to make a lock")]
    const INIT: Self = Self { raw: RawRwLock::new() };

    type SharedGuard = OnThisThread;
    type ExclusiveGuard = OnThisThread;

    #[track_caller]
    fn lock_shared(&self) -> OnThisThread {
        self.check(READING);
        self.raw.lock_shared();
        self.note(READING, Location::caller())
    }

    #[track_caller]
    fn try_lock_shared(&self) -> Option<OnThisThread> {
        let at = Location::caller();
        self.raw.try_lock_shared().map(|()| self.note(READING, at))
    }

    unsafe fn unlock_shared(&self, _: OnThisThread) {
        self.forget(READING);
        // SAFETY: the same contract.
        unsafe { self.raw.unlock_shared(()) };
    }

    #[track_caller]
    fn lock_exclusive(&self) -> OnThisThread {
        self.check(WRITING);
        self.raw.lock_exclusive();
        self.note(WRITING, Location::caller())
    }

    #[track_caller]
    fn try_lock_exclusive(&self) -> Option<OnThisThread> {
        let at = Location::caller();
        self.raw.try_lock_exclusive().map(|()| self.note(WRITING, at))
    }

    unsafe fn unlock_exclusive(&self, _: OnThisThread) {
        self.forget(WRITING);
        // SAFETY: the same contract.
        unsafe { self.raw.unlock_exclusive(()) };
    }

    fn is_locked(&self) -> bool {
        self.raw.is_locked()
    }

    fn is_locked_exclusive(&self) -> bool {
        self.raw.is_locked_exclusive()
    }
}

// SAFETY: the lock beneath leaves one read hold.
unsafe impl<P: Policy> RawRwLockDowngrade for RawCheckedRwLock<P> {
    unsafe fn downgrade(&self, _: OnThisThread) -> OnThisThread {
        // SAFETY: the same contract.
        unsafe { RawRwLockDowngrade::downgrade(&self.raw, ()) };
        self.change(WRITING, READING)
    }
}

// SAFETY: a timed wait for oneself ends by its time-out; the lock beneath does the excluding.
unsafe impl<P: Policy> RawRwLockTimed for RawCheckedRwLock<P> {
    type Duration = Duration;
    type Instant = Instant;

    #[track_caller]
    fn try_lock_shared_for(&self, timeout: Duration) -> Option<OnThisThread> {
        let at = Location::caller();
        self.raw.try_lock_shared_for(timeout).map(|()| self.note(READING, at))
    }

    #[track_caller]
    fn try_lock_shared_until(&self, timeout: Instant) -> Option<OnThisThread> {
        let at = Location::caller();
        self.raw.try_lock_shared_until(timeout).map(|()| self.note(READING, at))
    }

    #[track_caller]
    fn try_lock_exclusive_for(&self, timeout: Duration) -> Option<OnThisThread> {
        let at = Location::caller();
        self.raw.try_lock_exclusive_for(timeout).map(|()| self.note(WRITING, at))
    }

    #[track_caller]
    fn try_lock_exclusive_until(&self, timeout: Instant) -> Option<OnThisThread> {
        let at = Location::caller();
        self.raw.try_lock_exclusive_until(timeout).map(|()| self.note(WRITING, at))
    }
}

// SAFETY: the lock beneath has one upgradable reader at a time.
unsafe impl<P: Policy> RawRwLockUpgrade for RawCheckedRwLock<P> {
    type UpgradableGuard = OnThisThread;

    #[track_caller]
    fn lock_upgradable(&self) -> OnThisThread {
        self.check(UPGRADABLE);
        self.raw.lock_upgradable();
        self.note(UPGRADABLE, Location::caller())
    }

    #[track_caller]
    fn try_lock_upgradable(&self) -> Option<OnThisThread> {
        let at = Location::caller();
        self.raw.try_lock_upgradable().map(|()| self.note(UPGRADABLE, at))
    }

    unsafe fn unlock_upgradable(&self, _: OnThisThread) {
        self.forget(UPGRADABLE);
        // SAFETY: the same contract.
        unsafe { self.raw.unlock_upgradable(()) };
    }

    #[track_caller]
    unsafe fn upgrade(&self, guard: OnThisThread) -> OnThisThread {
        if let Some(hold) = self.clash(Some(UPGRADABLE)) {
            // I1: the caller has no guard any more to release it with.
            // SAFETY: the same contract.
            unsafe { self.unlock_upgradable(guard) };
            hold.panic(WRITING);
        }
        // Off the list meanwhile: if the lock beneath panics, it has released the hold.
        let taken_at = self.forget(UPGRADABLE).unwrap_or(Location::caller());
        // SAFETY: the same contract.
        unsafe { RawRwLockUpgrade::upgrade(&self.raw, ()) };
        self.note(WRITING, taken_at)
    }

    unsafe fn try_upgrade(&self, guard: OnThisThread) -> Result<OnThisThread, OnThisThread> {
        // SAFETY: the same contract.
        match unsafe { RawRwLockUpgrade::try_upgrade(&self.raw, ()) } {
            Ok(()) => Ok(self.change(UPGRADABLE, WRITING)),
            Err(()) => Err(guard),
        }
    }
}

// SAFETY: the lock beneath leaves the hold that the guard stands for.
unsafe impl<P: Policy> RawRwLockUpgradeDowngrade for RawCheckedRwLock<P> {
    unsafe fn downgrade_upgradable(&self, _: OnThisThread) -> OnThisThread {
        // SAFETY: the same contract.
        unsafe { RawRwLockUpgradeDowngrade::downgrade_upgradable(&self.raw, ()) };
        self.change(UPGRADABLE, READING)
    }

    unsafe fn downgrade_to_upgradable(&self, _: OnThisThread) -> OnThisThread {
        // SAFETY: the same contract.
        unsafe { RawRwLockUpgradeDowngrade::downgrade_to_upgradable(&self.raw, ()) };
        self.change(WRITING, UPGRADABLE)
    }
}

impl<P: Policy> fmt::Debug for RawCheckedRwLock<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}
