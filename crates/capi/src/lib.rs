//! `liblockspan.so`: the fair read-write lock as `include/lockspan.h` describes it to C.
//!
//! A descriptor points to a lock on the heap. Nothing is kept about who holds it, so misuse is
//! seen where the lock's own state shows it: null, an unlock of a lock that is not locked that way,
//! the free of a lock in use. Each is one line on standard error and an abort (`misuse`). A panic
//! would be a bug of ours; it cannot cross into C, as an `extern "C"` function aborts on it.
//!
//! Only on Linux, whose clock the timed calls name; elsewhere, and in model runs, it is empty.
#![cfg(all(target_os = "linux", not(any(lockspan_loom, lockspan_shuttle))))]

mod misuse;

use std::alloc::{Layout, alloc, dealloc};
use std::ptr;

use libc::{EBUSY, EINVAL, ETIMEDOUT, c_int, timespec};
use lock_api::RawRwLock as _;
use lockspan_park::Deadline;
use lockspan_thread::fair::{Bounded, RawRwLock};

use misuse::misuse;

/// What a descriptor points to. C knows it as `lt_rwlock_t`, and nothing of its inside.
type Lock = RawRwLock<Bounded>;

const LAYOUT: Layout = Layout::new::<Lock>();

/// The lock of a descriptor, which must not be null.
///
/// # Safety
///
/// `lock` is null or a valid descriptor, and stays one while the reference is used.
unsafe fn open<'a>(lock: *const Lock, call: &str) -> &'a Lock {
    if lock.is_null() {
        misuse(call, "the descriptor is null", "pass one that lt_rwlock_new() returned");
    }
    // SAFETY: not null, so a valid descriptor by the caller's word.
    unsafe { &*lock }
}

/// 0 if the lock was taken, else `why_not`.
fn answer(taken: bool, why_not: c_int) -> c_int {
    if taken { 0 } else { why_not }
}

/// The time in `until` on `CLOCK_MONOTONIC`; `None` if it is null or no time.
///
/// # Safety
///
/// `until` is null or points to a `timespec`.
unsafe fn deadline(until: *const timespec) -> Option<Deadline> {
    // SAFETY: null, or valid by the caller's word.
    let until = unsafe { until.as_ref() }?;
    #[allow(clippy::useless_conversion, reason = "both fields are 32 bits on some targets")]
    let (secs, nanos) = (i64::from(until.tv_sec), i64::from(until.tv_nsec));
    let nanos = u32::try_from(nanos).ok().filter(|&n| n < 1_000_000_000)?;
    // Before the clock's beginning is long past, and the kernel refuses negative times.
    Some(if secs < 0 { Deadline::monotonic(0, 0) } else { Deadline::monotonic(secs, nanos) })
}

/// Creates a lock; null if there is no memory.
#[unsafe(no_mangle)]
extern "C" fn lt_rwlock_new() -> *mut Lock {
    // SAFETY: the layout of a lock is not empty.
    let at = unsafe { alloc(LAYOUT) }.cast::<Lock>();
    if at.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: fresh memory with a lock's layout.
    unsafe { at.write(Lock::new()) };
    at
}

/// Destroys a lock, once earlier unlockers have done with it.
///
/// # Safety
///
/// `lock` is null or a valid descriptor, which nobody uses any more.
#[unsafe(no_mangle)]
unsafe extern "C" fn lt_rwlock_free(lock: *mut Lock) {
    // SAFETY: the same contract.
    if !unsafe { open(lock, "lt_rwlock_free") }.retire() {
        misuse("lt_rwlock_free", "the lock is held or waited for", "unlock it everywhere first");
    }
    // SAFETY: from `lt_rwlock_new`, so from `alloc` with this layout; nobody is inside any more.
    unsafe { dealloc(lock.cast(), LAYOUT) };
}

/// Waits for read access.
///
/// # Safety
///
/// `lock` is null or a valid descriptor.
#[unsafe(no_mangle)]
unsafe extern "C" fn lt_rwlock_read_lock(lock: *const Lock) {
    // SAFETY: the same contract.
    unsafe { open(lock, "lt_rwlock_read_lock") }.lock_shared();
}

