//! Tables with columns of their own.

use crate::clock;
use crate::contest::Spread;
use crate::report::Report;

/// Writes the head of a table.
pub(crate) fn head(report: &mut Report, title: &str, columns: &[&str]) {
    report.put(&format!("\n## {title}\n\n| {} |", columns.join(" | ")));
    report.put(&format!("|---|{}", "---:|".repeat(columns.len() - 1)));
}

/// Writes a line of it.
pub(crate) fn line(report: &mut Report, cells: &[String]) {
    report.put(&format!("| {} |", cells.join(" | ")));
}

/// The least of the rounds, and their median.
pub(crate) fn cycles(spread: Spread) -> String {
    format!("{:.2} / {:.2}", spread.low, spread.median)
}

/// The same as nanoseconds.
pub(crate) fn nanos(spread: Spread) -> String {
    let rate = clock::ticks_per_ns();
    format!("{:.2} / {:.2}", spread.low / rate, spread.median / rate)
}

/// A number that may be unknown.
pub(crate) fn known(value: f64) -> String {
    if value.is_nan() { "n/a".to_owned() } else { format!("{value:.2}") }
}
