//! Who waits for whom, over all tables of a server: finds circles and says who is to be refused.
//!
//! Only what names owners is here. The tables tell [`Fact`]s; a fact that closes a circle is
//! answered by [`Victim`]s: of the waiting acquires in each circle the youngest, by their arrival
//! here.
//!
//! An owner is blocked, through an acquire of its own that waits,
//! - by the reported owners of every grant of the record that excludes the wish;
//! - by the owners of those who go before it, in the phase-fair order: an upgrader goes before all;
//!   a reader waits for the first writer in line if readers hold the record, and for none if a
//!   writer does; a writer waits for the writer before it; the readers in line go before the first
//!   writer if a writer holds the record, and before the second in any case. Others follow from
//!   these;
//!
//! and, through a wait on its own node, by the owner that the node named. An owner that waits on
//! one node for what it holds on another is a circle too.
//!
//! Where a server has users, each of them numbers owners as they like: an owner is a number within
//! a [`Scope`], and facts of different scopes never name the same one.
//!
//! Before a fact is taken in there is no circle, so a new one goes through an owner that the fact
//! names: one depth-first search from these finds it, in the time of the part of the graph that
//! they reach, and in a bounded number of steps.

use std::collections::{BTreeMap, BTreeSet};

use super::LOOKED;
use crate::ids::{Owner, Seq, SessionId};
use crate::messages::LocalWait;
use crate::mode::Mode;
use crate::record::Record;
use crate::token::Ticket;

/// What a table has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// An acquire waits; again: its owners have changed.
    Waits {
        /// Whose session.
        session: SessionId,
        /// Which acquire.
        seq: Seq,
        /// For what.
        record: Record,
        /// How.
        mode: Mode,
        /// Its place in line.
        ticket: Ticket,
        /// It is at the head of the line, with a read in hand.
        upgrade: bool,
        /// Who waits.
        owners: Vec<Owner>,
    },
    /// A node has reported who holds what was revoked.
    Holds {
        /// Whose session.
        session: SessionId,
        /// Which grant.
        seq: Seq,
        /// Of what.
        record: Record,
        /// How.
        mode: Mode,
        /// Of the report: an earlier one does not replace a later one.
        number: u64,
        /// Who holds it.
        holders: Vec<Owner>,
        /// Whom they wait for on their node.
        waits: Vec<LocalWait>,
    },
    /// The wait or the grant with this number is over.
    Gone {
        /// Whose session.
        session: SessionId,
        /// Which.
        seq: Seq,
    },
}

/// A waiting acquire that is to be refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Victim {
    /// Whose session.
    pub session: SessionId,
    /// Which acquire.
    pub seq: Seq,
    /// What it waits for.
    pub record: Record,
    /// Each waits for the next, the last for the first.
    pub cycle: Vec<Owner>,
}

/// An acquire that waits, or a grant whose owners were reported, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnersView {
    /// Whose session.
    pub session: SessionId,
    /// At which record.
    pub record: Record,
    /// It waits; otherwise it holds.
    pub waits: bool,
    /// Who.
    pub owners: Vec<Owner>,
}

/// Within which an owner's number means one and the same owner: a user's sessions. Where there are
/// no users, all are in one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope(pub u64);

type Key = (SessionId, Seq);

/// An owner, among those of all scopes.
type Who = (Scope, Owner);

#[derive(Clone, Debug)]
struct Wait {
    record: Record,
    mode: Mode,
    ticket: Ticket,
    upgrade: bool,
    owners: Vec<Who>,
    /// Arrival here; the greatest is the youngest.
    age: u64,
}

#[derive(Clone, Debug)]
struct Hold {
    record: Record,
    mode: Mode,
    number: u64,
    holders: Vec<Who>,
    waits: Vec<Local>,
}

/// A wait on a node.
#[derive(Clone, Copy, Debug)]
struct Local {
    waiter: Who,
    holder: Who,
}

/// What is known of one record.
#[derive(Clone, Debug, Default)]
struct At {
    writers: BTreeSet<(Ticket, Key)>,
    readers: BTreeSet<(Ticket, Key)>,
    upgraders: BTreeSet<Key>,
    holds: BTreeSet<Key>,
}

/// The waits-for graph of a server.
#[derive(Clone, Debug)]
pub struct WaitGraph {
    waits: BTreeMap<Key, Wait>,
    holds: BTreeMap<Key, Hold>,
    /// The line and the holds of each record.
    at: BTreeMap<Record, At>,
    /// The waits of each owner.
    waits_of: BTreeMap<Who, BTreeSet<Key>>,
    /// The holds whose reports name local waits of each owner.
    reports_of: BTreeMap<Who, BTreeSet<Key>>,
    arrivals: u64,
    steps_max: usize,
}

