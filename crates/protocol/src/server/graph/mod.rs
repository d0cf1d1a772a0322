//! Who waits for whom, over all tables of a server: finds deadlocks and says who is to be refused.
//!
//! Only what names owners is here. The tables tell [`Fact`]s; a fact that closes a cycle is
//! answered by [`Victim`]s: of the waiting acquires in each cycle the youngest, by their arrival
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
//! one node for what it holds on another is a cycle too. That one wait of an owner is behind
//! another of the same owner in a line is none.
//!
//! Where a server has users, each of them numbers owners as they like: an owner is a number within
//! a [`Scope`], and facts of different scopes never name the same one.
//!
//! Before a fact is taken in there is no cycle, so a new one goes through an owner that the fact
//! names, or through the first writers of a line whose order it has changed. [`search`] looks for
//! it from these, in steps that each take the same time. A fact is answered after
//! [`Limits::search_steps`](crate::Limits::search_steps) steps at most. A search that needs more
//! waits in the backlog, and goes on by [`WaitGraph::search_on`], as many steps at a time: a
//! deadlock in a very large graph is found later, and not missed.

mod search;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use slab::Slab;

use super::LOOKED;
use crate::ids::{Owner, Seq, SessionId};
use crate::messages::LocalWait;
use crate::mode::Mode;
use crate::record::Record;
use crate::token::Ticket;

use search::{Outcome, Search};

/// How long a driver waits before it goes on with a search: others have their turn meanwhile.
pub const SEARCH_PAUSE: Duration = Duration::from_millis(1);

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

/// A wait or a grant: its session and its number.
type Key = (SessionId, Seq);

/// An owner, among those of all scopes.
type Who = (Scope, Owner);

#[derive(Clone, Debug)]
struct Wait {
    /// Its record, as a key of [`WaitGraph::at`].
    at: usize,
    mode: Mode,
    ticket: Ticket,
    upgrade: bool,
    owners: Vec<Who>,
    /// Arrival here; the greatest is the youngest.
    age: u64,
}

#[derive(Clone, Debug)]
struct Hold {
    /// Its record, as a key of [`WaitGraph::at`].
    at: usize,
    mode: Mode,
    number: u64,
    holders: Vec<Who>,
    waits: Vec<Local>,
}

/// A wait on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Local {
    waiter: Who,
    holder: Who,
}

/// What is known of one record.
#[derive(Clone, Debug)]
struct At {
    record: Record,
    writers: BTreeSet<(Ticket, Key)>,
    readers: BTreeSet<(Ticket, Key)>,
    upgraders: BTreeSet<Key>,
    /// The grants for reading whose owners were reported.
    read_holds: BTreeSet<Key>,
    /// Those for writing.
    write_holds: BTreeSet<Key>,
    order: Order,
}

/// What decides between the readers and the writers of a line: its first two writers, whether
/// readers wait for the first of them, and whether that one waits for the readers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Order {
    writers: [Option<Key>; 2],
    readers_wait: bool,
    writer_waits: bool,
}

impl At {
    fn new(record: Record) -> Self {
        Self {
            record,
            writers: BTreeSet::new(),
            readers: BTreeSet::new(),
            upgraders: BTreeSet::new(),
            read_holds: BTreeSet::new(),
            write_holds: BTreeSet::new(),
            order: Order::default(),
        }
    }

    fn order(&self) -> Order {
        let mut writers = self.writers.iter().map(|&(_, key)| key);
        Order {
            writers: [writers.next(), writers.next()],
            readers_wait: !self.read_holds.is_empty() && self.write_holds.is_empty(),
            writer_waits: !self.write_holds.is_empty(),
        }
    }

    fn is_empty(&self) -> bool {
        let line = self.writers.is_empty() && self.readers.is_empty() && self.upgraders.is_empty();
        line && self.read_holds.is_empty() && self.write_holds.is_empty()
    }

    fn holds_in(&mut self, mode: Mode) -> &mut BTreeSet<Key> {
        match mode {
            Mode::Read => &mut self.read_holds,
            Mode::Write => &mut self.write_holds,
        }
    }
}

