//! How a world ends: the faults stop, everybody is served, and nothing is left.
//!
//! - running: faults, and things to do; all that the oracle checks at any time
//! - healing: no faults; each thread finishes what it does and does one thing more; everybody is
//!   served in time
//! - compare: nothing happens until sessions of crashed nodes have run out; where nothing was lost:
//!   servers know of as many grants as nodes
//! - sweep: one thread takes each record in turn for writing; it is served in time: no stray claim
//!   is in the way
//! - give back: all nodes give back what they have; servers know no grant and no wait
//! - closing: all nodes close; sessions of crashed ones run out; servers know no session, nor do
//!   their stores

use lockspan_protocol::cache::Input;

use super::{Event, World};
use crate::oracle::Kind;
use crate::words::Machine;

/// How far a world is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Running,
    Healing,
    Compare,
    Sweep {
        record: u8,
    },
    GiveBack,
    Closing,
    Over,
    /// Not a stage: look whether somebody waits for too long.
    Look,
}

impl Stage {
    pub(super) fn is_sweep(self) -> bool {
        matches!(self, Self::Sweep { .. })
    }
}

impl World {
    pub(super) fn plan_finish(&mut self) {
        self.queue.push(self.plan.time, Event::Stage(Stage::Healing));
        if self.plan.class.is_lossless() {
            self.queue.push(self.look_after(), Event::Stage(Stage::Look));
        }
    }

    fn look_after(&self) -> u64 {
        self.now + self.plan.wait_max() / 4
    }

    /// How long messages and writes that are under way take at most, with what follows from them.
    fn quiet(&self) -> u64 {
        let store = if self.cluster.is_some() { self.plan.ttl } else { 0 };
        4 * (self.plan.delay_max + self.plan.timer_late + self.plan.disk_max) + store
    }

    /// How long sessions of nodes that have crashed, or have given them up, may still be there.
    fn dead_sessions(&self) -> u64 {
        let leases = if self.plan.suspects > 0 { 5 } else { 3 };
        if self.plan.class.is_lossless() { 0 } else { leases * self.plan.ttl }
    }

    pub(super) fn enter(&mut self, stage: Stage) {
        if stage == Stage::Look {
            self.look();
            return;
        }
        self.log.note(self.now, None, || format!("{stage:?}"));
        self.stage = stage;
        match stage {
            Stage::Healing => {
                self.net.heal();
                if !self.plan.class.is_lossless() {
                    self.queue.push(self.look_after(), Event::Stage(Stage::Look));
                }
            }
            Stage::Compare => {
                self.compare();
                self.enter(Stage::Sweep { record: 0 });
            }
            Stage::Sweep { record } => self.sweep(record),
            Stage::GiveBack => self.give_all_back(),
            Stage::Closing => {
                self.check_claims();
                self.close_all();
            }
            Stage::Over => self.check_sessions(),
            Stage::Running | Stage::Look => {}
        }
    }

    /// Nobody waits for longer than the plan allows.
    fn look(&mut self) {
        if matches!(self.stage, Stage::GiveBack | Stage::Closing | Stage::Over) {
            return;
        }
        let healed = if self.plan.class.is_lossless() { 0 } else { self.plan.time };
        let longest = self.plan.wait_max();
        let mut late = None;
        for (number, node) in self.nodes.iter().enumerate() {
            for thread in &node.threads {
                if let Some((record, since)) = thread.waiting() {
                    let waited = self.now - since.max(healed);
                    if node.is_up() && waited > longest {
                        late.get_or_insert((number, record, waited));
                    }
                }
            }
        }
        if let Some((node, record, waited)) = late {
            let what = format!(
                "node {node} waits for record {record} since {waited} µs; {longest} are the bound"
            );
            self.note_state();
            self.fail(Kind::Waiting, what);
        }
        self.queue.push(self.look_after(), Event::Stage(Stage::Look));
    }

    /// Writes down who has what and who waits, as each machine sees it.
    fn note_state(&mut self) {
        if !self.log.is_on() {
            return;
        }
        let mut lines = Vec::new();
        for (number, server) in self.servers.iter().enumerate() {
            let views = server.machine.iter().flat_map(|machine| machine.views());
            lines.extend(views.map(|view| format!("server {number}: {view:?}")));
        }
        for (number, node) in self.nodes.iter().enumerate() {
            let busy = node.lines.iter().enumerate();
            let busy = busy.filter(|(_, line)| !line.is_idle() || line.wanted.is_some());
            lines.extend(busy.map(|(record, line)| format!("node {number}, r:{record}: {line:?}")));
        }
        for line in lines {
            self.log.note(self.now, None, || line);
        }
    }

