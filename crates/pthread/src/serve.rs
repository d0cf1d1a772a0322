//! What each lock call means and returns, whichever of the two locks it is for.
//!
//! | call by a thread that … | holds nothing            | reads          | writes    |
//! |-------------------------|--------------------------|----------------|-----------|
//! | read, wait or timed     | in line; `ETIMEDOUT`     | at once        | `EDEADLK` |
//! | read, try               | `EBUSY` if it would wait | at once        | `EBUSY`   |
//! | write, wait or timed    | in line; `ETIMEDOUT`     | `EDEADLK`      | `EDEADLK` |
//! | write, try              | `EBUSY` if it would wait | `EBUSY`        | `EBUSY`   |
//! | unlock                  | `EPERM`                  | one hold fewer | free      |
//!
//! A read lock that would be one too many, for the lock or for this thread's memory, is `EAGAIN`.

use libc::{EAGAIN, EBUSY, EDEADLK, EINVAL, ENOMEM, EPERM, ETIMEDOUT, c_int};
use lock_api::RawRwLock as _;

use crate::abi::{CAttr, CLock, Core, LAST_KIND, PrivateRwLock};
use crate::clock::Deadline;
use crate::held::{self, Mode};
use crate::shared::{Outcome, SharedRwLock};

/// How long a call may wait.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    /// Not at all.
    No,
    /// As long as it takes.
    Forever,
    /// Until then.
    Until(Deadline),
}

impl Wait {
    /// What a call returns that did not get the lock in its time.
    fn over(self) -> c_int {
        if matches!(self, Self::No) { EBUSY } else { ETIMEDOUT }
    }

    /// What a call returns whose own thread keeps it out.
    fn deadlock(self) -> c_int {
        if matches!(self, Self::No) { EBUSY } else { EDEADLK }
    }
}

/// `pthread_rwlock_init`.
///
/// # Safety
///
/// `at` is null or points to the memory of a lock that nobody uses; `attr` is null or points to
/// attributes.
pub(crate) unsafe fn init(at: *mut CLock, attr: *const CAttr) -> c_int {
    if at.is_null() || !at.is_aligned() {
        return EINVAL;
    }
    let (kind, pshared) = if attr.is_null() {
        (0, libc::PTHREAD_PROCESS_PRIVATE)
    } else {
        // SAFETY: not null, so valid by the caller's word.
        let attr = unsafe { &*attr };
        (attr.kind, attr.pshared)
    };
    let shared = pshared == libc::PTHREAD_PROCESS_SHARED;
    if !(0..=LAST_KIND).contains(&kind) || !(shared || pshared == libc::PTHREAD_PROCESS_PRIVATE) {
        return EINVAL;
    }
    held::forget(at.addr());
    // SAFETY: not null and aligned; unused by the caller's word.
    unsafe { CLock::init(at, kind, shared) };
    0
}

/// `pthread_rwlock_destroy`. Returns when no earlier unlock touches the memory any more.
///
/// # Safety
///
/// `at` is null or points to the memory of a lock.
pub(crate) unsafe fn destroy(at: *mut CLock) -> c_int {
    // SAFETY: by the caller's word.
    let Some(core) = (unsafe { CLock::open(at) }) else { return EINVAL };
    // SAFETY: the lock is live during this call, by the caller's word.
    if !unsafe { core.retire() } {
        return EBUSY;
    }
    held::forget(at.addr());
    // SAFETY: live, and nobody uses it: `retire` has just said so.
    unsafe { CLock::bury(at) };
    0
}

/// The read lock calls.
///
/// # Safety
///
/// `at` is null or points to the memory of a lock that lives on during the call.
pub(crate) unsafe fn read(at: *const CLock, wait: Wait) -> c_int {
    // SAFETY: by the caller's word.
    let Some(core) = (unsafe { CLock::open(at) }) else { return EINVAL };
    // SAFETY: the lock is live during this call, by the caller's word.
    let outcome = match unsafe { mode_now(at, core) } {
        Some(Mode::Write) => return wait.deadlock(),
        Some(Mode::Read(holds)) => {
            let Some(holds) = holds.checked_add(1) else { return EAGAIN };
            // SAFETY: the lock is live during this call, by the caller's word.
            return match unsafe { core.try_read(true) } {
                Outcome::Held => {
                    held::change(at.addr(), Mode::Read(holds));
                    0
                }
                // We read, so no writer is in the way; what is left is the count.
                Outcome::NotHeld | Outcome::Full => EAGAIN,
            };
        }
        None if !held::reserve() => return EAGAIN,
        None => match wait {
            // SAFETY: the lock is live during this call, by the caller's word.
            Wait::No => unsafe { core.try_read(false) },
            // SAFETY: the lock is live during this call, by the caller's word.
            Wait::Forever => unsafe { core.read(None) },
            // SAFETY: the lock is live during this call, by the caller's word.
            Wait::Until(deadline) => unsafe { core.read(Some(deadline)) },
        },
    };
    match outcome {
        Outcome::Held => {
            held::add(at.addr(), Mode::Read(1), core.is_shared());
            0
        }
        Outcome::NotHeld => wait.over(),
        Outcome::Full => EAGAIN,
    }
}

