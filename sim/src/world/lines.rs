//! What a node does with its lines: the cache opens, drains and loses records; threads go in and
//! leave; the cache is told what the head of each line needs.

use lockspan_protocol::cache::Input;
use lockspan_protocol::{AcquireRefusal, Mode, Owner};

use super::World;
use super::nodes::needs_grant;
use crate::coverage::Hit;
use crate::local::{Drain, Opened, Wanted};
use crate::oracle::Kind;

impl World {
    pub(super) fn opened(&mut self, number: u8, record: u8, opened: Opened) {
        let line = &mut self.nodes[usize::from(number)].lines[usize::from(record)];
        line.opened = Some(opened);
        line.drain = None;
        line.reported = None;
        if line.wanted.as_ref().is_some_and(|wanted| opened.mode.covers(wanted.mode)) {
            line.wanted = None;
        }
        self.stays.over(number, record);
        self.guards.rests_on(record, number, opened.lease);
        let excluded = self.guards.opened(self.now, record, number, opened.mode, opened.lease);
        self.check(excluded);
        self.admit(number, record);
    }

    pub(super) fn lost(&mut self, number: u8, record: u8) {
        let node = &mut self.nodes[usize::from(number)];
        let line = &mut node.lines[usize::from(record)];
        let holders = line.lose();
        line.wanted.take_if(|wanted| wanted.upgrade);
        let name = &self.records[usize::from(record)];
        node.inbox.retain(|input| !needs_grant(input, name));
        let upgrader = line.waiters.iter().find(|waiter| waiter.upgrade).copied();
        if let Some(waiter) = upgrader {
            line.give_up(waiter.thread);
        }
        self.guards.lose(record, number);
        self.stays.over(number, record);
        for holder in holders {
            self.coverage.hit(Hit::GuardLost);
            self.guard_lost(number, holder.thread, record);
        }
        if let Some(waiter) = upgrader {
            self.wait_fails(number, waiter.thread);
        }
    }

    pub(super) fn refused(&mut self, number: u8, record: u8, why: &AcquireRefusal) {
        let line = &mut self.nodes[usize::from(number)].lines[usize::from(record)];
        line.wanted = None;
        let victims: Vec<u8> = match why {
            AcquireRefusal::Deadlock { cycle } => {
                self.coverage.hit(Hit::Deadlock);
                let in_cycle = |owner: Option<Owner>| owner.is_some_and(|one| cycle.contains(&one));
                let waiters = line.waiters.iter().filter(|waiter| in_cycle(waiter.owner));
                waiters.map(|waiter| waiter.thread).collect()
            }
            AcquireRefusal::UpgradeConflict | AcquireRefusal::NotHeld => {
                let upgraders = line.waiters.iter().filter(|waiter| waiter.upgrade);
                upgraders.map(|waiter| waiter.thread).collect()
            }
            _ => {
                let what = format!("record {record}: node {number} was refused: {why}");
                self.fail(Kind::Refusal, what);
                return;
            }
        };
        for thread in victims {
            let owner = self.nodes[usize::from(number)].threads[usize::from(thread)].owner();
            if let (Some(deadlocks), Some(owner)) = (&self.deadlocks, owner) {
                let checked = deadlocks.refused(self.now, owner);
                self.check(checked);
            }
            let line = &mut self.nodes[usize::from(number)].lines[usize::from(record)];
            line.give_up(thread);
            self.wait_fails(number, thread);
        }
    }

    /// Lets threads in as long as that is allowed.
    fn admit(&mut self, number: u8, record: u8) {
        loop {
            let node = &mut self.nodes[usize::from(number)];
            let now = node.clock.at(self.now);
            let Some(cache) = &node.cache else { return };
            let line = &mut node.lines[usize::from(record)];
            let leased = |lease| cache.lease_end(lease).is_some_and(|end| now < end);
            let Some((waiter, opened)) = line.admit(now, leased) else { return };
            if !waiter.upgrade {
                let turn = self.stays.turn(now, number, record, waiter.mode);
                self.check(turn);
            }
            self.goes_in(number, record, waiter, opened);
        }
    }