    /// A thread has nothing more to do. When that is true of all, the end begins.
    pub(super) fn thread_is_idle(&mut self) {
        let mut threads = self.nodes.iter().flat_map(|node| &node.threads);
        if self.stage == Stage::Healing && threads.all(super::threads::Thread::is_idle) {
            self.stage = Stage::Compare;
            let at = self.now + self.quiet() + self.dead_sessions();
            self.queue.push(at, Event::Stage(Stage::Compare));
        }
    }

    /// Compares what servers and nodes know. Where no message was ever lost, a server knows of a
    /// grant exactly if the node does.
    fn compare(&mut self) {
        for server in 0..self.servers.len() as u8 {
            self.compare_books(server);
            self.compare_nodes(server);
        }
        if self.failure.is_some() && self.log.is_on() {
            let caches = self.nodes.iter().map(|node| format!("{:?}", node.cache));
            let caches: Vec<_> = caches.collect();
            for (number, cache) in caches.into_iter().enumerate() {
                self.note(Machine::Node(number as u8), || cache);
            }
        }
        if !self.plan.class.is_lossless() {
            return;
        }
        let machines = self.servers.iter().filter_map(|server| server.machine.as_ref());
        let claims: usize = machines.map(|machine| machine.claims()).sum();
        let caches = self.nodes.iter().filter_map(|node| node.cache.as_ref());
        let cached: usize = caches.map(|cache| cache.len()).sum();
        if claims != cached {
            let what = format!("servers know of {claims} grants, nodes of {cached}");
            self.fail(Kind::Leak, what);
        }
    }

    fn sweep(&mut self, record: u8) {
        if usize::from(record) == self.records.len() {
            self.enter(Stage::GiveBack);
        } else {
            self.sweeps(0, 0, record);
        }
    }

    /// The sweeping thread has left its record.
    pub(super) fn swept(&mut self) {
        if let Stage::Sweep { record } = self.stage {
            self.queue.push(self.now, Event::Stage(Stage::Sweep { record: record + 1 }));
        }
    }

    fn give_all_back(&mut self) {
        for node in 0..self.nodes.len() as u8 {
            for record in 0..self.records.len() as u8 {
                self.give_back(node, record);
            }
            self.work_off(node);
        }
        self.queue.push(self.now + self.quiet(), Event::Stage(Stage::Closing));
    }

    fn check_claims(&mut self) {
        let machines = self.servers.iter().filter_map(|server| server.machine.as_ref());
        let left: Vec<_> = machines.flat_map(|machine| machine.views()).collect();
        let graph = self.servers.iter().filter_map(|server| server.machine.as_ref());
        let tangled = graph.filter(|machine| !machine.graph_is_empty()).count();
        if !left.is_empty() || tangled > 0 {
            let what = format!("all was given back; {tangled} graphs are not empty, {left:?}");
            self.fail(Kind::Leak, what);
        }
    }

    fn close_all(&mut self) {
        for node in 0..self.nodes.len() as u8 {
            self.node_input(node, Input::Close);
            self.nodes[usize::from(node)].cache = None;
        }
        let at = self.now + 2 * self.quiet() + self.dead_sessions();
        self.queue.push(at, Event::Stage(Stage::Over));
    }

    fn check_sessions(&mut self) {
        let machines = self.servers.iter().filter_map(|server| server.machine.as_ref());
        let sessions: usize = machines.map(|machine| machine.sessions() + machine.formers()).sum();
        let disks: usize = self.servers.iter().map(|server| server.disk.sessions.len()).sum();
        let stored = disks + self.cluster.as_ref().map_or(0, |cluster| cluster.sessions());
        let under_way = self.servers.iter().filter(|server| !server.is_stored()).count();
        if sessions + stored + under_way > 0 {
            let what = format!(
                "all nodes have closed; servers know {sessions} sessions, stores {stored}, and \
                 {under_way} servers have writes under way"
            );
            self.fail(Kind::Leak, what);
        }
    }
}
