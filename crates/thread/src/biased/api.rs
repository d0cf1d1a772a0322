//! The mutex as its users see it: lock_api's traits, and what lock_api has no word for.

use std::ptr::NonNull;
use std::time::{Duration, Instant};

use lock_api::RawRwLock as _;
use lockspan_park::{Deadline, Spot};

use super::core::{Core, Fair, No, Wait};
use super::record::Record;
use super::{Mutex, fences, thread};
use crate::fair::{Bounded, RawRwLock};

// SAFETY: the write hold of the fair lock is exclusive, and ordered as its header says.
unsafe impl Fair for RawRwLock<Bounded> {
    fn lock(&self, deadline: Option<Deadline>) -> bool {
        match deadline {
            Some(deadline) => self.lock_exclusive_deadline(deadline),
            None => {
                self.lock_exclusive();
                true
            }
        }
    }

    fn try_lock(&self) -> bool {
        self.try_lock_exclusive().is_some()
    }

    unsafe fn unlock(&self) {
        // SAFETY: the caller has the write hold.
        unsafe { self.unlock_exclusive(()) };
    }

    fn is_locked(&self) -> bool {
        lock_api::RawRwLock::is_locked(self)
    }

    fn has_waiters(&self) -> bool {
        self.is_waited_for()
    }
}

/// The biased mutex without data, for [`lock_api`]. Use [`Mutex`].
#[derive(Debug)]
pub struct RawMutex(Core<RawRwLock<Bounded>>);

/// Proof that a [`RawMutex`] is locked, inside the guard. It is not `Send`.
#[derive(Debug)]
pub struct Hold {
    /// Not `Send`, as the slots of a record are its thread's, ...
    record: NonNull<Record>,
    /// `FIRST`, `FAIR`, or the number of another slot.
    how: usize,
}

// SAFETY: ... but `Sync`: a shared hold can do nothing.
unsafe impl Sync for Hold {}

const FIRST: usize = usize::MAX;
const FAIR: usize = FIRST - 1;

impl Hold {
    #[inline]
    fn new(record: &'static Record, how: usize) -> Self {
        Self { record: record.into(), how }
    }

    #[inline]
    fn record(&self) -> &'static Record {
        // SAFETY: `new` was given it for good.
        unsafe { self.record.as_ref() }
    }
}

/// Whom the lock knows the calling thread by; none if it cannot have a bias.
fn me() -> Option<&'static Record> {
    if fences::are_usable() { thread::mine() } else { None }
}

impl RawMutex {
    #[cold]
    #[inline(never)]
    fn lock_slowly(&self) -> Hold {
        // There is no deadline, so there is no other reason.
        let Some(hold) = self.lock_without_first(Wait::Until(None)) else {
            panic!("this thread locks a biased mutex that it holds")
        };
        hold
    }

    #[cold]
    #[inline(never)]
    fn try_slowly(&self, wait: Wait) -> Option<Hold> {
        self.lock_without_first(wait)
    }

    #[inline]
    fn lock_without_first(&self, wait: Wait) -> Option<Hold> {
        let me = me();
        if let Some(me) = me {
            match self.0.enter_other(me) {
                Ok(at) => {
                    thread::has_nested(me);
                    return Some(Hold::new(me, at));
                }
                Err(No::Mine) => return lock_again(wait),
                Err(No::Bias) => {}
            }
        }
        let is_mine = self.0.lock_fair(me, wait);
        is_mine.then(|| Hold::new(me.unwrap_or_else(thread::first), FAIR))
    }

    #[cold]
    #[inline(never)]
    fn unlock_slowly(&self, hold: Hold) {
        match hold.how {
            // SAFETY: the hold says that this thread has it.
            FAIR => unsafe { self.0.leave_fair(me()) },
            slot => {
                hold.record().empty_other(slot);
                thread::has_nested(hold.record());
            }
        }
    }

    #[inline]
    fn try_or(&self, wait: Wait) -> Option<Hold> {
        let me = thread::first();
        if self.0.enter(me) { Some(Hold::new(me, FIRST)) } else { self.try_slowly(wait) }
    }
}

/// The thread holds the lock that it wants: there is none for it, once the deadline has passed. If
/// there is no deadline, it is told at once, not never.
#[cold]
fn lock_again(wait: Wait) -> Option<Hold> {
    if let Wait::Until(deadline @ Some(_)) = wait {
        // As with a lock that another thread holds for too long.
        Spot::new(0).sleep(0, deadline);
    }
    None
}

// SAFETY: I3 and I5: who is in by the bias is alone, and so is who has the fair lock and found the
// owner to be out. Who moves a lock has it for itself.
unsafe impl lock_api::RawMutex for RawMutex {
    #[allow(clippy::declare_interior_mutable_const, reason = "lock_api's way to make a lock")]
    const INIT: Self = Self(Core::new(RawRwLock::new()));

    type Guard = Hold;

    #[inline]
    fn lock(&self) -> Hold {
        let me = thread::first();
        if self.0.enter(me) { Hold::new(me, FIRST) } else { self.lock_slowly() }
    }

    #[inline]
    fn try_lock(&self) -> Option<Hold> {
        self.try_or(Wait::Not)
    }

    #[inline]
    unsafe fn unlock(&self, hold: Hold) {
        if hold.how == FIRST {
            hold.record().empty_first();
        } else {
            self.unlock_slowly(hold);
        }
    }

    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}

// SAFETY: as the plain calls.
unsafe impl lock_api::RawMutexTimed for RawMutex {
    type Duration = Duration;
    type Instant = Instant;

    fn try_lock_for(&self, timeout: Duration) -> Option<Hold> {
        self.try_or(Wait::Until(Deadline::after(timeout)))
    }

    fn try_lock_until(&self, timeout: Instant) -> Option<Hold> {
        self.try_or(Wait::Until(Some(timeout.into())))
    }
}

/// Methods of [`Mutex`] beyond those of [`lock_api`]. Other crates cannot implement it.
pub trait MutexExt: sealed::Sealed {
    /// Whether the mutex is biased towards a thread at this moment.
    fn is_biased(&self) -> bool;

    /// How often the bias was revoked.
    fn steals(&self) -> u32;
}

mod sealed {
    #[expect(unnameable_types, reason = "other crates must not implement it")]
    pub trait Sealed {}
}

impl<T: ?Sized> sealed::Sealed for Mutex<T> {}

impl<T: ?Sized> MutexExt for Mutex<T> {
    fn is_biased(&self) -> bool {
        // SAFETY: nothing is locked or unlocked by it.
        unsafe { self.raw() }.0.is_biased()
    }

    fn steals(&self) -> u32 {
        // SAFETY: nothing is locked or unlocked by it.
        unsafe { self.raw() }.0.steals()
    }
}
