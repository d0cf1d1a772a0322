//! Thieves that send signals, among foreign handlers, blocked signals and forks; and one that sends
//! none, whom the same test must convict.

use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use super::super::record::{self, MARK, Name};
use super::super::ticket::{Mode, Revoked, Ticket};
use super::super::{Backend, Lock, Owner, Refused, Steal, Word};
use crate::backend::{Choice, signal};
use crate::sync::machine::{AtomicU64, Ordering};

/// Nothing here takes so long unless it is stuck.
const LIMIT: Duration = Duration::from_secs(60);
const THREADS: u64 = 4;
const ROUNDS: u64 = if cfg!(debug_assertions) { 100_000 } else { 2_000_000 };
/// How many additions an owner makes before it is somebody else's turn.
const TENURE: u64 = 40;

/// The handler is installed whatever backend this process has chosen.
fn prepare() {
    let works = crate::backend::try_backend(Backend::Signal);
    works.unwrap_or_else(|why| panic!("signals do not work here: {why}"));
}

type Acquire = fn(&Lock<Word>, Steal) -> Result<Ticket<'_, Word>, Refused>;

fn properly(lock: &Lock<Word>, steal: Steal) -> Result<Ticket<'_, Word>, Refused> {
    let mine = record::mine().ok_or(Refused::Thread)?;
    let name = lock.take_by_signals(mine, steal, None)?.unwrap();
    mine.settle(name);
    Ok(Ticket::new(lock, mine, Mode::Signals, (name, Owner::of(name)), 0))
}

/// Takes the lock, and neither sends a signal nor a barrier.
fn silently(lock: &Lock<Word>, _: Steal) -> Result<Ticket<'_, Word>, Refused> {
    let mine = record::mine().ok_or(Refused::Thread)?;
    let name = mine.name(0);
    while !lock.exchange(lock.word().load(Ordering::Acquire), name.word()) {}
    mine.settle(name);
    Ok(Ticket::new(lock, mine, Mode::Signals, (name, Owner::of(name)), 0))
}

/// Adds `rounds` times, and takes the lock when it is lost. How often it found that somebody else
/// had stored while it owned the lock.
fn add(lock: &Lock<Word>, rounds: u64, acquire: Acquire) -> u64 {
    let (mut left, mut strays) = (rounds, 0);
    while left > 0 {
        let ticket = acquire(lock, Steal::Force).unwrap();
        for round in 0..TENURE.min(left) {
            // A value that was loaded and a store that depends on it, what a late store destroys.
            let done = match round % 3 {
                0 => ticket.add(|word| word, 1),
                1 => ticket.load(|word| word).and_then(|old| ticket.store(|word| word, old + 1)),
                _ => ticket.load(|word| word).and_then(|old| {
                    let stored = ticket.compare_and_store(|word| word, old, old + 1)?;
                    strays += u64::from(stored.is_err());
                    stored.map_err(|_| Revoked)
                }),
            };
            if done.is_err() {
                break;
            }
            left -= 1;
        }
        std::mem::forget(ticket);
    }
    strays
}

/// How many stores of several threads came too late, as far as one can see.
fn lost(rounds: u64, acquire: Acquire, prepare_thread: fn()) -> u64 {
    let (lock, strays) = (Lock::new(Word::default()), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                prepare_thread();
                strays.fetch_add(add(&lock, rounds, acquire), Ordering::Relaxed);
            });
        }
    });
    strays.into_inner() + (THREADS * rounds).abs_diff(lock.words().peek())
}

#[test]
fn no_addition_is_lost_and_without_signals_some_are() {
    prepare();
    assert_eq!(lost(ROUNDS, properly, || {}), 0);
    let start = Instant::now();
    while lost(ROUNDS, silently, || {}) == 0 {
        assert!(start.elapsed() < LIMIT, "a thief without signals was not convicted");
    }
}

