//! A new term: the node tells the new owner what it holds and where it stands in line.
//!
//! What rests on an earlier term of its group is re-asserted, all of it again and again until the
//! owner has it. Until then it lives on the lease that it rested on before, as that stood when the
//! recovery began. An acquire that had no place in line yet is just sent again.
//!
//! `Recovered` does not say for which former session, so the node speaks for one only: what rests
//! on another lives out its lease. (It takes one term with groups of two owners to get there.) But
//! not if it was told to an earlier owner: that one may have heard all of it, and then nobody waits
//! for the other session any more. Then it is lost.

use std::collections::BTreeMap;

use super::ask::Over;
use super::entry::{Ask, Place, Rest};
use super::{LockCache, Output};
use crate::bugs::Bug;
use crate::ids::{Seq, ServerId, SessionId};
use crate::messages::{Claim, Term, ToServer};
use crate::mode::Mode;
use crate::record::Record;
use crate::time::Tick;

/// Re-assertions of one former session to the owner of a new term.
#[derive(Clone, Debug)]
pub(super) struct Recovery {
    /// The new owner.
    pub(super) server: ServerId,
    term: Term,
    /// The server whose lease all this rests on; after a restart, the same.
    from: ServerId,
    /// The session with it.
    pub(super) former: SessionId,
    claims: BTreeMap<(Record, Seq), Reassertion>,
    /// With another server than the owner: the end of that lease. After this, all of it is void.
    until: Tick,
    pub(super) resend_at: Tick,
}

/// What [`ToServer::Reassert`] says of one number.
#[derive(Clone, Debug)]
struct Reassertion {
    mode: Mode,
    claim: Claim,
}

impl Recovery {
    /// When something is to be done about it.
    pub(super) fn next_deadline(&self) -> Tick {
        self.resend_at.min(self.until)
    }

    /// Whether `server` speaks of this one. It may have left some of the groups since.
    fn is_of(&self, server: ServerId, term: Term) -> bool {
        self.server == server
            && self.term.epoch == term.epoch
            && term.groups.without(self.term.groups).is_empty()
    }

    /// The server has left the other groups.
    fn shrink(&mut self, term: Term) {
        self.term = term;
        self.claims.retain(|(record, _), _| term.groups.contains(record.group()));
    }

    /// Whether this is where what is re-asserted has rested.
    fn is_about(&self, rest: Rest) -> bool {
        rest.server == self.from && rest.epoch < self.term.epoch
    }

    fn has(&self, record: &Record) -> bool {
        let numbers = (record.clone(), Seq::NONE)..=(record.clone(), Seq(u64::MAX));
        self.claims.range(numbers).next().is_some()
    }
}

impl LockCache {
    /// Whether the record is being re-asserted.
    pub(super) fn is_recovering(&self, record: &Record) -> bool {
        self.recoveries.iter().any(|recovery| recovery.has(record))
    }

    /// Whether `server` may say that what is held is void: it rests there, or is re-asserted there.
    pub(super) fn may_void(&self, server: ServerId, record: &Record, rest: Rest) -> bool {
        let mut recoveries = self.recoveries.iter();
        rest.server == server
            || recoveries.any(|recovery| recovery.server == server && recovery.has(record))
    }

    /// A server that has a session now, perhaps for the first time, serves this term.
    pub(super) fn opened_term(
        &mut self,
        now: Tick,
        server: ServerId,
        term: Term,
        is_first: bool,
        out: &mut Vec<Output>,
    ) {
        let heard = self.routes.hear(server, term);
        if (heard.is_new || is_first)
            && let Some(from) = self.former(server, term, heard.before)
        {
            self.recover(now, server, term, from, out);
        }
    }

    /// A term has begun, or the server still waits for this session's re-assertions.
    pub(super) fn serving(
        &mut self,
        now: Tick,
        server: ServerId,
        term: Term,
        out: &mut Vec<Output>,
    ) {
        let heard = self.routes.hear(server, term);
        if heard.is_late {
            return;
        }
        if let Some(at) = self.recovery(server, term) {
            self.recoveries[at].shrink(term);
            self.reassert(now, at, out);
            return self.advance_all(now, out);
        }
        // Only at the first time can anything rest on another's lease; see above.
        let former = self.former(server, term, heard.before).filter(|_| heard.is_new);
        self.recover(now, server, term, former.unwrap_or(server), out);
        for record in self.records.which(|record, entry| {
            let is_unplaced = entry.asked.is_some_and(|ask| ask.place.is_none());
            is_unplaced && term.groups.contains(record.group())
        }) {
            self.acquire(now, &record, out);
        }
        self.advance_all(now, out);
    }

