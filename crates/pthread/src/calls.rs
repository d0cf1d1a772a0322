//! The C functions: every `pthread_rwlock_*` that glibc 2.36 exports, old names with `__` included.
//!
//! A program must find all of them here or none: two libraries serving one lock would each take the
//! other's state for its own.

use libc::{CLOCK_MONOTONIC, CLOCK_REALTIME, EINVAL, c_int, clockid_t, timespec};
use lockspan_thread::fair::Policy as _;

use crate::abi::{CAttr, CLock, PrivatePolicy};
use crate::clock::{self, Clock};
use crate::held;
use crate::serve::{self, Wait};

/// Runs when the library is loaded.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = {
    extern "C" fn in_child() {
        if held::forget_shared() {
            serve::inherit_reads();
        }
    }
    extern "C" fn at_load() {
        // What the private lock finds out once, about processors, the clock and forks, it finds
        // out here: in the midst of a lock call it would use the heap and files.
        PrivatePolicy::crowd();
        PrivatePolicy::now();
        let _ = lockspan_park::fork::generation();
        // A child of `fork` holds no process-shared locks.
        // SAFETY: the handler is a plain function that touches the calling thread's table only.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    }
    at_load
};

/// The deadline in `at`, or the call's `EINVAL`: like glibc's, also if it need not wait.
///
/// # Safety
///
/// `at` is null or points to a `timespec`.
unsafe fn deadline(clock: clockid_t, at: *const timespec) -> Result<Wait, c_int> {
    let clock = match clock {
        CLOCK_REALTIME => Clock::Realtime,
        CLOCK_MONOTONIC => Clock::Monotonic,
        _ => return Err(EINVAL),
    };
    // SAFETY: null, or valid by the caller's word.
    let at = unsafe { at.as_ref() }.ok_or(EINVAL)?;
    clock::deadline(clock, at.tv_sec, at.tv_nsec).map(Wait::Until).ok_or(EINVAL)
}

/// Defines a C function and its doc.
///
/// Every function is safe to call under one condition: each pointer is null or points to what its
/// type says, and a lock lives on during a call for it (of `unlock`: until the caller's hold ends).
macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $type:ty),*) $body:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        ///
        /// Each pointer is null or points to what its type says, for the time of the call.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($arg: $type),*) -> c_int {
            $body
        }
    )*};
}

calls! {
    /// Makes a lock with the given attributes, or the default ones.
    pthread_rwlock_init(lock: *mut CLock, attr: *const CAttr)
        // SAFETY: by the caller's word.
        unsafe { serve::init(lock, attr) };
    /// The same under its old name.
    __pthread_rwlock_init(lock: *mut CLock, attr: *const CAttr)
        // SAFETY: by the caller's word.
        unsafe { serve::init(lock, attr) };

    /// Ends the use of a lock. Safe by its last owner while earlier unlocks have not returned.
    pthread_rwlock_destroy(lock: *mut CLock)
        // SAFETY: by the caller's word.
        unsafe { serve::destroy(lock) };
    /// The same under its old name.
    __pthread_rwlock_destroy(lock: *mut CLock)
        // SAFETY: by the caller's word.
        unsafe { serve::destroy(lock) };

    /// Locks for reading.
    pthread_rwlock_rdlock(lock: *mut CLock)
        // SAFETY: by the caller's word.
        unsafe { serve::read_at_once_or_wait(lock) };
    /// The same under its old name.
    __pthread_rwlock_rdlock(lock: *mut CLock)
        // SAFETY: by the caller's word.
        unsafe { serve::read_at_once_or_wait(lock) };

    /// Locks for reading if that needs no waiting.
    pthread_rwlock_tryrdlock(lock: *mut CLock)
        // SAFETY: by the caller's word.
        unsafe { serve::read(lock, Wait::No) };
    /// The same under its old name.
    __pthread_rwlock_tryrdlock(lock: *mut CLock)
        // SAFETY: by the caller's word.
        unsafe { serve::read(lock, Wait::No) };

    /// Locks for reading, or gives up when `CLOCK_REALTIME` shows `at`.
    pthread_rwlock_timedrdlock(lock: *mut CLock, at: *const timespec)
        // SAFETY: by the caller's word.
        unsafe { timed(serve::read, lock, CLOCK_REALTIME, at) };

    /// Locks for reading, or gives up when `clock` shows `at`.
    pthread_rwlock_clockrdlock(lock: *mut CLock, clock: clockid_t, at: *const timespec)
        // SAFETY: by the caller's word.
        unsafe { timed(serve::read, lock, clock, at) };

    /// Locks for writing.
    pthread_rwlock_wrlock(lock: *mut CLock)
        // SAFETY: by the caller's word.
        unsafe { serve::write_at_once_or_wait(lock) };
    /// The same under its old name.
    __pthread_rwlock_wrlock(lock: *mut CLock)
        // SAFETY: by the caller's word.
        unsafe { serve::write_at_once_or_wait(lock) };

    /// Locks for writing if that needs no waiting.
    pthread_rwlock_trywrlock(lock: *mut CLock)
        // SAFETY: by the caller's word.
        unsafe { serve::write(lock, Wait::No) };
    /// The same under its old name.
    __pthread_rwlock_trywrlock(lock: *mut CLock)
        // SAFETY: by the caller's word.
        unsafe { serve::write(lock, Wait::No) };

    /// Locks for writing, or gives up when `CLOCK_REALTIME` shows `at`.
    pthread_rwlock_timedwrlock(lock: *mut CLock, at: *const timespec)
        // SAFETY: by the caller's word.
        unsafe { timed(serve::write, lock, CLOCK_REALTIME, at) };

    /// Locks for writing, or gives up when `clock` shows `at`.
    pthread_rwlock_clockwrlock(lock: *mut CLock, clock: clockid_t, at: *const timespec)
        // SAFETY: by the caller's word.
        unsafe { timed(serve::write, lock, clock, at) };

    /// Gives up the hold, or one of the read holds, of the calling thread.
    pthread_rwlock_unlock(lock: *mut CLock)
        // SAFETY: by the caller's word.
        unsafe { serve::unlock(lock) };
    /// The same under its old name.
    __pthread_rwlock_unlock(lock: *mut CLock)
        // SAFETY: by the caller's word.
        unsafe { serve::unlock(lock) };
}

/// `call` with a deadline, or `EINVAL` if that is none.
///
/// # Safety
///
/// As of the calls themselves.
unsafe fn timed(
    call: unsafe fn(*const CLock, Wait) -> c_int,
    lock: *const CLock,
    clock: clockid_t,
    at: *const timespec,
) -> c_int {
    // SAFETY: by the caller's word.
    match unsafe { deadline(clock, at) } {
        // SAFETY: by the caller's word.
        Ok(wait) => unsafe { call(lock, wait) },
        Err(error) => error,
    }
}
