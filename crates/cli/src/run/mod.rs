//! `lockspan run`: a command under a lock.
//!
//! Four processes at most: we, the supervisor, who hold the lock and watch; the *gate*, a child of
//! ours that becomes the command; the command, in a process group of its own; and the *guardian*,
//! who lets the command begin, kills its group if we can't, and ends our session if we were killed.
//!
//! Invariants: the command begins only under a lease that stands, see `gate.rs`; it is dead before
//! anybody else can have the lock, as long as we or the guardian run, see `guardian.rs` and
//! `supervise.rs`; our session is ended early only when nothing of its group is left.
//!
//! `records.rs` says which records are locked, `lock.rs` has the locks, `nested.rs` what an outer
//! run of the same record means, `terminal.rs` the terminal's foreground, `group.rs` whether a
//! group is gone.

mod gate;
mod group;
mod guardian;
mod lock;
mod nested;
mod records;
mod signals;
mod supervise;
mod terminal;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::pin::{Pin, pin};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use lockspan_client::{Locks, Span};
use lockspan_protocol::Record;
use tokio::time::sleep;

use crate::args::RunArgs;
use crate::exit::{self, Failure};
use crate::hook;
use crate::login;
use crate::service;
pub(crate) use gate::{GATE, main as gate};
pub(crate) use guardian::{GUARD, main as guard};

use gate::Gate;
use guardian::Guardian;
use lock::Held;
use records::Records;
use signals::Signals;
use supervise::{Outcome, Watch};
use terminal::Terminal;

/// The variable with the record, if it is one.
const RECORD: &str = "LOCKSPAN_RECORD";

/// Runs the command.
pub(crate) fn main(mut args: RunArgs, words: &[OsString]) -> Result<ExitCode, Failure> {
    let records = Records::take(&mut args, words)?;
    lock::check(&args)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(system)?;
    let code = runtime.block_on(async {
        let mut signals = Signals::new().map_err(system)?;
        let locks = lock::connect((&args, &records), &mut signals).await?;
        let marks = nested::Marks::check(&args, &records)?;
        if args.verbose {
            exit::say(format!("the service is {}", service::name(&args.service.url)));
        }
        let (held, mut helpers) = ask((&args, &records), locks, &mut signals, &marks).await?;
        let outcome = under_lock(&args, &held, &mut helpers, &mut signals).await;
        let guardian = helpers.guardian.dismiss();
        held.release().await;
        guardian.wait();
        outcome
    })?;
    // The system takes it apart sooner than we do.
    std::mem::forget(runtime);
    Ok(code)
}

/// Asks for the lock, and starts the other two processes meanwhile.
async fn ask(
    (args, records): (&RunArgs, &Records),
    locks: Locks,
    signals: &mut Signals,
    marks: &nested::Marks,
) -> Result<(Held, Helpers), Failure> {
    let since = Instant::now();
    let now = lock::Waited::new(&locks, records);
    let mut asking = pin!(lock::acquire(locks.clone(), (args, records), &now, signals));
    // The lock is asked for first: the service opens the session while we are busy with the other
    // processes. A thread of its own for that was not faster.
    let first = tokio::select! {
        biased;
        held = &mut asking => Some(held?),
        () = std::future::ready(()) => None,
    };
    let mut helpers = match Helpers::start((args, records), marks) {
        Ok(helpers) => helpers,
        Err(bad) => {
            let _ = locks.close().await;
            return Err(system(bad));
        }
    };
    if let Some(held) = first {
        return Ok((held, helpers));
    }
    // From here on: what the other processes took is not taken from the time to wait.
    let mut patience = pin!(lock::patience(&now, args));
    let mut notice = pin!(lock::notice(&now, args, marks.remark()));
    let mut has_told = false;
    let held = loop {
        // It changes if the lease ends while we wait.
        helpers.guardian.will(locks.last_will());
        tokio::select! {
            biased;
            held = &mut asking => break held,
            why = &mut patience => {
                break last_look(asking.as_mut(), (&locks, &now), args, why).await;
            }
            () = &mut notice, if !has_told => has_told = true,
            () = sleep(Duration::from_secs(1)) => {}
        }
    };
    match held {
        Ok(held) => {
            if args.verbose {
                let (names, waited) = (records.shown(), Span(since.elapsed()));
                let was = if records.only().is_some() { "was" } else { "were" };
                exit::say(format!("{names} {was} granted after {waited}"));
            }
            Ok((held, helpers))
        }
        Err(bad) => {
            helpers.dismiss();
            Err(bad)
        }
    }
}

