//! `cargo xtask test`: every check that the project has, as one table of steps.
//!
//! A step that fails ends the run; the closing table is printed all the same. To add a step, write
//! a function in `steps.rs` and a row in its `STEPS`.

mod features;
mod steps;
mod tools;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail, ensure};

use crate::args::Args;
use crate::cpu::Took;
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
    /// Part of `--quick`, which is for the minutes between two edits.
    is_quick: bool,
}

impl Step {
    const fn new(
        name: &'static str,
        what: &'static str,
        run: fn(&Workspace) -> Result<Done>,
    ) -> Self {
        Self { name, what, run, is_quick: false }
    }

    const fn quick(
        name: &'static str,
        what: &'static str,
        run: fn(&Workspace) -> Result<Done>,
    ) -> Self {
        Self { name, what, run, is_quick: true }
    }
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
    /// None if the step was not reached.
    took: Option<Took>,
}

pub(crate) fn main(workspace: &Workspace, mut args: Args) -> Result<ExitCode> {
    if args.flag("--list") {
        let quick = |step: &Step| if step.is_quick { "quick" } else { "" };
        let rows = STEPS.iter().map(|s| vec![s.name.into(), quick(s).into(), s.what.into()]);
        table::print(&["step", "--quick", "what it checks"], &rows.collect::<Vec<_>>());
        return Ok(ExitCode::SUCCESS);
    }
    let quick = args.flag("--quick");
    let steps = chosen(&args.rest()?, quick)?;
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

/// The steps that `names` asks for, in the table's order; all if it is empty, or all quick ones.
fn chosen(names: &[String], quick: bool) -> Result<Vec<&'static Step>> {
    ensure!(names.is_empty() || !quick, "--quick is a choice of steps: name none beside it");
    if let Some(unknown) = names.iter().find(|name| STEPS.iter().all(|step| step.name != *name)) {
        bail!("there is no step `{unknown}`; `cargo xtask test --list` names them");
    }
    let wanted = |step: &&Step| match names {
        [] => step.is_quick || !quick,
        names => names.iter().any(|name| name == step.name),
    };
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
        let (ended, took) = Took::of(|| (step.run)(workspace));
        let (result, note) = match ended {
            Ok(Done::Passed(note)) => (PASSED, note),
            Ok(Done::DidNotRun(note)) => (DID_NOT_RUN, note),
            Err(error) => (FAILED, format!("{error:#}")),
        };
        println!("=== {}: {result}", step.name);
        stopped = result == FAILED;
        rows.push(Row { name: step.name, result, note, took: Some(took) });
    }
    rows
}

fn print_report(rows: &[Row]) {
    println!();
    let head = ["step", "result", "seconds", "CPU s", "what it did, or why not"];
    table::print(&head, &rows.iter().map(cells).collect::<Vec<_>>());
    println!("\n{}", totals(rows));
}

fn cells(row: &Row) -> Vec<String> {
    let [wall, cpu] = row.took.map_or_else(Default::default, Took::cells);
    vec![row.name.to_owned(), row.result.to_owned(), wall, cpu, row.note.clone()]
}

/// The last line: how many steps passed and failed, and what they cost together.
fn totals(rows: &[Row]) -> String {
    let count = |result| rows.iter().filter(|row| row.result == result).count();
    let took = rows.iter().filter_map(|row| row.took);
    let (wall, cpu) = took.fold((Duration::ZERO, Duration::ZERO), |(wall, cpu), took| {
        (wall + took.wall, cpu + took.cpu.unwrap_or_default())
    });
    let (minutes, seconds) = (wall.as_secs() / 60, wall.as_secs() % 60);
    format!(
        "{} passed, {} failed in {minutes} min {seconds} s; {} s of processor time",
        count(PASSED),
        count(FAILED),
        cpu.as_secs()
    )
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

    const PASS: Step = Step::new("pass", "", pass);
    const ABSENT: Step = Step::new("absent", "", absent);
    const FAIL: Step = Step::new("fail", "", fail);

    #[test]
    fn the_first_failure_ends_the_run_and_every_step_has_its_row() {
        let rows = run(&[&PASS, &ABSENT, &FAIL, &PASS], &nowhere());
        let results: Vec<_> = rows.iter().map(|row| row.result).collect();
        assert_eq!(results, [PASSED, DID_NOT_RUN, FAILED, NOT_REACHED]);
        assert!(totals(&rows).starts_with("1 passed, 1 failed in 0 min 0 s; "));
        assert!(rows[3].took.is_none());
    }

    #[test]
    fn the_table_shows_wall_and_processor_time_of_each_step() {
        let took =
            Took { wall: Duration::from_millis(83_040), cpu: Some(Duration::from_millis(150_000)) };
        let note = "fine".to_owned();
        let row = Row { name: "pass", result: PASSED, note, took: Some(took) };
        assert_eq!(cells(&row), ["pass", "passed", "83.0", "150.0", "fine"]);
        let all = "1 passed, 0 failed in 1 min 23 s; 150 s of processor time";
        assert_eq!(totals(&[row]), all);
    }

    #[test]
    fn steps_are_chosen_by_name_and_unknown_names_are_refused() {
        assert_eq!(chosen(&[], false).unwrap().len(), STEPS.len());
        assert_eq!(chosen(&["tidy".to_owned()], false).unwrap().len(), 1);
        assert!(chosen(&["tydi".to_owned()], false).is_err());
    }

    #[test]
    fn quick_is_format_tidy_clippy_and_the_tests_with_what_they_need() {
        let names: Vec<_> = chosen(&[], true).unwrap().iter().map(|step| step.name).collect();
        assert_eq!(names, ["tools", "format", "tidy", "clippy", "build", "tests"]);
        assert!(chosen(&["loom".to_owned()], true).is_err());
    }

    #[test]
    fn every_step_has_a_name_of_its_own() {
        let mut names: Vec<_> = STEPS.iter().map(|step| step.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), STEPS.len());
    }
}
