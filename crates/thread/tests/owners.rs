//! Owners by name: the same ticket for a thread that acquires again, and cancels that end one given
//! acquisition and no other, among threads that are moved and disturbed.
#![cfg(target_os = "linux")]

mod hostile;

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use hostile::{Running, Worker, disturb, in_a_child, pin, with_every_backend};
use lockspan_thread::revocable::{
    Lock, Owner, Refused, Revoked, Steal, Word, backend, release_all,
};

#[test]
fn all_of_this_with_every_backend() {
    with_every_backend("all_of_this_with_every_backend", || backend().to_string());
}

/// Runs `work` as another thread, to its end.
fn elsewhere(work: impl FnOnce() + Send) {
    thread::scope(|scope| scope.spawn(work).join().unwrap());
}

#[test]
fn an_owner_that_acquires_again_gets_the_same_ticket() {
    let lock = Lock::new(Word::default());
    let first = lock.acquire(Steal::Never).unwrap();
    for steal in [Steal::Never, Steal::Local, Steal::Force] {
        let again = lock.acquire(steal).unwrap();
        assert_eq!(again.owner(), first.owner());
        assert_eq!(again.add(|word| word, 1), Ok(()));
        assert_eq!(first.add(|word| word, 1), Ok(()), "both are good");
        again.keep();
    }
    let again = lock.acquire(Steal::Never).unwrap();
    drop(again);
    assert_eq!(first.add(|word| word, 1), Err(Revoked), "one ownership, which is over");
    assert!(!lock.is_owned());
    assert_eq!(lock.words().peek(), 6);

    // In batches, without a release between them.
    let owner = lock.acquire(Steal::Never).map(|ticket| (ticket.owner(), ticket.keep()).0);
    for _ in 0..100 {
        let ticket = lock.acquire(Steal::Local).unwrap();
        assert_eq!(Ok(ticket.owner()), owner);
        assert_eq!(ticket.add(|word| word, 1), Ok(()));
        ticket.keep();
    }
    release_all();
    let ticket = lock.acquire(Steal::Never).unwrap();
    assert_ne!(Ok(ticket.owner()), owner, "released, so it is another one");
    assert_eq!(lock.words().peek(), 106);
}

/// What a fast path that trusts its memory gets wrong: the ticket of an acquisition that is over.
#[test]
fn after_a_cancel_the_next_acquire_gives_a_ticket_that_can_store() {
    let lock = Lock::new(Word::default());
    let mut owners = HashSet::new();
    for round in 0..200_u64 {
        let ticket = lock.acquire(Steal::Never).unwrap();
        assert!(owners.insert(ticket.owner()), "the owner of round {round} has come before");
        assert_eq!(ticket.add(|word| word, 1), Ok(()));
        ticket.keep();
        match round % 3 {
            0 => lock.cancel(Steal::Force).unwrap(),
            1 => elsewhere(|| lock.cancel(Steal::Force).unwrap()),
            // Ends with the lock.
            _ => elsewhere(|| lock.acquire(Steal::Force).unwrap().keep()),
        }
    }
    assert_eq!(lock.words().peek(), 200);
}

#[test]
fn a_cancel_of_an_owner_that_has_gone_leaves_the_next_one_alone() {
    let lock = Lock::new(Word::default());
    assert_eq!(lock.owner(), None);
    let gone = lock.acquire(Steal::Never).unwrap();
    let owner = gone.owner();
    assert_eq!(lock.owner(), Some(owner));
    assert_eq!(lock.cancel_owner(owner, Steal::Never), Err(Refused::Held));
    gone.release().unwrap();
    assert_eq!(lock.cancel_owner(owner, Steal::Never), Ok(false), "nobody owns it");

    // The same thread again.
    let next = lock.acquire(Steal::Never).unwrap();
    for steal in [Steal::Never, Steal::Local, Steal::Force] {
        assert_eq!(lock.cancel_owner(owner, steal), Ok(false));
        elsewhere(|| assert_eq!(lock.cancel_owner(owner, steal), Ok(false)));
    }
    assert_eq!(next.add(|word| word, 1), Ok(()));

    // An owner of another lock, and one that never was.
    let other = Lock::new(Word::default());
    assert_eq!(other.cancel_owner(next.owner(), Steal::Force), Ok(false));
    let nobody = Owner::from_bits(u64::MAX).unwrap();
    assert_eq!(lock.cancel_owner(nobody, Steal::Force), Ok(false));
    assert_eq!(Owner::from_bits(next.owner().to_bits()), Some(next.owner()));
    assert_eq!(Owner::from_bits(0), None);

    // The one that it is.
    let owner = next.owner();
    elsewhere(|| assert_eq!(lock.cancel_owner(owner, Steal::Force), Ok(true)));
    assert_eq!(next.add(|word| word, 1), Err(Revoked));
    assert_eq!(lock.cancel_owner(next.owner(), Steal::Never), Ok(false));
    assert_eq!((lock.owner(), lock.words().peek()), (None, 1));
}

