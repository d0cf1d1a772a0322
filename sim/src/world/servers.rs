//! The drivers of servers: what `LockServer` wants done is done here, against a disk or a cluster
//! store.
//!
//! A server that is alone owns all groups. It reads epoch and sessions from its disk and takes the
//! groups again. In a cluster it asks the store what it owns; it writes one batch at a time, in
//! order, again until it is answered. When the store says that its lease is gone, it starts anew,
//! as after a crash.

use std::collections::BTreeSet;
use std::time::Duration;

use lockspan_protocol::server::{Input, Output, reply_to};
use lockspan_protocol::{
    AcquireRefusal, Epoch, GroupSet, Limits, LockServer, ReassertRefusal, Refusal, ReportRefusal,
    SessionId, SessionRefusal, ToNode, ToServer,
};

use super::faults::Fault;
use super::stores::Link;
use super::{Event, World, node_of};
use crate::clock::Clock;
use crate::cluster::{Cluster, Handover};
use crate::coverage::Hit;
use crate::disk::{Disk, listed};
use crate::log::Fate;
use crate::oracle::Kind;
use crate::plan::{Class, Plan, Workload};
use crate::stream;
use crate::words::{self, Machine};

/// A server process and what it stands on.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) clock: Clock,
    /// How often it has been started.
    pub(super) life: u32,
    pub(super) up: bool,
    pub(super) paused_until: u64,
    /// None while it is down, and in a cluster until the store has welcomed it.
    pub(super) machine: Option<LockServer>,
    pub(super) disk: Disk,
    pub(super) link: Link,
    /// Sessions whose node has spoken since the start.
    heard: BTreeSet<SessionId>,
    timer: Option<u64>,
}

impl Server {
    pub(super) fn new(plan: &Plan, clock: Clock, number: u64) -> Self {
        Self {
            clock,
            life: 0,
            up: false,
            paused_until: 0,
            machine: None,
            disk: Disk::new(stream::Disk.rng(plan.seed ^ (number << 32)), plan.disk_max),
            link: Link::default(),
            heard: BTreeSet::new(),
            timer: None,
        }
    }

    /// Whether nothing waits to become durable.
    pub(super) fn is_stored(&self) -> bool {
        self.disk.is_idle() && self.link.writes.is_empty()
    }
}

impl World {
    pub(super) fn limits(&self) -> Limits {
        let usual = Limits::default();
        Limits {
            reserve: Duration::from_micros(self.plan.reserve),
            resend: Duration::from_micros(self.plan.resend_server),
            portion: self.plan.portion as usize,
            // Small portions go with an index of few claims, so that both are met by few nodes.
            crowd: if self.plan.portion < 8 { 2 } else { usual.crowd },
            search_steps: self.plan.search_steps as usize,
            bugs: self.bugs,
            ..usual
        }
    }

    pub(super) fn start_server(&mut self, number: u8) {
        let limits = self.limits();
        let key = self.rng.u64(..);
        let cluster = self.cluster.is_some();
        let server = &mut self.servers[usize::from(number)];
        self.books.restart(number);
        self.forgets.restart(number);
        server.life += 1;
        server.up = true;
        server.paused_until = self.now;
        server.heard.clear();
        server.timer = None;
        server.link = Link::new();
        server.machine = (!cluster).then(|| new_machine(&self.plan, limits, key));
        let life = server.life;
        let (epoch, sessions) = (server.disk.epoch, &server.disk.sessions);
        let handover =
            Handover { groups: GroupSet::ALL, above: epoch, listed: listed(sessions).collect() };
        self.note(Machine::Server(number), || format!("starts, life {life}"));
        if cluster {
            self.renew(number);
            return;
        }
        self.take(number, handover);
        if life > 1 {
            self.reconnect(number);
        }
    }

    /// Nodes notice after a while that a server is there (again).
    pub(super) fn reconnect(&mut self, server: u8) {
        for node in 0..self.nodes.len() as u8 {
            self.connect_soon(node, server);
        }
    }

    /// The process is gone; true if it was there.
    pub(super) fn crash_server(&mut self, number: u8) -> bool {
        let now = self.now;
        let server = &mut self.servers[usize::from(number)];
        if !server.up {
            return false;
        }
        server.up = false;
        let recovering = server.machine.as_ref().is_some_and(LockServer::is_recovering);
        server.machine = None;
        server.paused_until = now;
        let crashed = server.disk.crash(now);
        if self.rng.u64(..1000) < self.plan.rollback {
            server.disk.roll_back();
            self.coverage.hit(Hit::Rollback);
        }
        let lost = crashed.lost > 0 || !server.link.writes.is_empty();
        self.coverage.hit(Hit::ServerCrash);
        for (hit, seen) in [
            (Hit::CrashInGrace, recovering),
            (Hit::StoreLost, lost),
            (Hit::StoredUnseen, crashed.unseen > 0),
        ] {
            if seen {
                self.coverage.hit(hit);
            }
        }
        self.note(Machine::Server(number), || format!("crashes: {crashed:?}"));
        true
    }

