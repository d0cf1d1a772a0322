//! What a table looks like from outside: for people, for tests, for the simulator.

use super::*;
use crate::server::LOOKED;

/// The state of a record, as in the table of states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordState {
    /// Nobody has it or waits for it.
    Free,
    /// Readers have it.
    Shared,
    /// Readers have it, and somebody waits.
    SharedWanted,
    /// A writer has it.
    Alone,
    /// A writer has it, and somebody waits.
    AloneWanted,
    /// A retry is outstanding, to one of the first 64 holders.
    Reserved,
    /// Its group recovers; nothing is granted.
    Recovering,
}

/// One record with its claims, or with some of many.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RecordView {
    /// Its name.
    pub record: Record,
    /// Its state.
    pub state: RecordState,
    /// Who holds it, in the order of grants.
    pub holders: Vec<ClaimView>,
    /// The waiters in the order in which they will be served, as things are now: while readers
    /// hold the record, one writer (the upgrader, if there is one), then all readers, then the
    /// other writers; while a writer holds it, all readers, then the writers.
    pub waiters: Vec<ClaimView>,
    /// How many more hold it than are shown.
    pub more_holders: usize,
    /// How many more wait than are shown.
    pub more_waiters: usize,
}

impl RecordView {
    /// Shows at most so many holders, and as many waiters.
    #[must_use]
    pub fn cut(mut self, claims: usize) -> Self {
        for (some, more) in [
            (&mut self.holders, &mut self.more_holders),
            (&mut self.waiters, &mut self.more_waiters),
        ] {
            *more += some.len().saturating_sub(claims);
            some.truncate(claims);
        }
        self
    }

    /// How many hold the record or wait for it, shown or not.
    #[must_use]
    pub fn claims(&self) -> usize {
        self.holders.len() + self.more_holders + self.waiters.len() + self.more_waiters
    }
}

/// What a list of records can be sorted by, besides their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordBrief {
    /// How many sessions wait for it.
    pub waiters: u32,
    /// Since when its first holder holds it; without a holder, since when its first waiter waits.
    pub since: Tick,
}

/// One claim.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClaimView {
    /// Whose.
    pub session: SessionId,
    /// How.
    pub mode: Mode,
    /// Which acquire.
    pub seq: Seq,
    /// Its token, once granted.
    pub token: Option<Token>,
    /// Its place in line, while it waits.
    pub ticket: Option<Ticket>,
    /// What a holder was asked to make room for.
    pub revoked: Option<Mode>,
    /// Since when it is held, or waits.
    pub since: Tick,
    /// What the acquire is for, if that was said.
    pub note: Option<Annotation>,
}

impl LockTable {
    /// Number of records that somebody holds or waits for.
    #[must_use]
    pub fn records(&self) -> usize {
        self.names.len()
    }

    /// Number of grants and waits.
    #[must_use]
    pub fn claims(&self) -> usize {
        self.claims.len()
    }

    /// Number of sessions.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Whether one of its terms still waits for re-assertions.
    #[must_use]
    pub fn is_recovering(&self) -> bool {
        self.any_grace()
    }

    /// Whether the group waits for re-assertions, so that nobody knows yet who holds its records.
    #[must_use]
    pub fn recovers_group(&self, group: Group) -> bool {
        self.served(group).is_ok_and(|key| self.terms[key].grace.is_some())
    }

    /// The state of one record.
    #[must_use]
    pub fn state(&self, record: &Record) -> RecordState {
        self.names.find(record).map_or(RecordState::Free, |ix| self.state_of(self.names.get(ix)))
    }

    /// All records, by name.
    #[must_use]
    pub fn views(&self) -> Vec<RecordView> {
        let mut views: Vec<_> =
            self.names.iter().map(|(_, entry)| self.view(entry, usize::MAX)).collect();
        views.sort_by(|a, b| a.record.cmp(&b.record));
        views
    }

    /// One record with at most so many of its claims, if somebody holds it or waits for it.
    #[must_use]
    pub fn look(&self, record: &Record, claims: usize) -> Option<RecordView> {
        self.names.find(record).map(|ix| self.view(self.names.get(ix), claims))
    }

