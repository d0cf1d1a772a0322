//! Groups that are given up: for another server, or to be taken again in a later epoch.

use std::collections::{BTreeSet, VecDeque};

use super::{Output, Pending, Registry, RegistryOutput, State};
use crate::bugs::Bug;
use crate::ids::{SessionId, StoreId};
use crate::messages::{Client, ToNode};
use crate::slot::GroupSet;

/// Groups that are left, and the marks that have to be durable before somebody else takes them.
#[derive(Clone, Debug)]
pub(super) struct Leaving {
    pub(super) groups: GroupSet,
    pub(super) marks: BTreeSet<StoreId>,
}

impl Registry {
    /// Serve these groups no more. If another server is to have them, [`Registry::hand_on`]
    /// follows. The sessions of this server that have yet to re-assert there: what they have is not
    /// known to the tables.
    pub fn leave(&mut self, groups: GroupSet) -> BTreeSet<SessionId> {
        let unheard = self.yet_to_reassert(groups);
        for term in &mut self.terms {
            term.groups = term.groups.without(groups);
        }
        self.terms.retain(|term| !term.groups.is_empty());
        self.formers.leave(groups);
        self.taking = self.taking.without(groups);
        for pending in self.stores.values_mut() {
            if let Pending::Epoch { terms, .. } = pending {
                terms.iter_mut().for_each(|term| term.groups = term.groups.without(groups));
                terms.retain(|term| !term.groups.is_empty());
            }
        }
        unheard
    }

    /// The sessions of this server that these groups wait for, or will when their epoch is durable.
    fn yet_to_reassert(&self, groups: GroupSet) -> BTreeSet<SessionId> {
        let mut unheard = self.formers.own_unheard_in(groups);
        for pending in self.stores.values() {
            if let Pending::Epoch { terms, listed } = pending
                && terms.iter().any(|term| !term.groups.and(groups).is_empty())
            {
                unheard.extend(listed.iter().filter(|one| one.here).map(|one| one.session));
            }
        }
        unheard
    }

    /// Another server is to have these groups. Those that have something there, `concerned`, are
    /// told. What a node has there is not extended any more, since no extension names the groups;
    /// a stranger's session is not extended at all. When that is durable, [`Output::Left`] follows.
    pub fn hand_on(
        &mut self,
        groups: GroupSet,
        concerned: &BTreeSet<SessionId>,
        out: &mut VecDeque<RegistryOutput>,
    ) {
        let is_durable = !self.limits.bugs.has(Bug::LeaveNotStored);
        let mut marks = Vec::new();
        for &session in concerned {
            let Some(known) = self.sessions.get_mut(&session) else { continue };
            if matches!(known.state, State::Ending | State::Over) {
                continue;
            }
            if known.client == Client::Stranger && !known.is_last {
                known.is_last = true;
                marks.push(known.stored(session));
            }
            if known.state != State::Listed {
                self.send(session, ToNode::Moved { groups }, out);
            }
        }
        for mark in marks.into_iter().filter(|_| is_durable) {
            self.store(Pending::Mark, mark, out);
        }
        // Those too that groups left before have to wait for.
        let marks = self.stores.iter().filter(|(_, pending)| matches!(pending, Pending::Mark));
        let marks = marks.map(|(&store, _)| store).collect();
        self.leaving.push(Leaving { groups, marks });
        self.say_left(out);
    }

    /// Stores an open session again, because of something that the driver keeps with it. Whether
    /// there is one.
    pub fn store_again(&mut self, session: SessionId, out: &mut VecDeque<RegistryOutput>) -> bool {
        let known = self.sessions.get(&session).filter(|it| it.state == State::Open);
        let Some(what) = known.map(|known| known.stored(session)) else { return false };
        self.store(Pending::Mark, what, out);
        true
    }

    /// R4 holds for groups of which all marks are durable.
    pub(super) fn say_left(&mut self, out: &mut VecDeque<RegistryOutput>) {
        for Leaving { groups, .. } in self.leaving.extract_if(.., |one| one.marks.is_empty()) {
            out.push_back(RegistryOutput::Out(Output::Left { groups }));
        }
    }
}
