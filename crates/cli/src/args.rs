//! The command line, with its help.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use lockspan_protocol::Record;

use crate::exit;
use crate::options::Flags;
use crate::values;

/// Locks on data records, between processes and machines.
#[derive(Debug, Parser)]
#[command(name = "lockspan", version, max_term_width = 100, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  lockspan run backup:nightly -- ./backup.sh     one at a time, on this machine
  lockspan serve                                 a service on 127.0.0.1:7420
  lockspan locks --url lockspan://127.0.0.1:7420 what is locked there";

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the lock service
    #[command(after_help = SERVE, after_long_help = SERVE)]
    Serve(Flags),
    /// Run a command while holding the lock of a record
    #[command(after_help = RUN, override_usage = RUN_USAGE)]
    Run(RunArgs),
    /// Show what is locked, and who holds and waits
    #[command(after_help = LOCKS)]
    Locks(LocksArgs),
    /// Watch what is locked, live, in the terminal
    #[command(after_help = TOP)]
    Top(TopArgs),
    /// Put a load on a service and measure it
    #[command(after_help = BENCH)]
    Bench(BenchArgs),
    /// Make the hash of a password, for the file of users
    #[command(after_help = PASSWD)]
    Passwd {
        /// Print a whole section for this user
        user: Option<String>,
    },
    /// Print the completions for a shell
    #[command(after_help = COMPLETIONS)]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page, or write one for each command into a directory
    #[command(after_help = MAN)]
    Man {
        /// Where to write lockspan.1, lockspan-run.1, ...
        dir: Option<PathBuf>,
    },
}

/// The command line of `run` alone. It reads the same, and is made in a fraction of the time: a
/// lock should not cost more than what it protects.
#[derive(Debug, Parser)]
#[command(name = "lockspan", max_term_width = 100)]
pub(crate) struct RunCli {
    #[command(subcommand)]
    pub(crate) command: RunCommand,
}

/// What to do, if it is to run a command.
#[derive(Debug, Subcommand)]
pub(crate) enum RunCommand {
    /// Run a command while holding the lock of a record
    #[command(after_help = RUN, override_usage = RUN_USAGE)]
    Run(RunArgs),
}

/// Where the service is.
#[derive(Args, Clone, Debug)]
pub(crate) struct Service {
    /// The service: local: (this user's own, started if need be), lockspan://HOST:PORT,
    /// lockspans://USER@HOST:PORT with TLS, unix:///path/of.sock, or redis://HOST:PORT (run and
    /// bench). Credentials can come from the environment: LOCKSPAN_USER, LOCKSPAN_PASSWORD_FILE or
    /// LOCKSPAN_PASSWORD, LOCKSPAN_CA, LOCKSPAN_CERT and LOCKSPAN_KEY
    #[arg(long, value_name = "URL", env = "LOCKSPAN_URL", default_value = "local:")]
    #[arg(hide_env_values = true)]
    pub(crate) url: String,
}

/// `lockspan run`.
#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    /// Lock for reading: with other readers, without writers
    #[arg(short, long)]
    pub(crate) read: bool,
    /// Lock for writing: alone (the default)
    #[arg(short, long, conflicts_with = "read")]
    pub(crate) write: bool,
    /// Give up after so long: 5 (seconds), 250ms, 1h30m. 0 tries once, which takes a tenth of a
    /// second at most. Without it, wait for as long as it takes
    #[arg(long, value_name = "TIME", value_parser = values::duration, allow_hyphen_values = true)]
    pub(crate) wait: Option<Duration>,
    /// How long the lock outlives this process if it can't be renewed any more
    #[arg(long, value_name = "TIME", value_parser = values::duration, default_value = "10s")]
    #[arg(allow_hyphen_values = true)]
    pub(crate) lease: Duration,
    /// The exit code for a lock that was not granted in time
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = exit::NOT_GRANTED)]
    pub(crate) conflict_code: u8,
    /// Say which service is used
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Don't print the notice that appears after waiting a second, nor warnings about variables
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) service: Service,
    /// What to lock: DATATYPE:ID, such as invoice:42
    #[arg(value_parser = values::record)]
    pub(crate) record: Record,
    /// The command and its arguments. All that follows its name is the command's own; -- before it
    /// is allowed, and needed if its name begins with a dash
    #[arg(trailing_var_arg = true, required = true)]
    pub(crate) command: Vec<OsString>,
}