    /// The server has all re-assertions: they rest on the lease with it now.
    pub(super) fn recovered(
        &mut self,
        now: Tick,
        server: ServerId,
        term: Term,
        out: &mut Vec<Output>,
    ) {
        let Some(at) = self.recovery(server, term) else { return };
        let recovery = self.recoveries.remove(at);
        for (record, _) in recovery.claims.keys() {
            if self.is_current(record, server, term) {
                self.move_claim(now, record, &recovery, out);
                // An upgrade that has no place in line yet could not be sent before.
                let entry = self.records.get(record).filter(|entry| entry.held.is_some());
                if entry.and_then(|it| it.asked).is_some_and(|ask| ask.place.is_none()) {
                    self.acquire(now, record, out);
                }
            }
        }
        self.flush(out);
        self.advance_all(now, out);
    }

    /// The server does not believe the former session: what rested on it is lost.
    pub(super) fn unlisted(
        &mut self,
        now: Tick,
        (server, former): (ServerId, SessionId),
        term: Term,
        out: &mut Vec<Output>,
    ) {
        let at = self.recovery(server, term);
        if let Some(at) = at.filter(|&at| self.recoveries[at].former == former) {
            self.give_up(now, at, out);
            self.flush(out);
            self.advance_all(now, out);
        }
    }

    /// Says again what this is true for.
    pub(super) fn reassert_if(
        &mut self,
        now: Tick,
        is_so: impl Fn(&Recovery) -> bool,
        out: &mut Vec<Output>,
    ) {
        for at in 0..self.recoveries.len() {
            if is_so(&self.recoveries[at]) {
                self.reassert(now, at, out);
            }
        }
    }

    /// Gives up what has taken longer than the lease that it rests on.
    pub(super) fn end_recoveries(&mut self, now: Tick, out: &mut Vec<Output>) {
        while let Some(at) = self.recoveries.iter().position(|recovery| recovery.until <= now) {
            self.give_up(now, at, out);
            self.flush(out);
            self.advance_all(now, out);
        }
    }

    /// Gives up what rests on a session with `server`, or is told to it: that session is no more.
    pub(super) fn give_up_session(
        &mut self,
        now: Tick,
        (server, session): (ServerId, SessionId),
        out: &mut Vec<Output>,
    ) {
        self.recoveries.retain(|recovery| recovery.server != server);
        while let Some(at) = self.recoveries.iter().position(|one| one.former == session) {
            self.give_up(now, at, out);
        }
    }

    /// What was to be re-asserted is void, and the new owner is told so: it may have heard of it.
    fn give_up(&mut self, now: Tick, at: usize, out: &mut Vec<Output>) {
        let recovery = self.recoveries.remove(at);
        for (record, _) in recovery.claims.keys() {
            if let Some(held) = self.held(record).filter(|held| recovery.is_about(held.rest)) {
                self.lose(record, out);
                self.end(recovery.server, record, Over::release(held.seq, None), out);
            }
            let ask = self.records.get(record).and_then(|entry| entry.asked);
            if let Some(ask) = ask.filter(|ask| ask.rest().is_some_and(|at| recovery.is_about(at)))
            {
                self.records.put_ask(record, Ask { place: None, ..ask });
                self.acquire(now, record, out);
            }
        }
    }

    fn recovery(&self, server: ServerId, term: Term) -> Option<usize> {
        self.recoveries.iter().position(|recovery| recovery.is_of(server, term))
    }

    /// Whether this term of `server` is the last known of the record's group.
    fn is_current(&self, record: &Record, server: ServerId, term: Term) -> bool {
        let group = record.group();
        term.groups.contains(group) && self.routes.is_owner(server, group, term.epoch)
    }

    /// On whose lease the records of the term rest: on that with the server itself, after a
    /// restart; else on that which most of them do; if there are none, on that with the owner
    /// `before`.
    fn former(&self, server: ServerId, term: Term, before: Option<ServerId>) -> Option<ServerId> {
        let mut counts = BTreeMap::new();
        for (record, entry) in self.records.iter() {
            for rest in entry.rests().filter(|rest| rest.epoch < term.epoch) {
                if self.is_current(record, server, term) {
                    *counts.entry(rest.server).or_insert(0_usize) += 1;
                }
            }
        }
        if counts.contains_key(&server) {
            return Some(server);
        }
        let most = counts.into_iter().max_by_key(|&(_, count)| count);
        most.map(|(from, _)| from)
            .or_else(|| before.filter(|&from| self.links.open(from).is_some()))
    }

