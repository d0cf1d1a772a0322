//! When blocking acquires give up.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use lockspan_protocol::{Record, Seq, Tick};

use super::seat::Seat;
use super::timer::AT_A_TIME;
use crate::net::outbox::Slot;

/// A moment and a number that makes it unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PatienceKey(Tick, u64);

impl PatienceKey {
    pub(super) fn new(until: Tick) -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(until, LAST.fetch_add(1, Ordering::Relaxed))
    }

    pub(super) fn until(self) -> Tick {
        self.0
    }
}

/// A command that waits for a grant, up to a moment.
#[derive(Debug)]
pub(super) struct Patience {
    pub(super) seat: Arc<Seat>,
    pub(super) record: Record,
    pub(super) seq: Seq,
    pub(super) slot: Slot,
}

/// All of them, by their ends. One that is answered meanwhile may stay: it finds nothing to end.
#[derive(Debug, Default)]
pub(super) struct Patiences(Mutex<BTreeMap<PatienceKey, Patience>>);

impl Patiences {
    pub(super) fn next_deadline(&self) -> Option<Tick> {
        crate::lock(&self.0).first_key_value().map(|(key, _)| key.0)
    }

    /// Those that have begun and those that are over.
    pub(super) fn change(
        &self,
        begun: &mut Vec<(PatienceKey, Patience)>,
        over: &mut Vec<PatienceKey>,
    ) {
        let mut all = crate::lock(&self.0);
        all.extend(begun.drain(..));
        for key in over.drain(..) {
            all.remove(&key);
        }
    }

    /// Those whose time has come, as many as give up at a time.
    pub(super) fn due(&self, now: Tick) -> Vec<Patience> {
        let mut all = crate::lock(&self.0);
        let mut due = Vec::new();
        while due.len() < AT_A_TIME
            && let Some(first) = all.first_entry()
            && first.key().0 <= now
        {
            due.push(first.remove());
        }
        due
    }
}
