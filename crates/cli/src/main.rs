//! The command `lockspan`: a lock service, and tools for it.
//!
//! | command | what it does |
//! |---|---|
//! | `serve` | runs the lock service |
//! | `run` | runs a command while it holds a lock |
//! | `locks` | lists what is locked, and by which clients |
//! | `sessions`, `history`, `waits` | list sessions, what happened to a record, and who waits |
//! | `end`, `take-back` | end a session, ask for a record back (operators) |
//! | `top` | the same, live |
//! | `bench` | puts a load on a service and measures latencies |
//! | `passwd` | hashes a password for the file of users |
//!
//! `lockspan --help` and the manual pages describe them.

#![forbid(unsafe_code)]

// | file | job |
// |---|---|
// | `serve.rs` | `serve`; `options/` has its options, `log/` its log, `notify.rs` tells systemd, |
// | | `place.rs` has the directory behind `local:`, `occupant.rs` tells what uses the address |
// | `run/` | `run` |
// | `locks.rs` | `locks`; `resp.rs` is its connection |
// | `top/`, `bench/` | `top`, `bench` |
// | `passwd.rs` | `passwd`; `login.rs`: user and password from variables |
// | `pages.rs` | completions and manual pages; `manual.rs` makes the latter |
// | `service.rs` | which service is used, in words |
// | `variables.rs` | which environment variables have a meaning |
// | `explain.rs` | why there is no connection, and what to do about it |

mod args;
mod bench;
mod exit;
mod explain;
mod filter;
mod history;
mod hook;
mod locks;
mod log;
mod login;
mod manual;
mod notify;
mod occupant;
mod operate;
mod options;
mod output;
mod pages;
mod passwd;
mod place;
mod recovery;
mod replies;
mod resp;
mod run;
mod serve;
mod service;
mod sessions;
mod state;
mod table;
mod top;
mod tree;
mod turns;
mod values;
mod variables;
mod waits;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command, RunCli, RunCommand};

fn main() -> ExitCode {
    let first = std::env::args_os().nth(1).unwrap_or_default();
    // Before all else: these have no use for the rest, and a command waits for them.
    if first == run::GATE {
        return run::gate();
    }
    if first == run::GUARD {
        return run::guard();
    }
    let parsed = if first == "run" {
        RunCli::try_parse().map(|RunCli { command: RunCommand::Run(args) }| Command::Run(args))
    } else {
        Cli::try_parse().map(|cli| cli.command)
    };
    let command = match parsed {
        Ok(command) => command,
        Err(answer) => {
            let code = if answer.use_stderr() { exit::USAGE } else { 0 };
            let _ = answer.print();
            return ExitCode::from(code);
        }
    };
    let warns = match &command {
        Command::Run(args) => !args.quiet,
        // A service says it in its log, and the others ask no service.
        Command::Serve(_) | Command::Passwd { .. } => false,
        Command::Completions { .. } | Command::Man { .. } => false,
        _ => true,
    };
    if warns {
        variables::unknown().into_iter().for_each(exit::say);
    }
    let done = match command {
        Command::Serve(flags) => serve::main(&flags),
        Command::Run(args) => run::main(args, &std::env::args_os().collect::<Vec<_>>()),
        Command::Locks(args) => locks::main(&args),
        Command::Sessions(args) => sessions::main(&args),
        Command::History(args) => history::main(&args),
        Command::Waits(args) => waits::main(&args),
        Command::End(args) => operate::end(&args),
        Command::TakeBack(args) => operate::take_back(&args),
        Command::Top(args) => top::main(&args),
        Command::Bench(args) => bench::main(args),
        Command::Passwd { user } => passwd::main(user.as_deref()),
        Command::Completions { shell } => pages::completions(shell),
        Command::Man { dir } => pages::manual(dir.as_deref()),
    };
    done.unwrap_or_else(exit::Failure::report)
}
