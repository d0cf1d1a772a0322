//! What a step leaves to be done when its locks are released.

use std::sync::Arc;

use lockspan_protocol::server::Victim;
use lockspan_protocol::{Epoch, GroupSet, Record, Seq, SessionId, Tick, ToServer};

use super::lock::{LockAsk, LockGranted};
use super::patience::{Patience, PatienceKey};
use super::places::Place;
use super::seat::Seat;
use crate::net::outbox::Dirty;

/// Collected under locks, done by [`Service::finish`](super::Service::finish).
#[derive(Debug, Default)]
pub(crate) struct Work {
    /// Clients that are to be sent something.
    pub(crate) dirty: Dirty,
    /// Waits that close a cycle.
    pub(super) victims: Vec<Victim>,
    /// The search for cycles is not finished: the timer goes on with it.
    pub(super) is_searching: bool,
    /// What tables have to say to the registry.
    pub(super) notes: Vec<Note>,
    /// Acquires to be said again, for commands that wait.
    pub(super) again: Vec<(Arc<Seat>, ToServer)>,
    /// `LS.LOCK`s whose session is open.
    pub(super) locks: Vec<(Arc<Seat>, LockAsk)>,
    /// Locks that were granted, and whose clients are to be told.
    pub(super) granted: Vec<LockGranted>,
    /// Locks that a command has begun to wait for.
    pub(super) vigils: Vec<Arc<Seat>>,
    /// Grants of locks that no command waits for.
    pub(super) passed: Vec<(Arc<Seat>, Record, Seq)>,
    /// Sessions of locks that nobody can ask for any more.
    pub(super) over: Vec<Arc<Seat>>,
    /// Commands that wait up to a moment: those that have begun, and those that are answered.
    pub(super) patience: Vec<(PatienceKey, Patience)>,
    pub(super) patience_over: Vec<PatienceKey>,
    /// Acquires that wait and are told so later.
    pub(super) places: Vec<Place>,
    /// When it all happens, as far as the tables are concerned; none: when they are asked.
    pub(super) now: Option<Tick>,
    /// The connection whose commands are carried out, if it is one.
    pub(super) from: Option<u64>,
}

impl Work {
    /// For many commands that have come together, on the connection with this number.
    pub(crate) fn at(now: Tick, from: u64) -> Self {
        Self { now: Some(now), from: Some(from), ..Self::default() }
    }

    /// Whether there is something left to do but to send.
    pub(super) fn is_left(&self) -> bool {
        !(self.victims.is_empty()
            && self.notes.is_empty()
            && self.again.is_empty()
            && self.locks.is_empty()
            && self.granted.is_empty()
            && self.vigils.is_empty()
            && self.passed.is_empty()
            && self.over.is_empty()
            && self.patience.is_empty()
            && self.patience_over.is_empty()
            && self.places.is_empty())
    }
}

/// What a table has to say to the registry. See the header of `service` for why it may come late.
#[derive(Debug)]
pub(super) enum Note {
    Recovered { former: SessionId, by: SessionId, groups: GroupSet },
    Progress { session: SessionId },
    Behind { groups: GroupSet, above: Epoch, by: Option<SessionId> },
}
