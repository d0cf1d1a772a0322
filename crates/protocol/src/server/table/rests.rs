//! What one step leaves for the next.
//!
//! A step does a bounded number of things, [`Limits::portion`]: it grants to so many readers, ends
//! so many claims, or tells so many holders something. Then the table's lock can go to others. What
//! is left is remembered here, and done by the next steps: a [`TableInput::Tick`] at
//! [`LockTable::next_deadline`], which comes at once.
//!
//! # Invariants
//!
//! - **B1** Whatever rests, rests in a state that the protocol allows. Readers of a phase wait
//!   while others of it read already, and go before everybody who came after it began. A session
//!   that is over says nothing more and is granted nothing, and what it has left is still held.
//! - **B2** A walk over the holders of a record reaches its end, whatever happens meanwhile: who
//!   wants it to begin anew waits for that.

use super::*;

/// How much the present step may still do. It decides nothing but what rests, so it is not shown:
/// tables that differ in it alone are the same.
#[derive(Clone, Copy, Default)]
pub(super) struct Portion(usize);

impl fmt::Debug for Portion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Portion")
    }
}

/// What is left to do.
#[derive(Clone, Debug, Default)]
pub(super) struct Rests {
    /// Sessions that are over and still have claims.
    pub(super) ending: VecDeque<SessionIx>,
    /// Records at which something is left to do.
    records: BTreeMap<RecordIx, Rest>,
    /// The last of them that had its turn.
    last: Option<RecordIx>,
    /// Records with a line, of graces that are over: they have yet to be scheduled.
    lines: VecDeque<BTreeSet<RecordIx>>,
}

/// What is left to do at one record.
#[derive(Clone, Copy, Debug, Default)]
struct Rest {
    /// Readers up to this ticket are granted the record before the next writer.
    phase: Option<Ticket>,
    walk: Option<Walk>,
    /// It is to be scheduled.
    is_due: bool,
}

/// Holders are told what is wanted of them.
#[derive(Clone, Copy, Debug)]
struct Walk {
    next: ClaimIx,
    /// When it is done, it begins anew.
    anew: bool,
}

impl Rests {
    pub(super) fn is_empty(&self) -> bool {
        self.ending.is_empty() && self.records.is_empty() && self.lines.is_empty()
    }

    /// Whether something is left to do at the record.
    pub(super) fn has(&self, ix: RecordIx) -> bool {
        self.records.contains_key(&ix) || self.lines.iter().any(|lines| lines.contains(&ix))
    }

    /// These records are scheduled soon.
    pub(super) fn add_lines(&mut self, lines: BTreeSet<RecordIx>) {
        if !lines.is_empty() {
            self.lines.push_back(lines);
        }
    }

    /// A claim leaves its list, in which `next` follows: a walk goes on there.
    #[inline]
    pub(super) fn passes(&mut self, record: RecordIx, claim: ClaimIx, next: ClaimIx) {
        if !self.records.is_empty()
            && let Some(rest) = self.records.get_mut(&record)
            && let Some(walk) = rest.walk.as_mut().filter(|walk| walk.next == claim)
        {
            walk.next = next;
        }
    }

    /// Up to which reader a phase goes that has begun.
    pub(super) fn phase(&self, ix: RecordIx) -> Option<Ticket> {
        if self.records.is_empty() {
            return None;
        }
        self.records.get(&ix)?.phase
    }

    pub(super) fn set_phase(&mut self, ix: RecordIx, phase: Option<Ticket>) {
        if phase.is_some() || !self.records.is_empty() {
            self.change(ix, |rest| rest.phase = phase);
        }
    }

    fn change(&mut self, ix: RecordIx, change: impl FnOnce(&mut Rest)) {
        let rest = self.records.entry(ix).or_default();
        change(rest);
        if rest.phase.is_none() && rest.walk.is_none() && !rest.is_due {
            self.records.remove(&ix);
        }
    }

    /// The record is scheduled by one of the next steps.
    pub(super) fn schedule_later(&mut self, ix: RecordIx) {
        self.change(ix, |rest| rest.is_due = true);
    }

    /// The record is gone.
    pub(super) fn forget(&mut self, ix: RecordIx) {
        if !self.records.is_empty() {
            self.records.remove(&ix);
        }
    }

