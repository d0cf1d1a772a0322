//! `cargo xtask weaken`: is every memory ordering needed, and does a model prove it?
//!
//! Each lock keeps its orderings as constants in `ord.rs`. One at a time is weakened, in a copy of
//! the workspace, and a loom model of that lock's own module must then fail: what only another
//! lock's model would find is found late, and by luck. A mutant that survives means an ordering
//! that nobody needs, or a model that is missing. With `LOCKSPAN_MODEL=full` in the environment
//! the dearest models are searched more deeply.
//!
//! The outcome of each mutant is kept (`results.rs`), so that the run can be cut into parts and
//! resumed; the closing table shows the mutants of all parts.

mod mutants;
mod results;
mod scratch;
mod select;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::args::Args;
use crate::models::{self, LOOM, Model, Report, Suite, Verdict};
use crate::table;
use crate::workspace::Workspace;
use mutants::Mutant;
use results::Results;
use scratch::Scratch;
use select::Part;

/// Processor time of one model of a mutant.
const LIMIT_SECONDS: u64 = 300;
/// Processor time of one unchanged model.
const BASELINE_LIMIT: Duration = Duration::from_secs(1800);

/// What became of a mutant, or of an unchanged model.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Outcome {
    verdict: Verdict,
    /// The models that failed first, or that ran into the limit.
    by: String,
    /// Processor time of the models.
    took: Duration,
}

pub(crate) fn main(workspace: &Workspace, mut args: Args) -> Result<ExitCode> {
    let limit = args.value("--limit")?.map_or(Ok(LIMIT_SECONDS), |limit| limit.parse());
    let limit = Duration::from_secs(limit.context("--limit is a number of seconds")?);
    let part = args.value("--part")?.map_or(Ok(Part::ALL), |part| Part::parse(&part))?;
    let resume = args.flag("--resume");
    let filter = args.at_most_one()?.unwrap_or_default();

    let mut mutants = mutants::find(workspace)?;
    mutants.retain(|mutant| mutant.label().contains(&filter));
    ensure!(!mutants.is_empty(), "no ordering constant has `{filter}` in its name");

    let mut results = Results::open(&workspace.target.join("weaken"))?;
    let mut keys = Vec::new();
    for group in mutants.chunk_by(|a, b| a.package == b.package) {
        keys.resize(keys.len() + group.len(), results::key(workspace, &group[0].package)?);
    }
    let known: Vec<_> =
        mutants.iter().zip(&keys).map(|(mutant, key)| results.get(key, &mutant.name())).collect();
    let chosen = select::choose(&known, part, resume);
    println!("{} of {} mutants to try", chosen.len(), mutants.len());
    for group in chosen.chunk_by(|&a, &b| mutants[a].package == mutants[b].package) {
        let key = &keys[group[0]];
        let group: Vec<_> = group.iter().map(|&at| &mutants[at]).collect();
        let bench = Bench::new(workspace, &group, key, resume, &mut results)?;
        for mutant in group {
            let outcome = bench.try_mutant(mutant, limit)?;
            println!("{}", row(mutant, Some(&outcome)).join("  "));
            results.keep(key, &mutant.name(), outcome)?;
        }
    }

    let outcomes: Vec<_> =
        mutants.iter().zip(&keys).map(|(mutant, key)| results.get(key, &mutant.name())).collect();
    let rows: Vec<_> =
        mutants.iter().zip(&outcomes).map(|(mutant, outcome)| row(mutant, *outcome)).collect();
    println!();
    table::print(&["constant", "mutant", "result", "CPU s", "by"], &rows);
    let count = |verdict: Option<Verdict>| {
        outcomes.iter().filter(|outcome| outcome.map(|it| it.verdict) == verdict).count()
    };
    let (caught, missing) = (count(Some(Verdict::Failed)), count(None));
    let bad = rows.len() - caught - missing;
    println!("\n{caught} caught, {bad} not, {missing} not tried");
    Ok(ExitCode::from(u8::from(bad > 0)))
}

/// A copy of the workspace in which the models of one crate's mutants pass.
struct Bench {
    scratch: Scratch,
    package: String,
    target: std::path::PathBuf,
    /// The names of the models, the quickest first.
    order: Vec<String>,
}

