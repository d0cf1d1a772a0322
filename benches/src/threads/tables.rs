//! The tables of the thread locks.

use super::{contended, memory, starvation, uncontended};
use crate::report::format::{number, ratio, time_or_dash as time};
use crate::report::table::Table;
use crate::results::Results;

/// The locks that a ratio is taken to.
pub(crate) const PARKING_LOTS: [&str; 2] = ["parking_lot-0.12", "parking_lot-0.13"];
/// The locks whose best uncontended time is the bar.
pub(crate) const UNCONTENDED_BAR: [&str; 3] =
    ["std::RwLock", "parking_lot-0.12", "parking_lot-0.13"];

/// Nanoseconds of lock and unlock, and the ratio to the best of the bar.
pub(crate) fn uncontended(results: &Results) -> String {
    let mut table = Table::new([
        "lock",
        "read p10 ns",
        "read median ns",
        "ratio to best",
        "write p10 ns",
        "write median ns",
        "ratio to best",
    ]);
    for lock in results.contestants(uncontended::FAMILY) {
        let mut row = vec![lock.to_owned()];
        for cell in uncontended::CELLS {
            let median = |metric| results.median(uncontended::FAMILY, cell, lock, metric);
            row.push(number(median("p10_ns"), 2));
            row.push(number(median("p50_ns"), 2));
            let bar = &UNCONTENDED_BAR;
            row.push(ratio(results.ratio(uncontended::FAMILY, cell, lock, bar, "p50_ns")));
        }
        table.row(row);
    }
    table.markdown()
}

/// Bytes that each lock adds to its data.
pub(crate) fn memory(results: &Results) -> String {
    let mut table = Table::new(["lock", "bytes besides the data"]);
    for lock in results.contestants(memory::FAMILY) {
        let bytes = results.median(memory::FAMILY, memory::CELL, lock, "bytes");
        table.row(vec![lock.to_owned(), number(bytes, 0)]);
    }
    table.markdown()
}

/// All that one contended cell showed, a lock a row.
pub(crate) fn contended_cell(results: &Results, cell: &str) -> String {
    let family = contended::FAMILY;
    let mut table = Table::new([
        cell,
        "M ops/s",
        "x pl-0.12",
        "x pl-0.13",
        "p50",
        "p99.9",
        "longest",
        "Jain",
        "others",
    ]);
    for lock in results.contestants(family) {
        if results.rounds(family, cell, lock) == 0 {
            continue;
        }
        let median = |metric| results.median(family, cell, lock, metric);
        let to = |base| ratio(results.ratio(family, cell, lock, &[base], "ops_per_s"));
        table.row(vec![
            lock.to_owned(),
            number(median("ops_per_s").map(|ops| ops / 1e6), 3),
            to(PARKING_LOTS[0]),
            to(PARKING_LOTS[1]),
            time(median("p50_ns")),
            time(median("p999_ns")),
            time(median("longest_ns")),
            number(median("jain"), 3),
            number(median("others").map(|share| share * 100.0), 0) + " %",
        ]);
    }
    table.markdown()
}

/// All that one starvation cell showed, a lock a row.
pub(crate) fn starvation_cell(results: &Results, cell: &str) -> String {
    let family = starvation::FAMILY;
    let mut table = Table::new([
        cell,
        "p50",
        "p99",
        "longest",
        "x pl-0.12",
        "x pl-0.13",
        "served/s",
        "crowd k/s",
        "others",
    ]);
    for lock in results.contestants(family) {
        if results.rounds(family, cell, lock) == 0 {
            continue;
        }
        let median = |metric| results.median(family, cell, lock, metric);
        let to = |base| ratio(against(results, cell, lock, base));
        table.row(vec![
            lock.to_owned(),
            time(median("p50_ns")),
            time(median("p99_ns")),
            time(median("longest_ns")),
            to(PARKING_LOTS[0]),
            to(PARKING_LOTS[1]),
            number(median("victim_per_s"), 0),
            number(median("crowd_per_s").map(|ops| ops / 1e3), 0),
            number(median("others").map(|share| share * 100.0), 0) + " %",
        ]);
    }
    table.markdown()
}

/// A lock's median longest wait in a starvation cell, as a multiple of `base`'s.
pub(crate) fn against(results: &Results, cell: &str, lock: &str, base: &str) -> Option<f64> {
    let longest = |lock| results.median(starvation::FAMILY, cell, lock, "longest_ns");
    Some(longest(lock)? / longest(base)?)
}
