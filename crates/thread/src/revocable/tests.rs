//! What each call promises, where no two threads are needed, and a few where they are.

use std::sync::mpsc;
use std::thread;

use super::record::{self, Name};
use super::{Backend, Lock, Refused, Revoked, Steal, Word, backend, release_all};

#[derive(Debug, Default)]
struct Pair {
    one: Word,
    two: Word,
}

#[test]
fn an_owner_loads_stores_adds_and_compares() {
    let lock = Lock::new(Pair::default());
    assert!(!lock.is_owned());
    let ticket = lock.acquire(Steal::Never).unwrap();
    assert!(lock.is_owned());
    assert_eq!(ticket.store(|pair| &pair.one, 5), Ok(()));
    assert_eq!(ticket.add(|pair| &pair.one, 3), Ok(()));
    assert_eq!(ticket.add(|pair| &pair.two, u64::MAX), Ok(()));
    assert_eq!(ticket.add(|pair| &pair.two, 2), Ok(()));
    assert_eq!(ticket.load(|pair| &pair.one), Ok(8));
    assert_eq!(ticket.load(|pair| &pair.two), Ok(1));
    assert_eq!(ticket.compare_and_store(|pair| &pair.one, 8, 9), Ok(Ok(())));
    assert_eq!(ticket.compare_and_store(|pair| &pair.one, 8, 10), Ok(Err(9)));
    assert_eq!(lock.words().one.peek(), 9);
    assert_eq!(ticket.release(), Ok(()));
    assert!(!lock.is_owned());
}

/// Runs `work` as another thread, to its end.
fn elsewhere(work: impl FnOnce() + Send) {
    thread::scope(|scope| scope.spawn(work).join().unwrap());
}

#[test]
fn whoever_is_robbed_can_do_nothing_any_more() {
    let lock = Lock::new(Word::new(1));
    let victim = lock.acquire(Steal::Never).unwrap();
    elsewhere(|| {
        assert_eq!(lock.acquire(Steal::Never).unwrap_err(), Refused::Held);
        let thief = lock.acquire(Steal::Force).unwrap();
        assert_eq!(thief.load(|word| word), Ok(1));
        thief.keep();
    });
    let mut victim = victim;
    assert_eq!(victim.check(), Err(Revoked));
    assert_eq!(victim.load(|word| word), Err(Revoked));
    assert_eq!(victim.store(|word| word, 2), Err(Revoked));
    assert_eq!(victim.add(|word| word, 2), Err(Revoked));
    assert_eq!(victim.compare_and_store(|word| word, 1, 2), Err(Revoked));
    assert_eq!(lock.words().peek(), 1);
    assert_eq!(victim.renew(Steal::Never), Ok(true), "the thief has ended");
    assert_eq!(victim.renew(Steal::Never), Ok(false));
    assert_eq!(victim.store(|word| word, 2), Ok(()));
    assert_eq!(victim.release(), Ok(()));
}

#[test]
fn a_dropped_ticket_releases_and_a_stolen_one_leaves_the_thief_alone() {
    let lock = Lock::new(Word::default());
    drop(lock.acquire(Steal::Never).unwrap());
    let victim = lock.acquire(Steal::Never).unwrap();
    lock.cancel(Steal::Force).unwrap();
    let thief = lock.acquire(Steal::Force).unwrap();
    drop(victim);
    assert_eq!(thief.check(), Ok(()));
}

#[test]
fn a_limited_ticket_counts_what_it_has_stored_and_releases_the_lock() {
    let lock = Lock::new(Word::default());
    let elsewhere = crate::sync::machine::AtomicU64::new(0);
    let ticket = lock.acquire(Steal::Never).unwrap().limit(5);
    assert_eq!(ticket.store(|word| word, 1), Ok(()));
    assert_eq!(ticket.add(|word| word, 1), Ok(()));
    assert_eq!(ticket.compare_and_store(|word| word, 7, 8), Ok(Err(2)), "this does not count");
    assert_eq!(ticket.compare_and_store(|word| word, 2, 3), Ok(Ok(())));
    assert_eq!(ticket.load(|word| word), Ok(3));
    assert_eq!(ticket.store_to(&elsewhere, 4), Ok(()));
    assert_eq!(ticket.check(), Ok(()));
    // SAFETY: an atomic of this function's.
    assert_eq!(unsafe { ticket.store_raw(elsewhere.as_ptr(), 5) }, Ok(()), "the fifth is made");
    assert!(!lock.is_owned(), "and it was the last one");
    assert_eq!(ticket.store(|word| word, 9), Err(Revoked));
    ticket.set_limit(2);
    assert_eq!(ticket.store(|word| word, 9), Err(Revoked));
    assert_eq!(lock.words().peek(), 3);
    let mut ticket = ticket;
    for round in 0..3 {
        assert_eq!(ticket.renew(Steal::Never), Ok(true), "{round}");
        assert_eq!(ticket.renew(Steal::Never), Ok(false));
        assert_eq!(ticket.add(|word| word, 1), Ok(()));
        assert_eq!(ticket.add(|word| word, 1), Ok(()));
        assert_eq!(ticket.check(), Err(Revoked), "the count begins anew with each acquisition");
    }
    drop(ticket);

    let ticket = lock.acquire(Steal::Never).unwrap().limit(0);
    let many = if cfg!(miri) { 100 } else { 10_000 };
    assert!((0..many).all(|n| ticket.store(|word| word, n) == Ok(())), "0 is no limit");
    ticket.set_limit(1);
    let ticket = ticket.without_limit();
    assert!((0..10).all(|n| ticket.store(|word| word, n) == Ok(())));
}

