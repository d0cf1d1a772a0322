//! What a node counts. Nothing is counted where a cached record is used without a message.

use std::sync::atomic::{AtomicU64, Ordering};

/// What has happened on a node since it was connected. See [`Locks::stats`](crate::Locks::stats).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Messages sent.
    pub told: u64,
    /// Messages received.
    pub heard: u64,
    /// Acquires sent, those that were sent again included.
    pub acquires: u64,
    /// Grants received.
    pub grants: u64,
    /// Revokes received.
    pub revokes: u64,
    /// Retries received.
    pub retries: u64,
    /// Grants that were lost.
    pub lost: u64,
    /// How often the connection was made, the first time included.
    pub connects: u64,
    /// Records that are cached, in use or asked for.
    pub records: usize,
}

/// The counters behind it.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) told: AtomicU64,
    pub(crate) heard: AtomicU64,
    pub(crate) acquires: AtomicU64,
    pub(crate) grants: AtomicU64,
    pub(crate) revokes: AtomicU64,
    pub(crate) retries: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) connects: AtomicU64,
}

impl Counts {
    /// One more. Whoever counts holds the core, or is the background task alone with its counter:
    /// so nobody else does meanwhile.
    pub(crate) fn one(count: &AtomicU64) {
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    pub(crate) fn stats(&self, records: usize) -> Stats {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Stats {
            told: get(&self.told),
            heard: get(&self.heard),
            acquires: get(&self.acquires),
            grants: get(&self.grants),
            revokes: get(&self.revokes),
            retries: get(&self.retries),
            lost: get(&self.lost),
            connects: get(&self.connects),
            records,
        }
    }
}
