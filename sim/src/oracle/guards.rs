//! Guards, leases and tokens: who may use a record now, by its own clock.
//!
//! A node for which a record is open may let a thread in at any moment, so that counts as much as a
//! guard.

use std::collections::BTreeMap;

use lockspan_protocol::cache::LeaseId;
use lockspan_protocol::{Mode, Seq, Tick, Token};

use super::{Failure, Kind};
use crate::clock::Clock;

/// A thread that is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Guard {
    pub(crate) node: u8,
    /// How often the node has been started.
    pub(crate) life: u32,
    pub(crate) thread: u8,
    pub(crate) mode: Mode,
    /// What its node has: a thread may also read under a grant for writing.
    pub(crate) grant: Mode,
    pub(crate) token: Token,
    /// The lease that it rests on.
    pub(crate) lease: LeaseId,
}

/// A node may let threads in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Open {
    mode: Mode,
    lease: LeaseId,
}

/// What has been seen of one record.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// By node.
    opens: BTreeMap<u8, Open>,
    guards: Vec<Guard>,
    /// The last write token that was used, and on which node and life.
    written: Option<(Token, u8, u32)>,
    /// The highest token of a read grant that was used.
    read: Option<Token>,
    /// Which acquire got a write token.
    granted: BTreeMap<Token, (u8, u32, Seq)>,
}

/// All guards of a world.
#[derive(Debug)]
pub(crate) struct Guards {
    /// Clocks are within the margin, so leases exclude each other.
    margin_kept: bool,
    clocks: Vec<Clock>,
    /// By node.
    leases: Vec<BTreeMap<LeaseId, Tick>>,
    records: Vec<Seen>,
    /// Guards that excluded each other, where clocks don't keep the margin.
    pub(crate) overlaps: u64,
}

impl Guards {
    pub(crate) fn new(margin_kept: bool, clocks: Vec<Clock>, records: usize) -> Self {
        Self {
            margin_kept,
            leases: vec![BTreeMap::new(); clocks.len()],
            clocks,
            records: vec![Seen::default(); records],
            overlaps: 0,
        }
    }

    /// A node was told until when its lease stands.
    pub(crate) fn lease(&mut self, node: u8, lease: LeaseId, until: Tick) {
        self.leases[usize::from(node)].insert(lease, until);
    }

    /// Whether a lease of a node stands, by the node's clock.
    pub(crate) fn stands(&self, at: u64, node: u8, lease: LeaseId) -> bool {
        let clock = self.clocks[usize::from(node)];
        let lease = self.leases[usize::from(node)].get(&lease);
        lease.is_some_and(|&until| clock.at(at) < until)
    }

