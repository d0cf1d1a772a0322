//! Who waits for whom, over all tables of a server: finds circles and says who is to be refused.
//!
//! Only what names owners is here. The tables tell [`Fact`]s; a fact that closes a circle is answered
//! by [`Victim`]s: of the waiting acquires in each circle the youngest, by their arrival here.
//!
//! An owner is blocked, through an acquire of its own that waits,
//! - by the reported owners of every grant of the record that excludes the wish, and
//! - by the owners of everyone who waits before it and excludes it: writers with an earlier ticket, and
//!   for a writer the readers with an earlier ticket and the upgrader;
//!
//! and, through a wait on its own node, by the owner that the node named.

use std::collections::{BTreeMap, BTreeSet};

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

type Key = (SessionId, Seq);

#[derive(Clone, Debug)]
struct Wait {
    record: Record,
    mode: Mode,
    ticket: Ticket,
    upgrade: bool,
    owners: Vec<Owner>,
    /// Arrival here; the greatest is the youngest.
    age: u64,
}

#[derive(Clone, Debug)]
struct Hold {
    record: Record,
    mode: Mode,
    number: u64,
    holders: Vec<Owner>,
    waits: Vec<LocalWait>,
}

/// The waits-for graph of a server.
#[derive(Clone, Debug)]
pub struct WaitGraph {
    waits: BTreeMap<Key, Wait>,
    holds: BTreeMap<Key, Hold>,
    /// The waits and holds of each record.
    at: BTreeMap<Record, BTreeSet<Key>>,
    /// The waits of each owner.
    waits_of: BTreeMap<Owner, BTreeSet<Key>>,
    /// The holds whose reports name local waits of each owner.
    reports_of: BTreeMap<Owner, BTreeSet<Key>>,
    arrivals: u64,
    steps_max: usize,
}

/// Why one owner waits for another.
#[derive(Clone, Copy, Debug)]
struct Step {
    owner: Owner,
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

    /// Takes in a fact. For each circle that it closes somebody is to be refused, and is forgotten here
    /// at once.
    pub fn handle(&mut self, fact: Fact) -> Vec<Victim> {
        match fact {
            Fact::Gone { session, seq } => {
                self.remove((session, seq));
                Vec::new()
            }
            Fact::Waits { session, seq, record, mode, ticket, upgrade, owners } => {
                let key = (session, seq);
                let known = self.waits.get(&key).map(|wait| wait.age);
                self.remove(key);
                self.arrivals += 1;
                let age = known.unwrap_or(self.arrivals);
                for &owner in &owners {
                    self.waits_of.entry(owner).or_default().insert(key);
                }
                self.at.entry(record.clone()).or_default().insert(key);
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
                for wait in &waits {
                    self.reports_of.entry(wait.waiter).or_default().insert(key);
                }
                self.at.entry(record.clone()).or_default().insert(key);
                let starts = holders.clone();
                self.holds.insert(key, Hold { record, mode, number, holders, waits });
                self.break_circles(&starts)
            }
        }
    }

    /// Finds victims until there is no circle through any of these.
    fn break_circles(&mut self, starts: &[Owner]) -> Vec<Victim> {
        let mut victims = Vec::new();
        for &start in starts {
            while let Some(victim) = self.search(start) {
                self.remove((victim.session, victim.seq));
                victims.push(victim);
            }
        }
        victims
    }

    fn remove(&mut self, key: Key) {
        let record = if let Some(wait) = self.waits.remove(&key) {
            for owner in wait.owners {
                forget(&mut self.waits_of, &owner, key);
            }
            wait.record
        } else if let Some(hold) = self.holds.remove(&key) {
            for wait in hold.waits {
                forget(&mut self.reports_of, &wait.waiter, key);
            }
            hold.record
        } else {
            return;
        };
        forget(&mut self.at, &record, key);
    }

    /// Looks for a circle through `start`, depth first, and picks the one to be refused.
    fn search(&self, start: Owner) -> Option<Victim> {
        let mut seen = BTreeSet::new();
        // The path so far; beside each owner, those that it waits for and that were not tried yet.
        let mut path: Vec<(Step, Vec<Step>)> = Vec::new();
        let mut budget = self.steps_max;
        let first = Step { owner: start, wait: None };
        path.push((first, self.blockers(start)));
        while let Some((_, rest)) = path.last_mut() {
            let Some(next) = rest.pop() else {
                path.pop();
                continue;
            };
            budget = budget.checked_sub(1)?;
            if next.owner == start {
                let why = path.iter().skip(1).map(|(step, _)| step.wait).chain([next.wait]);
                let cycle = path.iter().map(|(step, _)| step.owner).collect();
                return self.victim(why.flatten(), cycle);
            }
            if seen.insert(next.owner) {
                path.push((next, self.blockers(next.owner)));
            }
        }
        None
    }

    fn victim(&self, waits: impl Iterator<Item = Key>, cycle: Vec<Owner>) -> Option<Victim> {
        let (session, seq) = waits.max_by_key(|key| self.waits[key].age)?;
        let record = self.waits[&(session, seq)].record.clone();
        Some(Victim { session, seq, record, cycle })
    }

    /// Whom an owner waits for, and why.
    fn blockers(&self, owner: Owner) -> Vec<Step> {
        let mut found = Vec::new();
        for &key in self.waits_of.get(&owner).into_iter().flatten() {
            let wait = &self.waits[&key];
            for other in &self.at[&wait.record] {
                let owners = match (self.waits.get(other), self.holds.get(other)) {
                    (Some(ahead), _) if *other != key && wait.is_behind(ahead) => &ahead.owners,
                    (_, Some(hold)) if wait.mode.conflicts(hold.mode) => &hold.holders,
                    _ => continue,
                };
                let others = owners.iter().filter(|&&other| other != owner);
                found.extend(others.map(|&owner| Step { owner, wait: Some(key) }));
            }
        }
        for key in self.reports_of.get(&owner).into_iter().flatten() {
            let local = self.holds[key].waits.iter().filter(|wait| wait.waiter == owner);
            found.extend(local.map(|wait| Step { owner: wait.holder, wait: None }));
        }
        found
    }
}

impl Wait {
    /// Whether it can't be granted before `other`, of the same record.
    fn is_behind(&self, other: &Self) -> bool {
        let before = other.upgrade || (!self.upgrade && other.ticket < self.ticket);
        before && self.mode.conflicts(other.mode)
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