/// Gives up read access.
///
/// # Safety
///
/// `lock` is null or a valid descriptor, which others may free once this has given up its hold.
#[unsafe(no_mangle)]
unsafe extern "C" fn lt_rwlock_read_unlock(lock: *const Lock) {
    // SAFETY: the same contract; the caller's hold keeps the lock alive until it ends below.
    let open = unsafe { open(lock, "lt_rwlock_read_unlock") };
    if !open.is_locked() || open.is_locked_exclusive() {
        misuse("lt_rwlock_read_unlock", "no reader has the lock", "pair it with a read lock");
    }
    // SAFETY: valid, and somebody reads: the caller, whose hold this ends.
    unsafe { Lock::leave_shared(lock) };
}

/// Waits for write access.
///
/// # Safety
///
/// `lock` is null or a valid descriptor.
#[unsafe(no_mangle)]
unsafe extern "C" fn lt_rwlock_write_lock(lock: *const Lock) {
    // SAFETY: the same contract.
    unsafe { open(lock, "lt_rwlock_write_lock") }.lock_exclusive();
}

/// Gives up write access.
///
/// # Safety
///
/// `lock` is null or a valid descriptor, which others may free once this has given up its hold.
#[unsafe(no_mangle)]
unsafe extern "C" fn lt_rwlock_write_unlock(lock: *const Lock) {
    // SAFETY: the same contract; the caller's hold keeps the lock alive until it ends below.
    if !unsafe { open(lock, "lt_rwlock_write_unlock") }.is_locked_exclusive() {
        misuse("lt_rwlock_write_unlock", "no writer has the lock", "pair it with a write lock");
    }
    // SAFETY: valid, and somebody writes: the caller, whose hold this ends.
    unsafe { Lock::leave_exclusive(lock) };
}

/// Takes read access if that needs no waiting: 0, else `EBUSY`.
///
/// # Safety
///
/// `lock` is null or a valid descriptor.
#[unsafe(no_mangle)]
unsafe extern "C" fn lt_rwlock_read_trylock(lock: *const Lock) -> c_int {
    // SAFETY: the same contract.
    let lock = unsafe { open(lock, "lt_rwlock_read_trylock") };
    answer(lock.try_lock_shared().is_some(), EBUSY)
}

/// Takes write access if that needs no waiting: 0, else `EBUSY`.
///
/// # Safety
///
/// `lock` is null or a valid descriptor.
#[unsafe(no_mangle)]
unsafe extern "C" fn lt_rwlock_write_trylock(lock: *const Lock) -> c_int {
    // SAFETY: the same contract.
    let lock = unsafe { open(lock, "lt_rwlock_write_trylock") };
    answer(lock.try_lock_exclusive().is_some(), EBUSY)
}

/// Waits for read access until a time on `CLOCK_MONOTONIC`: 0, `ETIMEDOUT` or `EINVAL`.
///
/// # Safety
///
/// `lock` is null or a valid descriptor, `until` null or a pointer to a `timespec`.
#[unsafe(no_mangle)]
unsafe extern "C" fn lt_rwlock_read_timedlock(lock: *const Lock, until: *const timespec) -> c_int {
    // SAFETY: the same contract.
    let lock = unsafe { open(lock, "lt_rwlock_read_timedlock") };
    // SAFETY: the same contract.
    match unsafe { deadline(until) } {
        Some(until) => answer(lock.lock_shared_deadline(until), ETIMEDOUT),
        None => EINVAL,
    }
}

/// Waits for write access until a time on `CLOCK_MONOTONIC`: 0, `ETIMEDOUT` or `EINVAL`.
///
/// # Safety
///
/// `lock` is null or a valid descriptor, `until` null or a pointer to a `timespec`.
#[unsafe(no_mangle)]
unsafe extern "C" fn lt_rwlock_write_timedlock(lock: *const Lock, until: *const timespec) -> c_int {
    // SAFETY: the same contract.
    let lock = unsafe { open(lock, "lt_rwlock_write_timedlock") };
    // SAFETY: the same contract.
    match unsafe { deadline(until) } {
        Some(until) => answer(lock.lock_exclusive_deadline(until), ETIMEDOUT),
        None => EINVAL,
    }
}
