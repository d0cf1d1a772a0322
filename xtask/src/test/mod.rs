//! `cargo xtask test`: every check that the project has, as one table of steps.
//!
//! A step that fails ends the run; the closing table is printed all the same. To add a step, write
//! a function in `steps.rs` and a row in its `STEPS`.

mod steps;
mod tools;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::args::Args;
use crate::table;
use crate::workspace::Workspace;
use steps::STEPS;

/// One step of the suite.
#[derive(Debug)]
struct Step {
    name: &'static str,
    /// What it checks, for `--list`.
    what: &'static str,
    run: fn(&Workspace) -> Result<Done>,
}

/// How a step ended that did not fail.
#[derive(Debug)]
enum Done {
    /// It ran and passed; the text says what it did.
    Passed(String),
    /// What it needs can't be had here; the text says what and why. Not a failure, never silent.
    DidNotRun(String),
}

/// A row of the closing table.
#[derive(Debug)]
struct Row {
    name: &'static str,
    result: &'static str,
    note: String,
    took: Option<Duration>,
}

pub(crate) fn main(workspace: &Workspace, mut args: Args) -> Result<ExitCode> {
    if args.flag("--list") {
        let rows: Vec<_> = STEPS.iter().map(|s| vec![s.name.into(), s.what.into()]).collect();
        table::print(&["step", "what it checks"], &rows);
        return Ok(ExitCode::SUCCESS);
    }
    let steps = chosen(&args.rest()?)?;
    // The steps' commands are relative to the workspace, wherever this was started.
    std::env::set_current_dir(&workspace.root)?;
    let rows = run(&steps, workspace);
    print_report(&rows);
    let failed = rows.iter().any(|row| row.result == FAILED);
    Ok(ExitCode::from(u8::from(failed)))
}

const PASSED: &str = "passed";
const FAILED: &str = "FAILED";
const DID_NOT_RUN: &str = "did not run";
const NOT_REACHED: &str = "not reached";

/// The steps that `names` asks for, in the table's order; all if it is empty.
fn chosen(names: &[String]) -> Result<Vec<&'static Step>> {
    if let Some(unknown) = names.iter().find(|name| STEPS.iter().all(|step| step.name != *name)) {
        bail!("there is no step `{unknown}`; `cargo xtask test --list` names them");
    }
    let wanted = |step: &&Step| names.is_empty() || names.iter().any(|name| name == step.name);
    Ok(STEPS.iter().filter(wanted).collect())
}

fn run(steps: &[&'static Step], workspace: &Workspace) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut stopped = false;
    for step in steps {
        if stopped {
            let note = "an earlier step failed".to_owned();
            rows.push(Row { name: step.name, result: NOT_REACHED, note, took: None });
            continue;
        }
        println!("\n=== {}: {}", step.name, step.what);
        let start = Instant::now();
        let (result, note) = match (step.run)(workspace) {
            Ok(Done::Passed(note)) => (PASSED, note),
            Ok(Done::DidNotRun(note)) => (DID_NOT_RUN, note),
            Err(error) => (FAILED, format!("{error:#}")),
        };
        println!("=== {}: {result}", step.name);
        stopped = result == FAILED;
        rows.push(Row { name: step.name, result, note, took: Some(start.elapsed()) });
    }
    rows
}

fn print_report(rows: &[Row]) {
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let seconds =
                row.took.map_or(String::new(), |took| format!("{:.1}", took.as_secs_f64()));
            vec![row.name.to_owned(), row.result.to_owned(), seconds, row.note.clone()]
        })
        .collect();
    println!();
    table::print(&["step", "result", "seconds", "what it did, or why not"], &cells);
    println!("\n{}", totals(rows));
}

/// The last line: how many steps passed and failed.
fn totals(rows: &[Row]) -> String {
    let count = |result| rows.iter().filter(|row| row.result == result).count();
    format!("{} passed, {} failed", count(PASSED), count(FAILED))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nowhere() -> Workspace {
        Workspace { root: "/".into(), target: "/".into(), packages: Vec::new() }
    }

    fn pass(_: &Workspace) -> Result<Done> {
        Ok(Done::Passed("fine".to_owned()))
    }

    fn absent(_: &Workspace) -> Result<Done> {
        Ok(Done::DidNotRun("no such tool".to_owned()))
    }

    fn fail(_: &Workspace) -> Result<Done> {
        bail!("broken")
    }

    const PASS: Step = Step { name: "pass", what: "", run: pass };
    const ABSENT: Step = Step { name: "absent", what: "", run: absent };
    const FAIL: Step = Step { name: "fail", what: "", run: fail };

    #[test]
    fn the_first_failure_ends_the_run_and_every_step_has_its_row() {
        let rows = run(&[&PASS, &ABSENT, &FAIL, &PASS], &nowhere());
        let results: Vec<_> = rows.iter().map(|row| row.result).collect();
        assert_eq!(results, [PASSED, DID_NOT_RUN, FAILED, NOT_REACHED]);
        assert_eq!(totals(&rows), "1 passed, 1 failed");
    }

    #[test]
    fn steps_are_chosen_by_name_and_unknown_names_are_refused() {
        assert_eq!(chosen(&[]).unwrap().len(), STEPS.len());
        assert_eq!(chosen(&["tidy".to_owned()]).unwrap().len(), 1);
        assert!(chosen(&["tydi".to_owned()]).is_err());
    }

    #[test]
    fn every_step_has_a_name_of_its_own() {
        let mut names: Vec<_> = STEPS.iter().map(|step| step.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), STEPS.len());
    }
}