#[test]
fn an_owner_loads_stores_adds_and_compares_until_it_is_robbed() {
    prepare();
    let lock = Lock::new(Word::new(1));
    let owner = properly(&lock, Steal::Never).unwrap();
    assert_eq!(owner.add(|word| word, 2), Ok(()));
    assert_eq!(owner.compare_and_store(|word| word, 3, 4), Ok(Ok(())));
    assert_eq!(owner.compare_and_store(|word| word, 3, 5), Ok(Err(4)));
    assert_eq!(owner.store(|word| word, 6), Ok(()));
    assert_eq!(properly(&lock, Steal::Never).unwrap_err(), Refused::Held);
    let thief = properly(&lock, Steal::Force).unwrap();
    assert_eq!(owner.store(|word| word, 7), Err(Revoked));
    assert_eq!(owner.compare_and_store(|word| word, 6, 7), Err(Revoked));
    assert_eq!(owner.compare_and_store(|word| word, 1, 7), Err(Revoked));
    assert_eq!(owner.release(), Err(Revoked));
    assert_eq!(thief.load(|word| word), Ok(6));
    assert_eq!(thief.release(), Ok(()));
    assert!(!lock.is_owned());
}

#[test]
fn a_marked_word_is_owned_until_somebody_finishes_what_was_begun() {
    prepare();
    let lock = Lock::new(Word::default());
    let owner = properly(&lock, Steal::Never).unwrap();
    let name = Name::of(lock.word().load(Ordering::Acquire)).unwrap();
    // A thief that went no further.
    assert!(lock.exchange(name.word(), name.word() | MARK));
    assert!(lock.is_owned());
    assert_eq!(owner.store(|word| word, 1), Err(Revoked));
    assert_eq!(owner.release(), Err(Revoked));
    thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(properly(&lock, Steal::Never).unwrap_err(), Refused::Held);
            let other = properly(&lock, Steal::Force).unwrap();
            assert_eq!(other.store(|word| word, 2), Ok(()));
        });
    });
    assert!(!lock.is_owned());
}

#[test]
fn what_an_ended_thread_owned_is_free_and_its_record_serves_the_next() {
    prepare();
    let lock = Lock::new(Word::default());
    for _ in 0..200 {
        thread::scope(|scope| {
            let thieves: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| {
                        let ticket = properly(&lock, Steal::Force).unwrap();
                        let _ = ticket.add(|word| word, 1);
                        std::mem::forget(ticket);
                    })
                })
                .collect();
            // Joined, so that they have really ended: a scope waits for less.
            thieves.into_iter().for_each(|thief| thief.join().unwrap());
        });
        assert!(!lock.is_owned());
        drop(properly(&lock, Steal::Never).unwrap());
    }
}

/// Blocks or lets through a signal in the calling thread.
fn mask(how: libc::c_int, signals: &[libc::c_int]) {
    // SAFETY: zeros are an empty set.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    for signal in signals {
        // SAFETY: the set is this function's own.
        unsafe { libc::sigaddset(&mut set, *signal) };
    }
    // SAFETY: the set was filled in above.
    let error = unsafe { libc::pthread_sigmask(how, &set, std::ptr::null_mut()) };
    assert_eq!(error, 0);
}

#[test]
fn threads_that_block_the_signal_lose_nothing_either() {
    prepare();
    let rounds = ROUNDS / 4;
    assert_eq!(lost(rounds, properly, || mask(libc::SIG_BLOCK, &[libc::SIGSTKFLT])), 0);
    // Blocked and let through again and again, by a handler of another signal: the worst of both.
    assert_eq!(lost_in_a_storm(rounds, blocks_it), 0);
}

type Foreign = extern "C" fn(libc::c_int);

static FOREIGN: AtomicU64 = AtomicU64::new(0);

extern "C" fn is_slow(_: libc::c_int) {
    FOREIGN.fetch_add(1, Ordering::Relaxed);
    (0..2_000).for_each(|_| std::hint::spin_loop());
}

extern "C" fn blocks_it(signal: libc::c_int) {
    mask(libc::SIG_BLOCK, &[libc::SIGSTKFLT]);
    is_slow(signal);
    mask(libc::SIG_UNBLOCK, &[libc::SIGSTKFLT]);
}

/// One storm at a time: they share the signals' handlers.
static STORM: Mutex<()> = Mutex::new(());

/// How many foreign handlers make a storm.
const STORM_LENGTH: u64 = 500;