    /// Whether the term of this group still waits for this session to re-assert what it had: until
    /// then the table does not know what the session holds there.
    #[must_use]
    pub fn awaits(&self, session: SessionId, group: Group) -> bool {
        let term = self.served(group).ok().map(|key| &self.terms[key]);
        let grace = term.and_then(|term| term.grace.as_ref());
        grace.is_some_and(|grace| grace.awaits(session))
    }

    /// What a session holds at a record, and what it waits for there.
    #[must_use]
    pub fn look_own(
        &self,
        session: SessionId,
        record: &Record,
    ) -> (Option<ClaimView>, Option<ClaimView>) {
        let found = self.by_id.get(&session).zip(self.names.find(record));
        let Some((&by, ix)) = found else { return (None, None) };
        let own = self.own(ix, by);
        let view = |at: ClaimIx| self.claim_view(at);
        (own.holding.map(view), own.waiting.map(view))
    }

    /// Looks at up to `steps` places from the place `from` on, for those who page through a table
    /// that lives: the records there, each with its place, and where to go on, if there is more. A
    /// record that is there all the time is seen once. A page ends when it has seen `claims`, and
    /// no record shows more, so that neither its size nor its work depends on how many wait.
    #[must_use]
    pub fn page(
        &self,
        from: usize,
        steps: usize,
        claims: usize,
    ) -> (Vec<(usize, RecordView)>, Option<usize>) {
        self.page_of(from, steps, claims, |_| true)
    }

    /// The same, of the records that `liked` likes: the others cost no more than their names.
    #[must_use]
    pub fn page_of(
        &self,
        from: usize,
        steps: usize,
        claims: usize,
        liked: impl Fn(&Record) -> bool,
    ) -> (Vec<(usize, RecordView)>, Option<usize>) {
        let mut end = from.saturating_add(steps);
        let (mut views, mut seen) = (Vec::new(), 0);
        for place in from..end.min(self.names.places()) {
            let Some(entry) = self.names.at(place) else { continue };
            if !liked(&entry.name) {
                continue;
            }
            let view = self.view(entry, claims);
            seen += view.claims();
            views.push((place, view));
            if seen >= claims {
                end = place + 1;
                break;
            }
        }
        (views, (end < self.names.places()).then_some(end))
    }

    /// Looks at up to `steps` places from the place `from` on, and shows `see` each record there
    /// with what a list can be sorted by. Returns where to go on, if there is more. A record costs
    /// the same however many sessions hold it or wait for it.
    pub fn visit(
        &self,
        from: usize,
        steps: usize,
        mut see: impl FnMut(&Record, RecordBrief),
    ) -> Option<usize> {
        let end = from.saturating_add(steps);
        for place in from..end.min(self.names.places()) {
            let Some(entry) = self.names.at(place) else { continue };
            let heads = [entry.holders, entry.readers, entry.writers].map(|list| list.head);
            let first = heads.into_iter().chain([entry.upgrader]).find_map(ClaimIx::some);
            let since = first.map_or(Tick::ZERO, |at| self.claims.get(at).since.0);
            see(&entry.name, RecordBrief { waiters: entry.waiters(), since });
        }
        (end < self.names.places()).then_some(end)
    }

    /// Records that somebody holds and others wait for, those at which something has happened
    /// lately first: at most `count` of those that `may` be shown, each with at most so many
    /// claims. Not all are looked at, if there are many.
    #[must_use]
    pub fn wanted(
        &self,
        count: usize,
        claims: usize,
        may: impl Fn(&Record) -> bool,
    ) -> Vec<RecordView> {
        let of = |&(tick, ix): &(Tick, RecordIx)| {
            let entry = self.names.at(ix.key())?;
            let is_one = entry.alarm == Some(tick) && entry.waiters() > 0 && may(&entry.name);
            is_one.then_some(entry)
        };
        let wanted = self.alarms.iter().take(LOOKED * count).filter_map(of);
        wanted.take(count).map(|entry| self.view(entry, claims)).collect()
    }

    /// How many records a session was granted here and has not given back.
    #[must_use]
    pub fn held_by(&self, session: SessionId) -> u64 {
        self.by_id.get(&session).map_or(0, |by| self.sessions[by.key()].held.into())
    }

