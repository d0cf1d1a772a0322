//! Lockspan's locks measured beside their peers, on plain threads of one machine.
//!
//! Each family of comparisons is a module with a `FAMILY` name and a `run` that pushes one row per
//! lock, cell and round into the results; `report` makes the tables, the targets and the plots from
//! those rows alone. `cargo run --release -p lockspan-benches -- --help` tells the rest.

mod args;
mod chance;
mod clock;
mod contended;
mod histogram;
mod locks;
mod machine;
mod memory;
#[cfg(target_os = "linux")]
mod pthread;
mod registry;
mod report;
mod starvation;
mod uncontended;

use std::process::ExitCode;

use args::Args;
use report::results::Results;

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
    let args = Args::parse(std::env::args().skip(1))?;
    if args.help {
        print!("{}", args::HELP);
        return Ok(());
    }
    if let Some(folder) = &args.redraw {
        return report::redraw(folder);
    }
    let locks = registry::choose(&args.locks)?;
    if args.list {
        locks.iter().for_each(|lock| println!("{}", lock.name));
        return Ok(());
    }
    let load_before = machine::load();
    // Measures the clock before anything is timed by it.
    clock::ticks_per_ns();
    let mut results = Results::default();
    uncontended::run(&args, &locks, &mut results);
    memory::run(&args, &locks, &mut results);
    contended::run(&args, &locks, &mut results);
    starvation::run(&args, &locks, &mut results);
    if results.is_empty() {
        return Err("nothing matches --filter".to_owned());
    }
    report::finish(&args, &results, &load_before)
}