/// As [`lost`], while two foreign signals interrupt all the time, each other as well.
fn lost_in_a_storm(rounds: u64, handler: Foreign) -> u64 {
    let _one = STORM.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    const SIGNALS: [libc::c_int; 2] = [libc::SIGUSR1, libc::SIGUSR2];
    for signal in SIGNALS {
        // SAFETY: the handlers add to atomics, pause and change masks, which handlers may.
        unsafe { libc::signal(signal, handler as libc::sighandler_t) };
    }
    let before = FOREIGN.load(Ordering::Relaxed);
    let lock = Arc::new(Lock::new(Word::default()));
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let lock = Arc::clone(&lock);
            thread::spawn(move || {
                let mut added = 0;
                // Until the storm has come, however fast the additions are.
                while added == 0 || FOREIGN.load(Ordering::Relaxed) < before + STORM_LENGTH {
                    assert_eq!(add(&lock, rounds, properly), 0);
                    added += rounds;
                }
                added
            })
        })
        .collect();
    let start = Instant::now();
    while !threads.iter().all(thread::JoinHandle::is_finished) {
        assert!(start.elapsed() < LIMIT, "the threads do not come to an end");
        for thread in threads.iter().filter(|thread| !thread.is_finished()) {
            use std::os::unix::thread::JoinHandleExt as _;
            for signal in SIGNALS {
                // SAFETY: a thread that was not joined may be named, even after its end.
                unsafe { libc::pthread_kill(thread.as_pthread_t(), signal) };
            }
        }
        // A pace, or the signals would be all that the machine does.
        thread::sleep(Duration::from_micros(50));
    }
    let added: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    added.abs_diff(lock.words().peek())
}

#[test]
fn foreign_handlers_that_interrupt_sections_lose_nothing() {
    prepare();
    assert_eq!(lost_in_a_storm(ROUNDS / 2, is_slow), 0);
}

#[test]
fn an_owner_that_seems_to_run_elsewhere_keeps_the_lock_from_a_local_thief() {
    prepare();
    let lock = Lock::new(Word::default());
    let (owned, is_owned) = mpsc::channel();
    let (go_on, goes_on) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let lock = &lock;
        scope.spawn(move || {
            let ticket = properly(lock, Steal::Never).unwrap();
            owned.send(()).unwrap();
            let _ = goes_on.recv();
            assert_eq!(ticket.check(), Err(Revoked));
        });
        is_owned.recv().unwrap();
        // It is about to sleep; then the lock can be had.
        let start = Instant::now();
        let thief = loop {
            match properly(lock, Steal::Local) {
                Ok(thief) => break thief,
                Err(refused) => assert_eq!(refused, Refused::Held),
            }
            assert!(start.elapsed() < LIMIT, "a sleeping owner cannot be robbed");
        };
        assert_eq!(thief.store(|word| word, 3), Ok(()));
        drop(go_on);
    });
    assert_eq!(lock.words().peek(), 3);
}

#[test]
fn a_child_of_a_fork_goes_on_under_its_own_number() {
    prepare();
    let record = record::mine().unwrap();
    let lock = Lock::new(Word::default());
    let ticket = properly(&lock, Steal::Never).unwrap();
    let parents = record.thread.load(Ordering::Acquire);
    // SAFETY: the child looks at atomics, stores one and leaves at once, without destructors.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: a query without side effects.
        let number = unsafe { libc::gettid() }.cast_unsigned();
        let renewed = record.thread.load(Ordering::Acquire) == number && number != parents;
        let stored = ticket.store(|word| word, 1).is_ok();
        let sent = signal::interrupt(number) == signal::Sent::Arrives;
        // SAFETY: this leaves the process.
        unsafe { libc::_exit(if renewed && stored && sent { 0 } else { 1 }) }
    }
    assert!(child > 0, "fork: {}", std::io::Error::last_os_error());
    let mut status = 0;
    // SAFETY: our own child, and a place for its status.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "the child found a fault");
    assert_eq!(record.thread.load(Ordering::Acquire), parents);
    assert_eq!(lock.words().peek(), 0, "what the child did is its own");
}

#[test]
fn the_choice_tells_of_signals_by_name_only() {
    let choice: &Choice = super::super::backend();
    let named = std::env::var("LOCKSPAN_REVOCABLE_BACKEND").is_ok_and(|name| name == "signal");
    assert_eq!(choice.backend() == Backend::Signal, named, "{choice}");
}

mod inside;
