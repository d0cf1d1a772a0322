//! `cargo xtask weaken`: is every memory ordering needed, and does a model prove it?
//!
//! Each lock keeps its orderings as constants in `ord.rs`. One at a time is weakened, in a copy of
//! the workspace, and a loom model of that lock's own module must then fail: what only another
//! lock's model would find is found late, and by luck. A mutant that survives means an ordering
//! that nobody needs, or a model that is missing. With `LOCKSPAN_MODEL=full` in the environment
//! the dearest models are searched more deeply.

mod mutants;
mod scratch;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::args::Args;
use crate::models::{self, LOOM, Model, Report, Suite, Verdict};
use crate::table;
use crate::workspace::Workspace;
use mutants::Mutant;
use scratch::Scratch;

const LIMIT_SECONDS: u64 = 300;
/// The models of a healthy crate, all of them.
const BASELINE_LIMIT: Duration = Duration::from_secs(1800);

/// What became of a mutant.
#[derive(Debug)]
struct Outcome {
    verdict: Verdict,
    /// The models that failed first, or that ran into the limit.
    by: String,
    took: Duration,
}

pub(crate) fn main(workspace: &Workspace, mut args: Args) -> Result<ExitCode> {
    let limit = args.value("--limit")?.map_or(Ok(LIMIT_SECONDS), |limit| limit.parse());
    let limit = Duration::from_secs(limit.context("--limit is a number of seconds")?);
    let filter = args.at_most_one()?.unwrap_or_default();

    let mut mutants = mutants::find(workspace)?;
    mutants.retain(|mutant| mutant.label().contains(&filter));
    ensure!(!mutants.is_empty(), "no ordering constant has `{filter}` in its name");

    let mut rows = Vec::new();
    let mut bad = 0;
    for group in mutants.chunk_by(|a, b| a.package == b.package) {
        let bench = Bench::new(workspace, group, limit)?;
        for mutant in group {
            let outcome = bench.try_mutant(mutant)?;
            bad += usize::from(outcome.verdict != Verdict::Failed);
            rows.push(row(mutant, &outcome));
            println!("{}", rows[rows.len() - 1].join("  "));
        }
    }
    println!();
    table::print(&["constant", "mutant", "result", "seconds", "by"], &rows);
    println!("\n{} caught, {bad} not", rows.len() - bad);
    Ok(ExitCode::from(u8::from(bad > 0)))
}

/// A copy of the workspace in which the models of one crate's mutants pass.
struct Bench {
    scratch: Scratch,
    package: String,
    target: std::path::PathBuf,
    /// The names of the models, the quickest first.
    order: Vec<String>,
    limit: Duration,
}

impl Bench {
    /// Makes the copy and runs the models unchanged: weakening says nothing about a red suite.
    fn new(workspace: &Workspace, mutants: &[Mutant], limit: Duration) -> Result<Self> {
        let package = mutants[0].package.as_str();
        let home = workspace.target.join("weaken");
        let scratch = Scratch::new(&workspace.root, &home.join("workspace"))?;
        let mut bench = Self {
            scratch,
            package: package.to_owned(),
            target: home.join("target"),
            order: Vec::new(),
            limit,
        };
        let mut models = bench.build()?;
        for mutant in mutants {
            let has_one = models.iter().any(|model| mutant.is_of(&model.name));
            ensure!(has_one, "{}: no model has its module's name", mutant.label());
        }
        models.retain(|model| mutants.iter().any(|mutant| mutant.is_of(&model.name)));
        println!("{package}: {} models, unchanged first", models.len());
        let deadline = Instant::now() + BASELINE_LIMIT;
        let mut reports = models::run(&models, deadline, true, &bench.logs(), Report::print)?;
        if let Some(red) = reports.iter().find(|report| report.verdict != Verdict::Passed) {
            let (name, log) = (&red.model.name, red.log.display());
            anyhow::bail!("{name} does not pass without any mutant, see {log}");
        }
        reports.sort_by_key(|report| report.took);
        bench.order = reports.into_iter().map(|report| report.model.name).collect();
        Ok(bench)
    }

    fn try_mutant(&self, mutant: &Mutant) -> Result<Outcome> {
        let start = Instant::now();
        self.scratch.write(&mutant.path, &mutant.text)?;
        let built = self.build();
        let outcome = built
            .with_context(|| format!("{} -> {} does not build", mutant.label(), mutant.to))
            .and_then(|models| self.judge(mutant, models, start));
        self.scratch.write(&mutant.path, &mutant.original)?;
        outcome
    }

    /// Runs the models of the mutant's own lock, the quick ones before the slow.
    fn judge(&self, mutant: &Mutant, mut models: Vec<Model>, start: Instant) -> Result<Outcome> {
        models.retain(|model| mutant.is_of(&model.name));
        models.sort_by_key(|model| self.order.iter().position(|name| *name == model.name));
        let reports =
            models::run(&models, Instant::now() + self.limit, true, &self.logs(), |_| ())?;
        let stopped_by = |verdict| {
            let those = reports.iter().filter(move |report| report.verdict == verdict);
            those.map(|report| report.model.name.as_str()).collect::<Vec<_>>().join(", ")
        };
        let worst = [Verdict::Failed, Verdict::TimedOut]
            .into_iter()
            .find(|verdict| reports.iter().any(|report| report.verdict == *verdict));
        let verdict = worst.unwrap_or(Verdict::Passed);
        let by = worst.map_or_else(|| format!("none of {}", reports.len()), stopped_by);
        Ok(Outcome { verdict, by, took: start.elapsed() })
    }

    fn build(&self) -> Result<Vec<Model>> {
        let packages = [self.package.as_str()];
        let target = self.target.clone();
        let dir = &self.scratch.dir;
        Suite { dir, target, kind: &LOOM, packages: &packages }.build()
    }

    fn logs(&self) -> std::path::PathBuf {
        self.target.join("logs")
    }
}

fn row(mutant: &Mutant, outcome: &Outcome) -> Vec<String> {
    let result = match outcome.verdict {
        Verdict::Failed => "caught",
        Verdict::Passed => "SURVIVED",
        Verdict::TimedOut => "TIMEOUT",
    };
    vec![
        mutant.label(),
        format!("{} -> {}", mutant.from, mutant.to),
        result.to_owned(),
        format!("{:.1}", outcome.took.as_secs_f64()),
        outcome.by.clone(),
    ]
}
