//! Bytes per idle record and per session, from the resident memory of the process.

use super::{cache, table};
use crate::args::Args;
use crate::process;
use crate::report::{Report, Row, Target};
use crate::stats::Spread;

pub(crate) const FAMILY: &str = "memory";

/// Measures both sides with many records and sessions.
pub(crate) fn run(args: &Args, report: &mut Report) -> Result<(), String> {
    let count = args.count(1_000_000, 10_000);
    report.cell("Memory");
    // The smallest first: memory that the allocator keeps after one hides as much of the next.
    let session = per_one(count / 10, || table::sessions(count / 10))?;
    row(report, "table and registry: session", session);
    row(report, "table: idle cached record", per_one(count, || table::hand_over(count))?);
    row(report, "cache: idle cached record", per_one(count, || cache::churn(count))?);
    Ok(())
}

fn row(report: &mut Report, what: &'static str, bytes: f64) {
    report.once(FAMILY, what, &[("bytes", bytes)]);
    report.row(Row {
        what: what.to_owned(),
        ours: format!("{bytes:.0} bytes"),
        compared_with: String::new(),
        result: Some(Spread::one(bytes.round())),
        unit: " bytes",
        target: Target::Open,
    });
}

/// The memory of one of `count`; what was made is dropped again.
fn per_one<T>(count: usize, make: impl FnOnce() -> T) -> Result<f64, String> {
    let before = process::memory::resident("self")?;
    let made = make();
    let after = process::memory::resident("self")?;
    drop(made);
    Ok((after - before).max(0.0) / count as f64)
}
