//! The command line.

use std::borrow::Cow;
use std::ops::Range;

use anyhow::{Context as _, Result};
use lockspan_protocol::{Bug, Bugs};
use pico_args::Arguments;
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
  --class C             calm, jitter, restart, faulty, drift, rollback, moving, strangers
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
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> Result<Self> {
        let mut words = Arguments::from_vec(words.map(Into::into).collect());
        let tasks = [
            ("--help", Task::Help),
            ("-h", Task::Help),
            ("--bugs", Task::Bugs),
            ("--mermaid", Task::Mermaid),
            ("--trace", Task::Trace),
        ];
        let mut task = Task::Worlds;
        for (flag, means) in tasks {
            if words.contains(flag) {
                task = means;
                break;
            }
        }
        let seed: Option<u64> = words.opt_value_from_str("--seed")?;
        let seeds = words.opt_value_from_fn("--seeds", range)?.unwrap_or(0..1000);
        Ok(Self {
            task,
            seeds: seed.map_or(seeds, |seed| seed..seed + 1),
            bug: words.opt_value_from_fn("--bug", bug)?,
            lines: words.opt_value_from_str("--lines")?.unwrap_or(200),
            require_coverage: words.contains("--require-coverage"),
            shrink: !words.contains("--no-shrink"),
            keep_going: words.contains("--keep-going"),
            class: words.opt_value_from_str("--class")?,
            workload: words.opt_value_from_str("--workload")?,
            numbers: numbers(words)?,
        })
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
    let (from, to) =
        word.split_once("..").with_context(|| format!("'{word}' is no range; 0..1000 is one"))?;
    Ok(number(from)?..number(to)?)
}

fn bug(name: &str) -> Result<Bug> {
    bugs::named(name).with_context(|| format!("no bug {name}"))
}

/// What is left of the command line: the plan's own numbers, each `--name N`.
fn numbers(words: Arguments) -> Result<Vec<(String, u64)>> {
    let rest = words.finish();
    let rest: Vec<_> = rest.iter().map(|word| word.to_string_lossy()).collect();
    let one = |pair: &[Cow<'_, str>]| {
        let name = pair[0].strip_prefix("--").filter(|name| Plan::names().any(|it| it == *name));
        let name = name.with_context(|| format!("unknown option {}", pair[0]))?;
        let value = pair.get(1).with_context(|| format!("--{name} needs a value"))?;
        Ok((name.to_owned(), number(value)?))
    };
    rest.chunks(2).map(one).collect()
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
