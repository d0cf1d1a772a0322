//! What a node counts of its messages. What is counted for the `metrics` façade is in `meter`.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::node::{Core, Node, SERVER};

/// Counts of a connection since it was made: [`Locks::stats`](crate::Locks::stats).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Messages sent.
    pub told: u64,
    /// Messages received.
    pub heard: u64,
    /// Acquire messages sent, including repeated ones.
    pub acquires: u64,
    /// Grants received.
    pub grants: u64,
    /// Revokes received: another process wanted the record.
    pub revokes: u64,
    /// Retries received: see [`Handoff::Retry`](crate::Handoff::Retry).
    pub retries: u64,
    /// Grants that were lost because a lease expired or the server gave them away.
    pub lost: u64,
    /// Leases that expired before the session was closed.
    pub lost_leases: u64,
    /// How often the connection was made, including the first time.
    pub connects: u64,
    /// Bytes sent to the server, before encryption.
    pub sent_bytes: u64,
    /// Bytes received from the server, after decryption.
    pub received_bytes: u64,
    /// Records that are cached, in use or being acquired now.
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

impl Node {
    /// Counts the lease if it was lost since the last call.
    pub(crate) fn watch_lease(&self, core: &mut Core) {
        let has_lease = core.cache.lease_until(SERVER).is_some();
        if std::mem::replace(&mut core.has_lease, has_lease) && !has_lease && !self.is_closing() {
            Counts::one(&self.counts.lost_leases);
        }
    }
}