/// The time is over. If we got no processor for a while, the answer may be here all the same: the
/// connection is read once more.
async fn last_look(
    mut asking: Pin<&mut impl Future<Output = Result<Held, Failure>>>,
    (locks, now): (&Locks, &lock::Waited),
    args: &RunArgs,
    why: Option<String>,
) -> Result<Held, Failure> {
    for _ in 0..4 {
        tokio::task::yield_now().await;
    }
    tokio::select! {
        biased;
        held = &mut asking => held,
        () = std::future::ready(()) => {
            // Whether the service heard it or not, there is nothing more to do.
            let _ = locks.clone().close().await;
            Err(lock::not_granted(&now.record(), args, why).await)
        }
    }
}

fn system(bad: io::Error) -> Failure {
    Failure::new(exit::SYSTEM, format!("can't start: {bad}"))
}

/// The other two processes.
struct Helpers {
    gate: Gate,
    guardian: Guardian,
}

impl Helpers {
    fn start((args, records): (&RunArgs, &Records), marks: &nested::Marks) -> io::Result<Self> {
        let gate = Gate::start(&args.command, |command| {
            let url = login::without_password(&args.service.url);
            command
                .env(login::URL, url.as_ref().unwrap_or(&args.service.url))
                // An outer run may have set it.
                .env_remove(RECORD)
                .env(gate::TOKENS, gate::names(records))
                .env_remove(login::PASSWORD);
            if let Some(record) = records.only() {
                command.env(RECORD, OsStr::from_bytes(record.as_bytes()));
            }
            marks.put(command);
        })?;
        match Guardian::start(&gate, &args.service.url) {
            Ok(guardian) => Ok(Self { gate, guardian }),
            Err(bad) => {
                gate.dismiss();
                Err(bad)
            }
        }
    }

    fn dismiss(self) {
        let guardian = self.guardian.dismiss();
        self.gate.dismiss();
        guardian.wait();
    }
}

async fn under_lock(
    args: &RunArgs,
    held: &Held,
    helpers: &mut Helpers,
    signals: &mut Signals,
) -> Result<ExitCode, Failure> {
    let Helpers { gate, guardian } = helpers;
    guardian.will(held.last_will());
    guardian.renewed(held.until().0);
    hook::stop_at("before-go");
    guardian.go(&held.tokens());
    hook::stop_at("after-go");
    let (group, since) = (gate.group(), Instant::now());
    let terminal = Terminal::open();
    let lease = args.lease;
    let watch =
        Watch { group, gate, since, held, lease, guardian, signals, terminal, asked_to_end: false };
    match watch.run().await {
        Outcome::Ended(code) => Ok(ExitCode::from(code)),
        Outcome::Lost => Ok(ExitCode::from(exit::LOST)),
        Outcome::Late => {
            let text = "the lease expired before the command could start; the command was not \
                        started";
            Err(Failure::new(exit::LOST, text))
        }
        Outcome::Failed(number) => Err(not_started(args, &io::Error::from_raw_os_error(number))),
        Outcome::Unguarded => {
            helpers.gate.dismiss();
            let text = "the guardian process was killed or stopped; the command was not started";
            Err(Failure::new(exit::SYSTEM, text))
        }
    }
}

fn not_started(args: &RunArgs, bad: &io::Error) -> Failure {
    let code = match bad.kind() {
        io::ErrorKind::NotFound => exit::NOT_FOUND,
        io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory => exit::SYSTEM,
        _ => exit::NOT_RUNNABLE,
    };
    let name = &args.command[0];
    // Several records and options behind the command are easily tried, so say what is meant.
    let hint = match code == exit::NOT_FOUND && Record::parse(name.as_bytes()).is_ok() {
        true => format!(
            ". To lock several records, put -- before the command: lockspan run {} {} -- COMMAND",
            args.record,
            name.display()
        ),
        false => String::new(),
    };
    Failure::new(code, format!("can't run {}: {bad}{hint}", name.display()))
}
