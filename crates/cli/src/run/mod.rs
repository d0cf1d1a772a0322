//! `lockspan run`: a command under a lock.
//!
//! Three processes: we, who hold the lock and watch; the command, in a process group of its own;
//! and the guardian, who kills that group if we can't. `supervise.rs` has the watch, `guardian.rs`
//! the guardian, `terminal.rs` the terminal's foreground, `lock.rs` the lock.

mod guardian;
mod lock;
mod signals;
mod supervise;
mod terminal;

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use rustix::process::Pid;

use crate::args::RunArgs;
use crate::exit::{self, Failure};
use crate::login;
pub(crate) use guardian::{GUARD, main as guard};

use guardian::{Guardian, MARK};
use lock::Held;
use signals::Signals;
use supervise::{Outcome, Watch};
use terminal::Terminal;

/// Runs the command.
pub(crate) fn main(args: RunArgs) -> Result<ExitCode, Failure> {
    let system = |bad: io::Error| Failure::new(exit::SYSTEM, format!("can't start: {bad}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(system)?;
    let code = runtime.block_on(async {
        let mut signals = Signals::new().map_err(system)?;
        let locks = lock::connect(&args, &mut signals).await?;
        // The lock is asked for first: the service opens the session while we are busy with the
        // guardian. A thread of its own for that was not faster.
        let asking = lock::acquire(locks, &args, &mut signals);
        let (held, guardian) = tokio::join!(asking, async { Guardian::start() });
        let (held, mut guardian) = match (held, guardian) {
            (Ok(held), Ok(guardian)) => (held, guardian),
            (Ok(held), Err(bad)) => {
                held.release().await;
                return Err(system(bad));
            }
            (Err(bad), guardian) => {
                let _ = guardian.map(|guardian| guardian.dismiss().wait());
                return Err(bad);
            }
        };
        let outcome = under_lock(&args, &held, &mut guardian, &mut signals).await;
        let guardian = guardian.dismiss();
        held.release().await;
        guardian.wait();
        outcome
    })?;
    // The system takes it apart sooner than we do.
    std::mem::forget(runtime);
    Ok(code)
}

async fn under_lock(
    args: &RunArgs,
    held: &Held,
    guardian: &mut Guardian,
    signals: &mut Signals,
) -> Result<ExitCode, Failure> {
    guardian.about_to_start(held.left());
    let child = Command::new(&args.command[0])
        .envs(login::url_without_password().map(|url| (login::URL, url)))
        .args(&args.command[1..])
        .env("LOCKSPAN_TOKEN", held.token().to_string())
        .env("LOCKSPAN_RECORD", OsStr::from_bytes(args.record.as_bytes()))
        .env(MARK, guardian.mark())
        .env_remove(login::PASSWORD)
        .process_group(0)
        .spawn()
        .map_err(|bad| not_started(args, &bad))?;
    let group = Pid::from_child(&child);
    guardian.started(group);
    let terminal = Terminal::open();
    let lease = args.lease;
    let watch = Watch { group, held, lease, guardian, signals, terminal, asked_to_end: false };
    Ok(match watch.run().await {
        Outcome::Ended(code) => ExitCode::from(code),
        Outcome::Lost => ExitCode::from(exit::LOST),
    })
}

fn not_started(args: &RunArgs, bad: &io::Error) -> Failure {
    let code = match bad.kind() {
        io::ErrorKind::NotFound => exit::NOT_FOUND,
        io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory => exit::SYSTEM,
        _ => exit::NOT_RUNNABLE,
    };
    Failure::new(code, format!("can't run {}: {bad}", args.command[0].display()))
}
