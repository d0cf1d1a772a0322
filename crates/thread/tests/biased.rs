//! Biased mutexes whose bias is taken away all the time, among signals, threads that are moved
//! about, panics and forks: no update is lost. The data is not atomic and is changed in two steps.
#![cfg(target_os = "linux")]

mod hostile;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use hostile::{Running, Worker, disturb, in_a_child, with_every_backend};
use lockspan_thread::biased::{Backend, Mutex, MutexExt as _, backend};

const THREADS: u64 = 6;

/// Two numbers that are the same whenever nobody is in.
#[derive(Debug, Default)]
struct Pair(u64, u64);

impl Pair {
    /// Adds in two steps; in between is `pause`.
    fn add(&mut self, pause: u64) {
        assert_eq!(self.0, self.1, "somebody else is in");
        self.0 = std::hint::black_box(self.0 + 1);
        for _ in 0..pause {
            std::hint::spin_loop();
        }
        self.1 = std::hint::black_box(self.1 + 1);
    }
}

fn next(random: &mut u64) -> u64 {
    *random =
        random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *random >> 33
}

#[test]
fn all_of_this_with_every_backend() {
    with_every_backend("all_of_this_with_every_backend", || backend().to_string());
}

#[test]
fn a_bias_that_is_taken_all_the_time_loses_no_update() {
    const BURSTS: u64 = 60;
    const BURST: u64 = 6_000;
    let lock = Arc::new(Mutex::new(Pair::default()));
    let burst = |lock: Arc<Mutex<Pair>>, number: u64| {
        move || {
            for round in 0..BURSTS {
                // Long enough for a bias by each thread, now and then with a wide window.
                (0..BURST).for_each(|n| lock.lock().add(if n % 1_000 == number { 300 } else { 0 }));
                if round % 3 == 0 {
                    thread::yield_now();
                }
            }
        }
    };
    let worker = |n| {
        let work = burst(Arc::clone(&lock), n);
        Worker::spawn(move |steps| {
            work();
            steps.step();
        })
    };
    disturb((0..THREADS).map(worker).collect());
    assert_eq!(lock.lock().0, THREADS * BURSTS * BURST);
}

#[test]
fn fresh_locks_are_robbed_before_they_know_better() {
    const LOCKS: usize = 400;
    let locks: Arc<Vec<_>> = Arc::new((0..LOCKS).map(|_| Mutex::new(Pair::default())).collect());
    let walk = |locks: Arc<Vec<Mutex<Pair>>>, seed: u64| {
        move || {
            let mut random = seed;
            for _ in 0..LOCKS * 4 {
                let lock = &locks[next(&mut random) as usize % LOCKS];
                (0..40).for_each(|_| lock.lock().add(0));
            }
        }
    };
    // Who comes after another thread's end has that one's record, and no need to rob.
    let all_are_done = Arc::new(Barrier::new(THREADS as usize));
    let worker = |n| {
        let (work, all_are_done) = (walk(Arc::clone(&locks), n), Arc::clone(&all_are_done));
        Worker::spawn(move |steps| {
            work();
            steps.step();
            all_are_done.wait();
        })
    };
    disturb((0..THREADS).map(worker).collect());
    let sum: u64 = locks.iter().map(|lock| lock.lock().0).sum();
    assert_eq!(sum, THREADS * LOCKS as u64 * 4 * 40);
    let steals: u32 = locks.iter().map(|lock| lock.steals()).sum();
    assert_eq!(steals > 100, backend().backend() != Backend::Plain, "{steals}");
}

#[test]
fn a_thief_that_comes_while_the_owner_goes_in_and_out_loses_no_update() {
    const LOCKS: usize = 6_000;
    const MORE: u64 = 100;
    let locks: Vec<_> = (0..LOCKS).map(|_| Mutex::new(Pair::default())).collect();
    let biased = AtomicUsize::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            for (at, lock) in locks.iter().enumerate() {
                (0..10).for_each(|_| lock.lock().add(0));
                biased.store(at + 1, Ordering::Release);
                (0..MORE).for_each(|_| lock.lock().add(0));
            }
        });
        for (at, lock) in locks.iter().enumerate() {
            while biased.load(Ordering::Acquire) <= at {
                thread::yield_now();
            }
            (0..MORE).for_each(|_| lock.lock().add(0));
        }
    });
    assert!(locks.iter().all(|lock| lock.lock().0 == 10 + 2 * MORE));
}

