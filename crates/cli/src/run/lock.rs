//! The lock of one run: the only file here that knows the client.

use std::time::Duration;

use lockspan_client::{Locks, OwnedReadGuard, OwnedWriteGuard, shown_url};

use rustix::process::Signal;
use tokio::time::sleep;

use super::guardian::now;
use super::signals::Signals;
use crate::args::RunArgs;
use crate::exit::{self, Failure};
use crate::explain;
use crate::login;
use crate::recovery::{self, Recovery};
use crate::service;
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

/// The least that the client takes. A server has a least of its own, which its refusal tells.
const LEAST_ASKED: Duration = Duration::from_millis(10);

/// The least on a Redis, where nobody else has one: a shorter lease would end between two renewals.
const LEAST_ON_REDIS: Duration = Duration::from_secs(1);

/// Refuses what can't be a lock against others, before anything is connected.
pub(crate) fn check(args: &RunArgs) -> Result<(), Failure> {
    let url = &args.service.url;
    let refused = |text: String| Err(Failure::new(exit::USAGE, text));
    if url.starts_with("memory:") {
        return refused(format!(
            "{url} is inside of one process, so the lock would keep nobody else out. Leave --url \
             out for this user's own service (local:), or name a server: lockspan://HOST:PORT"
        ));
    }
    if explain::is_redis(url) && args.lease < LEAST_ON_REDIS {
        let (lease, least) = (Span(args.lease), Span(LEAST_ON_REDIS));
        return refused(format!("--lease {lease}: on a Redis {least} is the least"));
    }
    Ok(())
}

/// Connects, until a signal to end comes.
pub(crate) async fn connect(args: &RunArgs, signals: &mut Signals) -> Result<Locks, Failure> {
    let url = &args.service.url;
    // Nothing is taken a second time. What is not cached is free for others as soon as it is let
    // go, before the end of the session is durable.
    let lease = args.lease.max(LEAST_ASKED);
    let options = login::options().lease(lease).name("lockspan run").caching(false);
    tokio::select! {
        locks = options.connect(url) => locks.map_err(|why| explain::no_connection(url, &why)),
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
    let at = shown_url(&args.service.url);
    let text = format!("ended by a signal before {} was granted at {at}", args.record);
    Failure::new(exit::of_signal(signal.as_raw()), text)
}

async fn ask(locks: &Locks, args: &RunArgs) -> Result<Guard, Failure> {
    let record = locks.named(&args.record);
    let guard = match args.read {
        true => record.read_owned().await.map(Guard::Read),
        false => record.write_owned().await.map(Guard::Write),
    };
    guard.map_err(|why| {
        let at = service::name(&args.service.url);
        explain::not_granted(&args.record, &at, args.lease, &why)
    })
}

/// Ends when the record has not been granted for as long as it may take, counted from now.
pub(crate) async fn patience(args: &RunArgs) {
    match args.wait {
        Some(wait) => sleep(if wait.is_zero() { ONCE } else { wait }).await,
        None => std::future::pending().await,
    }
}

/// What one try may take: a node that has the record cached and does not use it is asked for it.
const ONCE: Duration = Duration::from_millis(100);

/// What is said when that was too long.
pub(crate) async fn not_granted(args: &RunArgs) -> Failure {
    let at = service::name(&args.service.url);
    let mut text = match args.wait {
        Some(Duration::ZERO) | None => format!("{} is locked at {at}", args.record),
        Some(wait) => format!("{} was not granted within {} at {at}", args.record, Span(wait)),
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

    /// Until when the lock is surely ours, by `CLOCK_BOOTTIME`, and how long that is.
    ///
    /// The clock is read first: if we are stopped after it, the end seems to be earlier than it is,
    /// never later.
    pub(crate) fn until(&self) -> (Duration, Duration) {
        let now = now();
        crate::hook::stop_at("before-until");
        let left = match &self.guard {
            Guard::Read(guard) => guard.valid_for(),
            Guard::Write(guard) => guard.valid_for(),
        };
        (now + left, left)
    }

    /// How another process can end the session.
    pub(crate) fn last_will(&self) -> Option<Vec<u8>> {
        self.locks.last_will()
    }

    /// Whether the lock is still ours.
    pub(crate) fn is_valid(&self) -> bool {
        match &self.guard {
            Guard::Read(guard) => guard.is_valid(),
            Guard::Write(guard) => guard.is_valid(),
        }
    }

    /// Whether an operator has ended the session.
    pub(crate) fn was_ended_by_operator(&self) -> bool {
        self.locks.was_ended_by_operator()
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
