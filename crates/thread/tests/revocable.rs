//! Revocable locks among thieves, signals, threads that are moved about, and forks: each store that
//! was said to have happened has, and no other.
#![cfg(target_os = "linux")]

mod hostile;

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

use hostile::{
    Running, Worker, block_all_signals, disturb, in_a_child, stopped_at_times, wait_until,
    with_every_backend,
};
use lockspan_thread::revocable::{Lock, Refused, Revoked, Steal, Word, backend, release_all};

const THREADS: u64 = 6;
const ROUNDS: u64 = if cfg!(debug_assertions) { 60_000 } else { 1_000_000 };

#[test]
fn all_of_this_with_every_backend() {
    with_every_backend("all_of_this_with_every_backend", || backend().to_string());
}

/// One addition under the lock, done in one of three ways; how often the lock had to be taken.
fn add_one<'a>(
    lock: &'a Lock<Word>,
    ticket: &mut Option<lockspan_thread::revocable::Ticket<'a, Word>>,
    how: u64,
    policy: Steal,
) -> u64 {
    let mut acquired = 0;
    loop {
        let Some(owned) = &*ticket else {
            acquired += 1;
            match lock.acquire(policy) {
                Ok(new) => *ticket = Some(new),
                Err(Refused::Held) => thread::yield_now(),
                Err(other) => panic!("{other}"),
            }
            continue;
        };
        // A value that was loaded and a store that depends on it: what a late store destroys.
        let done = match how % 3 {
            0 => owned.add(|word| word, 1),
            1 => owned.load(|word| word).and_then(|value| owned.store(|word| word, value + 1)),
            _ => owned.load(|word| word).and_then(|value| {
                let stored = owned.compare_and_store(|word| word, value, value + 1)?;
                assert_eq!(stored, Ok(()), "only the owner stores");
                Ok(())
            }),
        };
        match done {
            Ok(()) => return acquired,
            Err(Revoked) => *ticket = None,
        }
    }
}

fn all_add(policy: fn(u64) -> Steal) -> (u64, u64) {
    let lock = Arc::new(Lock::new(Word::default()));
    let acquired = Arc::new(AtomicU64::new(0));
    let threads = (0..THREADS).map(|number| {
        let (lock, acquired) = (Arc::clone(&lock), Arc::clone(&acquired));
        Worker::spawn(move |steps| {
            let (mut ticket, mut count) = (None, 0);
            for round in 0..ROUNDS {
                if round % 64 == 0 {
                    steps.step();
                }
                count += add_one(&lock, &mut ticket, round / 64 + number, policy(round));
                if round % 512 == 511 {
                    // Away with it, so that those get their turn who never steal.
                    ticket = None;
                }
                if round % 4_096 == 1_000 {
                    release_all();
                }
            }
            acquired.fetch_add(count, Ordering::Relaxed);
        })
    });
    disturb(threads.collect());
    assert!(!lock.is_owned());
    (lock.words().peek(), acquired.load(Ordering::Relaxed))
}

#[test]
fn no_addition_is_lost_to_thieves_of_any_kind() {
    for policy in [|_| Steal::Force, |_| Steal::Local, |_| Steal::Never] {
        let (sum, acquired) = all_add(policy);
        assert_eq!(sum, THREADS * ROUNDS, "after {acquired} acquisitions");
    }
    let mixed = |round: u64| [Steal::Force, Steal::Local, Steal::Never][round as usize % 3];
    assert_eq!(all_add(mixed).0, THREADS * ROUNDS);
}

