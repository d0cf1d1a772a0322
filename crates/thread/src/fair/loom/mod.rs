//! Models of the lock that ships, in every interleaving that the preemption bound allows.
//!
//! The data behind the lock is a loom cell, so a model fails on any unordered access to it; nodes
//! and lists are loom cells as well. Tests named `fair_s…` are the cases of `docs/failures.md`.

mod cases;
mod fork;
mod leaving;
mod tasks;
mod turns;

use std::time::{Duration, Instant};

use loom::cell::UnsafeCell;
use loom::sync::Arc;

use super::node::Kind;
use super::policy::{Policy, Strict, Together};
use super::raw::RawRwLock;
use super::word::WRITER;
use crate::sync::{Ordering, thread};

/// Arrivals may always pass, so waiters are summoned and insist.
pub(super) struct Passing;

impl Policy for Passing {
    const PASSING: bool = true;

    fn now() -> u64 {
        0
    }

    fn quantum() -> u64 {
        1
    }

    fn bound() -> u64 {
        1
    }

    fn duration(_ticks: u64) -> Duration {
        Duration::ZERO
    }
}

/// As [`Passing`], and readers come in one at a time while a writer waits.
pub(super) struct OneByOne;

impl Policy for OneByOne {
    const PASSING: bool = true;

    fn now() -> u64 {
        Passing::now()
    }

    fn quantum() -> u64 {
        Passing::quantum()
    }

    fn bound() -> u64 {
        Passing::bound()
    }

    fn duration(ticks: u64) -> Duration {
        Passing::duration(ticks)
    }

    fn crowd() -> usize {
        1
    }
}

/// As [`Strict`], but a scheduler is tired after one look.
pub(super) struct ShortOffice;

impl Policy for ShortOffice {
    const PASSING: bool = false;
    const LOOKS: u32 = 1;

    fn now() -> u64 {
        0
    }

    fn quantum() -> u64 {
        0
    }

    fn bound() -> u64 {
        0
    }

    fn duration(_ticks: u64) -> Duration {
        Duration::ZERO
    }
}

/// A lock around a count that loom watches.
pub(super) struct Counted<P: Policy> {
    pub(super) raw: RawRwLock<P>,
    count: UnsafeCell<usize>,
}

// SAFETY: the count is only reached under the lock; loom checks just that.
unsafe impl<P: Policy> Sync for Counted<P> {}
// SAFETY: the count goes where the lock goes; loom checks who reaches it.
unsafe impl<P: Policy> Send for Counted<P> {}

impl<P: Policy> Counted<P> {
    pub(super) fn new() -> Arc<Self> {
        let lock = Self { raw: RawRwLock::new(), count: UnsafeCell::new(0) };
        // In the middle of a quantum, so that `Passing` lets arrivals pass from the start.
        lock.raw.due.store(P::quantum(), Ordering::Relaxed);
        Arc::new(lock)
    }

    /// Reads the count; the caller holds the lock.
    pub(super) fn look(&self) -> usize {
        // SAFETY: loom fails the model if a writer is there.
        self.count.with(|count| unsafe { *count })
    }

    /// Adds one; the caller holds the lock for writing.
    pub(super) fn add(&self) {
        // SAFETY: loom fails the model if anybody else is there.
        self.count.with_mut(|count| unsafe { *count += 1 });
    }

    pub(super) fn write(&self) {
        self.raw.write();
        self.add();
        self.raw.write_done();
    }

    pub(super) fn read(&self) -> usize {
        self.raw.read();
        let count = self.look();
        self.raw.read_done();
        count
    }

    /// Tries to write until a deadline that the model may let pass at once.
    pub(super) fn write_timed(&self) -> bool {
        let got = self.raw.try_acquire(Kind::Write) || self.raw.acquire(Kind::Write, soon());
        if got {
            self.add();
            self.raw.write_done();
        }
        got
    }

    pub(super) fn read_timed(&self) -> bool {
        let got = self.raw.try_acquire(Kind::Read) || self.raw.acquire(Kind::Read, soon());
        if got {
            self.look();
            self.raw.read_done();
        }
        got
    }

    /// The word is zero at rest, and nothing is left in the inbox.
    pub(super) fn assert_at_rest(&self) {
        assert_eq!(self.raw.state.load(Ordering::Acquire), 0, "the word is not zero at rest");
        assert!(self.raw.inbox.load(Ordering::Relaxed).is_null());
    }
}

pub(super) fn soon() -> Option<lockspan_park::Deadline> {
    Some((Instant::now() + Duration::from_secs(3600)).into())
}

/// Runs `f` in every interleaving with at most `preemptions` preemptions.
pub(super) fn model(preemptions: usize, f: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(preemptions);
    builder.max_branches = 50_000;
    builder.check(f);
}

/// A thread's part in a model.
pub(super) type Part<P> = fn(&Counted<P>);

/// Runs the parts at the same time and checks that the lock is at rest in the end.
///
/// Two threads are searched deeply; three are much dearer. `LOOM_MAX_PREEMPTIONS` overrules that.
pub(super) fn together<P: Policy>(parts: &'static [Part<P>]) {
    run_parts(if parts.len() > 2 { 1 } else { 4 }, parts);
}

/// [`together`] for three threads, with one more preemption in `cargo xtask search`, which sets
/// `LOCKSPAN_MODEL=full`. That takes four minutes or more, so the suite does without.
pub(super) fn deeply<P: Policy>(parts: &'static [Part<P>]) {
    let is_full = std::env::var("LOCKSPAN_MODEL").is_ok_and(|value| value == "full");
    run_parts(if is_full { 2 } else { 1 }, parts);
}

fn run_parts<P: Policy>(preemptions: usize, parts: &'static [Part<P>]) {
    model(preemptions, move || {
        let lock = Counted::<P>::new();
        side_by_side(parts.iter().map(|part| {
            let lock = lock.clone();
            move || part(&lock)
        }));
        lock.assert_at_rest();
    });
}

/// Runs each part in a thread of its own. The model's first thread only joins them: loom takes a
/// late ring of an alarm for the end of a join.
pub(super) fn side_by_side<F: FnOnce() + 'static>(parts: impl Iterator<Item = F>) {
    let threads: Vec<_> = parts.map(thread::spawn).collect();
    for thread in threads {
        thread.join().expect("a part failed");
    }
}

/// The parts that most models are made of.
pub(super) fn writes<P: Policy>(lock: &Counted<P>) {
    lock.write();
}

pub(super) fn reads<P: Policy>(lock: &Counted<P>) {
    lock.read();
}

pub(super) type Strictly = Counted<Strict>;
