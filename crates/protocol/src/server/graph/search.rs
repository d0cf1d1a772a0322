//! One search for a cycle: depth first, from each owner of a fact back to that owner.
//!
//! What is searched has more nodes than owners. Between an owner and those who block it are its
//! waits, and the grants and the waits that are in their way, each a [`Node`] of its own. So the
//! holders of a record are looked at once, however many wait for it, and the whole search takes no
//! longer than what it reaches is large.
//!
//! A step follows one edge. Each node on the path remembers by a [`Cursor`] how far its edges were
//! followed, so a search may rest after any step. The graph changes while it rests:
//!
//! - An edge that comes is part of a fact with a search of its own.
//! - An edge that goes may be on the path. So a cycle is looked at again when it is found, and if
//!   it does not stand any more, the search begins anew.
//!
//! Since a cycle stays until somebody in it is refused, each of its edges is there whenever the
//! search comes by: a search that rests misses no cycle.

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};

use super::{At, Key, Owner, SessionId, Ticket, Victim, WaitGraph, Who};
use crate::mode::Mode;

/// What a search may come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Node {
    /// An owner: its waits and the reports of its nodes follow. `waited` says whether an acquire
    /// that waits is on the way here: a cycle of waits on a node alone is that node's business.
    Owner { who: Who, waited: bool },
    /// A waiting acquire: what is in its way follows. `own` says that the start waits by it.
    Wait { key: Key, own: bool },
    /// The grants that exclude an acquire of this mode; those of the session itself do not.
    Holders { at: usize, wanted: Mode, but: Option<SessionId> },
    /// The owners of one of them.
    Hold { key: Key },
    /// The readers in line.
    Readers { at: usize, own: bool },
    /// The owners of a wait that goes before. That the start goes before itself is no cycle.
    Ahead { key: Key, own: bool },
    /// Those for whom an owner waits on the node of this report.
    Report { key: Key, who: Who, waited: bool },
}

/// How far the edges of a node were followed.
#[derive(Clone, Copy, Debug, Default)]
struct Cursor {
    stage: u8,
    key: Option<Key>,
    ticket: Ticket,
    index: usize,
}

/// What following one more edge leads to.
enum Edge {
    To(Node),
    /// Nowhere, and there may be more.
    Skip,
    /// There is none.
    End,
}

/// A search that has begun.
#[derive(Clone, Debug)]
pub(super) struct Search {
    /// Owners from which it has yet to be searched.
    starts: Vec<Who>,
    start: Option<Who>,
    path: Vec<(Node, Cursor)>,
    seen: BTreeSet<Node>,
}

/// Where a search stands when it rests.
#[derive(Debug)]
pub(super) enum Outcome {
    /// There is no cycle.
    Done,
    /// No steps are left.
    Paused,
    /// There is a cycle, and this is its youngest wait.
    Cycle(Victim),
    /// There was a cycle, and it is gone.
    Stale,
}

/// Why one owner waits for another.
#[derive(Clone, Copy, Debug)]
enum Via {
    Hold { wait: Key, hold: Key },
    Line { wait: Key, ahead: Key },
    Local { report: Key },
}

impl Search {
    /// From each of these owners.
    pub(super) fn new(starts: Vec<Who>) -> Self {
        Self { starts, start: None, path: Vec::new(), seen: BTreeSet::new() }
    }

    /// Begins with the next owner. What was seen before leads to none of the former starts; it
    /// leads to this one only if this one was seen.
    fn next_start(&mut self) -> Option<Who> {
        let both = |who| [true, false].map(|waited| Node::Owner { who, waited });
        if let Some(done) = self.start {
            self.seen.extend(both(done));
        }
        let start = self.starts.pop()?;
        if both(start).iter().any(|node| self.seen.contains(node)) {
            self.seen.clear();
        }
        self.start = Some(start);
        self.path.push((Node::Owner { who: start, waited: false }, Cursor::default()));
        Some(start)
    }

    /// The owners on the path, and why each waits for the next; the last waits for the start.
    fn cycle(&self, start: Who) -> Vec<(Who, Via)> {
        let mut links = Vec::new();
        let mut from = start;
        let mut wait = None;
        let mut via = None;
        for &(node, _) in &self.path {
            match node {
                Node::Owner { who, .. } => {
                    links.extend(via.take().map(|via| (from, via)));
                    from = who;
                }
                Node::Wait { key, .. } => wait = Some(key),
                Node::Hold { key } => via = wait.map(|wait| Via::Hold { wait, hold: key }),
                Node::Ahead { key, .. } => via = wait.map(|wait| Via::Line { wait, ahead: key }),
                Node::Report { key, .. } => via = Some(Via::Local { report: key }),
                Node::Holders { .. } | Node::Readers { .. } => {}
            }
        }
        links.extend(via.map(|via| (from, via)));
        links
    }
}

