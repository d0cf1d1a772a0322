//! More threads than cores, every operation at once: data, order and counts are checked.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use lockspan_thread::fair::{
    Bounded, Policy, PolicyRwLock, RwLockExt, RwLockUpgradableReadGuard, RwLockWriteGuard, Strict,
    Together,
};

const THREADS: u64 = 16;
const ROUNDS: u64 = 4_000;

/// Four words that only a broken lock shows unequal, and a count that only it loses.
#[derive(Default)]
struct Data {
    words: [u64; 4],
}

impl Data {
    fn bump(&mut self) {
        for word in &mut self.words {
            *word += 1;
        }
    }

    fn check(&self) -> u64 {
        assert!(self.words.iter().all(|word| *word == self.words[0]), "{:?}", self.words);
        self.words[0]
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// A small generator; each thread has its own seed.
fn next(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

/// One random operation; returns how often it wrote.
fn operate<P: Policy>(lock: &PolicyRwLock<Data, P>, choice: u64) -> u64 {
    let write = |guard: &mut Data| {
        guard.bump();
        1
    };
    match choice % 12 {
        0 | 1 => write(&mut lock.write()),
        2 => lock.try_write().map_or(0, |mut guard| write(&mut guard)),
        3 => {
            let guard = lock.try_write_for(Duration::from_micros(choice / 16 % 200));
            guard.map_or(0, |mut guard| write(&mut guard))
        }
        4 => {
            let mut guard = lock.write();
            guard.bump();
            let guard = RwLockWriteGuard::downgrade(guard);
            guard.check();
            1
        }
        5 => {
            let guard = lock.upgradable_read();
            let seen = guard.check();
            let mut guard = RwLockUpgradableReadGuard::upgrade(guard);
            assert_eq!(guard.check(), seen, "somebody wrote during an upgrade");
            write(&mut guard)
        }
        6 => {
            let guard = lock.upgradable_read();
            let timeout = Duration::from_micros(choice / 16 % 100);
            match RwLockUpgradableReadGuard::try_upgrade_for(guard, timeout) {
                Ok(mut guard) => write(&mut guard),
                Err(guard) => {
                    guard.check();
                    0
                }
            }
        }
        7 => write(&mut block_on(lock.write_async())),
        8 => {
            // A future that is given up after one look, with or without the lock.
            let mut future = pin!(lock.write_async());
            match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(mut guard) => write(&mut guard),
                Poll::Pending => 0,
            }
        }
        9 => {
            block_on(lock.read_async()).check();
            0
        }
        10 => {
            RwLockWriteGuard::unlock_fair(lock.write());
            0
        }
        _ => {
            let outer = lock.read();
            outer.check();
            lock.read_recursive().check();
            0
        }
    }
}

fn stress<P: Policy>() {
    let lock = PolicyRwLock::<Data, P>::new(Data::default());
    let written = AtomicU64::new(0);
    thread::scope(|scope| {
        for number in 1..=THREADS {
            let (lock, written) = (&lock, &written);
            scope.spawn(move || {
                let mut seed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let mut count = 0;
                for _ in 0..ROUNDS {
                    count += operate(lock, next(&mut seed));
                }
                written.fetch_add(count, Ordering::Relaxed);
            });
        }
    });
    assert_eq!(lock.write().check(), written.into_inner(), "a write was lost or made twice");
    assert!(!lock.is_locked());
    // SAFETY: only asked whether anybody is left inside.
    assert!(unsafe { lock.raw() }.retire(), "the word is zero at rest");
}

#[test]
fn everything_at_once_while_others_pass() {
    stress::<Bounded>();
}

#[test]
fn everything_at_once_with_a_bound_that_is_always_over() {
    stress::<Bounded<0>>();
}

#[test]
fn everything_at_once_while_readers_go_in_together() {
    stress::<Together>();
}

#[test]
fn everything_at_once_in_strict_order() {
    stress::<Strict>();
}
