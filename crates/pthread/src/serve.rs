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

use std::sync::atomic::{AtomicBool, Ordering};

use libc::{EAGAIN, EBUSY, EDEADLK, EINVAL, ENOMEM, EPERM, ETIMEDOUT, c_int};
use lock_api::RawRwLock as _;

use crate::abi::{CAttr, CLock, Core, LAST_KIND, PrivateRwLock};
use crate::clock::Deadline;
use crate::errno;
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
    held::forget_all(at.addr());
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
    if !errno::keep(|| unsafe { core.retire() }) {
        return EBUSY;
    }
    held::forget_all(at.addr());
    // SAFETY: live, and nobody uses it: `retire` has just said so.
    unsafe { CLock::bury(at) };
    0
}

/// `pthread_rwlock_rdlock`. The usual case in a few instructions: a private lock that is free, so
/// this thread does not hold it either.
///
/// # Safety
///
/// `at` is null or points to the memory of a lock that lives on during the call.
#[inline(always)]
pub(crate) unsafe fn read_at_once_or_wait(at: *const CLock) -> c_int {
    // SAFETY: by the caller's word.
    if let Some(lock) = unsafe { CLock::private(at) }
        && held::has_room()
        // SAFETY: live by the caller's word.
        && unsafe { &*lock }.try_lock_shared_alone()
    {
        held::add(at.addr(), Mode::Read(1), false);
        return 0;
    }
    // SAFETY: by the caller's word.
    unsafe { read(at, Wait::Forever) }
}

/// `pthread_rwlock_wrlock`, as [`read_at_once_or_wait`].
///
/// # Safety
///
/// `at` is null or points to the memory of a lock that lives on during the call.
#[inline(always)]
pub(crate) unsafe fn write_at_once_or_wait(at: *const CLock) -> c_int {
    // SAFETY: by the caller's word.
    if let Some(lock) = unsafe { CLock::private(at) }
        && held::has_room()
        // SAFETY: live by the caller's word.
        && unsafe { &*lock }.try_lock_exclusive_alone()
    {
        held::add(at.addr(), Mode::Write, false);
        return 0;
    }
    // SAFETY: by the caller's word.
    unsafe { write(at, Wait::Forever) }
}

/// The read lock calls.
///
/// # Safety
///
/// `at` is null or points to the memory of a lock that lives on during the call.
pub(crate) unsafe fn read(at: *const CLock, wait: Wait) -> c_int {
    // SAFETY: by the caller's word.
    let Some(core) = (unsafe { CLock::open(at) }) else { return EINVAL };
    // SAFETY: `core` is the live lock at `at`, by the caller's word.
    errno::keep(|| unsafe { read_core(at.addr(), core, wait) })
}

