//! Words of each processor: `lockspan_rlock_percpu_*`.

use std::sync::atomic::Ordering;

use libc::{EINVAL, ENOMEM, EPERM, c_int};
use lockspan_thread::revocable::PerCpu;

use super::{Rlock, RlockTicket, Words, code, on_the_heap, this_thread, ticket};
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
/// ticket of this descriptor, which is not used any more if another one stands there afterwards.
#[unsafe(no_mangle)]
unsafe extern "C" fn lockspan_rlock_percpu_lock(
    percpu: *mut RlockPerCpu,
    ticket: *mut *mut RlockTicket,
) -> c_int {
    // SAFETY: the header's contract: the parts are there until all their tickets were released.
    let percpu: &'static RlockPerCpu = unsafe { open(percpu, "lockspan_rlock_percpu_lock") };
    // SAFETY: null, or a place with a pointer, by the caller's word.
    let Some(place) = (unsafe { ticket.as_mut() }) else { return EINVAL };
    // SAFETY: null or a valid ticket, by the caller's word.
    if unsafe { place.as_ref() }.is_some_and(|before| before.thread != this_thread()) {
        return EPERM;
    }
    let now = match percpu.acquire() {
        Ok(acquired) => on_the_heap(acquired),
        Err(refused) => return code(refused),
    };
    if now.is_null() {
        return ENOMEM;
    }
    let before = std::mem::replace(place, now);
    if !before.is_null() && before != now {
        // SAFETY: a valid ticket of this thread, which the caller gives up.
        let _canceled = unsafe { ticket::free(before) };
    }
    0
}

/// A part by its number; see the header.
///
/// # Safety
/// `percpu` is null or a valid descriptor.
#[unsafe(no_mangle)]
unsafe extern "C" fn lockspan_rlock_percpu_part(
    percpu: *mut RlockPerCpu,
    number: usize,
) -> *mut Rlock {
    // SAFETY: the same contract.
    let percpu = unsafe { open(percpu, "lockspan_rlock_percpu_part") };
    let part = percpu.parts().nth(number);
    part.map_or(std::ptr::null_mut(), |part| std::ptr::from_ref(part).cast_mut())
}
