//! What the project promises of its read-write lock, compared with a run.
//!
//! A target whose measurements are not in the run is left out rather than guessed.

use super::tables::{self, PARKING_LOTS, UNCONTENDED_BAR};
use super::{contended, starvation, uncontended};
use crate::report::format::{number, ratio, time_or_dash as time};
use crate::results::Results;

const OURS: &str = "lockspan";
const STRICT: &str = "lockspan-strict";

const UNCONTENDED_RATIO_MAX: f64 = 1.05;
const THROUGHPUT_RATIO_MIN: f64 = 0.8;
const LONGEST_RATIO_MAX: f64 = 1.2;
const P99_NS_MAX: f64 = 2e6;
const JAIN_MIN: f64 = 0.95;
const JAIN_STRICT_MIN: f64 = 0.99;
const FAIR_THREADS: usize = 64;
const FAIR_WRITES_MIN: u32 = 10;

/// One promise, and whether the run keeps it.
pub(crate) struct Target {
    pub(crate) what: String,
    pub(crate) measured: String,
    pub(crate) met: bool,
}

/// Every target that the run can judge.
pub(crate) fn targets(results: &Results) -> Vec<Target> {
    let mut targets = Vec::new();
    targets.extend(uncontended_targets(results));
    targets.extend(PARKING_LOTS.iter().flat_map(|base| throughput_targets(results, base)));
    targets.extend(starvation::CELLS.iter().flat_map(|cell| starvation_targets(results, cell)));
    targets.extend(jain_target(results));
    targets.extend(strict_jain_target(results));
    targets.extend(strict_throughput_target(results));
    targets
}

fn uncontended_targets(results: &Results) -> impl Iterator<Item = Target> {
    uncontended::CELLS.into_iter().filter_map(|cell| {
        let got = results.ratio(uncontended::FAMILY, cell, OURS, &UNCONTENDED_BAR, "p50_ns")?;
        Some(Target {
            what: format!(
                "uncontended {cell} ≤ {UNCONTENDED_RATIO_MAX} x the better of std and parking_lot"
            ),
            measured: format!("{} x", ratio(Some(got))),
            met: got <= UNCONTENDED_RATIO_MAX,
        })
    })
}

fn throughput_targets(results: &Results, base: &str) -> Vec<Target> {
    let cells = contended_cells(results);
    let ratios: Vec<(&str, f64)> = cells
        .iter()
        .filter_map(|cell| Some((*cell, throughput(results, cell, OURS, base)?)))
        .collect();
    let Some((worst, least)) = ratios.iter().min_by(|a, b| a.1.total_cmp(&b.1)).copied() else {
        return Vec::new();
    };
    let won = ratios.iter().filter(|(_, ratio)| !behind(*ratio)).count();
    vec![
        Target {
            what: format!("throughput ≥ {THROUGHPUT_RATIO_MIN} x {base} in every cell"),
            measured: format!("least {} x at {worst}", ratio(Some(least))),
            met: least >= THROUGHPUT_RATIO_MIN,
        },
        Target {
            what: format!("throughput ≥ 1.0 x {base} in most cells"),
            measured: format!("{won} of {} cells", ratios.len()),
            met: won * 2 > ratios.len(),
        },
    ]
}

fn starvation_targets(results: &Results, cell: &str) -> Vec<Target> {
    let mut targets = Vec::new();
    for base in PARKING_LOTS {
        if let Some(got) = tables::against(results, cell, OURS, base) {
            let ours = results.median(starvation::FAMILY, cell, OURS, "longest_ns");
            targets.push(Target {
                what: format!("{cell}: longest wait ≤ {LONGEST_RATIO_MAX} x {base}"),
                measured: format!("{}, {} x", time(ours), ratio(Some(got))),
                met: got <= LONGEST_RATIO_MAX,
            });
        }
    }
    if let Some(p99) = results.median(starvation::FAMILY, cell, OURS, "p99_ns") {
        targets.push(Target {
            what: format!("{cell}: p99 ≤ {}", time(Some(P99_NS_MAX))),
            measured: time(Some(p99)),
            met: p99 <= P99_NS_MAX,
        });
    }
    targets
}

