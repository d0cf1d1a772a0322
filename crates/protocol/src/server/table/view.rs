//! What a table looks like from outside: for people, for tests, for the simulator.

use super::*;

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
    /// A retry is outstanding.
    Reserved,
    /// Its group recovers; nothing is granted.
    Recovering,
}

/// One record with all its claims.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RecordView {
    /// Its name.
    pub record: Record,
    /// Its state.
    pub state: RecordState,
    /// Who holds it, in the order of grants.
    pub holders: Vec<ClaimView>,
    /// Who waits: the upgrader, the writers in order, the readers in order.
    pub waiters: Vec<ClaimView>,
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

    /// The state of one record.
    #[must_use]
    pub fn state(&self, record: &Record) -> RecordState {
        self.names.find(record).map_or(RecordState::Free, |ix| self.state_of(self.names.get(ix)))
    }

    /// All records, by name.
    #[must_use]
    pub fn views(&self) -> Vec<RecordView> {
        let mut views: Vec<_> = self.names.iter().map(|(_, entry)| self.view(entry)).collect();
        views.sort_by(|a, b| a.record.cmp(&b.record));
        views
    }

    /// One record, if somebody holds it or waits for it.
    #[must_use]
    pub fn look(&self, record: &Record) -> Option<RecordView> {
        self.names.find(record).map(|ix| self.view(self.names.get(ix)))
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

    /// Looks at `steps` places from the place `from` on, for those who page through a table that
    /// lives: the records there, and where to go on, if there is more. A record that is there all
    /// the time is seen once.
    #[must_use]
    pub fn page(&self, from: usize, steps: usize) -> (Vec<RecordView>, Option<usize>) {
        let end = from.saturating_add(steps);
        let places = from..end.min(self.names.places());
        let found = places.filter_map(|place| self.names.at(place));
        let views = found.map(|entry| self.view(entry)).collect();
        (views, (end < self.names.places()).then_some(end))
    }

    fn state_of(&self, entry: &Entry) -> RecordState {
        let key = self.served(entry.group).expect("a record's group is served");
        if self.terms[key].grace.is_some() {
            return RecordState::Recovering;
        }
        let holders = || self.claims.of_record(entry.holders).map(|ix| self.claims.get(ix));
        if holders().any(|claim| matches!(claim.place, Place::Reserved(_))) {
            return RecordState::Reserved;
        }
        match (holders().next().map(|claim| claim.mode), entry.waiters()) {
            (None, _) => RecordState::Free,
            (Some(Mode::Read), 0) => RecordState::Shared,
            (Some(Mode::Read), _) => RecordState::SharedWanted,
            (Some(Mode::Write), 0) => RecordState::Alone,
            (Some(Mode::Write), _) => RecordState::AloneWanted,
        }
    }

    fn view(&self, entry: &Entry) -> RecordView {
        let see = |list: List| self.claims.of_record(list).map(|ix| self.claim_view(ix));
        RecordView {
            record: entry.name.clone(),
            state: self.state_of(entry),
            holders: see(entry.holders).collect(),
            waiters: (entry.upgrader.some().map(|ix| self.claim_view(ix)).into_iter())
                .chain(see(entry.writers))
                .chain(see(entry.readers))
                .collect(),
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
        }
    }

    /// Panics if one of the invariants in the header does not hold. For tests: it looks at
    /// everything.
    pub fn check(&self) {
        for view in self.views() {
            let RecordView { record, state, holders, waiters } = &view;
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
            let recovering = *state == RecordState::Recovering;
            assert!(recovering || waiters.is_empty() || !holders.is_empty(), "I4 {record}");
        }
        let linked: u32 = self.sessions.iter().map(|(_, session)| session.claims.len).sum();
        assert_eq!(linked as usize, self.claims.len(), "every claim is in its session's list");
    }
}
