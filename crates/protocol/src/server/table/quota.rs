//! How much a table may have, and how much of it the sessions of one user.
//!
//! | what | how it is counted | limits |
//! |---|---|---|
//! | records | each that has a claim; for a user, each where the user has one | [`Budget`]s |
//! | claims | every grant and every wait | [`Budget`]s |
//! | waiters of one user at one record | | [`Limits::waiters_per_user`] |
//!
//! Who has what at a record that several claims share is in `Users::shared`. A record with one
//! claim, as most have, is not in it: its claim says whose it is. So an acquire of a free record
//! changes four numbers, and looks nothing up.
//!
//! # Invariants
//!
//! - **Q1** `shared` has (record, user) if and only if the record has two claims or more, and the
//!   user some of them.
//! - **Q2** the budgets' shares are used as much as there are records and claims, of all and of
//!   each user.

use std::sync::Arc;

use super::super::budget::{Budget, Share};
use super::*;

/// What all sessions of one user may have together.
#[derive(Debug)]
pub struct UserQuota {
    number: u32,
    records: Arc<Budget>,
    claims: Arc<Budget>,
}

impl UserQuota {
    /// Of the user with this number, which no other user of the server has.
    #[must_use]
    pub fn new(number: u32, records: Arc<Budget>, claims: Arc<Budget>) -> Arc<Self> {
        Arc::new(Self { number, records, claims })
    }

    /// The records that the user may have.
    #[must_use]
    pub fn records(&self) -> &Arc<Budget> {
        &self.records
    }

    /// The grants and waits that the user may have.
    #[must_use]
    pub fn claims(&self) -> &Arc<Budget> {
        &self.claims
    }
}

impl PartialEq for UserQuota {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for UserQuota {}

/// Key of a user in its table.
pub(super) type UserKey = usize;

/// The users with a session in this table.
#[derive(Clone, Debug, Default)]
pub(super) struct Users {
    all: Slab<User>,
    by_number: BTreeMap<u32, UserKey>,
    /// Q1.
    shared: BTreeMap<(RecordIx, UserKey), AtRecord>,
}

#[derive(Clone, Debug)]
struct User {
    number: u32,
    sessions: usize,
    records: Share,
    claims: Share,
}

/// What a user has at a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct AtRecord {
    claims: u32,
    waiting: u32,
}

impl Users {
    /// One more session of a user.
    pub(super) fn session_began(&mut self, quota: &UserQuota) -> UserKey {
        let all = &mut self.all;
        let key = *self.by_number.entry(quota.number).or_insert_with(|| {
            let records = Share::new(Arc::clone(&quota.records));
            let claims = Share::new(Arc::clone(&quota.claims));
            all.insert(User { number: quota.number, sessions: 0, records, claims })
        });
        self.all[key].sessions += 1;
        key
    }

    /// One session less, which has no claims any more.
    pub(super) fn session_ended(&mut self, key: UserKey) {
        let user = &mut self.all[key];
        user.sessions -= 1;
        if user.sessions == 0 {
            let number = user.number;
            self.by_number.remove(&number);
            self.all.remove(key);
        }
    }

    /// A claim of the user at a record where there are others.
    fn join(&mut self, record: RecordIx, key: UserKey) {
        let at = self.shared.entry((record, key)).or_default();
        at.claims += 1;
        if at.claims == 1 {
            self.all[key].records.take();
        }
    }

    /// The user has one claim less at a record where there still are others.
    fn part(&mut self, record: RecordIx, key: UserKey) {
        let Some(at) = self.shared.get_mut(&(record, key)) else { return };
        at.claims -= 1;
        if at.claims == 0 {
            self.shared.remove(&(record, key));
            self.all[key].records.give_back();
        }
    }

    /// A claim of the user begins to wait, or does so no more.
    pub(super) fn waits(&mut self, record: RecordIx, key: UserKey, begins: bool) {
        if let Some(at) = self.shared.get_mut(&(record, key)) {
            at.waiting = if begins { at.waiting + 1 } else { at.waiting - 1 };
        }
    }
}

