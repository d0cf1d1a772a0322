//! The beginning of a term: nodes re-assert what they had, and nothing is granted meanwhile.
//!
//! A listed session is done when exactly those seqs have arrived that it says there are, in
//! whatever order. The grace ends when every listed session is done or over.
//!
//! # Invariants
//!
//! - **G1** Each seq of a listed session is taken once. A re-assertion that comes again changes
//!   nothing.
//! - **G2** A page is *heard* only if every seq of it has arrived. What has arrived stays, unless
//!   its group is left or the session that speaks is over: so a page that was heard is never asked
//!   for again in this term.
//! - **G3** No step takes longer because a session re-asserts more, or because others do: what has
//!   arrived is counted and summed as it comes, a page has at most [`PAGE_MAX`] seqs, and the
//!   records whose lines wait for the end are scheduled bit by bit.
//! - **G4** What is remembered of a session's releases is forgotten when it has re-asserted, and is
//!   no more than its claims could be.

use super::*;
use crate::limits::PAGE_MAX;
use crate::messages;

/// A term that has not heard of everybody yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Grace {
    pending: BTreeMap<SessionId, Pending>,
    /// Any session may come to speak for some of these, which are not of this server.
    formers: bool,
    /// Who speaks for whom.
    speakers: BTreeMap<SessionIx, BTreeSet<SessionId>>,
    /// Records with a line, to be scheduled at the end.
    pub(super) lines: BTreeSet<RecordIx>,
    /// What sessions that have yet to re-assert have released meanwhile: a re-assertion that comes
    /// later brings nothing back. None of the inner maps is empty.
    over: BTreeMap<SessionId, BTreeMap<Record, Seq>>,
}

/// A listed session that is not done.
#[derive(Clone, Debug, Default)]
struct Pending {
    /// Who speaks for it.
    by: Option<SessionIx>,
    /// The seqs that have arrived (G1), each with the group of its record.
    received: BTreeMap<Seq, Group>,
    /// The sum of these seqs, wrapping.
    sum: u64,
    /// If another session speaks for it: their records. What is re-asserted by the listed session
    /// itself ends with that anyway.
    records: BTreeMap<Seq, Record>,
    total: Option<Total>,
    /// How many had arrived when its lease was last extended because of that.
    extended_at: usize,
}

/// What a node says that it has re-asserted. A set may change between two rounds, so the number of
/// its seqs alone would not tell that all of one round have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Total {
    pub(super) count: u32,
    pub(super) sum: u64,
}

impl Total {
    fn of(seqs: impl Iterator<Item = Seq>) -> Self {
        let none = Self { count: 0, sum: 0 };
        seqs.fold(none, |all, seq| Self {
            count: all.count.saturating_add(1),
            sum: all.sum.wrapping_add(seq.0),
        })
    }
}

impl Grace {
    /// Whether this listed session is not done.
    pub(super) fn awaits(&self, session: SessionId) -> bool {
        self.pending.contains_key(&session)
    }

    /// From now on this session speaks for a listed one, and no other does.
    fn speaks(&mut self, by: SessionIx, former: SessionId) {
        if let Some(pending) = self.pending.get_mut(&former)
            && pending.by != Some(by)
        {
            pending.by = Some(by);
            self.speakers.entry(by).or_default().insert(former);
        }
    }

    /// A listed session is done, or over. What it had told, if it was not done.
    fn remove(&mut self, former: SessionId) -> Option<Pending> {
        let pending = self.pending.remove(&former)?;
        if let Some(by) = pending.by
            && let Some(formers) = self.speakers.get_mut(&by)
        {
            formers.remove(&former);
            if formers.is_empty() {
                self.speakers.remove(&by);
            }
        }
        Some(pending)
    }

    /// A session that spoke for others is over: they have told nothing. How many these were.
    fn speaker_ended(&mut self, by: SessionIx) -> usize {
        let formers = self.speakers.remove(&by).unwrap_or_default();
        for &former in &formers {
            self.pending.insert(former, Pending::default());
        }
        formers.len()
    }

