//! The lock service beside its peers: parking_lot, a raw TCP connection, Redis, etcd and flock.
//!
//! `cargo run --release -p lockspan-benches --bin service` starts each peer it needs as a process
//! of its own on a free loopback port, and stops it again; `--help` has the options. Each cell is a
//! module with a `run`. Contestants take turns round by round, and a ratio is taken inside each
//! round: what disturbs one disturbs the other. A row whose target is missed says so.

mod allocations;
mod args;
mod cached;
mod child;
mod command;
mod connections;
mod contest;
mod counting;
mod etcd;
mod handover;
mod load;
mod many;
mod memory;
mod process;
mod redis;
mod report;
mod restart;
mod shared;
mod timing;
mod uncached;

use std::fmt::Display;
use std::process::ExitCode;

use args::{Args, Job};
use report::Report;

/// What `--help` prints.
const HELP: &str = "\
Measures the lock service beside its peers.

Usage: cargo run --release -p lockspan-benches --bin service -- [OPTIONS]

Options:
  --cells A,B      only these: cached, uncached, load, handover, shared, many, connections, restart,
                   command, counting
  --rounds N       rounds of every comparison
  --seconds S      length of one sample
  --lockspan PATH  the binary whose `lockspan run` is measured; without it, that cell is not
  --out FILE       write the tables there as well
  --record NAME    write them to results-service/<date>-NAME.md
  --smoke          everything once and very short; its numbers mean nothing
  --help           print this
";

/// Measures one cell.
type Cell = fn(&Args, &mut Report) -> Result<(), String>;

const CELLS: [(&str, Cell); 10] = [
    ("cached", cached::run),
    ("uncached", uncached::run),
    ("load", load::run),
    ("handover", handover::run),
    ("shared", shared::run),
    ("many", many::run),
    ("connections", connections::run),
    ("restart", restart::run),
    ("command", command::run),
    // It installs a recorder, which nobody else is to have.
    ("counting", counting::run),
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
    match Job::parse(std::env::args().skip(1))? {
        Job::Help => {
            print!("{HELP}");
            Ok(())
        }
        Job::Child(words) => child::run(&words),
        Job::Measure(args) => measure(&args),
    }
}

fn measure(args: &Args) -> Result<(), String> {
    let unknown = args.cells.iter().find(|cell| !CELLS.iter().any(|(name, _)| name == cell));
    if let Some(cell) = unknown {
        let names = CELLS.map(|(name, _)| name).join(", ");
        return Err(format!("there is no cell '{cell}'; there are {names}"));
    }
    process::raise_open_files();
    let mut report = Report::begin(
        "The lock service beside its peers",
        "Redis keeps nothing on disk here; etcd writes to it.",
        &[("redis-server", "--version"), ("etcd", "--version")],
        args.smoke,
    );
    for (name, cell) in CELLS {
        if args.cells.is_empty() || args.cells.iter().any(|chosen| chosen == name) {
            cell(args, &mut report).map_err(|why| format!("{name}: {why}"))?;
        }
    }
    report.finish(args.file("results-service").as_deref())
}

/// An error as text, for people.
fn say(why: impl Display) -> String {
    why.to_string()
}