fn jain_target(results: &Results) -> Option<Target> {
    let (cell, least) = least_jain(results, OURS, &fair_cells())?;
    Some(Target {
        what: format!("Jain ≥ {JAIN_MIN} at {FAIR_THREADS} threads, ≥ {FAIR_WRITES_MIN} % writes"),
        measured: format!("least {least:.3} at {cell}"),
        met: least >= JAIN_MIN,
    })
}

fn strict_jain_target(results: &Results) -> Option<Target> {
    let cells: Vec<String> = contended_cells(results).into_iter().map(str::to_owned).collect();
    let (cell, least) = least_jain(results, STRICT, &cells)?;
    let short = cells
        .iter()
        .filter(|cell| jain(results, cell, STRICT).is_some_and(|jain| jain < JAIN_STRICT_MIN));
    Some(Target {
        what: format!("strict: Jain ≥ {JAIN_STRICT_MIN} in every cell"),
        measured: format!("least {least:.3} at {cell}; below in {} cells", short.count()),
        met: least >= JAIN_STRICT_MIN,
    })
}

fn strict_throughput_target(results: &Results) -> Option<Target> {
    let measured = |cell: &&str| results.rounds(contended::FAMILY, cell, STRICT) > 0;
    let judged = contended_cells(results).into_iter().filter(measured).count();
    let rivals = strict_rivals(results);
    (judged > 0).then(|| Target {
        what: format!("strict: no lock with Jain ≥ {JAIN_STRICT_MIN} is faster in that cell"),
        measured: format!("faster in {} of {judged} cells", rivals.len()),
        met: rivals.is_empty(),
    })
}

/// The cells in which a lock as fair as the strict one is faster, each with those locks.
pub(crate) fn strict_rivals(results: &Results) -> Vec<(&str, String)> {
    let mut cells = Vec::new();
    for cell in contended_cells(results) {
        let rivals = results.contestants(contended::FAMILY).into_iter().filter_map(|rival| {
            let fair = jain(results, cell, rival)? >= JAIN_STRICT_MIN;
            let lock = rival != STRICT && rival != "none";
            let got = throughput(results, cell, STRICT, rival)?;
            (fair && lock && behind(got)).then(|| format!("{rival} ({} x)", ratio(Some(got))))
        });
        let rivals: Vec<String> = rivals.collect();
        if !rivals.is_empty() {
            cells.push((cell, rivals.join(", ")));
        }
    }
    cells
}

/// Whether a ratio, more being better, is below 1 in the two digits that tables show.
fn behind(ratio: f64) -> bool {
    (ratio * 100.0).round() < 100.0
}

/// A row of the list of what is lost: where, what, ours, theirs.
pub(crate) type Loss = [String; 4];

/// Every cell where ours is behind a `parking_lot`, or misses a target. Equal to two digits is not
/// behind.
pub(crate) fn losses(results: &Results) -> Vec<Loss> {
    let mut losses = Vec::new();
    for cell in uncontended::CELLS {
        for base in UNCONTENDED_BAR {
            let got = results.ratio(uncontended::FAMILY, cell, OURS, &[base], "p50_ns");
            if got.is_some_and(|got| behind(1.0 / got)) {
                let ns =
                    |lock| number(results.median(uncontended::FAMILY, cell, lock, "p50_ns"), 2);
                let theirs = format!("{} ns {base} ({} x)", ns(base), ratio(got));
                losses.push(loss("uncontended", cell, "lock and unlock", ns(OURS) + " ns", theirs));
            }
        }
    }
    for cell in contended_cells(results) {
        for base in PARKING_LOTS {
            let got = throughput(results, cell, OURS, base);
            if got.is_some_and(behind) {
                let ops = |lock| results.median(contended::FAMILY, cell, lock, "ops_per_s");
                let mega = |lock| number(ops(lock).map(|ops| ops / 1e6), 2) + " M/s";
                let theirs = format!("{} {base} ({} x)", mega(base), ratio(got));
                losses.push(loss("contended", cell, "throughput", mega(OURS), theirs));
            }
        }
    }
    for cell in fair_cells() {
        if let Some(jain) = jain(results, &cell, OURS).filter(|jain| *jain < JAIN_MIN) {
            let target = format!("target {JAIN_MIN}");
            losses.push(loss("contended", &cell, "Jain", format!("{jain:.3}"), target));
        }
    }
    for cell in starvation::CELLS {
        let median = |lock, metric| results.median(starvation::FAMILY, cell, lock, metric);
        for base in PARKING_LOTS {
            let got = tables::against(results, cell, OURS, base);
            if got.is_some_and(|got| behind(1.0 / got)) {
                let longest = |lock| time(median(lock, "longest_ns"));
                let theirs = format!("{} {base} ({} x)", longest(base), ratio(got));
                losses.push(loss("starvation", cell, "longest wait", longest(OURS), theirs));
            }
        }
        if let Some(p99) = median(OURS, "p99_ns").filter(|p99| *p99 > P99_NS_MAX) {
            let target = format!("target {}", time(Some(P99_NS_MAX)));
            losses.push(loss("starvation", cell, "p99", time(Some(p99)), target));
        }
    }
    losses
}