    /// Whether the session has yet to re-assert, for itself or for another.
    fn recovers(&self, by: SessionIx, session: SessionId) -> bool {
        self.awaits(session) || self.speakers.contains_key(&by) || self.formers
    }
}

impl Pending {
    fn is_complete(&self) -> bool {
        let count = u32::try_from(self.received.len()).unwrap_or(u32::MAX);
        self.total == Some(Total { count, sum: self.sum })
    }

    /// Whether all seqs of a page have arrived, and no others of its range (G2).
    fn has_page(&self, page: &Page) -> bool {
        if page.first > page.last {
            return false;
        }
        let seqs = self.received.range(page.first..=page.last).map(|(&seq, _)| seq);
        page.total.count as usize <= PAGE_MAX && Total::of(seqs.take(PAGE_MAX + 1)) == page.total
    }

    fn take(&mut self, seq: Seq, record: &Record, is_for_another: bool) {
        self.received.insert(seq, record.group());
        self.sum = self.sum.wrapping_add(seq.0);
        if is_for_another {
            self.records.insert(seq, record.clone());
        }
    }

    /// These groups are left.
    fn leave(&mut self, groups: GroupSet) {
        self.received.retain(|_, group| !groups.contains(*group));
        self.records.retain(|_, record| !groups.contains(record.group()));
        self.sum = Total::of(self.received.keys().copied()).sum;
        self.total = None;
    }
}

/// What a node says of a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    pub(super) first: Seq,
    pub(super) last: Seq,
    pub(super) total: Total,
}

impl LockTable {
    pub(super) fn begin_term(
        &mut self,
        now: Tick,
        term: Term,
        (listed, formers): (Vec<SessionId>, bool),
        out: &mut Vec<TableOutput>,
    ) {
        let free = |group: &Group| self.term_of[usize::from(group.0)].is_none();
        assert!(term.groups.iter().all(|group| free(&group)), "a group has one term");
        let pending = listed.into_iter().map(|session| (session, Pending::default())).collect();
        let grace = Some(Grace { pending, formers, ..Grace::default() });
        self.left = self.left.without(term.groups);
        let recovered = BTreeMap::new();
        let key = self.terms.insert(TermState { term, tickets: 0, grace, recovered });
        let small = u16::try_from(key).expect("there are at most as many terms as groups");
        for group in term.groups.iter() {
            self.term_of[usize::from(group.0)] = Some(small);
            self.counts[usize::from(group.0)] = 0;
        }
        self.end_grace_if_done(now, key, out);
    }

    /// T7.
    #[expect(clippy::too_many_arguments, reason = "a re-assertion says that much")]
    pub(super) fn reassert(
        &mut self,
        by: SessionIx,
        record: Record,
        epoch: Epoch,
        former: SessionId,
        (seq, mode, claim): (Seq, Mode, messages::Claim),
        now: Tick,
        out: &mut Vec<TableOutput>,
    ) -> Result<(), ReassertRefusal> {
        let group = record.group();
        let key = self.served(group).map_err(ReassertRefusal::NotServed)?;
        let term = self.terms[key].term;
        let shown = match &claim {
            messages::Claim::Held { token } => token.epoch().max(epoch),
            messages::Claim::Waiting { .. } => epoch,
        };
        let of_now =
            matches!(&claim, messages::Claim::Held { token } if token.epoch() >= term.epoch);
        if shown > term.epoch || of_now {
            let by = Some(self.sessions[by.key()].id);
            out.push(TableOutput::Behind { groups: term.groups, above: shown, by });
            return Ok(());
        }
        if epoch != term.epoch {
            return Err(ReassertRefusal::WrongEpoch { current: term.epoch });
        }
        if self.has_recovered(key, by, former) {
            // A double: all of it was heard, and has perhaps been released since.
            return Ok(());
        }
        let pending = self.pending(key, by, former)?;
        if pending.received.contains_key(&seq) {
            return Ok(());
        }
        let received = pending.received.len();
        self.check_reassert(by, received, &record, &claim)?;
        let is_for_another = self.sessions[by.key()].id != former;
        self.speak(key, by, former)?.take(seq, &record, is_for_another);
        self.sessions[by.key()].window.mark(seq);
        if self.was_released(key, by, &record, seq) {
            self.complete(now, key, former, out);
            return Ok(());
        }
        let hash = self.names.hash_of(&record);
        let ix = match self.names.find_by(hash, &record) {
            Some(ix) => ix,
            None => {
                let counted = self.watch.place(&record);
                self.keep_record(hash, record, group, counted)
            }
        };
        match claim {
            messages::Claim::Held { token } => self.reassert_held(ix, by, (seq, mode), token, out),
            messages::Claim::Waiting { ticket, upgrade, owners } => {
                let ticket = ticket.filter(|_| !self.limits.bugs.has(Bug::TicketsIgnored));
                let ticket = match ticket {
                    // A ticket of this very epoch was not given by an earlier one.
                    Some(ticket) if ticket.epoch() < term.epoch => ticket,
                    _ => self.next_ticket(key),
                };
                let wish = Wish { mode, seq, upgrade, owners };
                self.reassert_waiting(now, ix, by, ticket, wish, out);
            }
        }
        self.schedule(now, ix, out);
        self.complete(now, key, former, out);
        Ok(())
    }

