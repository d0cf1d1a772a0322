//! The lists of a record and of a session, and how a session's claims at a record are found.
//!
//! A list is walked only while it is short. A record with more than [`Limits::crowd`] claims has an
//! index of them, its [`Crowd`]: who has a claim there, and where a ticket belongs in the line. So
//! neither a message about a record nor a re-assertion takes longer because many others have
//! claims there too. It is made when the record becomes crowded, and dropped when it is not any
//! more.

use super::*;

/// The claims of a record with many of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Crowd {
    own: BTreeMap<SessionIx, Own>,
    readers: BTreeSet<(Ticket, ClaimIx)>,
    writers: BTreeSet<(Ticket, ClaimIx)>,
    /// The highest token of a holder since the record is crowded.
    pub(super) highest: Token,
}

/// The claims of one session at one record.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Own {
    pub(super) holding: Option<ClaimIx>,
    pub(super) waiting: Option<ClaimIx>,
}

impl Own {
    fn put(&mut self, at: ClaimIx, claim: &Claim) {
        let place = if claim.holds() { &mut self.holding } else { &mut self.waiting };
        *place = Some(at);
    }

    /// Both of them.
    pub(super) fn all(self) -> impl Iterator<Item = ClaimIx> {
        [self.holding, self.waiting].into_iter().flatten()
    }
}

impl Crowd {
    fn line(&mut self, mode: Mode) -> &mut BTreeSet<(Ticket, ClaimIx)> {
        match mode {
            Mode::Read => &mut self.readers,
            Mode::Write => &mut self.writers,
        }
    }

    fn add(&mut self, at: ClaimIx, claim: &Claim) {
        self.own.entry(claim.session).or_default().put(at, claim);
        match claim.place {
            Place::Waiting(ticket) => drop(self.line(claim.mode).insert((ticket, at))),
            Place::Granted(token) => self.highest = self.highest.max(token),
            Place::Reserved(_) | Place::Upgrading(_) => {}
        }
    }

    fn remove(&mut self, at: ClaimIx, claim: &Claim) {
        if let Some(own) = self.own.get_mut(&claim.session) {
            own.holding.take_if(|other| *other == at);
            own.waiting.take_if(|other| *other == at);
            if own.holding.is_none() && own.waiting.is_none() {
                self.own.remove(&claim.session);
            }
        }
        if let Place::Waiting(ticket) = claim.place {
            self.line(claim.mode).remove(&(ticket, at));
        }
    }
}

impl LockTable {
    /// The session's claims at a record. Walks one short list, or asks the index of the record.
    pub(super) fn own(&self, ix: RecordIx, by: SessionIx) -> Own {
        let entry = self.names.get(ix);
        let of_session = self.sessions[by.key()].claims;
        let mut own = Own::default();
        let mut look = |at: ClaimIx| {
            self.visits.count();
            let claim = self.claims.get(at);
            if claim.session == by && claim.record == ix {
                own.put(at, claim);
            }
        };
        if of_session.len < entry.claims().min(self.limits.crowd) {
            self.claims.of_session(of_session).for_each(look);
        } else if entry.is_crowded {
            self.visits.count();
            return self.crowds[&ix].own.get(&by).copied().unwrap_or_default();
        } else {
            for list in [entry.holders, entry.readers, entry.writers] {
                self.claims.of_record(list).for_each(&mut look);
            }
            entry.upgrader.some().into_iter().for_each(look);
        }
        own
    }

    /// Puts a claim into its lists.
    pub(super) fn add(&mut self, claim: Claim) -> ClaimIx {
        let (record, by) = (claim.record, claim.session);
        let ix = self.claims.insert(claim);
        self.claims.push(&mut self.sessions[by.key()].claims, Which::Session, ix);
        self.count_in(record, by);
        self.link(record, ix);
        ix
    }

