//! The time after a restart in which sessions re-assert what they held: whom the server waits for,
//! and how long at most. The log has a line at its beginning and one at its end.

use lockspan_protocol::{Record, SessionId, Tick};
use lockspan_wire::reply::{Recovery, Who};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use super::Service;
use super::desk::Desk;
use crate::clock;

/// Sessions that are named; of more only the number is told.
const NAMED: usize = 16;

/// A recovery that is under way.
#[derive(Debug)]
pub(super) struct Recovers {
    since: Tick,
    /// How many sessions were waited for when it began.
    listed: usize,
    /// Those that have not come back yet.
    missing: BTreeSet<SessionId>,
}

impl Recovers {
    /// The session has told all that it had, or was closed by its owner.
    pub(super) fn is_back(&mut self, session: SessionId) {
        self.missing.remove(&session);
    }
}

impl Service {
    /// Notices the beginning and the end of a recovery. Called whenever the registry has changed.
    pub(super) fn watch_recovery(&self, desk: &mut Desk, now: Tick) {
        if !self.recovers.load(Ordering::Relaxed) {
            return;
        }
        let left = desk.registry.unrecovered();
        self.recovers.store(left > 0, Ordering::Release);
        match desk.recovers.take() {
            Some(over) if left == 0 => self.log_end(desk, now, &over),
            Some(under_way) => desk.recovers = Some(under_way),
            None if left == 0 => {}
            None => {
                let all = desk.registry.recovering_sessions();
                let missing: BTreeSet<_> = all.filter(|&id| !desk.is_phantom(id)).collect();
                let listed = missing.len();
                desk.recovers = Some(Recovers { since: now, listed, missing });
                if let Some(told) = self.recovery_of(desk, now) {
                    tracing::info!(
                        "recovering: waiting for {} to re-assert their locks, at most {:.1?}; \
                         until then nothing is granted that they may hold",
                        whom(&told),
                        told.left
                    );
                }
            }
        }
    }

    fn log_end(&self, desk: &Desk, now: Tick, over: &Recovers) {
        let took = now.since(over.since);
        let missing: Vec<_> = over.missing.iter().map(|id| self.who_at(desk, *id)).collect();
        let (back, listed) = (over.listed - over.missing.len(), over.listed);
        if missing.is_empty() {
            tracing::info!("recovered after {took:.1?}: {back} of {listed} sessions came back");
        } else {
            tracing::warn!(
                "recovered after {took:.1?}: {back} of {listed} sessions came back; the leases of \
                 the others expired, and their locks are free: {}",
                named(&missing, missing.len())
            );
        }
    }

    /// Whom the server waits for after a restart, if it does.
    pub(crate) fn recovery(&self) -> Option<Recovery> {
        if !self.recovers.load(Ordering::Acquire) {
            return None;
        }
        self.recovery_of(&crate::lock(&self.desk), clock::now())
    }

    /// However many sessions it waits for, it looks at a few.
    fn recovery_of(&self, desk: &Desk, now: Tick) -> Option<Recovery> {
        let left = desk.registry.recovers_until()?.since(now);
        let unknown = desk.phantom_recovers();
        let sessions = desk.registry.unrecovered() - usize::from(unknown);
        let named = desk.registry.recovering_sessions().filter(|&id| !desk.is_phantom(id));
        let some = named.take(NAMED).map(|id| self.who_at(desk, id)).collect();
        Some(Recovery { sessions, some, unknown, left })
    }

    /// Whether it is not known yet who holds the record.
    pub(crate) fn recovers(&self, record: &Record) -> bool {
        let shard = &self.shards[self.shard_of(record.group())];
        self.epoch_of(record).is_none() || crate::lock(shard).table.recovers_group(record.group())
    }
}

/// Whom a recovery waits for, for people.
fn whom(recovery: &Recovery) -> String {
    let sessions = match recovery.sessions {
        0 => String::new(),
        1 => format!("1 session ({})", named(&recovery.some, 1)),
        many => format!("{many} sessions ({})", named(&recovery.some, many)),
    };
    match (recovery.unknown, recovery.sessions) {
        (false, _) => sessions,
        (true, 0) => "unknown sessions of an earlier run".to_owned(),
        (true, _) => format!("{sessions} and unknown others"),
    }
}

/// Some of so many sessions.
fn named(some: &[Who], all: usize) -> String {
    let mut text: Vec<_> = some.iter().take(NAMED).map(Who::to_string).collect();
    if all > text.len() {
        text.push(format!("{} more", all - text.len()));
    }
    text.join(", ")
}