#[test]
fn after_a_cancel_nothing_is_stored() {
    let lock = Arc::new(Lock::new(Word::default()));
    let running = Arc::new(Running::default());
    let victims = (0..3_u64).map(|_| {
        let (lock, running) = (Arc::clone(&lock), Arc::clone(&running));
        thread::spawn(move || {
            while running.goes_on() {
                // Only who finds it free takes it, so a thief's turn is not cut short.
                let Ok(ticket) = lock.acquire(Steal::Never) else {
                    thread::yield_now();
                    continue;
                };
                while running.goes_on() && ticket.add(|word| word, 1).is_ok() {}
            }
        })
    });
    let victims: Vec<_> = victims.collect();
    for _ in 0..2_000 {
        let thief = lock.acquire(Steal::Force).unwrap();
        let before = thief.load(|word| word).unwrap();
        for _ in 0..200 {
            assert_eq!(lock.words().peek(), before, "stored after the lock was taken");
        }
        drop(thief);
        lock.cancel(Steal::Force).unwrap();
    }
    running.stop();
    victims.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_child_of_a_fork_keeps_its_tickets_and_finds_the_others_locks_free() {
    let lock = Arc::new(Lock::new(Word::default()));
    let contested = Arc::new(Lock::new(Word::default()));
    let running = Arc::new(Running::default());
    let others = (0..3_u64).map(|_| {
        let (contested, running) = (Arc::clone(&contested), Arc::clone(&running));
        thread::spawn(move || {
            while running.goes_on() {
                let ticket = contested.acquire(Steal::Force).unwrap();
                for _ in 0..100 {
                    let _ = ticket.add(|word| word, 1);
                }
            }
        })
    });
    let ticket = lock.acquire(Steal::Never).unwrap();
    let others: Vec<_> = others.collect();
    for _ in 0..30 {
        let fine = in_a_child(|| {
            let kept = ticket.store(|word| word, 9) == Ok(());
            let Ok(taken) = contested.acquire(Steal::Never) else { return false };
            let Ok(value) = taken.load(|word| word) else { return false };
            // A child may not start threads while others of the parent did: the C library's matter.
            let robbed = lock.acquire(Steal::Force).is_ok_and(|thief| thief.check().is_ok());
            let stored = taken.store(|word| word, value + 1) == Ok(());
            kept && robbed && stored && ticket.check() == Err(Revoked)
        });
        assert!(fine, "the child found something wrong");
        assert_eq!(ticket.check(), Ok(()), "what the child did is its own");
    }
    running.stop();
    others.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Forks when its thread has given its record back; tells whether the lock is free in the child.
struct LateFork(Option<(mpsc::Sender<()>, mpsc::Receiver<()>, mpsc::Sender<bool>)>);

static OF_ANOTHER: Lock<Word> = Lock::new(Word::new(0));

impl Drop for LateFork {
    fn drop(&mut self) {
        let Some((ending, go_on, result)) = self.0.take() else { return };
        let _ = ending.send(());
        let _ = go_on.recv();
        let _ = result.send(in_a_child(|| !OF_ANOTHER.is_owned()));
    }
}

thread_local! {
    static LATE_FORK: RefCell<LateFork> = const { RefCell::new(LateFork(None)) };
}

#[test]
fn a_fork_at_the_end_of_a_thread_keeps_no_lock_of_its_records_next_thread() {
    let (ending, is_ending) = mpsc::channel();
    let (go_on, goes_on) = mpsc::channel();
    let (result, child) = mpsc::channel();
    let dying = thread::spawn(move || {
        // Made before the thread has a record, so it ends after it.
        LATE_FORK.with(|late| late.borrow_mut().0 = Some((ending, goes_on, result)));
        let lock = Lock::new(Word::default());
        lock.acquire(Steal::Force).unwrap().release().unwrap();
    });
    is_ending.recv().unwrap();
    let (owned, is_owned) = mpsc::channel();
    let (end, ends) = mpsc::channel::<()>();
    let next = thread::spawn(move || {
        let _ticket = OF_ANOTHER.acquire(Steal::Force).unwrap();
        owned.send(()).unwrap();
        let _ = ends.recv();
    });
    is_owned.recv().unwrap();
    go_on.send(()).unwrap();
    assert!(child.recv().unwrap(), "in the child, a thread that is not there owns a lock");
    drop(end);
    next.join().unwrap();
    dying.join().unwrap();
}

#[test]
fn threads_that_end_while_they_own_locks_leave_them_free() {
    let locks: &'static [Lock<Word>] =
        Box::leak((0..8).map(|_| Lock::default()).collect::<Box<[_]>>());
    for round in 0..40 {
        let threads = (0..8).map(|number| {
            thread::spawn(move || {
                let ticket = locks[(round + number) % 8].acquire(Steal::Force).unwrap();
                let _ = ticket.add(|word| word, 1);
                std::mem::forget(ticket);
            })
        });
        threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
        assert!(locks.iter().all(|lock| !lock.is_owned()));
    }
}

#[test]
fn a_thread_that_blocks_all_signals_is_robbed_like_any_other() {
    let lock = Arc::new(Lock::new(Word::default()));
    let running = Arc::new(Running::default());
    let stored = Arc::new(AtomicU64::new(0));
    let threads = (0..4).map(|number| {
        let (lock, running, stored) =
            (Arc::clone(&lock), Arc::clone(&running), Arc::clone(&stored));
        thread::spawn(move || {
            if number % 2 == 0 {
                block_all_signals();
            }
            let mut ticket = None;
            while running.goes_on() {
                for _ in 0..100 {
                    add_one(&lock, &mut ticket, 1, Steal::Force);
                }
                stored.fetch_add(100, Ordering::Relaxed);
            }
        })
    });
    let threads: Vec<_> = threads.collect();
    wait_until("nothing is stored", || stored.load(Ordering::Relaxed) > 20_000);
    running.stop();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(lock.words().peek(), stored.load(Ordering::Relaxed));
}

/// The memory of a process that is stopped does not change by itself, whatever it was at; when it
/// goes on, so does all that it owned.
#[test]
fn a_stopped_process_goes_on_where_it_was() {
    const ADDITIONS: u64 = 4_000_000;
    let fine = stopped_at_times(|| {
        let lock = Lock::new(Word::default());
        let mut ticket = None;
        for _ in 0..ADDITIONS {
            add_one(&lock, &mut ticket, 1, Steal::Force);
        }
        lock.words().peek() == ADDITIONS
    });
    assert!(fine, "the child found something wrong");
}
