//! A writer gets its turn although there is always a reader inside.
//!
//! Run: `cargo run -p lockspan-examples --bin no_starvation`
//!
//! You will see the writer get the lock, ten times out of ten. Each reader keeps its guard until
//! another reader has entered as well, so the lock is never free of readers by chance. A lock that
//! prefers readers would starve the writer. Here new readers have to queue behind a waiting writer.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lockspan::thread::fair::RwLock;

const TURNS: u32 = 10;
/// Far more than the lock ever needs. Without a bound on waiting no timeout would be long enough.
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

/// Waits until another reader has entered, for 5 ms at most: the writer may keep it out.
fn hold_until_another_enters(entered: &AtomicUsize, mine: usize) {
    let start = Instant::now();
    while entered.load(Ordering::Relaxed) == mine + 1 && start.elapsed() < Duration::from_millis(5)
    {
        thread::yield_now();
    }
}