#[test]
fn everything_is_released_at_once_and_the_locks_are_free_for_others() {
    let locks: Vec<Lock<Word>> = (0..10).map(|_| Lock::default()).collect();
    let tickets: Vec<_> = locks.iter().map(|lock| lock.acquire(Steal::Never).unwrap()).collect();
    release_all();
    assert!(locks.iter().all(|lock| !lock.is_owned()));
    assert!(tickets.iter().all(|ticket| ticket.store(|word| word, 1) == Err(Revoked)));
    let mine = locks[0].acquire(Steal::Never).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| assert!(locks[1].acquire(Steal::Never).is_ok()));
    });
    assert_eq!(mine.store(|word| word, 2), Ok(()), "what is acquired later is not released");
    drop(tickets);
    assert_eq!(mine.check(), Ok(()));
}

#[test]
fn a_cancel_leaves_the_lock_to_nobody() {
    let lock = Lock::new(Word::new(1));
    assert_eq!(lock.cancel(Steal::Never), Ok(()), "nobody owns it");
    let ticket = lock.acquire(Steal::Never).unwrap();
    assert_eq!(lock.cancel(Steal::Never), Err(Refused::Held));
    assert_eq!(ticket.check(), Ok(()));
    assert_eq!(lock.cancel(Steal::Force), Ok(()));
    assert_eq!(ticket.check(), Err(Revoked));
    assert!(!lock.is_owned());
}

#[test]
fn what_an_ended_thread_owned_is_free() {
    static LOCK: Lock<Word> = Lock::new(Word::new(0));
    thread::spawn(|| std::mem::forget(LOCK.acquire(Steal::Never).unwrap())).join().unwrap();
    let ticket = LOCK.acquire(Steal::Never).unwrap();
    assert_eq!(ticket.store(|word| word, 1), Ok(()));
}

#[test]
fn another_thread_forces_the_lock_from_one_that_sleeps() {
    let lock = Lock::new(Word::default());
    let (owned, is_owned) = mpsc::channel();
    let (go_on, goes_on) = mpsc::channel();
    thread::scope(|scope| {
        let lock = &lock;
        scope.spawn(move || {
            let ticket = lock.acquire(Steal::Never).unwrap();
            ticket.store(|word| word, 7).unwrap();
            owned.send(()).unwrap();
            goes_on.recv().unwrap();
            assert_eq!(ticket.store(|word| word, 8), Err(Revoked));
        });
        is_owned.recv().unwrap();
        assert_eq!(lock.acquire(Steal::Never).unwrap_err(), Refused::Held);
        let ticket = lock.acquire(Steal::Force).unwrap();
        assert_eq!(ticket.load(|word| word), Ok(7));
        go_on.send(()).unwrap();
        drop(go_on);
    });
    assert_eq!(lock.words().peek(), 7);
}

#[test]
fn names_say_what_their_record_knows() {
    thread::spawn(|| {
        let record = record::mine().unwrap();
        let first = record.name(3);
        assert_eq!(Name::of(first.word()), Some(first));
        assert!(std::ptr::eq(first.record(), record));
        assert_eq!(Name::of(0), None);
        assert_eq!(record.cpu_of(first), Some(3));
        let second = record.name(3);
        assert_eq!((record.cpu_of(first), record.cpu_of(second)), (Some(3), Some(3)));
        let third = record.name(4).moved();
        assert!(third.has_moved() && !second.has_moved());
        assert_eq!(record.own_name(third.word()), Some(third));
        assert_eq!(record.own_name(third.word() | record::MARK), None);
        assert_eq!((record.cpu_of(second), record.cpu_of(third)), (None, Some(4)));
        record.settle(second);
        assert!(record.has_settled(first) && !record.has_settled(third));
        record.release_all();
        assert!(record.has_released(third) && !record.has_released(record.name(4)));
        assert!(!record.is_left_behind());
    })
    .join()
    .unwrap();
}

#[test]
fn threads_that_come_and_go_share_records_but_no_names() {
    let names: Vec<u64> = (0..50)
        .map(|_| thread::spawn(|| record::mine().unwrap().name(0).word()).join().unwrap())
        .collect();
    let different: std::collections::HashSet<_> = names.iter().collect();
    assert_eq!(different.len(), names.len());
}

#[test]
fn the_backend_is_one_of_the_three() {
    let known = [Backend::Rseq, Backend::Membarrier, Backend::Plain];
    assert!(known.contains(&backend().backend()));
}