    /// A record is open on a node in this mode, perhaps in another than before.
    pub(crate) fn opened(
        &mut self,
        at: u64,
        record: u8,
        node: u8,
        mode: Mode,
        lease: LeaseId,
    ) -> Result<(), Failure> {
        let seen = &mut self.records[usize::from(record)];
        seen.opens.insert(node, Open { mode, lease });
        if !self.stands(at, node, lease) {
            return Ok(());
        }
        let seen = &self.records[usize::from(record)];
        let mut others = seen.opens.iter().filter(|(other, _)| **other != node);
        let overlap = others.find(|(other, open)| {
            open.mode.conflicts(mode) && self.stands(at, **other, open.lease)
        });
        match overlap {
            Some((other, open)) if self.margin_kept => {
                let what = format!(
                    "record {record}: open to {mode} on node {node}, and to {} on node {other}",
                    open.mode
                );
                Err(Failure::new(Kind::Exclusion, what))
            }
            Some(_) => {
                self.overlaps += 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// A record is not open on a node any more.
    pub(crate) fn closed(&mut self, record: u8, node: u8) {
        self.records[usize::from(record)].opens.remove(&node);
    }

    /// A thread goes in, or becomes a writer.
    pub(crate) fn begin(&mut self, at: u64, record: u8, guard: Guard) -> Result<(), Failure> {
        self.end(record, guard.node, guard.thread);
        let seen = &self.records[usize::from(record)];
        let mut others = seen.guards.iter().filter(|other| other.mode.conflicts(guard.mode));
        if let Some(other) = others.find(|other| self.stands(at, other.node, other.lease)) {
            if self.margin_kept || other.node == guard.node {
                let what = format!("record {record}: {guard:?} began beside {other:?}");
                return Err(Failure::new(Kind::Exclusion, what));
            }
            self.overlaps += 1;
        }
        let checked = if self.margin_kept { seen.check(record, &guard) } else { Ok(()) };
        let seen = &mut self.records[usize::from(record)];
        seen.guards.push(guard);
        match guard.mode {
            Mode::Write => seen.written = Some((guard.token, guard.node, guard.life)),
            _ if guard.grant == Mode::Read => seen.read = seen.read.max(Some(guard.token)),
            _ => {}
        }
        checked
    }

    /// A thread leaves, or its guard is lost.
    pub(crate) fn end(&mut self, record: u8, node: u8, thread: u8) {
        let guards = &mut self.records[usize::from(record)].guards;
        guards.retain(|guard| (guard.node, guard.thread) != (node, thread));
    }

    /// The guards of a record on a node rest on another lease now.
    pub(crate) fn rests_on(&mut self, record: u8, node: u8, lease: LeaseId) {
        let seen = &mut self.records[usize::from(record)];
        let guards = seen.guards.iter_mut().filter(|guard| guard.node == node);
        guards.for_each(|guard| guard.lease = lease);
        if let Some(open) = seen.opens.get_mut(&node) {
            open.lease = lease;
        }
    }

    /// The guards of a record on a node are lost.
    pub(crate) fn lose(&mut self, record: u8, node: u8) {
        let seen = &mut self.records[usize::from(record)];
        seen.guards.retain(|guard| guard.node != node);
        seen.opens.remove(&node);
    }

    /// A node crashes: nobody is in any more.
    pub(crate) fn crash(&mut self, node: u8) {
        self.leases[usize::from(node)].clear();
        for record in 0..self.records.len() as u8 {
            self.lose(record, node);
        }
    }

    /// The records of which a node has guards although the lease is over, with that lease.
    pub(crate) fn lapsed(&self, at: u64, node: u8) -> Vec<(u8, LeaseId)> {
        let now = self.clocks[usize::from(node)].at(at);
        let leases = &self.leases[usize::from(node)];
        let over = |lease: LeaseId| leases.get(&lease).is_none_or(|&until| until < now);
        let records = self.records.iter().zip(0..);
        let lapsed = records.filter_map(|(seen, record)| {
            let guard = seen.guards.iter().find(|guard| guard.node == node && over(guard.lease))?;
            Some((record, guard.lease))
        });
        lapsed.collect()
    }

    /// A node is told a write grant.
    pub(crate) fn granted(
        &mut self,
        record: u8,
        (node, life, seq): (u8, u32, Seq),
        token: Token,
    ) -> Result<(), Failure> {
        let granted = &mut self.records[usize::from(record)].granted;
        let first = *granted.entry(token).or_insert((node, life, seq));
        if first == (node, life, seq) {
            return Ok(());
        }
        let what = format!(
            "record {record}: write token {token} was granted to {first:?} and to {:?} \
             (node, life, seq)",
            (node, life, seq)
        );
        Err(Failure::new(Kind::Token, what))
    }

    /// A server tells a node that it has its re-assertions: none is of a grant that a later one has
    /// replaced.
    pub(crate) fn reasserted(&self, record: u8, node: u8, token: Token) -> Result<(), Failure> {
        match self.records[usize::from(record)].written {
            Some((written, writer, _)) if writer != node && written > token => {
                let what = format!(
                    "record {record}: node {node} re-asserted token {token}, but {written} has \
                     been used since"
                );
                Err(Failure::new(Kind::Token, what))
            }
            _ => Ok(()),
        }
    }
}

impl Seen {
    fn check(&self, record: u8, guard: &Guard) -> Result<(), Failure> {
        let fail =
            |what: String| Err(Failure::new(Kind::Token, format!("record {record}: {what}")));
        match (guard.mode, self.written) {
            (Mode::Write, Some((token, node, life)))
                if guard.token < token
                    || (guard.token == token && (guard.node, guard.life) != (node, life)) =>
            {
                fail(format!("{guard:?} writes, and token {token} of node {node} came before"))
            }
            (Mode::Write, _) if self.read.is_some_and(|read| read >= guard.token) => {
                fail(format!("{guard:?} writes, and {:?} was read under", self.read))
            }
            (Mode::Read, Some((token, ..))) if guard.token < token => {
                fail(format!("{guard:?} reads, and token {token} was written with"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockspan_protocol::{Epoch, ServerId};

    const LEASE: LeaseId = LeaseId::Server(ServerId(0));

    fn token(count: u64) -> Token {
        Token::new(Epoch::new(1).unwrap(), count).unwrap()
    }

    fn guard(node: u8, mode: Mode, count: u64) -> Guard {
        Guard { node, life: 1, thread: 0, mode, grant: mode, token: token(count), lease: LEASE }
    }

    /// Two nodes with leases until tick 1000, and one record.
    fn guards() -> Guards {
        let clocks = vec![Clock::new(0, 0), Clock::new(0, 0)];
        let mut guards = Guards::new(true, clocks, 1);
        guards.lease(0, LEASE, Tick(1000));
        guards.lease(1, LEASE, Tick(1000));
        guards
    }

    fn kind(result: Result<(), Failure>) -> Option<Kind> {
        result.err().map(|failure| failure.kind)
    }

    #[test]
    fn two_writers_are_found() {
        let mut guards = guards();
        assert_eq!(kind(guards.begin(10, 0, guard(0, Mode::Write, 1))), None);
        assert_eq!(kind(guards.begin(20, 0, guard(1, Mode::Write, 2))), Some(Kind::Exclusion));
    }

    #[test]
    fn a_writer_beside_a_reader_is_found_and_two_readers_are_fine() {
        let mut guards = guards();
        assert_eq!(kind(guards.begin(10, 0, guard(0, Mode::Read, 1))), None);
        assert_eq!(kind(guards.begin(10, 0, guard(1, Mode::Read, 1))), None);
        guards.end(0, 0, 0);
        assert_eq!(kind(guards.begin(20, 0, guard(0, Mode::Write, 2))), Some(Kind::Exclusion));
    }

    #[test]
    fn a_record_that_is_open_on_two_nodes_is_found() {
        let mut guards = guards();
        assert_eq!(kind(guards.opened(10, 0, 0, Mode::Read, LEASE)), None);
        assert_eq!(kind(guards.opened(10, 0, 1, Mode::Read, LEASE)), None);
        assert_eq!(kind(guards.opened(20, 0, 1, Mode::Write, LEASE)), Some(Kind::Exclusion));
        guards.closed(0, 0);
        assert_eq!(kind(guards.opened(20, 0, 1, Mode::Write, LEASE)), None);
    }

    #[test]
    fn a_guard_past_its_lease_excludes_nobody_but_must_be_reported() {
        let mut guards = guards();
        guards.begin(10, 0, guard(0, Mode::Write, 1)).unwrap();
        guards.lease(1, LEASE, Tick(5000));
        assert!(guards.lapsed(1000, 0).is_empty());
        assert_eq!(guards.lapsed(1001, 0), [(0, LEASE)]);
        assert_eq!(kind(guards.begin(1001, 0, guard(1, Mode::Write, 2))), None);
        guards.lose(0, 0);
        assert!(guards.lapsed(1001, 0).is_empty());
    }

    #[test]
    fn a_paused_guard_counts_until_its_own_clock_passes_the_lease() {
        let clocks = vec![Clock::new(-50_000, 0), Clock::new(0, 0)];
        let mut guards = Guards::new(true, clocks, 1);
        guards.lease(0, LEASE, Tick(1000));
        guards.lease(1, LEASE, Tick(5000));
        guards.begin(0, 0, guard(0, Mode::Write, 1)).unwrap();
        let mut early = guards.begin(1040, 0, guard(1, Mode::Write, 2));
        assert_eq!(kind(early), Some(Kind::Exclusion), "it is 988 on node 0");
        guards.end(0, 1, 0);
        early = guards.begin(1060, 0, guard(1, Mode::Write, 3));
        assert_eq!(kind(early), None);
    }

    #[test]
    fn tokens_must_rise() {
        let mut guards = guards();
        guards.begin(1, 0, guard(0, Mode::Write, 5)).unwrap();
        guards.end(0, 0, 0);
        guards.begin(2, 0, guard(0, Mode::Write, 5)).unwrap();
        guards.end(0, 0, 0);
        assert_eq!(kind(guards.begin(3, 0, guard(1, Mode::Write, 5))), Some(Kind::Token));
        guards.end(0, 1, 0);
        assert_eq!(kind(guards.begin(4, 0, guard(1, Mode::Read, 4))), Some(Kind::Token));
        guards.end(0, 1, 0);
        guards.begin(5, 0, guard(1, Mode::Read, 7)).unwrap();
        guards.end(0, 1, 0);
        assert_eq!(kind(guards.begin(6, 0, guard(0, Mode::Write, 7))), Some(Kind::Token));
    }

    #[test]
    fn a_token_belongs_to_one_grant() {
        let mut guards = guards();
        assert_eq!(kind(guards.granted(0, (0, 1, Seq(4)), token(9))), None);
        assert_eq!(kind(guards.granted(0, (0, 1, Seq(4)), token(9))), None);
        assert_eq!(kind(guards.granted(0, (0, 1, Seq(5)), token(9))), Some(Kind::Token));
    }

    #[test]
    fn what_was_replaced_can_not_come_back() {
        let mut guards = guards();
        guards.begin(1, 0, guard(0, Mode::Write, 5)).unwrap();
        assert_eq!(kind(guards.reasserted(0, 1, token(4))), Some(Kind::Token));
        assert_eq!(kind(guards.reasserted(0, 1, token(5))), None);
        assert_eq!(kind(guards.reasserted(0, 0, token(4))), None);
    }
}
