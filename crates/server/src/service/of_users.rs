//! What each user has: a number of sessions, and the limits that the tables share for them.

use std::collections::HashMap;
use std::sync::Arc;

use lockspan_protocol::server::{Budget, UserQuota};

use crate::config::CLAIMS_PER_RECORD;

/// What one user may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PerUser {
    pub(crate) sessions: usize,
    pub(crate) records: usize,
}

/// The users with a session.
#[derive(Debug)]
pub(super) struct OfUsers {
    per_user: PerUser,
    tables: usize,
    /// The number of the user that came last.
    last: u32,
    all: HashMap<Arc<str>, OfUser>,
}

#[derive(Debug)]
struct OfUser {
    sessions: usize,
    quota: Arc<UserQuota>,
}

impl OfUsers {
    pub(super) fn new(tables: usize) -> Self {
        let per_user = PerUser { sessions: usize::MAX, records: usize::MAX };
        Self { per_user, tables, last: 0, all: HashMap::new() }
    }

    /// So much may one user have. For a server that has no session yet.
    pub(super) fn allow(&mut self, per_user: PerUser) {
        self.per_user = per_user;
    }

    /// How many sessions a user may have, if this one has as many.
    pub(super) fn is_full(&self, user: &Arc<str>) -> Option<usize> {
        let max = self.per_user.sessions;
        self.all.get(user).filter(|user| user.sessions >= max).map(|_| max)
    }

    /// A session is this user's from now on.
    pub(super) fn one_more(&mut self, user: &Arc<str>) {
        let Self { per_user, tables, last, all } = self;
        let user = all.entry(Arc::clone(user)).or_insert_with(|| {
            // Those who are there have other numbers, unless there were 2^32 since.
            *last = last.wrapping_add(1);
            let records = Budget::new(per_user.records, *tables);
            let claims = per_user.records.saturating_mul(CLAIMS_PER_RECORD);
            let quota = UserQuota::new(*last, records, Budget::new(claims, *tables));
            OfUser { sessions: 0, quota }
        });
        user.sessions += 1;
    }

    /// A session of this user is over.
    pub(super) fn one_less(&mut self, user: &Arc<str>) {
        if let Some(known) = self.all.get_mut(user) {
            known.sessions -= 1;
            if known.sessions == 0 {
                self.all.remove(user);
            }
        }
    }

    /// What the sessions of this user may have together.
    pub(super) fn quota(&self, user: &Arc<str>) -> Option<Arc<UserQuota>> {
        self.all.get(user).map(|user| Arc::clone(&user.quota))
    }
}
