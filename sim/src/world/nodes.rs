//! The drivers of nodes: what `LockCache` wants done is done here, with a fair lock for each
//! record.
//!
//! Inputs stand in a queue of the node. One is handled; its outputs are done, in order; then the
//! locks it has touched are *settled*: who may go in goes in, and the cache is told what has come
//! of it, by inputs that stand at the end of the queue.

use std::collections::VecDeque;
use std::time::Duration;

use fastrand::Rng;
use lockspan_protocol::cache::{Config, Input, LeaseId, Output, PageLimits};
use lockspan_protocol::{
    AcquireRefusal, GroupSet, Handoff, LockCache, Mode, Owner, Record, ServerId, SessionId, ToNode,
    ToServer, Token,
};

use super::threads::Thread;
use super::{Event, SESSIONS_OF_NODE, World};
use crate::clock::Clock;
use crate::coverage::Hit;
use crate::local::{Drain, Line, Opened};
use crate::log::Fate;
use crate::oracle::Kind;
use crate::plan::{Class, Plan};
use crate::words::{self, Machine};

/// More sessions than a node begins in one life.
const SESSIONS_OF_LIFE: u64 = 1000;

/// A node process.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) clock: Clock,
    /// How often it has been started.
    pub(super) life: u32,
    pub(super) paused_until: u64,
    pub(super) cache: Option<LockCache>,
    first_session: u64,
    /// By record.
    pub(super) lines: Vec<Line>,
    pub(super) threads: Vec<Thread>,
    handoff: Handoff,
    pub(super) inbox: VecDeque<Input>,
    timer: Option<u64>,
    /// Groups that it has asked the store for.
    pub(super) asking: GroupSet,
    /// It will ask again.
    pub(super) asks_again: bool,
}

impl Node {
    pub(super) fn new(plan: &Plan, number: u8, clock: Clock, rng: &mut Rng) -> Self {
        let retries = rng.u64(..1000) < plan.retry;
        let threads = 0..plan.threads as u8;
        Self {
            clock,
            life: 0,
            paused_until: 0,
            cache: None,
            first_session: 0,
            lines: vec![Line::default(); plan.records as usize],
            threads: threads.map(|thread| Thread::new(plan.seed, number, thread)).collect(),
            handoff: if retries { Handoff::Retry } else { Handoff::Direct },
            inbox: VecDeque::new(),
            timer: None,
            asking: GroupSet::EMPTY,
            asks_again: false,
        }
    }

    pub(super) fn is_up(&self) -> bool {
        self.cache.is_some()
    }

    /// Owners that wait for each other here, in the lines of all records.
    fn local_waits(&self) -> Vec<lockspan_protocol::LocalWait> {
        let mut waits: Vec<_> = self.lines.iter().flat_map(Line::waits).collect();
        waits.sort_unstable();
        waits.dedup();
        waits
    }

    /// Everybody that `from` waits for, over others, on this node.
    pub(super) fn reachable(
        &self,
        from: &[Owner],
    ) -> (Vec<Owner>, Vec<lockspan_protocol::LocalWait>) {
        let waits = self.local_waits();
        let mut owners = from.to_vec();
        let mut on_the_way = Vec::new();
        let mut at = 0;
        while at < owners.len() {
            for wait in waits.iter().filter(|wait| wait.waiter == owners[at]) {
                on_the_way.push(*wait);
            }
            let next: Vec<_> = waits.iter().filter(|wait| wait.waiter == owners[at]).collect();
            for wait in next {
                if !owners.contains(&wait.holder) {
                    owners.push(wait.holder);
                }
            }
            at += 1;
        }
        on_the_way.sort_unstable();
        (owners, on_the_way)
    }
}

impl World {
    pub(super) fn start_node(&mut self, number: u8) {
        let drawn = self.rng.u64(0..SESSIONS_OF_NODE / SESSIONS_OF_LIFE) * SESSIONS_OF_LIFE;
        let first = (u64::from(number) + 1) * SESSIONS_OF_NODE + drawn;
        let node = &mut self.nodes[usize::from(number)];
        node.life += 1;
        node.first_session = first;
        node.paused_until = self.now;
        node.timer = None;
        node.asking = GroupSet::EMPTY;
        node.asks_again = false;
        node.inbox.clear();
        node.lines.iter_mut().for_each(|line| *line = Line::default());
        node.cache = Some(LockCache::new(Config {
            first_session: SessionId(first),
            ttl: Duration::from_micros(self.plan.ttl),
            handoff: node.handoff,
            label: None,
            resend: Duration::from_micros(self.plan.resend_node),
            stay: self.plan.stay(),
            records: 1000,
            owners: 64,
            pages: pages(first),
            bugs: self.bugs,
        }));
        let life = node.life;
        self.note(Machine::Node(number), || format!("starts, life {life}"));
        for thread in 0..self.plan.threads as u8 {
            self.start_thread(number, thread);
        }
    }