/// # Safety
///
/// `core` is the live lock at `lock`.
#[inline(never)]
unsafe fn read_core(lock: usize, core: Core, wait: Wait) -> c_int {
    // SAFETY: by the caller's word.
    let outcome = match unsafe { mode_now(lock, core) } {
        Some(Mode::Write) => return wait.deadlock(),
        Some(Mode::Read(holds)) => {
            let Some(holds) = holds.checked_add(1) else { return EAGAIN };
            // SAFETY: the lock is live during this call, by the caller's word.
            return match unsafe { core.try_read(true) } {
                Outcome::Held => {
                    held::change(lock, Mode::Read(holds));
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
            held::add(lock, Mode::Read(1), core.is_shared());
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
    // SAFETY: `core` is the live lock at `at`, by the caller's word.
    errno::keep(|| unsafe { write_core(at.addr(), core, wait) })
}

/// # Safety
///
/// `core` is the live lock at `lock`.
#[inline(never)]
unsafe fn write_core(lock: usize, core: Core, wait: Wait) -> c_int {
    // SAFETY: by the caller's word.
    if unsafe { mode_now(lock, core) }.is_some() {
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
    held::add(lock, Mode::Write, core.is_shared());
    0
}

/// `pthread_rwlock_unlock`. The usual case in a few instructions: the private lock that this thread
/// took last, and that nobody waits for.
///
/// # Safety
///
/// `at` is null or points to the memory of a lock, which may go once the caller's hold is over.
#[inline(always)]
pub(crate) unsafe fn unlock(at: *const CLock) -> c_int {
    // SAFETY: by the caller's word.
    if let Some(lock) = unsafe { CLock::private(at) }
        && let Some((top, mode)) = held::top_of(at.addr())
        // SAFETY: live by the caller's word, and this thread holds it in this mode.
        && unsafe { leave_at_once(lock, mode) }
    {
        held::forget_top(top);
        return 0;
    }
    // SAFETY: by the caller's word.
    unsafe { unlock_earlier(at) }
}

/// Of a lock that this thread took before others that it holds still, as in hand-over-hand locking.
///
/// # Safety
///
/// As of [`unlock`].
#[inline(never)]
unsafe fn unlock_earlier(at: *const CLock) -> c_int {
    // SAFETY: by the caller's word.
    if let Some(lock) = unsafe { CLock::private(at) }
        && let Some((position, mode)) = held::recent_of(at.addr())
        // SAFETY: live by the caller's word, and this thread holds it in this mode.
        && unsafe { leave_at_once(lock, mode) }
    {
        held::forget_recent(position, at.addr());
        return 0;
    }
    // SAFETY: by the caller's word.
    unsafe { unlock_slowly(at) }
}

/// Leaves the lock if this is the thread's only hold of it and nobody waits.
///
/// # Safety
///
/// `lock` is live; if it is held in this mode, the calling thread gives up that hold.
#[inline(always)]
unsafe fn leave_at_once(lock: *const PrivateRwLock, mode: Mode) -> bool {
    match mode {
        // SAFETY: the same contract.
        Mode::Write => unsafe { PrivateRwLock::try_leave_exclusive(lock) },
        // SAFETY: the same contract.
        Mode::Read(1) => unsafe { PrivateRwLock::try_leave_shared(lock) },
        Mode::Read(_) => false,
    }
}

/// # Safety
///
/// As of [`unlock`].
#[inline(never)]
unsafe fn unlock_slowly(at: *const CLock) -> c_int {
    // SAFETY: by the caller's word.
    let Some(core) = (unsafe { CLock::open(at) }) else { return EINVAL };
    let lock = at.addr();
    // SAFETY: the lock is live until this thread's hold is over.
    errno::keep(|| match unsafe { mode_now(lock, core) } {
        // SAFETY: `core` is live during this call, by the caller's word.
        None => unsafe { unlock_unknown(core) },
        Some(Mode::Write) => {
            held::forget(lock);
            // SAFETY: the table says that this thread writes, and the lock that somebody does.
            unsafe { core.write_unlock() };
            0
        }
        Some(Mode::Read(holds)) => {
            if holds == 1 {
                held::forget(lock);
            } else {
                held::change(lock, Mode::Read(holds - 1));
            }
            // SAFETY: the table says that this thread reads, and the lock that somebody does.
            unsafe { core.read_unlock() };
            0
        }
    })
}

/// Whether this process was forked by a thread that read a process-shared lock.
static INHERITS: AtomicBool = AtomicBool::new(false);

/// This process is a child, forked by a thread that read a process-shared lock.
pub(crate) fn inherit_reads() {
    INHERITS.store(true, Ordering::Relaxed);
}

/// By a thread that does not hold the lock, as far as its table says. A process-shared lock that
/// the parent took for reading before `fork` may be left by the child, which is how some programs
/// hand a hold to it: there the lock's own word is believed. POSIX leaves it undefined.
///
/// # Safety
///
/// `core` is a live lock.
#[cold]
#[inline(never)]
unsafe fn unlock_unknown(core: Core) -> c_int {
    match core {
        // SAFETY: live by the caller's word.
        Core::Shared(lock) if INHERITS.load(Ordering::Relaxed) && unsafe { &*lock }.is_read() => {
            // SAFETY: live, and somebody reads; that this hold is the caller's to give up is the
            // caller's word, as it is glibc's.
            unsafe { SharedRwLock::read_unlock(lock) };
            0
        }
        Core::Shared(_) | Core::Private(_) => EPERM,
    }
}

/// What this thread holds of the lock. A hold of a lock that nobody holds is of an earlier lock at
/// this address, whose memory went without an unlock: it is struck out.
///
/// # Safety
///
/// `core` is the live lock at `lock`.
#[inline(always)]
unsafe fn mode_now(lock: usize, core: Core) -> Option<Mode> {
    let mode = held::mode(lock)?;
    // SAFETY: by the caller's word.
    if unsafe { core.is_held() } {
        return Some(mode);
    }
    held::forget(lock);
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