    /// A re-assertion that is not believed counts as told (G1).
    #[expect(clippy::too_many_arguments, reason = "a re-assertion says that much")]
    pub(super) fn disown(
        &mut self,
        now: Tick,
        by: SessionIx,
        record: &Record,
        epoch: Epoch,
        former: SessionId,
        seq: Seq,
        out: &mut Vec<TableOutput>,
    ) {
        let Ok(key) = self.served(record.group()) else { return };
        if self.terms[key].term.epoch != epoch || self.has_recovered(key, by, former) {
            return;
        }
        let (max, is_for_another) =
            (self.limits.claims_per_session, self.sessions[by.key()].id != former);
        let Ok(pending) = self.speak(key, by, former) else { return };
        if pending.received.len() < max && !pending.received.contains_key(&seq) {
            pending.take(seq, record, is_for_another);
            self.complete(now, key, former, out);
        }
    }

    /// Whether all of `former` was heard from this session.
    fn has_recovered(&self, key: usize, by: SessionIx, former: SessionId) -> bool {
        let heard = self.terms[key].recovered.get(&self.sessions[by.key()].id);
        heard.is_some_and(|formers| formers.contains(&former))
    }

    /// These groups are left: what was re-asserted there counts no more.
    pub(super) fn leave_grace(&mut self, groups: GroupSet) {
        for (_, state) in &mut self.terms {
            let is_concerned = !state.term.groups.and(groups).is_empty();
            let Some(grace) = state.grace.as_mut().filter(|_| is_concerned) else { continue };
            grace.pending.values_mut().for_each(|pending| pending.leave(groups));
        }
    }

    /// In a grace: everything of the session at the record up to `seq` is over. That has to be
    /// remembered only until the session has re-asserted what it had, and of no more than it can
    /// have had.
    pub(super) fn released_in_grace(&mut self, by: SessionIx, record: &Record, seq: Seq) {
        let Ok(key) = self.served(record.group()) else { return };
        let Some(grace) = &mut self.terms[key].grace else { return };
        let session = self.sessions[by.key()].id;
        if !grace.recovers(by, session) {
            return;
        }
        let over = grace.over.entry(session).or_default();
        if over.len() < self.limits.claims_per_session || over.contains_key(record) {
            let last = over.entry(record.clone()).or_insert(seq);
            *last = seq.max(*last);
        }
    }

    fn was_released(&self, key: usize, by: SessionIx, record: &Record, seq: Seq) -> bool {
        let session = self.sessions[by.key()].id;
        let over = self.terms[key].grace.as_ref().and_then(|grace| grace.over.get(&session));
        over.and_then(|over| over.get(record)).is_some_and(|&last| seq <= last)
    }