    /// The process is gone; true if it was there.
    pub(super) fn crash_node(&mut self, number: u8) -> bool {
        let node = &mut self.nodes[usize::from(number)];
        if node.cache.take().is_none() {
            return false;
        }
        self.coverage.hit(Hit::NodeCrash);
        if node.lines.iter().any(|line| !line.holders.is_empty()) {
            self.coverage.hit(Hit::NodeCrashHolding);
        }
        node.paused_until = self.now;
        self.guards.crash(number);
        for record in 0..self.records.len() as u8 {
            self.stays.over(number, record);
        }
        self.note(Machine::Node(number), || "crashes".to_owned());
        true
    }

    /// A message of a server arrives.
    pub(super) fn node_hears(
        &mut self,
        number: u8,
        server: u8,
        session: SessionId,
        message: ToNode,
    ) {
        let node = &self.nodes[usize::from(number)];
        if !node.is_up() {
            return;
        }
        let (life, first) = (node.life, node.first_session);
        let link = (Machine::Server(server), Machine::Node(number));
        self.log.message(self.now, link, Fate::Arrived, || words::to_node(&message));
        self.coverage.said_to_node(&message);
        self.books.heard(self.now, session, &message);
        if let Some(order) = &mut self.order {
            let heard = order.heard(self.now, number, &message);
            self.check(heard);
        }
        let of_this_life = session.0 >= first && session.0 < first + SESSIONS_OF_LIFE;
        if let ToNode::Granted { record, seq, mode: Mode::Write, token, .. } = &message
            && of_this_life
        {
            let record = words::number(record);
            let granted = self.guards.granted(record, (number, life, *seq), *token);
            self.check(granted);
        }
        let server = server_id(server);
        self.node_input(number, Input::Message { server, session, message });
    }

    /// Something happens to the cache; and then everything that follows from it.
    pub(super) fn node_input(&mut self, number: u8, input: Input) {
        self.nodes[usize::from(number)].inbox.push_back(input);
        self.work_off(number);
    }

    /// Handles what stands in the inbox of a node.
    pub(super) fn work_off(&mut self, number: u8) {
        while self.failure.is_none() {
            let Some(input) = self.nodes[usize::from(number)].inbox.pop_front() else { break };
            self.node_step(number, input);
        }
        self.wind_node(number);
    }

    fn node_step(&mut self, number: u8, input: Input) {
        let lapsed = self.guards.lapsed(self.now, number);
        let node = &mut self.nodes[usize::from(number)];
        let now = node.clock.at(self.now);
        let Some(cache) = &mut node.cache else { return };
        let late = late_grant(cache, &input);
        let replaced = said_by_replaced(cache, &input);
        let needed = needed_grant(&input).cloned();
        let mut out = Vec::new();
        if let Err(why) = cache.handle(now, input, &mut out) {
            // Time has passed all the same: what was spoken of may be lost with its lease.
            let lost = |output: &Output| match output {
                Output::Lost { record } => needed.as_ref() == Some(record),
                _ => false,
            };
            if !out.iter().any(lost) {
                let what = format!("the cache of node {number} refused: {why}");
                self.fail(Kind::Refusal, what);
                return;
            }
        }
        let opens = |output: &Output| match output {
            Output::Open { record, token, .. } => late == Some((record.clone(), *token)),
            _ => false,
        };
        if out.iter().any(opens) {
            let what = format!("node {number} opens {late:?}, and knows a later epoch");
            self.fail(Kind::Epoch, what);
            return;
        }
        // An upgrade is refused when its read is lost with the lease, whoever speaks just then.
        let is_over =
            |record: &Record| lapsed.iter().any(|(other, _)| *other == words::number(record));
        let heeds = |output: &Output| match output {
            Output::Open { record, .. } | Output::Drain { record, .. } => {
                replaced.as_ref() == Some(record)
            }
            Output::Refused { record, .. } => replaced.as_ref() == Some(record) && !is_over(record),
            _ => false,
        };
        if out.iter().any(heeds) {
            let what = format!("node {number} heeds a replaced owner of {replaced:?}: {out:?}");
            self.fail(Kind::Epoch, what);
            return;
        }
        self.check_reported(number, lapsed, &out);
        self.check_lost(number, &out);
        let mut touched = Vec::new();
        for output in out {
            if let Some(record) = self.node_output(number, output) {
                touched.push(record);
            }
        }
        for record in touched {
            self.settle(number, record);
        }
    }

