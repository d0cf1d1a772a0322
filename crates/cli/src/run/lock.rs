//! The lock of one run: the only file here that knows the client.

use std::time::Duration;

use lockspan_client::{LockError, Locks, Options, OwnedReadGuard, OwnedWriteGuard};

use rustix::process::Signal;

use super::signals::Signals;
use crate::args::RunArgs;
use crate::exit::{self, Failure};
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

/// Connects and asks for the lock, until a signal to end comes.
pub(crate) async fn acquire(args: &RunArgs, signals: &mut Signals) -> Result<Held, Failure> {
    let url = &args.service.url;
    let ended = |signal: Signal| {
        let text = format!("ended by a signal before {} was granted", args.record);
        Failure::new(exit::of_signal(signal.as_raw()), text)
    };
    let connect = Options::new().lease(args.lease).name("lockspan run").connect(url);
    let locks = tokio::select! {
        locks = connect => locks.map_err(|bad| {
            Failure::new(exit::UNAVAILABLE, format!("can't connect to {url}: {bad}"))
        })?,
        signal = signals.next_end() => return Err(ended(signal)),
    };
    let guard = tokio::select! {
        guard = ask(&locks, args) => guard,
        signal = signals.next_end() => Err(ended(signal)),
    };
    match guard {
        Ok(guard) => Ok(Held { locks, guard }),
        Err(bad) => {
            locks.close().await;
            Err(bad)
        }
    }
}

async fn ask(locks: &Locks, args: &RunArgs) -> Result<Guard, Failure> {
    let record = locks
        .record(args.record.datatype(), args.record.id())
        .map_err(|bad| Failure::new(exit::USAGE, bad.to_string()))?;
    let guard = match (args.read, args.wait) {
        (true, None) => record.read_owned().await.map(|guard| Some(Guard::Read(guard))),
        (true, Some(Duration::ZERO)) => {
            record.try_read_owned().await.map(|guard| guard.map(Guard::Read))
        }
        (true, Some(wait)) => {
            record.read_owned_timeout(wait).await.map(|guard| Some(Guard::Read(guard)))
        }
        (false, None) => record.write_owned().await.map(|guard| Some(Guard::Write(guard))),
        (false, Some(Duration::ZERO)) => {
            record.try_write_owned().await.map(|guard| guard.map(Guard::Write))
        }
        (false, Some(wait)) => {
            record.write_owned_timeout(wait).await.map(|guard| Some(Guard::Write(guard)))
        }
    };
    match guard {
        Ok(Some(guard)) => Ok(guard),
        Ok(None) | Err(LockError::Timeout) => Err(not_granted(args)),
        Err(bad) => {
            let text = format!("{} was not granted: {bad}", args.record);
            Err(Failure::new(exit::UNAVAILABLE, text))
        }
    }
}

fn not_granted(args: &RunArgs) -> Failure {
    let text = match args.wait {
        Some(Duration::ZERO) | None => format!("{} is locked", args.record),
        Some(wait) => format!("{} was not granted within {}", args.record, Span(wait)),
    };
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
            Guard::Read(guard) => guard.valid_until(),
            Guard::Write(guard) => guard.valid_until(),
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

    /// Gives it back.
    pub(crate) async fn release(self) {
        drop(self.guard);
        self.locks.close().await;
    }
}
