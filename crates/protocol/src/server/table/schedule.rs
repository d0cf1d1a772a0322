//! Who is next, and who has to make room: the phase-fair order, in one place.

use super::*;

impl LockTable {
    /// Grants what can be granted, revokes what is in the way of those who still wait, and forgets
    /// the record if nobody is left.
    pub(super) fn schedule(&mut self, now: Tick, ix: RecordIx, out: &mut Vec<TableOutput>) {
        if self.names.get(ix).is_unused() {
            self.forget(ix);
            return;
        }
        if self.names.get(ix).waiters() == 0 {
            self.names.get_mut(ix).readers_due = false;
            self.rests.set_phase(ix, None);
            self.tell_holders(ix, out);
            return;
        }
        let key = self.served(self.names.get(ix).group).expect("a record's group is served");
        if let Some(grace) = &mut self.terms[key].grace
            && !self.limits.bugs.has(Bug::GrantInGrace)
        {
            grace.lines.insert(ix);
            return;
        }
        if let Some(upgrader) = self.names.get(ix).upgrader.some()
            && self.has_ended(upgrader)
        {
            self.end(upgrader, out);
            self.names.get_mut(ix).told = None;
        }
        // A phase that has begun goes before whoever came since.
        if self.go_on_with_phase(now, ix, out) {
            if self.names.get(ix).upgrader.some().is_some() {
                self.grant_upgrade(now, ix, out);
            } else {
                self.grant_phase(now, ix, out);
            }
        }
        if self.names.get(ix).is_unused() {
            self.forget(ix);
            return;
        }
        self.tell_holders(ix, out);
        self.set_alarm(now, ix);
    }

    /// The upgrader becomes the writer when its session is the only holder. A session that takes
    /// retries gets one; its read keeps the record for it, so there is nothing to reserve.
    fn grant_upgrade(&mut self, now: Tick, ix: RecordIx, out: &mut Vec<TableOutput>) {
        let entry = self.names.get(ix);
        if entry.holders.len == 1 {
            let (base, upgrader) = (entry.holders.head, entry.upgrader);
            let (by, seq) = (self.claims.get(upgrader).session, self.claims.get(upgrader).seq);
            if self.claims.get(base).session != by {
                return;
            }
            if !self.may_push(upgrader) {
                let record = self.names.get(ix).name.clone();
                self.send(by, ToNode::Retry { record, seq }, out);
                return;
            }
            let was_told = self.claims.get(base).revoked.is_some();
            self.end(base, out);
            // Readers that wait were not there when the read phase began: the writer goes first.
            self.names.get_mut(ix).readers_due = false;
            self.grant(now, upgrader, out);
            // A node that takes its upgrade back meanwhile goes on with the read, and with what was
            // said about that.
            let claim = self.claims.get(upgrader);
            if was_told && claim.token().is_some() && claim.revoked.is_none() {
                self.tell(upgrader, None, out);
            }
        }
    }

    /// Rules 2, 3 and 4 of the order.
    fn grant_phase(&mut self, now: Tick, ix: RecordIx, out: &mut Vec<TableOutput>) {
        let entry = self.names.get_mut(ix);
        if entry.holders.len == 1 && self.claims.get(entry.holders.head).mode == Mode::Write {
            return;
        }
        // Writers whose sessions are over go first: they would hide that it is the readers' turn.
        while let Some(writer) = self.names.get(ix).next_writer().filter(|&at| self.has_ended(at)) {
            if !self.may_do() {
                self.rests.schedule_later(ix);
                return;
            }
            self.end(writer, out);
        }
        let entry = self.names.get_mut(ix);
        let due = std::mem::take(&mut entry.readers_due);
        let begins = due || entry.writers.is_empty();
        let begins = begins || self.limits.bugs.has(Bug::ReadersPassWriters);
        // All that wait now: a waiter that comes while they are served is not among them.
        let last = entry.readers.tail.some().filter(|_| begins);
        if let Some(last) = last {
            let last = self.claims.get(last).ticket();
            if !self.serve_readers(now, ix, last, out) {
                return;
            }
        }
        while let Some(writer) = self.names.get(ix).next_writer() {
            if !self.has_ended(writer) {
                self.grant(now, writer, out);
                break;
            }
            if !self.may_do() {
                self.rests.schedule_later(ix);
                return;
            }
            self.end(writer, out);
        }
    }

    /// Whether no phase is left to be gone on with.
    fn go_on_with_phase(&mut self, now: Tick, ix: RecordIx, out: &mut Vec<TableOutput>) -> bool {
        let last = self.rests.phase(ix);
        last.is_none() || self.serve_readers(now, ix, last, out)
    }

