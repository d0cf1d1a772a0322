//! A node of the small world: a cache that has sessions with both servers, and one thread that does
//! what its script says.

use std::collections::BTreeMap;

use lockspan_protocol::cache::{Input, LeaseId, Output};
use lockspan_protocol::{AcquireRefusal, LockCache, Mode, Tick, ToNode, ToServer, Token};

use super::setup::{Moves, RECORD};
use super::world::{Packet, World};
use crate::frozen::Frozen;
use crate::node::{Op, Thread};

/// What the cache has opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Opened {
    mode: Mode,
    token: Token,
    lease: LeaseId,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Hash)]
pub(crate) struct Node {
    /// Gone after a crash.
    pub(crate) cache: Option<Frozen<LockCache>>,
    pub(crate) thread: Thread,
    /// How many of the script's are over.
    pub(crate) done: usize,
    /// How many of those were done, not lost or refused.
    pub(crate) served: usize,
    opened: Option<Opened>,
    /// What it drains to.
    drain: Option<Option<Mode>>,
    /// The ends of the leases that the driver was told of.
    leases: BTreeMap<LeaseId, Tick>,
}

impl Node {
    pub(crate) fn new(cache: LockCache) -> Self {
        Self {
            cache: Some(Frozen::new(cache)),
            thread: Thread::Idle,
            done: 0,
            served: 0,
            opened: None,
            drain: None,
            leases: BTreeMap::new(),
        }
    }

    /// How the node may use the record at this moment, as far as it knows: a thread does, and its
    /// guard says that it is valid, or one could begin to without a message.
    pub(crate) fn believes(&self, now: Tick) -> Option<Mode> {
        let cache = self.cache.as_ref()?;
        let may = |mode| cache.is_usable(now, &RECORD, mode);
        let guard = self.guard(now);
        [Mode::Write, Mode::Read].into_iter().find(|&mode| guard == Some(mode) || may(mode))
    }

    /// How a thread holds the record, as long as the lease stands.
    fn guard(&self, now: Tick) -> Option<Mode> {
        let mode = match self.thread {
            Thread::In { mode, .. } => mode,
            Thread::Upgrades => Mode::Read,
            Thread::Idle | Thread::Wants(_) => return None,
        };
        let until = self.leases.get(&self.opened?.lease);
        until.is_some_and(|&until| now < until).then_some(mode)
    }

    /// The server on whose lease a valid guard rests.
    fn rests_on(&self, now: Tick) -> Option<usize> {
        self.guard(now)?;
        match self.opened?.lease {
            LeaseId::Server(server) => Some(World::number_of(server)),
            LeaseId::Ending(_) => None,
        }
    }

    pub(crate) fn crash(&mut self, script: &[Op]) {
        let done = script.len();
        *self = Self {
            cache: None,
            thread: Thread::Idle,
            done,
            opened: None,
            drain: None,
            ..self.clone()
        };
        self.leases.clear();
    }

    /// Leases that are over are the same to all.
    pub(crate) fn forget_leases(&mut self, now: Tick) {
        self.leases.retain(|_, until| *until > now);
    }

    /// The threads that have to leave have left.
    fn is_drained(&self) -> bool {
        let Some(to) = self.drain else { return false };
        let stays = |mode| to.is_some_and(|to: Mode| to.covers(mode));
        match self.thread {
            Thread::In { mode, .. } => stays(mode),
            Thread::Upgrades => stays(Mode::Read),
            Thread::Idle | Thread::Wants(_) => true,
        }
    }
}

impl World {
    /// The thread takes up the next of its script.
    pub(crate) fn begin(&mut self, setup: &Moves, at: usize) {
        let op = setup.scripts[at][self.nodes[at].done];
        let now = self.node_clock(setup);
        let node = &mut self.nodes[at];
        let cache = node.cache.as_ref().expect("it lives");
        match node.opened {
            Some(opened) if node.drain.is_none() && cache.is_usable(now, &RECORD, op.first()) => {
                self.enter(setup, at, op.first(), opened.token);
            }
            _ => {
                node.opened = None;
                node.thread = Thread::Wants(op.first());
                self.want(setup, at, op.first(), false);
            }
        }
    }

    /// A thread that reads wants to write.
    pub(crate) fn upgrade(&mut self, setup: &Moves, at: usize) {
        match self.nodes[at].opened {
            Some(opened) if opened.mode == Mode::Write => {
                self.enter(setup, at, Mode::Write, opened.token);
            }
            _ => {
                self.nodes[at].thread = Thread::Upgrades;
                self.want(setup, at, Mode::Write, true);
            }
        }
    }

    fn want(&mut self, setup: &Moves, at: usize, mode: Mode, upgrade: bool) {
        let input = Input::Want { record: RECORD.clone(), mode, upgrade, owners: Vec::new() };
        self.tell_cache(setup, at, input);
    }

    pub(crate) fn release(&mut self, setup: &Moves, at: usize) {
        let node = &mut self.nodes[at];
        node.thread = Thread::Idle;
        node.done += 1;
        node.served += 1;
        self.settle(setup, at);
    }

    fn enter(&mut self, setup: &Moves, at: usize, mode: Mode, token: Token) {
        let op = setup.scripts[at][self.nodes[at].done];
        let converts = op == Op::Upgrade && mode == Mode::Read;
        self.nodes[at].thread = Thread::In { mode, converts };
        self.tokens.enter(at, mode, token, &mut self.wrong);
    }

