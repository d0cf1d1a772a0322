//! The command line.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::args::Args;
use crate::comparison::{self, View};
use crate::process::child;
use crate::{
    abuse, gathered, preload, progressive, protocol, python, recorder, redis, revocable, service,
    smoke, threads,
};

/// Compares Lockspan's locks with other locks.
#[derive(Debug, Parser)]
#[command(name = "lockspan-bench", disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The fair read-write lock compared with parking_lot, std, tokio and pthread: cost,
    /// throughput, waits, fairness
    Threads {
        #[command(flatten)]
        args: Args,
        /// Measure only these locks; a name may end in *
        #[arg(long, value_name = "A,B", value_delimiter = ',')]
        locks: Vec<String>,
        /// Print the names of the locks
        #[arg(long)]
        list: bool,
    },
    /// The fair lock's two ways to let in readers that gathered behind a writer: Bounded and
    /// Together
    Gathered(Args),
    /// Progressive locks compared with read-write locks, a spinning lock and queues
    Progressive(Args),
    /// Revocable locks and per-CPU data compared with atomics and mutexes
    Revocable(Args),
    /// The protocol's state machines alone, without sockets or threads: steps per second
    Protocol {
        #[command(flatten)]
        args: Args,
        /// Count instructions with valgrind instead of time, which works on a busy machine too
        #[arg(long)]
        instructions: bool,
    },
    /// The lock service compared with parking_lot, a raw TCP connection, Redis, etcd and flock
    Service(Args),
    /// Locks on Redis compared with SET NX PX, redis-py and rslock on the same Redis
    Redis(Args),
    /// The Python package compared with threading.Lock, asyncio.Lock, redis-py and
    /// python-redis-lock
    Python(Args),
    /// The preload library compared with glibc's pthread_rwlock
    Preload(Args),
    /// Clients that misbehave, on Lockspan and on Redis: what an innocent client notices
    Abuse(Args),
    /// Run all comparisons but `python` with --smoke, each in a process of its own
    Smoke {
        /// Write the results to folders in DIR [default: target/bench-smoke]
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
    /// Draw the plots of a folder of results again
    Redraw {
        /// Which comparison it is
        #[arg(value_parser = NAMES)]
        comparison: String,
        /// The folder that has summary.md and raw.csv
        folder: PathBuf,
    },
}

/// The comparisons, in the order in which `smoke` runs them.
pub(crate) const NAMES: [&str; 10] = [
    threads::NAME,
    gathered::NAME,
    progressive::NAME,
    revocable::NAME,
    protocol::NAME,
    service::NAME,
    redis::NAME,
    python::NAME,
    preload::NAME,
    abuse::NAME,
];

/// The program `lockspan-bench`: exits with 2 if something went wrong.
#[must_use]
pub fn main() -> ExitCode {
    // The parts of a measurement that are processes of their own are this program, too.
    let mut words = std::env::args().skip(1);
    let result = match words.next() {
        Some(word) if word == child::CHILD => child::run(&words.collect::<Vec<_>>()),
        _ => run(Cli::parse().command),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}

fn run(command: Command) -> Result<(), String> {
    let (comparison, args) = match command {
        Command::Threads { locks, list: true, .. } => return threads::list(&locks),
        Command::Threads { args, locks, .. } => (threads::comparison(&locks)?, args),
        Command::Gathered(args) => (gathered::comparison(), args),
        Command::Progressive(args) => (progressive::comparison(), args),
        Command::Revocable(args) => (revocable::comparison(), args),
        Command::Protocol { args, instructions } => (protocol::comparison(instructions), args),
        Command::Service(args) => (service::comparison(), args),
        Command::Redis(args) => (redis::comparison(), args),
        Command::Python(args) => (python::comparison(), args),
        Command::Preload(args) => (preload::comparison()?, args),
        Command::Abuse(args) => (abuse::comparison(), args),
        Command::Smoke { out } => return smoke::run(out),
        Command::Redraw { comparison, folder } => {
            return recorder::redraw(&folder, view(&comparison));
        }
    };
    comparison::run(comparison, &args)
}

/// How the results of a comparison are shown.
fn view(comparison: &str) -> View {
    match comparison {
        threads::NAME => threads::VIEW,
        gathered::NAME => gathered::VIEW,
        progressive::NAME => progressive::VIEW,
        service::NAME => service::VIEW,
        redis::NAME => redis::VIEW,
        python::NAME => python::VIEW,
        _ => View::TABLES,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_comparison_has_a_sub_command() {
        for name in NAMES {
            assert!(Cli::command().find_subcommand(name).is_some(), "{name}");
            Cli::try_parse_from(["lockspan-bench", name, "--smoke", "--cells", "a,b"]).unwrap();
        }
    }

    #[test]
    fn wrong_words_are_refused() {
        for line in [
            "threads --rounds x",
            "threads --rounds 0",
            "threads --seconds -1",
            "threads --locks",
            "threads --what",
            "service --smoke --record here",
            "service --force",
            "nothing",
        ] {
            let words = ["lockspan-bench"].into_iter().chain(line.split(' '));
            assert!(Cli::try_parse_from(words).is_err(), "{line}");
        }
    }

    #[test]
    fn the_readme_lists_the_comparisons_in_the_words_of_the_help() {
        let readme = include_str!("../README.md");
        for command in Cli::command().get_subcommands() {
            if NAMES.contains(&command.get_name()) {
                let about = command.get_about().unwrap().to_string();
                let line = format!("| `{}` | {about} |", command.get_name());
                assert!(readme.contains(&line), "benches/README.md lacks the line\n{line}");
            }
        }
    }
}