    /// How many releases are remembered in graces.
    #[cfg(test)]
    pub(in crate::server) fn released(&self) -> usize {
        let graces = self.terms.iter().filter_map(|(_, state)| state.grace.as_ref());
        graces.flat_map(|grace| grace.over.values()).map(BTreeMap::len).sum()
    }

    /// The entry of a listed session for which `by` may speak.
    fn pending(
        &mut self,
        key: usize,
        by: SessionIx,
        former: SessionId,
    ) -> Result<&mut Pending, ReassertRefusal> {
        let anybody = self.limits.bugs.has(Bug::AnybodyReasserts);
        let state = &mut self.terms[key];
        if anybody && !state.recovered.values().flatten().any(|known| *known == former) {
            let grace = state.grace.get_or_insert_default();
            grace.pending.entry(former).or_default();
        }
        let pending = state.grace.as_mut().and_then(|grace| grace.pending.get_mut(&former));
        let pending = pending.ok_or(ReassertRefusal::NotListed)?;
        // A session with this server speaks for itself. Who asks about another one is told no more
        // than of one that there is not.
        if self.by_id.get(&former).is_some_and(|&ix| ix != by) {
            return Err(ReassertRefusal::NotListed);
        }
        let mine = pending.by.is_none_or(|other| other == by);
        if mine { Ok(pending) } else { Err(ReassertRefusal::Claimed) }
    }

    /// The same; `by` speaks for it from now on.
    fn speak(
        &mut self,
        key: usize,
        by: SessionIx,
        former: SessionId,
    ) -> Result<&mut Pending, ReassertRefusal> {
        self.pending(key, by, former)?;
        if let Some(grace) = &mut self.terms[key].grace {
            grace.speaks(by, former);
        }
        self.pending(key, by, former)
    }

    fn check_reassert(
        &self,
        by: SessionIx,
        received: usize,
        record: &Record,
        claim: &messages::Claim,
    ) -> Result<(), ReassertRefusal> {
        let limits = &self.limits;
        if let messages::Claim::Waiting { owners, .. } = claim
            && owners.len() > limits.owners
        {
            return Err(ReassertRefusal::TooManyOwners { max: limits.owners });
        }
        let claims = self.sessions[by.key()].claims.len as usize;
        if claims.max(received) >= limits.claims_per_session {
            return Err(ReassertRefusal::TooManyClaims { max: limits.claims_per_session });
        }
        let is_known = self.names.find(record).is_some();
        self.check_room_again(by, is_known)
    }

    /// A grant is there again. Of two that exclude each other, the later stands.
    fn reassert_held(
        &mut self,
        ix: RecordIx,
        by: SessionIx,
        (seq, mode): (Seq, Mode),
        token: Token,
        out: &mut Vec<TableOutput>,
    ) {
        let own = self.own(ix, by);
        // T1: what is asked for anew, and not as an upgrade, is not used any more.
        let waiting = own.waiting.map(|at| self.claims.get(at));
        let is_waiting = |claim: &Claim| matches!(claim.place, Place::Waiting(_));
        if waiting.is_some_and(|claim| claim.seq > seq && is_waiting(claim)) {
            return;
        }
        let later = own.holding.is_some_and(|at| self.claims.get(at).seq > seq);
        if later || self.is_excluded(ix, by, mode, token) {
            let record = self.names.get(ix).name.clone();
            self.void(by, record, seq, out);
            return;
        }
        let holders = self.names.get(ix).holders;
        let evicted: Vec<_> = match mode {
            Mode::Write => self.claims.of_record(holders).collect(),
            // A writer is alone.
            Mode::Read => {
                let head =
                    holders.head.some().filter(|&at| self.claims.get(at).mode == Mode::Write);
                head.or(own.holding).into_iter().collect()
            }
        };
        for at in evicted {
            self.visits.count();
            let (session, seq) = (self.claims.get(at).session, self.claims.get(at).seq);
            let record = self.names.get(ix).name.clone();
            self.void(session, record, seq, out);
            self.end(at, out);
        }
        // I2, whatever the node says: what it asked for earlier is over.
        if let Some(older) = own.waiting.filter(|&at| self.claims.get(at).seq <= seq) {
            self.end(older, out);
        }
        self.add(Claim::new(ix, by, seq, mode, Place::Granted(token), self.watch.now));
        self.names.get_mut(ix).readers_due = false;
    }

