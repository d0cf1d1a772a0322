//! What happens when time passes: reservations end, and what was not answered is said again.
//!
//! A revoke that is not answered is sent again after [`Limits::resend`], then after twice that,
//! and so on, up to 32 times that: a message that was lost is soon made good, and holders that
//! never answer cost less and less. The same holds for records that somebody waits for: they are
//! looked at for the sake of upgraders and challengers, and shown to people in the order of these
//! alarms.

use std::time::Duration;

use super::*;
use crate::limits::LAPSES_MAX;

/// How often a delay doubles.
const DELAYS: usize = 6;

/// What is said again, in a queue for each delay: so the order of setting is the order of ringing.
/// What is not needed any more is passed over.
#[derive(Clone, Debug)]
pub(super) struct Resends<T> {
    queues: [VecDeque<(Tick, T)>; DELAYS],
}

impl<T> Default for Resends<T> {
    fn default() -> Self {
        Self { queues: Default::default() }
    }
}

impl<T: Copy> Resends<T> {
    /// Rings after the delay with this number; the last one stands for all further ones. When that
    /// is.
    fn push(&mut self, now: Tick, resend: Duration, delay: usize, what: T) -> Tick {
        let delay = delay.min(DELAYS - 1);
        let tick = now + resend * (1 << delay);
        self.queues[delay].push_back((tick, what));
        tick
    }

    /// One that is due: which delay it had, when it was to ring, and what.
    fn pop(&mut self, now: Tick) -> Option<(usize, Tick, T)> {
        let due = |at: &mut (Tick, T)| at.0 <= now;
        let mut queues = self.queues.iter_mut().enumerate();
        queues.find_map(|(delay, queue)| {
            queue.pop_front_if(due).map(|(tick, what)| (delay, tick, what))
        })
    }

    fn next_deadline(&self) -> Option<Tick> {
        self.queues.iter().filter_map(|queue| queue.front()).map(|&(tick, _)| tick).min()
    }

    /// All of them, those with the shortest delays first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &(Tick, T)> {
        self.queues.iter().flatten()
    }
}

impl LockTable {
    /// When to call again with [`TableInput::Tick`] at the latest. It is after the last step, so
    /// that each step brings something about.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Tick> {
        let at_once = (!self.rests.is_empty()).then_some(Tick::ZERO);
        let reserves = self.reserves.front().map(|&(tick, _)| tick);
        let queues = [self.alarms.next_deadline(), self.resends.next_deadline(), reserves];
        let next = queues.into_iter().chain([at_once, self.voids.at]).flatten().min()?;
        Some(next.max(Tick(self.watch.now.0.saturating_add(1))))
    }

    /// T6, and what earlier steps have left.
    pub(super) fn ring_alarms(&mut self, now: Tick, out: &mut Vec<TableOutput>) {
        self.end_reservations(now, out);
        while let Some((_, tick, ix)) = self.alarms.pop(now) {
            let entry = self.names.try_get_mut(ix).filter(|entry| entry.alarm == Some(tick));
            let Some(entry) = entry else { continue };
            entry.alarm = None;
            entry.repeats = entry.repeats.saturating_add(1);
            self.refuse_late_challenger(now, ix, out);
            self.schedule(now, ix, out);
            if !self.may_do() {
                break;
            }
        }
        while let Some((delay, _, at)) = self.resends.pop(now) {
            self.tell_again(now, delay, at, out);
            if !self.may_do() {
                break;
            }
        }
        self.say_lost_again(now, out);
        // What rests does not wait forever because alarms ring without end.
        self.begin_step();
        self.go_on(now, out);
    }

    /// A holder that was told what is wanted of it is told again, unless it has answered.
    fn tell_again(&mut self, now: Tick, delay: usize, at: ClaimIx, out: &mut Vec<TableOutput>) {
        let Some(claim) = self.claims.try_get_mut(at) else { return };
        // Another delay runs: this one was set before the holder was told anew.
        if usize::from(claim.resend) != delay + 1 {
            return;
        }
        claim.resend = 0;
        let Some(wanted) = claim.revoked.filter(|_| claim.token().is_some()) else { return };
        self.visits.count();
        if !self.is_of_upgrader(at) {
            self.tell(at, Some(wanted), out);
        }
        self.resend_after(now, delay + 1, at);
    }

    /// A holder has been told what is wanted of it: it is told again after a while.
    pub(super) fn resend_after(&mut self, now: Tick, delay: usize, at: ClaimIx) {
        let delay = delay.min(DELAYS - 1);
        let claim = self.claims.get_mut(at);
        if usize::from(claim.resend) != delay + 1 && !self.limits.bugs.has(Bug::RevokeOnce) {
            claim.resend = delay as u8 + 1;
            self.resends.push(now, self.limits.resend, delay, at);
        }
    }

    /// While somebody waits for a holder, the record is looked at now and then. An alarm that is
    /// set already rings for this wait too, unless something has happened since and it is far away.
    pub(super) fn set_alarm(&mut self, now: Tick, ix: RecordIx) {
        let entry = self.names.get_mut(ix);
        if entry.waiters() == 0 || entry.holders.is_empty() {
            return;
        }
        let (resend, delay) = (self.limits.resend, usize::from(entry.repeats));
        if entry.alarm.is_none_or(|at| delay == 0 && at > now + resend) {
            entry.alarm = Some(self.alarms.push(now, resend, delay, ix));
        }
    }

    /// The record is looked at after the shortest delay, whatever was set before.
    pub(super) fn set_alarm_soon(&mut self, now: Tick, ix: RecordIx) {
        let entry = self.names.get_mut(ix);
        entry.repeats = 0;
        entry.alarm = Some(self.alarms.push(now, self.limits.resend, 0, ix));
    }

    /// The claim's record is reserved for it until then.
    pub(super) fn end_reservation_at(&mut self, until: Tick, at: ClaimIx) {
        if !self.limits.bugs.has(Bug::ReserveForEver) {
            self.reserves.push_back((until, at));
        }
    }

    /// Reservations that were not taken up in time. Each is looked at once, and the records that
    /// they were for are scheduled when all are over.
    fn end_reservations(&mut self, now: Tick, out: &mut Vec<TableOutput>) {
        let mut records = BTreeSet::new();
        while let Some((tick, at)) = self.reserves.pop_front_if(|(tick, _)| *tick <= now) {
            self.visits.count();
            let claim = self.claims.try_get_mut(at);
            let is_late = claim.is_some_and(|claim| claim.place == Place::Reserved(tick));
            if is_late {
                records.insert(self.lapse(at, out));
            }
            if !self.may_do() {
                break;
            }
        }
        for ix in records {
            self.schedule(now, ix, out);
        }
    }

    /// A reservation was not taken up: its claim goes to the end of the line. If that happens again
    /// and again, it leaves the line. Of which record.
    fn lapse(&mut self, reserved: ClaimIx, out: &mut Vec<TableOutput>) -> RecordIx {
        let claim = self.claims.get_mut(reserved);
        claim.lapses += 1;
        let (ix, by, seq, lapses) = (claim.record, claim.session, claim.seq, claim.lapses);
        if lapses >= LAPSES_MAX {
            self.end(reserved, out);
            let record = self.names.get(ix).name.clone();
            let why = AcquireRefusal::StaleSeq;
            self.send(by, ToNode::Refused { record, seq, why }, out);
            return ix;
        }
        let key = self.served(self.names.get(ix).group).expect("a record's group is served");
        let ticket = self.next_ticket(key);
        self.unlink(reserved);
        self.claims.get_mut(reserved).place = Place::Waiting(ticket);
        self.link(ix, reserved);
        ix
    }
}
