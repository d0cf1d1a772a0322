//! Locks on Redis beside what else people use there: `SET NX PX` with a script that compares and
//! deletes, redis-py's Lock, the crate rslock, and the data model's own scripts with polling.
//!
//! `cargo run --release -p lockspan-benches --bin redis` starts a Redis for each cell on a free
//! loopback port, and stops it again; `--help` has the options. Contestants take turns round by
//! round, and a ratio is taken inside each round. A row whose target is missed says so.

mod contended;
mod cycle;
mod model;
mod peers;
mod python;
mod readers;
mod stats;
mod writer;

#[path = "../service/args.rs"]
#[expect(dead_code, reason = "the lock service has options of its own")]
mod args;
#[path = "../service/child.rs"]
mod child;
#[path = "../service/contest.rs"]
#[expect(dead_code, reason = "the lock service needs more of it")]
mod contest;
#[path = "../service/memory.rs"]
#[expect(dead_code, reason = "the lock service needs more of it")]
mod memory;
#[path = "../service/process.rs"]
#[expect(dead_code, reason = "the lock service needs more of it")]
mod process;
#[path = "../service/report.rs"]
mod report;
#[path = "../service/redis.rs"]
#[expect(dead_code, reason = "the lock service needs more of it")]
mod set_nx;
#[path = "../service/timing.rs"]
#[expect(dead_code, reason = "the lock service needs more of it")]
mod timing;

use std::fmt::Display;
use std::process::ExitCode;

use args::{Args, Job};
use report::Report;

const HELP: &str = "\
Measures locks on Redis beside others on Redis.

Usage: cargo run --release -p lockspan-benches --bin redis -- [OPTIONS]

Options:
  --cells A,B      only these: cycle, contended, writer, readers
  --rounds N       rounds of every comparison
  --seconds S      length of one sample
  --out FILE       write the tables there as well
  --record NAME    write them to results-redis/<date>-NAME.md
  --smoke          everything once and very short; its numbers mean nothing
  --help           print this

redis-py is measured with the Python that LOCKSPAN_PYTHON names; `cargo xtask test tools` makes one.
";

/// Measures one cell.
type Cell = fn(&Args, &mut Report) -> Result<(), String>;

const CELLS: [(&str, Cell); 4] = [
    ("cycle", cycle::run),
    ("contended", contended::run),
    ("writer", writer::run),
    ("readers", readers::run),
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
        Job::Child(words) => return child::run(&words),
        Job::Measure(args) => args,
    };
    let unknown = args.cells.iter().find(|cell| !CELLS.iter().any(|(name, _)| name == cell));
    if let Some(cell) = unknown {
        let names = CELLS.map(|(name, _)| name).join(", ");
        return Err(format!("there is no cell '{cell}'; there are {names}"));
    }
    let note = format!("Redis keeps nothing on disk. redis-py {}.", python::version());
    let peers = [("redis-server", "--version")];
    let title = "Locks on Redis beside others on Redis";
    let mut report = Report::begin(title, &note, &peers, args.smoke);
    for (name, cell) in CELLS {
        if args.cells.is_empty() || args.cells.iter().any(|chosen| chosen == name) {
            cell(&args, &mut report).map_err(|why| format!("{name}: {why}"))?;
        }
    }
    report.finish(args.file("results-redis").as_deref())
}

/// An error as text, for people.
fn say(why: impl Display) -> String {
    why.to_string()
}

/// Where a Redis is.
fn url(redis: &process::Process) -> String {
    format!("redis://{}", redis.address)
}
