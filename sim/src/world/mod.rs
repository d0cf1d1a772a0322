//! A world: machines, a network, virtual time, and an oracle that watches.
//!
//! Everything that happens is an [`Event`] in one queue. Handling one may put others in; nothing
//! else moves time. The parts:
//!
//! - [`servers`]: drives a `LockServer`; [`stores`]: its disk, or its cluster store;
//! - [`nodes`]: drives a `LockCache`; [`lines`]: and the fair locks of its threads; [`routes`]:
//!   finds servers;
//! - [`strangers`]: clients that are no nodes;
//! - [`threads`]: what threads do with records;
//! - [`faults`]: what goes wrong, and when;
//! - [`finish`]: the faults stop; everybody must be served, and nothing may be left.

mod faults;
mod finish;
mod lines;
mod nodes;
mod routes;
mod servers;
mod stores;
mod strangers;
mod threads;

use std::time::Duration;

use fastrand::Rng;
use lockspan_protocol::{
    Bugs, GroupSet, Record, SessionId, StoreId, Term, ToNode, ToServer, Token,
};

use crate::clock::Clock;
use crate::cluster::{Cluster, Reply, Request};
use crate::coverage::{Coverage, Hit};
use crate::fence::Fence;
use crate::log::{Fate, Log};
use crate::net::Net;
use crate::oracle::books::Books;
use crate::oracle::deadlocks::Deadlocks;
use crate::oracle::forgets::Forgets;
use crate::oracle::guards::Guards;
use crate::oracle::order::Order;
use crate::oracle::stays::Stays;
use crate::oracle::{Failure, Kind};
use crate::plan::{Class, DRIFT_COVERED, Plan};
use crate::queue::Queue;
use crate::stream;
use crate::words::{self, Machine};
use faults::Fault;
use finish::Stage;
use nodes::Node;
use servers::Server;
use strangers::Stranger;

/// More steps than any world needs: it makes no progress.
const STEPS_MAX: u64 = 3_000_000;

/// What happens. Messages find whoever is up; everything else is for one life of a machine, and is
/// nothing to the next.
#[derive(Debug)]
enum Event {
    ToServer {
        server: u8,
        node: u8,
        session: SessionId,
        message: ToServer,
    },
    ToNode {
        node: u8,
        server: u8,
        session: SessionId,
        message: ToNode,
    },
    ToStore {
        server: u8,
        life: u32,
        request: Request,
    },
    FromStore {
        server: u8,
        life: u32,
        reply: Reply,
    },
    /// A node asks the store who owns these groups, and is told.
    Ask {
        node: u8,
        life: u32,
        groups: GroupSet,
    },
    Told {
        node: u8,
        life: u32,
        owners: Vec<(u8, GroupSet)>,
    },
    /// The store tells a node of a new term.
    News {
        node: u8,
        life: u32,
        server: u8,
        term: Term,
    },
    /// The way from a node to a server is open.
    Connected {
        node: u8,
        life: u32,
        server: u8,
    },
    NodeTimer {
        node: u8,
        life: u32,
    },
    /// A node that was not told asks again.
    AskAgain {
        node: u8,
        life: u32,
    },
    ServerTimer {
        server: u8,
        life: u32,
    },
    /// A write to the disk is answered.
    Stored {
        server: u8,
        life: u32,
        store: StoreId,
    },
    /// A server speaks to the cluster store: hello, renewal, writes that were not answered.
    Renew {
        server: u8,
        life: u32,
    },
    StoreTimer,
    Thread {
        node: u8,
        life: u32,
        thread: u8,
        turn: u32,
    },
    /// A thread has waited for long enough.
    Patience {
        node: u8,
        life: u32,
        thread: u8,
        turn: u32,
    },
    /// A write arrives at the store behind the record.
    Write {
        node: u8,
        life: u32,
        thread: u8,
        turn: u32,
        record: u8,
        token: Token,
        base: u64,
    },
    /// A stranger opens a session.
    Admit {
        server: u8,
        session: SessionId,
    },
    ToStranger {
        number: u8,
        server: u8,
        session: SessionId,
        message: ToNode,
    },
    /// A stranger looks what it has to do.
    Stranger {
        number: u8,
    },
    Fault(Fault),
    Start(Machine),
    Stage(Stage),
}

