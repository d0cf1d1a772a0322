//! The fair read-write lock: `lt_rwlock_*` of `include/lockspan.h`.

use libc::{EBUSY, EINVAL, ETIMEDOUT, c_int, timespec};
use lock_api::RawRwLock as _;
use lockspan_thread::fair::{Bounded, RawRwLock};

use crate::descriptor;
use crate::misuse::misuse;
use crate::time::deadline;

/// What a descriptor points to. C knows it as `lt_rwlock_t`, and nothing of its inside.
type Lock = RawRwLock<Bounded>;

/// The lock of a descriptor, which must not be null.
///
/// # Safety
///
/// `lock` is null or a valid descriptor, and stays one while the reference is used.
unsafe fn open<'a>(lock: *const Lock, call: &str) -> &'a Lock {
    // SAFETY: the same contract.
    unsafe { descriptor::open(lock, call, "pass one that lt_rwlock_new() returned") }
}

/// 0 if the lock was taken, else `why_not`.
fn answer(taken: bool, why_not: c_int) -> c_int {
    if taken { 0 } else { why_not }
}

/// Creates a lock; null if there is no memory.
#[unsafe(no_mangle)]
extern "C" fn lt_rwlock_new() -> *mut Lock {
    descriptor::create(Lock::new())
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
    // SAFETY: from `lt_rwlock_new`, so from `create`; nobody is inside any more.
    unsafe { descriptor::destroy(lock) };
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
