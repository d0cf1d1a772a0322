//! The world as a model: what may happen next, and what must be true.

use std::sync::Arc;

use lockspan_protocol::Mode;
use lockspan_protocol::server::table::{RecordState, RecordView};
use lockspan_protocol::{LockCache, Seq, SessionId, ToServer, cache};
use stateright::{Model, Property};

use super::node::Thread;
use super::setup::{Budget, Setup};
use super::world::{Packet, World};

/// The property that is to be seen at least once.
pub(crate) const SERVED: &str = "both get what they want";

/// What happens next.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    /// The thread of this node takes up what comes next in its script.
    Begin(usize),
    /// It reads, and wants to write.
    Upgrade(usize),
    /// It writes, and goes on reading.
    Downgrade(usize),
    Release(usize),
    Withdraw(usize),
    Deliver(Arc<Packet>),
    /// It arrives, and will arrive once more.
    Double(Arc<Packet>),
    Lose(Arc<Packet>),
    /// The first write that is under way is durable.
    Stored,
    /// Time passes to the next deadline.
    Pass,
    CrashNode(usize),
    CrashServer,
}

impl Model for Setup {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        if world.wrong.is_some() {
            return;
        }
        let left = &world.left;
        for (at, node) in world.nodes.iter().enumerate() {
            if node.cache.is_none() {
                continue;
            }
            let waits = matches!(node.thread, Thread::Wants(_) | Thread::Upgrades);
            actions.extend(self.turn(world, at));
            if waits && left.withdraws > 0 {
                actions.push(Action::Withdraw(at));
            }
            if left.node_crashes > 0 {
                actions.push(Action::CrashNode(at));
            }
        }
        for (at, (way, packet)) in world.net.iter().enumerate() {
            if at > 0 && world.net[at - 1].0 == *way {
                continue;
            }
            actions.push(Action::Deliver(Arc::clone(packet)));
            if left.doubles > 0 {
                actions.push(Action::Double(Arc::clone(packet)));
            }
            let is_small = matches!(
                **packet,
                Packet::Down { .. } | Packet::Up { message: ToServer::Cancel { .. }, .. }
            );
            if left.any_losses > 0 || (left.losses > 0 && is_small) {
                actions.push(Action::Lose(Arc::clone(packet)));
            }
        }
        if !world.disk.pending.is_empty() {
            actions.push(Action::Stored);
        }
        if left.passes > 0 && world.next_deadline().is_some() {
            actions.push(Action::Pass);
        }
        if left.server_crashes > 0 {
            actions.push(Action::CrashServer);
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        match action {
            Action::Begin(at) => next.begin(self, at),
            Action::Upgrade(at) => next.upgrade(self, at),
            Action::Downgrade(at) => next.downgrade(self, at),
            Action::Release(at) => next.release(self, at),
            Action::Withdraw(at) => {
                next.left.withdraws -= 1;
                next.withdraw(self, at);
            }
            Action::Deliver(packet) => next.deliver(self, &packet),
            Action::Double(packet) => {
                next.left.doubles -= 1;
                next.send(Packet::clone(&packet));
                next.deliver(self, &packet);
            }
            Action::Lose(packet) => {
                if next.left.losses > 0 {
                    next.left.losses -= 1;
                } else {
                    next.left.any_losses -= 1;
                }
                next.remove(&packet);
            }
            Action::Stored => next.store(self),
            Action::Pass => {
                next.left.passes -= 1;
                next.pass(self);
            }
            Action::CrashNode(at) => {
                next.left.node_crashes -= 1;
                next.nodes[at].crash(self.scripts[at]);
            }
            Action::CrashServer => {
                next.left.server_crashes -= 1;
                next.restart(self);
            }
        }
        next.tidy();
        if self.prompt {
            next.deliver_all_of(self, 1);
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("holders do not exclude each other", |_, world: &World| {
                !world.has_conflict()
            }),
            Property::always("no promise is broken", |_, world: &World| world.wrong.is_none()),
            Property::always(
                "when nothing more happens, all are served",
                |setup, world: &World| {
                    let mut actions = Vec::new();
                    setup.actions(world, &mut actions);
                    !actions.is_empty() || setup.close(world).is_ok()
                },
            ),
            Property::always(
                "a node that drains is in somebody's way, when all was said and nothing lost",
                |setup: &Self, world: &World| {
                    let Budget { losses, any_losses, .. } = setup.budget;
                    losses + any_losses > 0 || knows_wishes(world)
                },
            ),
            Property::sometimes(SERVED, |setup: &Self, world: &World| {
                (0..2).all(|at| world.nodes[at].served == setup.scripts[at].len())
            }),
        ]
    }
}

