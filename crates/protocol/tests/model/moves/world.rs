//! The small world: two nodes, two servers of which one owns the group, the store that says which,
//! and what is under way between them.
//!
//! A message arrives before anything else happens, unless it is late, which costs the world one of
//! its delays, or nothing where messages go in any order. What is late may come at any time, or
//! never: then it is lost. So worlds can be searched through in which groups move and leases end,
//! which takes many messages.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use lockspan_protocol::server::{Input, Output, Store as Write, reply_to};
use lockspan_protocol::{
    LockServer, ServerId, SessionId, StoreId, Term, Tick, ToNode, ToServer, cache,
};

use super::node::Node;
use super::setup::{Budget, Moves, OTHER, RECORD};
use super::store::{Handover, Store};
use crate::frozen::{Frozen, print};
use crate::world::Tokens;

/// A message under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Packet {
    Up {
        server: usize,
        session: SessionId,
        message: ToServer,
    },
    Down {
        server: usize,
        session: SessionId,
        message: ToNode,
    },
    /// Somebody who knows tells a node of a term.
    News {
        node: usize,
        server: usize,
        term: Term,
    },
    ToStore {
        server: usize,
        life: u32,
        ask: Ask,
    },
    FromStore {
        server: usize,
        life: u32,
        say: Say,
    },
}

/// A server to the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// Its writes up to this number.
    Write(u64),
    /// The group is left.
    Left,
}

/// The store to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Say {
    /// Who asked then may act on.
    Confirmed(Tick),
    /// Writes up to this number are durable.
    Written(u64),
    /// It was replaced.
    Gone,
    /// The group is its own.
    Take(Handover),
    /// It is to leave the group.
    Leave,
}

/// A packet, known by its print.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) packet: Arc<Packet>,
    print: u128,
}

impl Sent {
    fn new(packet: Packet) -> Self {
        let print = print(&packet);
        Self { packet: Arc::new(packet), print }
    }
}

impl PartialEq for Sent {
    fn eq(&self, other: &Self) -> bool {
        self.print == other.print
    }
}

impl Hash for Sent {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.print.hash(state);
    }
}

/// A server process.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Server {
    pub(crate) machine: Frozen<LockServer>,
    life: u32,
    /// When its own lease is over, by its clock.
    own_until: Tick,
    /// It was given the group, and has not left it since.
    pub(crate) has_group: bool,
    /// The number of the first write in `writes`, the first of all is number 1.
    first: u64,
    /// Those that the server does not know to be durable.
    writes: VecDeque<(StoreId, Write)>,
    /// Up to this one they are durable.
    stored: u64,
}

impl Server {
    fn new(machine: LockServer, life: u32) -> Self {
        let writes = VecDeque::new();
        let (own_until, has_group) = (Tick::ZERO, false);
        Self {
            machine: Frozen::new(machine),
            life,
            own_until,
            has_group,
            first: 1,
            writes,
            stored: 0,
        }
    }
}

impl Hash for Server {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { machine, life, own_until, has_group, first, stored, .. } = self;
        (machine, life, own_until, has_group, first, stored).hash(state);
        print(&self.writes).hash(state);
    }
}

/// All there is.
#[derive(Clone, Debug, PartialEq, Hash)]
pub(crate) struct World {
    pub(crate) now: Tick,
    pub(crate) servers: [Server; 2],
    pub(crate) store: Store,
    pub(crate) nodes: [Node; 2],
    /// Between this node and this server.
    cut: [[bool; 2]; 2],
    /// When the servers asked last whether they may act on.
    asked_at: Tick,
    /// What arrives next, in this order, unless it is late.
    pub(crate) next: VecDeque<Sent>,
    /// What is late, in the order of the prints.
    pub(crate) late: Vec<Sent>,
    pub(crate) left: Budget,
    pub(crate) tokens: Tokens,
    /// What was seen on the way here.
    pub(crate) seen: Seen,
    /// A promise was broken.
    pub(crate) wrong: Option<String>,
}

/// What is to be seen in some world at least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Seen {
    /// The group has moved, and a guard from before is valid on the lease with the new owner.
    pub(crate) moved_on: bool,
    /// The grant of a server came to a node that knows the later owner.
    pub(crate) late_grant: bool,
    /// By which servers the nodes were granted what they were in with.
    pub(crate) served_by: [[bool; 2]; 2],
}