/// What became of a world.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The first broken promise.
    pub failure: Option<Failure>,
    /// Events that were handled.
    pub steps: u64,
    /// Virtual time that has passed.
    pub time: Duration,
    /// What has been seen.
    pub coverage: Coverage,
    /// Guards that excluded each other where clocks don't keep the margin.
    pub overlaps: u64,
}

/// A world on its way.
pub(crate) struct World {
    plan: Plan,
    bugs: Bugs,
    now: u64,
    steps: u64,
    queue: Queue<Event>,
    net: Net,
    /// For what belongs to no stream of its own.
    rng: Rng,
    records: Vec<Record>,
    servers: Vec<Server>,
    cluster: Option<Cluster>,
    store_timer: Option<u64>,
    nodes: Vec<Node>,
    strangers: Vec<Stranger>,
    fence: Fence,
    guards: Guards,
    books: Books,
    forgets: Forgets,
    stays: Stays,
    deadlocks: Option<Deadlocks>,
    order: Option<Order>,
    coverage: Coverage,
    pub(crate) log: Log,
    failure: Option<Failure>,
    stage: Stage,
}

impl World {
    pub(crate) fn new(plan: &Plan, bugs: Bugs, log: bool) -> Self {
        let seed = plan.seed;
        let mut rng = stream::Machines.rng(seed);
        let records: Vec<_> = (0..plan.records).map(|at| words::record(at as u8)).collect();
        let servers: Vec<_> = (0..plan.servers)
            .map(|at| Server::new(plan, clock(&mut rng, plan, false), at))
            .collect();
        let cluster = (servers.len() > 1).then(|| {
            let lease = Duration::from_micros(plan.ttl);
            let owners = servers.len() - plan.joins as usize;
            let several = plan.heirs > 0;
            let chance = stream::Cluster.rng(seed);
            let clock = clock(&mut rng, plan, false);
            Cluster::new(clock, lease, (servers.len(), owners), several, chance)
        });
        let nodes: Vec<_> = (0..plan.nodes)
            .map(|at| Node::new(plan, at as u8, clock(&mut rng, plan, true), &mut rng))
            .collect();
        let strangers: Vec<(Clock, Stranger)> = (0..plan.strangers)
            .map(|at| {
                let clock = clock(&mut rng, plan, true);
                (clock, Stranger::new(plan, at as u8, clock))
            })
            .collect();
        let clocks = nodes.iter().map(|node| node.clock);
        let clocks = clocks.chain(strangers.iter().map(|(clock, _)| *clock)).collect();
        let strangers = strangers.into_iter().map(|(_, stranger)| stranger).collect();
        let margin_kept = plan.drift <= DRIFT_COVERED;
        let one_delay = plan.class.has_one_delay() && plan.servers == 1;
        let calm = plan.class == Class::Calm;
        let mut world = Self {
            plan: plan.clone(),
            bugs,
            now: 0,
            steps: 0,
            queue: Queue::new(),
            net: Net::new(plan),
            rng,
            fence: Fence::new(records.len()),
            guards: Guards::new(margin_kept, clocks, records.len()),
            books: Books::default(),
            forgets: Forgets::default(),
            stays: Stays::new(plan.stay()),
            deadlocks: calm.then(|| Deadlocks::new(plan.delay_max)),
            order: one_delay.then(|| Order::new(plan.delay_min, calm, records.len())),
            records,
            servers,
            cluster,
            store_timer: None,
            nodes,
            strangers,
            coverage: Coverage::default(),
            log: Log::new(log),
            failure: None,
            stage: Stage::Running,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        match self.plan.drift {
            0 => {}
            1..=DRIFT_COVERED => self.coverage.hit(Hit::DriftWithin),
            _ => self.coverage.hit(Hit::DriftBeyond),
        }
        let late = self.servers.len() - self.plan.joins as usize;
        for server in 0..self.servers.len() {
            let at = if server < late { 0 } else { self.plan.time / 3 };
            if at > 0 {
                self.coverage.hit(Hit::Joined);
            }
            self.queue.push(at, Event::Start(Machine::Server(server as u8)));
        }
        for node in 0..self.nodes.len() {
            let at = self.rng.u64(0..=2 * self.plan.delay_max);
            self.queue.push(at, Event::Start(Machine::Node(node as u8)));
        }
        for number in 0..self.strangers.len() as u8 {
            self.queue.push(1, Event::Stranger { number });
        }
        self.plan_faults();
        self.plan_finish();
    }

    /// Runs until everything is over or a promise is broken.
    pub(crate) fn run(&mut self) {
        while self.failure.is_none() && self.stage != Stage::Over {
            let Some((at, event)) = self.queue.pop() else {
                self.fail(Kind::Waiting, "nothing happens any more, and the world is not over");
                return;
            };
            self.now = at;
            self.steps += 1;
            if self.steps > STEPS_MAX {
                self.fail(Kind::Waiting, format!("no end after {STEPS_MAX} steps"));
                return;
            }
            self.handle(event);
        }
    }

    pub(crate) fn outcome(&self) -> Outcome {
        Outcome {
            failure: self.failure.clone(),
            steps: self.steps,
            time: Duration::from_micros(self.now),
            coverage: self.coverage.clone(),
            overlaps: self.guards.overlaps,
        }
    }

    fn handle(&mut self, event: Event) {
        if let Some(until) = self.paused_until(&event) {
            self.queue.push(until, event);
            return;
        }
        match event {
            Event::ToServer { server, node, session, message } => {
                self.server_hears(server, node, session, message);
            }
            Event::ToNode { node, server, session, message } => {
                self.node_hears(node, server, session, message);
            }
            Event::ToStore { server, life, request } => self.store_hears(server, life, request),
            Event::FromStore { server, life, reply } if self.server_lives(server, life) => {
                self.hears_store(server, reply);
            }
            Event::Ask { node, life, groups } => self.store_is_asked(node, life, groups),
            Event::Told { node, life, owners } if self.node_lives(node, life) => {
                self.node_told(node, owners);
            }
            Event::News { node, life, server, term } if self.node_lives(node, life) => {
                self.node_hears_news(node, server, term);
            }
            Event::Connected { node, life, server } if self.node_lives(node, life) => {
                self.node_connected(node, server);
            }
            Event::AskAgain { node, life } if self.node_lives(node, life) => self.ask_again(node),
            Event::NodeTimer { node, life } if self.node_lives(node, life) => self.node_timer(node),
            Event::ServerTimer { server, life } if self.server_lives(server, life) => {
                self.server_timer(server);
            }
            Event::Stored { server, life, store } if self.server_lives(server, life) => {
                self.disk_answers(server, store);
            }
            Event::Renew { server, life } if self.server_lives(server, life) => self.renew(server),
            Event::StoreTimer => self.store_expires(),
            Event::Thread { node, life, thread, turn } if self.node_lives(node, life) => {
                self.thread_runs(node, thread, turn);
            }
            Event::Patience { node, life, thread, turn } if self.node_lives(node, life) => {
                self.patience_ends(node, thread, turn);
            }
            Event::Write { node, life, thread, turn, record, token, base } => {
                self.write_arrives(node, record, token, base);
                self.queue.push(self.now, Event::Thread { node, life, thread, turn });
            }
            Event::Admit { server, session } => self.server_admits(server, session),
            Event::ToStranger { number, server, session, message } => {
                self.stranger_hears(number, server, session, &message);
            }
            Event::Stranger { number } => self.stranger_looks(number),
            Event::Fault(fault) => self.fault(fault),
            Event::Start(Machine::Node(node)) => self.start_node(node),
            Event::Start(Machine::Server(server)) => self.start_server(server),
            Event::Stage(stage) => self.enter(stage),
            // Of an earlier life.
            _ => {}
        }
    }

    /// Until when the machine that an event is for does nothing, if it is paused.
    fn paused_until(&self, event: &Event) -> Option<u64> {
        let until = match *event {
            Event::ToServer { server, .. }
            | Event::Admit { server, .. }
            | Event::FromStore { server, .. }
            | Event::ServerTimer { server, .. }
            | Event::Stored { server, .. }
            | Event::Renew { server, .. } => self.servers[usize::from(server)].paused_until,
            Event::ToNode { node, .. }
            | Event::Told { node, .. }
            | Event::News { node, .. }
            | Event::Connected { node, .. }
            | Event::NodeTimer { node, .. }
            | Event::AskAgain { node, .. }
            | Event::Thread { node, .. }
            | Event::Patience { node, .. } => self.nodes[usize::from(node)].paused_until,
            _ => return None,
        };
        (until > self.now).then_some(until)
    }

    fn node_lives(&self, node: u8, life: u32) -> bool {
        let node = &self.nodes[usize::from(node)];
        node.is_up() && node.life == life
    }

    fn server_lives(&self, server: u8, life: u32) -> bool {
        let server = &self.servers[usize::from(server)];
        server.up && server.life == life
    }

    /// Puts a message on its way.
    fn send(
        &mut self,
        (from, to): (Machine, Machine),
        words: impl FnOnce() -> String,
        mut event: impl FnMut() -> Event,
    ) {
        let arrivals = self.net.send(self.now, from, to, &mut self.coverage);
        let fate = if arrivals == [None, None] { Fate::Lost } else { Fate::Sent };
        self.log.message(self.now, (from, to), fate, words);
        for at in arrivals.into_iter().flatten() {
            self.queue.push(at, event());
        }
    }

    fn note(&mut self, machine: Machine, text: impl FnOnce() -> String) {
        self.log.note(self.now, Some(machine), text);
    }

    fn fail(&mut self, kind: Kind, what: impl Into<String>) {
        self.check(Err(Failure::new(kind, what)));
    }

    /// Remembers the first failure. Where storage goes back in time tokens come twice, and with
    /// them goes what rests on them; there it is only counted.
    fn check(&mut self, result: Result<(), Failure>) {
        if let Err(failure) = result {
            let on_tokens =
                matches!(failure.kind, Kind::Exclusion | Kind::Token | Kind::Fence | Kind::NotLost);
            if self.plan.rollback > 0 && on_tokens {
                self.guards.overlaps += 1;
                return;
            }
            self.log.note(self.now, None, || format!("BROKEN: {failure}"));
            self.failure.get_or_insert(failure);
        }
    }

    /// How late a timer rings.
    fn timer_late(&mut self) -> u64 {
        let late = self.plan.timer_late;
        if late == 0 { 0 } else { self.rng.u64(0..=late) }
    }
}

/// A clock within the plan's drift. Extremes are likely, above all a slow clock: it believes in its
/// lease for longest. The drift beyond the margin is for nodes alone, servers keep it.
fn clock(rng: &mut Rng, plan: &Plan, of_node: bool) -> Clock {
    let most = if of_node { plan.drift } else { plan.drift.min(DRIFT_COVERED) } as i64;
    let drift = match rng.u32(..4) {
        0 | 1 => -most,
        2 => most,
        _ => rng.i64(-most..=most),
    };
    let offset = if plan.drift == 0 { 0 } else { rng.u64(0..1_000_000_000) };
    Clock::new(drift, offset)
}

/// Sessions of a node: the number of the node, then what is drawn at its start, then a counter.
const SESSIONS_OF_NODE: u64 = 1_000_000_000_000;

/// Whose session it is.
fn node_of(session: SessionId) -> u8 {
    (session.0 / SESSIONS_OF_NODE - 1) as u8
}
