//! The command line, with its help.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueHint};
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
  lockspan run backup:nightly -- ./backup.sh      run one backup at a time on this machine
  lockspan serve                                  start a server on 127.0.0.1:7420
  lockspan locks --url lockspan://127.0.0.1:7420  list the locks of that server";

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the lock service
    #[command(after_help = SERVE, after_long_help = SERVE)]
    Serve(Flags),
    /// Run a command while holding a lock on a record
    #[command(after_help = RUN, override_usage = RUN_USAGE)]
    Run(RunArgs),
    /// List locked records, with their holders and waiters
    #[command(after_help = LOCKS)]
    Locks(LocksArgs),
    /// Show the sessions: who is connected, and for how long
    #[command(after_help = SESSIONS)]
    Sessions(SessionsArgs),
    /// Show what happened to a record lately
    #[command(after_help = HISTORY)]
    History(HistoryArgs),
    /// Show who waits for whom, and the deadlocks that were refused
    #[command(after_help = WAITS)]
    Waits(WaitsArgs),
    /// End a session: its lease is no longer renewed (for operators)
    #[command(after_help = END)]
    End(EndArgs),
    /// Ask the holders of a record to give it back (for operators)
    #[command(after_help = TAKE_BACK)]
    TakeBack(TakeBackArgs),
    /// Watch locks live in the terminal
    #[command(after_help = TOP)]
    Top(TopArgs),
    /// Measure the throughput and the latency of a service
    #[command(after_help = BENCH)]
    Bench(BenchArgs),
    /// Hash a password for the users file
    #[command(after_help = PASSWD)]
    Passwd {
        /// Print a complete section of the users file for this user
        user: Option<String>,
    },
    /// Print a completion script for a shell
    #[command(after_help = COMPLETIONS)]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page, or write one for each command into a directory
    #[command(after_help = MAN)]
    Man {
        /// Directory for lockspan.1, lockspan-run.1, ...
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
    /// Run a command while holding a lock on a record
    #[command(after_help = RUN, override_usage = RUN_USAGE)]
    Run(RunArgs),
}

/// Where the service is.
#[derive(Args, Clone, Debug)]
pub(crate) struct Service {
    /// URL of the service: local: (this user's own service, started on demand),
    /// lockspan://HOST:PORT, lockspans://USER@HOST:PORT (with TLS), unix:///path/to.sock, or
    /// redis://HOST:PORT (for run and bench). Credentials can come from the environment:
    /// LOCKSPAN_USER, LOCKSPAN_PASSWORD_FILE or LOCKSPAN_PASSWORD, LOCKSPAN_CA, LOCKSPAN_CERT and
    /// LOCKSPAN_KEY
    #[arg(long, value_name = "URL", env = "LOCKSPAN_URL", default_value = "local:")]
    #[arg(hide_env_values = true)]
    pub(crate) url: String,
}

/// `lockspan run`.
#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    /// Lock for reading: shared with other readers, excludes writers
    #[arg(short, long)]
    pub(crate) read: bool,
    /// Lock for writing: exclusive (the default)
    #[arg(short, long, conflicts_with = "read")]
    pub(crate) write: bool,
    /// Give up after this time: 5 (seconds), 250ms, 1h30m. 0 tries once, which takes 100 ms at
    /// most. Defaults to waiting without a limit
    #[arg(long, value_name = "TIME", value_parser = values::duration, allow_hyphen_values = true)]
    pub(crate) wait: Option<Duration>,
    /// How long the lock stays taken if this process can't renew it any more
    #[arg(long, value_name = "TIME", value_parser = values::duration, default_value = "10s")]
    #[arg(allow_hyphen_values = true)]
    pub(crate) lease: Duration,
    /// Exit code for a lock that was not granted in time
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = exit::NOT_GRANTED)]
    pub(crate) conflict_code: u8,
    /// What the lock is for. lockspan locks, waiting runs and the server's page show it. At most
    /// 256 bytes without control characters
    #[arg(long, value_name = "TEXT")]
    pub(crate) note: Option<String>,
    /// Print which service is used, which holder the run waits for, and when it has the lock
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Don't print who holds the lock after a second of waiting, nor warnings about variables
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) service: Service,
    /// Also lock this record, for reading. Can be given several times
    #[arg(long, value_name = "RECORD", value_parser = values::record)]
    pub(crate) and_read: Vec<Record>,
    /// Also lock this record, for writing. Can be given several times
    #[arg(long, value_name = "RECORD", value_parser = values::record)]
    pub(crate) and_write: Vec<Record>,
    /// Record to lock: DATATYPE:ID, such as invoice:42. Several records need a -- before the
    /// command
    #[arg(value_parser = values::record)]
    pub(crate) record: Record,
    /// The command and its arguments. Everything after the name of the command is passed to it. A
    /// -- before it is allowed, and needed if the name begins with a dash
    #[arg(trailing_var_arg = true, required = true)]
    #[arg(value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
}