/// The write lock calls.
///
/// # Safety
///
/// `at` is null or points to the memory of a lock that lives on during the call.
pub(crate) unsafe fn write(at: *const CLock, wait: Wait) -> c_int {
    // SAFETY: by the caller's word.
    let Some(core) = (unsafe { CLock::open(at) }) else { return EINVAL };
    // SAFETY: the lock is live during this call, by the caller's word.
    if unsafe { mode_now(at, core) }.is_some() {
        return wait.deadlock();
    }
    if !held::reserve() {
        return ENOMEM;
    }
    let outcome = match wait {
        // SAFETY: the lock is live during this call, by the caller's word.
        Wait::No => unsafe { core.try_write() },
        // SAFETY: the lock is live during this call, by the caller's word.
        Wait::Forever => unsafe { core.write(None) },
        // SAFETY: the lock is live during this call, by the caller's word.
        Wait::Until(deadline) => unsafe { core.write(Some(deadline)) },
    };
    if outcome != Outcome::Held {
        return wait.over();
    }
    held::add(at.addr(), Mode::Write, core.is_shared());
    0
}

/// `pthread_rwlock_unlock`.
///
/// # Safety
///
/// `at` is null or points to the memory of a lock, which may go once the caller's hold is over.
pub(crate) unsafe fn unlock(at: *const CLock) -> c_int {
    // SAFETY: by the caller's word.
    let Some(core) = (unsafe { CLock::open(at) }) else { return EINVAL };
    // SAFETY: the lock is live until this thread's hold is over.
    match unsafe { mode_now(at, core) } {
        None => return EPERM,
        Some(Mode::Write) => {
            held::forget(at.addr());
            // SAFETY: the table says that this thread writes, and the lock that somebody does.
            unsafe { core.write_unlock() };
        }
        Some(Mode::Read(holds)) => {
            if holds == 1 {
                held::forget(at.addr());
            } else {
                held::change(at.addr(), Mode::Read(holds - 1));
            }
            // SAFETY: the table says that this thread reads, and the lock that somebody does.
            unsafe { core.read_unlock() };
        }
    }
    0
}

/// What this thread holds of the lock. A hold of a lock that nobody holds is of an earlier lock at
/// this address, whose memory went without an unlock: it is struck out.
///
/// # Safety
///
/// `core` is the live lock at `at`.
unsafe fn mode_now(at: *const CLock, core: Core) -> Option<Mode> {
    let mode = held::mode(at.addr())?;
    // SAFETY: by the caller's word.
    if unsafe { core.is_held() } {
        return Some(mode);
    }
    held::forget(at.addr());
    None
}

/// All of it `unsafe` for one reason: the lock that a `Core` points to must be live.
impl Core {
    fn is_shared(self) -> bool {
        matches!(self, Self::Shared(_))
    }

    unsafe fn is_held(self) -> bool {
        match self {
            // SAFETY: live by the caller's word.
            Self::Private(lock) => unsafe { &*lock }.is_locked(),
            // SAFETY: live by the caller's word.
            Self::Shared(lock) => unsafe { &*lock }.is_held(),
        }
    }

    unsafe fn try_read(self, again: bool) -> Outcome {
        match self {
            Self::Private(lock) => {
                // SAFETY: live by the caller's word.
                let lock = unsafe { &*lock };
                held_if(if again {
                    lock.try_lock_shared_recursive()
                } else {
                    lock.try_lock_shared().is_some()
                })
            }
            // SAFETY: live by the caller's word.
            Self::Shared(lock) => unsafe { &*lock }.try_read(again),
        }
    }

    unsafe fn read(self, until: Option<Deadline>) -> Outcome {
        match self {
            Self::Private(lock) => {
                // SAFETY: live by the caller's word.
                let lock = unsafe { &*lock };
                match until {
                    None => {
                        lock.lock_shared();
                        Outcome::Held
                    }
                    Some(at) => held_if(lock.lock_shared_deadline(at)),
                }
            }
            // SAFETY: live by the caller's word.
            Self::Shared(lock) => unsafe { &*lock }.read(until),
        }
    }

    unsafe fn try_write(self) -> Outcome {
        match self {
            // SAFETY: live by the caller's word.
            Self::Private(lock) => held_if(unsafe { &*lock }.try_lock_exclusive().is_some()),
            // SAFETY: live by the caller's word.
            Self::Shared(lock) => unsafe { &*lock }.try_write(),
        }
    }

    unsafe fn write(self, until: Option<Deadline>) -> Outcome {
        match self {
            Self::Private(lock) => {
                // SAFETY: live by the caller's word.
                let lock = unsafe { &*lock };
                match until {
                    None => {
                        lock.lock_exclusive();
                        Outcome::Held
                    }
                    Some(at) => held_if(lock.lock_exclusive_deadline(at)),
                }
            }
            // SAFETY: live by the caller's word.
            Self::Shared(lock) => unsafe { &*lock }.write(until),
        }
    }

    /// The caller reads, and not after this.
    unsafe fn read_unlock(self) {
        match self {
            // SAFETY: live until the hold that ends here.
            Self::Private(lock) => unsafe { PrivateRwLock::leave_shared(lock) },
            // SAFETY: live until the hold that ends here.
            Self::Shared(lock) => unsafe { SharedRwLock::read_unlock(lock) },
        }
    }

    /// The caller writes, and not after this.
    unsafe fn write_unlock(self) {
        match self {
            // SAFETY: live until the hold that ends here.
            Self::Private(lock) => unsafe { PrivateRwLock::leave_exclusive(lock) },
            // SAFETY: live until the hold that ends here.
            Self::Shared(lock) => unsafe { SharedRwLock::write_unlock(lock) },
        }
    }

    /// True when nobody holds the lock, waits for it, or is still inside an unlock of it.
    unsafe fn retire(self) -> bool {
        match self {
            // SAFETY: live by the caller's word.
            Self::Private(lock) => unsafe { &*lock }.retire(),
            // SAFETY: live by the caller's word.
            Self::Shared(lock) => unsafe { &*lock }.is_idle(),
        }
    }
}

fn held_if(got: bool) -> Outcome {
    if got { Outcome::Held } else { Outcome::NotHeld }
}
