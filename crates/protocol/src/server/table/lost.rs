//! Grants that are void although their session lives, until its node has heard so.
//!
//! [`ToNode::Lost`] may be lost like any message, and its node would hold on for as long as its
//! session lives. So it is said again, as a revoke is, until the node answers: by a release of that
//! seq, or by a later acquire of the record. The time between two doubles, up to 32 times
//! [`Limits::resend`]: nodes that never answer cost less and less.
//!
//! At most [`LOST_MAX`] grants are remembered, and [`LOST_PER_SESSION`] of one session; the oldest
//! make room for others. More take clocks beyond the margin, or a node that says that it keeps what
//! it does not have.

use super::*;

/// Of so many grants of a session it is said again.
const LOST_PER_SESSION: usize = 256;

/// Of so many grants of a table.
const LOST_MAX: usize = 4_096;

/// After so many rounds the time between two does not double any more.
const ROUNDS: u32 = 32;

/// Grants of which nobody has answered that they are void.
#[derive(Clone, Debug, Default)]
pub(super) struct Voids {
    /// By session and record. None of the inner maps is empty.
    all: BTreeMap<SessionId, BTreeMap<Record, Void>>,
    /// All of them, the oldest first.
    ages: BTreeMap<u64, (SessionId, Record)>,
    last: u64,
    /// When they are said again.
    pub(super) at: Option<Tick>,
    /// The last one that was looked at, if a round is not finished.
    looked_at: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Void {
    seq: Seq,
    age: u64,
    /// Rounds since it was said first.
    rounds: u32,
}

impl Voids {
    fn add(&mut self, session: SessionId, record: &Record, seq: Seq) {
        let records = self.all.entry(session).or_default();
        if let Some(known) = records.get_mut(record) {
            known.seq = known.seq.max(seq);
            return;
        }
        if records.len() >= LOST_PER_SESSION {
            return;
        }
        self.last += 1;
        records.insert(record.clone(), Void { seq, age: self.last, rounds: 0 });
        self.ages.insert(self.last, (session, record.clone()));
        if self.ages.len() > LOST_MAX
            && let Some((_, (session, record))) = self.ages.pop_first()
        {
            self.forget(session, &record);
        }
    }

    fn forget(&mut self, session: SessionId, record: &Record) {
        let Some(records) = self.all.get_mut(&session) else { return };
        if let Some(void) = records.remove(record) {
            self.ages.remove(&void.age);
        }
        if records.is_empty() {
            self.all.remove(&session);
        }
        self.rest_if_empty();
    }

    /// The session is over.
    pub(super) fn forget_session(&mut self, ended: SessionId) {
        for void in self.all.remove(&ended).into_iter().flat_map(BTreeMap::into_values) {
            self.ages.remove(&void.age);
        }
        self.rest_if_empty();
    }

    /// These groups are left: their next owner decides what is void.
    pub(super) fn forget_groups(&mut self, groups: GroupSet) {
        let gone = self.ages.values().filter(|(_, record)| groups.contains(record.group()));
        for (session, record) in gone.cloned().collect::<Vec<_>>() {
            self.forget(session, &record);
        }
    }

    fn rest_if_empty(&mut self) {
        if self.ages.is_empty() {
            (self.at, self.looked_at) = (None, None);
        }
    }

    /// The next one of a round, if there is one: what is to be said, if it is to be said now.
    fn next(&mut self) -> Option<Option<(SessionId, Record, Seq)>> {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = self.looked_at.map_or(Unbounded, Excluded);
        let (&age, (session, record)) = self.ages.range((from, Unbounded)).next()?;
        self.looked_at = Some(age);
        let void = self.all.get_mut(session)?.get_mut(record)?;
        void.rounds = void.rounds.saturating_add(1);
        let is_due = void.rounds.is_power_of_two() || void.rounds.is_multiple_of(ROUNDS);
        Some(is_due.then(|| (*session, record.clone(), void.seq)))
    }
}

impl LockTable {
    /// A node is told that its grant is void.
    pub(super) fn void(
        &mut self,
        to: SessionIx,
        record: Record,
        seq: Seq,
        out: &mut Vec<TableOutput>,
    ) {
        let Session { id, is_over, .. } = self.sessions[to.key()];
        if is_over {
            return;
        }
        self.voids.add(id, &record, seq);
        self.voids.at.get_or_insert(self.watch.now + self.limits.resend);
        self.send(to, ToNode::Lost { record, seq }, out);
    }

    /// The node knows that everything up to `seq` is over.
    #[inline]
    pub(super) fn void_is_known(&mut self, by: SessionIx, record: &Record, seq: Seq) {
        if self.voids.all.is_empty() {
            return;
        }
        let session = self.sessions[by.key()].id;
        let void = self.voids.all.get(&session).and_then(|records| records.get(record));
        if void.is_some_and(|void| void.seq <= seq) {
            self.voids.forget(session, record);
        }
    }

    /// Says it again, if it is time; a round may take several steps.
    pub(super) fn say_lost_again(&mut self, now: Tick, out: &mut Vec<TableOutput>) {
        if self.voids.at.is_none_or(|at| at > now) {
            return;
        }
        while self.may_do() {
            let Some(next) = self.voids.next() else {
                self.voids.at = Some(now + self.limits.resend);
                self.voids.looked_at = None;
                return;
            };
            self.visits.count();
            out.extend(next.map(|(session, record, seq)| {
                let message = ToNode::Lost { record, seq };
                TableOutput::Send { session, message }
            }));
        }
    }

    /// Of how many grants nobody has answered that they are void.
    #[cfg(test)]
    pub(in crate::server) fn voids(&self) -> usize {
        let by_session: usize = self.voids.all.values().map(BTreeMap::len).sum();
        assert_eq!(by_session, self.voids.ages.len());
        by_session
    }
}
