//! The small world: two nodes, a server, its disk, and what is under way between them.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use lockspan_protocol::server::{Input, Listed, Output, Store, reply_to};
use lockspan_protocol::{
    Client, Epoch, Handoff, LockServer, Mode, Seq, SessionId, StoreId, Tick, ToNode, ToServer,
    Token, cache,
};

use super::frozen::Frozen;
use super::node::Node;
use super::setup::{Budget, RECORD, SERVER, Setup};

/// A message under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Packet {
    Up { session: SessionId, message: ToServer },
    Down { session: SessionId, message: ToNode },
}

/// What survives a crash of the server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Disk {
    epoch: Epoch,
    sessions: BTreeMap<SessionId, (Duration, Handoff, bool)>,
    /// Not durable yet, in this order.
    pub(crate) pending: Vec<(StoreId, Store)>,
}

impl Hash for Disk {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.epoch.hash(state);
        self.sessions.hash(state);
        format!("{:?}", self.pending).hash(state);
    }
}

/// The tokens that threads were let in with, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Tokens {
    write: Token,
    /// Who wrote last, if nobody else was in since.
    writer: Option<usize>,
}

impl Tokens {
    pub(crate) fn enter(
        &mut self,
        at: usize,
        mode: Mode,
        token: Token,
        wrong: &mut Option<String>,
    ) {
        let same = self.writer == Some(at);
        let rises = token > self.write || (token == self.write && (mode == Mode::Read || same));
        if !rises {
            let last = self.write;
            *wrong =
                Some(format!("node {at}: {mode} with token {token} after a write with {last}"));
        }
        if mode == Mode::Write {
            *self = Self { write: token, writer: Some(at) };
        } else if !same {
            self.writer = None;
        }
    }
}

/// All there is.
#[derive(Clone, Debug, PartialEq, Hash)]
pub(crate) struct World {
    pub(crate) now: Tick,
    pub(crate) server: Frozen<LockServer>,
    pub(crate) disk: Disk,
    pub(crate) nodes: [Node; 2],
    /// Messages on their ways, by the number of the way; on each, in order. Without order,
    /// each message has a way of its own.
    pub(crate) net: Vec<(u64, Arc<Packet>)>,
    ordered: bool,
    pub(crate) left: Budget,
    pub(crate) tokens: Tokens,
    /// What was released or cancelled in this term.
    over: BTreeSet<(SessionId, Seq)>,
    /// A promise was broken.
    pub(crate) wrong: Option<String>,
}

impl World {
    pub(crate) fn new(setup: &Setup) -> Self {
        let mut world = Self {
            now: Tick(1),
            server: Frozen::new(setup.server()),
            disk: Disk { epoch: Epoch::NONE, sessions: BTreeMap::new(), pending: Vec::new() },
            nodes: [0, 1].map(|node| Node::new(setup.cache(node))),
            net: Vec::new(),
            ordered: setup.ordered,
            left: setup.budget,
            tokens: Tokens::default(),
            over: BTreeSet::new(),
            wrong: None,
        };
        world.take(setup);
        world.store_all(setup);
        for node in 0..2 {
            let route = cache::Input::Route { groups: Setup::groups(), server: SERVER };
            world.tell_cache(setup, node, route);
            if !setup.cold {
                world.warm_up(setup, node);
            }
        }
        world
    }

    /// Opens the node's session: something is wanted, and not wanted any more.
    fn warm_up(&mut self, setup: &Setup, node: usize) {
        let record = RECORD.clone();
        let (mode, owners) = (Mode::Read, Vec::new());
        let want = cache::Input::Want { record, mode, upgrade: false, owners };
        self.tell_cache(setup, node, want);
        self.tell_cache(setup, node, cache::Input::Withdraw { record: RECORD.clone() });
        while !self.net.is_empty() {
            self.deliver_all_of(setup, node);
            self.store_all(setup);
        }
    }

    /// Whether both nodes hold the record, and their leases stand, and they exclude each other.
    pub(crate) fn has_conflict(&self) -> bool {
        let [one, other] = self.nodes.each_ref().map(|node| node.holds(self.now));
        one.zip(other).is_some_and(|(one, other)| one.conflicts(other))
    }

    pub(crate) fn wrong(&mut self, what: String) {
        self.wrong.get_or_insert(what);
    }

    pub(crate) fn send(&mut self, packet: Packet) {
        let mut hasher = DefaultHasher::new();
        match &packet {
            Packet::Up { session, .. } if self.ordered => (0, session).hash(&mut hasher),
            Packet::Down { session, .. } if self.ordered => (1, session).hash(&mut hasher),
            packet => packet.hash(&mut hasher),
        }
        let way = hasher.finish();
        let at = self.net.partition_point(|&(other, _)| other <= way);
        self.net.insert(at, (way, Arc::new(packet)));
    }

    /// It is under way no more.
    pub(crate) fn remove(&mut self, packet: &Packet) {
        let at = self.net.iter().position(|(_, other)| **other == *packet);
        self.net.remove(at.expect("it is under way"));
    }

