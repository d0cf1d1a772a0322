//! The small world of two servers as a model: what may happen next, and what must be true.

use lockspan_protocol::{Epoch, Mode, cache};
use stateright::{Model, Property};

use super::setup::{Budget, Moves};
use super::world::{Packet, World};
use crate::node::Thread;

/// What is to be seen in each world at least once.
pub(crate) const SERVED: &str = "both get what they want";
/// What is to be seen in some.
pub(crate) const MOVED_ON: &str = "a guard is valid at the new owner";
pub(crate) const LATE_GRANT: &str = "a late grant of the old owner is not heeded";
pub(crate) const TWO_OWNERS: &str = "the nodes are served by different owners";
pub(crate) const SEEN: [&str; 4] = [SERVED, MOVED_ON, LATE_GRANT, TWO_OWNERS];

/// What happens next.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    /// The thread of this node takes up what comes next in its script.
    Begin(usize),
    /// It reads, and wants to write.
    Upgrade(usize),
    Release(usize),
    /// The next message arrives.
    Arrives(Packet),
    /// The next message is late.
    Late(Packet),
    /// The late message with this place arrives.
    LateArrives(usize, Packet),
    /// Time passes to the next deadline.
    Pass,
    /// The owner is to leave the group to the other server.
    Move,
    /// The other server takes the group, although its owner may act.
    Suspect,
    /// Nothing more arrives between this node and this server.
    Cut(usize, usize),
    CrashNode(usize),
}

impl Model for Moves {
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
        if let Some(sent) = world.next.front() {
            let packet = || Packet::clone(&sent.packet);
            actions.push(Action::Arrives(packet()));
            let is_of_node = matches!(*sent.packet, Packet::Up { .. } | Packet::Down { .. });
            let may_be_late = if self.any_order { is_of_node } else { left.delays > 0 };
            if may_be_late {
                actions.push(Action::Late(packet()));
            }
            return;
        }
        for (at, sent) in world.late.iter().enumerate() {
            if at > 0 && world.late[at - 1] == *sent {
                continue;
            }
            actions.push(Action::LateArrives(at, Packet::clone(&sent.packet)));
        }
        for (at, node) in world.nodes.iter().enumerate() {
            if node.cache.is_none() {
                continue;
            }
            match node.thread {
                Thread::Idle if node.done < self.scripts[at].len() => {
                    actions.push(Action::Begin(at));
                }
                Thread::In { converts: true, .. } => actions.push(Action::Upgrade(at)),
                Thread::In { .. } => actions.push(Action::Release(at)),
                Thread::Idle | Thread::Wants(_) | Thread::Upgrades => {}
            }
            if left.crashes > 0 {
                actions.push(Action::CrashNode(at));
            }
        }
        let owner = world.store.owner;
        let has_group = world.servers[owner].has_group && world.is_registered(1 - owner);
        if left.moves > 0 && has_group {
            actions.push(Action::Move);
        }
        if left.suspicions > 0 && has_group {
            actions.push(Action::Suspect);
        }
        if left.cuts > 0 {
            let ways = [(0, 0), (0, 1), (1, 0), (1, 1)];
            let ways = ways.into_iter().filter(|&(node, server)| !world.is_cut(node, server));
            actions.extend(ways.map(|(node, server)| Action::Cut(node, server)));
        }
        if left.passes > 0 && world.next_deadline(self).is_some() {
            actions.push(Action::Pass);
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        match action {
            Action::Begin(at) => next.begin(self, at),
            Action::Upgrade(at) => next.upgrade(self, at),
            Action::Release(at) => next.release(self, at),
            Action::Arrives(packet) => {
                next.next.pop_front();
                next.arrives(self, &packet);
            }
            Action::Late(_) => {
                next.left.delays = next.left.delays.saturating_sub(1);
                next.delay();
            }
            Action::LateArrives(at, packet) => {
                next.late.remove(at);
                next.arrives(self, &packet);
            }
            Action::Pass => {
                next.left.passes -= 1;
                next.pass(self);
            }
            Action::Move => {
                next.left.moves -= 1;
                next.ask_to_leave();
            }
            Action::Suspect => {
                next.left.suspicions -= 1;
                next.give(true);
            }
            Action::Cut(node, server) => {
                next.left.cuts -= 1;
                next.cut(node, server);
            }
            Action::CrashNode(at) => {
                next.left.crashes -= 1;
                next.nodes[at].crash(self.scripts[at]);
            }
        }
        next.tidy();
        // When nothing can be late any more there is nothing to choose.
        while next.left.delays == 0
            && !self.any_order
            && let Some(sent) = next.next.pop_front()
        {
            next.arrives(self, &sent.packet);
            next.tidy();
            if next.has_conflict(self) {
                let what = "nodes believe in guards that exclude each other";
                next.wrong(format!("{what}, after {:?}", sent.packet));
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("nodes that believe exclude nobody", |setup: &Self, world: &World| {
                !world.has_conflict(setup)
            }),
            Property::always("no promise is broken", |_, world: &World| world.wrong.is_none()),
            Property::always(
                "when nothing more happens, all are served",
                |setup: &Self, world: &World| {
                    let mut actions = Vec::new();
                    setup.actions(world, &mut actions);
                    !actions.is_empty() || setup.close(world).is_ok()
                },
            ),
            Property::sometimes(SERVED, |setup: &Self, world: &World| {
                (0..2).all(|at| world.nodes[at].served == setup.scripts[at].len())
            }),
            Property::sometimes(MOVED_ON, |_, world: &World| world.seen.moved_on),
            Property::sometimes(LATE_GRANT, |_, world: &World| {
                world.seen.late_grant && world.wrong.is_none()
            }),
            Property::sometimes(TWO_OWNERS, |_, world: &World| {
                let [one, other] = world.seen.served_by;
                (one[0] && other[1]) || (one[1] && other[0])
            }),
        ]
    }
}

impl World {
    /// Whether both nodes believe that they may use the record, and they exclude each other.
    fn has_conflict(&self, setup: &Moves) -> bool {
        let [one, other] = self.beliefs(setup);
        one.zip(other).is_some_and(|(one, other): (Mode, Mode)| one.conflicts(other))
    }

