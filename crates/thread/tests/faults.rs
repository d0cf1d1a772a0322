//! Conditional stores to addresses that cannot be written: what becomes of the store, of the lock
//! and of threads that take it meanwhile.
#![cfg(target_os = "linux")]

mod hostile;

use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hostile::{wait_until, with_every_backend};
use lockspan_thread::revocable::{Lock, Revoked, Steal, backend};

#[test]
fn all_of_this_with_every_backend() {
    with_every_backend("all_of_this_with_every_backend", || backend().to_string());
}

const PAGE_SIZE: usize = 4096;
/// How long a thread that should wait is watched. One that does wait makes the test no slower.
const WATCHED: Duration = Duration::from_millis(100);
const LIMIT: Duration = Duration::from_secs(60);

/// One at a time: they share the handler.
static ONE: Mutex<()> = Mutex::new(());
static PAGE: AtomicPtr<libc::c_void> = AtomicPtr::new(ptr::null_mut());
/// 0, or how many faults there were, and whether the handler may go on.
static FAULTS: AtomicU32 = AtomicU32::new(0);
static MAY_GO_ON: AtomicU32 = AtomicU32::new(0);

/// Makes the page writable, as soon as the test allows it.
extern "C" fn repair(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let page = PAGE.load(Ordering::Acquire);
    // SAFETY: the kernel gives a handler with `SA_SIGINFO` the facts of the signal.
    let info = unsafe { &*info };
    // SAFETY: it is a fault, which has an address.
    let at = unsafe { info.si_addr() };
    if at.addr() & !(PAGE_SIZE - 1) != page.addr() {
        // SAFETY: this ends the process: the fault is not the test's.
        unsafe { libc::abort() };
    }
    FAULTS.fetch_add(1, Ordering::AcqRel);
    let start = Instant::now();
    // If the test is stuck, this lets it go on, and fail.
    while MAY_GO_ON.load(Ordering::Acquire) == 0 && start.elapsed() < LIMIT {
        std::hint::spin_loop();
    }
    // SAFETY: the test's own page, which stays.
    unsafe { libc::mprotect(page, PAGE_SIZE, libc::PROT_READ | libc::PROT_WRITE) };
}

/// Handles faults while it is there.
struct Handled(libc::sigaction);

impl Handled {
    fn new() -> Self {
        type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
        let handler: Handler = repair;
        // SAFETY: zeros are a value of the structure.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO;
        // SAFETY: zeros are a value of the structure.
        let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: the handler uses atomics and calls that handlers may make.
        unsafe { libc::sigaction(libc::SIGSEGV, &action, &mut before) };
        FAULTS.store(0, Ordering::Release);
        Self(before)
    }
}

impl Drop for Handled {
    fn drop(&mut self) {
        MAY_GO_ON.store(1, Ordering::Release);
        // SAFETY: what was there before.
        unsafe { libc::sigaction(libc::SIGSEGV, &self.0, ptr::null_mut()) };
    }
}

/// An address on a page that cannot be written. Pages stay.
fn unwritable() -> *mut u64 {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: new memory, wherever the kernel likes.
    let page = unsafe { libc::mmap(ptr::null_mut(), PAGE_SIZE, libc::PROT_READ, flags, -1, 0) };
    assert_ne!(page, libc::MAP_FAILED);
    PAGE.store(page, Ordering::Release);
    page.cast::<u64>().wrapping_add(5)
}

fn read(at: *mut u64) -> u64 {
    // SAFETY: on the test's page, which stays and can be read.
    unsafe { at.read_volatile() }
}

#[test]
fn a_store_that_faults_is_made_when_a_handler_has_repaired_the_address() {
    let _one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let _handled = Handled::new();
    MAY_GO_ON.store(1, Ordering::Release);
    let lock = Lock::new(());
    for round in 1..=20 {
        let at = unwritable();
        let ticket = lock.acquire(Steal::Never).unwrap();
        // SAFETY: aligned, and the handler makes it writable.
        assert_eq!(unsafe { ticket.store_raw(at, round) }, Ok(()));
        // SAFETY: the same, and it is writable by now.
        assert_eq!(unsafe { ticket.store_raw(at.wrapping_add(1), round) }, Ok(()));
        assert_eq!((read(at), read(at.wrapping_add(1))), (round, round));
        assert_eq!(FAULTS.load(Ordering::Acquire), round as u32, "one fault a round");
        // The lock is as it should be.
        thread::scope(|scope| {
            scope.spawn(|| assert!(lock.acquire(Steal::Force).is_ok()));
        });
        assert_eq!(ticket.check(), Err(Revoked));
    }
}

#[test]
fn a_thread_that_takes_the_lock_while_the_handler_runs_sees_the_store_or_prevents_it() {
    let _one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let waits = !["rseq", "signal"].contains(&backend().backend().name());
    for _ in 0..if waits { 2 } else { 20 } {
        let handled = Handled::new();
        MAY_GO_ON.store(0, Ordering::Release);
        let (lock, at) = (Lock::new(()), unwritable());
        let address = at.expose_provenance();
        thread::scope(|scope| {
            let owner = scope.spawn(|| {
                let ticket = lock.acquire(Steal::Never).unwrap();
                // SAFETY: aligned, and the handler makes it writable.
                unsafe { ticket.store_raw(ptr::with_exposed_provenance_mut(address), 7) }
            });
            wait_until("there is no fault", || FAULTS.load(Ordering::Acquire) == 1);
            let thief = scope.spawn(|| drop(lock.acquire(Steal::Force).unwrap()));
            if waits {
                let start = Instant::now();
                while start.elapsed() < WATCHED {
                    assert!(!thief.is_finished(), "the thief did not wait for the store");
                    thread::yield_now();
                }
            } else {
                wait_until("the thief waits", || thief.is_finished());
                assert_eq!(read(at), 0);
            }
            drop(handled);
            let stored = owner.join().unwrap();
            thief.join().unwrap();
            let expected = if waits { (Ok(()), 7) } else { (Err(Revoked), 0) };
            assert_eq!((stored, read(at)), expected, "{}", backend());
        });
    }
}

#[test]
fn a_fault_that_nobody_handles_ends_the_process_by_its_signal() {
    let _one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let (lock, at) = (Lock::new(()), unwritable());
    let ticket = lock.acquire(Steal::Never).unwrap();
    // SAFETY: the child makes calls that a child may make, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // Nobody has to keep a core file.
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: a limit of ours.
        unsafe { libc::setrlimit(libc::RLIMIT_CORE, &none) };
        // SAFETY: the default ends the process.
        unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
        // SAFETY: its default is to end the process.
        unsafe { libc::alarm(60) };
        // SAFETY: aligned; that it cannot be written ends this child, as it should.
        let stored = unsafe { ticket.store_raw(at, 1) };
        // SAFETY: this leaves the process.
        unsafe { libc::_exit(if stored.is_ok() { 1 } else { 2 }) }
    }
    assert!(child > 0, "fork: {}", std::io::Error::last_os_error());
    let mut status = 0;
    // SAFETY: our own child, and a place for its status.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert!(libc::WIFSIGNALED(status), "status {status:x}");
    assert_eq!(libc::WTERMSIG(status), libc::SIGSEGV);
    assert_eq!(ticket.check(), Ok(()), "what the child did is its own");
}