/// The record of a thread that has ended goes to the next one. Its names do not.
#[test]
fn a_record_that_another_thread_uses_by_now_is_another_owner() {
    static LOCK: Lock<Word> = Lock::new(Word::new(0));
    // Both numbers begin with the record's.
    let record = |owner: Owner| owner.to_bits() >> 44;
    let take = || {
        let ticket = LOCK.acquire(Steal::Never).unwrap();
        let owner = ticket.owner();
        ticket.keep();
        owner
    };
    let mut reused = 0;
    for _ in 0..100 {
        let old = thread::spawn(take).join().unwrap();
        thread::spawn(move || {
            let ticket = LOCK.acquire(Steal::Never).unwrap();
            assert_ne!(ticket.owner(), old);
            assert_eq!(LOCK.cancel_owner(old, Steal::Force), Ok(false));
            assert_eq!(ticket.add(|word| word, 1), Ok(()));
            usize::from(record(ticket.owner()) == record(old))
        })
        .join()
        .map(|same| reused += same)
        .unwrap();
    }
    assert!(reused > 0, "no record was used again: nothing was tested");
    assert_eq!(LOCK.words().peek(), 100);
}

#[test]
fn an_owner_stays_the_same_when_its_thread_is_moved() {
    if thread::available_parallelism().map_or(1, usize::from) < 2 {
        println!("one processor: nobody is moved");
        return;
    }
    let lock = Lock::new(Word::default());
    elsewhere(|| {
        pin(0, 0);
        let ticket = lock.acquire(Steal::Never).unwrap();
        let again = lock.acquire(Steal::Never).unwrap();
        for round in 0..6 {
            pin(0, round % 2);
            assert_eq!(ticket.add(|word| word, 1), Ok(()));
            assert_eq!((lock.owner(), again.check()), (Some(ticket.owner()), Ok(())));
            assert_eq!(again.add(|word| word, 1), Ok(()));
            let third = lock.acquire(Steal::Never).unwrap();
            assert_eq!(third.owner(), ticket.owner());
            pin(0, (round + 1) % 2);
            assert_eq!(third.add(|word| word, 1), Ok(()));
            third.keep();
        }
        let owner = ticket.owner();
        elsewhere(|| assert_eq!(lock.cancel_owner(owner, Steal::Force), Ok(true)));
        assert_eq!([ticket.add(|word| word, 1), again.check()], [Err(Revoked); 2]);
        // A ticket that has not stored since the move releases the lock as well.
        let ticket = lock.acquire(Steal::Never).unwrap();
        let again = lock.acquire(Steal::Never).unwrap();
        pin(0, 0);
        assert_eq!(ticket.add(|word| word, 1), Ok(()));
        pin(0, 1);
        assert_eq!(ticket.add(|word| word, 1), Ok(()));
        assert_eq!(again.release(), Ok(()));
        assert_eq!(ticket.release(), Err(Revoked));
    });
    assert_eq!((lock.is_owned(), lock.words().peek()), (false, 20));
}

#[test]
fn a_child_of_a_fork_acquires_again_what_its_thread_owns() {
    let lock = Lock::new(Word::default());
    let ticket = lock.acquire(Steal::Never).unwrap();
    let fine = in_a_child(|| {
        let again = lock.acquire(Steal::Never).unwrap();
        again.owner() == ticket.owner()
            && again.add(|word| word, 1) == Ok(())
            && lock.cancel_owner(ticket.owner(), Steal::Force) == Ok(true)
            && again.check() == Err(Revoked)
    });
    assert!(fine, "the child found something wrong");
    assert_eq!((ticket.check(), lock.words().peek()), (Ok(()), 0));
}