    pub(crate) fn deliver(&mut self, setup: &Setup, packet: &Packet) {
        self.remove(packet);
        match packet.clone() {
            Packet::Up { session, message } => self.arrive(setup, session, message),
            Packet::Down { session, message } => {
                let input = cache::Input::Message { server: SERVER, session, message };
                self.tell_cache(setup, Setup::node_of(session), input);
            }
        }
    }

    /// Delivers whatever is under way from and to a node, and what follows from that.
    pub(crate) fn deliver_all_of(&mut self, setup: &Setup, node: usize) {
        let is_of = |packet: &Packet| {
            let (Packet::Up { session, .. } | Packet::Down { session, .. }) = packet;
            Setup::node_of(*session) == node
        };
        while let Some((_, packet)) = self.net.iter().find(|(_, packet)| is_of(packet)).cloned() {
            self.deliver(setup, &packet);
            self.tidy();
        }
    }

    /// A message comes to the server.
    fn arrive(&mut self, setup: &Setup, session: SessionId, message: ToServer) {
        if let ToServer::Release { seq, .. } | ToServer::Cancel { seq, .. } = message {
            self.over.insert((session, seq));
        }
        self.tell_server(setup, Input::Message { session, message });
    }

    pub(crate) fn tell_server(&mut self, setup: &Setup, input: Input) {
        let message = match &input {
            Input::Message { session, message } => Some((*session, message.clone())),
            _ => None,
        };
        let done = setup.servers.step(&self.server, self.now, input);
        self.server = done.next.clone();
        if let Some(panic) = &done.panic {
            self.wrong(format!("server: {panic}"));
        }
        for output in done.out.iter().cloned() {
            match output {
                Output::Send { session, message } => self.answer(session, message),
                Output::Store { store, what } => self.disk.pending.push((store, what)),
                Output::Ended { .. } | Output::Settled { .. } | Output::Left { .. } => {}
                Output::Behind { groups, above } => self.wrong(format!("behind {groups} {above}")),
            }
        }
        if let (Err(refusal), Some((session, message))) = (&done.result, message)
            && let Some(reply) = reply_to(&message, refusal)
        {
            self.answer(session, reply);
        }
        if !setup.slow_disk {
            self.store_all(setup);
        }
    }

    /// The server says something.
    fn answer(&mut self, session: SessionId, message: ToNode) {
        if let ToNode::Granted { seq, .. } = message
            && self.over.contains(&(session, seq))
        {
            self.wrong(format!("{session} is granted {seq}, which it has released"));
        }
        self.send(Packet::Down { session, message });
    }

    /// The first write that is under way is durable now.
    pub(crate) fn store(&mut self, setup: &Setup) {
        let (store, what) = self.disk.pending.remove(0);
        match what {
            Store::Epoch(term) => self.disk.epoch = term.epoch,
            Store::Session { session, ttl, handoff, last, .. } => {
                self.disk.sessions.insert(session, (ttl, handoff, last));
            }
            Store::Forget { session } => {
                self.disk.sessions.remove(&session);
            }
            Store::Settle { .. } => {}
        }
        self.tell_server(setup, Input::Stored { store });
    }

    fn store_all(&mut self, setup: &Setup) {
        while !self.disk.pending.is_empty() {
            self.store(setup);
        }
    }

    /// The server serves the group, with what its disk says.
    fn take(&mut self, setup: &Setup) {
        let listed = self.disk.sessions.iter();
        let listed = listed
            .map(|(&session, &(ttl, handoff, last))| {
                let here = true;
                let (client, acts) = (Client::Node, Duration::ZERO);
                Listed { session, ttl, handoff, here, last, client, acts }
            })
            .collect();
        let (groups, above) = (Setup::groups(), self.disk.epoch);
        self.tell_server(setup, Input::Take { groups, above, listed });
    }

    /// The server is killed and started again.
    pub(crate) fn restart(&mut self, setup: &Setup) {
        self.server = Frozen::new(setup.server());
        self.disk.pending.clear();
        self.over.clear();
        self.take(setup);
        if setup.connected {
            self.net.clear();
            let connected = cache::Input::Connected { server: SERVER };
            (0..2).for_each(|node| self.tell_cache(setup, node, connected.clone()));
        }
    }

    /// The next moment at which something is due.
    pub(crate) fn next_deadline(&self) -> Option<Tick> {
        let caches = self.nodes.iter().filter_map(|node| node.cache.as_ref());
        let caches = caches.filter_map(|cache| cache.next_deadline());
        caches.chain(self.server.next_deadline()).min()
    }

    /// The clock, which is the same for all, moves on; who has something due, does it.
    pub(crate) fn pass(&mut self, setup: &Setup) {
        let Some(next) = self.next_deadline() else { return };
        self.now = self.now.max(next);
        for node in 0..2 {
            let deadline = self.nodes[node].cache.as_ref().and_then(|cache| cache.next_deadline());
            if deadline.is_some_and(|at| at <= self.now) {
                self.tell_cache(setup, node, cache::Input::Tick);
            }
        }
        if self.server.next_deadline().is_some_and(|at| at <= self.now) {
            self.tell_server(setup, Input::Tick);
        }
    }

    /// Forgets messages that nobody can hear any more.
    pub(crate) fn tidy(&mut self) {
        let mut net = std::mem::take(&mut self.net);
        net.retain(|(_, packet)| self.is_heard(packet));
        self.net = net;
    }
}