impl World {
    pub(crate) fn new(setup: &Moves) -> Self {
        let mut world = Self {
            now: Tick(1_000),
            servers: [1, 2].map(|life| Server::new(setup.server(), life)),
            store: Store::new(),
            nodes: [0, 1].map(|node| Node::new(setup.cache(node))),
            cut: [[false; 2]; 2],
            asked_at: Tick(1_000),
            next: VecDeque::new(),
            late: Vec::new(),
            left: Budget::default(),
            tokens: Tokens::default(),
            seen: Seen::default(),
            wrong: None,
        };
        for server in 0..2 {
            world.store.register(server, world.servers[server].life);
            world.confirm(setup, server);
        }
        world.store_tells(0, Say::Take(Handover { above: world.store.epoch, listed: Vec::new() }));
        world.all_arrives(setup);
        for node in 0..2 {
            world.warm_up(setup, node);
        }
        if setup.held {
            world.begin(setup, 0);
            world.all_arrives(setup);
        }
        if setup.asked {
            world.begin(setup, 1);
            world.all_arrives(setup);
        }
        if setup.unanswered {
            world.ask_to_leave();
            world.all_arrives(setup);
        }
        world.left = setup.budget;
        world
    }

    /// Opens the node's sessions: something is wanted, and not wanted any more.
    fn warm_up(&mut self, setup: &Moves, node: usize) {
        let groups = lockspan_protocol::GroupSet::from_iter([OTHER.group()]);
        let route = cache::Input::Route { groups, server: Moves::server_id(1) };
        let records = [(&RECORD, true), (&OTHER, setup.both)];
        self.tell_cache(setup, node, route);
        for (record, _) in records.into_iter().filter(|&(_, is_opened)| is_opened) {
            let record = (*record).clone();
            let (mode, owners) = (lockspan_protocol::Mode::Read, Vec::new());
            let want = cache::Input::Want { record: record.clone(), mode, upgrade: false, owners };
            self.tell_cache(setup, node, want);
            self.tell_cache(setup, node, cache::Input::Withdraw { record });
            self.all_arrives(setup);
        }
    }

    pub(crate) fn wrong(&mut self, what: String) {
        self.wrong.get_or_insert(what);
    }

    pub(crate) fn send(&mut self, packet: Packet) {
        self.next.push_back(Sent::new(packet));
    }

    /// Whether the store knows this life of a server.
    pub(crate) fn is_registered(&self, server: usize) -> bool {
        self.store.is_registered(server, self.servers[server].life)
    }

    fn store_tells(&mut self, server: usize, say: Say) {
        let life = self.servers[server].life;
        self.send(Packet::FromStore { server, life, say });
    }

    fn ask_store(&mut self, server: usize, ask: Ask) {
        let life = self.servers[server].life;
        self.send(Packet::ToStore { server, life, ask });
    }

    pub(crate) fn all_arrives(&mut self, setup: &Moves) {
        while let Some(sent) = self.next.front() {
            let is_answer = match &*sent.packet {
                Packet::Down { session, message: ToNode::Recovered { .. }, .. } => {
                    Moves::node_of(*session) == 0
                }
                _ => false,
            };
            if setup.unanswered && is_answer {
                self.delay();
            } else if let Some(sent) = self.next.pop_front() {
                self.arrives(setup, &sent.packet);
            }
        }
    }

    /// From now on nothing arrives on this way.
    pub(crate) fn cut(&mut self, node: usize, server: usize) {
        self.cut[node][server] = true;
    }

    pub(crate) fn is_cut(&self, node: usize, server: usize) -> bool {
        self.cut[node][server]
    }

    pub(crate) fn mend(&mut self) {
        self.cut = [[false; 2]; 2];
    }

    /// The next message is late.
    pub(crate) fn delay(&mut self) {
        let Some(sent) = self.next.pop_front() else { return };
        let at = self.late.partition_point(|other| other.print <= sent.print);
        self.late.insert(at, sent);
    }

    /// The clock of the servers, or of the nodes.
    fn clock(&self, setup: &Moves, of_server: bool) -> Tick {
        let percent = match (setup.skewed, of_server) {
            (false, _) => 100,
            (true, true) => 105,
            (true, false) => 95,
        };
        Tick(self.now.0 * percent / 100)
    }

    pub(crate) fn node_clock(&self, setup: &Moves) -> Tick {
        self.clock(setup, false)
    }

    fn server_clock(&self, setup: &Moves) -> Tick {
        self.clock(setup, true)
    }

