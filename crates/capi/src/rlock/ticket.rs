//! What the owner of a ticket does with it.

use std::sync::atomic::Ordering;

use libc::{EINVAL, c_int};

use super::{RlockTicket, canceled, code, enter, policy, with};

/// Stores to a word; see the header.
///
/// # Safety
/// `ticket` is null or a valid ticket.
#[unsafe(no_mangle)]
unsafe extern "C" fn lockspan_rlock_store_64(
    ticket: *mut RlockTicket,
    word: usize,
    value: u64,
) -> c_int {
    let store = |ticket: &RlockTicket| {
        let word = ticket.word(word)?;
        ticket.ticket.store(|_| word, value).map_err(canceled)
    };
    // SAFETY: the same contract.
    unsafe { with(ticket, "lockspan_rlock_store_64", store) }
}

/// Stores to any address; see the header.
///
/// # Safety
/// `ticket` is null or a valid ticket; `at` is null, not aligned, or as the header says.
#[unsafe(no_mangle)]
unsafe extern "C" fn lockspan_rlock_store_at_64(
    ticket: *mut RlockTicket,
    at: *mut u64,
    value: u64,
) -> c_int {
    let store = |ticket: &RlockTicket| {
        if at.is_null() || !at.is_aligned() {
            return Err(EINVAL);
        }
        // SAFETY: aligned, and the rest is the caller's word.
        unsafe { ticket.ticket.store_raw(at, value) }.map_err(canceled)
    };
    // SAFETY: the same contract.
    unsafe { with(ticket, "lockspan_rlock_store_at_64", store) }
}

/// Adds to a word; see the header.
///
/// # Safety
/// `ticket` is null or a valid ticket.
#[unsafe(no_mangle)]
unsafe extern "C" fn lockspan_rlock_add_64(ticket: *mut RlockTicket, word: usize, n: u64) -> c_int {
    let add = |ticket: &RlockTicket| {
        let word = ticket.word(word)?;
        ticket.ticket.add(|_| word, n).map_err(canceled)
    };
    // SAFETY: the same contract.
    unsafe { with(ticket, "lockspan_rlock_add_64", add) }
}

/// A word's value, for the owner; see the header.
///
/// # Safety
/// `ticket` is null or a valid ticket; `value` is null or a place for a number.
#[unsafe(no_mangle)]
unsafe extern "C" fn lockspan_rlock_load_64(
    ticket: *mut RlockTicket,
    word: usize,
    value: *mut u64,
) -> c_int {
    let load = |ticket: &RlockTicket| {
        let word = ticket.word(word)?;
        if value.is_null() {
            return Err(EINVAL);
        }
        let loaded = ticket.ticket.load(|_| word).map_err(canceled)?;
        // SAFETY: a place for a number, by the caller's word.
        unsafe { value.write(loaded) };
        Ok(())
    };
    // SAFETY: the same contract.
    unsafe { with(ticket, "lockspan_rlock_load_64", load) }
}

/// Stores if the word is what was expected; see the header.
///
/// # Safety
/// `ticket` is null or a valid ticket; `expected` is null or points to a number.
#[unsafe(no_mangle)]
unsafe extern "C" fn lockspan_rlock_compare_and_store_64(
    ticket: *mut RlockTicket,
    word: usize,
    expected: *mut u64,
    value: u64,
) -> c_int {
    let compare = |ticket: &RlockTicket| {
        let word = ticket.word(word)?;
        // SAFETY: null or a number, by the caller's word; nobody else uses it meanwhile.
        let expected = unsafe { expected.as_mut() }.ok_or(EINVAL)?;
        let stored = ticket.ticket.compare_and_store(|_| word, *expected, value);
        if let Err(found) = stored.map_err(canceled)? {
            *expected = found;
        }
        Ok(())
    };
    // SAFETY: the same contract.
    unsafe { with(ticket, "lockspan_rlock_compare_and_store_64", compare) }
}

