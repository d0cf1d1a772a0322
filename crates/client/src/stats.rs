//! What a node counts of its messages. What is counted for the `metrics` façade is in `meter`.

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
    /// Leases that ended before the session was closed.
    pub lost_leases: u64,
    /// How often the connection was made, the first time included.
    pub connects: u64,
    /// Bytes sent to the server, before encryption.
    pub sent_bytes: u64,
    /// Bytes received from the server, after decryption.
    pub received_bytes: u64,
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
    pub(crate) lost_leases: AtomicU64,
    pub(crate) connects: AtomicU64,
    pub(crate) received_bytes: AtomicU64,
}

impl Counts {
    /// One more. Whoever counts holds the core, or is the background task alone with its counter:
    /// so nobody else does meanwhile.
    pub(crate) fn one(count: &AtomicU64) {
        Self::more(count, 1);
    }

    /// So many more, on the same terms.
    pub(crate) fn more(count: &AtomicU64, more: u64) {
        count.store(count.load(Ordering::Relaxed) + more, Ordering::Relaxed);
    }

    pub(crate) fn stats(&self, records: usize, sent_bytes: u64) -> Stats {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Stats {
            told: get(&self.told),
            heard: get(&self.heard),
            acquires: get(&self.acquires),
            grants: get(&self.grants),
            revokes: get(&self.revokes),
            retries: get(&self.retries),
            lost: get(&self.lost),
            lost_leases: get(&self.lost_leases),
            connects: get(&self.connects),
            sent_bytes,
            received_bytes: get(&self.received_bytes),
            records,
        }
    }
}