    /// One input for a cache, everything that it wants done, and what follows from that at once.
    pub(crate) fn tell_cache(&mut self, setup: &Moves, at: usize, input: Input) {
        let now = self.node_clock(setup);
        let said = self.said_about(at, &input);
        let Some(cache) = &self.nodes[at].cache else { return };
        let done = setup.caches.step(cache, now, input);
        self.nodes[at].cache = Some(done.next.clone());
        if let Some(panic) = &done.panic {
            self.wrong(format!("node {at}: {panic}"));
        }
        if let Err(refusal) = done.result {
            self.wrong(format!("node {at}: its driver is refused: {refusal}"));
        }
        for output in done.out.iter().cloned() {
            self.check_rule_z(at, said, &output);
            self.heed(setup, at, output);
        }
        self.settle(setup, at);
        // What was granted by the first owner, and rests on the lease with the other now.
        let node = &self.nodes[at];
        let is_first = node.opened.is_some_and(|opened| opened.token.epoch() == self.first_epoch());
        self.seen.moved_on |= is_first && node.rests_on(now) == Some(1);
    }

    /// What is said about the record, and by whom.
    fn said_about(&mut self, at: usize, input: &Input) -> Option<Said> {
        let Input::Message { server, message, .. } = input else { return None };
        let (record, is_grant) = match message {
            ToNode::Refused { why: AcquireRefusal::NotServed(_), .. } => return None,
            ToNode::Granted { record, .. } => (record, true),
            ToNode::Queued { record, .. }
            | ToNode::Retry { record, .. }
            | ToNode::Revoke { record, .. }
            | ToNode::Keep { record, .. }
            | ToNode::Refused { record, .. }
            | ToNode::Lost { record, .. } => (record, false),
            _ => return None,
        };
        let cache = self.nodes[at].cache.as_ref()?;
        let is_replaced = cache.known_owner(record).is_some_and(|owner| owner != *server);
        self.seen.late_grant |= is_replaced && is_grant;
        Some(Said { server: Self::number_of(*server), is_grant, is_replaced })
    }

    /// A node neither heeds nor answers a server about a record of which it knows a later owner.
    fn check_rule_z(&mut self, at: usize, said: Option<Said>, output: &Output) {
        let Some(cache) = &self.nodes[at].cache else { return };
        match (said, output) {
            (Some(said), Output::Open { .. } | Output::Drain { .. } | Output::Refused { .. })
                if said.is_replaced =>
            {
                self.wrong(format!("node {at} heeds a server that was replaced: {output:?}"));
            }
            (Some(Said { server, is_grant: true, .. }), Output::Open { .. }) => {
                self.seen.served_by[at][server] = true;
            }
            (
                _,
                Output::Send {
                    server,
                    message:
                        ToServer::Release { record, .. }
                        | ToServer::Cancel { record, .. }
                        | ToServer::Report { record, .. },
                    ..
                },
            ) if cache.known_owner(record).is_some_and(|owner| owner != *server) => {
                self.wrong(format!("node {at} answers a server that was replaced: {output:?}"));
            }
            _ => {}
        }
    }

    fn heed(&mut self, setup: &Moves, at: usize, output: Output) {
        let node = &mut self.nodes[at];
        match output {
            Output::Send { server, session, message } => {
                let server = Self::number_of(server);
                self.send(Packet::Up { server, session, message });
            }
            Output::Open { mode, token, lease, .. } => {
                node.opened = Some(Opened { mode, token, lease });
                node.drain = None;
                match node.thread {
                    Thread::Wants(wish) if mode.covers(wish) => self.enter(setup, at, wish, token),
                    Thread::Upgrades if mode == Mode::Write => {
                        self.enter(setup, at, Mode::Write, token);
                    }
                    _ => {}
                }
            }
            Output::Rests { lease, .. } => {
                if let Some(opened) = &mut node.opened {
                    opened.lease = lease;
                }
            }
            Output::HeldBy { .. } => {}
            Output::Drain { to, .. } => node.drain = Some(to),
            Output::Lost { .. } => {
                node.opened = None;
                node.drain = None;
                if matches!(node.thread, Thread::In { .. } | Thread::Upgrades) {
                    node.thread = Thread::Idle;
                    node.done += 1;
                }
            }
            Output::Refused { why, .. } => match (node.thread, why) {
                (Thread::Upgrades, AcquireRefusal::UpgradeConflict) => {
                    node.thread = Thread::In { mode: Mode::Read, converts: false };
                }
                // Of a thread that has lost its read.
                (Thread::Idle, AcquireRefusal::NotHeld) => {}
                (thread, why) => self.wrong(format!("node {at}: {thread:?} is refused: {why}")),
            },
            Output::Lease { lease, until } => {
                node.leases.insert(lease, until);
            }
            Output::Locate { groups } if groups.contains(RECORD.group()) => {
                self.locate(setup, at);
            }
            Output::Locate { .. } => {}
        }
    }

    /// Answers a drain, if nobody is in the way any more.
    fn settle(&mut self, setup: &Moves, at: usize) {
        let node = &mut self.nodes[at];
        if node.is_drained() {
            match (node.drain.take().flatten(), &mut node.opened) {
                (Some(mode), Some(opened)) => opened.mode = mode,
                _ => node.opened = None,
            }
            self.tell_cache(setup, at, Input::Drained { record: RECORD.clone() });
        }
    }
}

/// Something about the record that arrives.
#[derive(Clone, Copy, Debug)]
struct Said {
    server: usize,
    is_grant: bool,
    /// The node knows a later owner.
    is_replaced: bool,
}