    /// The record whose turn it is, in a round.
    fn next_record(&mut self) -> Option<RecordIx> {
        use std::ops::Bound::{Excluded, Unbounded};
        let after = self.last.map_or(Unbounded, Excluded);
        let next = self.records.range((after, Unbounded)).next();
        let next = next.or_else(|| self.records.first_key_value());
        self.last = next.map(|(&ix, _)| ix);
        self.last
    }

    fn next_line(&mut self) -> Option<RecordIx> {
        let lines = self.lines.front_mut()?;
        let ix = lines.pop_first();
        if lines.is_empty() {
            self.lines.pop_front();
        }
        ix
    }
}

impl LockTable {
    /// A step begins.
    pub(super) fn begin_step(&mut self) {
        self.portion = Portion(self.limits.portion.max(1));
    }

    /// One more thing is done. No, if that has to wait for the next step.
    pub(super) fn may_do(&mut self) -> bool {
        let may = self.portion.0 > 0;
        self.portion.0 = self.portion.0.saturating_sub(1);
        may
    }

    fn is_done(&self) -> bool {
        self.portion.0 == 0
    }

    /// Tells all holders of a record what is wanted of them, now or bit by bit.
    pub(super) fn walk_holders(&mut self, ix: RecordIx, out: &mut Vec<TableOutput>) {
        let under_way = match self.rests.records.get_mut(&ix) {
            Some(rest) => rest.walk.as_mut(),
            None => None,
        };
        match under_way {
            // B2.
            Some(walk) => walk.anew = true,
            None => {
                let next = self.names.get(ix).holders.head;
                self.go_on_walking(ix, Walk { next, anew: false }, out);
            }
        }
    }

    fn go_on_walking(&mut self, ix: RecordIx, mut walk: Walk, out: &mut Vec<TableOutput>) {
        loop {
            while let Some(at) = walk.next.some() {
                if !self.may_do() {
                    self.rests.change(ix, |rest| rest.walk = Some(walk));
                    return;
                }
                self.visits.count();
                walk.next = self.claims.next(at);
                self.tell_what_is_wanted(at, out);
            }
            if !std::mem::take(&mut walk.anew) {
                break;
            }
            walk.next = self.names.get(ix).holders.head;
        }
        if !self.rests.records.is_empty() {
            self.rests.change(ix, |rest| rest.walk = None);
        }
    }

    /// Does what earlier steps have left, as far as this one may.
    pub(super) fn go_on(&mut self, now: Tick, out: &mut Vec<TableOutput>) {
        self.go_on_ending(now, out);
        while !self.is_done()
            && let Some(ix) = self.rests.next_line()
        {
            let before = self.portion.0;
            // It may be gone, and another record be in its place: that is scheduled in vain.
            if self.names.try_get_mut(ix).is_some() && !self.recovers(ix) {
                self.check_upgrader(ix, out);
                self.schedule(now, ix, out);
            }
            self.count_if_unchanged(before);
        }
        while !self.is_done()
            && let Some(ix) = self.rests.next_record()
        {
            let before = self.portion.0;
            let Some(&Rest { walk, phase, is_due }) = self.rests.records.get(&ix) else { continue };
            if let Some(walk) = walk {
                self.go_on_walking(ix, walk, out);
            }
            if phase.is_some() || is_due {
                self.rests.change(ix, |rest| rest.is_due = false);
                self.schedule(now, ix, out);
            }
            self.count_if_unchanged(before);
        }
    }

    /// What had nothing to do counts as one thing, so that a step comes to its end.
    fn count_if_unchanged(&mut self, before: usize) {
        if self.portion.0 == before {
            self.may_do();
        }
    }

    /// Ends the claims of sessions that are over.
    pub(super) fn go_on_ending(&mut self, now: Tick, out: &mut Vec<TableOutput>) {
        while let Some(&by) = self.rests.ending.front() {
            while let Some(at) = self.sessions[by.key()].claims.head.some() {
                if !self.may_do() {
                    return;
                }
                self.visits.count();
                let ix = self.claims.get(at).record;
                self.watch.session_ends = true;
                self.end(at, out);
                self.watch.session_ends = false;
                self.schedule(now, ix, out);
            }
            self.rests.ending.pop_front();
            if let Some(user) = self.sessions.remove(by.key()).user {
                self.users.session_ended(user);
            }
        }
    }
}
