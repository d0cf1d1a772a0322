//! Small cases, also for Miri; `tests/biased.rs` has the storms.

use std::sync::Barrier;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::record::SLOTS;
use super::{Mutex, MutexExt as _, fences};

/// More than enough uses for a bias, if there are biases.
fn biased(start: u64) -> Mutex<u64> {
    let lock = Mutex::new(start);
    for _ in 0..10 {
        *lock.lock() += 0;
    }
    assert_eq!(lock.is_biased(), fences::are_usable());
    lock
}

#[test]
fn the_data_is_what_was_put_in() {
    let mut lock = biased(5);
    *lock.lock() += 1;
    assert_eq!(*lock.lock(), 6);
    *lock.get_mut() += 1;
    assert_eq!(format!("{lock:?}"), "Mutex { data: 7 }");
    assert_eq!(lock.into_inner(), 7);
    assert_eq!(*Mutex::<u8>::default().lock(), 0);
    assert_eq!(*Mutex::from("text").lock(), "text");
}

#[test]
fn another_thread_takes_the_bias_and_sees_everything() {
    let lock = biased(0);
    *lock.lock() = 1;
    thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(*lock.lock(), 1);
            *lock.lock() += 1;
        });
    });
    assert_eq!(*lock.lock(), 2);
    assert_eq!(lock.steals(), u32::from(fences::are_usable()));
    assert!(!lock.is_biased());
}

#[test]
fn a_thief_waits_for_the_owner_and_no_longer_than_it_wants() {
    let lock = biased(0);
    let held = lock.lock();
    thread::scope(|scope| {
        let waits = scope.spawn(|| {
            assert!(lock.try_lock().is_none());
            let begun = Instant::now();
            assert!(lock.try_lock_for(Duration::from_millis(5)).is_none());
            assert!(lock.try_lock_until(begun + Duration::from_millis(10)).is_none());
            assert!(begun.elapsed() >= Duration::from_millis(10));
            assert!(lock.is_locked());
        });
        waits.join().unwrap();
        let waits = scope.spawn(|| *lock.lock() += 1);
        drop(held);
        waits.join().unwrap();
    });
    assert!(!lock.is_locked());
    assert_eq!(*lock.lock(), 1);
}

#[test]
fn many_are_held_at_once_and_let_go_in_any_order() {
    let locks: Vec<_> = (0..SLOTS + 3).map(|n| biased(n as u64)).collect();
    for turn in 0..4 {
        let mut held: Vec<_> = locks.iter().map(|lock| lock.lock()).collect();
        assert!(locks.iter().all(|lock| lock.is_locked() && lock.try_lock().is_none()));
        while !held.is_empty() {
            drop(held.swap_remove((turn * 7) % held.len()));
        }
        assert!(locks.iter().all(|lock| !lock.is_locked()));
    }
}

#[test]
fn rlock_r7_a_second_lock_by_the_same_thread_is_noticed_in_every_slot() {
    let (one, two) = (biased(1), biased(2));
    let first = one.lock();
    let second = two.lock();
    assert!(one.try_lock().is_none() && two.try_lock().is_none());
    drop(first);
    // The first slot is free now, and `two` is in another one.
    assert!(two.try_lock().is_none());
    assert!(two.try_lock_for(Duration::from_millis(1)).is_none());
    if fences::are_usable() {
        // Seen to be hopeless, and no reason to panic.
        assert!(two.try_lock_for(Duration::MAX).is_none());
        let again = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(two.lock())));
        assert!(again.is_err());
    }
    drop(second);
    assert_eq!(*one.lock() + *two.lock(), 3);
}

#[test]
fn a_panic_under_a_guard_lets_the_lock_go() {
    let lock = biased(0);
    for _ in 0..3 {
        let panics = std::panic::AssertUnwindSafe(|| {
            let _held = lock.lock();
            panic!("as it should");
        });
        assert!(std::panic::catch_unwind(panics).is_err());
        *lock.lock() += 1;
    }
    assert_eq!(*lock.lock(), 3);
}

#[test]
fn a_bias_outlives_its_thread_and_costs_the_next_one_nothing_but_the_theft() {
    let lock = Mutex::new(0);
    for _ in 0..5 {
        thread::scope(|scope| {
            scope.spawn(|| (0..20).for_each(|_| *lock.lock() += 1));
        });
    }
    assert_eq!(*lock.lock(), 100);
}

