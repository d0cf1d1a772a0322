//! Instructions per step, counted by valgrind: of two runs that make the same inputs, one also
//! takes the steps.

use std::fmt::Write as _;
use std::process::Command;

use crate::{Access, BATCH, CASES};

const STEPS: usize = 200_000;

/// A run for valgrind to count: `--steps CASE RECORDS STEPS`, or `--skips …` without the steps.
pub(crate) fn child(run: bool, case: &str, records: &str, steps: &str) -> Result<(), String> {
    let number = |text: &str| text.parse::<usize>().map_err(|error| format!("{text}: {error}"));
    let (records, steps) = (number(records)?, number(steps)?);
    let case = CASES.iter().find(|known| known.name == case);
    let mut machine = (case.ok_or("no such case")?.build)(records);
    let mut access = Access::new(records, false);
    let mut done = 0;
    while done < steps {
        machine.prepare(&mut access, BATCH);
        done += if run { machine.run() } else { machine.skip() };
    }
    Ok(())
}

/// The table of all cases at both sizes.
pub(crate) fn table(smoke: bool) -> Result<String, String> {
    let sizes = if smoke { [100, 1_000] } else { [1_000, 1_000_000] };
    let mut text = String::from(
        "| machine | records | instructions/step | against the smaller |\n\
         |---|---|---|---|\n",
    );
    for case in CASES {
        let mut smaller = None;
        for records in sizes {
            let counted = |mode| count(mode, case.name, records);
            let per_step = (counted("--steps")? - counted("--skips")?) / STEPS as f64;
            let ratio = per_step / *smaller.get_or_insert(per_step);
            writeln!(text, "| {} | {records} | {per_step:.0} | {ratio:.2} x |", case.name)
                .expect("a string takes everything");
        }
    }
    Ok(text)
}

/// All instructions of one run.
fn count(mode: &str, case: &str, records: usize) -> Result<f64, String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("valgrind")
        .arg("--tool=cachegrind")
        .args(["--cache-sim=no", "--cachegrind-out-file=/dev/null"])
        .arg(this)
        .args([mode, case, &records.to_string(), &STEPS.to_string()])
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
