//! What the lock promises, in one thread and in many.

use std::thread;
use std::time::Duration;

use super::{AloneGuard, AtomicGuard, ClaimGuard, ClaimLock, Holders, JoinGuard, Phase, ReadGuard};
use crate::sync::{AtomicU32, Ordering};

const SHORT: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(60);

/// Who gets in without waiting: readers, an exclusive joiner.
fn open_for<T>(lock: &ClaimLock<T>) -> [bool; 2] {
    let read = lock.try_read().is_some();
    let alone = lock.try_join_alone().is_some();
    [read, alone]
}

#[test]
fn every_transition_gives_the_next_state() {
    let lock = ClaimLock::new(());
    assert_eq!(open_for(&lock), [true, true]);
    let read = lock.read();
    assert_eq!(open_for(&lock), [true, false]);
    let join = ReadGuard::join(read);
    assert_eq!(open_for(&lock), [false, false]);
    let claim = JoinGuard::try_claim(join).unwrap();
    let atomic = ClaimGuard::atomic(claim);
    let claim = AtomicGuard::claim(atomic);
    let read = ClaimGuard::refuge(claim);
    assert_eq!(open_for(&lock), [true, false]);
    drop(ReadGuard::claim(read));
    drop(lock.claim());
    assert_eq!(open_for(&lock), [true, true]);

    let alone = lock.join_alone();
    assert_eq!(open_for(&lock), [false, false]);
    let claim = AloneGuard::claim(alone);
    assert_eq!(open_for(&lock), [false, false]);
    drop(claim);
    let atomic = AloneGuard::atomic(lock.join_alone());
    let read = AtomicGuard::read(atomic);
    assert_eq!(open_for(&lock), [true, false]);
    drop(read);
    drop(AloneGuard::read(lock.join_alone()));
    lock.raw.assert_at_rest();
}

#[test]
fn a_lock_says_who_is_inside() {
    let lock = ClaimLock::new(());
    let inside = || {
        let Holders { phase, readers, joiners, atomics } = lock.raw.holders();
        (phase, readers, joiners, atomics)
    };
    assert_eq!(inside(), (Phase::Open, 0, 0, 0));
    let (read, other) = (lock.read(), lock.read());
    assert_eq!(inside(), (Phase::Open, 2, 0, 0));
    let join = ReadGuard::join(read);
    assert_eq!(inside(), (Phase::Joining, 1, 1, 0));
    let other = ReadGuard::join(other);
    assert_eq!(inside(), (Phase::Claiming, 0, 2, 0));
    let shown = format!("{lock:?}");
    assert!(shown.contains("phase: Claiming") && shown.contains("joiners: 2"), "{shown}");
    drop(other);
    let atomic = ClaimGuard::atomic(JoinGuard::claim(join));
    assert_eq!(inside(), (Phase::Changing, 0, 0, 1));
    drop(atomic);
    assert!(lock.raw.is_idle());
    let _alone = lock.join_alone();
    assert_eq!(inside(), (Phase::Alone, 0, 0, 0));
    assert!(!lock.raw.is_idle());
}

#[test]
fn who_is_alone_may_write() {
    let lock = ClaimLock::new(1);
    *lock.join_alone() += 1;
    assert_eq!(*lock.read(), 2);
}

#[test]
fn a_joiner_works_on_while_a_reader_reads() {
    let lock = ClaimLock::new(7);
    let read = lock.read();
    let join = ReadGuard::join(lock.read());
    assert_eq!(*read + *join, 14);
    let join = JoinGuard::try_claim(join).unwrap_err();
    let join = JoinGuard::claim_timeout(join, SHORT).unwrap_err();
    drop(read);
    drop(JoinGuard::claim_timeout(join, LONG).unwrap());
    lock.raw.assert_at_rest();
}

#[test]
fn who_retracts_from_join_lets_readers_in_again() {
    let lock = ClaimLock::new(());
    let read = lock.read();
    let join = ReadGuard::join(lock.read());
    assert_eq!(open_for(&lock), [false, false]);
    drop(join);
    assert_eq!(open_for(&lock), [true, false]);
    drop(read);
    lock.raw.assert_at_rest();
}

