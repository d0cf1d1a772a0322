//! Instructions per step, counted by valgrind: of two runs that make the same inputs, one also
//! takes the steps.

use std::process::Command;

use super::{Access, BATCH, CASES, Case, sizes};
use crate::comparison::Cell;
use crate::process::child::{CHILD, SKIPS, STEPS};
use crate::report::{Report, Row, TIMES, Target};
use crate::say;
use crate::stats::Spread;

const FAMILY: &str = "instructions";
const COUNT: usize = 200_000;

/// A run for valgrind to count, with the steps or without them.
pub(crate) fn child(run: bool, case: &str, records: usize, steps: usize) -> Result<(), String> {
    let case = CASES.iter().find(|known| known.path == case);
    let mut machine = (case.ok_or("there is no such case")?.build)(records);
    let mut access = Access::new(records, false);
    let mut done = 0;
    while done < steps {
        machine.prepare(&mut access, BATCH);
        done += if run { machine.run() } else { machine.skip() };
    }
    Ok(())
}

/// The cell of one case, at both sizes.
pub(super) fn cell(case: &'static Case) -> Cell {
    Cell::new(format!("{FAMILY}/{}", case.path), move |args, report| {
        let sizes = sizes(args);
        let [few, many] = [per_step(case, sizes[0], report)?, per_step(case, sizes[1], report)?];
        report.cell(case.name);
        report.row(Row {
            what: "instructions of a step".to_owned(),
            ours: format!("{many:.0} with {} records", sizes[1]),
            compared_with: format!("{few:.0} with {} records", sizes[0]),
            result: Some(Spread::one(many / few)),
            unit: TIMES,
            target: Target::Open,
        });
        Ok(())
    })
}

fn per_step(case: &Case, records: usize, report: &mut Report) -> Result<f64, String> {
    let counted = |mode| count(mode, case.path, records);
    let per_step = (counted(STEPS)? - counted(SKIPS)?) / COUNT as f64;
    let name = format!("{}, {records} records", case.path);
    report.once(FAMILY, name, &[("instructions_per_step", per_step)]);
    Ok(per_step)
}

/// All instructions of one run.
fn count(mode: &str, case: &str, records: usize) -> Result<f64, String> {
    let this = std::env::current_exe().map_err(say)?;
    let output = Command::new("valgrind")
        .arg("--tool=cachegrind")
        .args(["--cache-sim=no", "--cachegrind-out-file=/dev/null"])
        .arg(this)
        .args([CHILD, mode, case, &records.to_string(), &COUNT.to_string()])
        .output()
        .map_err(|error| {
            format!("valgrind: {error}; install it with `apt-get install valgrind`")
        })?;
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = log.lines().find(|line| line.contains("I   refs:") || line.contains("I refs:"));
    let digits: String = line
        .ok_or(&log)?
        .rsplit(':')
        .next()
        .unwrap_or("")
        .chars()
        .filter(char::is_ascii_digit)
        .collect();
    digits.parse().map_err(|error| format!("{log}: {error}"))
}
