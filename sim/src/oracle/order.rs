//! Who was served before whom, seen from outside: from when nodes send their acquires and when
//! grants arrive.
//!
//! With one delay *d* for every message and one clock, an acquire that is sent at *s* is at the
//! server at *s + d*, and a grant that arrives at *g* was made at *g − d*. So in a calm world it
//! must hold that
//!
//! - **writers in order**: when a write is granted, no node waits for writing that has asked
//!   earlier. Upgraders are left out: they go first by rule.
//! - **readers don't pass**: when a read is granted while a writer waits that has asked earlier
//!   than the reader, some writer had the record between the reader's arrival and its grant: it was
//!   the readers' turn.
//! - **one writer's turn**: between the arrival of a reader and its grant at most one write is
//!   granted.
//!
//! Where servers crash, arrivals are lost and asked again, but tickets survive:
//!
//! - **tickets in order**: when a write is granted, no node waits for writing that was told a lower
//!   ticket. What counts is the first that it was told: a restart does not put anybody behind.

use std::collections::BTreeMap;

use lockspan_protocol::{Mode, Record, Seq, Ticket, ToNode, ToServer};

use super::{Failure, Kind};
use crate::words;

#[derive(Clone, Copy, Debug)]
struct Wait {
    seq: Seq,
    mode: Mode,
    upgrade: bool,
    sent: u64,
    ticket: Option<Ticket>,
}

/// A time in which a node had a record for writing, at the server.
#[derive(Clone, Copy, Debug)]
struct Written {
    node: u8,
    seq: Seq,
    from: u64,
    until: Option<u64>,
}

#[derive(Debug, Default)]
struct Line {
    /// By node.
    waits: BTreeMap<u8, Wait>,
    written: Vec<Written>,
}

/// The order of service in worlds with one delay.
#[derive(Debug)]
pub(crate) struct Order {
    delay: u64,
    /// No server crashes: times tell the order; otherwise only tickets do.
    calm: bool,
    /// By record.
    lines: Vec<Line>,
}

impl Order {
    pub(crate) fn new(delay: u64, calm: bool, records: usize) -> Self {
        Self { delay, calm, lines: (0..records).map(|_| Line::default()).collect() }
    }

    fn line(&mut self, record: &Record) -> &mut Line {
        &mut self.lines[usize::from(words::number(record))]
    }

    /// A node sends a message.
    pub(crate) fn sent(&mut self, at: u64, node: u8, message: &ToServer) {
        let arrives = at + self.delay;
        match message {
            ToServer::Acquire { record, mode, seq, upgrade, .. } => {
                let line = self.line(record);
                if line.waits.get(&node).is_none_or(|wait| wait.seq != *seq) {
                    let (mode, upgrade) = (*mode, *upgrade);
                    let wait = Wait { seq: *seq, mode, upgrade, sent: at, ticket: None };
                    line.waits.insert(node, wait);
                    line.end(node, seq.before(), arrives);
                }
            }
            ToServer::Release { record, seq, .. } | ToServer::Cancel { record, seq, .. } => {
                let line = self.line(record);
                if line.waits.get(&node).is_some_and(|wait| wait.seq <= *seq) {
                    line.waits.remove(&node);
                }
                line.end(node, *seq, arrives);
            }
            // What was asked in another session is over.
            ToServer::Open { .. } | ToServer::Close => {
                for line in &mut self.lines {
                    line.waits.remove(&node);
                    line.end(node, Seq(u64::MAX), arrives);
                }
            }
            _ => {}
        }
    }

    /// A node hears a message.
    pub(crate) fn heard(&mut self, at: u64, node: u8, message: &ToNode) -> Result<(), Failure> {
        match message {
            ToNode::Queued { record, seq, ticket, .. } => {
                let wait = self.line(record).waits.get_mut(&node);
                if let Some(wait) = wait.filter(|wait| wait.seq == *seq) {
                    wait.ticket.get_or_insert(*ticket);
                }
                Ok(())
            }
            ToNode::Refused { record, seq, .. } => {
                let waits = &mut self.line(record).waits;
                if waits.get(&node).is_some_and(|wait| wait.seq == *seq) {
                    waits.remove(&node);
                }
                Ok(())
            }
            ToNode::Granted { record, seq, mode, .. } => {
                let (delay, calm) = (self.delay, self.calm);
                let line = self.line(record);
                let made = at - delay;
                let wait = line.waits.get(&node).copied().filter(|wait| wait.seq == *seq);
                let checked = match wait {
                    Some(wait) if calm => line.check_times(delay, node, &wait, made),
                    Some(wait) => line.check_tickets(node, &wait),
                    None => Ok(()),
                };
                if wait.is_some() {
                    line.waits.remove(&node);
                }
                // Also a grant that nobody waits for any more was somebody's turn at the server.
                let known = line.written.iter().any(|one| (one.node, one.seq) == (node, *seq));
                if *mode == Mode::Write && !known {
                    line.written.push(Written { node, seq: *seq, from: made, until: None });
                }
                checked.map_err(|what| Failure::new(Kind::Order, format!("{record}: {what}")))
            }
            _ => Ok(()),
        }
    }
}

impl Line {
    /// Everything of `node` up to `seq` ends when a message arrives.
    fn end(&mut self, node: u8, seq: Seq, arrives: u64) {
        for written in &mut self.written {
            if written.node == node && written.seq <= seq && written.until.is_none() {
                written.until = Some(arrives);
            }
        }
    }

    /// Others that wait for writing, in line.
    fn writers(&self, node: u8) -> impl Iterator<Item = (&u8, &Wait)> {
        let others = self.waits.iter().filter(move |(other, _)| **other != node);
        others.filter(|(_, wait)| wait.mode == Mode::Write && !wait.upgrade)
    }