/// `lockspan locks`.
#[derive(Args, Debug)]
pub(crate) struct LocksArgs {
    #[command(flatten)]
    pub(crate) service: Service,
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
    /// Only records whose whole name matches: * matches any characters, ? one character, [a-z] one
    /// of a range
    pub(crate) pattern: Option<String>,
}

/// `lockspan sessions`.
#[derive(Args, Debug)]
pub(crate) struct SessionsArgs {
    #[command(flatten)]
    pub(crate) service: Service,
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
    /// Only sessions whose label, id or user contains this text. With * (any characters), ? (one
    /// character) or [a-z] (one of a range) it is a pattern that has to match the whole of one
    pub(crate) pattern: Option<String>,
}

/// `lockspan history`.
#[derive(Args, Debug)]
pub(crate) struct HistoryArgs {
    #[command(flatten)]
    pub(crate) service: Service,
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
    /// Maximum number of events
    #[arg(long, value_name = "N", default_value = "100", value_parser = happenings)]
    pub(crate) count: usize,
    /// The record: DATATYPE:ID, such as invoice:42
    #[arg(value_parser = values::record)]
    pub(crate) record: Record,
}

/// `lockspan waits`.
#[derive(Args, Debug)]
pub(crate) struct WaitsArgs {
    #[command(flatten)]
    pub(crate) service: Service,
    /// Print one JSON object: records, owners, deadlocks
    #[arg(long)]
    pub(crate) json: bool,
}

/// `lockspan end`.
#[derive(Args, Debug)]
pub(crate) struct EndArgs {
    #[command(flatten)]
    pub(crate) service: Service,
    /// Print the result as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// The session: its id (s and 12 hexadecimal digits), the beginning of its id, or its label
    pub(crate) session: String,
}

/// `lockspan take-back`.
#[derive(Args, Debug)]
pub(crate) struct TakeBackArgs {
    #[command(flatten)]
    pub(crate) service: Service,
    /// Print the result as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Give up after this time: 5 (seconds), 250ms, 1m. At most the server's longest lease.
    /// Defaults to 30s
    #[arg(long, value_name = "TIME", value_parser = values::duration, allow_hyphen_values = true)]
    pub(crate) wait: Option<Duration>,
    /// The record: DATATYPE:ID, such as invoice:42
    #[arg(value_parser = values::record)]
    pub(crate) record: Record,
}

/// `lockspan top`.
#[derive(Args, Debug)]
pub(crate) struct TopArgs {
    #[command(flatten)]
    pub(crate) service: Service,
    /// How often to refresh
    #[arg(long, value_name = "TIME", value_parser = values::duration, default_value = "1s")]
    #[arg(allow_hyphen_values = true)]
    pub(crate) every: Duration,
    /// Filter to begin with: only records whose name contains this text. With * (any characters), ?
    /// (one character) or [a-z] (one of a range) it is a pattern that has to match the whole name
    pub(crate) pattern: Option<String>,
}

/// `lockspan bench`.
#[derive(Args, Clone, Debug)]
pub(crate) struct BenchArgs {
    #[command(flatten)]
    pub(crate) service: Service,
    /// Number of clients, each with its own session
    #[arg(long, value_name = "N", default_value = "4", value_parser = clients)]
    pub(crate) clients: usize,
    /// Number of records; each lock picks one at random
    #[arg(long, value_name = "N", default_value = "1000", value_parser = records)]
    pub(crate) records: usize,
    /// Percentage of locks for reading
    #[arg(long, value_name = "PERCENT", default_value = "90")]
    #[arg(value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(crate) read: u8,
    /// How long to measure: 5 (seconds), 2m
    #[arg(long, value_name = "TIME", default_value = "5", value_parser = values::bench_time)]
    #[arg(allow_hyphen_values = true)]
    pub(crate) seconds: Duration,
    /// Turn caching off: every lock is a request to the service
    #[arg(long)]
    pub(crate) uncached: bool,
    /// Print the result as one JSON object, with times in nanoseconds
    #[arg(long)]
    pub(crate) json: bool,
}

fn clients(text: &str) -> Result<usize, String> {
    values::count(text, 10_000)
}

fn records(text: &str) -> Result<usize, String> {
    values::count(text, 100_000_000)
}

fn happenings(text: &str) -> Result<usize, String> {
    values::count(text, 1000)
}