    /// Whether a grant of another session excludes this one and is the later one. Where a record
    /// has many holders, the highest token of those that were there counts: who had a lower one
    /// has lost it to them, even if they have released theirs meanwhile.
    fn is_excluded(&self, ix: RecordIx, by: SessionIx, mode: Mode, token: Token) -> bool {
        let entry = self.names.get(ix);
        if mode == Mode::Write && entry.is_crowded && self.crowds[&ix].highest > token {
            return true;
        }
        // Readers whose leases were over are not heard, so that many of them never meet a writer
        // with a later token, unless somebody makes them up. To end them all would take long.
        if mode == Mode::Write && entry.holders.len as usize > self.limits.portion {
            return true;
        }
        // Of more than one all read, and so conflict with a writer alone.
        let first = if mode == Mode::Read { 1 } else { usize::MAX };
        self.claims.of_record(entry.holders).take(first).any(|at| {
            self.visits.count();
            let other = self.claims.get(at);
            let theirs = other.token().expect("nothing is reserved in a grace");
            // A session that is over may have spoken for the same former one.
            let is_equal = mode == Mode::Write && theirs == token && !self.has_ended(at);
            other.session != by && mode.conflicts(other.mode) && (theirs > token || is_equal)
        })
    }

    /// A wait is in line again, in its old place.
    fn reassert_waiting(
        &mut self,
        now: Tick,
        ix: RecordIx,
        by: SessionIx,
        ticket: Ticket,
        wish: Wish,
        out: &mut Vec<TableOutput>,
    ) {
        let Wish { mode, seq, upgrade, owners } = wish;
        let own = self.own(ix, by);
        if own.all().map(|at| self.claims.get(at).seq).any(|later| later >= seq) {
            return;
        }
        if let Some(old) = own.waiting {
            self.end(old, out);
        }
        let taken = self.names.get(ix).upgrader.some().is_some();
        let place = match (upgrade, taken) {
            (false, _) => Place::Waiting(ticket),
            (true, false) => Place::Upgrading(ticket),
            (true, true) => {
                let why = AcquireRefusal::UpgradeConflict;
                let record = self.names.get(ix).name.clone();
                self.send(by, ToNode::Refused { record, seq, why }, out);
                return;
            }
        };
        let mode = if upgrade { Mode::Write } else { mode };
        let waiter = self.add(Claim::new(ix, by, seq, mode, place, now));
        self.answer(now, waiter, owners, out);
    }

    /// Which term this is, if any of its groups is still served in it. The node may not know yet
    /// which of them were left, and has to hear of the others.
    fn told_of(&self, told: Term) -> Result<Option<usize>, ReassertRefusal> {
        let is_lowest_only = self.limits.bugs.has(Bug::LowestGroupOnly);
        let mut groups = told.groups.iter();
        let Some(lowest) = groups.next() else { return Ok(None) };
        let mut current = None;
        for group in std::iter::once(lowest).chain(groups.filter(|_| !is_lowest_only)) {
            let Ok(key) = self.served(group) else { continue };
            let epoch = self.terms[key].term.epoch;
            if epoch == told.epoch {
                return Ok(Some(key));
            }
            current = current.max(Some(epoch));
        }
        match current {
            Some(current) => Err(ReassertRefusal::WrongEpoch { current }),
            None if is_lowest_only => Ok(None),
            // A term that has not begun yet is no reason to look for another server.
            None if told.groups.without(self.left).is_empty() => {
                Err(ReassertRefusal::Left(NotServed { group: lowest }))
            }
            None => Err(ReassertRefusal::NotServed(NotServed { group: lowest })),
        }
    }