#[test]
fn rlock_r8_a_forgotten_guard_keeps_its_lock_and_no_other() {
    let lock = Box::new(biased(0));
    std::mem::forget(lock.lock());
    assert!(lock.try_lock().is_none());
    thread::scope(|scope| {
        scope.spawn(|| assert!(lock.try_lock().is_none()));
    });
    // Wherever it goes.
    let moved = *lock;
    assert!(moved.is_locked() && moved.try_lock().is_none());
    assert_eq!(moved.into_inner(), 0);
    for _ in 0..20 {
        let next = Box::new(biased(0));
        *next.lock() += 1;
        assert_eq!(next.try_lock().map(|held| *held), Some(1));
    }
}

#[test]
fn a_forgotten_guard_of_a_fair_hold_keeps_its_lock_as_well() {
    let lock = Mutex::new(0);
    std::mem::forget(lock.lock());
    let moved = Box::new(lock);
    assert!(moved.is_locked() && moved.try_lock().is_none());
    assert_eq!(moved.into_inner(), 0);
}

#[test]
fn a_lock_that_takes_the_place_of_one_with_a_forgotten_guard_is_free() {
    let mut locks = vec![biased(0), biased(1)];
    std::mem::forget(locks[0].lock());
    locks.swap_remove(0);
    assert!(!locks[0].is_locked());
    assert_eq!(locks[0].try_lock().map(|held| *held), Some(1));

    let mut place = Box::new(biased(0));
    std::mem::forget(place.lock());
    *place = biased(1);
    thread::scope(|scope| {
        let waits = scope.spawn(|| place.try_lock_for(Duration::from_secs(60)).map(|held| *held));
        assert_eq!(waits.join().unwrap(), Some(1));
    });
}

#[test]
fn a_guard_in_a_thread_local_value_is_let_go_at_the_end_of_its_thread() {
    type Kept = std::cell::RefCell<Option<super::MutexGuard<'static, u64>>>;
    static LOCK: Mutex<u64> = Mutex::new(0);
    thread_local! {
        static KEPT: Kept = const { std::cell::RefCell::new(None) };
    }
    for _ in 0..3 {
        let thread = thread::spawn(|| {
            // Registered before the record is made, so that it goes after it.
            KEPT.with_borrow_mut(|kept| assert!(kept.is_none()));
            (0..10).for_each(|_| *LOCK.lock() += 1);
            KEPT.with_borrow_mut(|kept| *kept = Some(LOCK.lock()));
        });
        thread.join().unwrap();
    }
    assert_eq!(*LOCK.lock(), 30);
}

#[test]
fn two_threads_that_use_it_by_turns_make_it_an_ordinary_lock() {
    let lock = Mutex::new(0_u64);
    let turns = Barrier::new(2);
    let rounds = if cfg!(miri) { 20 } else { 2_000 };
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..rounds {
                    turns.wait();
                    for _ in 0..10 {
                        *lock.lock() += 1;
                    }
                }
            });
        }
    });
    assert_eq!(*lock.lock(), 20 * rounds);
    // 8, 64, 512 in a row: more is not to be had by turns of ten, unless one thread was that late.
    assert!(lock.steals() < 20, "{}", lock.steals());
}

#[test]
fn a_thread_without_a_record_takes_the_fair_lock() {
    // At the end of a thread there are no records any more.
    struct Late(mpsc::Sender<u64>);
    impl Drop for Late {
        fn drop(&mut self) {
            static LOCK: Mutex<u64> = Mutex::new(0);
            (0..20).for_each(|_| *LOCK.lock() += 1);
            self.0.send(*LOCK.lock()).unwrap();
        }
    }
    thread_local! {
        static LATE: std::cell::RefCell<Option<Late>> = const { std::cell::RefCell::new(None) };
    }
    let (sender, receiver) = mpsc::channel();
    let thread = thread::spawn(move || {
        LATE.with_borrow_mut(|late| *late = Some(Late(sender)));
        assert_eq!(biased(0).into_inner(), 0);
    });
    thread.join().unwrap();
    assert_eq!(receiver.recv(), Ok(20));
}