    /// Guards past their lease must be reported lost before anything else happens to them.
    fn check_reported(&mut self, number: u8, mut lapsed: Vec<(u8, LeaseId)>, out: &[Output]) {
        if lapsed.is_empty() {
            return;
        }
        self.coverage.hit(Hit::LeaseLapsed);
        for output in out {
            let early = match output {
                Output::Lost { record } => {
                    let record = words::number(record);
                    lapsed.retain(|(other, _)| *other != record);
                    false
                }
                Output::Open { record, .. } | Output::Drain { record, .. } => {
                    lapsed.iter().any(|(other, _)| *other == words::number(record))
                }
                Output::Lease { lease, .. } => lapsed.iter().any(|(_, other)| other == lease),
                _ => false,
            };
            if early {
                break;
            }
        }
        if let Some((record, lease)) = lapsed.first() {
            let what = format!(
                "record {record}: node {number} has a guard past its lease {lease:?}, and did \
                 {out:?}"
            );
            self.fail(Kind::NotLost, what);
        }
    }

    /// Where no message is lost but to a server that is down, and no node crashes, nothing is lost
    /// before its lease is over: a restart costs nobody a grant.
    fn check_lost(&mut self, number: u8, out: &[Output]) {
        let planned_only = self.plan.is_planned_only();
        if !matches!(self.plan.class, Class::Calm | Class::Jitter | Class::Restart) && !planned_only
        {
            return;
        }
        for output in out {
            if let Output::Lost { record } = output {
                let record = words::number(record);
                let line = &self.nodes[usize::from(number)].lines[usize::from(record)];
                let lease = line.opened.map(|opened| opened.lease);
                let stands = lease.is_some_and(|lease| self.guards.stands(self.now, number, lease));
                if planned_only && lease.is_some() {
                    let what = format!("record {record}: lost on node {number} by a planned move");
                    self.fail(Kind::NotLost, what);
                }
                if stands {
                    let what =
                        format!("record {record}: lost on node {number}, whose lease stands");
                    self.fail(Kind::NotLost, what);
                }
            }
        }
    }

    /// Does what the cache wants done; says which record it is about.
    fn node_output(&mut self, number: u8, output: Output) -> Option<u8> {
        if self.log.is_on() && !matches!(output, Output::Send { .. }) {
            self.note(Machine::Node(number), || format!("{output:?}"));
        }
        match output {
            Output::Send { server, session, message } => {
                self.node_sends(number, server.0 as u8, session, message);
                None
            }
            Output::Open { record, mode, token, lease } => {
                let record = words::number(&record);
                let opened = Opened { mode, token, lease };
                self.opened(number, record, opened);
                Some(record)
            }
            Output::Rests { record, lease } => {
                if matches!(lease, LeaseId::Ending(_)) {
                    self.coverage.hit(Hit::Capped);
                }
                let record = words::number(&record);
                let node = &mut self.nodes[usize::from(number)];
                let opened = &mut node.lines[usize::from(record)].opened;
                opened.iter_mut().for_each(|opened| opened.lease = lease);
                self.guards.rests_on(record, number, lease);
                None
            }
            Output::Drain { record, to, stay } => {
                let record = words::number(&record);
                let node = &mut self.nodes[usize::from(number)];
                let drain = &mut node.lines[usize::from(record)].drain;
                drain.get_or_insert(Drain { to, stay }).to = to;
                let now = node.clock.at(self.now);
                self.stays.drain(now, number, record, to);
                Some(record)
            }
            Output::Lost { record } => {
                let record = words::number(&record);
                self.lost(number, record);
                Some(record)
            }
            Output::Refused { record, why } => {
                let record = words::number(&record);
                self.refused(number, record, &why);
                Some(record)
            }
            Output::HeldBy { .. } => None,
            Output::Lease { lease, until } => {
                self.guards.lease(number, lease, until);
                None
            }
            Output::Locate { groups } => {
                self.locate(number, groups);
                None
            }
        }
    }