fn loss(family: &str, cell: &str, what: &str, ours: String, theirs: String) -> Loss {
    [format!("{family} {cell}"), what.to_owned(), ours, theirs]
}

/// The contended cells in which fairness is promised.
pub(crate) fn fair_cells() -> Vec<String> {
    let fair =
        |(threads, writes): &(usize, u32)| *threads == FAIR_THREADS && *writes >= FAIR_WRITES_MIN;
    contended::cells()
        .filter(fair)
        .map(|(threads, writes)| contended::cell(threads, writes))
        .collect()
}

/// The cell in which a lock is least fair.
pub(crate) fn least_jain(results: &Results, lock: &str, cells: &[String]) -> Option<(String, f64)> {
    cells
        .iter()
        .filter_map(|cell| Some((cell.clone(), jain(results, cell, lock)?)))
        .min_by(|a, b| a.1.total_cmp(&b.1))
}

fn contended_cells(results: &Results) -> Vec<&str> {
    results.cells(contended::FAMILY)
}

fn jain(results: &Results, cell: &str, lock: &str) -> Option<f64> {
    results.median(contended::FAMILY, cell, lock, "jain")
}

fn throughput(results: &Results, cell: &str, lock: &str, base: &str) -> Option<f64> {
    results.ratio(contended::FAMILY, cell, lock, &[base], "ops_per_s")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Row;

    fn run(ours: f64, strict_jain: f64) -> Results {
        let mut results = Results::default();
        let mut push = |lock: &'static str, ops, jain| {
            results.push(Row {
                family: contended::FAMILY.into(),
                cell: "64t/50%".into(),
                contestant: lock.into(),
                round: 1,
                metrics: vec![("ops_per_s".into(), ops), ("jain".into(), jain)],
            });
        };
        push(OURS, ours, 0.96);
        push(STRICT, 2.0, strict_jain);
        push(PARKING_LOTS[0], 10.0, 0.9);
        push("tokio", 3.0, 1.0);
        push("none", 99.0, 1.0);
        results
    }

    #[test]
    fn a_slow_cell_misses_its_target_and_is_listed_as_lost() {
        let results = run(7.0, 1.0);
        assert!(!targets(&results)[0].met);
        assert_eq!(losses(&results).len(), 1);
        assert!(losses(&results)[0][3].contains("0.70 x"));
    }

    #[test]
    fn a_fast_cell_meets_its_targets_and_unmeasured_targets_are_left_out() {
        let results = run(11.0, 1.0);
        let targets = targets(&results);
        assert_eq!(targets.len(), 5);
        assert!(targets[..4].iter().all(|target| target.met));
        assert!(losses(&results).is_empty());
    }

    #[test]
    fn strict_is_beaten_by_faster_fair_locks_only() {
        let results = run(11.0, 0.98);
        let targets = targets(&results);
        assert!(!targets[3].met && !targets[4].met);
        assert_eq!(strict_rivals(&results), [("64t/50%", "tokio (0.67 x)".to_owned())]);
    }
}
