//! A writer gets its turn although readers never let the lock go free.
//!
//! Run: `cargo run -p lockspan-examples --bin no_starvation`
//!
//! You will see the writer get in, ten times of ten. Each reader keeps its guard until another
//! reader has come in as well, so the lock is never free of readers by chance: a lock that prefers
//! readers would make the writer wait for ever. Here a writer that waits closes the door to
//! newcomers.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lockspan::thread::fair::RwLock;

const TURNS: u32 = 10;
/// Far more than the lock ever needs; without a bound on waiting no time would be enough.
const PATIENCE: Duration = Duration::from_secs(30);

fn main() {
    let lock = RwLock::new(0);
    let entered = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let guard = lock.read();
                    let mine = entered.fetch_add(1, Ordering::Relaxed);
                    hold_until_another_enters(&entered, mine);
                    drop(guard);
                }
            });
        }
        while entered.load(Ordering::Relaxed) == 0 {
            thread::yield_now();
        }
        for _ in 0..TURNS {
            match lock.try_write_for(PATIENCE) {
                Some(mut turns) => *turns += 1,
                None => println!("a writer starved"),
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    println!("the writer had {} turns of {TURNS}", lock.read());
}

/// Waits for another reader, but not for one that the writer keeps out.
fn hold_until_another_enters(entered: &AtomicUsize, mine: usize) {
    let start = Instant::now();
    while entered.load(Ordering::Relaxed) == mine + 1 && start.elapsed() < Duration::from_millis(5)
    {
        thread::yield_now();
    }
}
