//! How claims end: by release and cancel, with their session, with their group, by a refusal.

use super::*;

impl LockTable {
    /// T4: everything of the session at the record up to `seq` is over; what was granted goes on as
    /// a read with the number `keep`, if there is one.
    pub(super) fn finish(
        &mut self,
        now: Tick,
        by: SessionIx,
        record: &Record,
        found: Option<RecordIx>,
        (seq, keep): (Seq, Option<Seq>),
        out: &mut Vec<TableOutput>,
    ) {
        // What is over can't be acquired any more, even if its acquire comes later.
        let window = &mut self.sessions[by.key()].window;
        window.mark(seq);
        let keep = keep.filter(|&keep| keep > seq);
        if let Some(keep) = keep {
            window.mark(keep);
        }
        if self.any_grace() {
            self.released_in_grace(by, record, seq);
        }
        self.void_is_known(by, record, seq);
        let Some(ix) = found else {
            self.nothing_to_keep(by, record, keep, out);
            return;
        };
        self.withdraw_challenger(by, ix, seq);
        let own = self.own(ix, by);
        let until = |claims: &Claims, at: &ClaimIx| claims.get(*at).seq <= seq;
        // I2: what waits has a higher number than what is kept.
        let before = keep.unwrap_or(seq);
        if let Some(waiting) = own.waiting.filter(|&at| self.claims.get(at).seq <= before) {
            self.end(waiting, out);
        }
        let ignores_seq = self.limits.bugs.has(Bug::ReleaseIgnoresSeq);
        let mut renumbered = None;
        match own.holding {
            None => self.nothing_to_keep(by, record, keep, out),
            Some(holding) if until(&self.claims, &holding) || ignores_seq => match keep {
                Some(keep) if self.claims.get(holding).token().is_some() => {
                    let claim = self.claims.get(holding);
                    let was_told = claim.revoked.is_some();
                    renumbered = (claim.mode == Mode::Read).then_some((holding, keep, was_told));
                    self.downgrade(ix, holding, keep, out);
                }
                _ => self.end(holding, out),
            },
            // A later grant stands. Who names it may have missed what is wanted of it.
            Some(holding) => {
                let claim = self.claims.get(holding);
                if keep == Some(claim.seq) && claim.token().is_some() && !self.recovers(ix) {
                    self.tell(holding, claim.revoked, out);
                }
            }
        }
        if !self.names.get(ix).is_unused() && !self.recovers(ix) {
            self.check_upgrader(ix, out);
        }
        self.schedule(now, ix, out);
        if let Some((read, seq, was_told)) = renumbered {
            self.tell_renumbered(read, seq, was_told, out);
        }
    }

    /// A node that reads on under a new number may have heard under the old one that somebody wants
    /// it, or may not have. It is told what is true now; the other holders know.
    fn tell_renumbered(
        &mut self,
        read: ClaimIx,
        seq: Seq,
        was_told: bool,
        out: &mut Vec<TableOutput>,
    ) {
        // An upgrade may have been granted in its place.
        let Some(claim) = self.claims.try_get_mut(read).filter(|claim| claim.seq == seq) else {
            return;
        };
        let ix = claim.record;
        if self.recovers(ix) {
            return;
        }
        self.tell_what_is_wanted(read, out);
        if was_told && self.claims.get(read).revoked.is_none() {
            self.tell(read, None, out);
        }
    }

    /// A node believes that it goes on reading, and has nothing here: it has to know.
    fn nothing_to_keep(
        &mut self,
        by: SessionIx,
        record: &Record,
        keep: Option<Seq>,
        out: &mut Vec<TableOutput>,
    ) {
        let Some(seq) = keep else { return };
        // In a grace the node has perhaps not told of it yet.
        let key = self.served(record.group());
        if key.is_ok_and(|key| self.terms[key].grace.is_none()) {
            self.void(by, record.clone(), seq, out);
        }
    }

    /// What is held goes on as a read with a new number.
    fn downgrade(&mut self, ix: RecordIx, holding: ClaimIx, keep: Seq, out: &mut Vec<TableOutput>) {
        self.forget_in_graph(holding, out);
        let entry = self.names.get_mut(ix);
        let claim = self.claims.get_mut(holding);
        if claim.mode == Mode::Write {
            entry.readers_due = true;
            entry.told = None;
        }
        claim.mode = Mode::Read;
        claim.seq = keep;
        claim.revoked = None;
    }

    /// Takes a claim away. The caller schedules its record.
    pub(super) fn end(&mut self, at: ClaimIx, out: &mut Vec<TableOutput>) {
        self.forget_in_graph(at, out);
        self.unlink(at);
        self.note_end(at);
        let claim = self.claims.get(at);
        let by = claim.session;
        let (ix, upgrades) = (claim.record, matches!(claim.place, Place::Upgrading(_)));
        if claim.mode == Mode::Write && claim.token().is_some() {
            self.names.get_mut(ix).readers_due = true;
        }
        self.claims.unlink(&mut self.sessions[by.key()].claims, Which::Session, at);
        self.claims.remove(at);
        if !self.notes.is_empty() {
            self.notes.remove(&at);
        }
        self.count_out(ix, by);
        if upgrades {
            self.free_challenger(ix, out);
        }
    }

