//! Who serves which group, since which epoch, as far as this node has heard.

use std::collections::BTreeMap;

use crate::ids::ServerId;
use crate::messages::Term;
use crate::slot::{Group, GroupSet};
use crate::time::Tick;
use crate::token::Epoch;

/// What is known about the groups.
#[derive(Clone, Debug, Default)]
pub(super) struct Routes {
    known: BTreeMap<Group, Known>,
    /// Groups that the driver was asked to find.
    missing: GroupSet,
    /// When it is asked again.
    locate_at: Option<Tick>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Where to ask.
    server: Option<ServerId>,
    /// The highest that was heard of; it never falls.
    epoch: Epoch,
    /// Who serves in that epoch.
    owner: Option<ServerId>,
}

/// What a term has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Heard {
    /// The epoch of one of its groups at least was not known.
    pub(super) is_new: bool,
    /// For each of its groups a later epoch is known.
    pub(super) is_late: bool,
    /// Who served one of its groups before, if somebody else.
    pub(super) before: Option<ServerId>,
}

impl Routes {
    pub(super) fn server(&self, group: Group) -> Option<ServerId> {
        self.known.get(&group).and_then(|known| known.server)
    }

    pub(super) fn epoch(&self, group: Group) -> Epoch {
        self.known.get(&group).map_or(Epoch::NONE, |known| known.epoch)
    }

    /// Whether `server` serves the group in this epoch, and nobody in a later one.
    pub(super) fn is_owner(&self, server: ServerId, group: Group, epoch: Epoch) -> bool {
        let known = self.known.get(&group);
        known.is_some_and(|known| known.owner == Some(server) && known.epoch == epoch)
    }

    /// The driver knows where these groups are.
    pub(super) fn set(&mut self, groups: GroupSet, server: ServerId) {
        for group in groups.iter() {
            self.known.entry(group).or_default().server = Some(server);
        }
        self.found();
    }

    /// A server says that it serves these groups; what is known to be older is not believed.
    pub(super) fn hear(&mut self, server: ServerId, term: Term) -> Heard {
        let mut heard = Heard { is_new: false, is_late: true, before: None };
        for group in term.groups.iter() {
            let known = self.known.entry(group).or_default();
            if known.epoch > term.epoch {
                continue;
            }
            heard.is_late = false;
            heard.is_new |= known.epoch < term.epoch;
            heard.before = known.owner.filter(|&owner| owner != server).or(heard.before);
            *known = Known { server: Some(server), epoch: term.epoch, owner: Some(server) };
        }
        self.found();
        heard
    }

    /// `server` does not serve the group.
    pub(super) fn forget(&mut self, group: Group, server: ServerId) {
        if let Some(known) = self.known.get_mut(&group) {
            known.server = known.server.filter(|&other| other != server);
        }
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