impl Setup {
    /// What the thread of a node can do by itself.
    fn turn(&self, world: &World, at: usize) -> Option<Action> {
        let node = &world.nodes[at];
        match node.thread {
            Thread::Idle if node.done < self.scripts[at].len() => Some(Action::Begin(at)),
            Thread::In { converts: true, mode: Mode::Read } => Some(Action::Upgrade(at)),
            Thread::In { converts: true, .. } => Some(Action::Downgrade(at)),
            Thread::In { converts: false, .. } => Some(Action::Release(at)),
            Thread::Idle | Thread::Wants(_) | Thread::Upgrades => None,
        }
    }

    /// Plays on from here without faults: everybody is served and everything is given back, or it
    /// says what is not so.
    pub(crate) fn close(&self, world: &World) -> Result<(), String> {
        let mut world = world.clone();
        let needs_time = self.needs_time(&world);
        let lost_release = self.budget.any_losses != world.left.any_losses
            || (self.connected && self.budget.server_crashes != world.left.server_crashes);
        world.left = Budget::default();
        for round in 0.. {
            self.run_on(&mut world)?;
            let is_done = |at: usize| world.nodes[at].done == self.scripts[at].len();
            if (0..2).all(is_done) {
                break;
            }
            if !needs_time {
                return Err("somebody waits, although nothing was lost".to_owned());
            }
            if round == 300 {
                return Err("somebody waits forever".to_owned());
            }
            world.pass(self);
        }
        if !lost_release {
            self.look_for_leaks(&world)?;
        }
        for at in 0..2 {
            world.tell_cache(self, at, cache::Input::Close);
            world.nodes[at].cache = None;
        }
        for _ in 0..100 {
            self.run_on(&mut world)?;
            world.pass(self);
        }
        let server = &world.server;
        match (server.sessions(), server.records(), server.claims()) {
            (0, 0, 0) => Ok(()),
            left => Err(format!("sessions, records and claims are left over: {left:?}")),
        }
    }

    /// Whether something has happened that only a timer can heal.
    fn needs_time(&self, world: &World) -> bool {
        let Budget { losses, any_losses, passes, node_crashes, server_crashes, .. } = self.budget;
        let before = [losses, any_losses, passes, node_crashes, server_crashes];
        let Budget { losses, any_losses, passes, node_crashes, server_crashes, .. } = world.left;
        before != [losses, any_losses, passes, node_crashes, server_crashes]
    }

    /// Everything that can happen without a fault and without time.
    fn run_on(&self, world: &mut World) -> Result<(), String> {
        for _ in 0..1000 {
            let mut actions = Vec::new();
            self.actions(world, &mut actions);
            if world.has_conflict() {
                return Err("holders exclude each other".to_owned());
            }
            if let Some(wrong) = world.wrong.take() {
                return Err(wrong);
            }
            let Some(action) = actions.into_iter().next() else { return Ok(()) };
            *world = self.next_state(world, action).expect("every action leads somewhere");
        }
        Err("the messages have no end".to_owned())
    }

    /// What the server believes to be held or wanted, the cache knows of. (Not so if a release
    /// was lost: that heals when somebody else wants the record.)
    fn look_for_leaks(&self, world: &World) -> Result<(), String> {
        let knows = |session: SessionId, seq: Seq| {
            let cache = world.nodes[Self::node_of(session)].cache.as_deref();
            // What a crashed node or an earlier session had, ends with its lease.
            cache.is_none_or(|cache: &LockCache| {
                let text = format!("{cache:?}");
                let records = text.split("records: Records").nth(1).expect("a cache has records");
                cache.sessions().all(|(_, present)| present != session)
                    || records.contains(&format!("seq: {seq:?}"))
            })
        };
        for view in world.server.views() {
            for claim in view.holders.iter().chain(&view.waiters) {
                if !knows(claim.session, claim.seq) {
                    return Err(format!("the node knows nothing of {claim:?}"));
                }
            }
        }
        Ok(())
    }
}

/// When nothing is under way, who drains is in somebody's way.
fn knows_wishes(world: &World) -> bool {
    let views = world.server.views();
    let recovers = views.iter().any(|view| view.state == RecordState::Recovering);
    if !world.net.is_empty() || !world.disk.pending.is_empty() || recovers {
        return true;
    }
    (0..2).all(|at| {
        let node = &world.nodes[at];
        let is_in_the_way = |view: &RecordView| {
            let mut holders = view.holders.iter().map(|it| it.session);
            let held = holders.find(|&session| Setup::node_of(session) == at);
            view.waiters.iter().any(|waiter| Some(waiter.session) != held)
        };
        node.cache.is_none() || !node.is_draining() || views.iter().any(is_in_the_way)
    })
}
