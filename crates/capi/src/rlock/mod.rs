//! Revocable locks: `lockspan_rlock_*` of `include/lockspan_rlock.h`.
//!
//! A ticket of Rust borrows its lock and cannot leave its thread. One of C does neither, so it has
//! the number of its thread with it, and the lock counts its tickets.
//!
//! A thread that locks again what it owns gets the same pointer. For that the owner stores its
//! ticket's address and then its own identity under the lock, conditionally. So if the identity
//! under the lock is the present owner's, the address is that of its ticket, which is not freed:
//! the call that frees a ticket releases the lock first.
//!
//! Each call that gives a pointer to a ticket adds one to its `handles`, and each release takes one
//! away. The first release ends the ownership, as with two tickets of one acquisition in Rust; the
//! last one frees the ticket.
//!
//! A thread may call with the ticket of another one, and gets `EPERM`. So of a ticket that is not
//! known to be the calling thread's only the field `thread` is read, which never changes, and no
//! `&mut` ever covers that field.

mod percpu;
mod ticket;

use std::cell::Cell;
use std::ffi::{CString, c_char};
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use libc::{EAGAIN, EBUSY, ECANCELED, EINVAL, ENOMEM, EPERM, c_int};
use lockspan_thread::revocable::{
    self, Limited, Lock, Owner, Refused, Revoked, Steal, Ticket, Word,
};

use crate::descriptor;
use crate::misuse::misuse;

/// A lock with its words.
type Rlock = Lock<Words>;

/// What lies under a lock.
#[derive(Debug)]
struct Words {
    words: Box<[Word]>,
    /// The owner, and the address of its ticket.
    owner: Word,
    ticket: Word,
    /// How many tickets of the lock there are.
    tickets: AtomicUsize,
    /// Whether the lock belongs to the words of each processor.
    is_part: bool,
}

impl Words {
    /// All 0; none if there is no memory for them.
    fn new(words: usize, is_part: bool) -> Option<Self> {
        let mut all = Vec::new();
        all.try_reserve_exact(words).ok()?;
        all.resize_with(words, || Word::new(0));
        let (words, tickets) = (all.into_boxed_slice(), AtomicUsize::new(0));
        Some(Self { words, owner: Word::new(0), ticket: Word::new(0), tickets, is_part })
    }
}

/// A ticket, and the thread that may use it.
#[derive(Debug)]
struct RlockTicket {
    ticket: Limited<'static, Words>,
    thread: u64,
    /// How many releases there will be. Only for the ticket's thread.
    handles: Cell<usize>,
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
    if !unsafe { is_mine(ticket) } {
        return EPERM;
    }
    // SAFETY: a valid ticket of this thread, which is in no other call on it.
    work(unsafe { &*ticket }).err().unwrap_or(0)
}

/// Whether the ticket is this thread's. Makes no reference to it: its own thread may have a `&mut`
/// to another field.
///
/// # Safety
/// `ticket` is a valid ticket.
unsafe fn is_mine(ticket: *const RlockTicket) -> bool {
    // SAFETY: the same contract; the field never changes.
    unsafe { (*ticket).thread == this_thread() }
}

impl RlockTicket {
    fn word(&self, at: usize) -> Result<&'static Word, c_int> {
        self.ticket.lock().words().words.get(at).ok_or(EINVAL)
    }
}

/// Lets the owner's next call of `lockspan_rlock_lock` find this ticket. The pointer is the one
/// that was made with the ticket: it comes back from under the lock and frees the ticket.
///
/// # Safety
/// `made` is a valid ticket of this thread, and nobody has a `&mut` to any of it.
unsafe fn enter(made: *mut RlockTicket) {
    let here = made.expose_provenance() as u64;
    // SAFETY: the same contract.
    let limited = unsafe { &(*made).ticket };
    let (ticket, owner) = (limited.uncounted(), limited.owner().to_bits());
    // In this order: the owner vouches for the address. If the lock is lost, neither matters.
    let entered = ticket.store(|words| &words.ticket, here);
    let _revoked = entered.and_then(|()| ticket.store(|words| &words.owner, owner));
}