    /// That of the first owner.
    pub(crate) fn first_epoch(&self) -> Epoch {
        Epoch::NONE.next().expect("a small epoch")
    }
}

impl Moves {
    /// Plays on from here without faults: everybody is served and everything is given back, or it
    /// says what is not so.
    pub(crate) fn close(&self, world: &World) -> Result<(), String> {
        let mut world = world.clone();
        world.left = Budget::default();
        world.mend();
        for round in 0.. {
            self.run_on(&mut world)?;
            if (0..2).all(|at| world.nodes[at].done == self.scripts[at].len()) {
                break;
            }
            if round == 300 {
                return Err("somebody waits for ever".to_owned());
            }
            world.pass(self);
        }
        for at in 0..2 {
            world.tell_cache(self, at, cache::Input::Close);
            world.nodes[at].cache = None;
        }
        for _ in 0..100 {
            self.run_on(&mut world)?;
            world.pass(self);
        }
        for (number, server) in world.servers.iter().enumerate() {
            let server = &server.machine;
            let left = (server.sessions(), server.records(), server.claims(), server.formers());
            if left != (0, 0, 0, 0) {
                return Err(format!(
                    "sessions, records, claims and formers are left over at {number}: {left:?}"
                ));
            }
        }
        Ok(())
    }

    /// Everything that can happen without a fault and without time.
    fn run_on(&self, world: &mut World) -> Result<(), String> {
        for _ in 0..2000 {
            let mut actions = Vec::new();
            if world.has_conflict(self) {
                return Err("nodes that believe exclude each other".to_owned());
            }
            if let Some(wrong) = world.wrong.take() {
                return Err(wrong);
            }
            self.actions(world, &mut actions);
            let Some(action) = actions.into_iter().next() else { return Ok(()) };
            *world = self.next_state(world, action).expect("every action leads somewhere");
        }
        Err("the messages have no end".to_owned())
    }
}