/// The waits-for graph of a server.
#[derive(Clone, Debug)]
pub struct WaitGraph {
    waits: BTreeMap<Key, Wait>,
    holds: BTreeMap<Key, Hold>,
    /// The line and the holds of each record.
    at: Slab<At>,
    at_of: BTreeMap<Record, usize>,
    /// The waits of each owner.
    waits_of: BTreeMap<Who, BTreeSet<Key>>,
    /// The holds whose reports name local waits of each owner.
    reports_of: BTreeMap<Who, BTreeSet<Key>>,
    arrivals: u64,
    steps_max: usize,
    backlog: Backlog,
    /// The search of the backlog that is under way, and for which fact.
    under_way: Option<(Key, Search)>,
    steps: Steps,
}

/// Facts whose searches have yet to be done, in their order, each once.
#[derive(Clone, Debug, Default)]
struct Backlog {
    queue: BTreeMap<u64, Key>,
    place: BTreeMap<Key, u64>,
    last: u64,
}

impl Backlog {
    fn push(&mut self, key: Key) {
        if !self.place.contains_key(&key) {
            self.last += 1;
            self.queue.insert(self.last, key);
            self.place.insert(key, self.last);
        }
    }

    fn remove(&mut self, key: Key) {
        if let Some(place) = self.place.remove(&key) {
            self.queue.remove(&place);
        }
    }

    fn pop(&mut self) -> Option<Key> {
        let (_, key) = self.queue.pop_first()?;
        self.place.remove(&key);
        Some(key)
    }
}

/// How many steps all searches have taken. It decides nothing, so it is not shown: graphs that
/// differ in it alone are the same.
#[derive(Clone, Copy, Default)]
struct Steps(u64);

impl fmt::Debug for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Steps")
    }
}

impl WaitGraph {
    /// A graph that takes at most this many steps at a time.
    #[must_use]
    pub fn new(steps_max: usize) -> Self {
        Self {
            waits: BTreeMap::new(),
            holds: BTreeMap::new(),
            at: Slab::new(),
            at_of: BTreeMap::new(),
            waits_of: BTreeMap::new(),
            reports_of: BTreeMap::new(),
            arrivals: 0,
            steps_max,
            backlog: Backlog::default(),
            under_way: None,
            steps: Steps::default(),
        }
    }