    fn check_times(&self, delay: u64, node: u8, wait: &Wait, made: u64) -> Result<(), String> {
        let earlier = self.writers(node).find(|(_, other)| other.sent < wait.sent);
        if wait.mode == Mode::Write {
            return match earlier {
                Some((other, earlier)) if !wait.upgrade => Err(format!(
                    "node {node} writes with {wait:?}, but node {other} has {earlier:?}"
                )),
                _ => Ok(()),
            };
        }
        let arrived = wait.sent + delay;
        let turns = self.written.iter().filter(|written| {
            written.node != node && written.from > arrived && written.from < made
        });
        let turns = turns.count();
        if turns > 1 {
            return Err(format!("node {node} waited with {wait:?} for {turns} writers"));
        }
        let mut written = self.written.iter();
        let readers_turn =
            written.any(|one| one.from <= made && one.until.is_none_or(|until| until >= arrived));
        match earlier {
            Some((other, earlier)) if !readers_turn => {
                Err(format!("node {node} reads with {wait:?} past node {other} with {earlier:?}"))
            }
            _ => Ok(()),
        }
    }

    fn check_tickets(&self, node: u8, wait: &Wait) -> Result<(), String> {
        if wait.mode != Mode::Write || wait.upgrade {
            return Ok(());
        }
        let lower = |other: &Wait| match (other.ticket, wait.ticket) {
            (Some(other), Some(own)) => other < own,
            (Some(_), None) => true,
            (None, _) => false,
        };
        match self.writers(node).find(|(_, other)| lower(other)) {
            None => Ok(()),
            Some((other, earlier)) => {
                Err(format!("node {node} writes with {wait:?}, but node {other} has {earlier:?}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockspan_protocol::{Epoch, Token};

    const D: u64 = 10;

    fn acquire(mode: Mode, seq: u64) -> ToServer {
        ToServer::Acquire {
            record: words::record(0),
            mode,
            seq: Seq(seq),
            epoch: Epoch::NONE,
            upgrade: false,
            owners: Vec::new(),
        }
    }

    fn granted(mode: Mode, seq: u64) -> ToNode {
        let (record, token) = (words::record(0), Token::default());
        ToNode::Granted { record, seq: Seq(seq), mode, token, give_back: None }
    }

    fn release(seq: u64) -> ToServer {
        ToServer::Release { record: words::record(0), seq: Seq(seq), keep: None }
    }

    fn queued(seq: u64, place: u64) -> ToNode {
        let ticket = Ticket::new(Epoch::NONE, place).unwrap();
        ToNode::Queued { record: words::record(0), seq: Seq(seq), ticket, ahead: 0 }
    }

    #[test]
    fn a_writer_that_overtakes_is_found() {
        let mut order = Order::new(D, true, 1);
        order.sent(100, 0, &acquire(Mode::Write, 1));
        order.sent(101, 1, &acquire(Mode::Write, 1));
        assert!(order.heard(130, 1, &granted(Mode::Write, 1)).is_err());
        assert!(order.heard(140, 0, &granted(Mode::Write, 1)).is_ok());
    }

    #[test]
    fn a_reader_that_joins_readers_past_a_writer_is_found() {
        let mut order = Order::new(D, true, 1);
        order.sent(90, 0, &acquire(Mode::Read, 1));
        order.heard(110, 0, &granted(Mode::Read, 1)).unwrap();
        order.sent(120, 1, &acquire(Mode::Write, 1));
        order.sent(130, 2, &acquire(Mode::Read, 1));
        assert!(order.heard(150, 2, &granted(Mode::Read, 1)).is_err());
    }

    #[test]
    fn readers_may_go_when_a_writer_has_left() {
        let mut order = Order::new(D, true, 1);
        order.sent(90, 0, &acquire(Mode::Write, 1));
        order.heard(110, 0, &granted(Mode::Write, 1)).unwrap();
        order.sent(120, 1, &acquire(Mode::Write, 1));
        order.sent(130, 2, &acquire(Mode::Read, 1));
        order.sent(140, 0, &release(1));
        assert!(order.heard(160, 2, &granted(Mode::Read, 1)).is_ok());
    }

    #[test]
    fn a_reader_that_waits_for_two_writers_is_found() {
        let mut order = Order::new(D, true, 1);
        order.sent(100, 2, &acquire(Mode::Read, 1));
        for (node, at) in [(0, 150), (1, 200)] {
            order.sent(at - 2 * D, node, &acquire(Mode::Write, 1));
            order.heard(at, node, &granted(Mode::Write, 1)).unwrap();
            order.sent(at + 1, node, &release(1));
        }
        assert!(order.heard(230, 2, &granted(Mode::Read, 1)).is_err());
    }

    #[test]
    fn tickets_decide_where_servers_crash() {
        let mut order = Order::new(D, false, 1);
        for (node, place) in [(0, 1), (1, 2)] {
            order.sent(100, node, &acquire(Mode::Write, 1));
            order.heard(120, node, &queued(1, place)).unwrap();
        }
        assert!(order.heard(900, 1, &granted(Mode::Write, 1)).is_err());
        assert!(order.heard(910, 0, &granted(Mode::Write, 1)).is_ok());
    }

    #[test]
    fn who_has_gone_is_not_overtaken() {
        let mut order = Order::new(D, true, 1);
        order.sent(100, 0, &acquire(Mode::Write, 1));
        order.sent(101, 1, &acquire(Mode::Write, 1));
        let record = words::record(0);
        order.sent(105, 0, &ToServer::Cancel { record, seq: Seq(1), keep: None });
        assert!(order.heard(130, 1, &granted(Mode::Write, 1)).is_ok());
    }
}