    /// The term that a node tells about, if it is one of this table as the node knows it.
    fn told_term(
        &self,
        by: SessionIx,
        told: Term,
        out: &mut Vec<TableOutput>,
    ) -> Result<Option<(usize, Term)>, ReassertRefusal> {
        let Some(key) = self.told_of(told)? else { return Ok(None) };
        let term = self.terms[key].term;
        if told.groups != term.groups {
            // Some were left since: the node has to tell about the others alone.
            self.send(by, ToNode::Serving(term), out);
            return Ok(None);
        }
        Ok(Some((key, term)))
    }

    /// The node asks whether a page of its re-assertions is here.
    pub(super) fn told_page(
        &mut self,
        now: Tick,
        by: SessionIx,
        told: Term,
        former: SessionId,
        page: Page,
        out: &mut Vec<TableOutput>,
    ) -> Result<(), ReassertRefusal> {
        let Some((key, term)) = self.told_term(by, told, out)? else { return Ok(()) };
        if self.has_recovered(key, by, former) {
            self.send(by, ToNode::Recovered { term, former }, out);
            return Ok(());
        }
        let is_all = self.limits.bugs.has(Bug::PageTakenForAll);
        let pending = self.speak(key, by, former)?;
        let whole = pending.has_page(&page);
        // An empty page, and one that is asked about again, is no progress.
        let arrived = pending.received.len();
        let has_grown = whole && arrived > pending.extended_at;
        if has_grown {
            pending.extended_at = arrived;
        }
        if whole && is_all {
            pending.total = Some(Total { count: pending.received.len() as u32, sum: pending.sum });
        }
        let first = page.first;
        self.send(by, ToNode::Heard { term, former, first, whole }, out);
        if has_grown {
            out.push(TableOutput::Progress { session: self.sessions[by.key()].id });
        }
        if is_all {
            self.complete(now, key, former, out);
        }
        Ok(())
    }

    /// The node has said how many re-assertions there are.
    pub(super) fn reasserted(
        &mut self,
        now: Tick,
        by: SessionIx,
        told: Term,
        former: SessionId,
        total: Total,
        out: &mut Vec<TableOutput>,
    ) -> Result<(), ReassertRefusal> {
        let Some((key, term)) = self.told_term(by, told, out)? else { return Ok(()) };
        let heard = self.has_recovered(key, by, former);
        match self.speak(key, by, former) {
            Ok(pending) => {
                pending.total = Some(total);
                self.complete(now, key, former, out);
            }
            // All was heard before; or there was nothing to hear, and so nothing is believed.
            Err(_) if heard || total.count == 0 => {
                self.send(by, ToNode::Recovered { term, former }, out);
            }
            Err(why) => return Err(why),
        }
        Ok(())
    }

    /// If that was the last of a session's re-assertions, it is told so.
    fn complete(&mut self, now: Tick, key: usize, former: SessionId, out: &mut Vec<TableOutput>) {
        let state = &mut self.terms[key];
        let Some(grace) = &mut state.grace else { return };
        let Some(pending) = grace.pending.get(&former) else { return };
        let Some(by) = pending.by.filter(|_| pending.is_complete()) else { return };
        let session = self.sessions[by.key()].id;
        grace.remove(former);
        if !grace.recovers(by, session) {
            grace.over.remove(&session);
        }
        state.recovered.entry(session).or_default().insert(former);
        let term = state.term;
        self.send(by, ToNode::Recovered { term, former }, out);
        out.push(TableOutput::Recovered { former, by: session, groups: term.groups });
        self.end_grace_if_done(now, key, out);
    }

    /// A session of another server had nothing in this term, says its node. It is believed: nobody
    /// else knows the session.
    pub(super) fn told_nothing(
        &mut self,
        now: Tick,
        former: SessionId,
        told: Term,
        out: &mut Vec<TableOutput>,
    ) -> Result<(), ReassertRefusal> {
        let Some(key) = self.told_of(told)? else { return Ok(()) };
        let state = &mut self.terms[key];
        let term = state.term;
        if told.groups != term.groups {
            out.push(TableOutput::Send { session: former, message: ToNode::Serving(term) });
            return Ok(());
        }
        if let Some(grace) = &mut state.grace
            && let Some(pending) = grace.pending.get(&former)
        {
            // Somebody speaks for it, and had something.
            if pending.by.is_some() {
                return Ok(());
            }
            grace.remove(former);
            out.push(TableOutput::Recovered { former, by: former, groups: term.groups });
        }
        let message = ToNode::Recovered { term, former };
        out.push(TableOutput::Send { session: former, message });
        self.end_grace_if_done(now, key, out);
        Ok(())
    }

