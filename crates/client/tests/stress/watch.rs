//! Who holds what, as far as their guards say: the oracle.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use lockspan_client::{Locks, OwnedReadGuard, OwnedWriteGuard, Record, Token};

/// The record with this number, by a handle.
pub(crate) fn record(locks: &Locks, number: usize) -> Record {
    locks.record("stress", number.to_string()).unwrap()
}

/// A guard of either kind.
#[derive(Debug)]
pub(crate) enum Held {
    Read(OwnedReadGuard),
    Write(OwnedWriteGuard),
}

impl Held {
    pub(crate) fn is_valid(&self) -> bool {
        match self {
            Self::Read(guard) => guard.is_valid(),
            Self::Write(guard) => guard.is_valid(),
        }
    }

    fn token(&self) -> Token {
        match self {
            Self::Read(guard) => guard.token(),
            Self::Write(guard) => guard.token(),
        }
    }
}

#[derive(Debug, Default)]
struct Place {
    held: Vec<Weak<Held>>,
    /// The highest that somebody wrote with.
    written: Token,
}

/// The oracle.
#[derive(Debug)]
pub(crate) struct Watch {
    places: Vec<Mutex<Place>>,
    reads: AtomicU64,
    writes: AtomicU64,
    lost: AtomicU64,
    pub(crate) given_up: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) upgraded: AtomicU64,
}

impl Watch {
    pub(crate) fn new(records: usize) -> Self {
        Self {
            places: (0..records).map(|_| Mutex::default()).collect(),
            reads: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            given_up: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            upgraded: AtomicU64::new(0),
        }
    }

    /// Somebody holds a record: nobody may be beside it whose guard stands.
    pub(crate) fn enter(&self, record: usize, held: Held) -> Arc<Held> {
        let mut place = self.places[record].lock().unwrap();
        let writes = matches!(held, Held::Write(_));
        place.held.retain(|other| other.strong_count() > 0);
        for other in place.held.iter().filter_map(Weak::upgrade) {
            if writes || matches!(*other, Held::Write(_)) {
                // In this order: what stands now stood when the other was looked at.
                let clash = other.is_valid() && held.is_valid();
                assert!(!clash, "record {record}: {held:?} beside {other:?}");
            }
        }
        if held.is_valid() {
            let (token, written) = (held.token(), place.written);
            assert!(token >= written, "record {record}: {held:?} after a write with {written}");
        }
        if writes {
            place.written = place.written.max(held.token());
        }
        let count = if writes { &self.writes } else { &self.reads };
        count.fetch_add(1, Ordering::Relaxed);
        let held = Arc::new(held);
        place.held.push(Arc::downgrade(&held));
        held
    }

    /// It is not watched any more, for it is about to change or to go.
    pub(crate) fn leave(&self, record: usize, held: Arc<Held>) -> Held {
        let mut place = self.places[record].lock().unwrap();
        place.held.retain(|other| !std::ptr::eq(other.as_ptr(), Arc::as_ptr(&held)));
        let held = Arc::try_unwrap(held).expect("who looks does so behind the mutex");
        self.lost.fetch_add(u64::from(!held.is_valid()), Ordering::Relaxed);
        held
    }

    /// What has happened.
    pub(crate) fn summary(&self) -> String {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        format!(
            "{} reads, {} writes, {} upgraded, {} given up, {} refused, {} lost",
            get(&self.reads),
            get(&self.writes),
            get(&self.upgraded),
            get(&self.given_up),
            get(&self.refused),
            get(&self.lost),
        )
    }
}