    /// Grants the record to all readers up to this ticket; false if some are left for later steps.
    fn serve_readers(
        &mut self,
        now: Tick,
        ix: RecordIx,
        last: Option<Ticket>,
        out: &mut Vec<TableOutput>,
    ) -> bool {
        while let Some(reader) = self.names.get(ix).readers.head.some()
            && self.claims.get(reader).ticket() <= last
        {
            if !self.may_do() {
                self.rests.set_phase(ix, last);
                return false;
            }
            self.grant(now, reader, out);
        }
        self.rests.set_phase(ix, None);
        true
    }

    /// Whether the claim's session has ended.
    pub(super) fn has_ended(&self, at: ClaimIx) -> bool {
        self.sessions[self.claims.get(at).session.key()].is_over
    }

    /// The record goes to this waiter: by a grant, or by a retry and a reservation.
    fn grant(&mut self, now: Tick, waiter: ClaimIx, out: &mut Vec<TableOutput>) {
        if self.has_ended(waiter) {
            self.end(waiter, out);
            return;
        }
        let claim = self.claims.get(waiter);
        let (ix, by, seq) = (claim.record, claim.session, claim.seq);
        if matches!(claim.place, Place::Upgrading(_)) {
            // It has released its read, and hears so when it acquires again.
            self.free_challenger(ix, out);
        }
        self.unlink(waiter);
        self.forget_in_graph(waiter, out);
        if self.may_push(waiter) {
            self.take_up_unlinked(waiter, out);
        } else if self.limits.bugs.has(Bug::ForgetReservation) {
            self.forget_reservation(now, waiter, out);
        } else {
            let until = now + self.limits.reserve;
            self.claims.get_mut(waiter).place = Place::Reserved(until);
            self.link(ix, waiter);
            let record = self.names.get(ix).name.clone();
            let counted = self.names.get(ix).counted;
            self.watch.tally(counted).retries += 1;
            self.watch.happened(&record, self.sessions[by.key()].id, What::Retry);
            self.send(by, ToNode::Retry { record, seq }, out);
            self.end_reservation_at(until, waiter);
        }
    }

    /// Whether a grant may go out: to answer an acquire, or to a session that takes pushed grants.
    fn may_push(&self, waiter: ClaimIx) -> bool {
        let by = self.claims.get(waiter).session;
        self.answering == waiter || self.sessions[by.key()].handoff == Handoff::Direct
    }

    /// What was reserved is granted.
    pub(super) fn take_up(&mut self, now: Tick, reserved: ClaimIx, out: &mut Vec<TableOutput>) {
        let ix = self.claims.get(reserved).record;
        self.unlink(reserved);
        self.take_up_unlinked(reserved, out);
        self.schedule(now, ix, out);
    }

    /// Grants to a claim that is in no list of its record.
    fn take_up_unlinked(&mut self, waiter: ClaimIx, out: &mut Vec<TableOutput>) {
        let claim = self.claims.get(waiter);
        let (ix, by, seq, mode) = (claim.record, claim.session, claim.seq, claim.mode);
        let entry = self.names.get(ix);
        let group = entry.group;
        let give_back = entry.wanted().filter(|&wanted| mode.conflicts(wanted));
        let record = entry.name.clone();
        let Some(token) = self.token_for(group, mode) else {
            // The tokens of this epoch are used up. Nothing is granted until there is another one.
            let key = self.served(group).expect("a record's group is served");
            let Term { groups, epoch } = self.terms[key].term;
            out.push(TableOutput::Behind { groups, above: epoch, by: None });
            self.link(ix, waiter);
            return;
        };
        let now = self.watch.now;
        let at_once = self.answering == waiter;
        let claim = self.claims.get_mut(waiter);
        let waited = (!at_once).then(|| now.since(claim.since.0));
        claim.place = Place::Granted(token);
        claim.revoked = give_back;
        claim.lapses = 0;
        claim.since.0 = now;
        let (counted, session) = (self.names.get(ix).counted, self.sessions[by.key()].id);
        self.watch.granted((counted, &record), session, (mode, token), waited);
        self.link(ix, waiter);
        self.send(by, ToNode::Granted { record, seq, mode, token, give_back }, out);
        if give_back.is_some() {
            self.resend_after(now, 0, waiter);
        }
    }

    /// Grants a record that nobody holds or waits for, as *schedule* would. False if it can't be
    /// granted now.
    pub(super) fn grant_free(
        &mut self,
        by: SessionIx,
        key: usize,
        (hash, record, group): (NameHash, &Record, Group),
        wish: &Wish,
        out: &mut Vec<TableOutput>,
    ) -> bool {
        if self.terms[key].grace.is_some() {
            return false;
        }
        let Some(token) = self.token_for(group, wish.mode) else { return false };
        let counted = self.watch.place(record);
        let ix = self.keep_record(hash, record.clone(), group, counted);
        let (record, seq, mode) = (record.clone(), wish.seq, wish.mode);
        self.add(Claim::new(ix, by, seq, mode, Place::Granted(token), self.watch.now));
        let session = self.sessions[by.key()].id;
        self.watch.granted((counted, &record), session, (mode, token), None);
        self.send(by, ToNode::Granted { record, seq, mode, token, give_back: None }, out);
        true
    }

