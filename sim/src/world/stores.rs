//! What servers stand on: the disk of one that is alone, or the store of the cluster.
//!
//! In a cluster a server asks the store what it owns, and renews its lease; it writes one batch at
//! a time, in order, again until it is answered. When the store says that its lease is gone, it
//! starts anew, as after a crash. When the store wants to move groups to another server, the server
//! leaves them, and says so when that is as durable as it has to be.

use std::collections::VecDeque;

use lockspan_protocol::server::{Input, Store};
use lockspan_protocol::{GroupSet, LockServer, StoreId, Term, Tick, cache};

use super::nodes::server_id;
use super::servers::new_machine;
use super::{Event, World};
use crate::cluster::{Gave, Handover, Reply, Request};
use crate::coverage::Hit;
use crate::log::Fate;
use crate::plan::{Class, Plan};
use crate::words::{self, Machine};

/// What a server knows about its cluster store.
#[derive(Debug, Default)]
pub(super) struct Link {
    /// Hand-overs that it has acted upon.
    pub(super) upto: u64,
    /// Number of the first write in `writes`.
    pub(super) first: u64,
    /// Writes that were not answered yet.
    pub(super) writes: VecDeque<(StoreId, Store)>,
    /// The last wish of the store to leave groups that it has heard.
    leaving: u64,
    /// The last that it has fulfilled.
    pub(super) left: u64,
    /// The lease with the store, by the server's clock.
    own_until: Tick,
}

impl Link {
    /// Of a server that has just started.
    pub(super) fn new() -> Self {
        Self { first: 1, ..Self::default() }
    }
}

impl World {
    pub(super) fn server_stores(&mut self, number: u8, store: StoreId, what: Store) {
        self.note(Machine::Server(number), || format!("stores {store}: {what:?}"));
        self.forgets.stores(number, store, &what);
        if self.cluster.is_some() {
            let writes = &mut self.servers[usize::from(number)].link.writes;
            writes.push_back((store, what));
            if writes.len() == 1 {
                self.write_to_store(number);
            }
            return;
        }
        let server = &mut self.servers[usize::from(number)];
        let at = server.disk.write(self.now, store, what);
        let life = server.life;
        self.queue.push(at, Event::Stored { server: number, life, store });
    }

    pub(super) fn disk_answers(&mut self, number: u8, store: StoreId) {
        self.servers[usize::from(number)].disk.answer(store);
        self.note(Machine::Server(number), || format!("stored {store}"));
        self.forgets.stored(number, store);
        self.server_input(number, Input::Stored { store });
    }

    /// Says hello to the store, or renews; and again after a quarter of the lease.
    pub(super) fn renew(&mut self, number: u8) {
        self.say_alive(number);
        self.write_to_store(number);
        let life = self.servers[usize::from(number)].life;
        let again = self.now + self.plan.ttl / 4;
        self.queue.push(again, Event::Renew { server: number, life });
    }

    fn say_alive(&mut self, number: u8) {
        let server = &self.servers[usize::from(number)];
        let sent = server.clock.at(self.now);
        let request = match server.machine {
            None => Request::Hello { sent },
            Some(_) => Request::Renew { sent, upto: server.link.upto, left: server.link.left },
        };
        self.ask_store(number, request);
    }

    /// Where groups move and little goes wrong, servers hear of it as soon as the store knows:
    /// what nobody serves is not extended by anybody. Elsewhere they hear of it when they renew.
    fn tell_of_news(&mut self) {
        let is_told =
            self.plan.is_planned_only() || self.plan.late_answers > 0 || self.plan.unaware > 0;
        let Some(cluster) = &mut self.cluster else { return };
        for server in cluster.take_news() {
            if is_told {
                let life = self.servers[usize::from(server)].life;
                self.store_replies(server, life, Reply::News);
            }
        }
    }

    fn write_to_store(&mut self, number: u8) {
        let link = &self.servers[usize::from(number)].link;
        if !link.writes.is_empty() {
            let writes = link.writes.iter().cloned().collect();
            let request = Request::Write { first: link.first, writes };
            self.ask_store(number, request);
        }
    }

    fn ask_store(&mut self, number: u8, request: Request) {
        let life = self.servers[usize::from(number)].life;
        let link = (Machine::Server(number), Machine::Store);
        let words = request.clone();
        let event = || Event::ToStore { server: number, life, request: request.clone() };
        self.send(link, || format!("{words:?}"), event);
    }

    pub(super) fn store_hears(&mut self, number: u8, life: u32, request: Request) {
        let Some(cluster) = &mut self.cluster else { return };
        let (terms, mut news) = (new_terms(&request), Vec::new());
        let Some(reply) = cluster.handle(self.now, number, life, request) else { return };
        if self.plan.news > 0 && matches!(reply, Reply::Written { .. }) {
            for term in terms {
                // Only where it was written: of the others it is not the owner any more.
                let groups = cluster.groups_of(number).and(term.groups);
                if !groups.is_empty() {
                    news.push(Term { groups, ..term });
                }
            }
        }
        for term in news {
            self.tell_news(number, term);
        }
        self.store_replies(number, life, reply);
        self.tell_of_news();
        self.wind_store();
    }

