//! What a server has done and has now.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters since the start, and sizes now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Commands of clients, with `LS.TELL`.
    pub commands: u64,
    /// Acquires that reached a table.
    pub acquires: u64,
    /// Grants, first and repeated ones.
    pub grants: u64,
    /// Acquires that were told to wait.
    pub queued: u64,
    /// Revokes, each once.
    pub revokes: u64,
    /// Revokes that were sent again because the record was not given up yet.
    pub revoke_repeats: u64,
    /// Retries.
    pub retries: u64,
    /// Releases and cancels.
    pub releases: u64,
    /// Refused messages and acquires.
    pub refusals: u64,
    /// Waits that were refused because they closed a cycle (a deadlock).
    pub deadlocks: u64,
    /// Messages of sessions to tables.
    pub messages_in: u64,
    /// Messages of tables to sessions.
    pub messages_out: u64,
    /// Bytes from clients.
    pub bytes_in: u64,
    /// Bytes to clients.
    pub bytes_out: u64,
    /// Bytes that wait now for clients that do not read, or of commands that are not all there.
    /// Differences of a few KiB for each connection are left out.
    pub bytes_waiting: u64,
    /// Connections that were closed because they did not read.
    pub slow_readers: u64,
    /// Sessions whose lease has ended.
    pub expirations: u64,
    /// Grants that have ended with the lease of their session.
    pub lost_grants: u64,
    /// Connections that were accepted.
    pub connections_total: u64,
    /// Connections now.
    pub connections: u64,
    /// Sessions now, in whatever state.
    pub sessions: u64,
    /// Records that somebody holds or waits for.
    pub records: u64,
    /// Grants and waits now.
    pub claims: u64,
    /// Whether some term still waits for re-assertions.
    pub recovering: bool,
}

/// What a table counts, under its lock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) acquires: u64,
    pub(crate) grants: u64,
    pub(crate) queued: u64,
    pub(crate) retries: u64,
    pub(crate) releases: u64,
    pub(crate) refusals: u64,
    pub(crate) messages_in: u64,
    pub(crate) messages_out: u64,
}

impl Stats {
    pub(crate) fn add(&mut self, counts: &Counts) {
        self.acquires += counts.acquires;
        self.grants += counts.grants;
        self.queued += counts.queued;
        self.retries += counts.retries;
        self.releases += counts.releases;
        self.refusals += counts.refusals;
        self.messages_in += counts.messages_in;
        self.messages_out += counts.messages_out;
    }
}

/// What connections count.
#[derive(Debug, Default)]
pub(crate) struct Meters {
    pub(crate) commands: Meter,
    pub(crate) deadlocks: Meter,
    pub(crate) slow_readers: Meter,
    pub(crate) expirations: Meter,
    pub(crate) lost_grants: Meter,
    pub(crate) bytes_in: Meter,
    pub(crate) connections_total: Meter,
}

/// A number that grows.
#[derive(Debug, Default)]
pub(crate) struct Meter(AtomicU64);

impl Meter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
