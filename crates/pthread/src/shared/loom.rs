//! Models of the process-shared lock: exclusion, no lost wake-up, and waiters that give up.
//!
//! A lost wake-up shows as a deadlock, a missing ordering as a race on the cell. Run with
//!
//! ```text
//! RUSTFLAGS="--cfg lockspan_loom" LOOM_MAX_PREEMPTIONS=3 \
//!     cargo test -p lockspan-pthread --lib --profile model
//! ```
//!
//! which takes some minutes on two cores; two pre-emptions, the default, take seconds and find each
//! bug of the kind that dropping a wake, an ordering or a check makes.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::{Outcome, SharedRwLock};
use crate::clock::{Clock, Deadline, deadline};
use crate::sync::NEVER;

/// Every interleaving with two preemptions, or as many as `LOOM_MAX_PREEMPTIONS` says.
fn model(f: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(2);
    builder.check(f);
}

/// In a model this deadline passes whenever the explorer likes.
fn soon() -> Option<Deadline> {
    deadline(Clock::Monotonic, 0, 0)
}

struct Shared {
    lock: SharedRwLock,
    cell: UnsafeCell<u32>,
}

// SAFETY: the cell is only used with the lock held in the right mode; the models check just that.
unsafe impl Sync for Shared {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Shared {}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self { lock: SharedRwLock::new(), cell: UnsafeCell::new(0) })
    }

    /// Adds one as a writer, unless the deadline comes first.
    fn add(&self, until: Option<Deadline>) -> u32 {
        if self.lock.write(until) != Outcome::Held {
            assert!(until.is_some());
            return 0;
        }
        self.add_held();
        1
    }

    fn add_held(&self) {
        self.cell.with_mut(|at| {
            // SAFETY: we hold the lock for writing; loom fails the model if anybody else is in.
            unsafe { *at += 1 }
        });
        // SAFETY: held just above.
        unsafe { SharedRwLock::write_unlock(&raw const self.lock) };
    }

    /// Looks as a reader, unless the deadline comes first.
    fn look(&self, until: Option<Deadline>) {
        if self.lock.read(until) != Outcome::Held {
            assert!(until.is_some());
            return;
        }
        self.look_held();
        self.leave();
    }

    fn look_held(&self) -> u32 {
        self.cell.with(|at| {
            // SAFETY: we hold the lock for reading; loom fails the model if a writer is in.
            unsafe { *at }
        })
    }

    fn leave(&self) {
        // SAFETY: the callers hold it for reading.
        unsafe { SharedRwLock::read_unlock(&raw const self.lock) };
    }
}

/// Runs `threads` beside each other in every order; at the end the lock is idle again.
fn check(threads: &'static [fn(&Shared) -> u32]) {
    model(move || {
        let shared = Shared::new();
        let started: Vec<_> = threads[1..]
            .iter()
            .map(|&body| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || body(&shared))
            })
            .collect();
        let mut added = threads[0](&shared);
        for thread in started {
            added += thread.join().unwrap();
        }
        assert!(shared.lock.is_idle() && !shared.lock.is_held(), "{:?}", shared.lock);
        assert_eq!(
            shared.cell.with(|at| {
                // SAFETY: all threads are done.
                unsafe { *at }
            }),
            added
        );
    });
}

fn write(shared: &Shared) -> u32 {
    shared.add(None)
}

fn write_timed(shared: &Shared) -> u32 {
    shared.add(soon())
}

/// With a deadline, so without a ticket, but in no hurry: it must get in.
fn write_some_day(shared: &Shared) -> u32 {
    assert_eq!(shared.add(deadline(Clock::Monotonic, NEVER, 0)), 1);
    1
}

fn read(shared: &Shared) -> u32 {
    shared.look(None);
    0
}

fn read_timed(shared: &Shared) -> u32 {
    shared.look(soon());
    0
}

fn try_both(shared: &Shared) -> u32 {
    if shared.lock.try_read(false) == Outcome::Held {
        shared.look_held();
        shared.leave();
    }
    if shared.lock.try_write() == Outcome::Held {
        shared.add_held();
        return 1;
    }
    0
}

/// Reads, then reads again inside, which must not wait even if the door was closed meanwhile.
fn read_twice(shared: &Shared) -> u32 {
    assert_eq!(shared.lock.read(None), Outcome::Held);
    let first = shared.look_held();
    assert_eq!(shared.lock.try_read(true), Outcome::Held);
    assert_eq!(shared.look_held(), first);
    shared.leave();
    assert_eq!(shared.look_held(), first);
    shared.leave();
    0
}

#[test]
fn two_writers_exclude_each_other_and_both_get_in() {
    check(&[write, write]);
}

#[test]
fn a_reader_and_a_writer_exclude_each_other_and_both_get_in() {
    check(&[read, write]);
}

#[test]
fn two_readers_and_a_writer_all_get_in() {
    check(&[read, read, write]);
}

#[test]
fn a_reader_and_two_writers_all_get_in() {
    check(&[read, write, write]);
}

#[test]
fn three_writers_are_served_in_line() {
    check(&[write, write, write]);
}

#[test]
fn a_reader_gets_its_second_hold_while_a_writer_waits() {
    check(&[read_twice, write]);
}

#[test]
fn a_second_hold_beside_a_reader_and_a_writer() {
    check(&[read_twice, write, read]);
}

#[test]
fn tries_keep_exclusion_and_lose_no_wake_up() {
    check(&[try_both, write, read]);
}

#[test]
fn a_reader_that_gives_up_leaves_no_trace() {
    check(&[read_timed, write, read]);
    check(&[read_timed, write, write]);
}

#[test]
fn a_head_writer_that_gives_up_lets_the_waiting_readers_in() {
    check(&[write_timed, read, read]);
    check(&[write_timed, read, write]);
}

#[test]
fn writers_with_and_without_deadline_share_the_line() {
    check(&[write_timed, write_timed, read]);
    check(&[write_timed, write, write]);
    check(&[write_timed, write_timed, write]);
}

#[test]
fn a_writer_without_a_ticket_is_told_that_the_line_is_empty() {
    check(&[write_some_day, write]);
    check(&[write_some_day, write_some_day, write]);
    check(&[write_some_day, write, read]);
}

/// The first reader stays in until the others are through, so nobody but the writer that gives up
/// can let the second reader in.
#[test]
fn a_head_writer_that_gives_up_wakes_the_readers_behind_it() {
    model(|| {
        let shared = Shared::new();
        assert_eq!(shared.lock.read(None), Outcome::Held);
        let threads = [write_timed, read].map(|body| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || body(&shared))
        });
        for thread in threads {
            assert_eq!(thread.join().unwrap(), 0);
        }
        assert_eq!(shared.look_held(), 0);
        shared.leave();
        assert!(shared.lock.is_idle());
    });
}

#[test]
fn reader_and_writer_that_both_give_up() {
    check(&[write_timed, read_timed, write]);
    check(&[write_timed, read_timed, read]);
}
