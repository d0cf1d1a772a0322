//! Progressive locks beside parking_lot's and std's read-write locks, our fair one, a lock that
//! only spins, and queues.
//!
//! `cargo run --release -p lockspan-benches --bin progressive` measures everything; `--help` has
//! the options. Each cell is a module with a `run`. Contestants take turns round by round, and a
//! ratio is taken inside each round. A row whose target is missed says so, and stands again at the
//! end.

mod crowd;
mod entry;
mod index;
mod queue;
mod spinning;
mod uncontended;

#[path = "../service/args.rs"]
#[expect(dead_code, reason = "the lock service has options of its own")]
mod args;
#[path = "../../chance.rs"]
mod chance;
#[path = "../../clock.rs"]
#[expect(dead_code, reason = "other locks are held for a time")]
mod clock;
#[path = "../service/contest.rs"]
#[expect(dead_code, reason = "the lock service needs more of it")]
mod contest;
#[path = "../../machine.rs"]
#[expect(dead_code, reason = "other results have more to say about it")]
mod machine;
#[path = "../service/report.rs"]
#[expect(dead_code, reason = "no peer of these is ever absent")]
mod report;
#[path = "../service/timing.rs"]
#[expect(dead_code, reason = "the lock service needs more of it")]
mod timing;

use std::fmt::Display;
use std::process::ExitCode;

use args::{Args, Job};
use report::Report;

const HELP: &str = "\
Measures progressive locks beside other locks and queues.

Usage: cargo run --release -p lockspan-benches --bin progressive -- [OPTIONS]

Options:
  --cells A,B      only these: uncontended, index, queue
  --rounds N       rounds of every comparison
  --seconds S      length of one sample
  --out FILE       write the tables there as well
  --record NAME    write them to results-progressive/<date>-NAME.md
  --smoke          everything once and very short; its numbers mean nothing
  --help           print this
";

/// Measures one cell.
type Cell = fn(&Args, &mut Report) -> Result<(), String>;

const CELLS: [(&str, Cell); 3] =
    [("uncontended", uncontended::run), ("index", index::run), ("queue", queue::run)];

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
    clock::ticks_per_ns();
    let note = machine::versions(&["parking_lot", "crossbeam-queue"]).join(", ") + ".";
    let peers = [("rustc", "--version")];
    let title = "Progressive locks beside other locks";
    let mut report = Report::begin(title, &note, &peers, args.smoke);
    for (name, cell) in CELLS {
        if args.cells.is_empty() || args.cells.iter().any(|chosen| chosen == name) {
            cell(&args, &mut report).map_err(|why| format!("{name}: {why}"))?;
        }
    }
    report.finish(args.file("results-progressive").as_deref())
}

/// An error as text, for people.
fn say(why: impl Display) -> String {
    why.to_string()
}
