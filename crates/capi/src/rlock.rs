//! Revocable locks: `lockspan_rlock_*` of `include/lockspan_rlock.h`.
//!
//! A ticket of Rust borrows its lock and cannot leave its thread. One of C does neither, so it has
//! the number of its thread with it, and the lock counts its tickets.

use std::cell::Cell;
use std::ffi::{CString, c_char};
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use libc::{EAGAIN, EBUSY, ECANCELED, EINVAL, ENOMEM, EPERM, c_int};
use lockspan_thread::revocable::{self, Lock, Refused, Revoked, Steal, Ticket, Word};

use crate::descriptor;
use crate::misuse::misuse;

/// The lock, its words and how many tickets of it there are.
#[derive(Debug)]
struct Rlock {
    lock: Lock<Box<[Word]>>,
    tickets: AtomicUsize,
}

/// A ticket, the thread that may use it, and the lock that counts it.
#[derive(Debug)]
struct RlockTicket {
    ticket: Ticket<'static, Box<[Word]>>,
    thread: u64,
    lock: &'static Rlock,
}

/// A number of the calling thread's that no other thread ever has.
fn this_thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static NUMBER: Cell<u64> = const { Cell::new(0) };
    }
    if NUMBER.get() == 0 {
        NUMBER.set(NEXT.fetch_add(1, Ordering::Relaxed));
    }
    NUMBER.get()
}

fn policy(number: c_int) -> Option<Steal> {
    match number {
        0 => Some(Steal::Never),
        1 => Some(Steal::Local),
        2 => Some(Steal::Force),
        _ => None,
    }
}

fn code(refused: Refused) -> c_int {
    match refused {
        Refused::Held => EBUSY,
        _ => EAGAIN,
    }
}

/// # Safety
/// `lock` is null or a valid descriptor, and stays one while the reference is used.
unsafe fn open<'a>(lock: *const Rlock, call: &str) -> &'a Rlock {
    // SAFETY: the same contract.
    unsafe { descriptor::open(lock, call, "pass what lockspan_rlock_new returned") }
}

/// Calls `work` with a ticket that is this thread's.
///
/// # Safety
/// `ticket` is null or a valid ticket.
unsafe fn with(
    ticket: *const RlockTicket,
    call: &str,
    work: impl FnOnce(&RlockTicket) -> Result<(), c_int>,
) -> c_int {
    if ticket.is_null() {
        misuse(call, "the ticket is null", "pass what lockspan_rlock_lock gave");
    }
    // SAFETY: not null, so a valid ticket by the caller's word.
    let ticket = unsafe { &*ticket };
    if ticket.thread != this_thread() {
        return EPERM;
    }
    work(ticket).err().unwrap_or(0)
}

impl RlockTicket {
    fn word(&self, at: usize) -> Result<&'static Word, c_int> {
        self.lock.lock.words().get(at).ok_or(EINVAL)
    }
}

fn canceled(_: Revoked) -> c_int {
    ECANCELED
}

/// A lock with `words` words; see the header.
#[unsafe(no_mangle)]
extern "C" fn lockspan_rlock_new(words: usize) -> *mut Rlock {
    let mut all = Vec::new();
    if all.try_reserve_exact(words).is_err() {
        return std::ptr::null_mut();
    }
    all.resize_with(words, || Word::new(0));
    let lock = Lock::new(all.into_boxed_slice());
    descriptor::create(Rlock { lock, tickets: AtomicUsize::new(0) })
}

/// Destroys a lock; see the header.
///
/// # Safety
/// `lock` is null or a valid descriptor, and no other call on it runs or follows.
#[unsafe(no_mangle)]
unsafe extern "C" fn lockspan_rlock_free(lock: *mut Rlock) {
    let call = "lockspan_rlock_free";
    // SAFETY: the same contract.
    if unsafe { open(lock, call) }.tickets.load(Ordering::Acquire) > 0 {
        misuse(call, "the lock has tickets", "release each of them first");
    }
    // SAFETY: a descriptor is from `create`, and nobody else uses it.
    unsafe { descriptor::destroy(lock) };
}

