//! Bytes per idle record and per session, from what the process has resident.

use std::fmt::Write as _;

use crate::{cache, table};

/// Measures both sides with `count` records and sessions.
pub(crate) fn table(count: usize) -> String {
    let mut text = String::from("\n| what | bytes each |\n|---|---|\n");
    let mut row = |what: &str, bytes: f64| {
        writeln!(text, "| {what} | {bytes:.0} |").expect("a string takes everything");
    };
    // The smallest first: what one leaves behind in the allocator hides as much of the next.
    row("table and registry: session", per_one(count / 10, || table::sessions(count / 10)));
    row("table: idle cached record", per_one(count, || table::hand_over(count)));
    row("cache: idle cached record", per_one(count, || cache::churn(count)));
    text
}

/// What one of `count` takes; making it leaves the rest of the process as it was.
fn per_one<T>(count: usize, make: impl FnOnce() -> T) -> f64 {
    let before = resident();
    let made = make();
    let after = resident();
    drop(made);
    (after.saturating_sub(before)) as f64 / count as f64
}

/// Resident bytes, as the system counts them; 0 where it does not tell.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.unwrap_or(0) * 4096
}
