//! What goes wrong, and when. Each kind of fault has its own stream of random numbers, so that to
//! switch one off leaves the others as they are. Every fault is over when the time of faults is.

use fastrand::Rng;
use lockspan_protocol::Input;

use super::stores::Link;
use super::{Event, World};
use crate::coverage::Hit;
use crate::plan::Class;
use crate::stream;
use crate::words::Machine;

/// Something goes wrong with a machine or a link, until a moment.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    Cut { from: Machine, to: Machine, both: bool, until: u64 },
    Join { from: Machine, to: Machine, both: bool },
    Crash { machine: Machine, until: u64 },
    Pause { machine: Machine, until: u64 },
    Move { from: u8 },
    MoveAll { from: u8 },
    Suspect { server: u8, cut: Option<u64> },
    Retire { server: u8, which: usize },
    Depart { server: u8 },
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Cut,
    OneWay,
    StoreCut,
    Move,
    NodeCrash,
    NodePause,
    ServerCrash,
    ServerPause,
    Retire,
    Suspect,
}

impl World {
    /// Puts all faults of the world into the queue.
    pub(super) fn plan_faults(&mut self) {
        let plan = &self.plan;
        let kinds = [
            (Kind::Cut, plan.cut),
            (Kind::OneWay, plan.one_way),
            (Kind::StoreCut, plan.store_cut),
            (Kind::Move, plan.moves),
            (Kind::NodeCrash, plan.node_crash),
            (Kind::NodePause, plan.node_pause),
            (Kind::ServerCrash, plan.server_crash),
            (Kind::ServerPause, plan.server_pause),
            (Kind::Retire, plan.retires),
            (Kind::Suspect, plan.suspects),
        ];
        for (kind, gap) in kinds {
            if gap > 0 {
                self.plan_kind(kind, gap);
            }
        }
        if self.plan.departs > 0 {
            let mut rng = stream::Fault(u8::MAX).rng(self.plan.seed);
            let at = rng.u64(self.plan.time / 4..=self.plan.time * 3 / 4);
            let server = rng.u8(..self.servers.len() as u8);
            self.queue.push(at, Event::Fault(Fault::Depart { server }));
        }
    }

    fn plan_kind(&mut self, kind: Kind, gap: u64) {
        let mut rng = stream::Fault(kind as u8).rng(self.plan.seed);
        let end = self.plan.time;
        let (nodes, servers) = (self.nodes.len() as u8, self.servers.len() as u8);
        let mut at = 0;
        loop {
            at += rng.u64(1..=2 * gap);
            if at >= end {
                return;
            }
            let mut until = at + self.lasts(kind, &mut rng);
            let node = Machine::Node(rng.u8(..nodes));
            let number = rng.u8(..servers);
            let server = Machine::Server(number);
            let (from, to) = if rng.bool() { (node, server) } else { (server, node) };
            if matches!(kind, Kind::Cut | Kind::NodePause)
                && self.plan.server_crash > 0
                && rng.u32(..3) == 0
            {
                until = self.plan_absence(at, server, &mut rng);
            }
            until = until.min(end);
            let fault = match kind {
                Kind::Cut => Fault::Cut { from, to, both: true, until },
                Kind::OneWay => Fault::Cut { from, to, both: false, until },
                Kind::StoreCut => {
                    Fault::Cut { from: server, to: Machine::Store, both: true, until }
                }
                Kind::Move => Fault::Move { from: number },
                Kind::NodeCrash => Fault::Crash { machine: node, until },
                Kind::NodePause => Fault::Pause { machine: node, until },
                Kind::ServerCrash => Fault::Crash { machine: server, until },
                Kind::ServerPause => Fault::Pause { machine: server, until },
                Kind::Retire => Fault::Retire { server: number, which: rng.usize(..16) },
                // Often it is suspected because it can't be reached; and then it does not know.
                Kind::Suspect => {
                    let longer = at + rng.u64(self.plan.ttl..3 * self.plan.ttl);
                    let cut = (rng.u32(..4) > 0).then_some(longer.min(end));
                    Fault::Suspect { server: number, cut }
                }
            };
            self.queue.push(at, Event::Fault(fault));
            // A server that has just come back is at its weakest: its writes are under way.
            if matches!(kind, Kind::ServerCrash) && rng.u32(..3) == 0 {
                let soon = 2 * self.plan.disk_max + 20 * self.plan.delay_max;
                let again = until + rng.u64(1..=soon);
                self.plan_crash(again, again + 1 + rng.u64(0..20_000), server);
            }
        }
    }