    fn store_replies(&mut self, number: u8, life: u32, reply: Reply) {
        let link = (Machine::Store, Machine::Server(number));
        let words = reply.clone();
        let event = || Event::FromStore { server: number, life, reply: reply.clone() };
        self.send(link, || format!("{words:?}"), event);
    }

    fn wind_store(&mut self) {
        let Some(cluster) = &self.cluster else { return };
        let Some(at) = cluster.next_end() else { return };
        let at = at.max(self.now);
        if self.store_timer.is_none_or(|timer| at < timer || timer <= self.now) {
            self.store_timer = Some(at);
            self.queue.push(at, Event::StoreTimer);
        }
    }

    pub(super) fn store_expires(&mut self) {
        let Some(cluster) = &mut self.cluster else { return };
        for gave in cluster.expire(self.now) {
            self.coverage.hit(Hit::FailOver);
            self.gave(gave);
        }
        self.wind_store();
    }

    fn gave(&mut self, gave: Gave) {
        if gave.heirs > 1 {
            self.coverage.hit(Hit::SeveralHeirs);
        }
        self.note(Machine::Store, || format!("hands groups over to {} servers", gave.heirs));
    }

    /// Somebody suspects a server, which may well live: its groups go to others at once.
    pub(super) fn suspect(&mut self, server: u8) {
        let Some(cluster) = &mut self.cluster else { return };
        if let Some(gave) = cluster.suspect(server) {
            self.coverage.hit(Hit::Suspected);
            self.note(Machine::Store, || format!("suspects server {server}"));
            self.gave(gave);
            self.tell_of_news();
        }
    }

    /// The store answers a server.
    pub(super) fn hears_store(&mut self, number: u8, reply: Reply) {
        let link = (Machine::Store, Machine::Server(number));
        self.log.message(self.now, link, Fate::Arrived, || format!("{reply:?}"));
        if self.is_outdated(number, &reply) {
            return;
        }
        match reply {
            Reply::Welcome { sent, upto, own } => self.welcomed(number, sent, upto, own),
            Reply::Renewed { sent, handovers, leave } => {
                if self.servers[usize::from(number)].machine.is_none() {
                    return;
                }
                self.owns_until(number, sent);
                for (given, handover) in handovers {
                    let link = &mut self.servers[usize::from(number)].link;
                    if given > link.upto {
                        link.upto = given;
                        self.take(number, handover);
                    }
                }
                if let Some((wish, groups)) = leave {
                    self.leave(number, wish, groups);
                }
            }
            Reply::Written { upto } => self.written(number, upto),
            Reply::News => self.say_alive(number),
            Reply::Gone => {
                self.note(Machine::Server(number), || "has lost its lease".to_owned());
                self.crash_server(number);
                self.start_server(number);
            }
        }
    }

    fn welcomed(&mut self, number: u8, sent: Tick, upto: u64, own: Option<Handover>) {
        let limits = self.limits();
        let key = self.rng.u64(..);
        let server = &mut self.servers[usize::from(number)];
        if server.machine.is_some() {
            return;
        }
        server.machine = Some(new_machine(&self.plan, limits, key));
        server.link.upto = upto;
        self.owns_until(number, sent);
        if let Some(handover) = own {
            self.take(number, handover);
        }
        self.reconnect(number);
    }

    /// What the store says about groups is true for as long as the lease that it gives. After that
    /// the groups may be somebody else's; the store will say it again.
    fn is_outdated(&self, number: u8, reply: &Reply) -> bool {
        let (Reply::Welcome { sent, .. } | Reply::Renewed { sent, .. }) = reply else {
            return false;
        };
        let now = self.servers[usize::from(number)].clock.at(self.now);
        self.cluster.as_ref().is_some_and(|cluster| now >= *sent + cluster.own_lease())
    }

    /// The store wants to give these groups to another server.
    fn leave(&mut self, number: u8, wish: u64, groups: GroupSet) {
        let link = &mut self.servers[usize::from(number)].link;
        if wish > link.leaving {
            link.leaving = wish;
            let machine = self.servers[usize::from(number)].machine.as_ref();
            if machine.is_some_and(LockServer::is_recovering) {
                self.coverage.hit(Hit::MovedInGrace);
            }
            self.coverage.hit(Hit::Moved);
            self.note(Machine::Server(number), || format!("leaves {}", words::groups(groups)));
            self.forgets.left(number, groups);
            self.server_input(number, Input::Leave { groups });
        }
    }

