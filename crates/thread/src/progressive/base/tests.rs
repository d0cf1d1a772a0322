//! What the lock promises, in one thread and in many.

use std::mem;
use std::thread;
use std::time::{Duration, Instant};

use super::word::MOST;
use super::{AtomicGuard, Holders, Lock, RawLock, ReadGuard, SeekGuard, WriteGuard};
use crate::sync::{AtomicU32, Ordering};

const SHORT: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(60);

/// Who gets in without waiting: readers, a seeker, a writer, atomics.
fn open_for(lock: &Lock<AtomicU32>) -> [bool; 4] {
    let read = lock.try_read().is_some();
    let seek = lock.try_seek().is_some();
    let write = lock.try_write().is_some();
    let atomic = lock.try_atomic().is_some();
    [read, seek, write, atomic]
}

fn lock() -> Lock<AtomicU32> {
    Lock::new(AtomicU32::new(0))
}

#[test]
fn each_state_lets_in_whom_it_says() {
    let lock = lock();
    assert_eq!(open_for(&lock), [true, true, true, true]);
    let read = lock.read();
    assert_eq!(open_for(&lock), [true, true, false, false]);
    drop(read);
    let seek = lock.seek();
    assert_eq!(open_for(&lock), [true, false, false, false]);
    drop(seek);
    let write = lock.write();
    assert_eq!(open_for(&lock), [false; 4]);
    drop(write);
    let atomic = lock.atomic();
    assert_eq!(open_for(&lock), [false, false, false, true]);
    drop(atomic);
    lock.raw.assert_at_rest();
}

#[test]
fn every_transition_gives_the_next_state() {
    let lock = lock();
    let seek = ReadGuard::try_seek(lock.read()).unwrap();
    assert_eq!(open_for(&lock), [true, false, false, false]);
    let write = SeekGuard::write(seek);
    assert_eq!(open_for(&lock), [false; 4]);
    let seek = WriteGuard::seek(write);
    assert_eq!(open_for(&lock), [true, false, false, false]);
    let read = SeekGuard::read(seek);
    assert_eq!(open_for(&lock), [true, true, false, false]);
    let atomic = ReadGuard::atomic(read).unwrap();
    assert_eq!(open_for(&lock), [false, false, false, true]);
    let read = AtomicGuard::read(atomic);
    assert_eq!(open_for(&lock), [true, true, false, false]);
    let read = AtomicGuard::try_read(ReadGuard::try_atomic(read).unwrap()).unwrap();
    assert_eq!(open_for(&lock), [true, true, false, false]);
    drop(read);
    let read = WriteGuard::read(lock.write());
    assert_eq!(open_for(&lock), [true, true, false, false]);
    drop(read);
    drop(SeekGuard::try_write(lock.seek()).unwrap());
    lock.raw.assert_at_rest();
}

#[test]
fn what_is_refused_gives_the_guard_back() {
    let lock = lock();
    let seek = lock.seek();
    let read = ReadGuard::try_seek(lock.read()).unwrap_err();
    let read = ReadGuard::try_atomic(read).unwrap_err();
    let read = ReadGuard::atomic(read).unwrap_err();
    let read = ReadGuard::atomic_timeout(read, LONG).unwrap_err();
    let seek = SeekGuard::try_write(seek).unwrap_err();
    let seek = SeekGuard::write_timeout(seek, SHORT).unwrap_err();
    // It still seeks, and readers come in again.
    assert_eq!(open_for(&lock), [true, false, false, false]);
    drop(read);
    drop(SeekGuard::write_timeout(seek, LONG).unwrap());

    let (one, two) = (lock.read(), lock.read());
    let one = ReadGuard::try_atomic(one).unwrap_err();
    let one = ReadGuard::atomic_timeout(one, SHORT).unwrap_err();
    assert_eq!(open_for(&lock), [true, true, false, false]);
    drop(two);
    let one = ReadGuard::atomic_timeout(one, LONG).unwrap();
    let two = lock.atomic();
    let one = AtomicGuard::try_read(one).unwrap_err();
    let one = AtomicGuard::read_timeout(one, SHORT).unwrap_err();
    assert_eq!(open_for(&lock), [false, false, false, true]);
    drop(two);
    drop(AtomicGuard::read_timeout(one, LONG).unwrap());
    lock.raw.assert_at_rest();
}

#[test]
fn a_wait_that_is_too_long_leaves_nothing() {
    let lock = lock();
    let read = lock.read();
    assert!(lock.write_timeout(SHORT).is_none());
    assert!(lock.atomic_timeout(SHORT).is_none());
    drop(read);
    let write = lock.write();
    assert!(lock.read_timeout(SHORT).is_none());
    assert!(lock.seek_timeout(SHORT).is_none());
    assert!(lock.write_timeout(SHORT).is_none());
    drop(write);
    lock.raw.assert_at_rest();
    assert!(lock.read_timeout(Duration::MAX).is_some());
    assert!(lock.seek_timeout(SHORT).is_some());
    assert!(lock.write_timeout(LONG).is_some());
    assert!(lock.atomic_timeout(LONG).is_some());
}