    /// How long a fault lasts: an instant, a part of a lease, or longer than a lease. A server that
    /// is cut off from the store must outlive its own lease and its successor's grace to do harm.
    fn lasts(&self, kind: Kind, rng: &mut Rng) -> u64 {
        let ttl = self.plan.ttl;
        match (rng.u32(..3), kind) {
            (0, _) => rng.u64(1..20_000),
            (_, Kind::StoreCut) => rng.u64(ttl..4 * ttl),
            (1, _) => rng.u64(1..ttl / 2),
            _ => rng.u64(ttl..2 * ttl),
        }
    }

    /// What a node believes when it is back from an absence matters most if its server has given it
    /// up and then crashed meanwhile. Says when the node is back: soon after the server.
    fn plan_absence(&mut self, at: u64, server: Machine, rng: &mut Rng) -> u64 {
        let ttl = self.plan.ttl;
        let crash = at + rng.u64(ttl * 2 / 5..ttl * 11 / 10);
        let until = crash + rng.u64(1..20_000);
        self.plan_crash(crash, until, server);
        until + rng.u64(1..50_000)
    }

    /// The answer to a re-assertion is lost, and the node is cut off from there on: it goes on with
    /// what it knows, and the server with what it has heard.
    pub(super) fn cut_at_answer(&mut self, node: u8, server: u8) {
        self.cut_for_long(node, server, 4);
    }

    /// A server takes groups, and one node can't reach it for longer than a lease.
    pub(super) fn cut_at_take(&mut self, server: u8) {
        let node = self.rng.u8(..self.nodes.len() as u8);
        self.cut_for_long(node, server, 8);
    }

    /// One time in so many, where nodes are cut off at all.
    fn cut_for_long(&mut self, node: u8, server: u8, seldom: u32) {
        let is_class = matches!(self.plan.class, Class::Moving | Class::Strangers);
        let may_cut = is_class && self.plan.cut > 0 && self.now < self.plan.time;
        // One node at a time: it is the others that get what it had.
        let cuts = self.net.cuts_of_nodes();
        if may_cut && cuts == 0 && self.rng.u32(..seldom) == 0 {
            let until = self.now + self.rng.u64(self.plan.ttl..2 * self.plan.ttl);
            let until = until.min(self.plan.time);
            self.cut(Machine::Node(node), Machine::Server(server), true, until);
        }
    }

    pub(super) fn plan_crash(&mut self, at: u64, until: u64, machine: Machine) {
        let until = until.min(self.plan.time);
        if at < until {
            self.queue.push(at, Event::Fault(Fault::Crash { machine, until }));
        }
    }

    pub(super) fn fault(&mut self, fault: Fault) {
        match fault {
            Fault::Cut { from, to, both, until } => self.cut(from, to, both, until),
            Fault::Join { from, to, both } => self.join(from, to, both),
            Fault::Crash { machine, until } => {
                let crashed = match machine {
                    Machine::Node(node) => self.crash_node(node),
                    Machine::Server(server) => self.crash_server(server),
                    Machine::Store | Machine::Stranger(_) => false,
                };
                if crashed {
                    self.queue.push(until, Event::Start(machine));
                }
            }
            Fault::Pause { machine, until } => self.pause(machine, until),
            Fault::Move { from } => self.move_groups(from),
            Fault::MoveAll { from } => self.move_all(from),
            Fault::Suspect { server, cut } => {
                self.hide_suspicion(server);
                self.suspect(server);
                if let Some(until) = cut {
                    self.cut(Machine::Server(server), Machine::Store, true, until);
                }
            }
            Fault::Retire { server, which } => self.retire(server, which),
            Fault::Depart { server } => self.depart(server),
        }
    }

    /// The answer that all was heard is held up. Its server leaves groups meanwhile, and the node
    /// can't reach the next owner: it goes on with what it knows. Says until when.
    pub(super) fn hold_up_answer(&mut self, node: u8, server: u8) -> Option<u64> {
        let may = self.plan.late_answers > 0 && self.now < self.plan.time;
        if !may || self.net.cuts_of_nodes() > 0 || self.rng.u64(..1000) >= self.plan.late_answers {
            return None;
        }
        self.coverage.hit(Hit::LateAnswer);
        let (now, ttl) = (self.now, self.plan.ttl);
        let leaves_at = now + self.rng.u64(1..ttl / 10);
        self.queue.push(leaves_at, Event::Fault(Fault::MoveAll { from: server }));
        let until = (now + self.rng.u64(ttl..2 * ttl)).min(self.plan.time);
        let others = (0..self.servers.len() as u8).filter(|&other| other != server);
        for other in others {
            self.cut(Machine::Node(node), Machine::Server(other), true, until);
        }
        Some(now + self.rng.u64(ttl / 2..ttl))
    }