    fn node_sends(&mut self, number: u8, server: u8, session: SessionId, message: ToServer) {
        if let Some(order) = &mut self.order {
            order.sent(self.now, number, &message);
        }
        self.books.sent(self.now, session, &message);
        let link = (Machine::Node(number), Machine::Server(server));
        let words = message.clone();
        let event = || Event::ToServer { server, node: number, session, message: message.clone() };
        self.send(link, || words::to_server(&words), event);
    }

    /// A server says that it has the re-assertions of a node.
    pub(super) fn recovered(&mut self, number: u8, _session: SessionId, groups: GroupSet) {
        for (record, name) in self.records.clone().iter().enumerate() {
            let line = &self.nodes[usize::from(number)].lines[record];
            let Some(opened) = line.opened.filter(|_| groups.contains(name.group())) else {
                continue;
            };
            let checked = self.guards.reasserted(record as u8, number, opened.token);
            self.check(checked);
        }
    }

    /// Sets the timer to the cache's next deadline.
    fn wind_node(&mut self, number: u8) {
        let late = self.timer_late();
        let node = &mut self.nodes[usize::from(number)];
        let Some(deadline) = node.cache.as_ref().and_then(LockCache::next_deadline) else { return };
        let at = node.clock.when(deadline).max(self.now) + late;
        if node.timer.is_none_or(|timer| at < timer) {
            node.timer = Some(at);
            let life = node.life;
            self.queue.push(at, Event::NodeTimer { node: number, life });
        }
    }

    pub(super) fn node_timer(&mut self, number: u8) {
        let node = &mut self.nodes[usize::from(number)];
        if node.timer.is_some_and(|timer| timer <= self.now) {
            node.timer = None;
        }
        let now = node.clock.at(self.now);
        let deadline = node.cache.as_ref().and_then(LockCache::next_deadline);
        if deadline.is_none_or(|deadline| deadline > now) {
            self.wind_node(number);
            return;
        }
        self.node_input(number, Input::Tick);
        let cache = self.nodes[usize::from(number)].cache.as_ref();
        if cache.and_then(LockCache::next_deadline).is_some_and(|next| next <= now) {
            self.fail(Kind::Refusal, format!("a tick does not move the deadline of node {number}"));
        }
    }
}

/// A grant of an earlier epoch than the node knows, that it does not have yet.
fn late_grant(cache: &LockCache, input: &Input) -> Option<(Record, Token)> {
    let Input::Message { message: ToNode::Granted { record, token, .. }, .. } = input else {
        return None;
    };
    let is_late = token.epoch() < cache.known_epoch(record) && !cache.holds(record);
    is_late.then(|| (record.clone(), *token))
}

/// The record that a server speaks of, if the node knows another owner of its group. That the
/// server does not serve it is no news to heed.
fn said_by_replaced(cache: &LockCache, input: &Input) -> Option<Record> {
    let Input::Message { server, message, .. } = input else { return None };
    let (ToNode::Granted { record, .. }
    | ToNode::Queued { record, .. }
    | ToNode::Retry { record, .. }
    | ToNode::Revoke { record, .. }
    | ToNode::Keep { record, .. }
    | ToNode::Refused { record, .. }) = message
    else {
        return None;
    };
    if matches!(message, ToNode::Refused { why: AcquireRefusal::NotServed(_), .. }) {
        return None;
    }
    let is_replaced = cache.known_owner(record).is_some_and(|owner| owner != *server);
    is_replaced.then(|| record.clone())
}

/// The record that an input is about, if it means nothing when that is not held.
fn needed_grant(input: &Input) -> Option<&Record> {
    match input {
        Input::Drained { record }
        | Input::Busy { record, .. }
        | Input::Return { record }
        | Input::Want { record, upgrade: true, .. } => Some(record),
        _ => None,
    }
}

/// Whether an input is about this record, and means nothing when that is not held.
pub(super) fn needs_grant(input: &Input, about: &Record) -> bool {
    needed_grant(input) == Some(about)
}

pub(super) fn server_id(server: u8) -> ServerId {
    ServerId(u32::from(server))
}

/// Pages so small that a node of few records has several of them.
fn pages(first_session: u64) -> PageLimits {
    let (claims, window) = (first_session % 2 + 1, first_session / 2 % 2 + 1);
    PageLimits { claims: claims as usize, bytes: 1 << 10, window: window as usize }
}