#[test]
#[cfg_attr(miri, ignore = "half a million steps")]
fn a_timed_reader_waits_for_room_in_the_count_until_its_time() {
    let lock = RawLock::new();
    while lock.try_read() {}
    let end = Instant::now() + Duration::from_millis(20);
    assert!(!lock.read_until(end));
    assert!(Instant::now() >= end, "it gave up before its time");
    thread::scope(|scope| {
        let waits = scope.spawn(|| lock.read_until(Instant::now() + LONG));
        lock.read_done();
        assert!(waits.join().unwrap(), "there was room in time");
    });
}

#[test]
#[cfg_attr(miri, ignore = "half a million steps")]
fn more_than_can_be_counted_are_refused() {
    let raw = RawLock::new();
    for _ in 0..MOST - 1 {
        assert!(raw.try_read());
    }
    assert!(!raw.try_read());
    assert!(!raw.read_until(Instant::now() + SHORT));
    raw.seek();
    raw.seek_to_read();
    assert!(!raw.try_read());
    assert!(!raw.try_seek(), "it could not become a reader");
    raw.read_done();
    for _ in 0..MOST - 1 {
        raw.read_done();
    }
    raw.assert_at_rest();

    for _ in 0..MOST {
        assert!(raw.try_atomic());
    }
    assert!(!raw.try_atomic());
    for _ in 0..MOST {
        raw.atomic_done();
    }
    raw.assert_at_rest();
}

#[test]
#[should_panic(expected = "were guards forgotten?")]
#[cfg_attr(miri, ignore = "half a million steps")]
fn a_reader_that_cannot_be_counted_panics() {
    let lock = lock();
    for _ in 0..MOST {
        mem::forget(lock.read());
    }
}

#[test]
fn a_panic_ends_the_hold() {
    let lock = lock();
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _write = lock.write();
        panic!("under the guard");
    }));
    assert!(caught.is_err());
    lock.raw.assert_at_rest();
}

#[test]
fn a_lock_says_who_is_inside() {
    let lock = lock();
    let (read, second) = (lock.read(), lock.read());
    let shown = format!("{lock:?}");
    assert!(shown.contains("readers: 2"), "{shown}");
    drop(second);
    let none = Holders::default();
    assert_eq!(lock.raw.holders(), Holders { readers: 1, ..none });
    let seek = ReadGuard::try_seek(read).unwrap();
    assert_eq!(lock.raw.holders(), Holders { seeker: true, ..none });
    let write = SeekGuard::write(seek);
    assert_eq!(lock.raw.holders(), Holders { writer: true, ..none });
    drop(write);
    let _atomics = (lock.atomic(), lock.atomic());
    assert_eq!(lock.raw.holders(), Holders { atomics: 2, ..none });
}

#[test]
fn a_lock_is_idle_when_nobody_is_inside() {
    let lock = lock();
    assert!(lock.raw.is_idle());
    let read = lock.read();
    assert!(!lock.raw.is_idle());
    drop(read);
    assert!(lock.raw.is_idle());
}

/// Every kind of way at once; the count of each is in the data.
#[test]
fn many_threads_on_every_way() {
    let (threads, rounds) = if cfg!(miri) { (4, 20) } else { (16, 2_000) };
    let lock = Lock::new((0_u32, AtomicU32::new(0)));
    let added: (u32, u32) = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|me| {
                let lock = &lock;
                scope.spawn(move || {
                    let mut added = (0, 0);
                    for round in 0..rounds {
                        work(lock, me + round, &mut added);
                    }
                    added
                })
            })
            .collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap())
            .fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
    });
    lock.raw.assert_at_rest();
    let (written, counted) = lock.into_inner();
    assert_eq!((written, counted.into_inner()), added);
}

/// What is written, and what is counted by atomics.
type Data = (u32, AtomicU32);

fn write<'a>(mut write: WriteGuard<'a, Data>, added: &mut (u32, u32)) -> WriteGuard<'a, Data> {
    write.0 += 1;
    added.0 += 1;
    write
}

fn work(lock: &Lock<Data>, kind: u32, added: &mut (u32, u32)) {
    match kind % 8 {
        0 => drop(write(lock.write(), added)),
        1 => drop(SeekGuard::read(WriteGuard::seek(write(SeekGuard::write(lock.seek()), added)))),
        2 => match ReadGuard::try_seek(lock.read()) {
            Ok(seek) => drop(write(SeekGuard::write(seek), added)),
            Err(read) => drop(read),
        },
        3 => {
            let read = lock.read();
            let moved =
                if kind % 16 == 3 { ReadGuard::atomic(read) } else { ReadGuard::try_atomic(read) };
            if let Ok(atomic) = moved {
                atomic.1.fetch_add(1, Ordering::Relaxed);
                added.1 += 1;
            }
        }
        4 => {
            let atomic = lock.atomic();
            atomic.1.fetch_add(1, Ordering::Relaxed);
            added.1 += 1;
            let read = AtomicGuard::read(atomic);
            let seen = read.1.load(Ordering::Relaxed);
            thread::yield_now();
            assert_eq!(read.1.load(Ordering::Relaxed), seen, "it changed under a reader");
        }
        5 => {
            if let Some(guard) = lock.write_timeout(Duration::from_micros(50)) {
                drop(write(guard, added));
            }
        }
        _ => {
            let read = lock.read();
            let seen = (read.0, read.1.load(Ordering::Relaxed));
            thread::yield_now();
            assert_eq!((read.0, read.1.load(Ordering::Relaxed)), seen, "it changed under a reader");
        }
    }
}