impl WaitGraph {
    /// Goes on with a search, for as many steps as are left.
    pub(super) fn run(&mut self, search: &mut Search, left: &mut usize) -> Outcome {
        let before = *left;
        let outcome = self.follow(search, left);
        self.steps.0 += (before - *left) as u64;
        outcome
    }

    fn follow(&self, search: &mut Search, left: &mut usize) -> Outcome {
        loop {
            let start = match search.start.filter(|_| !search.path.is_empty()) {
                Some(start) => start,
                None => match search.next_start() {
                    Some(start) => start,
                    None => return Outcome::Done,
                },
            };
            let Some((node, cursor)) = search.path.last_mut() else { continue };
            let Some(rest) = left.checked_sub(1) else { return Outcome::Paused };
            *left = rest;
            match self.edge(*node, cursor, start) {
                Edge::End => drop(search.path.pop()),
                Edge::Skip => {}
                Edge::To(Node::Owner { who, waited }) if who == start => {
                    if waited {
                        let cycle = search.cycle(start);
                        *left = left.saturating_sub(cycle.len());
                        return self.judge(&cycle);
                    }
                }
                Edge::To(node) => {
                    if search.seen.insert(node) {
                        search.path.push((node, Cursor::default()));
                    }
                }
            }
        }
    }

    /// What the next edge of a node leads to. Each takes the time of one look into a map.
    fn edge(&self, node: Node, cursor: &mut Cursor, start: Who) -> Edge {
        let found = match node {
            Node::Owner { who, waited } => self.edge_of_owner(who, waited, cursor, start),
            Node::Wait { key, own } => return self.edge_of_wait(key, own, cursor),
            Node::Holders { at, wanted, but } => {
                return self.edge_of_holders(at, wanted, but, cursor);
            }
            Node::Hold { key } => {
                let hold = self.holds.get(&key);
                let owner = hold.and_then(|hold| hold.holders.get(cursor.index));
                owner.map(|&who| Node::Owner { who, waited: true })
            }
            Node::Readers { at, own } => {
                let from = cursor.key.map_or(Unbounded, |key| Excluded((cursor.ticket, key)));
                let line = self.at.get(at).map(|at| &at.readers);
                line.and_then(|line| line.range((from, Unbounded)).next()).map(|&(ticket, key)| {
                    (cursor.ticket, cursor.key) = (ticket, Some(key));
                    Node::Ahead { key, own }
                })
            }
            Node::Ahead { key, own } => {
                let wait = self.waits.get(&key);
                match wait.and_then(|wait| wait.owners.get(cursor.index)) {
                    Some(&who) if own && who == start => {
                        cursor.index += 1;
                        return Edge::Skip;
                    }
                    owner => owner.map(|&who| Node::Owner { who, waited: true }),
                }
            }
            Node::Report { key, who, waited } => {
                let hold = self.holds.get(&key);
                match hold.and_then(|hold| hold.waits.get(cursor.index)) {
                    Some(wait) if wait.waiter != who => {
                        cursor.index += 1;
                        return Edge::Skip;
                    }
                    wait => wait.map(|wait| Node::Owner { who: wait.holder, waited }),
                }
            }
        };
        cursor.index += 1;
        found.map_or(Edge::End, Edge::To)
    }

    fn edge_of_owner(
        &self,
        who: Who,
        waited: bool,
        cursor: &mut Cursor,
        start: Who,
    ) -> Option<Node> {
        let after = |index: Option<&BTreeSet<Key>>, key: Option<Key>| {
            let from = key.map_or(Unbounded, Excluded);
            index.and_then(|keys| keys.range((from, Unbounded)).next()).copied()
        };
        if cursor.stage == 0 {
            if let Some(key) = after(self.waits_of.get(&who), cursor.key) {
                cursor.key = Some(key);
                return Some(Node::Wait { key, own: who == start });
            }
            (cursor.stage, cursor.key) = (1, None);
        }
        let key = after(self.reports_of.get(&who), cursor.key)?;
        cursor.key = Some(key);
        Some(Node::Report { key, who, waited })
    }

    /// The holders first, then those in line who go before, as far as the others do not follow from
    /// them.
    fn edge_of_wait(&self, key: Key, own: bool, cursor: &mut Cursor) -> Edge {
        let Some(wait) = self.waits.get(&key) else { return Edge::End };
        let at = &self.at[wait.at];
        let ahead = |found: Option<&(Ticket, Key)>| match found {
            Some(&(_, key)) => Edge::To(Node::Ahead { key, own }),
            None => Edge::Skip,
        };
        match cursor.stage {
            0 => {
                cursor.stage = 1;
                let but = has_hold(at, key.0).then_some(key.0);
                Edge::To(Node::Holders { at: wait.at, wanted: wait.mode, but })
            }
            1 => {
                let from = cursor.key.map_or(Unbounded, Excluded);
                match at.upgraders.range((from, Unbounded)).next() {
                    Some(&other) => {
                        cursor.key = Some(other);
                        let is_own = other == key;
                        if is_own { Edge::Skip } else { Edge::To(Node::Ahead { key: other, own }) }
                    }
                    None => {
                        cursor.stage = if wait.upgrade { 4 } else { 2 };
                        Edge::Skip
                    }
                }
            }
            2 if wait.mode == Mode::Read => {
                cursor.stage = 4;
                let reads_hold = !at.read_holds.is_empty() && at.write_holds.is_empty();
                ahead(at.writers.first().filter(|_| reads_hold))
            }
            2 => {
                cursor.stage = 3;
                ahead(at.writers.range(..(wait.ticket, key)).next_back())
            }
            3 => {
                cursor.stage = 4;
                let place = at.writers.range(..(wait.ticket, key)).rev().take(2).count();
                let readers_first = place == 1 || (place == 0 && !at.write_holds.is_empty());
                if readers_first {
                    Edge::To(Node::Readers { at: wait.at, own })
                } else {
                    Edge::Skip
                }
            }
            _ => Edge::End,
        }
    }