const SERVE: &str = "\
SIGTERM or SIGINT stops the server after it has sent its replies; a second signal stops it at once.

Environment: each option can also be set by a variable, LOCKSPAN_ and its name in capitals (such as
LOCKSPAN_MAX_LEASE), or by a key of the --config file. A flag overrides a variable, and a variable
overrides the file. An empty variable counts as not set. In a variable, commas separate the elements
of a list.

Files: the --config file is TOML, for example
  listen = [\"127.0.0.1:7420\", \"unix:/run/lockspan.sock\"]
  data-dir = \"/var/lib/lockspan\"
  max-lease = \"30s\"

Examples:
  lockspan serve
  lockspan serve --listen 127.0.0.1:7420 --listen unix:/run/lockspan.sock
  lockspan serve --data-dir none --fresh --log json      for a test
  LOCKSPAN_MAX_LEASE=30s lockspan serve --config /etc/lockspan/lockspan.toml
  lockspan serve --listen 0.0.0.0:7420 --tls-cert cert.pem --tls-key key.pem --users users.toml
                                                         for other machines: docs/security.md";

const RUN_USAGE: &str = "\
lockspan run [OPTIONS] <RECORD> [--] <COMMAND> [ARGUMENTS]...
       lockspan run [OPTIONS] <RECORD> <RECORD>... -- <COMMAND> [ARGUMENTS]...";

const RUN: &str = "\
The command runs in its own process group, which becomes the terminal's foreground group if
lockspan run was in the foreground. The signals INT, TERM, HUP, QUIT, USR1, USR2, WINCH and TSTP are
forwarded to the group.

The lock is shown with a label and the text of --note. The label is COMMAND@HOST[PID], with the name
of the command but not its arguments, which may contain secrets. A run that does not get the lock in
time prints who holds it and how many waiters are before it; on a terminal it prints this after a
second of waiting, too.

Several records are locked in the byte order of (datatype, id), all or none: runs that lock several
records never wait for each other in a cycle, unless they are nested. --wait is for all of them
together. A record that is given twice is locked once, for writing if it is given for writing.

Environment of the command:
  LOCKSPAN_RECORD  the record; not set if there are several
  LOCKSPAN_TOKEN   the fencing token: each later writer gets a higher one. Pass it to the storage
                   that the lock protects, and let the storage reject a token that is lower than the
                   highest it has seen. Not set if there are several records
  LOCKSPAN_TOKENS  a line TOKEN RECORD for each record, in the order in which they were locked. In
                   the name of a record, spaces, % and bytes that are not printable ASCII are
                   percent-encoded: %20 is a space
  LOCKSPAN_URL     the service, so that lockspan commands inside the command use the same one
  LOCKSPAN_RUN     an identifier of this run
  LOCKSPAN_HELD    the locks that the command runs under: a nested run of the same record would be a
                   deadlock, and is refused with exit code 79, unless both lock for reading

Exit codes: that of the command, or 128 + n if signal n ended it; otherwise
   64  wrong arguments                    75  not granted in time (see -E)
   69  service unavailable, or refused    76  the lock was lost while the command ran
   70  unexpected reply of the service    77  login failed, or a right is missing
   71  a process can't be started         79  deadlock: an outer lockspan run holds the lock
  126  the command can't be executed     127  command not found

While the service can't be reached, the lease can't be renewed, and the lock is lost when the lease
expires. Before that, the process group gets SIGTERM and, a tenth of the lease later, SIGKILL, so
that it is dead before anyone else can get the lock. If lockspan run itself is killed or stopped, a
guardian process kills the group instead. The guardian also starts the command, and only while the
lease is valid. After kill -9 of lockspan run, the guardian ends the session as soon as no process
of the group is left, so the next waiter need not wait until the lease expires. On Redis nobody else
can end the session, and the next waiter does wait.

These cases remain, and the fencing token is for them: processes that leave the group (setsid, a
daemon), a machine or container that is paused as a whole, and a guardian that is stopped or killed
too. The lock is released when the command ends; background processes that it leaves are not waited
for.

Examples:
  lockspan run backup:nightly -- ./backup.sh
  lockspan run --wait 0 cron:report -- make report       skip if it is already running
  lockspan run -r config:site -- rsync -a site/ host:    readers share the lock
  lockspan run --note 'month-end' books:2024 -- ./close  shows what the lock is for
  lockspan run account:1 account:2 -- ./transfer         locks both, or waits for both
  lockspan run --and-read rates:eur books:2024 -- ./post writes one record and reads another
  lockspan run --url lockspan://127.0.0.1:7420 invoice:42 -- sh -c 'echo $LOCKSPAN_TOKEN'";

const LOCKS: &str = "\
A row for each session that holds a record, then one for each that waits for it, numbered in the
order of their turns: record, state (or place in line), mode (R reads, W writes), for how long,
label, session id, fencing token and note. The label is program@host[pid] unless the program has
chosen another; lockspan run puts the name of its command there. On a terminal long names are cut,
and the tokens left out, so that a row is a line; in a pipe or a file nothing is cut.

Examples:
  lockspan locks
  lockspan locks 'invoice:*'
  lockspan locks --url lockspan://127.0.0.1:7420 --json | jq .record
  lockspan locks --json | jq -r '.holders[] | select(.age_ms > 60000) | .label'";

const SESSIONS: &str = "\
One row for each session, ordered by label: its user, how many records it holds or waits for, its
lease, and when the lease expires. A user without the right to inspect everything sees only their
own sessions. lockspan end takes the id, or the first characters of it.

Examples:
  lockspan sessions
  lockspan sessions billing
  lockspan sessions --json '*@host9*' | jq -r .session";

const HISTORY: &str = "\
One row for each event, the latest first: waits, granted, handed-over, revoked (another session
wants the record), kept (no session wants it any more), retry, released, left (stopped waiting),
ended (with its session), deadlock. A server without a page (--http none) keeps no history.

