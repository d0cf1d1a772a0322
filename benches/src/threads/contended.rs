//! Many threads on one lock: throughput, waits, and how evenly the lock serves the threads.
//!
//! Each thread draws read or write, takes the lock, looks at (or changes) four words, releases the
//! lock and starts again at once. The clock is read before the call and inside the critical
//! section: a wait is the time from the call to being inside. Counting begins when every thread has
//! begun, since the scheduler needs many milliseconds to give 64 threads their first turn. A wait
//! that is unfinished at the stop counts with its age at the stop, and is no operation.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use super::locks::{self, Lock};
use super::registry::Entry;
use crate::args::Args;
use crate::clock;
use crate::dice::Dice;
use crate::histogram::Histogram;
use crate::load::Load;
use crate::padded::Padded;
use crate::report::Report;
use crate::results::Row;
use crate::stats::jain;

/// The name of these cells.
pub(crate) const FAMILY: &str = "contended";
/// How many threads take the lock.
pub(crate) const THREADS: [usize; 3] = [2, 8, 64];
/// How many of a hundred operations write.
pub(crate) const WRITES: [u32; 5] = [0, 1, 10, 50, 100];

const ROUNDS: usize = 5;
const MILLIS: u64 = 300;
const MILLIS_SMOKE: u64 = 10;

/// One sample.
#[derive(Clone, Copy)]
pub(crate) struct Spec {
    threads: usize,
    writes: u32,
    duration: Duration,
    seed: u64,
}

/// What one sample saw.
pub(crate) struct Sample {
    ops_per_s: f64,
    waits: Histogram,
    jain: f64,
}

/// What the threads of a sample share, besides the lock.
struct Stage {
    start: Barrier,
    /// Threads that have begun.
    begun: Padded<AtomicUsize>,
    /// When counting begins, 0 until then.
    open: Padded<AtomicU64>,
    /// When counting ends, 0 until then.
    stop: AtomicU64,
}

struct Worker {
    ops: u64,
    writes: u64,
    waits: Histogram,
}

/// Measures one lock in one cell.
pub(crate) fn sample<L: Lock>(spec: Spec) -> Sample {
    let lock = Padded(L::new());
    let stage = Stage {
        start: Barrier::new(spec.threads + 1),
        begun: Padded(AtomicUsize::new(0)),
        open: Padded(AtomicU64::new(0)),
        stop: AtomicU64::new(0),
    };
    let (workers, ticks) = std::thread::scope(|scope| {
        let (lock, stage) = (&lock.0, &stage);
        let threads: Vec<_> = (0..spec.threads)
            .map(|index| scope.spawn(move || work(lock, spec, index as u64, stage)))
            .collect();
        stage.start.wait();
        while stage.begun.0.load(Relaxed) < spec.threads {
            std::thread::sleep(Duration::from_millis(1));
        }
        let opened = clock::now();
        stage.open.0.store(opened, Relaxed);
        std::thread::sleep(spec.duration);
        let stopped = clock::now();
        stage.stop.store(stopped, Relaxed);
        let workers: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        (workers, stopped - opened)
    });
    locks::settle(&lock.0, workers.iter().map(|worker| worker.writes).sum());
    let mut waits = Histogram::new();
    workers.iter().for_each(|worker| waits.merge(&worker.waits));
    let ops: Vec<f64> = workers.iter().map(|worker| worker.ops as f64).collect();
    let ops_per_s = ops.iter().sum::<f64>() * 1e9 / clock::ns(ticks);
    Sample { ops_per_s, waits, jain: jain(&ops) }
}

fn work<L: Lock>(lock: &L, spec: Spec, index: u64, stage: &Stage) -> Worker {
    let mut dice = Dice::new(spec.seed.wrapping_mul(1_000).wrapping_add(index));
    let mut worker = Worker { ops: 0, writes: 0, waits: Histogram::new() };
    let mut counting = false;
    stage.start.wait();
    stage.begun.0.fetch_add(1, Relaxed);
    loop {
        let write = dice.roll() < spec.writes;
        let asked = clock::now();
        let inside = if write {
            worker.writes += 1;
            lock.write(|data| {
                let inside = clock::now();
                locks::bump::<L>(data);
                inside
            })
        } else {
            lock.read(|data| {
                let inside = clock::now();
                locks::look::<L>(data);
                inside
            })
        };
        let stopped = stage.stop.load(Relaxed);
        if stopped != 0 && inside > stopped {
            if asked < stopped {
                worker.waits.record(stopped - asked);
            }
            return worker;
        }
        if !counting {
            let opened = stage.open.0.load(Relaxed);
            counting = opened != 0 && inside >= opened;
        }
        if counting {
            worker.waits.record(inside.saturating_sub(asked));
            worker.ops += 1;
        }
    }
}

/// The name of a cell.
pub(crate) fn cell(threads: usize, writes: u32) -> String {
    format!("{threads}t/{writes}%")
}

/// All cells, by threads and then by writes.
pub(crate) fn cells() -> impl Iterator<Item = (usize, u32)> {
    THREADS.into_iter().flat_map(|threads| WRITES.into_iter().map(move |writes| (threads, writes)))
}

/// Measures all chosen locks in one cell.
pub(crate) fn run(
    args: &Args,
    (threads, writes): (usize, u32),
    locks: &[Entry],
    report: &mut Report,
) {
    let duration = args.millis(MILLIS, MILLIS_SMOKE);
    let (cell, threads) = (cell(threads, writes), args.threads(threads));
    for round in 1..=args.rounds(ROUNDS) {
        for lock in locks {
            let load = Load::start();
            let spec = Spec { threads, writes, duration, seed: round as u64 };
            let sample = (lock.contended)(spec);
            report.raw(Row {
                family: FAMILY.into(),
                cell: cell.clone().into(),
                contestant: lock.name.into(),
                round,
                metrics: vec![
                    ("ops_per_s".into(), sample.ops_per_s),
                    ("p50_ns".into(), clock::ns(sample.waits.quantile(0.5))),
                    ("p999_ns".into(), clock::ns(sample.waits.quantile(0.999))),
                    ("longest_ns".into(), clock::ns(sample.waits.max())),
                    ("jain".into(), sample.jain),
                    ("others".into(), load.others()),
                ],
            });
        }
    }
    report.put(&super::tables::contended_cell(report.results(), &cell));
}