    pub(crate) fn arrives(&mut self, setup: &Moves, packet: &Packet) {
        match packet.clone() {
            Packet::Up { server, session, message } => {
                self.tell_server(setup, server, Input::Message { session, message });
            }
            Packet::Down { server, session, message } => {
                let node = Moves::node_of(session);
                let server = Moves::server_id(server);
                let input = cache::Input::Message { server, session, message };
                self.tell_cache(setup, node, input);
            }
            Packet::News { node, server, term } => {
                let server = Moves::server_id(server);
                self.tell_cache(setup, node, cache::Input::Serves { server, term });
            }
            Packet::ToStore { server, life, ask } => {
                if !self.store.is_registered(server, life) {
                    return self.send(Packet::FromStore { server, life, say: Say::Gone });
                }
                match ask {
                    Ask::Write(upto) => self.store_writes(setup, server, upto),
                    Ask::Left if self.store.owner == server => self.give(false),
                    Ask::Left => {}
                }
            }
            Packet::FromStore { server, life, say } if self.servers[server].life == life => {
                self.store_says(setup, server, say);
            }
            Packet::FromStore { .. } => {}
        }
    }

    /// The store makes durable what a server has written.
    fn store_writes(&mut self, setup: &Moves, server: usize, upto: u64) {
        let Server { first, stored, .. } = self.servers[server];
        for number in stored + 1..=upto {
            let at = usize::try_from(number - first).expect("few writes");
            let what = self.servers[server].writes[at].1.clone();
            if self.store.write(server, &what)
                && setup.news
                && let Write::Epoch(term) = what
            {
                (0..2).for_each(|node| self.send(Packet::News { node, server, term }));
            }
        }
        let stored = stored.max(upto);
        self.servers[server].stored = stored;
        self.store_tells(server, Say::Written(stored));
    }

    fn store_says(&mut self, setup: &Moves, server: usize, say: Say) {
        match say {
            Say::Confirmed(sent) => self.may_act(setup, server, sent),
            Say::Written(upto) => {
                while self.servers[server].first <= upto {
                    let own = &mut self.servers[server];
                    own.first += 1;
                    let (store, _) = own.writes.pop_front().expect("it was written");
                    self.tell_server(setup, server, Input::Stored { store });
                }
            }
            Say::Gone => {
                let life = self.servers[server].life + 2;
                self.servers[server] = Server::new(setup.server(), life);
                self.store.register(server, life);
                self.confirm(setup, server);
            }
            Say::Take(Handover { above, listed }) => {
                self.servers[server].has_group = true;
                let groups = Moves::groups();
                self.tell_server(setup, server, Input::Take { groups, above, listed });
            }
            Say::Leave => {
                self.servers[server].has_group = false;
                self.tell_server(setup, server, Input::Leave { groups: Moves::groups() });
            }
        }
    }

    /// A server that has asked at `sent` may act on.
    fn may_act(&mut self, setup: &Moves, server: usize, sent: Tick) {
        let until = sent + Moves::own_lease();
        self.servers[server].own_until = until;
        self.tell_server(setup, server, Input::Own { until: Some(until) });
    }

    /// A server asks the store whether it may act on.
    fn confirm(&mut self, setup: &Moves, server: usize) {
        let sent = self.server_clock(setup);
        let life = self.servers[server].life;
        if !self.is_registered(server) {
            if !setup.confirms && sent < self.servers[server].own_until {
                return;
            }
            self.send(Packet::FromStore { server, life, say: Say::Gone });
        } else if setup.confirms {
            self.store_tells(server, Say::Confirmed(sent));
        } else {
            self.may_act(setup, server, sent);
        }
    }

    /// The group goes to the other server. `acts`: its owner does not know, and may act on.
    pub(crate) fn give(&mut self, acts: bool) {
        let handover = self.store.give(acts);
        self.store_tells(self.store.owner, Say::Take(handover));
    }

    /// The store asks the owner to leave the group.
    pub(crate) fn ask_to_leave(&mut self) {
        self.store_tells(self.store.owner, Say::Leave);
    }