/// `lockspan locks`.
#[derive(Args, Debug)]
pub(crate) struct LocksArgs {
    #[command(flatten)]
    pub(crate) service: Service,
    /// One JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
    /// Only records whose whole name matches: * stands for any letters, ? for one, [a-z] for one of
    /// these
    pub(crate) pattern: Option<String>,
}

/// `lockspan top`.
#[derive(Args, Debug)]
pub(crate) struct TopArgs {
    #[command(flatten)]
    pub(crate) service: Service,
    /// How often to look
    #[arg(long, value_name = "TIME", value_parser = values::duration, default_value = "1s")]
    #[arg(allow_hyphen_values = true)]
    pub(crate) every: Duration,
    /// Only records whose whole name matches: * stands for any letters, ? for one, [a-z] for one of
    /// these
    pub(crate) pattern: Option<String>,
}

/// `lockspan bench`.
#[derive(Args, Clone, Debug)]
pub(crate) struct BenchArgs {
    #[command(flatten)]
    pub(crate) service: Service,
    /// Clients, each with a session of its own
    #[arg(long, value_name = "N", default_value = "4", value_parser = clients)]
    pub(crate) clients: usize,
    /// Records that they lock, chosen at random
    #[arg(long, value_name = "N", default_value = "1000", value_parser = records)]
    pub(crate) records: usize,
    /// How many of a hundred locks are for reading
    #[arg(long, value_name = "PERCENT", default_value = "90")]
    #[arg(value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(crate) read: u8,
    /// For how long: 5 (seconds), 2m
    #[arg(long, value_name = "TIME", default_value = "5", value_parser = values::bench_time)]
    #[arg(allow_hyphen_values = true)]
    pub(crate) seconds: Duration,
    /// Give each lock back at once: every one is a question to the service
    #[arg(long)]
    pub(crate) uncached: bool,
    /// Print the result as one JSON object, times in nanoseconds
    #[arg(long)]
    pub(crate) json: bool,
}

fn clients(text: &str) -> Result<usize, String> {
    values::count(text, 10_000)
}

fn records(text: &str) -> Result<usize, String> {
    values::count(text, 100_000_000)
}

const SERVE: &str = "\
SIGTERM or SIGINT stops it when answers are sent; a second one stops it at once.

Environment: each option may also be a variable, LOCKSPAN_ and its name in capitals, or a key of the
file that --config names. A flag wins over a variable, a variable over the file. An empty variable
counts as not set; a list in a variable is divided by commas.

