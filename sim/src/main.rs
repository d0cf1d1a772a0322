//! `cargo run -p sim --release -- --help`: runs worlds, replays one, makes a failing one smaller.
#![forbid(unsafe_code)]

mod args;
mod many;

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use lockspan_protocol::Bug;
use sim::{Failure, Plan, bugs, run, shrink};

use args::{Args, HELP, Task};
use many::Met;

/// Lines of a trace that are shown with a failure: what led to it is at the end.
const TRACE_LINES: usize = 120;

/// What is in most lines of a trace, and tells nothing about a failure.
const NOISE: [&str; 4] = ["alive", "Lease {", "Renew {", "Renewed {"];

fn main() -> ExitCode {
    // A panic of a machine is caught and reported with its world; its own words go with it.
    std::panic::set_hook(Box::new(|_| {}));
    match Args::parse(std::env::args().skip(1)).and_then(|args| work(&args)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("sim: {error:#}; --help says more");
            ExitCode::from(2)
        }
    }
}

/// True if nothing is wrong.
fn work(args: &Args) -> Result<bool> {
    match args.task {
        Task::Help => {
            let names: Vec<_> = Plan::names().collect();
            println!("{HELP}    {}", names.join(", "));
            Ok(true)
        }
        Task::Worlds => worlds(args),
        Task::Trace => replay(args, |plan| sim::trace(plan, args.bugs())),
        Task::Mermaid => replay(args, |plan| sim::mermaid(plan, args.bugs(), args.lines)),
        Task::Bugs => Ok(find_bugs(args)),
    }
}

fn worlds(args: &Args) -> Result<bool> {
    let begun = Instant::now();
    let total = args.seeds.end.saturating_sub(args.seeds.start);
    // Whatever is wrong with the numbers is wrong with all of them.
    args.plan(args.seeds.start)?;
    let plan_of = |seed| args.plan(seed).expect("the plan of another seed could be made");
    let says = |met: &Met, plan: &Plan, failure: Option<&Failure>| {
        if std::io::stderr().is_terminal() && met.worlds.is_multiple_of(100) {
            eprint!("\r{} of {total} worlds, {} steps", met.worlds, met.steps);
        }
        if let Some(failure) = failure.filter(|_| args.keep_going) {
            let what: String = failure.to_string().chars().take(200).collect();
            println!("\rseed {}, {} {}: {what}", plan.seed, plan.class, plan.workload);
        }
    };
    let met = many::run(
        args.seeds.clone(),
        args.keep_going,
        plan_of,
        |plan| run(plan, args.bugs()),
        says,
    );
    if let Some((plan, failure)) = met.broken.values().next().filter(|_| !args.keep_going) {
        report(args, plan, failure);
        return Ok(false);
    }
    let seconds = begun.elapsed().as_secs_f64();
    let Met { worlds, steps, overlaps, coverage, broken, .. } = &met;
    println!(
        "\r{worlds} worlds, {steps} steps, {} broken; {:.1} s, {:.0} worlds/s, {:.0} steps/s",
        broken.len(),
        seconds,
        *worlds as f64 / seconds,
        *steps as f64 / seconds
    );
    print!("{met}");
    println!("{overlaps} guards overlapped where clocks don't keep the margin (allowed there)");
    print!("{coverage}");
    let missing = coverage.missing();
    for words in &missing {
        println!("never: {words}");
    }
    Ok(broken.is_empty() && (missing.is_empty() || !args.require_coverage))
}

/// Says what is wrong, in the smallest world that still shows it.
fn report(args: &Args, plan: &Plan, failure: &Failure) {
    println!("\rseed {}: {failure}", plan.seed);
    println!("  {} {}, {}", plan.class, plan.workload, plan.flags());
    let (plan, failure) = match args.shrink {
        true => shrink::shrink(plan, args.bugs(), failure),
        false => (plan.clone(), failure.clone()),
    };
    let (_, trace) = sim::trace(&plan, args.bugs());
    let telling = |line: &&str| !NOISE.iter().any(|noise| line.contains(noise));
    let lines: Vec<_> = trace.lines().filter(telling).collect();
    let from = lines.len().saturating_sub(TRACE_LINES);
    println!("smallest world: {failure}");
    lines[from..].iter().for_each(|line| println!("{line}"));
    let bug = args.bug.map_or(String::new(), |bug| format!(" --bug {bug:?}"));
    println!("again: cargo run -p sim --release -- {}{bug} --trace", plan.flags());
}

fn replay(args: &Args, play: impl Fn(&Plan) -> (sim::Outcome, String)) -> Result<bool> {
    let mut good = true;
    for seed in args.seeds.clone() {
        let (outcome, text) = play(&args.plan(seed)?);
        print!("{text}");
        if let Some(failure) = outcome.failure {
            println!("%% seed {seed}: {failure}");
            good = false;
        }
    }
    Ok(good)
}

/// A line for each bug: who finds it.
fn find_bugs(args: &Args) -> bool {
    let bugs: Vec<_> =
        Bug::ALL.iter().filter(|&&bug| args.bug.is_none_or(|it| it == bug)).collect();
    let found = many::for_each(&bugs, |&&bug| {
        let plans = args.seeds.clone().filter_map(|seed| args.plan(seed).ok());
        bugs::find(bug, plans)
    });
    for (bug, found) in bugs.iter().zip(&found) {
        let name = format!("{bug:?}");
        match found {
            Some((seed, failure)) => {
                let what: String = failure.to_string().chars().take(120).collect();
                println!("{name:<22} {seed:>6}  {what}");
            }
            None => println!("{name:<22}      -  not found in {:?}", args.seeds),
        }
    }
    found.iter().all(Option::is_some)
}
