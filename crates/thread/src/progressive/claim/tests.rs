//! What the lock promises, in one thread and in many.

use std::thread;
use std::time::Duration;

use super::{
    AloneGuard, AtomicGuard, ClaimGuard, ClaimLock, Holders, JoinGuard, Phase, RawClaimLock,
    ReadGuard, Unfinished,
};
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

/// Whether others get in without waiting: to read, to claim, to change, alone.
fn admits<T>(lock: &ClaimLock<T>) -> [bool; 4] {
    let claim = lock.try_claim().is_some();
    let atomic = lock.try_atomic().is_some();
    let [read, alone] = open_for(lock);
    [read, claim, atomic, alone]
}

#[test]
fn atomics_from_outside_come_in_beside_atomics_only() {
    let lock = ClaimLock::new(());
    assert_eq!(admits(&lock), [true; 4]);
    let read = lock.read();
    assert_eq!(admits(&lock), [true, false, false, false]);
    assert!(lock.atomic_timeout(SHORT).is_none());
    assert_eq!(admits(&lock), [true, false, false, false], "nothing is left of the timed wait");
    let claim = ReadGuard::claim(read);
    assert_eq!(admits(&lock), [false; 4]);
    assert!(lock.atomic_timeout(SHORT).is_none());
    let atomic = ClaimGuard::atomic(claim);
    assert_eq!(admits(&lock), [false, false, true, false]);
    let other = lock.atomic_timeout(LONG).unwrap();
    let third = lock.atomic();

    // One that joins again waits for the atomics inside; no more come in.
    let join = AtomicGuard::join(other);
    assert_eq!(admits(&lock), [false; 4]);
    let other = JoinGuard::try_atomic(join).unwrap();
    assert_eq!(admits(&lock), [false, false, true, false], "it gave up and is an atomic again");
    drop((atomic, other, third));
    assert_eq!(admits(&lock), [true; 4]);
    lock.raw.assert_at_rest();
}

#[test]
fn an_atomic_that_waits_for_readers_keeps_others_out_and_comes_in_with_the_last_one() {
    let lock = ClaimLock::new(AtomicU32::new(0));
    let read = lock.read();
    thread::scope(|scope| {
        let changer = scope.spawn(|| lock.atomic().fetch_add(1, Ordering::Relaxed));
        while lock.raw.holders().atomics == 0 {
            thread::yield_now();
        }
        assert_eq!(lock.raw.holders().phase, Phase::Joining);
        assert_eq!(open_for(&lock), [false, false]);
        assert_eq!(read.load(Ordering::Relaxed), 0);
        // A reader may still join, and claims before the atomic changes.
        let claim = ReadGuard::claim(read);
        assert_eq!(claim.load(Ordering::Relaxed), 0);
        let atomic = ClaimGuard::atomic(claim);
        drop(atomic);
        changer.join().unwrap();
    });
    lock.raw.assert_at_rest();
    assert_eq!(lock.into_inner().into_inner(), 1);
}

#[test]
fn a_joiner_goes_back_to_where_it_came_from() {
    let lock = ClaimLock::new(());
    // From Read, beside a reader.
    let (one, two) = (lock.read(), lock.read());
    let join = ReadGuard::join(one);
    let join = JoinGuard::try_atomic(join).unwrap_err();
    let join = JoinGuard::atomic_timeout(join, SHORT).unwrap_err();
    let one = JoinGuard::try_read(join).unwrap();
    assert_eq!(open_for(&lock), [true, false], "others may read again");
    let one = JoinGuard::read(ReadGuard::join(one));
    let one = JoinGuard::read_timeout(ReadGuard::join(one), SHORT).expect("others read");
    drop((one, two));

    // From Read, when the claim phase has begun.
    let join = ReadGuard::join(lock.read());
    let atomic = JoinGuard::try_atomic(join).unwrap();
    assert_eq!(lock.raw.holders().phase, Phase::Changing);
    let other = lock.atomic();

    // From Atomic, beside an atomic.
    let join = AtomicGuard::join(atomic);
    let join = JoinGuard::try_read(join).unwrap_err();
    let Err(Unfinished::Back(join)) = JoinGuard::read_timeout(join, SHORT) else {
        panic!("it joined in this atomic phase, which goes on");
    };
    let join = JoinGuard::try_claim(join).unwrap_err();
    let atomic = JoinGuard::atomic(join);
    let atomic = JoinGuard::atomic_timeout(AtomicGuard::join(atomic), SHORT).unwrap();
    drop((atomic, other));

    // From outside.
    let read = lock.read();
    assert!(lock.claim_timeout(SHORT).is_none());
    assert_eq!(open_for(&lock), [true, false]);
    drop(read);
    lock.raw.assert_at_rest();
}

