//! The attributes of a lock: whether processes share it, and glibc's kind.
//!
//! The kind is kept and handed back. It does not change how the lock serves: fair in each case, and
//! a thread that reads gets another read lock at once, which no kind forbids.

use libc::{EINVAL, PTHREAD_PROCESS_PRIVATE, PTHREAD_PROCESS_SHARED, c_int};

use crate::abi::{CAttr, LAST_KIND};

/// `EINVAL` if `value` may not stand in a field that ends with `last`, else stores it.
///
/// # Safety
///
/// `field` is valid for writing.
unsafe fn put(field: *mut c_int, value: c_int, last: c_int) -> c_int {
    if !(0..=last).contains(&value) {
        return EINVAL;
    }
    // SAFETY: by the caller's word.
    unsafe { field.write(value) };
    0
}

/// Makes `attr` the default attributes.
///
/// # Safety
///
/// `attr` is null or points to the memory of a `pthread_rwlockattr_t`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlockattr_init(attr: *mut CAttr) -> c_int {
    if attr.is_null() {
        return EINVAL;
    }
    // SAFETY: not null, so valid by the caller's word.
    unsafe { attr.write(CAttr { kind: 0, pshared: PTHREAD_PROCESS_PRIVATE }) };
    0
}

/// Ends the use of `attr`, which holds nothing.
#[unsafe(no_mangle)]
extern "C" fn pthread_rwlockattr_destroy(attr: *mut CAttr) -> c_int {
    if attr.is_null() { EINVAL } else { 0 }
}

/// Whether processes share the lock.
///
/// # Safety
///
/// Both pointers are null or point to what their types say.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlockattr_getpshared(
    attr: *const CAttr,
    pshared: *mut c_int,
) -> c_int {
    if attr.is_null() || pshared.is_null() {
        return EINVAL;
    }
    // SAFETY: not null, so valid by the caller's word.
    let value = unsafe { (*attr).pshared };
    // SAFETY: not null, so valid by the caller's word.
    unsafe { pshared.write(value) };
    0
}

/// Says whether processes share the lock.
///
/// # Safety
///
/// `attr` is null or points to initialised attributes.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlockattr_setpshared(attr: *mut CAttr, pshared: c_int) -> c_int {
    if attr.is_null() {
        return EINVAL;
    }
    // SAFETY: not null, so valid by the caller's word.
    let field = unsafe { &raw mut (*attr).pshared };
    // SAFETY: a field of valid attributes.
    unsafe { put(field, pshared, PTHREAD_PROCESS_SHARED) }
}

/// The lock's kind.
///
/// # Safety
///
/// Both pointers are null or point to what their types say.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlockattr_getkind_np(attr: *const CAttr, kind: *mut c_int) -> c_int {
    if attr.is_null() || kind.is_null() {
        return EINVAL;
    }
    // SAFETY: not null, so valid by the caller's word.
    let value = unsafe { (*attr).kind };
    // SAFETY: not null, so valid by the caller's word.
    unsafe { kind.write(value) };
    0
}

/// Sets the lock's kind, one of glibc's three.
///
/// # Safety
///
/// `attr` is null or points to initialised attributes.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlockattr_setkind_np(attr: *mut CAttr, kind: c_int) -> c_int {
    if attr.is_null() {
        return EINVAL;
    }
    // SAFETY: not null, so valid by the caller's word.
    let field = unsafe { &raw mut (*attr).kind };
    // SAFETY: a field of valid attributes.
    unsafe { put(field, kind, LAST_KIND) }
}
