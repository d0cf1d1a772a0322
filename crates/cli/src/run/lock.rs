//! The locks of one run: the only file here that knows the client.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{IsTerminal as _, stderr};
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use lockspan_client::{AllGuard, Annotation, Holder, Locks, held_by, label, shown_url};
use lockspan_protocol::Record as Name;
use rustix::process::Signal;
use tokio::time::{Instant, sleep, sleep_until};

use super::guardian::now;
use super::records::Records;
use super::signals::Signals;
use crate::args::RunArgs;
use crate::exit::{self, Failure};
use crate::explain;
use crate::login;
use crate::recovery::{self, Recovery};
use crate::service;
use crate::values::Span;

/// The locks that are held.
#[derive(Debug)]
pub(crate) struct Held {
    locks: Locks,
    guard: AllGuard,
}

/// The least that the client takes. A server has a least of its own, which its refusal tells.
const LEAST_ASKED: Duration = Duration::from_millis(10);

/// The least on a Redis, where nobody else has one: a shorter lease would end between two renewals.
const LEAST_ON_REDIS: Duration = Duration::from_secs(1);

/// Refuses what can't be a lock against others, before anything is connected.
pub(crate) fn check(args: &RunArgs) -> Result<(), Failure> {
    let url = &args.service.url;
    let refused = |text: String| Err(Failure::new(exit::USAGE, text));
    // Its text is not shown: that may be what is wrong with it.
    if let Some(Err(why)) = args.note.as_ref().map(Annotation::new) {
        return refused(format!("--note: {why}"));
    }
    if url.starts_with("memory:") {
        return refused(format!(
            "{url} is a service inside one process, so the lock would exclude nobody. Leave out \
             --url to use this user's own service (local:), or give the URL of a server: \
             lockspan://HOST:PORT"
        ));
    }
    if explain::is_redis(url) && args.lease < LEAST_ON_REDIS {
        let (lease, least) = (Span(args.lease), Span(LEAST_ON_REDIS));
        return refused(format!("--lease {lease} is too short: the minimum on Redis is {least}"));
    }
    Ok(())
}

/// Connects, until a signal to end comes.
pub(crate) async fn connect(
    (args, records): (&RunArgs, &Records),
    signals: &mut Signals,
) -> Result<Locks, Failure> {
    let url = &args.service.url;
    // Nothing is taken a second time. What is not cached is free for others as soon as it is let
    // go, before the end of the session is durable.
    let lease = args.lease.max(LEAST_ASKED);
    let mut options = login::options().lease(lease).name("lockspan run").caching(false);
    if let Some(label) = label_of(args) {
        options = options.label(label);
    }
    tokio::select! {
        locks = options.connect(url) => locks.map_err(|why| explain::no_connection(url, &why)),
        signal = signals.next_end() => Err(ended((args, records), signal)),
    }
}

/// How people see the session: `COMMAND@host[pid]`. The command's arguments are left out, since
/// they may hold secrets that only its own machine should see.
fn label_of(args: &RunArgs) -> Option<String> {
    let command = args.command.first()?;
    let name = Path::new(command).file_name().unwrap_or(command);
    label::named(&name.to_string_lossy()).map(|label| label.to_string())
}

/// The record that is waited for now.
#[derive(Debug)]
pub(crate) struct Waited {
    locks: Locks,
    record: RefCell<Name>,
}

impl Waited {
    pub(crate) fn new(locks: &Locks, records: &Records) -> Self {
        Self { locks: locks.clone(), record: RefCell::new(records.first().clone()) }
    }

    pub(crate) fn record(&self) -> Name {
        self.record.borrow().clone()
    }
}