    /// Groups are left: says so. There is one wish at a time.
    pub(super) fn left(&mut self, number: u8, groups: GroupSet) {
        self.note(Machine::Server(number), || format!("has left {}", words::groups(groups)));
        if self.plan.strangers > 0 {
            self.crash_after_forgetting(number);
        }
        let server = &mut self.servers[usize::from(number)];
        let link = &mut server.link;
        link.left = link.leaving;
        let request =
            Request::Renew { sent: server.clock.at(self.now), upto: link.upto, left: link.left };
        self.ask_store(number, request);
    }

    /// The store begins to move some groups from one living server to another.
    /// Others may be under way, and servers may still be recovering from earlier ones. Where
    /// nothing but moves may happen, a group that its owner does not serve yet stays: nobody could
    /// extend what nodes have there, however often it moves.
    pub(super) fn move_groups(&mut self, from: u8) {
        let may_move = self.may_move(from);
        let Some(cluster) = self.cluster.as_mut() else { return };
        if cluster.plan_move(from, may_move) == Some(true) {
            self.coverage.hit(Hit::Drained);
        }
        self.tell_of_news();
    }

    /// The same, of all that it has.
    pub(super) fn move_all(&mut self, from: u8) {
        let may_move = self.may_move(from);
        let Some(cluster) = self.cluster.as_mut() else { return };
        cluster.plan_move_of(from, may_move, 16);
        self.tell_of_news();
    }

    fn may_move(&self, from: u8) -> GroupSet {
        let machine = self.servers[usize::from(from)].machine.as_ref();
        let terms = machine.into_iter().flat_map(|machine| machine.terms());
        let served = terms.fold(GroupSet::EMPTY, |all, term| all.or(term.groups));
        if self.plan.is_planned_only() { served } else { GroupSet::ALL }
    }

    /// The lease with the store counts from when the server has asked.
    fn owns_until(&mut self, number: u8, sent: Tick) {
        let Some(cluster) = &self.cluster else { return };
        let until = sent + cluster.own_lease();
        let link = &mut self.servers[usize::from(number)].link;
        // An answer that was overtaken by a later one does not shorten the lease.
        if until > link.own_until {
            link.own_until = until;
            self.server_input(number, Input::Own { until: Some(until) });
        }
    }

    /// Every node may hear of a term.
    fn tell_news(&mut self, server: u8, term: Term) {
        for node in 0..self.nodes.len() as u8 {
            let life = self.nodes[usize::from(node)].life;
            let link = (Machine::Store, Machine::Node(node));
            let event = || Event::News { node, life, server, term };
            let words = || format!("server {server} serves {}", words::groups(term.groups));
            self.send(link, words, event);
        }
    }

    pub(super) fn node_hears_news(&mut self, node: u8, server: u8, term: Term) {
        let server = server_id(server);
        let terms: Vec<_> = shards_of(&self.plan, term).collect();
        for term in terms {
            self.node_input(node, cache::Input::Serves { server, term });
        }
    }

    /// What a server has forgotten or left matters most if it is restarted, and has to rely on its
    /// store.
    fn crash_after_forgetting(&mut self, number: u8) {
        let is_class = matches!(self.plan.class, Class::Moving | Class::Strangers);
        if !is_class || self.plan.server_crash == 0 || self.rng.u32(..6) > 0 {
            return;
        }
        let at = self.now + self.rng.u64(1..50_000);
        let until = at + 1 + self.rng.u64(0..20_000);
        self.plan_crash(at, until, Machine::Server(number));
    }

    fn written(&mut self, number: u8, upto: u64) {
        loop {
            let link = &mut self.servers[usize::from(number)].link;
            if link.first > upto {
                break;
            }
            let Some((store, what)) = link.writes.pop_front() else { break };
            link.first += 1;
            let forgets = matches!(what, Store::Forget { .. } | Store::Settle { .. });
            if forgets {
                self.crash_after_forgetting(number);
            }
            self.forgets.stored(number, store);
            self.server_input(number, Input::Stored { store });
        }
        self.write_to_store(number);
    }
}

/// The terms that a server writes, as a whole.
fn new_terms(request: &Request) -> Vec<Term> {
    let Request::Write { writes, .. } = request else { return Vec::new() };
    let epochs = writes.iter().filter_map(|(_, what)| match what {
        Store::Epoch(term) => Some(*term),
        _ => None,
    });
    epochs.collect()
}

/// As the tables of a server have it.
fn shards_of(plan: &Plan, term: Term) -> impl Iterator<Item = Term> {
    let shards = plan.shards as usize;
    let part = move |shard: usize| -> GroupSet {
        term.groups.iter().filter(|group| usize::from(group.0) % shards == shard).collect()
    };
    let parts = (0..shards).map(part).filter(|groups| !groups.is_empty());
    parts.map(move |groups| Term { groups, ..term })
}