#[test]
fn steps_that_do_not_wait_are_refused_beside_others_and_made_alone() {
    let lock = ClaimLock::new(());
    let (one, two) = (lock.read(), lock.read());
    let one = ReadGuard::try_claim(one).unwrap_err();
    assert_eq!(open_for(&lock), [true, false], "a refused step changes nothing");
    let (one, two) = (ReadGuard::join(one), ReadGuard::try_claim(two).unwrap());
    let one = JoinGuard::try_claim(one).unwrap();
    let one = ClaimGuard::try_atomic(one).unwrap_err();
    let one = ClaimGuard::try_refuge(one).unwrap_err();
    drop(two);
    let one = ClaimGuard::try_atomic(one).unwrap();
    let two = lock.try_atomic().unwrap();
    let one = AtomicGuard::try_read(one).unwrap_err();
    let one = AtomicGuard::try_claim(one).unwrap_err();
    drop(two);
    let one = AtomicGuard::try_claim(one).unwrap();
    let read = ClaimGuard::try_refuge(one).unwrap();
    let claim = ReadGuard::try_claim(read).unwrap();
    drop(AtomicGuard::try_read(ClaimGuard::atomic(claim)).unwrap());
    drop(lock.try_claim().unwrap());
    lock.raw.assert_at_rest();
}

#[test]
fn a_timed_next_round_ends_in_atomic_or_half_way_in_join() {
    let lock = ClaimLock::new(());
    let (one, two) = (lock.atomic(), lock.atomic());
    let Err(Unfinished::Back(one)) = AtomicGuard::claim_timeout(one, SHORT) else {
        panic!("another atomic is there");
    };
    assert!(lock.try_atomic().is_some(), "it is an atomic as before");
    thread::scope(|scope| {
        let reader = scope.spawn(|| AtomicGuard::read(two));
        while lock.raw.holders().readers == 0 {
            thread::yield_now();
        }
        let join = AtomicGuard::join(one);
        let read = reader.join().unwrap();
        // The other reads, so nobody can be in Atomic.
        let join = JoinGuard::try_atomic(join).unwrap_err();
        drop(read);
        drop(JoinGuard::claim(join));
    });
    // The same in one step.
    let (one, two) = (lock.atomic(), lock.atomic());
    thread::scope(|scope| {
        let reader = scope.spawn(|| AtomicGuard::read(two));
        while lock.raw.holders().readers == 0 {
            thread::yield_now();
        }
        let Err(Unfinished::HalfWay(join)) = AtomicGuard::claim_timeout(one, SHORT) else {
            panic!("the other reads");
        };
        drop(reader.join().unwrap());
        drop(JoinGuard::claim_timeout(join, LONG).unwrap());
    });
    let one = lock.atomic();
    drop(AtomicGuard::claim_timeout(one, SHORT).expect("nobody else is there"));
    lock.raw.assert_at_rest();
}

#[test]
fn a_timed_refuge_ends_in_claim_or_half_way_in_atomic() {
    let lock = ClaimLock::new(());
    let (one, two) = (lock.read(), lock.read());
    let one = ReadGuard::join(one);
    let two = ReadGuard::claim(two);
    let one = JoinGuard::claim(one);
    let Err(Unfinished::Back(one)) = ClaimGuard::refuge_timeout(one, SHORT) else {
        panic!("the other claims");
    };
    thread::scope(|scope| {
        let other = scope.spawn(|| ClaimGuard::atomic(two));
        while lock.raw.holders().atomics == 0 {
            thread::yield_now();
        }
        let Err(Unfinished::HalfWay(one)) = ClaimGuard::refuge_timeout(one, SHORT) else {
            panic!("the other changes");
        };
        let other = other.join().unwrap();
        let one = AtomicGuard::read_timeout(one, SHORT).unwrap_err();
        drop(other);
        drop(AtomicGuard::read(one));
    });
    let claim = lock.claim();
    drop(ClaimGuard::refuge_timeout(claim, SHORT).expect("nobody else is there"));
    lock.raw.assert_at_rest();
}