    fn tell_server(&mut self, setup: &Moves, server: usize, input: Input) {
        let message = match &input {
            Input::Message { session, message } => Some((*session, message.clone())),
            _ => None,
        };
        let now = self.server_clock(setup);
        let done = setup.servers.step(&self.servers[server].machine, now, input);
        self.servers[server].machine = done.next.clone();
        if let Some(panic) = &done.panic {
            self.wrong(format!("server {server}: {panic}"));
        }
        for output in done.out.iter().cloned() {
            match output {
                Output::Send { session, message } => self.answer(server, session, message),
                Output::Store { store, what } => {
                    let own = &mut self.servers[server];
                    own.writes.push_back((store, what));
                    let upto = own.first + own.writes.len() as u64 - 1;
                    self.ask_store(server, Ask::Write(upto));
                }
                Output::Ended { .. } | Output::Settled { .. } => {}
                Output::Left { .. } => self.ask_store(server, Ask::Left),
                Output::Behind { .. } => self.wrong(format!("server {server} is behind")),
            }
        }
        if let (Err(refusal), Some((session, message))) = (&done.result, message)
            && let Some(reply) = reply_to(&message, refusal)
        {
            self.answer(server, session, reply);
        }
    }

    fn answer(&mut self, server: usize, session: SessionId, message: ToNode) {
        self.send(Packet::Down { server, session, message });
    }

    /// The cache wants to know who owns the group; of the other group it knows all there is.
    pub(crate) fn locate(&mut self, setup: &Moves, node: usize) {
        let (groups, server) = (Moves::groups(), Moves::server_id(self.store.owner));
        self.tell_cache(setup, node, cache::Input::Route { groups, server });
    }

    /// The next moment at which something is due, by the clock of the world.
    pub(crate) fn next_deadline(&self, setup: &Moves) -> Option<Tick> {
        let own = |tick: Tick, of_server| {
            let percent = match (setup.skewed, of_server) {
                (false, _) => 100,
                (true, true) => 105,
                (true, false) => 95,
            };
            Tick((tick.0 * 100).div_ceil(percent))
        };
        let caches = self.nodes.iter().filter_map(|node| node.cache.as_ref());
        let caches = caches.filter_map(|cache| cache.next_deadline());
        let caches = caches.map(|tick| own(tick, false));
        let servers = self.servers.iter().filter_map(|server| server.machine.next_deadline());
        let asks = std::iter::once(self.asked_at + Moves::third());
        caches.chain(servers.map(|tick| own(tick, true))).chain(asks).min()
    }

    /// The clocks move on; who has something due, does it, and the servers ask whether they may act
    /// on.
    pub(crate) fn pass(&mut self, setup: &Moves) {
        let Some(next) = self.next_deadline(setup) else { return };
        self.now = self.now.max(next);
        if self.now >= self.asked_at + Moves::third() {
            self.asked_at = self.asked_at + Moves::third();
            (0..2).for_each(|server| self.confirm(setup, server));
        }
        let now = self.node_clock(setup);
        for node in 0..2 {
            let deadline = self.nodes[node].cache.as_ref().and_then(|cache| cache.next_deadline());
            if deadline.is_some_and(|at| at <= now) {
                self.tell_cache(setup, node, cache::Input::Tick);
            }
            self.nodes[node].forget_leases(now);
        }
        let now = self.server_clock(setup);
        for server in 0..2 {
            if self.servers[server].machine.next_deadline().is_some_and(|at| at <= now) {
                self.tell_server(setup, server, Input::Tick);
            }
        }
    }

    /// Forgets messages that nobody can hear any more.
    pub(crate) fn tidy(&mut self) {
        let gone = |node: usize| self.nodes[node].cache.is_none();
        let is_heard = |sent: &Sent| match *sent.packet {
            Packet::Down { server, session, .. } => {
                let node = Moves::node_of(session);
                !gone(node) && !self.is_cut(node, server)
            }
            Packet::News { node, .. } => !gone(node),
            Packet::FromStore { server, life, .. } => self.servers[server].life == life,
            Packet::Up { server, session, .. } => !self.is_cut(Moves::node_of(session), server),
            Packet::ToStore { .. } => true,
        };
        let (mut next, mut late) = (self.next.clone(), self.late.clone());
        next.retain(is_heard);
        late.retain(is_heard);
        (self.next, self.late) = (next, late);
    }

    /// The server with this id.
    pub(crate) fn number_of(server: ServerId) -> usize {
        server.0 as usize
    }

    /// What each node believes, by its own clock: that it may use the record in this mode.
    pub(crate) fn beliefs(&self, setup: &Moves) -> [Option<lockspan_protocol::Mode>; 2] {
        let now = self.node_clock(setup);
        self.nodes.each_ref().map(|node| node.believes(now))
    }
}