    /// How many claims a session has here, and the first `count` of them, with their records.
    #[must_use]
    pub fn claims_of(&self, session: SessionId, count: usize) -> (usize, Vec<(Record, ClaimView)>) {
        let Some(&by) = self.by_id.get(&session) else { return (0, Vec::new()) };
        let list = self.sessions[by.key()].claims;
        let name = |ix: ClaimIx| self.names.get(self.claims.get(ix).record).name.clone();
        let first = self.claims.of_session(list).take(count);
        (list.len as usize, first.map(|ix| (name(ix), self.claim_view(ix))).collect())
    }

    /// What was counted, and what happened last.
    #[must_use]
    pub fn watch(&self) -> &Watch {
        &self.watch
    }

    fn state_of(&self, entry: &Entry) -> RecordState {
        let key = self.served(entry.group).expect("a record's group is served");
        if self.terms[key].grace.is_some() {
            return RecordState::Recovering;
        }
        if entry.reserved > 0 {
            return RecordState::Reserved;
        }
        let first = entry.holders.head.some();
        match (first.map(|ix| self.claims.get(ix).mode), entry.waiters()) {
            (None, _) => RecordState::Free,
            (Some(Mode::Read), 0) => RecordState::Shared,
            (Some(Mode::Read), _) => RecordState::SharedWanted,
            (Some(Mode::Write), 0) => RecordState::Alone,
            (Some(Mode::Write), _) => RecordState::AloneWanted,
        }
    }

    /// Whether readers hold the record.
    fn is_read(&self, entry: &Entry) -> bool {
        let first = entry.holders.head.some();
        first.is_some_and(|at| self.claims.get(at).mode == Mode::Read)
    }

    /// How many writers are served before the readers that wait, the upgrader among them.
    fn before_readers(&self, entry: &Entry) -> u32 {
        u32::from(self.is_read(entry)).min(entry.waiters() - entry.readers.len)
    }

    /// The index among all waiters, in the order of turns, of one that has so many of its mode
    /// before it.
    pub(super) fn turn(&self, entry: &Entry, mode: Mode, before: u32) -> u32 {
        let first = self.before_readers(entry);
        match mode {
            Mode::Read => first + before,
            Mode::Write if before < first => before,
            Mode::Write => before + entry.readers.len,
        }
    }

    fn view(&self, entry: &Entry, claims: usize) -> RecordView {
        let (holding, waiting) = (entry.holders.len as usize, entry.waiters() as usize);
        // Who is few is shown whole; of two that are many, each gets a half.
        let holders = holding.min(claims.saturating_sub(waiting.min(claims / 2)));
        let waiters = waiting.min(claims.saturating_sub(holders));
        let upgrader = || entry.upgrader.some().into_iter();
        let writers = || upgrader().chain(self.claims.of_record(entry.writers));
        let before_readers = self.before_readers(entry) as usize;
        let line = writers().take(before_readers);
        let line = line.chain(self.claims.of_record(entry.readers));
        let line = line.chain(writers().skip(before_readers));
        let see = |ix: ClaimIx| self.claim_view(ix);
        RecordView {
            record: entry.name.clone(),
            state: self.state_of(entry),
            holders: self.claims.of_record(entry.holders).take(holders).map(see).collect(),
            waiters: line.take(waiters).map(see).collect(),
            more_holders: holding - holders,
            more_waiters: waiting - waiters,
        }
    }

    fn claim_view(&self, ix: ClaimIx) -> ClaimView {
        let claim = self.claims.get(ix);
        ClaimView {
            session: self.sessions[claim.session.key()].id,
            mode: claim.mode,
            seq: claim.seq,
            token: claim.token(),
            ticket: claim.ticket(),
            revoked: claim.revoked,
            since: claim.since.0,
            note: self.notes.get(&ix).cloned(),
        }
    }

