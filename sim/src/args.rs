//! The command line.

use std::ops::Range;

use anyhow::{Context as _, Result, bail, ensure};
use lockspan_protocol::{Bug, Bugs};
use sim::plan::{Class, Workload};
use sim::{Plan, bugs};

/// What `--help` prints.
pub(crate) const HELP: &str = "\
Tries to break the lock protocol. The same seed gives the same world.

Usage: cargo run -p sim --release -- [OPTIONS]

  --seeds A..B          run these worlds (default 0..1000)
  --seed N              run one world
  --trace               write a line for everything that happens
  --mermaid             write the last messages as a Mermaid sequence diagram
  --lines N             of at most so many lines (default 200)
  --require-coverage    fail unless everything that should be tried was tried
  --bug NAME            put a bug back
  --bugs                for each bug, find the first world that finds it; fail if there is none
  --keep-going          don't stop at a failure: a line for each world that fails
  --no-shrink           don't look for a smaller world that fails in the same way
  --help                print this

Of the worlds:
  --class C             calm, jitter, restart, faulty, drift
  --workload W          cached, contended, readers, many, upgrades, transactions
  --<number> N          any number of the plan; a failure prints those that matter:
";

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    Help,
    Worlds,
    Trace,
    Mermaid,
    Bugs,
}

/// What the command line asks for.
#[derive(Debug)]
pub(crate) struct Args {
    pub(crate) task: Task,
    pub(crate) seeds: Range<u64>,
    pub(crate) bug: Option<Bug>,
    pub(crate) lines: usize,
    pub(crate) require_coverage: bool,
    pub(crate) shrink: bool,
    pub(crate) keep_going: bool,
    class: Option<Class>,
    workload: Option<Workload>,
    numbers: Vec<(String, u64)>,
}

impl Args {
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self> {
        let mut args = Self {
            task: Task::Worlds,
            seeds: 0..1000,
            bug: None,
            lines: 200,
            require_coverage: false,
            shrink: true,
            keep_going: false,
            class: None,
            workload: None,
            numbers: Vec::new(),
        };
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("{word} needs a value"));
            match word.as_str() {
                "--help" | "-h" => args.task = Task::Help,
                "--trace" => args.task = Task::Trace,
                "--mermaid" => args.task = Task::Mermaid,
                "--bugs" => args.task = Task::Bugs,
                "--require-coverage" => args.require_coverage = true,
                "--keep-going" => args.keep_going = true,
                "--no-shrink" => args.shrink = false,
                "--seed" => {
                    let seed = number(&value()?)?;
                    args.seeds = seed..seed + 1;
                }
                "--seeds" => args.seeds = range(&value()?)?,
                "--lines" => args.lines = number(&value()?)? as usize,
                "--class" => args.class = Some(value()?.parse()?),
                "--workload" => args.workload = Some(value()?.parse()?),
                "--bug" => {
                    let name = value()?;
                    args.bug = Some(bugs::named(&name).with_context(|| format!("no bug {name}"))?);
                }
                _ => {
                    let name = word.strip_prefix("--").unwrap_or_default().to_owned();
                    ensure!(Plan::names().any(|known| known == name), "unknown option {word}");
                    let number = number(&value()?)?;
                    args.numbers.push((name, number));
                }
            }
        }
        Ok(args)
    }

    /// The world of a seed, with what the command line says about it.
    pub(crate) fn plan(&self, seed: u64) -> Result<Plan> {
        let mut plan = Plan::draw_with(seed, self.class, self.workload);
        for (name, value) in &self.numbers {
            plan.set(name, *value)?;
        }
        Ok(plan)
    }

    pub(crate) fn bugs(&self) -> Bugs {
        self.bug.map_or(Bugs::NONE, Bugs::only)
    }
}

fn number(word: &str) -> Result<u64> {
    word.parse().with_context(|| format!("'{word}' is not a number"))
}

fn range(word: &str) -> Result<Range<u64>> {
    match word.split_once("..") {
        Some((from, to)) => Ok(number(from)?..number(to)?),
        None => bail!("'{word}' is not a range; 0..1000 is one"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Args> {
        Args::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn a_world_can_be_described() {
        let args = parse("--seed 7 --trace --class calm --nodes 2 --bug NoMargin").unwrap();
        assert_eq!((args.task, args.seeds.clone()), (Task::Trace, 7..8));
        assert_eq!(args.bug, Some(Bug::NoMargin));
        let plan = args.plan(7).unwrap();
        assert_eq!((plan.class, plan.nodes), (Class::Calm, 2));
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for line in ["--colour 3", "--seeds 5", "--seed x", "--nodes", "--bug None", "seed"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
