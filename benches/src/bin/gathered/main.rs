//! Readers that gathered behind a writer: as many let in as there are processors (`Bounded`), or
//! all of them together (`Together`).
//!
//! `cargo run --release -p lockspan-benches --bin gathered` prints a table; with `--smoke` it is
//! very short, and its numbers mean nothing. The two take turns round by round, and a ratio is
//! taken inside each round.

#[path = "../../chance.rs"]
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "how evenly threads are served is measured elsewhere")
)]
mod chance;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use chance::Dice;
use lockspan::thread::fair::{Bounded, Policy, PolicyRwLock, Together};

/// A cell: how many threads, how many of a hundred sections write, and how long a reader sleeps
/// while it has the lock.
const CELLS: [(u64, u32, Duration); 4] = [
    (8, 10, Duration::ZERO),
    (64, 10, Duration::ZERO),
    (64, 50, Duration::ZERO),
    (32, 10, Duration::from_millis(1)),
];

/// What one sample came to.
#[derive(Clone, Copy)]
struct Seen {
    sections_per_s: f64,
    /// The waits of writers.
    p99: Duration,
    longest: Duration,
}

fn sample<P: Policy>(cell: (u64, u32, Duration), time: Duration) -> Seen {
    let (threads, writes, sleep) = cell;
    let lock = PolicyRwLock::<u64, P>::new(0);
    let is_over = AtomicBool::new(false);
    let (lock_ref, over) = (&lock, &is_over);
    let (count, mut waits) = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|me| scope.spawn(move || work(lock_ref, over, me, writes, sleep)))
            .collect();
        thread::sleep(time);
        is_over.store(true, Ordering::Relaxed);
        workers.into_iter().map(|worker| worker.join().expect("a worker panicked")).fold(
            (0, Vec::new()),
            |(count, mut waits), (mine, my_waits)| {
                waits.extend(my_waits);
                (count + mine, waits)
            },
        )
    });
    waits.sort_unstable();
    let at = |part: usize| waits.get(waits.len() * part / 100).or_else(|| waits.last());
    Seen {
        sections_per_s: f64::from(count) / time.as_secs_f64(),
        p99: at(99).copied().unwrap_or_default(),
        longest: at(100).copied().unwrap_or_default(),
    }
}

/// What one thread does: how many sections it had, and how long it waited to write each time.
fn work<P: Policy>(
    lock: &PolicyRwLock<u64, P>,
    is_over: &AtomicBool,
    me: u64,
    writes: u32,
    sleep: Duration,
) -> (u32, Vec<Duration>) {
    let (mut dice, mut count, mut waits) = (Dice::new(me), 0, Vec::new());
    while !is_over.load(Ordering::Relaxed) {
        if dice.roll() < writes {
            let begun = Instant::now();
            *lock.write() += 1;
            waits.push(begun.elapsed());
        } else {
            let guard = lock.read();
            if !sleep.is_zero() {
                thread::sleep(sleep);
            }
            std::hint::black_box(*guard);
        }
        count += 1;
    }
    (count, waits)
}

fn median<T: Copy + PartialOrd>(values: impl Iterator<Item = T>) -> T {
    let mut values: Vec<T> = values.collect();
    values.sort_by(|a, b| a.partial_cmp(b).expect("no NaN is measured"));
    values[values.len() / 2]
}

fn main() {
    let is_smoke = std::env::args().any(|arg| arg == "--smoke");
    let (rounds, time) =
        if is_smoke { (1, Duration::from_millis(20)) } else { (9, Duration::from_millis(400)) };
    println!("Medians of {rounds} rounds of {time:?} each; *Together* stands before *Bounded*.\n");
    println!("| threads | writes | a read takes | sections/s | ratio | writers' p99 | longest |");
    println!("|---|---|---|---|---|---|---|");
    for cell in CELLS {
        let pairs: Vec<(Seen, Seen)> = (0..rounds)
            .map(|round| {
                // Neither is always the first.
                if round % 2 == 0 {
                    let bounded = sample::<Bounded>(cell, time);
                    (sample::<Together>(cell, time), bounded)
                } else {
                    (sample::<Together>(cell, time), sample::<Bounded>(cell, time))
                }
            })
            .collect();
        let ratios = || pairs.iter().map(|(one, other)| one.sections_per_s / other.sections_per_s);
        let both = |of: fn(&Seen) -> f64| {
            let [one, other] = [0, 1].map(|which| {
                median(pairs.iter().map(|pair| of(if which == 0 { &pair.0 } else { &pair.1 })))
            });
            (one, other)
        };
        let sections = both(|seen| seen.sections_per_s);
        let p99 = both(|seen| seen.p99.as_secs_f64() * 1e3);
        let longest = both(|seen| seen.longest.as_secs_f64() * 1e3);
        println!(
            "| {} | {} % | {:?} | {:.0}, {:.0} | {:.2} ({:.2}–{:.2}) | {:.1}, {:.1} ms \
             | {:.1}, {:.1} ms |",
            cell.0,
            cell.1,
            cell.2,
            sections.0,
            sections.1,
            median(ratios()),
            ratios().fold(f64::INFINITY, f64::min),
            ratios().fold(0.0, f64::max),
            p99.0,
            p99.1,
            longest.0,
            longest.1,
        );
    }
}
