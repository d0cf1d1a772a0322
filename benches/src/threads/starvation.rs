//! One thread against a crowd of the other kind: how long can it be kept waiting?
//!
//! Eight threads hold the lock for 2 µs each, back to back; one thread of the other kind sleeps
//! about 200 µs, takes the lock, and is measured. A wait that is unfinished at the stop counts
//! with its age.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::locks::{self, Lock};
use super::registry::Entry;
use crate::args::Args;
use crate::clock;
use crate::histogram::Histogram;
use crate::load::Load;
use crate::padded::Padded;
use crate::report::Report;
use crate::results::Row;

/// The name of these cells.
pub(crate) const FAMILY: &str = "starvation";
/// The two cells.
pub(crate) const CELLS: [&str; 2] = [WRITER, READER];
/// A writer takes the lock among readers.
pub(crate) const WRITER: &str = "writer-among-8-readers";
/// A reader takes the lock among writers.
pub(crate) const READER: &str = "reader-among-8-writers";

const CROWD: usize = 8;
const HOLD: Duration = Duration::from_micros(2);
const PAUSE: Duration = Duration::from_micros(200);
const ROUNDS: usize = 10;
const MILLIS: u64 = 1_000;
const MILLIS_SMOKE: u64 = 20;

/// One sample.
#[derive(Clone, Copy)]
pub(crate) struct Spec {
    victim_writes: bool,
    duration: Duration,
}

/// What one sample saw.
pub(crate) struct Sample {
    waits: Histogram,
    victim_per_s: f64,
    crowd_per_s: f64,
}

struct Victim {
    waits: Histogram,
    served: u64,
    writes: u64,
}

/// Measures one lock in one cell.
pub(crate) fn sample<L: Lock>(spec: Spec) -> Sample {
    let lock = Padded(L::new());
    let start = Barrier::new(CROWD + 2);
    let stop = Padded(AtomicU64::new(0));
    let hold = clock::ticks(HOLD);
    let (crowd, victim, seconds) = std::thread::scope(|scope| {
        let (lock, start, stop) = (&lock.0, &start, &stop.0);
        let crowd: Vec<_> =
            (0..CROWD).map(|_| scope.spawn(move || crowd(lock, spec, hold, start, stop))).collect();
        let victim = scope.spawn(move || victim(lock, spec, start, stop));
        start.wait();
        let began = clock::now();
        std::thread::sleep(spec.duration);
        let stopped = clock::now();
        stop.store(stopped, Relaxed);
        let crowd: u64 = crowd.into_iter().map(|thread| thread.join().unwrap()).sum();
        (crowd, victim.join().unwrap(), clock::ns(stopped - began) / 1e9)
    });
    locks::settle(&lock.0, if spec.victim_writes { victim.writes } else { crowd });
    Sample {
        waits: victim.waits,
        victim_per_s: victim.served as f64 / seconds,
        crowd_per_s: crowd as f64 / seconds,
    }
}

fn crowd<L: Lock>(lock: &L, spec: Spec, hold: u64, start: &Barrier, stop: &AtomicU64) -> u64 {
    let mut ops = 0;
    start.wait();
    while stop.load(Relaxed) == 0 {
        if spec.victim_writes {
            lock.read(|data| {
                locks::look::<L>(data);
                clock::hold(hold);
            });
        } else {
            lock.write(|data| {
                locks::bump::<L>(data);
                clock::hold(hold);
            });
        }
        ops += 1;
    }
    ops
}

fn victim<L: Lock>(lock: &L, spec: Spec, start: &Barrier, stop: &AtomicU64) -> Victim {
    let mut victim = Victim { waits: Histogram::new(), served: 0, writes: 0 };
    start.wait();
    loop {
        std::thread::sleep(PAUSE);
        let asked = clock::now();
        let stopped = stop.load(Relaxed);
        if stopped != 0 && asked >= stopped {
            return victim;
        }
        let inside = if spec.victim_writes {
            victim.writes += 1;
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
        let stopped = stop.load(Relaxed);
        if stopped != 0 && inside > stopped {
            victim.waits.record(stopped.saturating_sub(asked));
            return victim;
        }
        victim.waits.record(inside.saturating_sub(asked));
        victim.served += 1;
    }
}

/// Measures all chosen locks in one cell.
pub(crate) fn run(args: &Args, cell: &'static str, locks: &[Entry], report: &mut Report) {
    let duration = args.millis(MILLIS, MILLIS_SMOKE);
    for round in 1..=args.rounds(ROUNDS) {
        for lock in locks {
            let load = Load::start();
            let sample = (lock.starvation)(Spec { victim_writes: cell == WRITER, duration });
            report.raw(Row {
                family: FAMILY.into(),
                cell: cell.into(),
                contestant: lock.name.into(),
                round,
                metrics: vec![
                    ("p50_ns".into(), clock::ns(sample.waits.quantile(0.5))),
                    ("p99_ns".into(), clock::ns(sample.waits.quantile(0.99))),
                    ("longest_ns".into(), clock::ns(sample.waits.max())),
                    ("victim_per_s".into(), sample.victim_per_s),
                    ("crowd_per_s".into(), sample.crowd_per_s),
                    ("others".into(), load.others()),
                ],
            });
        }
    }
    report.put(&super::tables::starvation_cell(report.results(), cell));
}