impl Bench {
    /// Makes the copy and runs the models unchanged: weakening says nothing about a red suite.
    /// With `resume`, models that have passed unchanged already are not run again.
    fn new(
        workspace: &Workspace,
        mutants: &[&Mutant],
        key: &str,
        resume: bool,
        results: &mut Results,
    ) -> Result<Self> {
        let package = mutants[0].package.as_str();
        let home = workspace.target.join("weaken");
        let scratch = Scratch::new(&workspace.root, &home.join("workspace"))?;
        let mut bench = Self {
            scratch,
            package: package.to_owned(),
            target: home.join("target"),
            order: Vec::new(),
        };
        let mut models = bench.build()?;
        for mutant in mutants {
            let has_one = models.iter().any(|model| mutant.is_of(&model.name));
            ensure!(has_one, "{}: no model has its module's name", mutant.label());
        }
        models.retain(|model| mutants.iter().any(|mutant| mutant.is_of(&model.name)));
        let names: Vec<_> = models.iter().map(|model| model.name.clone()).collect();
        let unchanged = |name: &str| format!("unchanged {name}");
        models.retain(|model| {
            let known = results.get(key, &unchanged(&model.name));
            !(resume && known.is_some_and(|it| it.verdict == Verdict::Passed))
        });
        println!("{package}: {} models, {} to run unchanged first", names.len(), models.len());
        let mut kept = Ok(());
        let reports = models::run(&models, BASELINE_LIMIT, true, &bench.logs(), |report| {
            report.print();
            let Report { model, verdict, took, .. } = report;
            let outcome = Outcome { verdict: *verdict, took: *took, by: String::new() };
            if let Err(error) = results.keep(key, &unchanged(&model.name), outcome) {
                kept = Err(error);
            }
        })?;
        kept?;
        if let Some(red) = reports.iter().find(|report| report.verdict != Verdict::Passed) {
            let (name, log) = (&red.model.name, red.log.display());
            anyhow::bail!("{name} does not pass without any mutant, see {log}");
        }
        bench.order = names;
        bench.order.sort_by_key(|name| results.get(key, &unchanged(name)).map(|it| it.took));
        Ok(bench)
    }

    fn try_mutant(&self, mutant: &Mutant, limit: Duration) -> Result<Outcome> {
        self.scratch.write(&mutant.path, &mutant.text)?;
        let built = self.build();
        let outcome = built
            .with_context(|| format!("{} does not build", mutant.name()))
            .and_then(|models| self.judge(mutant, models, limit));
        self.scratch.write(&mutant.path, &mutant.original)?;
        outcome
    }

    /// Runs the models of the mutant's own lock, the quick ones before the slow.
    fn judge(&self, mutant: &Mutant, mut models: Vec<Model>, limit: Duration) -> Result<Outcome> {
        models.retain(|model| mutant.is_of(&model.name));
        models.sort_by_key(|model| self.order.iter().position(|name| *name == model.name));
        let reports = models::run(&models, limit, true, &self.logs(), |_| ())?;
        let took = reports.iter().map(|report| report.took).sum();
        let stopped_by = |verdict| {
            let those = reports.iter().filter(move |report| report.verdict == verdict);
            those.map(|report| report.model.name.as_str()).collect::<Vec<_>>().join(", ")
        };
        let worst = [Verdict::Failed, Verdict::TimedOut]
            .into_iter()
            .find(|verdict| reports.iter().any(|report| report.verdict == *verdict));
        let verdict = worst.unwrap_or(Verdict::Passed);
        let by = worst.map_or_else(|| format!("none of {}", reports.len()), stopped_by);
        Ok(Outcome { verdict, by, took })
    }

    fn build(&self) -> Result<Vec<Model>> {
        let packages = [self.package.as_str()];
        let target = self.target.clone();
        let dir = &self.scratch.dir;
        Suite { dir, target, kind: &LOOM, packages: &packages, incremental: true }.build()
    }

    fn logs(&self) -> std::path::PathBuf {
        self.target.join("logs")
    }
}

fn row(mutant: &Mutant, outcome: Option<&Outcome>) -> Vec<String> {
    let result = match outcome.map(|outcome| outcome.verdict) {
        Some(Verdict::Failed) => "caught",
        Some(Verdict::Passed) => "SURVIVED",
        Some(Verdict::TimedOut) => "TIMEOUT",
        None => "not tried",
    };
    vec![
        mutant.label(),
        format!("{} -> {}", mutant.from, mutant.to),
        result.to_owned(),
        outcome.map_or(String::new(), |outcome| format!("{:.1}", outcome.took.as_secs_f64())),
        outcome.map_or(String::new(), |outcome| outcome.by.clone()),
    ]
}
