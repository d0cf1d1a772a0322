//! What happened to a lock, in the order of its word's changes: for tests that count.
//!
//! Only shuttle's tests keep the record. There all threads of a test run on one, and nothing comes
//! between an atomic operation and the note that follows it, so the record is exact.

use super::node::Kind;

/// One change of the word that matters to a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A waiter is in the inbox: its place in line is settled.
    Pushed { node: usize, kind: Kind },
    /// A waiter counts from here on.
    Published { node: usize, kind: Kind },
    /// A turn begins: one writer or upgradable reader, or the first reader of a phase.
    Turn { node: usize, kind: Kind },
    /// A further reader of the phase that has just begun.
    Same { node: usize },
    /// A thread took the lock without waiting in line.
    Entered { kind: Kind, with_waiters: bool },
    /// A hold was given up.
    Left { kind: Kind },
    /// Somebody read the clock. Noted by the clocks of tests.
    #[cfg(all(test, lockspan_shuttle))]
    Clock { now: u64 },
}

/// Is there a record?
pub(super) const RECORDING: bool = cfg!(all(test, lockspan_shuttle));

#[cfg(not(all(test, lockspan_shuttle)))]
#[inline(always)]
pub(super) fn note(_event: impl FnOnce() -> Event) {}

#[cfg(all(test, lockspan_shuttle))]
pub(super) use self::record::{note, start, taken};

#[cfg(all(test, lockspan_shuttle))]
mod record {
    use std::cell::RefCell;

    use super::Event;
    use crate::sync::thread::{self, ThreadId};

    thread_local! {
        static RECORD: RefCell<Option<Vec<(ThreadId, Event)>>> = const { RefCell::new(None) };
    }

    /// Begins a record; the lock under test is the only one in use.
    pub(in super::super) fn start() {
        RECORD.with_borrow_mut(|record| *record = Some(Vec::new()));
    }

    /// Ends the record.
    pub(in super::super) fn taken() -> Vec<(ThreadId, Event)> {
        RECORD.with_borrow_mut(|record| record.take()).expect("a record was started")
    }

    pub(in super::super) fn note(event: impl FnOnce() -> Event) {
        RECORD.with_borrow_mut(|record| {
            if let Some(record) = record {
                record.push((thread::current().id(), event()));
            }
        });
    }
}