    /// Counts a claim that ends.
    fn note_end(&mut self, at: ClaimIx) {
        let claim = self.claims.get(at);
        let session = self.sessions[claim.session.key()].id;
        let Entry { name, counted, .. } = self.names.get(claim.record);
        let what = if claim.token().is_some() {
            let held = self.watch.now.since(claim.since.0);
            self.watch.held(*counted, held);
            if self.watch.session_ends { What::Ended(held) } else { What::Released(held) }
        } else {
            What::Left
        };
        self.watch.happened(name, session, what);
    }

    /// The graph knows this claim under its present number no more.
    pub(super) fn forget_in_graph(&mut self, at: ClaimIx, out: &mut Vec<TableOutput>) {
        let claim = self.claims.get_mut(at);
        if std::mem::take(&mut claim.in_graph) {
            let (session, seq) = (self.sessions[claim.session.key()].id, claim.seq);
            out.push(TableOutput::Fact(Fact::Gone { session, seq }));
        }
    }

    /// Passes on who holds what was revoked.
    pub(super) fn report(
        &mut self,
        by: SessionIx,
        record: &Record,
        seq: Seq,
        fact: impl FnOnce(SessionId, Record, Mode) -> Fact,
        out: &mut Vec<TableOutput>,
    ) {
        let Some(ix) = self.names.find(record) else { return };
        let Some(holding) = self.own(ix, by).holding else { return };
        let session = self.sessions[by.key()].id;
        let claim = self.claims.get_mut(holding);
        if claim.seq == seq && claim.revoked.is_some() && !self.limits.bugs.has(Bug::ReportsIgnored)
        {
            claim.in_graph = true;
            out.push(TableOutput::Fact(fact(session, record.clone(), claim.mode)));
        }
    }

    /// The graph's victim waits no more, if it still waited.
    pub(super) fn refuse(
        &mut self,
        now: Tick,
        session: SessionId,
        record: &Record,
        seq: Seq,
        cycle: Vec<Owner>,
        out: &mut Vec<TableOutput>,
    ) {
        let Some(&by) = self.by_id.get(&session) else { return };
        let Some(ix) = self.names.find(record) else { return };
        let waiting = self.own(ix, by).waiting;
        let Some(waiting) = waiting.filter(|&at| self.claims.get(at).seq == seq) else { return };
        self.end(waiting, out);
        self.watch.happened(record, session, What::Deadlock);
        let why = AcquireRefusal::Deadlock { cycle };
        self.send(by, ToNode::Refused { record: record.clone(), seq, why }, out);
        // If it was an upgrader, its read is in the way like any other now.
        self.names.get_mut(ix).told = None;
        self.schedule(now, ix, out);
    }

    pub(super) fn begin_session(
        &mut self,
        id: SessionId,
        handoff: Handoff,
        quota: Option<&UserQuota>,
    ) {
        let sessions = &mut self.sessions;
        let by = *self.by_id.entry(id).or_insert_with(|| {
            let window = Window::default();
            let (claims, held, is_over, user) = (List::EMPTY, 0, false, None);
            let session = Session { id, handoff, window, claims, user, held, is_over };
            SessionIx::new(sessions.insert(session))
        });
        if let Some(quota) = quota {
            self.belongs_to(by, quota);
        }
    }

    /// T5. Also for a session that was only listed. It says nothing any more; what it has ends bit
    /// by bit, if it is much.
    pub(super) fn end_session(&mut self, now: Tick, id: SessionId, out: &mut Vec<TableOutput>) {
        self.former_ended(now, id, out);
        self.voids.forget_session(id);
        let Some(by) = self.by_id.remove(&id) else { return };
        self.speaker = Speaker::default();
        self.sessions[by.key()].is_over = true;
        self.rests.ending.push_back(by);
        self.go_on_ending(now, out);
    }

    /// Forgets the records of these groups.
    pub(super) fn leave(&mut self, groups: GroupSet, out: &mut Vec<TableOutput>) {
        self.leave_grace(groups);
        self.voids.forget_groups(groups);
        let mut had = BTreeSet::new();
        let gone = |entry: &Entry| groups.contains(entry.group);
        let records: Vec<_> =
            self.names.iter().filter(|(_, entry)| gone(entry)).map(|(ix, _)| ix).collect();
        for ix in records {
            let entry = self.names.get(ix);
            let lists = [entry.holders, entry.readers, entry.writers];
            let mut claims: Vec<_> =
                lists.into_iter().flat_map(|list| self.claims.of_record(list)).collect();
            claims.extend(entry.upgrader.some());
            for at in claims {
                had.insert(self.sessions[self.claims.get(at).session.key()].id);
                self.end(at, out);
            }
            self.forget(ix);
        }
        out.extend(had.into_iter().map(|session| TableOutput::Had { session }));
        for group in groups.iter() {
            if self.term_of[usize::from(group.0)].take().is_some() {
                self.left = self.left.or(GroupSet::from_iter([group]));
            }
        }
        self.terms.retain(|_, state| {
            state.term.groups = state.term.groups.without(groups);
            !state.term.groups.is_empty()
        });
    }
}