impl LockTable {
    /// Keeps a record that is not there; its first claim follows.
    pub(super) fn keep_record(
        &mut self,
        hash: NameHash,
        record: Record,
        group: Group,
        counted: u8,
    ) -> RecordIx {
        self.records.take();
        self.names.insert(hash, record, group, counted)
    }

    /// What may be said against one more claim because of how many there are.
    pub(super) fn check_room(
        &self,
        by: SessionIx,
        found: Option<RecordIx>,
        own: Own,
        upgrade: bool,
    ) -> Result<(), AcquireRefusal> {
        let has_own = own.holding.is_some() || own.waiting.is_some();
        let is_more = upgrade || !has_own;
        if found.is_none() && !self.has_room_for(by, &self.records, |user| &user.records) {
            return Err(AcquireRefusal::TooManyRecords { max: self.records.max() });
        }
        if is_more && !self.has_room_for(by, &self.all_claims, |user| &user.claims) {
            return Err(AcquireRefusal::TooManyAllClaims { max: self.all_claims.max() });
        }
        let Some(key) = self.sessions[by.key()].user else { return Ok(()) };
        let max = self.limits.waiters_per_user;
        if let Some(ix) = found
            && own.waiting.is_none()
            && self.names.get(ix).waiters() as usize >= max
            && self.at_record(ix, key).waiting as usize >= max
        {
            return Err(AcquireRefusal::TooManyUserWaiters { max });
        }
        let is_new = !has_own && found.is_none_or(|ix| self.at_record(ix, key).claims == 0);
        let user = &self.users.all[key];
        if is_more && !user.claims.has_room() {
            return Err(AcquireRefusal::TooManyUserClaims { max: user.claims.max() });
        }
        if is_new && !user.records.has_room() {
            return Err(AcquireRefusal::TooManyUserRecords { max: user.records.max() });
        }
        Ok(())
    }

    /// Whether the server has room for one more of a session. What others have beyond their part,
    /// since they claimed it after a restart, takes no room from users who stay within theirs; but
    /// there is never more than twice the limit.
    fn has_room_for(&self, by: SessionIx, all: &Share, own: fn(&User) -> &Share) -> bool {
        if all.has_room() {
            return true;
        }
        let user = self.sessions[by.key()].user.map(|key| own(&self.users.all[key]));
        if !user.is_some_and(Share::has_room) || !all.has_room_beyond() {
            return false;
        }
        let excess: usize = self.users.all.iter().map(|(_, user)| own(user).excess()).sum();
        all.has_room_with(excess.min(all.max()))
    }

    /// The same for a claim from before a restart: it is let in beyond the limit of its user while
    /// the server has room, and beyond that of the server, up to twice, while its user has room. So
    /// lower limits cost nobody a lock, and a user who claims more than they had keeps out nobody.
    pub(super) fn check_room_again(
        &self,
        by: SessionIx,
        is_known: bool,
    ) -> Result<(), ReassertRefusal> {
        let user = self.sessions[by.key()].user.map(|key| &self.users.all[key]);
        let is_full = |all: &Share, own: Option<&Share>| {
            let beyond = all.has_room_beyond() && own.is_none_or(Share::has_room);
            !all.has_room() && !beyond
        };
        if !is_known && is_full(&self.records, user.map(|user| &user.records)) {
            return Err(ReassertRefusal::TooManyRecords { max: self.records.max() });
        }
        if is_full(&self.all_claims, user.map(|user| &user.claims)) {
            return Err(ReassertRefusal::TooManyAllClaims { max: self.all_claims.max() });
        }
        Ok(())
    }

    /// A claim of this session is about to be in one of the record's lists.
    pub(super) fn count_in(&mut self, ix: RecordIx, by: SessionIx) {
        self.all_claims.take();
        let entry = self.names.get(ix);
        let others = entry.claims();
        if others == 1
            && let Some(first) = self.only_claim(entry)
            && let claim = self.claims.get(first)
            && let Some(key) = self.sessions[claim.session.key()].user
        {
            // It is counted already; from now on also by record.
            let at = AtRecord { claims: 1, waiting: u32::from(!claim.holds()) };
            self.users.shared.insert((ix, key), at);
        }
        let Some(key) = self.sessions[by.key()].user else { return };
        self.users.all[key].claims.take();
        if others == 0 {
            self.users.all[key].records.take();
        } else {
            self.users.join(ix, key);
        }
    }