Examples:
  lockspan history invoice:42
  lockspan history --count 10 --json invoice:42 | jq -r .label";

const WAITS: &str = "\
Prints a tree: each session, and below it the sessions that wait for a record that it holds, with
their places in line. After the tree come the acquires that were refused because of a deadlock, each
with the owners of its cycle.

Examples:
  lockspan waits
  lockspan waits --json | jq '.deadlocks | length'";

const END: &str = "\
The server no longer renews the lease of the session, and tells its program at once, which then
loses its locks. The records become free when the program closes the session or when the lease
expires, not before. On a server with users this needs a user with admin = [\"*\"]. The server logs
it. The web page can do the same. If no session matches, or more than one, nothing is ended and the
exit code is 64.

Examples:
  lockspan end s4f2a9c01b7e3
  lockspan end s4f2a
  lockspan end 'billing@host9[412]'";

const TAKE_BACK: &str = "\
The server requests the record as a writer does, and releases it at once. A program that only caches
the record gives it up. A program that is using the record keeps it; then the exit code is 75, and
lockspan end can end its session. On a server with users this needs a user with admin = [\"*\"]. The
server logs it. The web page can do the same.

Examples:
  lockspan take-back invoice:42
  lockspan take-back --wait 5s --json invoice:42";

const TOP: &str = "\
Three views: 1 records, 2 sessions, 3 who waits for whom, with deadlocks that were refused. Below
the first two is a box with details of the selected row. Enter shows them on the whole screen, with
ids, tokens and notes in full. If the server is restarted, top says so and connects again; until
then it shows its last data, marked as old.

Keys:
  Tab, 1 2 3        the next view, or the view of this number
  /                 filter what is listed, as you type: a part of a name, label, id or user; with
                    * ? or [ a pattern for the whole of it. Enter applies the filter, Esc discards
                    the change, Ctrl-U clears it
  s, r              sort by the next column, reverse the order
  arrows, j k, PgUp PgDn, Home End
                    move
  Enter             details of the row on the whole screen, and back
  p, ?              pause, help
  q, Esc, Ctrl-C    quit

Examples:
  lockspan top
  lockspan top --url lockspan://127.0.0.1:7420 'invoice:*'";

const BENCH: &str = "\
A client keeps a record cached until another client wants it. A lock on a cached record needs no
message; the last line of the output shows the percentage of such locks. Latency is the time from
the request to the grant.

Examples:
  lockspan bench
  lockspan bench --clients 8 --records 10 --read 0       writers that compete
  lockspan bench --uncached                              what a request costs
  lockspan bench --json | jq .all.p99_ns";

const PASSWD: &str = "\
The password is typed at the terminal, or read from stdin without the end of its line.

Examples:
  lockspan passwd billing >> users.toml
  lockspan passwd < password.txt";

const COMPLETIONS: &str = "\
Completes commands, options and files. Names of records are not completed: each press of Tab would
have to connect and log in. `lockspan locks` lists what is locked.

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
        let of_operators = [SESSIONS, HISTORY, WAITS, END, TAKE_BACK];
        let others = [EXAMPLES, SERVE, RUN, LOCKS, TOP, BENCH, PASSWD, COMPLETIONS, MAN];
        for text in of_operators.into_iter().chain(others) {
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
