//! Words of each processor: `lockspan_rlock_percpu_*`.

use std::sync::atomic::Ordering;

use libc::{EINVAL, ENOMEM, EPERM, c_int};
use lockspan_thread::revocable::PerCpu;

use super::{Rlock, RlockTicket, Words, code, is_mine, on_the_heap, ticket};
use crate::descriptor;
use crate::misuse::misuse;

/// A lock with words for each processor, and spare ones.
type RlockPerCpu = PerCpu<Words>;

/// # Safety
/// `percpu` is null or a valid descriptor, and stays one while the reference is used.
unsafe fn open<'a>(percpu: *const RlockPerCpu, call: &str) -> &'a RlockPerCpu {
    // SAFETY: the same contract.
    unsafe { descriptor::open(percpu, call, "pass what lockspan_rlock_percpu_new returned") }
}

/// `words` words for each processor; see the header.
#[unsafe(no_mangle)]
extern "C" fn lockspan_rlock_percpu_new(words: usize) -> *mut RlockPerCpu {
    let made = RlockPerCpu::try_with_limit(RlockPerCpu::LIMIT, move || Words::new(words, true));
    made.map_or(std::ptr::null_mut(), descriptor::create)
}

/// Destroys all parts; see the header.
///
/// # Safety
/// `percpu` is null or a valid descriptor, and no other call on it or its parts runs or follows.
#[unsafe(no_mangle)]
unsafe extern "C" fn lockspan_rlock_percpu_free(percpu: *mut RlockPerCpu) {
    let call = "lockspan_rlock_percpu_free";
    // SAFETY: the same contract.
    let mut parts = unsafe { open(percpu, call) }.parts();
    if parts.any(|part| part.words().tickets.load(Ordering::Acquire) > 0) {
        misuse(call, "a part has tickets", "release each of them first");
    }
    // SAFETY: a descriptor is from `create`, and nobody else uses it.
    unsafe { descriptor::destroy(percpu) };
}

/// Becomes the owner of a part of this processor; see the header.
///
/// # Safety
/// `percpu` is null or a valid descriptor; `ticket` is null, or points to null or to a valid
/// ticket of this descriptor, a handle of which is not used any more if another one stands there
/// afterwards.
#[unsafe(no_mangle)]
unsafe extern "C" fn lockspan_rlock_percpu_lock(
    percpu: *mut RlockPerCpu,
    ticket: *mut *mut RlockTicket,
) -> c_int {
    // SAFETY: the header's contract: the parts are there until all their tickets were released.
    let percpu: &'static RlockPerCpu = unsafe { open(percpu, "lockspan_rlock_percpu_lock") };
    // SAFETY: null, or a place with a pointer, by the caller's word.
    let Some(place) = (unsafe { ticket.as_mut() }) else { return EINVAL };
    let before = *place;
    // SAFETY: not null, so a valid ticket, by the caller's word.
    if !before.is_null() && !unsafe { is_mine(before) } {
        return EPERM;
    }
    // SAFETY: null, or a valid ticket of this thread.
    let stores = unsafe { before.as_ref() }.map_or(0, |before| before.ticket.stores());
    let now = match percpu.acquire() {
        Ok(acquired) => on_the_heap(acquired, stores),
        Err(refused) => return code(refused),
    };
    if now.is_null() {
        return ENOMEM;
    }
    *place = now;
    if before.is_null() {
        return 0;
    }
    // SAFETY: a valid ticket of this thread.
    let owner_before = unsafe { &*before }.ticket.owner();
    // SAFETY: this thread's ticket that `on_the_heap` has just given.
    if owner_before == unsafe { &*now }.ticket.owner() {
        // SAFETY: a valid ticket of this thread. One handle is too many: there is one place for
        // it. If it is another ticket, the one under the lock is `now`.
        unsafe { ticket::drop_handle(before) };
    } else {
        // SAFETY: a valid ticket of this thread, a handle of which the caller gives up.
        let _canceled = unsafe { ticket::give_up(before) };
    }
    0
}

/// The part after a part; see the header.
///
/// By the part and not by a number: parts are made meanwhile, and those that follow keep their
/// order but not their numbers. It looks for the part from the beginning, which is a load for each
/// part before it.
///
/// # Safety
/// `percpu` is null or a valid descriptor.
#[unsafe(no_mangle)]
unsafe extern "C" fn lockspan_rlock_percpu_next(
    percpu: *mut RlockPerCpu,
    part: *const Rlock,
) -> *mut Rlock {
    let call = "lockspan_rlock_percpu_next";
    // SAFETY: the same contract.
    let mut parts = unsafe { open(percpu, call) }.parts();
    if !part.is_null() && !parts.any(|other| std::ptr::eq(other, part)) {
        misuse(call, "the lock is not a part of it", "pass null, or what this call returned");
    }
    parts.next().map_or(std::ptr::null_mut(), |next| std::ptr::from_ref(next).cast_mut())
}