    /// A claim of this session has been in one of the record's lists, and is in none now.
    pub(super) fn count_out(&mut self, ix: RecordIx, by: SessionIx) {
        self.all_claims.give_back();
        let others = self.names.get(ix).claims();
        if let Some(key) = self.sessions[by.key()].user {
            self.users.all[key].claims.give_back();
            if others == 0 {
                self.users.all[key].records.give_back();
            } else {
                self.users.part(ix, key);
            }
        }
        if others == 1
            && let Some(last) = self.only_claim(self.names.get(ix))
            && let Some(key) = self.sessions[self.claims.get(last).session.key()].user
        {
            self.users.shared.remove(&(ix, key));
        }
    }

    /// The session is this user's, who was not known until now.
    pub(super) fn belongs_to(&mut self, by: SessionIx, quota: &UserQuota) {
        if self.sessions[by.key()].user.is_some() {
            return;
        }
        let key = self.users.session_began(quota);
        self.sessions[by.key()].user = Some(key);
        let claims: Vec<_> = self.claims.of_session(self.sessions[by.key()].claims).collect();
        for at in claims {
            let claim = self.claims.get(at);
            let (ix, waits) = (claim.record, !claim.holds());
            self.users.all[key].claims.take();
            if self.names.get(ix).claims() == 1 {
                self.users.all[key].records.take();
            } else {
                self.users.join(ix, key);
                if waits {
                    self.users.waits(ix, key, true);
                }
            }
        }
    }

    /// What a user has at a record.
    fn at_record(&self, ix: RecordIx, key: UserKey) -> AtRecord {
        let entry = self.names.get(ix);
        if entry.claims() > 1 {
            return self.users.shared.get(&(ix, key)).copied().unwrap_or_default();
        }
        let only = self.only_claim(entry).map(|at| self.claims.get(at));
        let own = only.filter(|claim| self.sessions[claim.session.key()].user == Some(key));
        own.map_or_else(AtRecord::default, |claim| AtRecord {
            claims: 1,
            waiting: u32::from(!claim.holds()),
        })
    }

    /// The claim of a record that has one.
    fn only_claim(&self, entry: &Entry) -> Option<ClaimIx> {
        let firsts = [entry.holders.head, entry.readers.head, entry.writers.head, entry.upgrader];
        firsts.into_iter().find_map(ClaimIx::some)
    }

    /// Q1, Q2. For tests: it looks at everything.
    pub(super) fn check_counts(&self) {
        let mut of_users: BTreeMap<UserKey, (usize, BTreeSet<RecordIx>)> = BTreeMap::new();
        let mut shared: BTreeMap<(RecordIx, UserKey), AtRecord> = BTreeMap::new();
        for (_, session) in &self.sessions {
            let Some(key) = session.user else { continue };
            let (claims, records) = of_users.entry(key).or_default();
            for at in self.claims.of_session(session.claims) {
                let claim = self.claims.get(at);
                *claims += 1;
                records.insert(claim.record);
                if self.names.get(claim.record).claims() > 1 {
                    let at = shared.entry((claim.record, key)).or_default();
                    at.claims += 1;
                    at.waiting += u32::from(!claim.holds());
                }
            }
        }
        assert_eq!(self.users.shared, shared, "Q1");
        assert_eq!(self.records.used(), self.names.len(), "Q2 records");
        assert_eq!(self.all_claims.used(), self.claims.len(), "Q2 claims");
        assert_eq!(of_users.len(), self.users.all.len(), "a user has a session here");
        for (key, (claims, records)) in of_users {
            let user = &self.users.all[key];
            assert_eq!((user.claims.used(), user.records.used()), (claims, records.len()), "Q2");
        }
    }
}