/// The ticket on the heap of the calling thread's acquisition, with one more handle: the one that
/// it has, or a new one with a limit of `stores`; null if there is no memory, and then the lock is
/// released.
fn on_the_heap(acquired: Ticket<'static, Words>, stores: u64) -> *mut RlockTicket {
    let words = acquired.lock().words();
    let is_entered = acquired.load(|words| &words.owner) == Ok(acquired.owner().to_bits());
    // Loaded with the ticket as well: if the lock was taken in between, the address is another
    // thread's.
    let known = acquired.load(|words| &words.ticket).ok().filter(|_| is_entered);
    if let Some(known) = known {
        // Not released: that would end the ownership of the ticket that there is.
        acquired.keep();
        let known = std::ptr::with_exposed_provenance_mut::<RlockTicket>(known as usize);
        // SAFETY: the ticket of this thread's acquisition, so it is not freed.
        let handles = unsafe { &(*known).handles };
        handles.set(handles.get() + 1);
        return known;
    }
    words.tickets.fetch_add(1, Ordering::Relaxed);
    let (ticket, thread) = (acquired.limit(stores), this_thread());
    let made = descriptor::create(RlockTicket { ticket, thread, handles: Cell::new(1) });
    if made.is_null() {
        words.tickets.fetch_sub(1, Ordering::Release);
    } else {
        // SAFETY: just made by this thread, and no other one has the pointer.
        unsafe { enter(made) };
    }
    made
}

fn canceled(_: Revoked) -> c_int {
    ECANCELED
}

/// A lock with `words` words; see the header.
#[unsafe(no_mangle)]
extern "C" fn lockspan_rlock_new(words: usize) -> *mut Rlock {
    Words::new(words, false)
        .map_or(std::ptr::null_mut(), |words| descriptor::create(Lock::new(words)))
}

/// Destroys a lock; see the header.
///
/// # Safety
/// `lock` is null or a valid descriptor, and no other call on it runs or follows.
#[unsafe(no_mangle)]
unsafe extern "C" fn lockspan_rlock_free(lock: *mut Rlock) {
    let call = "lockspan_rlock_free";
    // SAFETY: the same contract.
    let words = unsafe { open(lock, call) }.words();
    if words.is_part {
        misuse(
            call,
            "the lock is a processor's part",
            "free the whole: lockspan_rlock_percpu_free",
        );
    }
    if words.tickets.load(Ordering::Acquire) > 0 {
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
    let made = match lock.acquire(steal) {
        Ok(acquired) => on_the_heap(acquired, 0),
        Err(refused) => return code(refused),
    };
    if made.is_null() {
        return ENOMEM;
    }
    // SAFETY: a place for a pointer, by the caller's word.
    unsafe { ticket.write(made) };
    0
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
    lock.cancel(steal).map_or_else(code, |()| 0)
}

/// Takes the lock from one given owner; see the header.
///
/// # Safety
/// `lock` is null or a valid descriptor.
#[unsafe(no_mangle)]
unsafe extern "C" fn lockspan_rlock_owner_cancel(
    owner: u64,
    lock: *mut Rlock,
    steal: c_int,
) -> c_int {
    // SAFETY: the same contract.
    let lock = unsafe { open(lock, "lockspan_rlock_owner_cancel") };
    let Some(steal) = policy(steal) else { return EINVAL };
    let Some(owner) = Owner::from_bits(owner) else { return 0 };
    lock.cancel_owner(owner, steal).map_or_else(code, |_| 0)
}

/// Who owns the lock; see the header.
///
/// # Safety
/// `lock` is null or a valid descriptor; `owner` is null or a place for a number.
#[unsafe(no_mangle)]
unsafe extern "C" fn lockspan_rlock_owner(lock: *const Rlock, owner: *mut u64) -> c_int {
    // SAFETY: the same contract.
    let lock = unsafe { open(lock, "lockspan_rlock_owner") };
    if owner.is_null() {
        return EINVAL;
    }
    // SAFETY: a place for a number, by the caller's word.
    unsafe { owner.write(lock.owner().map_or(0, Owner::to_bits)) };
    0
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
    let Some(word) = lock.words().words.get(word).filter(|_| !value.is_null()) else {
        return EINVAL;
    };
    // SAFETY: a place for a number, by the caller's word.
    unsafe { value.write(word.peek()) };
    0
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