    /// Begins to re-assert what rests on the lease with `from`, be it nothing: then the owner need
    /// not wait for it.
    fn recover(
        &mut self,
        now: Tick,
        server: ServerId,
        term: Term,
        from: ServerId,
        out: &mut Vec<Output>,
    ) {
        let Some(link) = self.links.open(from) else { return };
        let former = link.session;
        let until = if from == server { Tick(u64::MAX) } else { link.until };
        self.give_up_earlier(now, term, from, out);
        self.recoveries.retain(|old| {
            old.term.epoch > term.epoch || !old.term.groups.without(term.groups).is_empty()
        });
        let (claims, resend_at) = (BTreeMap::new(), now);
        let mut recovery = Recovery { server, term, from, former, claims, until, resend_at };
        self.collect(&mut recovery);
        self.recoveries.push(recovery);
        self.reassert(now, self.recoveries.len() - 1, out);
    }

    /// What an owner before this term was told, and this one will not be, is void.
    fn give_up_earlier(&mut self, now: Tick, term: Term, from: ServerId, out: &mut Vec<Output>) {
        for at in 0..self.recoveries.len() {
            let old = &mut self.recoveries[at];
            if old.from == from || old.term.epoch >= term.epoch {
                continue;
            }
            let claims = std::mem::take(&mut old.claims);
            let mut void = old.clone();
            (void.claims, old.claims) = claims
                .into_iter()
                .partition(|((record, _), _)| term.groups.contains(record.group()));
            self.recoveries.push(void);
            self.give_up(now, self.recoveries.len() - 1, out);
        }
    }

    fn collect(&self, recovery: &mut Recovery) {
        for (record, entry) in self.records.iter() {
            if !self.is_current(record, recovery.server, recovery.term) {
                continue;
            }
            if let Some(held) = entry.held.filter(|held| recovery.is_about(held.rest)) {
                let (mode, claim) = (held.mode, Claim::Held { token: held.token });
                recovery.claims.insert((record.clone(), held.seq), Reassertion { mode, claim });
            }
            let (Some(ask), Some(want)) = (entry.asked, &entry.want) else { continue };
            let place = ask.place.filter(|place| recovery.is_about(place.rest));
            if let Some(Place { ticket, .. }) = place
                && !self.config.bugs.has(Bug::WaitsNotReasserted)
            {
                let (ticket, upgrade, owners) = (Some(ticket), want.upgrade, want.owners.clone());
                let (mode, claim) = (want.mode, Claim::Waiting { ticket, upgrade, owners });
                recovery.claims.insert((record.clone(), ask.seq), Reassertion { mode, claim });
            }
        }
    }

    /// Says all of it, perhaps again.
    fn reassert(&mut self, now: Tick, at: usize, out: &mut Vec<Output>) {
        let recovery = &mut self.recoveries[at];
        recovery.resend_at = now + self.config.resend;
        let &mut Recovery { server, term: Term { groups, epoch }, former, .. } = recovery;
        for ((record, seq), Reassertion { mode, claim }) in recovery.claims.clone() {
            let message = ToServer::Reassert { record, epoch, former, seq, mode, claim };
            self.links.send(server, message, out);
        }
        let count = u32::try_from(recovery.claims.len()).unwrap_or(u32::MAX);
        let seqs = recovery.claims.keys().map(|(_, seq)| seq.0);
        let sum = seqs.fold(0, u64::wrapping_add);
        self.links.send(server, ToServer::Reasserted { groups, epoch, former, count, sum }, out);
    }

    /// What was re-asserted rests on the lease with the new owner.
    fn move_claim(
        &mut self,
        now: Tick,
        record: &Record,
        recovery: &Recovery,
        out: &mut Vec<Output>,
    ) {
        let rest = Rest { server: recovery.server, epoch: recovery.term.epoch };
        let Some(entry) = self.records.get_mut(record) else { return };
        if let Some(held) = entry.held.as_mut().filter(|held| recovery.is_about(held.rest)) {
            held.rest = rest;
            // The new owner will say whether somebody wants it.
            let is_old = held.wished_at.is_none_or(|at| at.epoch() < rest.epoch);
            let drained = is_old && entry.drain.take().is_some();
            if recovery.from != recovery.server {
                out.push(Output::Rests { record: record.clone(), server: recovery.server });
            }
            if drained {
                self.reopen(now, record, out);
            }
        }
        let Some(ask) = self.records.get(record).and_then(|entry| entry.asked) else { return };
        if let Some(place) = ask.place.filter(|place| recovery.is_about(place.rest)) {
            let (place, server) = (Some(Place { rest, ..place }), rest.server);
            self.records.put_ask(record, Ask { place, server, ..ask });
        }
    }
}
