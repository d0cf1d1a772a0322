//! Tickets of threads that are ending: their record may be another thread's by then, and its flag
//! with it.

use std::cell::RefCell;
use std::mem;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::record::{self, Record};
use super::{Backend, Lock, Revoked, Steal, Ticket, Word, release_all};
use crate::backend::sabotage::{self, Mistake, Plan};
use crate::backend::try_backend;
use crate::sync::machine::{AtomicU32, Ordering};

/// Nothing here takes so long unless it is stuck.
const LIMIT: Duration = Duration::from_secs(60);
const ROUNDS: u32 = 10;
/// So long that a thief is done before the victim's check becomes a store.
const WINDOW: u32 = 20_000_000;

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < LIMIT, "waited in vain until {what}");
        thread::yield_now();
    }
}

#[test]
fn a_released_ticket_leaves_the_flag_alone() {
    let backends = [
        Backend::Membarrier,
        Backend::Plain,
        #[cfg(feature = "signals")]
        Backend::Signal,
    ];
    for backend in backends {
        try_backend(backend).unwrap();
        let lock = Lock::new(Word::new(0));
        let ticket = lock.acquire_by(backend, Steal::Force).unwrap();
        let record = record::mine().unwrap();
        release_all();
        // The record's next thread could be storing under another lock.
        record.section.store(1, Ordering::Relaxed);
        let results = [
            ticket.store(|word| word, 7),
            ticket.add(|word| word, 7),
            ticket.compare_and_store(|word| word, 0, 7).map(|_| ()),
        ];
        let flag = record.section.swap(0, Ordering::Relaxed);
        assert_eq!(results, [Err(Revoked); 3], "{backend}");
        assert_eq!(flag, 1, "{backend}: another thread's flag was lowered");
    }
}

static DYING: AtomicU32 = AtomicU32::new(0);
static STOP: AtomicU32 = AtomicU32::new(0);

/// Stores again and again while its thread ends.
struct Late(Option<Ticket<'static, Word>>);

impl Drop for Late {
    fn drop(&mut self) {
        let Some(ticket) = &self.0 else { return };
        DYING.store(1, Ordering::SeqCst);
        let start = Instant::now();
        while STOP.load(Ordering::SeqCst) == 0 && start.elapsed() < LIMIT {
            // No assertion: a panic would go through the end of a thread.
            let _revoked = ticket.store(|word| word, 7);
        }
    }
}

thread_local! {
    static LATE: RefCell<Late> = const { RefCell::new(Late(None)) };
}

/// A thread that sets `STOP` whatever happens.
struct Stop;

impl Drop for Stop {
    fn drop(&mut self) {
        STOP.store(1, Ordering::SeqCst);
    }
}

#[test]
fn a_ticket_that_outlives_its_threads_record_lets_nobody_store_too_late() {
    static OLD: Lock<Word> = Lock::new(Word::new(0));
    static LOCK: Lock<Word> = Lock::new(Word::new(0));
    try_backend(Backend::Membarrier).unwrap();
    let _stop = Stop;
    let dying = thread::spawn(|| {
        // Made before the record, so it ends after it.
        LATE.with(|late| assert!(late.borrow().0.is_none()));
        let ticket = OLD.acquire_by(Backend::Membarrier, Steal::Force).unwrap();
        LATE.with(|late| late.borrow_mut().0 = Some(ticket));
    });
    wait_until("the thread ends", || DYING.load(Ordering::SeqCst) != 0);
    let (owned, is_owned) = mpsc::channel::<&'static Record>();
    let (go_on, goes_on) = mpsc::channel();
    let (done, is_done) = mpsc::channel();
    // Gets the record of the thread that ends.
    let victim = thread::spawn(move || {
        sabotage::follow(Plan { mistake: Mistake::Nothing, window: WINDOW });
        while goes_on.recv().is_ok() {
            let ticket = LOCK.acquire_by(Backend::Membarrier, Steal::Force).unwrap();
            owned.send(record::mine().unwrap()).unwrap();
            let _result = ticket.store(|word| word, 1);
            mem::forget(ticket);
            done.send(()).unwrap();
        }
    });
    let mut late = 0;
    for _ in 0..ROUNDS {
        go_on.send(()).unwrap();
        let record = is_owned.recv_timeout(LIMIT).unwrap();
        let mut is_over = false;
        wait_until("the victim is between check and store", || {
            is_over = is_done.try_recv().is_ok();
            is_over || record.section.load(Ordering::Relaxed) == LOCK.address()
        });
        let thief = LOCK.acquire_by(Backend::Membarrier, Steal::Force).unwrap();
        thief.store(|word| word, 2).unwrap();
        if !is_over {
            is_done.recv_timeout(LIMIT).unwrap();
        }
        late += u32::from(thief.load(|word| word) != Ok(2));
    }
    drop(go_on);
    victim.join().unwrap();
    STOP.store(1, Ordering::SeqCst);
    dying.join().unwrap();
    assert_eq!(late, 0, "stores after the lock was taken, in {ROUNDS} rounds");
}