    /// A message of a node arrives.
    pub(super) fn server_hears(
        &mut self,
        number: u8,
        node: u8,
        session: SessionId,
        message: ToServer,
    ) {
        let server = &mut self.servers[usize::from(number)];
        if server.machine.is_none() {
            return;
        }
        server.heard.insert(session);
        let link = (Machine::Node(node), Machine::Server(number));
        self.log.message(self.now, link, Fate::Arrived, || words::to_server(&message));
        self.coverage.said_to_server(&message);
        self.server_input(number, Input::Message { session, message });
    }

    /// The client of this session has spoken to the server since its start.
    pub(super) fn server_knows(&mut self, number: u8, session: SessionId) {
        self.servers[usize::from(number)].heard.insert(session);
    }

    /// One step of the machine, and everything that it wants done.
    pub(super) fn server_input(&mut self, number: u8, input: Input) {
        let server = &mut self.servers[usize::from(number)];
        let now = server.clock.at(self.now);
        let Some(machine) = &mut server.machine else { return };
        let asked = match &input {
            Input::Message { session, message } => Some((*session, message.clone())),
            _ => None,
        };
        let record = asked.as_ref().and_then(|(_, message)| record_of(message)).cloned();
        let mut out = Vec::new();
        let result = machine.handle(now, input, &mut out);
        if let Some(record) = record {
            self.coverage.record(machine.state(&record));
        }
        for output in out {
            self.server_output(number, output);
        }
        // After the outputs: what was due before the message came is among them.
        if let (Some((session, message)), Ok(())) = (&asked, &result) {
            self.books.accepted(number, *session, message);
            self.forgets.accepted(number, *session, message);
            if matches!(message, ToServer::Cancel { .. }) {
                self.compare_books(number);
            }
        }
        if let Err(refusal) = result {
            self.server_refuses(number, asked, &refusal);
        }
        self.wind_server(number);
    }

    /// A server knows of nothing that is over.
    pub(super) fn compare_books(&mut self, number: u8) {
        if let Some(machine) = &self.servers[usize::from(number)].machine {
            let compared = self.books.compare(number, &machine.views());
            self.check(compared);
        }
    }

    /// A server knows of nothing that its node has forgotten in silence.
    pub(super) fn compare_nodes(&mut self, number: u8) {
        let Some(machine) = &self.servers[usize::from(number)].machine else { return };
        let has = |session: SessionId, record: u8| {
            if self.stranger_of(session).is_some() {
                return true;
            }
            let line = &self.nodes[usize::from(node_of(session))].lines[usize::from(record)];
            line.opened.is_some() || line.wanted.is_some()
        };
        let compared = self.books.compare_nodes(&machine.views(), has);
        self.check(compared);
    }

    fn server_refuses(
        &mut self,
        number: u8,
        asked: Option<(SessionId, ToServer)>,
        refusal: &Refusal,
    ) {
        self.note(Machine::Server(number), || format!("refuses: {refusal}"));
        match refusal {
            Refusal::Session(SessionRefusal::Resting) => self.coverage.hit(Hit::Rested),
            Refusal::Reassert(ReassertRefusal::TooEarly { .. }) => {
                self.coverage.hit(Hit::StrangerTooEarly);
            }
            Refusal::Acquire(AcquireRefusal::StaleSeq) => self.coverage.hit(Hit::StaleSeq),
            Refusal::Acquire(AcquireRefusal::UpgradeConflict) => {
                self.coverage.hit(Hit::UpgradeRefused);
            }
            _ => {}
        }
        if !may_refuse(&self.plan, refusal) {
            let asked = asked.as_ref().map(|(_, message)| words::to_server(message));
            self.fail(Kind::Refusal, format!("server {number} refused {asked:?}: {refusal}"));
            return;
        }
        if let Some((session, message)) = asked
            && let Some(answer) = reply_to(&message, refusal)
        {
            self.server_sends(number, session, answer);
        }
    }

    fn server_output(&mut self, number: u8, output: Output) {
        match output {
            Output::Send { session, message } => self.server_sends(number, session, message),
            Output::Store { store, what } => self.server_stores(number, store, what),
            Output::Ended { session } => {
                self.coverage.hit(Hit::SessionEnded);
                self.books.ended(number, session);
                self.forgets.ended(number, session);
                self.note(Machine::Server(number), || format!("{session} has ended"));
            }
            Output::Settled { former } => {
                self.coverage.hit(Hit::Settled);
                self.note(Machine::Server(number), || format!("{former} is settled"));
            }
            Output::Behind { groups, above } => self.is_behind(number, groups, above),
            Output::Left { groups } => self.left(number, groups),
        }
    }

    /// A node has shown that the server's storage went back in time: takes the groups again, above
    /// that.
    fn is_behind(&mut self, number: u8, groups: GroupSet, above: Epoch) {
        self.coverage.hit(Hit::Behind);
        let is_ahead = |cluster: &Cluster| cluster.is_ahead_of(number, groups, above);
        if self.cluster.as_ref().is_some_and(|cluster| !is_ahead(cluster)) {
            // It was replaced, and a node has heard of it first: it starts anew.
            let machine = Machine::Server(number);
            let until = self.now + 1;
            self.queue.push(self.now, Event::Fault(Fault::Crash { machine, until }));
            return;
        }
        if self.plan.rollback == 0 {
            let what = format!("server {number} is behind {above}, and no storage went back");
            self.fail(Kind::Refusal, what);
            return;
        }
        let disk = &self.servers[usize::from(number)].disk;
        let (above, listed) = (above.max(disk.epoch), listed(&disk.sessions).collect());
        self.take(number, Handover { groups, above, listed });
    }