const WORKERS: usize = 4;
/// How many owners are ended by cancels.
const CANCELS: u64 = if cfg!(debug_assertions) { 20_000 } else { 100_000 };
const LIMIT: Duration = Duration::from_secs(60);

/// What a worker tells of its present acquisition.
#[derive(Clone, Copy, Debug)]
struct Present {
    owner: Owner,
    /// The number of the acquisition, which is in all that it stores.
    number: u64,
}

#[derive(Debug, Default)]
struct Desk {
    lock: Lock<()>,
    /// The number of an acquisition, and in the lower half how often it has stored.
    stored: AtomicU64,
    present: Mutex<Option<Present>>,
    /// All owners that were to be cancelled.
    named: Mutex<HashSet<Owner>>,
}

/// Each worker stores to a word of its own, elsewhere, under a lock that only cancels take from it.
/// The cancels name acquisitions, often ones that are over.
#[test]
fn a_cancel_ends_the_owner_that_it_names_at_once_and_no_other() {
    let desks: Arc<[Desk]> = (0..WORKERS).map(|_| Desk::default()).collect();
    let running = Arc::new(Running::default());
    let workers = (0..WORKERS).map(|at| {
        let (desks, running) = (Arc::clone(&desks), Arc::clone(&running));
        Worker::spawn(move |steps| {
            let desk = &desks[at];
            for number in 1_u64.. {
                if !running.goes_on() {
                    return;
                }
                // A cancel owns the lock for a moment.
                let Ok(ticket) = desk.lock.acquire(Steal::Never) else {
                    thread::yield_now();
                    continue;
                };
                let owner = ticket.owner();
                *desk.present.lock().unwrap() = Some(Present { owner, number });
                let mut count = 0;
                while running.goes_on()
                    && ticket.store_to(&desk.stored, number << 32 | count).is_ok()
                {
                    count += 1;
                    if count % 4_096 == 0 {
                        steps.step();
                        // The gate of a plain lock has no order: this lets a cancel in.
                        thread::yield_now();
                        if number % 4 == 0 {
                            // Over without any cancel.
                            break;
                        }
                    }
                }
                steps.step();
                if ticket.release().is_err() {
                    assert!(desk.named.lock().unwrap().contains(&owner), "{owner:?} was not meant");
                }
            }
        })
    });
    let workers: Vec<_> = workers.collect();
    let canceller = {
        let (desks, running) = (Arc::clone(&desks), Arc::clone(&running));
        thread::spawn(move || {
            let (mut ended, mut late) = (0, 0_u64);
            let mut before: Vec<Option<Present>> = vec![None; WORKERS];
            let mut last = Instant::now();
            // The gate of a plain lock has no order, so a cancel may wait for long.
            let cancels = if backend().backend().name() == "plain" { 100 } else { CANCELS };
            for round in 0.. {
                if ended == cancels {
                    break;
                }
                // The workers must get on for the next owner to come.
                assert!(last.elapsed() < LIMIT, "{ended} cancels in {round} rounds");
                let at = round % WORKERS;
                let desk = &desks[at];
                let present = *desk.present.lock().unwrap();
                // Each second time one that is probably over.
                let target = if (round / WORKERS).is_multiple_of(2) { present } else { before[at] };
                before[at] = present;
                let Some(Present { owner, number }) = target else {
                    thread::yield_now();
                    continue;
                };
                desk.named.lock().unwrap().insert(owner);
                let steal = if round % 5 == 0 { Steal::Local } else { Steal::Force };
                match desk.lock.cancel_owner(owner, steal) {
                    Ok(has_ended) => {
                        if has_ended {
                            (ended, last) = (ended + 1, Instant::now());
                        }
                        let value = desk.stored.load(Ordering::Acquire);
                        for _ in 0..100 {
                            let now = desk.stored.load(Ordering::Acquire);
                            late += u64::from(now != value && now >> 32 == number);
                        }
                    }
                    Err(refused) => {
                        assert_eq!((steal, refused), (Steal::Local, Refused::Held));
                        desk.named.lock().unwrap().remove(&owner);
                    }
                }
            }
            running.stop();
            late
        })
    };
    disturb(workers);
    let late = canceller.join().unwrap();
    assert_eq!(late, 0, "stores after the cancel of their owner had returned");
}