    /// A living server is about to be suspected, and one node does not hear of it for longer than
    /// the server may act: it reaches neither the store nor any other server.
    fn hide_suspicion(&mut self, server: u8) {
        let may = self.plan.unaware > 0 && self.now < self.plan.time;
        if !may || self.net.cuts_of_nodes() > 0 || self.rng.u64(..1000) >= self.plan.unaware {
            return;
        }
        self.coverage.hit(Hit::Unaware);
        let node = Machine::Node(self.rng.u8(..self.nodes.len() as u8));
        let until = (self.now + self.rng.u64(self.plan.ttl..2 * self.plan.ttl)).min(self.plan.time);
        self.cut(node, Machine::Store, true, until);
        let others = (0..self.servers.len() as u8).filter(|&other| other != server);
        for other in others {
            self.cut(node, Machine::Server(other), true, until);
        }
    }

    /// A server leaves all that it has, and stops when another has it. It comes back no more.
    fn depart(&mut self, number: u8) {
        let is_up = self.servers[usize::from(number)].up;
        let Some(cluster) = self.cluster.as_mut().filter(|_| is_up) else { return };
        match cluster.depart(number) {
            None => {}
            Some(true) => {
                self.coverage.hit(Hit::Departed);
                self.crash_server(number);
                self.servers[usize::from(number)].link = Link::new();
            }
            Some(false) => {
                self.move_all(number);
                let again = self.now + self.plan.ttl / 10;
                if again < self.plan.time {
                    self.queue.push(again, Event::Fault(Fault::Depart { server: number }));
                }
            }
        }
    }

    /// An operator wants one of a server's sessions to end.
    fn retire(&mut self, server: u8, which: usize) {
        let machine = self.servers[usize::from(server)].machine.as_ref();
        let open: Vec<_> = machine.into_iter().flat_map(|it| it.open_sessions()).collect();
        let Some(view) = open.get(which % open.len().max(1)) else { return };
        let session = view.session;
        self.coverage.hit(Hit::Retired);
        self.note(Machine::Server(server), || format!("is told to end session {}", session.0));
        self.server_input(server, Input::Retire { session });
    }

    fn cut(&mut self, from: Machine, to: Machine, both: bool, until: u64) {
        self.coverage.hit(match (to, both) {
            (Machine::Store, _) => Hit::StoreCut,
            (_, true) => Hit::Cut,
            (_, false) => Hit::OneWay,
        });
        let way = if both { "and" } else { "to" };
        self.log.note(self.now, None, || format!("cut: {from} {way} {to}"));
        self.net.cut(from, to);
        if both {
            self.net.cut(to, from);
        }
        self.queue.push(until, Event::Fault(Fault::Join { from, to, both }));
    }

    fn join(&mut self, from: Machine, to: Machine, both: bool) {
        self.log.note(self.now, None, || format!("joined: {from} and {to}"));
        let mut whole = self.net.join(from, to);
        if both {
            whole &= self.net.join(to, from);
        }
        match (from, to) {
            (Machine::Node(node), Machine::Server(server))
            | (Machine::Server(server), Machine::Node(node))
                if whole =>
            {
                self.connect_soon(node, server);
            }
            _ => {}
        }
    }

    fn pause(&mut self, machine: Machine, until: u64) {
        let now = self.now;
        let (hit, past) = match machine {
            Machine::Node(number) => {
                let node = &mut self.nodes[usize::from(number)];
                node.paused_until = node.paused_until.max(until);
                let past = !self.guards.lapsed(until, number).is_empty();
                (Hit::NodePause, past.then_some(Hit::PausePastLease))
            }
            Machine::Server(number) => {
                let server = &mut self.servers[usize::from(number)];
                server.paused_until = server.paused_until.max(until);
                let tick = server.clock.at(until);
                let past = server.machine.as_ref().is_some_and(|machine| machine.is_resting(tick));
                (Hit::ServerPause, past.then_some(Hit::PausePastOwnLease))
            }
            Machine::Store | Machine::Stranger(_) => return,
        };
        self.coverage.hit(hit);
        if let Some(hit) = past {
            self.coverage.hit(hit);
        }
        self.note(machine, || format!("pauses for {} µs", until - now));
    }
}