#[test]
fn waits_that_are_too_long_leave_the_guard_as_it_was() {
    let lock = ClaimLock::new(());
    let (one, two) = (lock.read(), lock.read());
    let (one, two) = (ReadGuard::join(one), ReadGuard::join(two));
    let (one, two) = (JoinGuard::claim(one), JoinGuard::claim(two));
    let one = ClaimGuard::atomic_timeout(one, SHORT).unwrap_err();
    assert!(lock.read_timeout(SHORT).is_none());
    assert!(lock.join_alone_timeout(SHORT).is_none());
    assert!(lock.claim_timeout(SHORT).is_none());
    drop(two);
    let one = ClaimGuard::atomic_timeout(one, LONG).unwrap();
    drop(AtomicGuard::read_timeout(one, LONG).unwrap());
    lock.raw.assert_at_rest();
}

#[test]
fn claimants_wait_for_each_other() {
    let lock = ClaimLock::new(AtomicU32::new(0));
    let (one, two) = (lock.read(), lock.read());
    thread::scope(|scope| {
        let first = scope.spawn(|| {
            let claim = ReadGuard::claim(one);
            claim.fetch_add(1, Ordering::Relaxed);
            let atomic = ClaimGuard::atomic(claim);
            assert_eq!(atomic.load(Ordering::Relaxed), 2, "all claims are made");
        });
        let claim = ReadGuard::claim(two);
        claim.fetch_add(1, Ordering::Relaxed);
        drop(claim);
        first.join().unwrap();
    });
    lock.raw.assert_at_rest();
}

/// Every kind of way at once: marks are made in the claim phase only, taken back in the atomic one.
#[test]
fn many_threads_on_every_way() {
    let (threads, rounds) = if cfg!(miri) { (4, 15) } else { (16, 1_500) };
    let lock = ClaimLock::new((AtomicU32::new(0), AtomicU32::new(0)));
    let changed: u32 = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|me| {
                let lock = &lock;
                scope.spawn(move || (0..rounds).map(|round| work(lock, me + round)).sum::<u32>())
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    lock.raw.assert_at_rest();
    let (marks, changes) = lock.into_inner();
    assert_eq!(marks.into_inner(), 0);
    assert_eq!(changes.into_inner(), changed);
}

/// Marks and changes.
type Data = (AtomicU32, AtomicU32);

fn mark(claim: &ClaimGuard<'_, Data>) {
    claim.0.fetch_add(1, Ordering::Relaxed);
}

fn unmark(claim: &Data) {
    claim.0.fetch_sub(1, Ordering::Relaxed);
}

fn change(claim: ClaimGuard<'_, Data>) -> AtomicGuard<'_, Data> {
    mark(&claim);
    let atomic = ClaimGuard::atomic(claim);
    atomic.1.fetch_add(1, Ordering::Relaxed);
    unmark(&atomic);
    atomic
}

fn look(read: &ReadGuard<'_, Data>) {
    assert_eq!(read.0.load(Ordering::Relaxed), 0, "a mark is seen by a reader");
    let seen = read.1.load(Ordering::Relaxed);
    thread::yield_now();
    assert_eq!(read.1.load(Ordering::Relaxed), seen, "it changed under a reader");
}

fn work(lock: &ClaimLock<Data>, kind: u32) -> u32 {
    match kind % 8 {
        0 => drop(change(lock.claim())),
        1 => {
            let read = AtomicGuard::read(change(lock.claim()));
            look(&read);
        }
        2 => {
            drop(change(AtomicGuard::claim(change(lock.claim()))));
            return 2;
        }
        3 => {
            let claim = lock.claim();
            mark(&claim);
            unmark(&claim);
            drop(claim);
            return 0;
        }
        4 => {
            drop(ReadGuard::join(lock.read()));
            return 0;
        }
        5 => {
            let mut alone = lock.join_alone();
            *alone.1.get_mut() += 1;
            drop(AloneGuard::atomic(alone));
        }
        6 => {
            let read = ClaimGuard::refuge(lock.claim());
            look(&read);
            return 0;
        }
        _ => {
            look(&lock.read());
            return 0;
        }
    }
    1
}
