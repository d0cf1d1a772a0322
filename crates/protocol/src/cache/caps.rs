//! Leases that come to their end although the session lives: caps.
//!
//! An extension names its groups. What rests on the session in a group that is not named, or of
//! which a later owner is known, lives out the lease as it stood: it gets a *cap*. The cap goes
//! when the record was re-asserted to the present owner, or when the server of the session names
//! the group again and is its owner. At the end of the cap the grant is lost, and the present owner
//! is told that it is over: it may have heard of it.
//!
//! A grant may come after the extension that did not name its group. It gets the same cap, or is
//! dropped if that is over: see [`Unnamed`].

use std::collections::{BTreeMap, BTreeSet};

use super::ask::Over;
use super::entry::{Entry, Held, Rest};
use super::link::lease_end;
use super::{LeaseId, LockCache, Output};
use crate::bugs::Bug;
use crate::ids::{ServerId, SessionId};
use crate::messages::Term;
use crate::record::Record;
use crate::slot::{Group, GroupSet};
use crate::time::Tick;

/// Names a cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CapId(u32);

/// The groups that the extensions of a session have not named since they named them last, by the
/// end of its lease there. Each group is in one set at most.
#[derive(Clone, Debug, Default)]
pub(super) struct Unnamed(Vec<(GroupSet, Tick)>);

impl Unnamed {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// An extension is for these groups, and in all others the lease stays as it stood.
    pub(super) fn extended(&mut self, groups: GroupSet, stood: Tick) {
        self.clear(groups);
        let known = self.0.iter().fold(groups, |known, (set, _)| known.or(*set));
        let others = GroupSet::ALL.without(known);
        if !others.is_empty() {
            self.0.push((others, stood));
        }
    }

    /// The lease of the session counts in these groups.
    fn clear(&mut self, groups: GroupSet) {
        self.0.retain_mut(|(set, _)| {
            *set = set.without(groups);
            !set.is_empty()
        });
    }

    /// The lease, which ends at `until`, is known to stand in this group up to `end` at least.
    pub(super) fn stands(&mut self, group: Group, end: Tick, until: Tick) {
        if self.end(group).is_some_and(|before| before < end) {
            let group = GroupSet::from_iter([group]);
            self.clear(group);
            match self.0.iter_mut().find(|(_, other)| *other == end) {
                _ if end >= until => {}
                Some((set, _)) => *set = set.or(group),
                None => self.0.push((group, end)),
            }
        }
    }

    /// When the lease of the session ends in this group, if that is earlier than elsewhere.
    pub(super) fn end(&self, group: Group) -> Option<Tick> {
        self.0.iter().find(|(set, _)| set.contains(group)).map(|&(_, end)| end)
    }
}

/// The caps of a node. One may be there that nothing has any more; it goes with its time.
#[derive(Clone, Debug, Default)]
pub(super) struct Caps {
    ends: BTreeMap<CapId, Tick>,
    last: u32,
}

impl Caps {
    fn add(&mut self, until: Tick) -> CapId {
        self.last = self.last.wrapping_add(1);
        let id = CapId(self.last);
        self.ends.insert(id, until);
        id
    }

    pub(super) fn end(&self, cap: CapId) -> Option<Tick> {
        self.ends.get(&cap).copied()
    }

    pub(super) fn end_of(&self, number: u32) -> Option<Tick> {
        self.end(CapId(number))
    }

    pub(super) fn next_end(&self) -> Option<Tick> {
        self.ends.values().min().copied()
    }
}

impl LockCache {
    /// On which lease a grant rests, for the driver.
    pub(super) fn lease_of(held: Held) -> LeaseId {
        held.cap.map_or(LeaseId::Server(held.rest.server), |CapId(cap)| LeaseId::Ending(cap))
    }

    /// When the lease ends that a grant rests on; none if there is no such lease.
    pub(super) fn end_of(&self, held: Held) -> Option<Tick> {
        match held.cap {
            Some(cap) => self.caps.end(cap),
            None => {
                let link = self.links.open(held.rest.server)?;
                (link.session == held.rest.session).then_some(link.until)
            }
        }
    }

    /// What rests on this session in these groups ends at `until`, and not later.
    pub(super) fn cap(
        &mut self,
        session: SessionId,
        groups: GroupSet,
        until: Tick,
        out: &mut Vec<Output>,
    ) {
        let is_capped = |entry: &Entry| {
            entry.held.is_some_and(|held| held.cap.is_none() && held.rest.session == session)
        };
        let records = self.records.which_in(groups, |_, entry| is_capped(entry));
        if records.is_empty() {
            return;
        }
        let cap = self.new_cap(until, out);
        for record in records {
            self.set_cap(&record, Some(cap), out);
        }
    }

    fn new_cap(&mut self, until: Tick, out: &mut Vec<Output>) -> CapId {
        let cap = self.caps.add(until);
        out.push(Output::Lease { lease: LeaseId::Ending(cap.0), until });
        cap
    }

    /// A cap that ends then: one that there is, or a new one.
    pub(super) fn cap_until(&mut self, until: Tick, out: &mut Vec<Output>) -> CapId {
        let known = self.caps.ends.iter().find(|&(_, &end)| end == until).map(|(&cap, _)| cap);
        known.unwrap_or_else(|| self.new_cap(until, out))
    }

