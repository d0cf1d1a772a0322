//! What a lock and unlock costs when no other thread wants the lock.
//!
//! A round is 40 short batches of each lock. All locks have their first batch, then all have their
//! second one, and so on, so that a disturbance of the machine affects them alike. The values of a
//! round are the 10th percentile and the median of its batches.

use std::hint::black_box;

use super::locks::Lock;
use super::registry::Entry;
use crate::args::Args;
use crate::clock;
use crate::padded::Padded;
use crate::report::Report;
use crate::results::Row;

/// The name of these cells.
pub(crate) const FAMILY: &str = "uncontended";
/// The two cells.
pub(crate) const CELLS: [&str; 2] = ["read", "write"];

const BATCHES: usize = 40;
const PAIRS: u32 = 20_000;
const ROUNDS: usize = 5;

/// One batch.
#[derive(Clone, Copy)]
pub(crate) struct Spec {
    write: bool,
    pairs: u32,
}

/// Nanoseconds of one lock and unlock.
pub(crate) type Sample = f64;

/// Measures one batch of one lock.
#[inline(never)]
pub(crate) fn sample<L: Lock>(spec: Spec) -> Sample {
    let lock = Box::new(Padded(L::new()));
    let lock = &black_box(&lock).0;
    pairs(lock, Spec { pairs: spec.pairs / 20 + 1, ..spec });
    let start = clock::now();
    pairs(lock, spec);
    clock::ns(clock::now() - start) / f64::from(spec.pairs)
}

#[inline(always)]
fn pairs<L: Lock>(lock: &L, spec: Spec) {
    if spec.write {
        for _ in 0..spec.pairs {
            lock.write(|data| data[0] = black_box(data[0]));
        }
    } else {
        for _ in 0..spec.pairs {
            lock.read(|data| black_box(data[0]));
        }
    }
}

/// Measures all chosen locks in one cell.
pub(crate) fn run(args: &Args, cell: &'static str, locks: &[Entry], report: &mut Report) {
    let (batches, pairs) = if args.smoke { (2, 100) } else { (BATCHES, PAIRS) };
    for round in 1..=args.rounds(ROUNDS) {
        let mut samples = vec![Vec::new(); locks.len()];
        for _ in 0..batches {
            for (lock, samples) in locks.iter().zip(&mut samples) {
                samples.push((lock.uncontended)(Spec { write: cell == "write", pairs }));
            }
        }
        for (lock, samples) in locks.iter().zip(&mut samples) {
            samples.sort_by(f64::total_cmp);
            report.raw(Row {
                family: FAMILY.into(),
                cell: cell.into(),
                contestant: lock.name.into(),
                round,
                metrics: vec![
                    ("p10_ns".into(), samples[samples.len() / 10]),
                    ("p50_ns".into(), samples[samples.len() / 2]),
                ],
            });
        }
    }
}