Files: what --config names is TOML, such as
  listen = [\"127.0.0.1:7420\", \"unix:/run/lockspan.sock\"]
  data-dir = \"/var/lib/lockspan\"
  max-lease = \"30s\"

Examples:
  lockspan serve
  lockspan serve --listen 127.0.0.1:7420 --listen unix:/run/lockspan.sock
  lockspan serve --data-dir none --fresh --log json      for a test
  LOCKSPAN_MAX_LEASE=30s lockspan serve --config /etc/lockspan/lockspan.toml
  lockspan serve --listen 0.0.0.0:7420 --tls-cert cert.pem --tls-key key.pem --users users.toml
                                                         beyond this machine: docs/security.md";

const RUN_USAGE: &str = "lockspan run [OPTIONS] <RECORD> [--] <COMMAND> [ARGUMENTS]...";

const RUN: &str = "\
The command runs in a process group of its own, which is the terminal's foreground group if this
one was. Signals (INT, TERM, HUP, QUIT, USR1, USR2, WINCH, TSTP) are passed on to the group.

Environment of the command:
  LOCKSPAN_RECORD  the record
  LOCKSPAN_TOKEN   the fencing token: it is higher for each later writer. Give it to the store that
                   the lock protects, and let the store refuse a lower one than it has seen
  LOCKSPAN_URL     the service, so that programs under this one use the same
  LOCKSPAN_RUN     a mark of this run
  LOCKSPAN_HELD    the locks that the command runs under: a nested run of the same record would wait
                   for itself, and is refused (79), unless both only read

Exit codes: that of the command, or 128 + n if signal n ended it; else
   64  wrong arguments                    75  not granted in time (see -E)
   69  no service, or it refused          76  the lock was lost while the command ran
   70  an answer that makes no sense      77  the login or the right to lock is missing
   71  a process can't be started         79  a run that this one is nested in holds it
  126  the command can't be run          127  there is no such command

A lock can be lost: the service is away for longer than the lease. The group then gets SIGTERM a
tenth of the lease before the end, and SIGKILL before anybody else can have the lock. If this
process is killed or stopped, a guardian process kills the group in its place. The guardian also
lets the command begin, only under a lease that stands, and after kill -9 of this process it ends
the session when nothing of the group is left: the next in line need not wait for the lease. On a
Redis nobody else can end it, and the next one waits for the lease.

What remains, and what the token is for: processes that leave the group (setsid, a daemon), a
machine or container that is paused as a whole, and a guardian that is stopped or killed too. The
lock is free when the command ends; what it leaves running in the background is not waited for.

Examples:
  lockspan run backup:nightly -- ./backup.sh
  lockspan run --wait 0 cron:report -- make report       skip if it runs already
  lockspan run -r config:site -- rsync -a site/ host:    readers share
  lockspan run --url lockspan://127.0.0.1:7420 invoice:42 -- sh -c 'echo $LOCKSPAN_TOKEN'";

const LOCKS: &str = "\
Examples:
  lockspan locks
  lockspan locks 'invoice:*'
  lockspan locks --url lockspan://127.0.0.1:7420 --json | jq .record";

const TOP: &str = "\
Views: 1 records, 2 sessions, 3 who waits for whom. Below the first two is a box about the row that
is chosen. Enter shows it on the whole screen, with ids and tokens in full.

Keys:
  Tab, 1 2 3        the next view, or this one
  / filter          records by name, with * and ?; sessions by id or user
  s, r              the next order, the other way round
  arrows, j k, PgUp PgDn, Home End
                    move
  Enter             details of the row on the whole screen, and back
  p, ?, q           pause, help, quit

Examples:
  lockspan top
  lockspan top --url lockspan://127.0.0.1:7420 'invoice:*'";

const BENCH: &str = "\
A client that holds a record keeps it until another client wants it: such locks cost no message, and
the table tells how many of a hundred they were. Latencies are from asking to having.

Examples:
  lockspan bench
  lockspan bench --clients 8 --records 10 --read 0       writers that compete
  lockspan bench --uncached                              what a question costs
  lockspan bench --json | jq .all.p99_ns";

const PASSWD: &str = "\
The password is asked for at a terminal, else it is what stdin has, without the end of its line.

Examples:
  lockspan passwd billing >> users.toml
  lockspan passwd < password.txt";

const COMPLETIONS: &str = "\
Examples:
  lockspan completions bash > ~/.local/share/bash-completion/completions/lockspan
  lockspan completions zsh > ~/.zfunc/_lockspan
  lockspan completions fish > ~/.config/fish/completions/lockspan.fish";

const MAN: &str = "\
Examples:
  lockspan man | man -l -
  lockspan man ~/.local/share/man/man1";

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_has_no_contradiction() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_examples_in_its_help() {
        let mut cli = Cli::command();
        cli.build();
        for command in cli.get_subcommands_mut().filter(|command| command.get_name() != "help") {
            let help = command.render_long_help().to_string();
            assert!(help.contains("Examples:\n"), "{}:\n{help}", command.get_name());
        }
    }

    #[test]
    fn the_command_line_of_run_alone_reads_the_same() {
        let help = |mut cli: clap::Command| {
            cli.build();
            cli.find_subcommand_mut("run").map(|run| run.render_long_help().to_string())
        };
        assert_eq!(help(RunCli::command()), help(Cli::command()));
    }

    #[test]
    fn no_line_of_the_texts_is_too_wide_for_a_page() {
        for text in [EXAMPLES, SERVE, RUN, LOCKS, TOP, BENCH, PASSWD, COMPLETIONS, MAN] {
            for line in text.lines() {
                assert!(line.len() <= 100, "{line}");
            }
        }
    }

    #[test]
    fn a_bad_record_is_refused_with_an_example() {
        let bad = Cli::try_parse_from(["lockspan", "run", "invoice", "--", "true"]).unwrap_err();
        let text = bad.to_string();
        assert!(text.contains("there is no colon; an example is invoice:42"), "{text}");
    }
}