/// Becomes the owner; see the header.
///
/// # Safety
/// `lock` is null or a valid descriptor; `ticket` is null or a place for a pointer.
#[unsafe(no_mangle)]
unsafe extern "C" fn lockspan_rlock_lock(
    lock: *mut Rlock,
    steal: c_int,
    ticket: *mut *mut RlockTicket,
) -> c_int {
    // SAFETY: the header's contract: the lock is there until all its tickets were released.
    let lock: &'static Rlock = unsafe { open(lock, "lockspan_rlock_lock") };
    let Some(steal) = policy(steal).filter(|_| !ticket.is_null()) else { return EINVAL };
    match lock.lock.acquire(steal) {
        Ok(acquired) => {
            let thread = this_thread();
            lock.tickets.fetch_add(1, Ordering::Relaxed);
            let made = descriptor::create(RlockTicket { ticket: acquired, thread, lock });
            if made.is_null() {
                lock.tickets.fetch_sub(1, Ordering::Release);
                return ENOMEM;
            }
            // SAFETY: a place for a pointer, by the caller's word.
            unsafe { ticket.write(made) };
            0
        }
        Err(refused) => code(refused),
    }
}

/// Takes the lock from its owner; see the header.
///
/// # Safety
/// `lock` is null or a valid descriptor.
#[unsafe(no_mangle)]
unsafe extern "C" fn lockspan_rlock_cancel(lock: *mut Rlock, steal: c_int) -> c_int {
    // SAFETY: the same contract.
    let lock = unsafe { open(lock, "lockspan_rlock_cancel") };
    let Some(steal) = policy(steal) else { return EINVAL };
    lock.lock.cancel(steal).map_or_else(code, |()| 0)
}

/// A word's value, for anybody; see the header.
///
/// # Safety
/// `lock` is null or a valid descriptor; `value` is null or a place for a number.
#[unsafe(no_mangle)]
unsafe extern "C" fn lockspan_rlock_peek_64(
    lock: *const Rlock,
    word: usize,
    value: *mut u64,
) -> c_int {
    // SAFETY: the same contract.
    let lock = unsafe { open(lock, "lockspan_rlock_peek_64") };
    let Some(word) = lock.lock.words().get(word).filter(|_| !value.is_null()) else {
        return EINVAL;
    };
    // SAFETY: a place for a number, by the caller's word.
    unsafe { value.write(word.peek()) };
    0
}

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

/// Releases the lock and frees the ticket; see the header.
///
/// # Safety
/// `ticket` is null or a valid ticket, and is not used any more unless this returns `EPERM`.
#[unsafe(no_mangle)]
unsafe extern "C" fn lockspan_rlock_release(ticket: *mut RlockTicket) -> c_int {
    // SAFETY: the same contract.
    let refused = unsafe { with(ticket, "lockspan_rlock_release", |_| Ok(())) };
    if refused != 0 {
        return refused;
    }
    // SAFETY: from `create`, and the caller gives it up.
    let RlockTicket { ticket, lock, .. } = *unsafe { Box::from_raw(ticket) };
    let released = ticket.release();
    // After this the lock may be freed.
    lock.tickets.fetch_sub(1, Ordering::Release);
    released.map_or_else(canceled, |()| 0)
}

/// Releases all that this thread owns; see the header.
#[unsafe(no_mangle)]
extern "C" fn lockspan_rlock_release_all() {
    revocable::release_all();
}

/// What this process uses; see the header.
#[unsafe(no_mangle)]
extern "C" fn lockspan_rlock_backend() -> *const c_char {
    /// Null until it is made. Nobody waits for another thread's text: in a child of a fork that
    /// would be a deadlock. Several may make it, and the first one stays.
    static TEXT: AtomicPtr<c_char> = AtomicPtr::new(std::ptr::null_mut());
    let made = TEXT.load(Ordering::Acquire);
    if !made.is_null() {
        return made;
    }
    let text = CString::new(revocable::backend().to_string()).unwrap_or_default().into_raw();
    let null = std::ptr::null_mut();
    match TEXT.compare_exchange(null, text, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => text,
        Err(first) => {
            // SAFETY: made above, and nobody else has seen it.
            drop(unsafe { CString::from_raw(text) });
            first
        }
    }
}
