//! What a lock costs when nobody else wants it: one thread, lock and unlock.
//!
//! A round is 40 short batches of each lock, all locks in turn inside each batch number, so that a
//! disturbance of the machine meets them alike. A round answers with its 10th percentile and its
//! median.

use std::hint::black_box;

use crate::args::Args;
use crate::clock;
use crate::locks::{Lock, Padded};
use crate::registry::Entry;
use crate::report::results::{Results, Row};

/// The name of these comparisons.
pub(crate) const FAMILY: &str = "uncontended";
/// Its two cells.
pub(crate) const CELLS: [&str; 2] = ["read", "write"];

const BATCHES: usize = 40;
const PAIRS: u32 = 20_000;
const ROUNDS: u32 = 5;

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

/// Measures all chosen locks.
pub(crate) fn run(args: &Args, locks: &[Entry], results: &mut Results) {
    let (batches, pairs) = if args.smoke { (2, 100) } else { (BATCHES, PAIRS) };
    for cell in CELLS {
        if !args.wants(FAMILY, cell) {
            continue;
        }
        for round in 1..=args.rounds(ROUNDS) {
            let mut samples = vec![Vec::new(); locks.len()];
            for _ in 0..batches {
                for (lock, samples) in locks.iter().zip(&mut samples) {
                    samples.push((lock.uncontended)(Spec { write: cell == "write", pairs }));
                }
            }
            for (lock, samples) in locks.iter().zip(&mut samples) {
                samples.sort_by(f64::total_cmp);
                results.push(Row {
                    family: FAMILY,
                    cell: cell.to_owned(),
                    lock: lock.name,
                    round,
                    metrics: vec![
                        ("p10_ns", samples[samples.len() / 10]),
                        ("p50_ns", samples[samples.len() / 2]),
                    ],
                });
            }
        }
    }
}
