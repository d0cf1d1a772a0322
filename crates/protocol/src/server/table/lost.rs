//! Grants that are void although their session lives, until its node has heard so.
//!
//! [`ToNode::Lost`] may be lost like any message, and its node would hold on for as long as its
//! session lives. So it is said again, as a revoke is, until the node answers: by a release of that
//! seq, or by a later acquire of the record.

use super::*;

/// Of so many grants of a session it is said again: more take clocks beyond the margin, or a node
/// that keeps what it does not have.
const LOST_PER_SESSION: usize = 1_000;

/// Grants of which nobody has answered that they are void.
#[derive(Clone, Debug, Default)]
pub(super) struct Voids {
    /// None of the inner maps is empty.
    all: BTreeMap<SessionId, BTreeMap<Record, Seq>>,
    /// When they are said again.
    pub(super) at: Option<Tick>,
}

impl Voids {
    /// What is left is said again, if there is something.
    fn tidy(&mut self) {
        self.all.retain(|_, records| !records.is_empty());
        if self.all.is_empty() {
            self.at = None;
        }
    }

    /// The session is over.
    pub(super) fn forget_session(&mut self, ended: SessionId) {
        if self.all.remove(&ended).is_some() {
            self.tidy();
        }
    }

    /// These groups are left: their next owner decides what is void.
    pub(super) fn forget_groups(&mut self, groups: GroupSet) {
        for records in self.all.values_mut() {
            records.retain(|record, _| !groups.contains(record.group()));
        }
        self.tidy();
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
        let session = self.sessions[to.key()].id;
        let records = self.voids.all.entry(session).or_default();
        if records.len() < LOST_PER_SESSION || records.contains_key(&record) {
            let last = records.entry(record.clone()).or_insert(seq);
            *last = seq.max(*last);
        }
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
        let Some(records) = self.voids.all.get_mut(&session) else { return };
        if records.get(record).is_some_and(|&lost| lost <= seq) {
            records.remove(record);
            if records.is_empty() {
                self.voids.forget_session(session);
            }
        }
    }

    /// Says it again, if it is time.
    pub(super) fn say_lost_again(&mut self, now: Tick, out: &mut Vec<TableOutput>) {
        if self.voids.at.is_none_or(|at| at > now) {
            return;
        }
        self.voids.at = Some(now + self.limits.resend);
        for (&session, records) in &self.voids.all {
            out.extend(records.iter().map(|(record, &seq)| {
                let message = ToNode::Lost { record: record.clone(), seq };
                TableOutput::Send { session, message }
            }));
        }
    }
}
