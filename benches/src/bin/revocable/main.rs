//! Revocable locks and data of each processor beside plain stores, interlocked instructions and
//! mutexes: the table of the article that proposed them, on the machine at hand.
//!
//! `cargo xtask bench revocable` measures everything; `--help` has the options. A cell is a module
//! with a `run`. Contestants take turns slice by slice, and a ratio is taken inside each round. A
//! row whose target is missed says so, and stands again at the end.

mod cost;
mod crowd;
mod inside;
mod latency;
mod methods;
mod system;
mod text;
mod threads;

#[path = "../service/args.rs"]
#[expect(dead_code, reason = "the lock service has options of its own")]
mod args;
#[path = "../../clock.rs"]
#[expect(dead_code, reason = "other locks are held for a time")]
mod clock;
#[path = "../service/contest.rs"]
#[expect(dead_code, reason = "each contestant here measures several things")]
mod contest;
#[path = "../../machine.rs"]
#[expect(dead_code, reason = "other results have more to say about it")]
mod machine;
#[path = "../service/report.rs"]
#[expect(dead_code, reason = "no peer of these is ever absent")]
mod report;

use std::process::ExitCode;

use args::{Args, Job};
use report::Report;

const HELP: &str = "\
Measures revocable locks and data of each processor beside other ways to count.

Usage: cargo run --release -p lockspan-benches --bin revocable -- [OPTIONS]

Options:
  --cells A,B      only these: cost, threads, inside, latency
  --rounds N       rounds of every comparison
  --seconds S      length of a sample with many threads
  --out FILE       write the tables there as well
  --record NAME    write them to results-revocable/<date>-NAME.md
  --smoke          everything once and very short; its numbers mean nothing
  --help           print this

LOCKSPAN_REVOCABLE_BACKEND chooses another backend.
";

/// Measures one cell.
type Cell = fn(&Args, &mut Report) -> Result<(), String>;

const CELLS: [(&str, Cell); 4] = [
    ("cost", cost::run),
    ("threads", threads::run),
    ("inside", inside::run),
    ("latency", latency::run),
];

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<(), String> {
    let args = match Job::parse(std::env::args().skip(1))? {
        Job::Help => {
            print!("{HELP}");
            return Ok(());
        }
        Job::Child(_) => return Err(format!("{} is for other programs", args::CHILD)),
        Job::Measure(args) => args,
    };
    let unknown = args.cells.iter().find(|cell| !CELLS.iter().any(|(name, _)| name == cell));
    if let Some(cell) = unknown {
        let names = CELLS.map(|(name, _)| name).join(", ");
        return Err(format!("there is no cell '{cell}'; there are {names}"));
    }
    // Measures the clock before anything is timed by it.
    let rate = clock::ticks_per_ns();
    let peers = machine::versions(&["parking_lot", "crossbeam-queue"]).join(", ");
    let backend = lockspan::thread::revocable::backend();
    let note = format!(
        "Cycles are counts of the time stamp counter, {rate:.3} a nanosecond. {peers}.\n\
         Backend: {backend}."
    );
    let title = "Revocable locks and data of each processor";
    let mut report = Report::begin(title, &note, &[("rustc", "--version")], args.smoke);
    for (name, cell) in CELLS {
        if args.cells.is_empty() || args.cells.iter().any(|chosen| chosen == name) {
            cell(&args, &mut report).map_err(|why| format!("{name}: {why}"))?;
        }
    }
    report.finish(args.file("results-revocable").as_deref())
}