/// Asks for the locks, until a signal to end comes.
pub(crate) async fn acquire(
    locks: Locks,
    (args, records): (&RunArgs, &Records),
    now: &Waited,
    signals: &mut Signals,
) -> Result<Held, Failure> {
    let guard = tokio::select! {
        biased;
        guard = ask(&locks, (args, records), now) => guard,
        signal = signals.next_end() => Err(ended((args, records), signal)),
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

fn ended((args, records): (&RunArgs, &Records), signal: Signal) -> Failure {
    let at = shown_url(&args.service.url);
    let was = if records.only().is_some() { "was" } else { "were" };
    let text = format!("ended by a signal before {} {was} granted at {at}", records.shown());
    Failure::new(exit::of_signal(signal.as_raw()), text)
}

async fn ask(
    locks: &Locks,
    (args, records): (&RunArgs, &Records),
    now: &Waited,
) -> Result<AllGuard, Failure> {
    let all = records.iter().map(|(record, mode)| (locks.named(record), *mode));
    let mut all = locks.all(all);
    if let Some(note) = &args.note {
        all = all.note(note);
    }
    let mut asking = all.lock();
    let guard = poll_fn(|context| {
        let polled = Pin::new(&mut asking).poll(context);
        if let Some(record) = asking.waits_for() {
            *now.record.borrow_mut() = record.name().clone();
        }
        polled
    });
    guard.await.map_err(|why| {
        let at = service::name(&args.service.url);
        explain::not_granted(&now.record(), &at, args.lease, &why)
    })
}

/// Ends when the record has not been granted for as long as it may take, counted from now. Tells
/// who holds it, which is asked shortly before the end.
pub(crate) async fn patience(now: &Waited, args: &RunArgs) -> Option<String> {
    let Some(wait) = args.wait else { return std::future::pending().await };
    let wait = if wait.is_zero() { ONCE } else { wait };
    let over = Instant::now() + wait;
    sleep(wait.saturating_sub(ANSWER)).await;
    let said = who_holds(now, ANSWER.min(wait)).await;
    sleep_until(over).await;
    said
}

/// What one try may take: a node that has the record cached and does not use it is asked for it.
const ONCE: Duration = Duration::from_millis(100);

/// What the answer to the question who holds the record may take.
const ANSWER: Duration = Duration::from_millis(80);

/// A wait that lasts so long is told at a terminal.
const NOTICE: Duration = Duration::from_secs(1);

/// `held by billing@host9[412] for 3m12s (nightly import); 2 before you`, as far as it is known.
async fn who_holds(now: &Waited, time: Duration) -> Option<String> {
    let (holders, ahead) = now.locks.named(&now.record()).who_holds(time).await?;
    said(&holders, ahead.unwrap_or(0))
}

fn said(holders: &[Holder], ahead: u32) -> Option<String> {
    let before = (ahead > 0).then(|| format!("; {ahead} before you"));
    let text = match holders {
        [] if before.is_none() => return None,
        // The user may not inspect the record.
        [] => "locked".to_owned(),
        [one] => held_by(one),
        [first, others @ ..] => format!("{} and {} more", held_by(first), others.len()),
    };
    Some(text + &before.unwrap_or_default())
}

/// Tells once whom the run waits for, at a terminal or if it was asked to.
pub(crate) async fn notice(now: &Waited, args: &RunArgs, remark: &str) {
    sleep(NOTICE).await;
    if args.quiet || !(args.verbose || stderr().is_terminal()) {
        return;
    }
    let at = service::name(&args.service.url);
    let why = who_holds(now, ANSWER).await.map(|why| format!(", {why}"));
    let record = now.record();
    exit::say(format!("waiting for {record} at {at}{}{remark}", why.unwrap_or_default()));
}

/// What is said when that was too long; `why` is who holds it.
pub(crate) async fn not_granted(record: &Name, args: &RunArgs, why: Option<String>) -> Failure {
    let at = service::name(&args.service.url);
    let mut text = match (args.wait, why) {
        (Some(Duration::ZERO) | None, None) => format!("{record} is locked at {at}"),
        (Some(Duration::ZERO) | None, Some(why)) => format!("{record} is {why}, at {at}"),
        (Some(wait), None) => format!("{record} was not granted within {} at {at}", Span(wait)),
        (Some(wait), Some(why)) => {
            format!("{record} is {why}; not granted within {} at {at}", Span(wait))
        }
    };
    if let Some(recovery) = Recovery::of(&args.service.url).await {
        text.push_str(&format!("; the service is {recovery}"));
    }
    Failure::new(args.conflict_code, text)
}

impl Held {
    /// The fencing tokens in the order of the records, with a space between two.
    pub(crate) fn tokens(&self) -> String {
        let tokens = self.guard.iter().map(|guard| guard.token().number().to_string());
        tokens.collect::<Vec<_>>().join(" ")
    }

    /// Until when the lock is surely ours, by `CLOCK_BOOTTIME`, and how long that is.
    ///
    /// The clock is read first: if we are stopped after it, the end seems to be earlier than it is,
    /// never later.
    pub(crate) fn until(&self) -> (Duration, Duration) {
        let now = now();
        crate::hook::stop_at("before-until");
        let left = self.guard.valid_for();
        (now + left, left)
    }

    /// How another process can end the session.
    pub(crate) fn last_will(&self) -> Option<Vec<u8>> {
        self.locks.last_will()
    }

    /// Whether the lock is still ours.
    pub(crate) fn is_valid(&self) -> bool {
        self.guard.is_valid()
    }

    /// Whether an operator has ended the session.
    pub(crate) fn was_ended_by_operator(&self) -> bool {
        self.locks.was_ended_by_operator()
    }

    /// Ends when the lock is not ours any more.
    pub(crate) async fn lost(&self) {
        self.guard.lost().await;
    }

    /// Gives them back. If the service can't be reached, they are free when the lease is over.
    pub(crate) async fn release(self) {
        drop(self.guard);
        let _ = self.locks.close().await;
    }
}
