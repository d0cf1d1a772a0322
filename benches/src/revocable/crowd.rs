//! Threads on some processors that do the same until they are stopped: the CPU time that it took
//! them, and how often they were taken off.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::system;
use crate::clock;

/// Operations between two looks at the stop flag.
pub(crate) const BATCH: u64 = 512;

/// What a thread of a crowd works with.
pub(crate) struct Me<'a> {
    /// The number of its processor among those of the crowd.
    pub(crate) place: usize,
    stop: &'a AtomicBool,
    tally: &'a Tally,
    batches: u64,
}

/// What all threads together came to.
#[derive(Debug, Default)]
struct Tally {
    operations: AtomicU64,
    nanos: AtomicU64,
    switches: AtomicU64,
    evictions: AtomicU64,
    hard: AtomicU64,
}

/// The same, for a reader.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) operations: u64,
    /// Cycles of CPU time of one operation.
    pub(crate) cycles: f64,
    pub(crate) switches: u64,
    pub(crate) evictions: u64,
    pub(crate) hard: u64,
}

impl Me<'_> {
    /// Whether there is another batch to be done.
    #[inline]
    pub(crate) fn goes_on(&mut self) -> bool {
        let goes_on = !self.stop.load(Ordering::Relaxed);
        self.batches += u64::from(goes_on);
        goes_on
    }

    /// Counts evictions.
    pub(crate) fn tell(&self, evictions: u64, hard: u64) {
        self.tally.evictions.fetch_add(evictions, Ordering::Relaxed);
        self.tally.hard.fetch_add(hard, Ordering::Relaxed);
    }
}

/// Lets `threads` threads `work` for a time, the nth of them on processor n modulo `places`, from
/// the last one down. The work is batches of [`BATCH`] operations while `goes_on` says so.
pub(crate) fn run(
    threads: usize,
    places: usize,
    time: Duration,
    work: impl Fn(&mut Me<'_>) + Sync,
) -> Seen {
    let cpus = system::cpus();
    let cpus: Vec<usize> = cpus.into_iter().rev().take(places).collect();
    let (start, stop, tally) =
        (Barrier::new(threads + 1), AtomicBool::new(false), Tally::default());
    std::thread::scope(|scope| {
        for number in 0..threads {
            let (start, stop, tally, work, cpus) = (&start, &stop, &tally, &work, &cpus);
            scope.spawn(move || {
                let place = number % cpus.len();
                system::pin(cpus[place]);
                start.wait();
                let mut me = Me { place, stop, tally, batches: 0 };
                let (time, switches) = (system::thread_time(), system::switches());
                work(&mut me);
                let (time, switches) =
                    (system::thread_time() - time, system::switches() - switches);
                tally.nanos.fetch_add(time, Ordering::Relaxed);
                tally.switches.fetch_add(switches, Ordering::Relaxed);
                tally.operations.fetch_add(me.batches * BATCH, Ordering::Relaxed);
            });
        }
        start.wait();
        std::thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
    });
    let read = |word: &AtomicU64| word.load(Ordering::Relaxed);
    let operations = read(&tally.operations);
    let nanos = read(&tally.nanos) as f64;
    Seen {
        operations,
        cycles: nanos * clock::ticks_per_ns() / operations.max(1) as f64,
        switches: read(&tally.switches),
        evictions: read(&tally.evictions),
        hard: read(&tally.hard),
    }
}