    /// Whether nobody waits or holds.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waits.is_empty() && self.holds.is_empty()
    }

    /// Whether [`WaitGraph::search_on`] has something to do.
    #[must_use]
    pub fn is_searching(&self) -> bool {
        self.under_way.is_some() || !self.backlog.queue.is_empty()
    }

    /// How many steps all searches have taken so far.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps.0
    }

    /// Takes in a fact, where all owners are in one scope. For each cycle that it closes somebody
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
                let at = self.place_of(record);
                let line = &mut self.at[at];
                match (upgrade, mode) {
                    (true, _) => line.upgraders.insert(key),
                    (false, Mode::Write) => line.writers.insert((ticket, key)),
                    (false, Mode::Read) => line.readers.insert((ticket, key)),
                };
                self.waits.insert(key, Wait { at, mode, ticket, upgrade, owners, age });
                self.check_order(at);
                self.break_cycles(key)
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
                let at = self.place_of(record);
                self.at[at].holds_in(mode).insert(key);
                self.holds.insert(key, Hold { at, mode, number, holders, waits });
                self.check_order(at);
                self.break_cycles(key)
            }
        }
    }

    /// Goes on with searches that were not finished, for as many steps as a fact may take. Call it
    /// every [`SEARCH_PAUSE`] while [`WaitGraph::is_searching`]; somebody is to be refused for each
    /// cycle, as with a fact.
    pub fn search_on(&mut self) -> Vec<Victim> {
        let mut left = self.steps_max;
        let mut victims = Vec::new();
        while left > 0 {
            let (key, mut search) = match self.under_way.take() {
                Some(under_way) => under_way,
                None => match self.backlog.pop() {
                    Some(key) => (key, Search::new(self.owners_of(key))),
                    None => break,
                },
            };
            match self.run(&mut search, &mut left) {
                Outcome::Done => {}
                Outcome::Paused => self.under_way = Some((key, search)),
                Outcome::Cycle(victim) => {
                    self.remove((victim.session, victim.seq));
                    victims.push(victim);
                    self.under_way = Some((key, Search::new(self.owners_of(key))));
                }
                // What was found has been dissolved meanwhile, and may have hidden another one.
                Outcome::Stale => {
                    self.under_way = Some((key, Search::new(self.owners_of(key))));
                }
            }
        }
        victims
    }

    /// Whose owners are known: of the waits and of the grants at most `count` each, if they `may`
    /// be shown. Not all are looked at, if there are many.
    #[must_use]
    pub fn owners(&self, count: usize, may: impl Fn(&Record) -> bool) -> Vec<OwnersView> {
        let view = |session, at: usize, waits, owners: &[Who]| {
            let owners = owners.iter().map(|&(_, owner)| owner).collect();
            let record = self.at[at].record.clone();
            OwnersView { session, record, waits, owners }
        };
        let may = |at: usize| may(&self.at[at].record);
        let waits = self.waits.iter().take(LOOKED * count);
        let waits = waits.filter(|(_, it)| may(it.at)).take(count);
        let waits = waits.map(|(key, it)| view(key.0, it.at, true, &it.owners));
        let holds = self.holds.iter().take(LOOKED * count);
        let holds = holds.filter(|(_, it)| may(it.at)).take(count);
        let holds = holds.map(|(key, it)| view(key.0, it.at, false, &it.holders));
        waits.chain(holds).collect()
    }

    /// Finds victims until there is no cycle through the owners of this fact. What takes longer is
    /// left for later.
    fn break_cycles(&mut self, key: Key) -> Vec<Victim> {
        let mut left = self.steps_max;
        let mut victims = Vec::new();
        loop {
            let mut search = Search::new(self.owners_of(key));
            match self.run(&mut search, &mut left) {
                Outcome::Done => return victims,
                Outcome::Paused => {
                    self.backlog.push(key);
                    return victims;
                }
                Outcome::Cycle(victim) => {
                    self.remove((victim.session, victim.seq));
                    victims.push(victim);
                }
                Outcome::Stale => {}
            }
        }
    }

    /// The owners that a fact names and through whom it may have closed a cycle, if it is still
    /// there.
    fn owners_of(&self, key: Key) -> Vec<Who> {
        if let Some(wait) = self.waits.get(&key) {
            return wait.owners.clone();
        }
        let Some(hold) = self.holds.get(&key) else { return Vec::new() };
        let waiters = hold.waits.iter().map(|wait| wait.waiter);
        hold.holders.iter().copied().chain(waiters).collect()
    }

    fn place_of(&mut self, record: Record) -> usize {
        let at = &mut self.at;
        *self.at_of.entry(record).or_insert_with_key(|record| at.insert(At::new(record.clone())))
    }

    fn remove(&mut self, key: Key) {
        self.backlog.remove(key);
        let place = if let Some(wait) = self.waits.remove(&key) {
            for owner in &wait.owners {
                forget(&mut self.waits_of, owner, key);
            }
            let at = &mut self.at[wait.at];
            at.upgraders.remove(&key);
            at.writers.remove(&(wait.ticket, key));
            at.readers.remove(&(wait.ticket, key));
            wait.at
        } else if let Some(hold) = self.holds.remove(&key) {
            for wait in &hold.waits {
                forget(&mut self.reports_of, &wait.waiter, key);
            }
            self.at[hold.at].holds_in(hold.mode).remove(&key);
            hold.at
        } else {
            return;
        };
        if self.at[place].is_empty() {
            let at = self.at.remove(place);
            self.at_of.remove(&at.record);
        } else {
            self.check_order(place);
        }
    }

    /// If the readers and the first writers of a line have changed places, these may be in a cycle
    /// that no owner of the fact is in.
    fn check_order(&mut self, place: usize) {
        let at = &mut self.at[place];
        let order = at.order();
        if std::mem::replace(&mut at.order, order) != order && !at.readers.is_empty() {
            order.writers.into_iter().flatten().for_each(|key| self.backlog.push(key));
        }
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