#[test]
fn plock_p14_a_joiner_whose_time_to_read_again_is_over_does_not_claim_by_what_has_changed() {
    let lock = ClaimLock::new(AtomicU32::new(0));
    // The other still claims: nothing has changed, and the joiner is one as before.
    let (one, two) = (lock.read(), lock.read());
    let (one, two) = (ReadGuard::join(one), ReadGuard::claim(two));
    let Err(Unfinished::Back(one)) = JoinGuard::read_timeout(one, SHORT) else {
        panic!("the other claims");
    };
    assert_eq!(lock.raw.holders().joiners, 2);
    drop((one, two));

    // Another waits to change, and does so when the last joiner gives up.
    let read = lock.read();
    assert_eq!(read.load(Ordering::Relaxed), 0);
    let join = ReadGuard::join(read);
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            let atomic = lock.atomic();
            atomic.store(1, Ordering::Relaxed);
            atomic
        });
        while lock.raw.holders().atomics == 0 {
            thread::yield_now();
        }
        // The other's guard lives until it is joined, so the time is over before it leaves.
        let Err(Unfinished::HalfWay(atomic)) = JoinGuard::read_timeout(join, SHORT) else {
            panic!("the data changes, so neither Read nor the Join from before can be had");
        };
        let other = other.join().unwrap();
        assert_eq!(lock.raw.holders().atomics, 2);
        let atomic = AtomicGuard::read_timeout(atomic, SHORT).unwrap_err();
        drop(other);
        let read = AtomicGuard::read(atomic);
        assert_eq!(read.load(Ordering::Relaxed), 1, "it sees the change before it claims again");
    });
    lock.raw.assert_at_rest();
}

#[test]
fn more_than_can_be_counted_are_refused() {
    if cfg!(miri) {
        return; // Half a million steps.
    }
    const MOST: u32 = 524_287;
    let raw = RawClaimLock::new();
    for _ in 0..MOST {
        assert!(raw.try_atomic());
    }
    assert!(!raw.try_atomic() && !raw.atomic_unless_full());
    raw.atomic_to_join();
    assert_eq!(raw.holders().atomics, MOST - 1);
    assert!(raw.try_join_to_atomic());
    (0..MOST).for_each(|_| raw.atomic_done());
    for _ in 0..MOST {
        assert!(raw.try_read());
    }
    assert!(!raw.try_read() && !raw.try_claim() && !raw.claim_unless_full());
    assert!(!raw.atomic_unless_full(), "the readers and the atomics would be too many");
    (0..MOST).for_each(|_| raw.read_done());
    raw.assert_at_rest();
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
    assert_eq!(lock.raw.holders().joiners, 2, "both claim");
    assert!(lock.read_timeout(SHORT).is_none());
    assert!(lock.join_alone_timeout(SHORT).is_none());
    assert!(lock.claim_timeout(SHORT).is_none());
    drop(two);
    let one = ClaimGuard::atomic_timeout(one, LONG).unwrap();
    let one = AtomicGuard::read_timeout(one, LONG).unwrap();
    let two = lock.read();
    let one = ReadGuard::claim_timeout(one, SHORT).unwrap_err();
    assert_eq!(open_for(&lock), [true, false], "others may read again");
    drop(two);
    drop(ReadGuard::claim_timeout(one, LONG).unwrap());
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
    match kind % 11 {
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
        7 => {
            lock.atomic().1.fetch_add(1, Ordering::Relaxed);
        }
        8 => {
            let Some(atomic) = lock.atomic_timeout(Duration::from_micros(50)) else { return 0 };
            atomic.1.fetch_add(1, Ordering::Relaxed);
            let Ok(atomic) = JoinGuard::try_atomic(AtomicGuard::join(atomic)) else { return 1 };
            atomic.1.fetch_add(1, Ordering::Relaxed);
            return 2;
        }
        9 => {
            let read = lock.read();
            match ReadGuard::claim_timeout(read, Duration::from_micros(50)) {
                Ok(claim) => drop(change(claim)),
                Err(read) => {
                    look(&read);
                    return 0;
                }
            }
        }
        _ => {
            look(&lock.read());
            return 0;
        }
    }
    1
}