    /// A listed session is not waited for any more in these groups: what was re-asserted for it in
    /// part is over.
    pub(super) fn former_over(
        &mut self,
        now: Tick,
        former: SessionId,
        groups: GroupSet,
        out: &mut Vec<TableOutput>,
    ) {
        let terms = self.terms.iter();
        let terms = terms.filter(|(_, state)| !state.term.groups.and(groups).is_empty());
        let keys: Vec<_> = terms.map(|(key, _)| key).collect();
        for key in keys {
            let Some(grace) = &mut self.terms[key].grace else { continue };
            if let Some(pending) = grace.remove(former)
                && let Some(by) = pending.by
            {
                self.take_back(now, by, pending, out);
            }
            self.end_grace_if_done(now, key, out);
        }
    }

    /// A listed session is over, or one that spoke for it: what it had re-asserted in part is over
    /// too.
    pub(super) fn former_ended(&mut self, now: Tick, ended: SessionId, out: &mut Vec<TableOutput>) {
        let ended_ix = self.by_id.get(&ended).copied();
        let keys: Vec<_> = self.terms.iter().map(|(key, _)| key).collect();
        for key in keys {
            let state = &mut self.terms[key];
            state.recovered.remove(&ended);
            let Some(grace) = &mut state.grace else { continue };
            grace.over.remove(&ended);
            let pending = grace.remove(ended);
            if let Some(by) = ended_ix {
                self.visits.add(grace.speaker_ended(by) as u64);
            }
            if let Some(pending) = pending
                && let Some(by) = pending.by
                && Some(by) != ended_ix
            {
                self.take_back(now, by, pending, out);
            }
            self.end_grace_if_done(now, key, out);
        }
    }

    /// Ends the claims that were re-asserted for a session that is over.
    fn take_back(
        &mut self,
        now: Tick,
        by: SessionIx,
        pending: Pending,
        out: &mut Vec<TableOutput>,
    ) {
        for (seq, record) in pending.records {
            let Some(ix) = self.names.find(&record) else { continue };
            for at in self.own(ix, by).all() {
                if self.claims.get(at).seq == seq {
                    self.end(at, out);
                }
            }
            self.schedule(now, ix, out);
        }
    }

    /// T8, when nobody is left to wait for.
    fn end_grace_if_done(&mut self, now: Tick, key: usize, out: &mut Vec<TableOutput>) {
        let grace = &mut self.terms[key].grace;
        if grace.as_ref().is_none_or(|grace| !grace.pending.is_empty()) {
            return;
        }
        let lines = grace.take().map(|grace| grace.lines).unwrap_or_default();
        self.rests.add_lines(lines);
        self.go_on(now, out);
    }

    /// Whether the record's term has not heard of everybody yet.
    pub(super) fn recovers(&self, ix: RecordIx) -> bool {
        let key = self.served(self.names.get(ix).group).expect("a record's group is served");
        self.terms[key].grace.is_some()
    }

    /// I3: an upgrader whose read was released, or not re-asserted, has nothing to upgrade.
    pub(super) fn check_upgrader(&mut self, ix: RecordIx, out: &mut Vec<TableOutput>) {
        let Some(upgrader) = self.names.get(ix).upgrader.some() else { return };
        let (by, seq) = (self.claims.get(upgrader).session, self.claims.get(upgrader).seq);
        if self.own(ix, by).holding.is_none() {
            let record = self.names.get(ix).name.clone();
            let why = AcquireRefusal::NotHeld;
            self.send(by, ToNode::Refused { record, seq, why }, out);
            self.end(upgrader, out);
            self.names.get_mut(ix).told = None;
        }
    }
}