/// Why one owner waits for another.
#[derive(Clone, Copy, Debug)]
struct Step {
    owner: Who,
    /// The waiting acquire, unless it waits on its node.
    wait: Option<Key>,
}

impl WaitGraph {
    /// A graph whose searches take at most this many steps; one that needs more finds nothing.
    #[must_use]
    pub fn new(steps_max: usize) -> Self {
        Self {
            waits: BTreeMap::new(),
            holds: BTreeMap::new(),
            at: BTreeMap::new(),
            waits_of: BTreeMap::new(),
            reports_of: BTreeMap::new(),
            arrivals: 0,
            steps_max,
        }
    }

    /// Whether nobody waits or holds.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waits.is_empty() && self.holds.is_empty()
    }

    /// Takes in a fact, where all owners are in one scope. For each circle that it closes somebody
    /// is to be refused, and is forgotten here at once.
    pub fn handle(&mut self, fact: Fact) -> Vec<Victim> {
        self.handle_in(Scope::default(), fact)
    }

    /// The same for a fact whose owners are in this scope.
    pub fn handle_in(&mut self, scope: Scope, fact: Fact) -> Vec<Victim> {
        let in_scope = |owners: Vec<Owner>| -> Vec<Who> {
            owners.into_iter().map(|owner| (scope, owner)).collect()
        };
        match fact {
            Fact::Gone { session, seq } => {
                self.remove((session, seq));
                Vec::new()
            }
            Fact::Waits { session, seq, record, mode, ticket, upgrade, owners } => {
                let (key, owners) = ((session, seq), in_scope(owners));
                let known = self.waits.get(&key).map(|wait| wait.age);
                self.remove(key);
                self.arrivals += 1;
                let age = known.unwrap_or(self.arrivals);
                for &owner in &owners {
                    self.waits_of.entry(owner).or_default().insert(key);
                }
                let at = self.at.entry(record.clone()).or_default();
                match (upgrade, mode) {
                    (true, _) => at.upgraders.insert(key),
                    (false, Mode::Write) => at.writers.insert((ticket, key)),
                    (false, Mode::Read) => at.readers.insert((ticket, key)),
                };
                let wait = Wait { record, mode, ticket, upgrade, owners: owners.clone(), age };
                self.waits.insert(key, wait);
                self.break_circles(&owners)
            }
            Fact::Holds { session, seq, record, mode, number, holders, waits } => {
                let key = (session, seq);
                if self.holds.get(&key).is_some_and(|hold| hold.number >= number) {
                    return Vec::new();
                }
                self.remove(key);
                let local = |LocalWait { waiter, holder }| Local {
                    waiter: (scope, waiter),
                    holder: (scope, holder),
                };
                let waits: Vec<_> = waits.into_iter().map(local).collect();
                let holders = in_scope(holders);
                for wait in &waits {
                    self.reports_of.entry(wait.waiter).or_default().insert(key);
                }
                self.at.entry(record.clone()).or_default().holds.insert(key);
                let waiters = waits.iter().map(|wait| wait.waiter);
                let starts: Vec<_> = holders.iter().copied().chain(waiters).collect();
                self.holds.insert(key, Hold { record, mode, number, holders, waits });
                self.break_circles(&starts)
            }
        }
    }

    /// Whose owners are known: of the waits and of the grants at most `count` each, if they `may`
    /// be shown. Not all are looked at, if there are many.
    #[must_use]
    pub fn owners(&self, count: usize, may: impl Fn(&Record) -> bool) -> Vec<OwnersView> {
        let view = |session, record: &Record, waits, owners: &[Who]| {
            let owners = owners.iter().map(|&(_, owner)| owner).collect();
            let record = record.clone();
            OwnersView { session, record, waits, owners }
        };
        let waits = self.waits.iter().take(LOOKED * count);
        let waits = waits.filter(|(_, it)| may(&it.record)).take(count);
        let waits = waits.map(|(key, it)| view(key.0, &it.record, true, &it.owners));
        let holds = self.holds.iter().take(LOOKED * count);
        let holds = holds.filter(|(_, it)| may(&it.record)).take(count);
        let holds = holds.map(|(key, it)| view(key.0, &it.record, false, &it.holders));
        waits.chain(holds).collect()
    }

    /// Finds victims until there is no circle through any of these.
    fn break_circles(&mut self, starts: &[Who]) -> Vec<Victim> {
        let mut victims = Vec::new();
        let mut budget = self.steps_max;
        while let Some(victim) = self.search(starts, &mut budget) {
            self.remove((victim.session, victim.seq));
            victims.push(victim);
        }
        victims
    }

    fn remove(&mut self, key: Key) {
        let (record, ticket) = if let Some(wait) = self.waits.remove(&key) {
            for owner in wait.owners {
                forget(&mut self.waits_of, &owner, key);
            }
            (wait.record, Some(wait.ticket))
        } else if let Some(hold) = self.holds.remove(&key) {
            for wait in hold.waits {
                forget(&mut self.reports_of, &wait.waiter, key);
            }
            (hold.record, None)
        } else {
            return;
        };
        if let Some(at) = self.at.get_mut(&record) {
            at.upgraders.remove(&key);
            at.holds.remove(&key);
            if let Some(ticket) = ticket {
                at.writers.remove(&(ticket, key));
                at.readers.remove(&(ticket, key));
            }
            let line = at.writers.is_empty() && at.readers.is_empty() && at.upgraders.is_empty();
            if line && at.holds.is_empty() {
                self.at.remove(&record);
            }
        }
    }

    /// Looks for a circle that is reached from `starts`, depth first, and picks the one to be
    /// refused.
    fn search(&self, starts: &[Who], budget: &mut usize) -> Option<Victim> {
        let mut seen = BTreeSet::new();
        for &start in starts {
            if !seen.insert(start) {
                continue;
            }
            // The path so far; beside each owner, those that it waits for and that were not tried
            // yet.
            let first = Step { owner: start, wait: None };
            let mut path = vec![(first, self.blockers(start, budget)?)];
            while let Some((_, rest)) = path.last_mut() {
                let Some(next) = rest.pop() else {
                    path.pop();
                    continue;
                };
                if let Some(from) = path.iter().position(|(step, _)| step.owner == next.owner) {
                    let circle = &path[from..];
                    let why = circle.iter().skip(1).map(|(step, _)| step.wait).chain([next.wait]);
                    let cycle = circle.iter().map(|(step, _)| step.owner.1).collect();
                    // A circle of local waits alone is its node's business.
                    if let Some(victim) = self.victim(why.flatten(), cycle) {
                        return Some(victim);
                    }
                } else if seen.insert(next.owner) {
                    let blockers = self.blockers(next.owner, budget)?;
                    path.push((next, blockers));
                }
            }
        }
        None
    }

    fn victim(&self, waits: impl Iterator<Item = Key>, cycle: Vec<Owner>) -> Option<Victim> {
        let (session, seq) = waits.max_by_key(|key| self.waits[key].age)?;
        let record = self.waits[&(session, seq)].record.clone();
        Some(Victim { session, seq, record, cycle })
    }

    /// Whom an owner waits for, and why; nothing if there are no steps left to find out.
    fn blockers(&self, owner: Who, budget: &mut usize) -> Option<Vec<Step>> {
        let mut found = Vec::new();
        for &key in self.waits_of.get(&owner).into_iter().flatten() {
            let wait = &self.waits[&key];
            let at = &self.at[&wait.record];
            let holds = at.holds.iter().map(|other| (other, &self.holds[other]));
            for (_, hold) in holds.filter(|(other, _)| other.0 != key.0) {
                if wait.mode.conflicts(hold.mode) {
                    found.extend(hold.holders.iter().map(|&owner| Step { owner, wait: Some(key) }));
                    *budget = budget.checked_sub(hold.holders.len() + 1)?;
                }
            }
            for ahead in self.ahead(key, wait, at) {
                *budget = budget.checked_sub(ahead.owners.len() + 1)?;
                let others = ahead.owners.iter().filter(|&&other| other != owner);
                found.extend(others.map(|&owner| Step { owner, wait: Some(key) }));
            }
        }
        for key in self.reports_of.get(&owner).into_iter().flatten() {
            let local = self.holds[key].waits.iter().filter(|wait| wait.waiter == owner);
            found.extend(local.map(|wait| Step { owner: wait.holder, wait: None }));
            *budget = budget.checked_sub(self.holds[key].waits.len() + 1)?;
        }
        Some(found)
    }

    /// Those in line who go before `wait`, as far as the others do not follow from them.
    fn ahead<'a>(&'a self, key: Key, wait: &'a Wait, at: &'a At) -> Vec<&'a Wait> {
        let upgraders = at.upgraders.iter().filter(|&&other| other != key);
        let mut found: Vec<_> = upgraders.map(|other| &self.waits[other]).collect();
        if wait.upgrade {
            return found;
        }
        let held = |mode| at.holds.iter().any(|other| self.holds[other].mode == mode);
        if wait.mode == Mode::Read {
            let first = at.writers.first().filter(|_| held(Mode::Read) && !held(Mode::Write));
            found.extend(first.map(|(_, other)| &self.waits[other]));
            return found;
        }
        let before = || at.writers.range(..(wait.ticket, key)).rev();
        for (_, other) in before() {
            let other = &self.waits[other];
            found.push(other);
            // One of the same owner blocks it no more than itself.
            if other.owners.iter().any(|owner| !wait.owners.contains(owner)) {
                break;
            }
        }
        let place = before().take(2).count();
        if place == 1 || (place == 0 && held(Mode::Write)) {
            found.extend(at.readers.iter().map(|(_, other)| &self.waits[other]));
        }
        found
    }
}