    /// Puts a claim into the list of its record that its place calls for.
    pub(super) fn link(&mut self, record: RecordIx, ix: ClaimIx) {
        self.count_wait(ix, true);
        let entry = self.names.get_mut(record);
        let claim = self.claims.get(ix);
        // Something has changed here: what is not answered now is asked again soon.
        entry.repeats = 0;
        let tally = self.watch.tally(entry.counted);
        *(if claim.holds() { &mut tally.held } else { &mut tally.waiting }) += 1;
        match (claim.place, claim.mode) {
            (Place::Granted(_) | Place::Reserved(_), _) => {
                if claim.token().is_some() {
                    self.sessions[claim.session.key()].held += 1;
                } else {
                    entry.reserved += 1;
                }
                if entry.holders.is_empty() {
                    entry.told = Some(claim.revoked);
                } else if entry.told != Some(claim.revoked) {
                    entry.told = None;
                }
                self.claims.push(&mut entry.holders, Which::Record, ix);
            }
            (Place::Waiting(ticket), mode) => {
                let list = match mode {
                    Mode::Read => &mut entry.readers,
                    Mode::Write => &mut entry.writers,
                };
                if entry.is_crowded && self.claims.is_before_tail(*list, ix) {
                    self.visits.count();
                    let line = self.crowds.get_mut(&record).expect("it is crowded").line(mode);
                    let before = line.range(..=(ticket, ClaimIx::NONE)).next_back();
                    let before = before.map_or(ClaimIx::NONE, |&(_, at)| at);
                    self.claims.queue_after(list, before, ix);
                } else {
                    self.visits.add(self.claims.queue(list, ix));
                }
            }
            (Place::Upgrading(_), _) => entry.upgrader = ix,
        }
        if entry.is_crowded {
            let claim = self.claims.get(ix);
            self.crowds.get_mut(&record).expect("it is crowded").add(ix, claim);
        } else if entry.claims() > self.limits.crowd {
            self.gather(record);
        }
    }

    /// Takes a claim out of its record's list, before its place or mode changes.
    pub(super) fn unlink(&mut self, ix: ClaimIx) {
        self.count_wait(ix, false);
        let claim = self.claims.get(ix);
        let (record, place, mode) = (claim.record, claim.place, claim.mode);
        let entry = self.names.get_mut(record);
        entry.repeats = 0;
        let tally = self.watch.tally(entry.counted);
        *(if claim.holds() { &mut tally.held } else { &mut tally.waiting }) -= 1;
        if entry.is_crowded {
            self.crowds.get_mut(&record).expect("it is crowded").remove(ix, claim);
        }
        let list = match (place, mode) {
            (Place::Granted(_), _) => {
                self.sessions[claim.session.key()].held -= 1;
                Some(&mut entry.holders)
            }
            (Place::Reserved(_), _) => {
                entry.reserved -= 1;
                Some(&mut entry.holders)
            }
            (Place::Waiting(_), Mode::Read) => Some(&mut entry.readers),
            (Place::Waiting(_), Mode::Write) => Some(&mut entry.writers),
            (Place::Upgrading(_), _) => {
                entry.upgrader = ClaimIx::NONE;
                None
            }
        };
        self.rests.passes(record, ix, self.claims.next(ix));
        if let Some(list) = list {
            self.claims.unlink(list, Which::Record, ix);
        }
        if entry.is_crowded && entry.claims() <= self.limits.crowd / 2 {
            entry.is_crowded = false;
            self.crowds.remove(&record);
        }
    }

    /// Its user has one more waiter at the record, or one fewer, if the claim waits.
    fn count_wait(&mut self, ix: ClaimIx, is_more: bool) {
        let claim = self.claims.get(ix);
        if !claim.holds()
            && let Some(user) = self.sessions[claim.session.key()].user
        {
            self.users.waits(claim.record, user, is_more);
        }
    }

    /// Makes the index of a record that has become crowded.
    fn gather(&mut self, record: RecordIx) {
        let entry = self.names.get_mut(record);
        entry.is_crowded = true;
        let lists = [entry.holders, entry.readers, entry.writers];
        let mut crowd = Crowd::default();
        let all = lists.into_iter().flat_map(|list| self.claims.of_record(list));
        for at in all.chain(entry.upgrader.some()) {
            crowd.add(at, self.claims.get(at));
        }
        self.crowds.insert(record, crowd);
    }
}