    fn token_for(&mut self, group: Group, mode: Mode) -> Option<Token> {
        let key = self.served(group).expect("a record's group is served");
        let epoch = self.terms[key].term.epoch;
        let last = &mut self.counts[usize::from(group.0)];
        if mode == Mode::Read || self.limits.bugs.has(Bug::TokenNotTaken) {
            return Token::new(epoch, *last);
        }
        let token = Token::new(epoch, *last + 1)?;
        *last += 1;
        Some(token)
    }

    /// Tells every holder what is wanted of it, or that nothing is any more, once for each change.
    fn tell_holders(&mut self, ix: RecordIx, out: &mut Vec<TableOutput>) {
        let entry = self.names.get_mut(ix);
        // I1: what is in the way of one holder is in the way of all.
        let Some(holder) = entry.holders.head.some() else { return };
        let mode = self.claims.get(holder).mode;
        let wanted = entry.wanted().filter(|&wanted| mode.conflicts(wanted));
        if entry.told != Some(wanted) {
            entry.told = Some(wanted);
            self.walk_holders(ix, out);
        }
    }

    /// Tells a holder what is wanted of it now, if that is news.
    pub(super) fn tell_what_is_wanted(&mut self, at: ClaimIx, out: &mut Vec<TableOutput>) {
        let claim = self.claims.get(at);
        let wanted = self.names.get(claim.record).wanted();
        let wanted = wanted.filter(|&wanted| claim.mode.conflicts(wanted));
        if claim.revoked != wanted && claim.token().is_some() && !self.is_of_upgrader(at) {
            self.tell(at, wanted, out);
        }
    }

    /// Whether this is the read of the record's upgrader. Nobody asks for it: it goes first.
    pub(super) fn is_of_upgrader(&self, holder: ClaimIx) -> bool {
        let claim = self.claims.get(holder);
        let upgrader = self.names.get(claim.record).upgrader.some();
        upgrader.is_some_and(|at| self.claims.get(at).session == claim.session)
    }

    /// Tells a holder what is wanted of it, or that nothing is any more.
    pub(super) fn tell(
        &mut self,
        holder: ClaimIx,
        wanted: Option<Mode>,
        out: &mut Vec<TableOutput>,
    ) {
        let claim = self.claims.get_mut(holder);
        let is_news = std::mem::replace(&mut claim.revoked, wanted) != wanted;
        let (ix, by, seq) = (claim.record, claim.session, claim.seq);
        if wanted.is_none() {
            self.forget_in_graph(holder, out);
        } else if is_news {
            self.resend_after(self.watch.now, 0, holder);
        }
        if self.sessions[by.key()].is_over {
            return;
        }
        let entry = self.names.get(ix);
        let (record, group) = (entry.name.clone(), entry.group);
        let session = self.sessions[by.key()].id;
        let tally = self.watch.tally(entry.counted);
        match wanted {
            Some(_) if is_news => tally.revokes += 1,
            Some(_) => tally.revoke_repeats += 1,
            None => {}
        }
        if is_news {
            self.watch.happened(&record, session, wanted.map_or(What::Kept, What::Revoked));
        }
        let key = self.served(group).expect("a record's group is served");
        let at = self.next_ticket(key);
        let message = match wanted {
            Some(wanted) => ToNode::Revoke { record, seq, wanted, at },
            None => ToNode::Keep { record, seq, at },
        };
        self.send(by, message, out);
    }

    /// A bug for the simulator: the retry goes out, and nothing keeps the record for it.
    fn forget_reservation(&mut self, now: Tick, waiter: ClaimIx, out: &mut Vec<TableOutput>) {
        let claim = self.claims.get(waiter);
        let (ix, by, seq) = (claim.record, claim.session, claim.seq);
        self.sessions[by.key()].window = Window::default();
        self.claims.get_mut(waiter).place = Place::Reserved(now);
        self.link(ix, waiter);
        self.end(waiter, out);
        let record = self.names.get(ix).name.clone();
        self.send(by, ToNode::Retry { record, seq }, out);
    }

    /// A record that nobody claims is not kept.
    pub(super) fn forget(&mut self, ix: RecordIx) {
        self.challenges.remove(&ix);
        self.rests.forget(ix);
        let entry = self.names.remove(ix);
        self.records.give_back();
        if let Ok(key) = self.served(entry.group)
            && let Some(grace) = &mut self.terms[key].grace
        {
            grace.lines.remove(&ix);
        }
    }
}