    /// Panics if one of the invariants in the header does not hold. For tests: it looks at
    /// everything.
    pub fn check(&self) {
        for view in self.views() {
            let RecordView { record, state, holders, waiters, .. } = &view;
            let writers = holders.iter().filter(|claim| claim.mode == Mode::Write).count();
            assert!(writers == 0 || holders.len() == 1, "I1 {record}: {view:?}");
            for claims in [holders, waiters] {
                let sessions: BTreeSet<_> = claims.iter().map(|claim| claim.session).collect();
                assert_eq!(sessions.len(), claims.len(), "I2 {record}: {view:?}");
            }
            for waiter in waiters {
                let older = holders.iter().find(|claim| claim.session == waiter.session);
                assert!(older.is_none_or(|claim| claim.seq < waiter.seq), "I2 {record}: {view:?}");
            }
            assert!(!holders.is_empty() || !waiters.is_empty(), "I6 {record}");
            for (turn, waiter) in waiters.iter().enumerate().take(AHEAD_MAX as usize) {
                let ahead = self.ahead_of(waiter.session, record, waiter.seq);
                // A session that is over has no acquire that could be asked about.
                let is_turn = ahead.is_none_or(|ahead| ahead == turn as u32);
                assert!(is_turn, "{ahead:?} before {waiter:?} of {record}: {view:?}");
            }
            let ix = self.names.find(record).expect("it is there");
            let is_left = *state == RecordState::Recovering || self.rests.has(ix);
            assert!(is_left || waiters.is_empty() || !holders.is_empty(), "I4 {record}");
            self.check_told(&view);
            self.check_lists(ix);
        }
        for (ix, challenger) in &self.challenges {
            let upgrader = self.names.get(*ix).upgrader.some();
            let session = upgrader.map(|at| self.sessions[self.claims.get(at).session.key()].id);
            let is_another = session.is_some_and(|it| it != challenger.session());
            assert!(is_another, "{challenger:?} challenges {session:?}");
        }
        let linked: u32 = self.sessions.iter().map(|(_, session)| session.claims.len).sum();
        assert_eq!(linked as usize, self.claims.len(), "every claim is in its session's list");
        for (_, session) in &self.sessions {
            let claims = self.claims.of_session(session.claims).map(|at| self.claims.get(at));
            let held = claims.filter(|claim| claim.token().is_some()).count();
            assert_eq!(session.held as usize, held, "grants of {}", session.id);
        }
        self.check_counts();
        let is_there = |at: &ClaimIx| self.claims.has(*at);
        assert!(self.notes.keys().all(is_there), "a note without a claim: {:?}", self.notes);
    }

    /// What is counted and indexed is what is there.
    fn check_lists(&self, ix: RecordIx) {
        let entry = self.names.get(ix);
        let lists = [entry.holders, entry.readers, entry.writers];
        let all = lists.into_iter().flat_map(|list| self.claims.of_record(list));
        let all: Vec<_> = all.chain(entry.upgrader.some()).collect();
        let is_reserved = |at: &&ClaimIx| matches!(self.claims.get(**at).place, Place::Reserved(_));
        assert_eq!(entry.reserved as usize, all.iter().filter(is_reserved).count());
        assert_eq!(entry.is_crowded, self.crowds.contains_key(&ix));
        for &at in all.iter().filter(|_| entry.is_crowded) {
            let own = self.own(ix, self.claims.get(at).session);
            assert!(own.all().any(|other| other == at), "{at:?} is not indexed");
        }
        for line in [entry.readers, entry.writers] {
            let tickets = self.claims.of_record(line).map(|at| self.claims.get(at).ticket());
            assert!(tickets.is_sorted(), "the line of {} is not in order", entry.name);
        }
    }

    /// I5: what the holders were told.
    fn check_told(&self, view: &RecordView) {
        let ix = self.names.find(&view.record).expect("it is there");
        if self.rests.has(ix) {
            return;
        }
        let entry = self.names.get(ix);
        let session = |ix: ClaimIx| self.sessions[self.claims.get(ix).session.key()].id;
        let upgrader = entry.upgrader.some().map(session);
        let recovering = view.state == RecordState::Recovering;
        for holder in view.holders.iter().filter(|it| Some(it.session) != upgrader) {
            let of_it = |wanted: Option<Mode>| wanted.filter(|&it| holder.mode.conflicts(it));
            let knows = |wanted: Option<Mode>| holder.revoked == of_it(wanted);
            if holder.token.is_some() {
                assert!(recovering || knows(entry.wanted()), "I5: {view:?}");
                assert!(entry.told.is_none_or(knows), "I5, told: {view:?}");
            }
        }
    }
}
