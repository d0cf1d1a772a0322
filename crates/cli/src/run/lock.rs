//! The lock of one run: the only file here that knows the client.

use std::time::Duration;

use lockspan_client::{LockError, Locks, OwnedReadGuard, OwnedWriteGuard};

use rustix::process::Signal;

use super::signals::Signals;
use crate::args::RunArgs;
use crate::exit::{self, Failure};
use crate::login;
use crate::recovery::{self, Recovery};
use crate::values::Span;

/// A lock that is held.
#[derive(Debug)]
pub(crate) struct Held {
    locks: Locks,
    guard: Guard,
}

#[derive(Debug)]
enum Guard {
    Read(OwnedReadGuard),
    Write(OwnedWriteGuard),
}

/// Connects, until a signal to end comes.
pub(crate) async fn connect(args: &RunArgs, signals: &mut Signals) -> Result<Locks, Failure> {
    let url = &args.service.url;
    // Nothing is taken a second time. What is not cached is free for others as soon as it is let
    // go, before the end of the session is durable.
    let options = login::options().lease(args.lease).name("lockspan run").caching(false);
    tokio::select! {
        locks = options.connect(url) => locks.map_err(|bad| {
            Failure::new(exit::UNAVAILABLE, format!("can't connect: {bad}"))
        }),
        signal = signals.next_end() => Err(ended(args, signal)),
    }
}

/// Asks for the lock, until a signal to end comes.
pub(crate) async fn acquire(
    locks: Locks,
    args: &RunArgs,
    signals: &mut Signals,
) -> Result<Held, Failure> {
    let guard = tokio::select! {
        biased;
        guard = ask(&locks, args) => guard,
        signal = signals.next_end() => Err(ended(args, signal)),
        never = recovery::say_why_it_lasts(&args.service.url) => match never {},
    };
    match guard {
        Ok(guard) => Ok(Held { locks, guard }),
        Err(bad) => {
            // Whether the service heard it or not, there is nothing more to do.
            let _ = locks.close().await;
            Err(bad)
        }
    }
}

fn ended(args: &RunArgs, signal: Signal) -> Failure {
    let text = format!("ended by a signal before {} was granted", args.record);
    Failure::new(exit::of_signal(signal.as_raw()), text)
}

async fn ask(locks: &Locks, args: &RunArgs) -> Result<Guard, Failure> {
    let record = locks.named(&args.record);
    let wait = args.wait.map(|wait| if wait.is_zero() { ONCE } else { wait });
    let guard = match (args.read, wait) {
        (true, None) => record.read_owned().await.map(Guard::Read),
        (true, Some(wait)) => record.read_owned_timeout(wait).await.map(Guard::Read),
        (false, None) => record.write_owned().await.map(Guard::Write),
        (false, Some(wait)) => record.write_owned_timeout(wait).await.map(Guard::Write),
    };
    match guard {
        Ok(guard) => Ok(guard),
        Err(LockError::Timeout) => Err(not_granted(args).await),
        Err(bad) => {
            let text = format!("{} was not granted: {bad}", args.record);
            Err(Failure::new(exit::UNAVAILABLE, text))
        }
    }
}

/// What one try may take: a node that has the record cached and does not use it is asked for it.
const ONCE: Duration = Duration::from_millis(100);

async fn not_granted(args: &RunArgs) -> Failure {
    let mut text = match args.wait {
        Some(Duration::ZERO) | None => format!("{} is locked", args.record),
        Some(wait) => format!("{} was not granted within {}", args.record, Span(wait)),
    };
    if let Some(recovery) = Recovery::of(&args.service.url).await {
        text.push_str(&format!("; the service is {recovery}"));
    }
    Failure::new(args.conflict_code, text)
}

impl Held {
    /// The fencing token.
    pub(crate) fn token(&self) -> i64 {
        match &self.guard {
            Guard::Read(guard) => guard.token(),
            Guard::Write(guard) => guard.token(),
        }
        .number()
    }

    /// For how long the lock is surely ours.
    pub(crate) fn left(&self) -> Duration {
        match &self.guard {
            Guard::Read(guard) => guard.valid_for(),
            Guard::Write(guard) => guard.valid_for(),
        }
    }

    /// Whether the lock is still ours.
    pub(crate) fn is_valid(&self) -> bool {
        match &self.guard {
            Guard::Read(guard) => guard.is_valid(),
            Guard::Write(guard) => guard.is_valid(),
        }
    }

    /// Ends when the lock is not ours any more.
    pub(crate) async fn lost(&self) {
        match &self.guard {
            Guard::Read(guard) => guard.lost().await,
            Guard::Write(guard) => guard.lost().await,
        }
    }

    /// Gives it back. If the service can't be reached, it is free when the lease is over.
    pub(crate) async fn release(self) {
        drop(self.guard);
        let _ = self.locks.close().await;
    }
}
