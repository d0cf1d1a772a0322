//! Tables in Markdown, for the terminal and for the summary.

use crate::report::results::Results;
use crate::{contended, memory, starvation, uncontended};

/// The locks that a ratio is taken to.
pub(crate) const PARKING_LOTS: [&str; 2] = ["parking_lot-0.12", "parking_lot-0.13"];
/// The locks whose best uncontended time is the bar.
pub(crate) const UNCONTENDED_BAR: [&str; 3] =
    ["std::RwLock", "parking_lot-0.12", "parking_lot-0.13"];

/// A table whose first column holds text and whose other columns hold numbers, or text too.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    numbers: bool,
}

impl Table {
    pub(crate) fn new<T: Into<String>>(head: impl IntoIterator<Item = T>) -> Self {
        Self { rows: vec![head.into_iter().map(Into::into).collect()], numbers: true }
    }

    /// A table of nothing but text.
    pub(crate) fn text<T: Into<String>>(head: impl IntoIterator<Item = T>) -> Self {
        Self { numbers: false, ..Self::new(head) }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.rows[0].len(), "a row as wide as its head: {cells:?}");
        self.rows.push(cells);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }

    /// Markdown, padded so that it also reads well as plain text.
    pub(crate) fn markdown(&self) -> String {
        let widths: Vec<usize> = (0..self.rows[0].len())
            .map(|column| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap())
            .map(|width| width.max(3))
            .collect();
        let left = |column| column == 0 || !self.numbers;
        let mut text = String::new();
        for (index, row) in self.rows.iter().enumerate() {
            text.push('|');
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                text += &match left(column) {
                    true => format!(" {cell:<width$} |"),
                    false => format!(" {cell:>width$} |"),
                };
            }
            text.push('\n');
            if index == 0 {
                text.push('|');
                for (column, width) in widths.iter().enumerate() {
                    let dashes = "-".repeat(width + 1);
                    text += &format!("{dashes}{}|", if left(column) { '-' } else { ':' });
                }
                text.push('\n');
            }
        }
        text
    }
}

/// `value` with `digits` after the point, or a dash.
pub(crate) fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
}

/// A ratio: two digits, three below a tenth.
pub(crate) fn ratio(value: Option<f64>) -> String {
    number(value, if value.is_some_and(|value| value < 0.1) { 3 } else { 2 })
}

/// A time in the unit that suits it.
pub(crate) fn time(ns: Option<f64>) -> String {
    match ns {
        None => "–".to_owned(),
        Some(ns) if ns < 1e3 => format!("{ns:.0} ns"),
        Some(ns) if ns < 1e5 => format!("{:.1} µs", ns / 1e3),
        Some(ns) if ns < 1e6 => format!("{:.0} µs", ns / 1e3),
        Some(ns) if ns < 1e8 => format!("{:.1} ms", ns / 1e6),
        Some(ns) => format!("{:.0} ms", ns / 1e6),
    }
}

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
    for lock in results.locks(uncontended::FAMILY) {
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
    let mut table = Table::new(["lock", "bytes beside the data"]);
    for lock in results.locks(memory::FAMILY) {
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
        "foreign",
    ]);
    for lock in results.locks(family) {
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
            number(median("foreign").map(|share| share * 100.0), 0) + " %",
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
        "others k/s",
        "foreign",
    ]);
    for lock in results.locks(family) {
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
            number(median("foreign").map(|share| share * 100.0), 0) + " %",
        ]);
    }
    table.markdown()
}

/// A lock's median longest wait in a starvation cell, as a multiple of `base`'s.
pub(crate) fn against(results: &Results, cell: &str, lock: &str, base: &str) -> Option<f64> {
    let longest = |lock| results.median(starvation::FAMILY, cell, lock, "longest_ns");
    Some(longest(lock)? / longest(base)?)
}