    /// The server of this session is the owner of these groups and has extended the session there:
    /// what rests on it lives on.
    pub(super) fn lift_caps(
        &mut self,
        (server, session): (ServerId, SessionId),
        groups: GroupSet,
        out: &mut Vec<Output>,
    ) {
        if self.caps.ends.is_empty() {
            return;
        }
        let is_lifted = |record: &Record, entry: &Entry| {
            let held = entry.held.filter(|held| held.rest.session == session);
            held.is_some_and(|held| held.cap.is_some())
                && self.routes.owner(record.group()) == Some(server)
        };
        for record in self.records.which_in(groups, is_lifted) {
            self.set_cap(&record, None, out);
        }
    }

    /// The cap of a grant by this server: none, unless the lease ends earlier in its group.
    pub(super) fn cap_of_unnamed(
        &mut self,
        server: ServerId,
        record: &Record,
        out: &mut Vec<Output>,
    ) -> Option<CapId> {
        let end = self.unnamed_end(server, record)?;
        Some(self.cap_until(end, out))
    }

    /// `server` has said something about its term in these groups: it was their owner at some time
    /// since the node first heard of that term. What an extension does not name stands for a lease
    /// from then, and not from when the answer came: it may have been long on its way.
    pub(super) fn owner_proven(&mut self, server: ServerId, term: Term) {
        let Some(link) = self.links.get_mut(server).filter(|link| !link.unnamed.is_empty()) else {
            return;
        };
        let until = link.until;
        // What is known of a later epoch says nothing about this one.
        let is_of = |group: &Group| self.routes.is_owner(server, *group, term.epoch);
        for group in term.groups.iter().filter(is_of) {
            let since = self.routes.since(group);
            let is_late = self.config.bugs.has(Bug::RecoveredExtends);
            let end = if is_late { until } else { lease_end(&self.config, since, since) };
            link.unnamed.stands(group, end, until);
        }
    }

    /// Whether something in these groups lives out an earlier lease, is not being told to `server`,
    /// which owns it, and should be: what has told of the term was lost.
    pub(super) fn is_untold(&self, server: ServerId, groups: GroupSet) -> bool {
        let is_untold = |(record, entry): (&Record, &Entry)| {
            let held = entry.held.filter(|held| held.cap.is_some());
            let group = record.group();
            held.is_some_and(|held| held.rest.epoch < self.routes.epoch(group))
                && self.routes.owner(group) == Some(server)
                && !self.is_recovering(record)
        };
        !self.caps.ends.is_empty() && self.records.iter_in(groups).any(is_untold)
    }

    /// All that was told to this server in the term has arrived. A grant of the term itself may
    /// have overtaken the answer, and got the cap of its group: it has as much of the lease as if
    /// it had come after the answer.
    pub(super) fn lift_caps_of_term(
        &mut self,
        server: ServerId,
        term: Term,
        out: &mut Vec<Output>,
    ) {
        let Some(session) = self.links.open(server).map(|link| link.session) else { return };
        let is_lifted = |record: &Record, entry: &Entry| {
            let held = entry.held.filter(|held| held.cap.is_some());
            held.is_some_and(|held| held.rest == Rest { server, session, epoch: term.epoch })
                // It may have left the group since, and be its owner again in a later epoch.
                && self.routes.is_owner(server, record.group(), term.epoch)
        };
        for record in self.records.which_in(term.groups, is_lifted) {
            let cap = self.cap_of_unnamed(server, &record, out);
            self.set_cap(&record, cap, out);
        }
    }

    fn set_cap(&mut self, record: &Record, cap: Option<CapId>, out: &mut Vec<Output>) {
        let held = self.records.get_mut(record).and_then(|entry| entry.held.as_mut());
        if let Some(held) = held {
            held.cap = cap;
            let lease = Self::lease_of(*held);
            out.push(Output::Rests { record: record.clone(), lease });
        }
    }

    /// Forgets caps that nothing has any more. If there were some, the driver is told of the lease
    /// again that goes on.
    pub(super) fn prune_caps(&mut self, server: ServerId, out: &mut Vec<Output>) {
        if self.drop_unused_caps()
            && let Some(until) = self.lease_until(server)
        {
            out.push(Output::Lease { lease: LeaseId::Server(server), until });
        }
    }

    /// Forgets caps that nothing has any more. Whether there were some.
    pub(super) fn drop_unused_caps(&mut self) -> bool {
        if self.caps.ends.is_empty() {
            return false;
        }
        let used: BTreeSet<_> =
            self.records.iter().filter_map(|(_, entry)| entry.held?.cap).collect();
        let before = self.caps.ends.len();
        self.caps.ends.retain(|cap, _| used.contains(cap));
        self.caps.ends.len() < before
    }

    /// For drivers that keep one end for all records: these leases go on.
    pub(super) fn say_leases(&self, out: &mut Vec<Output>) {
        let open = self.links.iter().filter(|(_, link)| link.is_open);
        out.extend(open.map(|(server, link)| Output::Lease {
            lease: LeaseId::Server(server),
            until: link.until,
        }));
    }

    /// Ends what has lived out its lease.
    pub(super) fn end_caps(&mut self, now: Tick, out: &mut Vec<Output>) {
        while let Some((&cap, _)) = self.caps.ends.iter().find(|&(_, &until)| until <= now) {
            self.caps.ends.remove(&cap);
            let is_over = |entry: &Entry| entry.held.is_some_and(|held| held.cap == Some(cap));
            let over = self.records.which(|_, entry| is_over(entry));
            for record in &over {
                let Some(held) = self.held(record) else { continue };
                self.lose(record, out);
                self.end(held.rest.server, record, Over::release(held.seq, None), out);
            }
            for record in &over {
                self.advance(now, record, out);
            }
            self.say_leases(out);
        }
    }
}