#[test]
fn nested_locks_timeouts_and_panics_lose_no_update() {
    const ROUNDS: u64 = 20_000;
    const LOCKS: usize = 12;
    let locks: Arc<Vec<_>> = Arc::new((0..LOCKS).map(|_| Mutex::new(Pair::default())).collect());
    let storm = |locks: Arc<Vec<Mutex<Pair>>>, seed: u64| {
        move || {
            let (mut random, mut done) = (seed, 0);
            for _ in 0..ROUNDS {
                let start = next(&mut random) as usize % LOCKS;
                match next(&mut random) % 8 {
                    0 => {
                        // Upwards, so that there is no deadlock; let go in another order.
                        let mut held: Vec<_> = locks[start..].iter().map(Mutex::lock).collect();
                        held.iter_mut().for_each(|held| held.add(0));
                        done += held.len() as u64;
                        while !held.is_empty() {
                            let at = next(&mut random) as usize % held.len();
                            drop(held.swap_remove(at));
                        }
                    }
                    1 => {
                        let wait = Duration::from_micros(next(&mut random) % 100);
                        if let Some(mut held) = locks[start].try_lock_for(wait) {
                            held.add(50);
                            done += 1;
                        }
                    }
                    2 => {
                        if let Some(mut held) = locks[start].try_lock() {
                            held.add(0);
                            done += 1;
                        }
                    }
                    3 if next(&mut random).is_multiple_of(64) => {
                        let panics = AssertUnwindSafe(|| {
                            let mut held = locks[start].lock();
                            held.add(0);
                            std::panic::resume_unwind(Box::new("on purpose"));
                        });
                        assert!(catch_unwind(panics).is_err());
                        done += 1;
                    }
                    _ => {
                        (0..20).for_each(|_| locks[start].lock().add(0));
                        done += 20;
                    }
                }
            }
            TOTAL.lock().push(done);
        }
    };
    static TOTAL: Mutex<Vec<u64>> = Mutex::new(Vec::new());
    let worker = |n| {
        let work = storm(Arc::clone(&locks), n);
        Worker::spawn(move |steps| {
            work();
            steps.step();
        })
    };
    disturb((0..THREADS).map(worker).collect());
    let sum: u64 = locks.iter().map(|lock| lock.lock().0).sum();
    assert_eq!(sum, TOTAL.lock().iter().sum::<u64>());
}

#[test]
fn threads_that_end_leave_their_biases_to_others() {
    let lock = Arc::new(Mutex::new(Pair::default()));
    for _ in 0..20 {
        let threads = (0..20).map(|_| {
            let lock = Arc::clone(&lock);
            thread::spawn(move || (0..100).for_each(|_| lock.lock().add(0)))
        });
        threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
    }
    assert_eq!(lock.lock().0, 20 * 20 * 100);
}

#[test]
fn a_child_of_a_fork_takes_biases_of_threads_that_are_not_there() {
    let mine = Mutex::new(0);
    (0..20).for_each(|_| *mine.lock() += 1);
    let theirs = Arc::new(Mutex::new(0));
    let running = Arc::new(Running::default());
    let (lock, goes_on) = (Arc::clone(&theirs), Arc::clone(&running));
    let (sender, receiver) = std::sync::mpsc::channel();
    // Has the bias and sits still, outside of the lock.
    let thread = thread::spawn(move || {
        (0..20).for_each(|_| *lock.lock() += 1);
        sender.send(()).unwrap();
        while goes_on.goes_on() {
            thread::yield_now();
        }
    });
    receiver.recv().unwrap();
    let in_the_child = in_a_child(|| {
        let uses = (0..100).all(|n| {
            *mine.lock() += 1;
            *theirs.lock() += 1;
            *mine.lock() == 21 + n && *theirs.lock() == 21 + n
        });
        uses && theirs.steals() == u32::from(backend().backend() != Backend::Plain)
    });
    assert!(in_the_child);
    running.stop();
    thread.join().unwrap();
    assert_eq!((*mine.lock(), *theirs.lock()), (20, 20));
}
