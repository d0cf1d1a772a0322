//! A lock on the heap, as C has it: a pointer that was made here.

use std::alloc::{Layout, alloc};
use std::ptr;

use crate::misuse::misuse;

/// Puts `lock` on the heap; null if there is no memory.
pub(crate) fn create<L>(lock: L) -> *mut L {
    const { assert!(size_of::<L>() > 0, "a lock has a state") };
    // SAFETY: the layout is not empty, as was just asserted.
    let at = unsafe { alloc(Layout::new::<L>()) }.cast::<L>();
    if at.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: fresh memory with a lock's layout.
    unsafe { at.write(lock) };
    at
}

/// The lock behind a descriptor, which must not be null; `instead` says what to pass.
///
/// # Safety
///
/// `lock` is null or a valid descriptor, and stays one while the reference is used.
pub(crate) unsafe fn open<'a, L>(lock: *const L, call: &str, instead: &str) -> &'a L {
    if lock.is_null() {
        misuse(call, "the descriptor is null", instead);
    }
    // SAFETY: not null, so a valid descriptor by the caller's word.
    unsafe { &*lock }
}

/// Gives the memory of a lock back.
///
/// # Safety
///
/// `lock` came from [`create`], and nobody uses it any more.
pub(crate) unsafe fn destroy<L>(lock: *mut L) {
    // SAFETY: `create` took it from the allocator that a box uses, with the layout of its type.
    drop(unsafe { Box::from_raw(lock) });
}
