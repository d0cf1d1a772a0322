//! `lockspan`: a lock service, and what one does with it at a command line.
//!
//! | file          | command                                                                    |
//! |---------------|----------------------------------------------------------------------------|
//! | `serve.rs`    | the service; `options/` has its options, `log/` its log,                   |
//! |               | `notify.rs` what it tells systemd, `place.rs` the place behind `local:`,   |
//! |               | `occupant.rs` what listens where it wanted to                              |
//! | `run/`        | runs a command under a lock                                                |
//! | `locks.rs`    | what is locked, by whom; `resp.rs` is the connection                       |
//! | `top/`        | the same, live                                                             |
//! | `bench/`      | a load and its latencies                                                   |
//! | `passwd.rs`   | the hash of a password; `login.rs`: who to be, from variables            |
//! | `pages.rs`    | completions and manual pages; `manual.rs` makes the latter                  |
//! | `service.rs`  | which service is used, in words                                            |
//! | `variables.rs` | which variables have a meaning                                            |
//! | `explain.rs`  | why there is no connection, and what to do about it                        |

#![forbid(unsafe_code)]

mod args;
mod bench;
mod exit;
mod explain;
mod hook;
mod locks;
mod log;
mod login;
mod manual;
mod notify;
mod occupant;
mod options;
mod pages;
mod passwd;
mod place;
mod recovery;
mod resp;
mod run;
mod serve;
mod service;
mod state;
mod top;
mod values;
mod variables;

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
        Command::Locks(_) | Command::Top(_) | Command::Bench(_) => true,
        // A service says it in its log.
        _ => false,
    };
    if warns {
        variables::unknown().into_iter().for_each(exit::say);
    }
    let done = match command {
        Command::Serve(flags) => serve::main(&flags),
        Command::Run(args) => run::main(args),
        Command::Locks(args) => locks::main(&args),
        Command::Top(args) => top::main(&args),
        Command::Bench(args) => bench::main(args),
        Command::Passwd { user } => passwd::main(user.as_deref()),
        Command::Completions { shell } => pages::completions(shell),
        Command::Man { dir } => pages::manual(dir.as_deref()),
    };
    done.unwrap_or_else(exit::Failure::report)
}
