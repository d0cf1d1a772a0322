//! Grants that are void although their session lives, until its node has heard so.
//!
//! [`ToNode::Lost`] may be lost like any message, and its node would hold on for as long as its
//! session lives. So it is said again, as a revoke is, until the node answers: by a release of that
//! seq, or by a later acquire of the record.

use super::*;

/// Of so many grants of a table it is said again. They take clocks beyond the margin, or a node
/// that keeps what it does not have.
const LOST_MAX: usize = 10_000;

/// Grants of which nobody has answered that they are void.
#[derive(Clone, Debug, Default)]
pub(super) struct Voids {
    all: BTreeMap<(SessionId, Record), Seq>,
    /// When they are said again.
    pub(super) at: Option<Tick>,
}

impl Voids {
    /// What this is true for is said no more.
    fn forget(&mut self, is_so: impl Fn(SessionId, &Record) -> bool) {
        self.all.retain(|(session, record), _| !is_so(*session, record));
        if self.all.is_empty() {
            self.at = None;
        }
    }

    /// The session is over.
    pub(super) fn forget_session(&mut self, ended: SessionId) {
        if !self.all.is_empty() {
            self.forget(|session, _| session == ended);
        }
    }

    /// These groups are left: their next owner decides what is void.
    pub(super) fn forget_groups(&mut self, groups: GroupSet) {
        if !self.all.is_empty() {
            self.forget(|_, record| groups.contains(record.group()));
        }
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
        if self.voids.all.len() < LOST_MAX {
            let last = self.voids.all.entry((session, record.clone())).or_insert(seq);
            *last = seq.max(*last);
            self.voids.at.get_or_insert(self.watch.now + self.limits.resend);
        }
        self.send(to, ToNode::Lost { record, seq }, out);
    }

    /// The node knows that everything up to `seq` is over.
    #[inline]
    pub(super) fn void_is_known(&mut self, by: SessionIx, record: &Record, seq: Seq) {
        if self.voids.all.is_empty() {
            return;
        }
        let at = (self.sessions[by.key()].id, record.clone());
        if self.voids.all.get(&at).is_some_and(|&lost| lost <= seq) {
            self.voids.all.remove(&at);
        }
        if self.voids.all.is_empty() {
            self.voids.at = None;
        }
    }

    /// Says it again, if it is time.
    pub(super) fn say_lost_again(&mut self, now: Tick, out: &mut Vec<TableOutput>) {
        if self.voids.at.is_none_or(|at| at > now) {
            return;
        }
        self.voids.at = Some(now + self.limits.resend);
        for ((session, record), &seq) in &self.voids.all {
            let message = ToNode::Lost { record: record.clone(), seq };
            out.push(TableOutput::Send { session: *session, message });
        }
    }
}