    fn edge_of_holders(
        &self,
        at: usize,
        wanted: Mode,
        but: Option<SessionId>,
        cursor: &mut Cursor,
    ) -> Edge {
        let Some(at) = self.at.get(at) else { return Edge::End };
        let holds = match (cursor.stage, wanted) {
            (0, _) => &at.write_holds,
            (1, Mode::Write) => &at.read_holds,
            _ => return Edge::End,
        };
        let from = cursor.key.map_or(Unbounded, Excluded);
        match holds.range((from, Unbounded)).next() {
            Some(&key) => {
                cursor.key = Some(key);
                if Some(key.0) == but { Edge::Skip } else { Edge::To(Node::Hold { key }) }
            }
            None => {
                (cursor.stage, cursor.key) = (cursor.stage + 1, None);
                Edge::Skip
            }
        }
    }

    /// Whether a cycle still stands, and who is to be refused for it.
    fn judge(&self, cycle: &[(Who, Via)]) -> Outcome {
        let next = cycle.iter().cycle().skip(1);
        let stands =
            cycle.iter().zip(next).all(|(&(from, via), &(to, _))| self.still_waits(from, via, to));
        let waits = cycle.iter().filter_map(|(_, via)| match *via {
            Via::Hold { wait, .. } | Via::Line { wait, .. } => Some(wait),
            Via::Local { .. } => None,
        });
        let age = |key: &Key| self.waits.get(key).map(|wait| wait.age);
        let Some(youngest) = waits.max_by_key(age).filter(|_| stands) else {
            return Outcome::Stale;
        };
        let (session, seq) = youngest;
        let record = self.at[self.waits[&youngest].at].record.clone();
        let cycle: Vec<Owner> = cycle.iter().map(|&((_, owner), _)| owner).collect();
        Outcome::Cycle(Victim { session, seq, record, cycle })
    }

    /// Whether `from` waits for `to`, for this reason.
    fn still_waits(&self, from: Who, via: Via, to: Who) -> bool {
        let owns = |key: &Key, who: &Who| {
            self.waits.get(key).is_some_and(|wait| wait.owners.contains(who))
        };
        match via {
            Via::Local { report } => {
                let local = super::Local { waiter: from, holder: to };
                self.holds.get(&report).is_some_and(|hold| hold.waits.contains(&local))
            }
            Via::Hold { wait, hold } => {
                let of_record = |wait: &super::Wait, hold: &super::Hold| {
                    wait.at == hold.at && wait.mode.conflicts(hold.mode)
                };
                let pair = self.waits.get(&wait).zip(self.holds.get(&hold));
                let excludes = pair.is_some_and(|(wait, hold)| of_record(wait, hold));
                let holds = pair.is_some_and(|(_, hold)| hold.holders.contains(&to));
                excludes && holds && wait.0 != hold.0 && owns(&wait, &from)
            }
            Via::Line { wait, ahead } => {
                owns(&wait, &from) && owns(&ahead, &to) && self.goes_before(ahead, wait)
            }
        }
    }

    /// Whether `ahead` is among those that [`Self::edge_of_wait`] finds in line before `wait`.
    fn goes_before(&self, ahead: Key, wait: Key) -> bool {
        let mut cursor = Cursor { stage: 1, ..Cursor::default() };
        loop {
            match self.edge_of_wait(wait, false, &mut cursor) {
                Edge::To(Node::Ahead { key, .. }) if key == ahead => return true,
                Edge::To(Node::Readers { at, .. }) => {
                    let reads = self.waits.get(&ahead);
                    let place = reads.map(|reads| (reads.ticket, ahead));
                    return place.is_some_and(|place| self.at[at].readers.contains(&place));
                }
                Edge::End => return false,
                Edge::To(_) | Edge::Skip => {}
            }
        }
    }
}

/// Whether a grant of the session is known at the record.
fn has_hold(at: &At, session: SessionId) -> bool {
    let all = (session, super::Seq(0))..=(session, super::Seq(u64::MAX));
    at.read_holds.range(all.clone()).next().is_some() || at.write_holds.range(all).next().is_some()
}
