//! The process-shared lock among threads of one process: limits, deadlines, and a stress run.

use std::cell::UnsafeCell;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::bits::{MOST_READERS, READER, WAITER};
use super::{Outcome, SharedRwLock};
use crate::clock::{Clock, Deadline, deadline};
use crate::sync::Ordering;

fn in_millis(millis: u64) -> Option<Deadline> {
    let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + Duration::from_millis(millis);
    deadline(Clock::Realtime, at.as_secs() as i64, i64::from(at.subsec_nanos()))
}

/// Makes `word` the state of the lock, however it came to that.
fn put(lock: &SharedRwLock, word: u64) {
    while lock.main.change(lock.main.load(Ordering::Relaxed), word, Ordering::Relaxed).is_err() {}
}

fn read_unlock(lock: &SharedRwLock) {
    // SAFETY: the tests call it once for each read hold.
    unsafe { SharedRwLock::read_unlock(&raw const *lock) };
}

fn write_unlock(lock: &SharedRwLock) {
    // SAFETY: the tests call it once for each write hold.
    unsafe { SharedRwLock::write_unlock(&raw const *lock) };
}

#[test]
fn one_reader_more_than_the_word_holds_is_refused() {
    let lock = SharedRwLock::new();
    put(&lock, MOST_READERS * READER);
    assert_eq!(lock.read(None), Outcome::Full);
    assert_eq!(lock.try_read(true), Outcome::Full);
    read_unlock(&lock);
    assert_eq!(lock.try_read(false), Outcome::Held);
    assert_eq!(lock.try_write(), Outcome::NotHeld);
}

#[test]
fn readers_who_wait_count_against_the_limit() {
    let lock = SharedRwLock::new();
    assert_eq!(lock.write(None), Outcome::Held);
    put(&lock, super::WRITER + MOST_READERS * WAITER);
    assert_eq!(lock.read(in_millis(0)), Outcome::Full);
    write_unlock(&lock);
    assert_eq!(super::readers(lock.main.load(Ordering::Relaxed)), MOST_READERS);
}

#[test]
#[cfg_attr(miri, ignore = "sleeps on half a word")]
fn a_reader_behind_a_waiting_writer_waits_unless_it_reads_already() {
    let lock = SharedRwLock::new();
    assert_eq!(lock.read(None), Outcome::Held);
    // All holds are given up before anything is asserted: the writer must not wait forever.
    let (behind, again) = std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(lock.write(None), Outcome::Held);
            write_unlock(&lock);
        });
        while lock.try_read(false) == Outcome::Held {
            read_unlock(&lock);
            std::thread::yield_now();
        }
        let outcomes = (lock.read(in_millis(5)), lock.try_read(true));
        for outcome in [outcomes.0, outcomes.1, Outcome::Held] {
            if outcome == Outcome::Held {
                read_unlock(&lock);
            }
        }
        outcomes
    });
    assert_eq!((behind, again), (Outcome::NotHeld, Outcome::Held));
    assert!(lock.is_idle());
}

#[test]
#[cfg_attr(miri, ignore = "sleeps on half a word")]
fn a_deadline_long_past_still_takes_a_free_lock() {
    let lock = SharedRwLock::new();
    let past = deadline(Clock::Monotonic, -5, 0);
    assert_eq!(lock.read(past), Outcome::Held);
    assert!(lock.is_read());
    assert_eq!(lock.write(past), Outcome::NotHeld);
    read_unlock(&lock);
    assert_eq!(lock.write(past), Outcome::Held);
    assert_eq!(lock.read(past), Outcome::NotHeld);
    assert_eq!(lock.write(past), Outcome::NotHeld);
    assert!(lock.is_held() && !lock.is_read());
    write_unlock(&lock);
    assert!(lock.is_idle() && !lock.is_held() && !lock.is_read());
}

#[test]
fn phases_count_round() {
    let lock = SharedRwLock::new();
    put(&lock, super::PHASE | super::WRITER | WAITER);
    write_unlock(&lock);
    assert_eq!(lock.main.load(Ordering::Relaxed), READER);
}

#[test]
#[cfg_attr(miri, ignore = "sleeps on half a word")]
fn eight_threads_with_all_calls_keep_the_count() {
    struct Counter(SharedRwLock, UnsafeCell<u64>);
    // SAFETY: the cell is used under the lock only.
    unsafe impl Sync for Counter {}

    let counter = Counter(SharedRwLock::new(), UnsafeCell::new(0));
    let rounds = 20_000;
    let added: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|me: u64| {
                let counter = &counter;
                scope.spawn(move || {
                    (0..rounds)
                        .filter(|round| one_round(&counter.0, &counter.1, me + round))
                        .count()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap() as u64).sum()
    });
    assert!(counter.0.is_idle());
    assert_eq!(counter.1.into_inner(), added);
}

/// One call of the kind that `round` says; true if it added one.
fn one_round(lock: &SharedRwLock, cell: &UnsafeCell<u64>, round: u64) -> bool {
    let (write, outcome) = match round % 7 {
        0 => (true, lock.write(None)),
        1 => (true, lock.write(deadline(Clock::Monotonic, 0, 0))),
        2 => (true, lock.try_write()),
        3 => (false, lock.read(in_millis(1))),
        4 => (false, lock.try_read(false)),
        _ => (false, lock.read(None)),
    };
    if outcome != Outcome::Held {
        return false;
    }
    if write {
        // SAFETY: held for writing.
        let before = unsafe { *cell.get() };
        std::hint::spin_loop();
        // SAFETY: held for writing.
        unsafe { *cell.get() = before + 1 };
        write_unlock(lock);
    } else {
        // SAFETY: held for reading.
        let first = unsafe { *cell.get() };
        std::hint::spin_loop();
        // SAFETY: held for reading.
        let second = unsafe { *cell.get() };
        assert_eq!(first, second, "a writer was in beside a reader");
        read_unlock(lock);
    }
    write
}