/// Owns the lock again; see the header.
///
/// # Safety
/// `ticket` is null or a valid ticket.
#[unsafe(no_mangle)]
unsafe extern "C" fn lockspan_rlock_relock(ticket: *mut RlockTicket, steal: c_int) -> c_int {
    // SAFETY: the same contract.
    let refused = unsafe { with(ticket, "lockspan_rlock_relock", |_| Ok(())) };
    if refused != 0 {
        return refused;
    }
    let Some(steal) = policy(steal) else { return EINVAL };
    // SAFETY: a valid ticket of this thread, which is in no other call on it. Other threads read
    // another field of it, at most.
    let limited = unsafe { &mut (*ticket).ticket };
    match limited.renew(steal) {
        Ok(renewed) => {
            if renewed {
                // SAFETY: a valid ticket of this thread; the reference above is not used any more.
                unsafe { enter(ticket) };
            }
            0
        }
        Err(refused) => code(refused),
    }
}

/// Limits the stores of a ticket; see the header.
///
/// # Safety
/// `ticket` is null or a valid ticket.
#[unsafe(no_mangle)]
unsafe extern "C" fn lockspan_rlock_limit(ticket: *mut RlockTicket, stores: u64) -> c_int {
    let limit = |ticket: &RlockTicket| {
        ticket.ticket.set_limit(stores);
        Ok(())
    };
    // SAFETY: the same contract.
    unsafe { with(ticket, "lockspan_rlock_limit", limit) }
}

/// The owner that a ticket stands for; see the header.
///
/// # Safety
/// `ticket` is null or a valid ticket; `owner` is null or a place for a number.
#[unsafe(no_mangle)]
unsafe extern "C" fn lockspan_rlock_ticket_owner(
    ticket: *mut RlockTicket,
    owner: *mut u64,
) -> c_int {
    let tell = |ticket: &RlockTicket| {
        if owner.is_null() {
            return Err(EINVAL);
        }
        // SAFETY: a place for a number, by the caller's word.
        unsafe { owner.write(ticket.ticket.owner().to_bits()) };
        Ok(())
    };
    // SAFETY: the same contract.
    unsafe { with(ticket, "lockspan_rlock_ticket_owner", tell) }
}

/// Releases the lock, and frees the ticket with its last handle; see the header.
///
/// # Safety
/// `ticket` is null or a valid ticket, and this handle of it is not used any more unless this
/// returns `EPERM`.
#[unsafe(no_mangle)]
unsafe extern "C" fn lockspan_rlock_release(ticket: *mut RlockTicket) -> c_int {
    // SAFETY: the same contract.
    let refused = unsafe { with(ticket, "lockspan_rlock_release", |_| Ok(())) };
    if refused != 0 {
        return refused;
    }
    // SAFETY: a valid ticket of this thread, a handle of which the caller gives up.
    unsafe { give_up(ticket) }
}

/// Releases the lock, then gives a handle up: in this order, as the owner finds its ticket's
/// address under the lock.
///
/// # Safety
/// `ticket` is a valid ticket of this thread, and one of its handles is not used any more.
pub(super) unsafe fn give_up(ticket: *mut RlockTicket) -> c_int {
    // SAFETY: a valid ticket of this thread.
    let released = unsafe { &*ticket }.ticket.give_up();
    // SAFETY: the same contract; the lock was released.
    unsafe { drop_handle(ticket) };
    released.map_or_else(canceled, |()| 0)
}

/// Gives a handle up, and frees the ticket with its last one. The lock stays as it is.
///
/// # Safety
/// `ticket` is a valid ticket of this thread, and one of its handles is not used any more. If it is
/// the last one, the ticket does not own the lock, or the owner has another one under the lock.
pub(super) unsafe fn drop_handle(ticket: *mut RlockTicket) {
    // SAFETY: a valid ticket of this thread.
    let handles = unsafe { &(*ticket).handles };
    handles.set(handles.get() - 1);
    if handles.get() > 0 {
        return;
    }
    // SAFETY: from `create`, and there is no handle any more.
    let RlockTicket { ticket, .. } = *unsafe { Box::from_raw(ticket) };
    let words = ticket.lock().words();
    ticket.without_limit().keep();
    // After this the lock may be freed.
    words.tickets.fetch_sub(1, Ordering::Release);
}