fn forget<K: Ord>(index: &mut BTreeMap<K, BTreeSet<Key>>, from: &K, key: Key) {
    if let Some(keys) = index.get_mut(from) {
        keys.remove(&key);
        if keys.is_empty() {
            index.remove(from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::Epoch;

    const T1: Owner = Owner(1);
    const T2: Owner = Owner(2);
    const T3: Owner = Owner(3);

    fn record(id: &str) -> Record {
        Record::new("r", id).unwrap()
    }

    fn waits(session: u64, id: &str, owner: Owner) -> Fact {
        Fact::Waits {
            session: SessionId(session),
            seq: Seq(session * 10),
            record: record(id),
            mode: Mode::Write,
            ticket: Ticket::new(Epoch::NONE, session).unwrap(),
            upgrade: false,
            owners: vec![owner],
        }
    }

    fn holds(session: u64, id: &str, owner: Owner, local: &[(Owner, Owner)]) -> Fact {
        let waits = local.iter().map(|&(waiter, holder)| LocalWait { waiter, holder }).collect();
        Fact::Holds {
            session: SessionId(session),
            seq: Seq(1),
            record: record(id),
            mode: Mode::Write,
            number: 1,
            holders: vec![owner],
            waits,
        }
    }

    #[test]
    fn the_youngest_wait_of_a_circle_is_refused_and_told_the_circle() {
        let mut graph = WaitGraph::new(100);
        assert_eq!(graph.handle(waits(1, "y", T1)), []);
        assert_eq!(graph.handle(holds(2, "y", T2, &[])), []);
        assert_eq!(graph.handle(waits(2, "x", T2)), []);
        let victim = graph.handle(holds(1, "x", T1, &[])).pop().unwrap();
        assert_eq!((victim.session, victim.record), (SessionId(2), record("x")));
        assert_eq!(victim.cycle, [T1, T2]);
    }

    #[test]
    fn a_report_that_closes_two_circles_breaks_both() {
        let mut graph = WaitGraph::new(100);
        graph.handle(waits(1, "y", T1));
        for (session, owner) in [(2, T2), (3, T3)] {
            graph.handle(holds(session, "y", owner, &[]));
            graph.handle(waits(session, "x", owner));
        }
        let victims = graph.handle(holds(1, "x", T1, &[]));
        let sessions: BTreeSet<_> = victims.iter().map(|victim| victim.session.0).collect();
        assert_eq!(sessions, [2, 3].into());
    }

    #[test]
    fn a_circle_beside_the_reported_holder_is_found() {
        let mut graph = WaitGraph::new(100);
        let far = Owner(9);
        graph.handle(waits(3, "z", T3));
        graph.handle(holds(8, "z", T2, &[]));
        // Nobody waits for the holder of y; but on its node 2 waits for 3.
        let victims = graph.handle(holds(7, "y", far, &[(far, T2), (T2, T3)]));
        assert_eq!(victims.len(), 1);
        assert_eq!(victims[0].session, SessionId(3));
    }

    #[test]
    fn a_reader_does_not_wait_for_a_writer_in_line_while_a_writer_holds() {
        let mut graph = WaitGraph::new(100);
        graph.handle(holds(9, "x", T1, &[]));
        graph.handle(waits(2, "x", T2));
        let mut reader = waits(3, "x", T3);
        if let Fact::Waits { mode, .. } = &mut reader {
            *mode = Mode::Read;
        }
        graph.handle(reader);
        graph.handle(holds(8, "y", T3, &[]));
        assert_eq!(graph.handle(waits(4, "y", T2)), []);
    }

    /// A reader that came before the writer waits for it all the same, once the read phase has
    /// begun.
    #[test]
    fn a_reader_waits_for_the_first_writer_while_readers_hold() {
        let mut graph = WaitGraph::new(100);
        let reading = |mut fact: Fact| {
            if let Fact::Waits { mode, .. } | Fact::Holds { mode, .. } = &mut fact {
                *mode = Mode::Read;
            }
            fact
        };
        graph.handle(reading(holds(9, "x", T1, &[])));
        graph.handle(reading(waits(2, "x", T2)));
        graph.handle(waits(3, "x", T3));
        graph.handle(holds(8, "y", T2, &[]));
        assert_eq!(graph.handle(waits(4, "y", T1)).len(), 1);
    }

    #[test]
    fn one_number_in_two_scopes_is_two_owners() {
        let (a, b) = (Scope(1), Scope(2));
        let mut graph = WaitGraph::new(100);
        // In the one, owner 1 waits for owner 2; in the other it is the other way round.
        assert_eq!(graph.handle_in(a, holds(1, "x", T2, &[])), []);
        assert_eq!(graph.handle_in(a, waits(2, "x", T1)), []);
        assert_eq!(graph.handle_in(b, holds(3, "y", T1, &[])), []);
        assert_eq!(graph.handle_in(b, waits(4, "y", T2)), []);
        assert_eq!(graph.handle_in(b, holds(5, "z", T1, &[(T1, T2)])).len(), 1);
    }

    #[test]
    fn an_owner_that_waits_for_itself_on_another_node_is_refused() {
        let mut graph = WaitGraph::new(100);
        graph.handle(holds(1, "x", T1, &[]));
        let victims = graph.handle(waits(2, "x", T1));
        assert_eq!(victims[0].cycle, [T1]);
    }

    #[test]
    fn a_long_line_is_searched_step_by_step() {
        let mut graph = WaitGraph::new(10_000);
        graph.handle(holds(9_999, "x", T1, &[]));
        for number in 10..300 {
            assert_eq!(graph.handle(waits(number, "x", Owner(number))), []);
        }
        // The last in line holds what the first holder waits for.
        graph.handle(holds(9_998, "y", Owner(299), &[]));
        assert_eq!(graph.handle(waits(301, "y", T1)).len(), 1);
    }

    #[test]
    fn a_wait_on_one_node_is_part_of_a_circle() {
        let mut graph = WaitGraph::new(100);
        graph.handle(waits(1, "w", T1));
        graph.handle(holds(3, "w", T3, &[]));
        graph.handle(waits(3, "z", T3));
        // On node 1 owner 2 holds z, and waits there for owner 1.
        let victim = graph.handle(holds(1, "z", T2, &[(T2, T1)])).pop().unwrap();
        assert_eq!(victim.session, SessionId(3));
        assert_eq!(victim.cycle.len(), 3);
    }

    #[test]
    fn who_waits_before_is_waited_for() {
        let mut graph = WaitGraph::new(100);
        graph.handle(holds(9, "x", T1, &[]));
        graph.handle(waits(2, "x", T2));
        graph.handle(waits(3, "x", T3));
        graph.handle(holds(8, "y", T3, &[]));
        let victim = graph.handle(waits(4, "y", T2)).pop().unwrap();
        assert_eq!(victim.session, SessionId(4));
    }

    #[test]
    fn what_is_gone_closes_no_circle() {
        let mut graph = WaitGraph::new(100);
        graph.handle(waits(1, "y", T1));
        graph.handle(holds(2, "y", T2, &[]));
        graph.handle(Fact::Gone { session: SessionId(2), seq: Seq(1) });
        graph.handle(waits(2, "x", T2));
        assert_eq!(graph.handle(holds(1, "x", T1, &[])), []);
        for (session, seq) in [(1, 10), (2, 20), (1, 1)] {
            graph.handle(Fact::Gone { session: SessionId(session), seq: Seq(seq) });
        }
        assert!(graph.is_empty() && graph.at.is_empty() && graph.waits_of.is_empty());
    }

    #[test]
    fn a_late_report_does_not_replace_a_later_one() {
        let mut graph = WaitGraph::new(100);
        let mut newer = holds(2, "y", T3, &[]);
        if let Fact::Holds { number, .. } = &mut newer {
            *number = 2;
        }
        graph.handle(newer);
        graph.handle(holds(2, "y", T2, &[]));
        graph.handle(waits(1, "y", T1));
        graph.handle(waits(2, "x", T2));
        assert_eq!(graph.handle(holds(1, "x", T1, &[])), []);
    }

    #[test]
    fn a_search_that_is_too_long_finds_nothing() {
        let mut graph = WaitGraph::new(1);
        graph.handle(waits(1, "y", T1));
        graph.handle(holds(2, "y", T2, &[]));
        graph.handle(waits(2, "x", T2));
        assert_eq!(graph.handle(holds(1, "x", T1, &[])), []);
    }
}