    /// Lets in who may go in, and tells the cache what has come of it.
    pub(super) fn settle(&mut self, number: u8, record: u8) {
        self.admit(number, record);
        let node = &mut self.nodes[usize::from(number)];
        let now = node.clock.at(self.now);
        let name = &self.records[usize::from(record)];
        let line = &mut node.lines[usize::from(record)];
        if line.is_drained(now) {
            line.close();
            let left = line.opened;
            node.inbox.push_back(Input::Drained { record: name.clone() });
            self.stays.over(number, record);
            self.guards.closed(record, number);
            if let Some(Opened { mode, lease, .. }) = left {
                let excluded = self.guards.opened(self.now, record, number, mode, lease);
                self.check(excluded);
            }
            self.admit(number, record);
        }
        self.want(number, record);
        self.report(number);
        self.cover(number, record);
    }

    /// Tells the cache what the head of the line needs, if that has changed.
    fn want(&mut self, number: u8, record: u8) {
        let name = self.records[usize::from(record)].clone();
        let node = &mut self.nodes[usize::from(number)];
        let line = &mut node.lines[usize::from(record)];
        let need = line.need();
        if need == line.wanted {
            return;
        }
        let same_kind = |a: &Wanted, b: &Wanted| (a.mode, a.upgrade) == (b.mode, b.upgrade);
        if let Some(wanted) = &line.wanted
            && !need.as_ref().is_some_and(|need| same_kind(need, wanted))
        {
            node.inbox.push_back(Input::Withdraw { record: name.clone() });
        }
        if let Some(Wanted { mode, upgrade, owners }) = need.clone() {
            // Without an upgrade the record is closed until it is answered.
            if !upgrade && let Some(opened) = line.opened.take() {
                self.guards.closed(record, number);
                if opened.mode == Mode::Read {
                    self.coverage.hit(Hit::NodeTrade);
                }
            }
            node.inbox.push_back(Input::Want { record: name, mode, upgrade, owners });
        }
        line.wanted = need;
    }

    /// Tells the cache who keeps what was revoked, if that has changed. Only owners matter.
    fn report(&mut self, number: u8) {
        let node = &self.nodes[usize::from(number)];
        if node.threads.iter().all(|thread| thread.owner().is_none()) {
            return;
        }
        for record in 0..self.records.len() {
            let node = &self.nodes[usize::from(number)];
            let line = &node.lines[record];
            if line.drain.is_none() {
                continue;
            }
            let owners: Vec<_> = line.holders.iter().filter_map(|holder| holder.owner).collect();
            let (_, waits) = node.reachable(&owners);
            let report = (owners, waits);
            let is_told = line.reported.as_ref().is_some_and(|told| *told == report);
            if is_told || (report.0.is_empty() && line.reported.is_none()) {
                continue;
            }
            let node = &mut self.nodes[usize::from(number)];
            node.lines[record].reported = Some(report.clone());
            let (holders, waits) = report;
            let record = self.records[record].clone();
            node.inbox.push_back(Input::Busy { record, holders, waits });
        }
    }

    /// In which state the record is on the node, as in the table of states.
    fn cover(&mut self, number: u8, record: u8) {
        let line = &self.nodes[usize::from(number)].lines[usize::from(record)];
        let upgrading = line.wanted.as_ref().is_some_and(|wanted| wanted.upgrade);
        self.coverage.hit(match (line.opened, line.drain, upgrading) {
            (Some(_), Some(_), true) => Hit::NodeUpgradingDraining,
            (Some(_), None, true) => Hit::NodeUpgrading,
            (Some(_), Some(Drain { to: Some(_), .. }), false) => Hit::NodeDowngrading,
            (Some(_), Some(_), false) => Hit::NodeDraining,
            (Some(_), None, false) => Hit::NodeOpen,
            (None, ..) if line.wanted.is_some() => Hit::NodeAsking,
            (None, ..) => Hit::NodeAbsent,
        });
    }
}
