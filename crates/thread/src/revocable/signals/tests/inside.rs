//! An owner that is stopped between the comparison and the store, by a fault: the word lies on a
//! page that cannot be written, so another signal's handler runs on top of the section, for as long
//! as the test likes. What stress meets once in a million times happens here every time.

use std::process::Command;
use std::ptr;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use super::super::super::record::MARK;
use super::super::super::ticket::{Mode, Revoked, Ticket};
use super::super::super::{Lock, Owner, Steal, Word, record};
use super::{LIMIT, mask, prepare};
use crate::sync::machine::{AtomicPtr, AtomicU32, Ordering};

/// One at a time: they share the handler of faults.
static ONE: Mutex<()> = Mutex::new(());
/// The page, and how far the owner and the test are.
static PAGE: AtomicPtr<libc::c_void> = AtomicPtr::new(ptr::null_mut());
static STEP: AtomicU32 = AtomicU32::new(0);
const INSIDE: u32 = 1;
const GO_ON: u32 = 2;

const PAGE_SIZE: usize = 4096;
/// How long a thief that should wait is watched. One that does wait makes the test no slower.
const WATCHED: Duration = Duration::from_millis(100);

/// A word elsewhere.
struct Far(&'static Word);

extern "C" fn on_fault(_: libc::c_int) {
    STEP.store(INSIDE, Ordering::Release);
    let start = Instant::now();
    // If the test is stuck, this lets it go on, and fail.
    while STEP.load(Ordering::Acquire) != GO_ON && start.elapsed() < LIMIT {
        std::hint::spin_loop();
    }
    STEP.store(GO_ON, Ordering::Release);
    let page = PAGE.load(Ordering::Acquire);
    // SAFETY: the test's own page, which is there until the test ends.
    unsafe { libc::mprotect(page, PAGE_SIZE, libc::PROT_READ | libc::PROT_WRITE) };
}

/// Handles faults while it is there.
struct Faults(libc::sigaction);

impl Faults {
    fn handle() -> Self {
        let handler = on_fault as extern "C" fn(libc::c_int);
        // SAFETY: zeros are a value of the structure.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handler as usize;
        // SAFETY: zeros are a value of the structure.
        let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: the handler uses atomics and a call that handlers may make.
        unsafe { libc::sigaction(libc::SIGSEGV, &action, &mut before) };
        Self(before)
    }
}

impl Drop for Faults {
    fn drop(&mut self) {
        // SAFETY: what was there before.
        unsafe { libc::sigaction(libc::SIGSEGV, &self.0, ptr::null_mut()) };
    }
}

/// A word on a page that cannot be written. Pages stay: the word is forever.
fn unwritable() -> &'static Word {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: new memory, wherever the kernel likes.
    let page = unsafe { libc::mmap(ptr::null_mut(), PAGE_SIZE, libc::PROT_READ, flags, -1, 0) };
    assert_ne!(page, libc::MAP_FAILED);
    PAGE.store(page, Ordering::Release);
    // SAFETY: zeros are a word, the page is aligned, and it is never unmapped.
    unsafe { &*page.cast::<Word>() }
}

fn own(lock: &Lock<Far>) -> Ticket<'_, Far> {
    let mine = record::mine().unwrap();
    let name = lock.take_by_signals(mine, Steal::Force, None).unwrap().unwrap();
    mine.settle(name);
    Ticket::new(lock, mine, Mode::Signals, (name, Owner::of(name)), 0)
}

fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < LIMIT, "{what} does not happen");
        thread::yield_now();
    }
}

/// Runs an owner that stores 7 and is stopped inside, and `thief` when it is there. What the
/// owner's store returned.
fn with_owner_inside(prepare_owner: fn(), thief: impl FnOnce(&Lock<Far>)) -> Result<(), Revoked> {
    let _one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let lock = Lock::new(Far(unwritable()));
    let _faults = Faults::handle();
    STEP.store(0, Ordering::Release);
    thread::scope(|scope| {
        let owner = scope.spawn(|| {
            prepare_owner();
            own(&lock).store(|far| far.0, 7)
        });
        wait_for("the fault", || STEP.load(Ordering::Acquire) == INSIDE);
        let in_any_case = GoOn;
        thief(&lock);
        drop(in_any_case);
        owner.join().unwrap()
    })
}

/// Lets the owner go on, even if the test has failed.
struct GoOn;

impl Drop for GoOn {
    fn drop(&mut self) {
        go_on();
    }
}

fn go_on() {
    STEP.store(GO_ON, Ordering::Release);
}

#[test]
fn a_section_below_a_foreign_handler_is_left_when_that_returns_and_nobody_waits() {
    prepare();
    for _ in 0..20 {
        let stored = with_owner_inside(
            || {},
            |lock| {
                // The owner cannot go on before this has returned.
                let thief = own(lock);
                assert_eq!(STEP.load(Ordering::Acquire), INSIDE, "the thief has waited");
                assert_eq!(thief.load(|far| far.0), Ok(0));
                go_on();
            },
        );
        assert_eq!(stored, Err(Revoked));
        // SAFETY: the test's own page; the word on it is only read.
        let word = unsafe { &*PAGE.load(Ordering::Acquire).cast::<Word>() };
        assert_eq!(word.peek(), 0, "stored after the lock was taken");
    }
}

/// A thief that finds an owner inside to whom no signal comes: it waits for the store.
fn a_thief_waits(prepare_owner: fn()) {
    let stored = with_owner_inside(prepare_owner, |lock| {
        thread::scope(|scope| {
            let thief = scope.spawn(|| own(lock).load(|far| far.0));
            wait_for("the mark", || lock.word().load(Ordering::Acquire) & MARK != 0);
            let start = Instant::now();
            while start.elapsed() < WATCHED {
                assert!(!thief.is_finished(), "the thief did not wait for the store");
                thread::yield_now();
            }
            go_on();
            assert_eq!(thief.join().unwrap(), Ok(7));
        });
    });
    assert_eq!(stored, Ok(()));
}

#[test]
fn a_thief_waits_for_an_owner_that_blocks_the_signal() {
    prepare();
    a_thief_waits(|| mask(libc::SIG_BLOCK, &[libc::SIGSTKFLT]));
}

#[test]
fn a_thief_waits_where_somebody_else_handles_the_signal() {
    const ALONE: &str = "LOCKSPAN_TEST_ALONE";
    extern "C" fn foreign(_: libc::c_int) {}
    if std::env::var_os(ALONE).is_none() {
        // In a process of its own: nobody else there relies on our handler.
        let path =
            concat!(module_path!(), "::a_thief_waits_where_somebody_else_handles_the_signal");
        let name = path.split_once("::").map_or(path, |(_, name)| name);
        let run = Command::new(std::env::current_exe().unwrap())
            .args([name, "--exact"])
            .env(ALONE, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&run.stdout);
        assert!(run.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    prepare();
    let handler = foreign as extern "C" fn(libc::c_int);
    // SAFETY: the handler does nothing.
    unsafe { libc::signal(libc::SIGSTKFLT, handler as libc::sighandler_t) };
    a_thief_waits(|| {});
}
