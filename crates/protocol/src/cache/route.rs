//! Who serves which group, since which epoch, as far as this node has heard.

use std::fmt;
use std::ops::{Index, IndexMut};

use crate::ids::ServerId;
use crate::messages::Term;
use crate::slot::{GROUPS, Group, GroupSet};
use crate::time::Tick;
use crate::token::Epoch;

/// What is known about the groups.
#[derive(Clone, Debug, Default)]
pub(super) struct Routes {
    known: Groups,
    /// Groups of which an owner was heard.
    owned: GroupSet,
    /// Who owns all of these; none if they have several owners, or had.
    sole: Option<ServerId>,
    /// Groups that the driver was asked to find.
    missing: GroupSet,
    /// When it is asked again.
    locate_at: Option<Tick>,
}

/// What is known about each group.
#[derive(Clone)]
struct Groups(Box<[Known; GROUPS]>);

impl Default for Groups {
    fn default() -> Self {
        Self(Box::new([Known::default(); GROUPS]))
    }
}

impl Index<Group> for Groups {
    type Output = Known;

    fn index(&self, group: Group) -> &Known {
        &self.0[usize::from(group.0)]
    }
}

impl IndexMut<Group> for Groups {
    fn index_mut(&mut self, group: Group) -> &mut Known {
        &mut self.0[usize::from(group.0)]
    }
}

impl fmt::Debug for Groups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.0.iter().enumerate().filter(|(_, known)| **known != Known::default());
        f.debug_map().entries(known).finish()
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Known {
    /// Where to ask.
    server: Option<ServerId>,
    /// The highest that was heard of; it never falls.
    epoch: Epoch,
    /// Who serves in that epoch.
    owner: Option<ServerId>,
    /// When that epoch was first heard of.
    since: Tick,
    /// This server has said that it gives the group up. It is not asked again before it says that
    /// it serves it, or some time has passed: who is asked where the group is may not know yet.
    left_by: Option<(ServerId, Tick)>,
}

/// What a term has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Heard {
    /// The epoch of one of its groups at least was not known.
    pub(super) is_new: bool,
    /// For each of its groups a later epoch is known.
    pub(super) is_late: bool,
}

impl Routes {
    pub(super) fn server(&self, group: Group) -> Option<ServerId> {
        self.known[group].server
    }

    pub(super) fn epoch(&self, group: Group) -> Epoch {
        self.known[group].epoch
    }

    /// Whether `server` serves the group in this epoch, and nobody in a later one.
    pub(super) fn is_owner(&self, server: ServerId, group: Group, epoch: Epoch) -> bool {
        let known = &self.known[group];
        known.owner == Some(server) && known.epoch == epoch
    }

    /// Who serves the group in the last epoch that is known.
    pub(super) fn owner(&self, group: Group) -> Option<ServerId> {
        self.known[group].owner
    }

    /// When this node first heard of the last epoch that is known. What the owner answers about
    /// that epoch was said later.
    pub(super) fn since(&self, group: Group) -> Tick {
        self.known[group].since
    }

    /// Whether another server is known to serve the group, in a later epoch than `server` did.
    pub(super) fn is_replaced(&self, server: ServerId, group: Group) -> bool {
        self.known[group].owner.is_some_and(|owner| owner != server)
    }

    /// Whether another epoch is known of every one of these groups, later than that of the term.
    pub(super) fn is_over(&self, term: Term) -> bool {
        term.groups.iter().all(|group| self.known[group].epoch > term.epoch)
    }

    /// Those groups of the term of which no later epoch is known.
    pub(super) fn present(&self, term: Term) -> GroupSet {
        term.groups.iter().filter(|&group| self.known[group].epoch <= term.epoch).collect()
    }

    /// Those of the groups that have no other owner than `server`, as far as is known.
    pub(super) fn not_replaced(&self, server: ServerId, groups: GroupSet) -> GroupSet {
        let by_group = || groups.iter().filter(|&group| !self.is_replaced(server, group)).collect();
        if self.sole == Some(server) || self.owned.is_empty() {
            debug_assert_eq!(groups, by_group());
            return groups;
        }
        by_group()
    }

    /// Those of the groups that `server` does not own, as far as is known.
    pub(super) fn not_owned(&self, server: ServerId, groups: GroupSet) -> GroupSet {
        let by_group =
            || groups.iter().filter(|&group| self.owner(group) != Some(server)).collect();
        if self.sole == Some(server) {
            let others = groups.without(self.owned);
            debug_assert_eq!(others, by_group());
            return others;
        }
        by_group()
    }

    /// The driver knows where these groups are.
    pub(super) fn set(&mut self, now: Tick, groups: GroupSet, server: ServerId) {
        for group in groups.iter() {
            let known = &mut self.known[group];
            if known.left_by.is_none_or(|(left, until)| left != server || until <= now) {
                known.server = Some(server);
            }
        }
        self.found();
    }

    /// `server` gives these groups up, and is not asked again before `until`.
    pub(super) fn leave(&mut self, groups: GroupSet, server: ServerId, until: Tick) {
        for group in groups.iter() {
            self.forget(group, server);
            self.known[group].left_by = Some((server, until));
        }
    }

    /// A server says that it serves these groups; what is known to be older is not believed.
    pub(super) fn hear(&mut self, now: Tick, server: ServerId, term: Term) -> Heard {
        let mut heard = Heard { is_new: false, is_late: true };
        for group in term.groups.iter() {
            let known = &mut self.known[group];
            if known.epoch > term.epoch {
                continue;
            }
            heard.is_late = false;
            self.sole = Some(server).filter(|_| self.owned.is_empty() || self.sole == Some(server));
            self.owned.insert(group);
            heard.is_new |= known.epoch < term.epoch;
            let (epoch, owner) = (term.epoch, Some(server));
            // A server that has left a group in this epoch does not serve it any more.
            let left_by = known.left_by.filter(|_| known.epoch == epoch && known.owner == owner);
            let is_left = left_by.is_some_and(|(left, _)| left == server);
            let server = if is_left { known.server } else { owner };
            let since = if known.epoch < epoch { now } else { known.since };
            *known = Known { server, epoch, owner, since, left_by };
        }
        self.found();
        heard
    }

    /// `server` does not serve the group.
    pub(super) fn forget(&mut self, group: Group, server: ServerId) {
        self.known[group].server.take_if(|other| *other == server);
    }

    /// Whether the driver has to be asked where this group is; it is asked once in `resend`.
    pub(super) fn miss(&mut self, group: Group, again_at: Tick) -> bool {
        let is_new = !self.missing.contains(group);
        self.missing.insert(group);
        self.locate_at.get_or_insert(again_at);
        is_new
    }

    /// The driver is asked again, for these groups.
    pub(super) fn miss_again(&mut self, groups: GroupSet, again_at: Tick) {
        self.missing = groups;
        self.locate_at = (!groups.is_empty()).then_some(again_at);
    }

    pub(super) fn missing(&self) -> GroupSet {
        self.missing
    }

    pub(super) fn locate_at(&self) -> Option<Tick> {
        self.locate_at
    }

    /// Those groups are missing no more that have a server now.
    fn found(&mut self) {
        self.missing = self.missing.iter().filter(|&group| self.server(group).is_none()).collect();
        if self.missing.is_empty() {
            self.locate_at = None;
        }
    }
}
