//! Two sessions want to upgrade their reads of one record: a deadlock, unless the first of them has
//! just given up.
//!
//! The first may have dropped its upgrade, and its `Cancel` may still be on its way: the two speak
//! on different connections. So the second is not refused before the first was asked:
//!
//! 1. The second upgrader becomes the record's *challenger*. It is not answered yet, its number is
//!    not marked as seen, and it is in no line.
//! 2. The first is told `Retry`. A node that still wants to upgrade sends its acquire again; one
//!    that does not answers with a release, as to every message about a number that is over.
//! 3. If the acquire comes again, the challenger is refused. If the upgrade of the first ends, the
//!    challenger is told `Retry`, and acquires again as the only one. If neither happens within the
//!    time after which revokes are repeated, the challenger is refused.
//!
//! A challenge may be forgotten at any time: its node sends the acquire again when it is not
//! answered, and that begins a new one.
//!
//! **Invariant:** a record with a challenger has an upgrader, of another session.

use super::*;

/// Who waits to hear whether another session still wants to upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Challenger {
    session: SessionId,
    seq: Seq,
    since: Tick,
}

impl Challenger {
    /// Whose session.
    pub(super) fn session(&self) -> SessionId {
        self.session
    }
}

impl LockTable {
    /// The number under which this session waits to hear whether another one still upgrades the
    /// record.
    #[must_use]
    pub fn challenging(&self, session: SessionId, record: &Record) -> Option<Seq> {
        let challenger = self.challenges.get(&self.names.find(record)?)?;
        (challenger.session == session).then_some(challenger.seq)
    }

    /// Asks the upgrader of a record whether it still wants to, before another one is refused.
    /// False if that one is to be refused at once: somebody else asks already, or this is a
    /// recovery.
    pub(super) fn challenge(
        &mut self,
        now: Tick,
        by: SessionIx,
        ix: RecordIx,
        seq: Seq,
        out: &mut Vec<TableOutput>,
    ) -> bool {
        let session = self.sessions[by.key()].id;
        if let Some(other) = self.challenges.get(&ix) {
            return other.session == session && other.seq == seq;
        }
        let Some(upgrader) = self.names.get(ix).upgrader.some() else { return false };
        if self.recovers(ix) {
            return false;
        }
        self.challenges.insert(ix, Challenger { session, seq, since: now });
        self.set_alarm_soon(now, ix);
        let claim = self.claims.get(upgrader);
        let (to, seq, record) = (claim.session, claim.seq, self.names.get(ix).name.clone());
        self.send(to, ToNode::Retry { record, seq }, out);
        true
    }

    /// The upgrader still wants to, or does not say: the challenger is refused.
    pub(super) fn refuse_challenger(&mut self, ix: RecordIx, out: &mut Vec<TableOutput>) {
        let Some(Challenger { session, seq, .. }) = self.challenges.remove(&ix) else { return };
        let Some(&to) = self.by_id.get(&session) else { return };
        let record = self.names.get(ix).name.clone();
        let why = AcquireRefusal::UpgradeConflict;
        self.send(to, ToNode::Refused { record, seq, why }, out);
    }

    /// The upgrade ends: the challenger may try again.
    pub(super) fn free_challenger(&mut self, ix: RecordIx, out: &mut Vec<TableOutput>) {
        let Some(Challenger { session, seq, .. }) = self.challenges.remove(&ix) else { return };
        let Some(&to) = self.by_id.get(&session) else { return };
        let record = self.names.get(ix).name.clone();
        self.send(to, ToNode::Retry { record, seq }, out);
    }

    /// Revokes are sent again: a challenger that has waited for as long is refused.
    pub(super) fn refuse_late_challenger(
        &mut self,
        now: Tick,
        ix: RecordIx,
        out: &mut Vec<TableOutput>,
    ) {
        let challenger = self.challenges.get(&ix);
        if challenger.is_some_and(|challenger| challenger.since + self.limits.resend <= now) {
            self.refuse_challenger(ix, out);
        }
    }

    /// The challenger withdraws, or its session ends.
    pub(super) fn withdraw_challenger(&mut self, by: SessionIx, ix: RecordIx, seq: Seq) {
        let session = self.sessions[by.key()].id;
        if let Some(challenger) = self.challenges.get(&ix)
            && challenger.session == session
            && challenger.seq <= seq
        {
            self.challenges.remove(&ix);
        }
    }
}