    fn server_sends(&mut self, number: u8, session: SessionId, message: ToNode) {
        let server = &self.servers[usize::from(number)];
        if self.plan.dial_back == 0 && !server.heard.contains(&session) {
            return;
        }
        let answered = self.books.answered(number, session, &message);
        self.check(answered);
        let forgotten = self.forgets.answered(number, session, &message);
        self.check(forgotten);
        if let Some(stranger) = self.stranger_of(session) {
            let link = (Machine::Server(number), Machine::Stranger(stranger));
            let words = message.clone();
            let event = || {
                let message = message.clone();
                Event::ToStranger { number: stranger, server: number, session, message }
            };
            return self.send(link, || words::to_node(&words), event);
        }
        let node = node_of(session);
        let mut held_up = None;
        if let ToNode::Recovered { term, former } = &message {
            held_up = self.hold_up_answer(node, number);
            if *former != session {
                self.cut_at_answer(node, number);
            }
            self.recovered(node, session, term.groups);
        }
        let link = (Machine::Server(number), Machine::Node(node));
        let words = message.clone();
        let event = || Event::ToNode { node, server: number, session, message: message.clone() };
        if let Some(at) = held_up {
            return self.queue.push(at, event());
        }
        self.send(link, || words::to_node(&words), event);
    }

    pub(super) fn take(&mut self, number: u8, handover: Handover) {
        let Handover { groups, above, listed } = handover;
        self.note(Machine::Server(number), || {
            let sessions: Vec<_> = listed.iter().map(|one| (one.session.0, one.here)).collect();
            format!("takes {} above {above}, listed {sessions:?}", words::groups(groups))
        });
        if listed.iter().any(|one| one.here && one.last) {
            self.coverage.hit(Hit::ListedLast);
        }
        if listed.iter().any(|one| !one.here) {
            self.cut_at_take(number);
        }
        self.server_input(number, Input::Take { groups, above, listed });
    }

    /// Sets the timer to the machine's next deadline.
    fn wind_server(&mut self, number: u8) {
        let late = self.timer_late();
        let server = &mut self.servers[usize::from(number)];
        let deadline = server.machine.as_ref().and_then(LockServer::next_deadline);
        let Some(deadline) = deadline else { return };
        let at = server.clock.when(deadline).max(self.now) + late;
        if server.timer.is_none_or(|timer| at < timer) {
            server.timer = Some(at);
            let life = server.life;
            self.queue.push(at, Event::ServerTimer { server: number, life });
        }
    }

    pub(super) fn server_timer(&mut self, number: u8) {
        let server = &mut self.servers[usize::from(number)];
        if server.timer.is_some_and(|timer| timer <= self.now) {
            server.timer = None;
        }
        let now = server.clock.at(self.now);
        let deadline = server.machine.as_ref().and_then(LockServer::next_deadline);
        if deadline.is_none_or(|deadline| deadline > now) {
            self.wind_server(number);
            return;
        }
        self.server_input(number, Input::Tick);
        let machine = self.servers[usize::from(number)].machine.as_ref();
        if machine.and_then(LockServer::next_deadline).is_some_and(|next| next <= now) {
            self.fail(
                Kind::Refusal,
                format!("a tick does not move the deadline of server {number}"),
            );
        }
    }
}

pub(super) fn new_machine(plan: &Plan, limits: Limits, key: u64) -> LockServer {
    LockServer::new(limits, plan.shards as usize, key)
}

fn record_of(message: &ToServer) -> Option<&lockspan_protocol::Record> {
    match message {
        ToServer::Acquire { record, .. }
        | ToServer::Release { record, .. }
        | ToServer::Cancel { record, .. } => Some(record),
        _ => None,
    }
}

/// What a server may refuse when every driver does as it should.
fn may_refuse(plan: &Plan, refusal: &Refusal) -> bool {
    let calm = plan.class == Class::Calm;
    match refusal {
        Refusal::Session(SessionRefusal::Unknown | SessionRefusal::Resting) => !calm,
        Refusal::Acquire(why) => match why {
            AcquireRefusal::UpgradeConflict | AcquireRefusal::Deadlock { .. } => true,
            // An acquire that is sent again with more owners can cross its refusal.
            AcquireRefusal::StaleSeq => !calm || plan.workload == Workload::Transactions,
            AcquireRefusal::NotHeld | AcquireRefusal::NotServed(_) => !calm,
            _ => false,
        },
        Refusal::Group(_) | Refusal::Report(ReportRefusal::NotServed(_)) | Refusal::Reassert(_) => {
            !plan.class.is_lossless()
        }
        _ => false,
    }
}
