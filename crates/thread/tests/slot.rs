//! Values of each processor among more threads than processors that are stopped in the middle and
//! moved about: nothing is lost, and there are never more values than the limit allows.
#![cfg(target_os = "linux")]

mod hostile;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use hostile::{Running, Worker, disturb, in_a_child, pin, wait_until, with_every_backend};
use lockspan_thread::percpu::{Slot, backend};

#[test]
fn all_of_this_with_every_backend() {
    with_every_backend("all_of_this_with_every_backend", || backend().to_string());
}

#[test]
fn threads_that_are_moved_and_stopped_lose_nothing_and_the_limit_holds() {
    const THREADS: u64 = 12;
    const ROUNDS: u64 = 60_000;
    const LIMIT: usize = 3;
    let slots = Arc::new(Slot::with_limit(LIMIT, || (0_u64, 0_u64)));
    let add = |slots: Arc<Slot<(u64, u64)>>, seed: u64| {
        move || {
            for round in 0..ROUNDS {
                slots.with(|pair| {
                    assert_eq!(pair.0, pair.1, "somebody else is in");
                    pair.0 += 1;
                    if (round + seed).is_multiple_of(5_000) {
                        // Long enough to be moved in the middle.
                        thread::yield_now();
                    }
                    pair.1 += 1;
                });
            }
        }
    };
    let running = Arc::new(Running::default());
    let (looks, goes_on) = (Arc::clone(&slots), Arc::clone(&running));
    let looks = thread::spawn(move || {
        while goes_on.goes_on() {
            let mut least = 0;
            looks.for_each(|pair| least += pair.0);
            assert!(least <= THREADS * ROUNDS);
            thread::yield_now();
        }
    });
    let worker = |n| {
        let work = add(Arc::clone(&slots), n);
        Worker::spawn(move |steps| {
            work();
            steps.step();
        })
    };
    disturb((0..THREADS).map(worker).collect());
    running.stop();
    looks.join().unwrap();
    let mut sum = 0;
    slots.for_each(|pair| sum += pair.0);
    assert_eq!(sum, THREADS * ROUNDS);
    assert!(slots.len() <= LIMIT * slots.cpus());
}

#[test]
fn a_child_of_a_fork_has_values_although_others_were_in_the_middle() {
    let slots = Arc::new(Slot::new(|| 0_u64));
    let running = Arc::new(Running::default());
    let (there, goes_on) = (Arc::clone(&slots), Arc::clone(&running));
    let (sender, receiver) = std::sync::mpsc::channel();
    let thread = thread::spawn(move || {
        there.with(|value| {
            *value += 1;
            sender.send(()).unwrap();
            while goes_on.goes_on() {
                thread::yield_now();
            }
        });
    });
    receiver.recv().unwrap();
    // The value that the other thread has stays taken in the child, and a spare is there for it.
    assert!(in_a_child(|| (0..1_000).all(|_| slots.with(|value| {
        *value += 1;
        *value > 0
    }))));
    running.stop();
    thread.join().unwrap();
}

#[test]
fn a_child_of_a_fork_has_spares_although_others_were_making_some() {
    // How many spares are being made, and whether that may end.
    static MAKING: AtomicUsize = AtomicUsize::new(0);
    static ARE_DONE: AtomicBool = AtomicBool::new(false);
    static IS_SLOW: AtomicBool = AtomicBool::new(false);
    let make = || {
        if IS_SLOW.load(Ordering::Acquire) {
            MAKING.fetch_add(1, Ordering::AcqRel);
            wait_until("nobody lets it end", || ARE_DONE.load(Ordering::Acquire));
        }
        0_u64
    };
    // On the processor where this thread stays, and so does the child.
    pin(0, 0);
    let slots = Arc::new(Slot::new(make));
    IS_SLOW.store(true, Ordering::Release);
    let there = Arc::clone(&slots);
    let thread = thread::spawn(move || {
        let _value = there.lock();
        drop(there.lock());
    });
    wait_until("nobody makes a spare", || MAKING.load(Ordering::Acquire) > 0);
    let in_the_child = in_a_child(|| {
        IS_SLOW.store(false, Ordering::Release);
        let _value = slots.lock();
        slots.try_lock().is_some()
    });
    ARE_DONE.store(true, Ordering::Release);
    thread.join().unwrap();
    assert!(in_the_child);
}
