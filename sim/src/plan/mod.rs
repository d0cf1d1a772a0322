//! What a world is made of: its size, its faults, what its threads do. All of it follows from a
//! seed, and all of it can be set by hand, so that a smaller world that still fails has a name.
//!
//! - calm: none; all the same; always the same
//! - jitter: messages are doubled and overtaken, never lost; within the margin; varies
//! - restart: servers crash; all the same; always the same
//! - faulty: everything; within the margin; varies, at times beyond a lease
//! - moving: groups move between servers, which join and leave; in half of the worlds nothing else
//!   happens, and no guard may be lost; in the others everything, and living servers are suspected
//! - strangers: the same, with clients that speak plain RESP beside the nodes
//! - drift: everything; nodes' beyond the margin; varies
//! - rollback: servers crash, and their storage goes back in time; all the same; always the same
//!
//! In the calm and the jitter class nothing is lost, so nothing may depend on a message being sent
//! again: the times after which that happens are longer there than any wait may take. In the
//! rollback class nothing is promised but that the world recovers.

mod draw;
mod names;

use std::time::Duration;

use lockspan_protocol::StayLimits;

pub(crate) use draw::DRIFT_COVERED;
pub use names::Unknown;

/// How rough a world is. The table is in the module's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// No fault, one clock, one delay.
    Calm,
    /// Delays vary, messages come twice.
    Jitter,
    /// Servers crash and come back.
    Restart,
    /// Every fault.
    Faulty,
    /// Every fault, and clocks that no margin covers.
    Drift,
    /// Servers crash, and come back with an epoch that has been used before.
    Rollback,
    /// Groups change their owners all the time.
    Moving,
    /// The same, with clients that are no nodes.
    Strangers,
}

/// What threads do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Each node has records of its own, which others want now and then.
    Cached,
    /// Everybody writes the same few records.
    Contended,
    /// Many read, few write.
    Readers,
    /// More records than anybody holds for long.
    Many,
    /// Threads read, and then want to write what they have read.
    Upgrades,
    /// Threads with an owner take two records in any order.
    Transactions,
}

impl Class {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Calm,
        Self::Jitter,
        Self::Restart,
        Self::Faulty,
        Self::Drift,
        Self::Rollback,
        Self::Moving,
        Self::Strangers,
    ];

    /// Whether no message is ever lost, so that nothing may wait for one to be sent again.
    #[must_use]
    pub fn is_lossless(self) -> bool {
        matches!(self, Self::Calm | Self::Jitter)
    }

    /// Whether each message takes equally long and all clocks are the same, so that the order of
    /// events at a server is known from outside.
    #[must_use]
    pub fn has_one_delay(self) -> bool {
        matches!(self, Self::Calm | Self::Restart)
    }
}

impl Workload {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Cached,
        Self::Contended,
        Self::Readers,
        Self::Many,
        Self::Upgrades,
        Self::Transactions,
    ];
}

/// A world before it begins. Times are in microseconds of virtual time, shares in thousandths; a
/// gap is the mean time between two faults of a kind, and none happens if it is zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Everything random follows from it.
    pub seed: u64,
    /// How rough it is.
    pub class: Class,
    /// What threads do.
    pub workload: Workload,
    /// Servers; with more than one there is a cluster store.
    pub servers: u64,
    /// Tables of each server.
    pub shards: u64,
    /// Nodes.
    pub nodes: u64,
    /// Threads of each node.
    pub threads: u64,
    /// Records.
    pub records: u64,
    /// How long faults happen and threads find new things to do.
    pub time: u64,
    /// Lease of a session, and of a server in a cluster.
    pub ttl: u64,
    /// Shortest delay of a message.
    pub delay_min: u64,
    /// Longest usual delay of a message.
    pub delay_max: u64,
    /// Share of messages that take longer than usual.
    pub late: u64,
    /// Longest delay of such a message.
    pub late_max: u64,
    /// Share of messages that are lost.
    pub loss: u64,
    /// Share of messages that come twice.
    pub double: u64,
    /// Gap of cuts between a node and a server, both ways.
    pub cut: u64,
    /// Gap of cuts between a node and a server, one way.
    pub one_way: u64,
    /// Gap of cuts between a server and the cluster store.
    pub store_cut: u64,
    /// Gap of moves of groups between living servers.
    pub moves: u64,
    /// Share of answers to re-assertions that are held up, while what they are about moves on.
    pub late_answers: u64,
    /// Whether a server leaves all that it has and departs for good (0 or 1).
    pub departs: u64,
    /// Gap of suspicions: groups of a living server go to others, and it is not told.
    pub suspects: u64,
    /// Share of suspicions of which one node hears nothing: it reaches only who is suspected.
    pub unaware: u64,
    /// Whether the last server starts later than the others, and without groups (0 or 1).
    pub joins: u64,
    /// Whether groups of one server may go to several (0 or 1).
    pub heirs: u64,
    /// Whether the store tells all nodes of each new term (0 or 1).
    pub news: u64,
    /// Clients that speak plain RESP.
    pub strangers: u64,
    /// Share of crashes of a server after which its storage has gone back in time.
    pub rollback: u64,
    /// Gap of crashes of nodes.
    pub node_crash: u64,
    /// Gap of pauses of nodes.
    pub node_pause: u64,
    /// Gap of crashes of servers.
    pub server_crash: u64,
    /// Gap of pauses of servers.
    pub server_pause: u64,
    /// Gap of operators' wishes that a session ends.
    pub retires: u64,
    /// Longest time until a write is durable.
    pub disk_max: u64,
    /// How late a timer may ring.
    pub timer_late: u64,
    /// Longest time a thread thinks between two things to do.
    pub think_max: u64,
    /// Longest time a thread holds a record.
    pub hold_max: u64,
    /// Share of waits that are given up after a while.
    pub patience: u64,
    /// How long such a while is at most.
    pub patience_max: u64,
    /// Share of turns after which an idle record is given back.
    pub give_back: u64,
    /// Share of nodes whose waits end with a retry.
    pub retry: u64,
    /// Drift of clocks, at most, in millionths.
    pub drift: u64,
    /// Turns that may begin after a revoke.
    pub stay_turns: u64,
    /// How long after a revoke turns may begin.
    pub stay_time: u64,
    /// After how long a node sends again.
    pub resend_node: u64,
    /// After how long a server revokes again.
    pub resend_server: u64,
    /// How long a record stays reserved after a retry.
    pub reserve: u64,
    /// Whether a server can reach a node that has not spoken to it since it started (0 or 1).
    pub dial_back: u64,
    /// How much a server does in one step.
    pub portion: u64,
    /// Steps of a search for deadlocks that it takes at a time.
    pub search_steps: u64,
}

impl Plan {
    /// Threads of all nodes.
    pub(crate) fn all_threads(&self) -> u64 {
        self.nodes * self.threads
    }

    /// Whether nothing goes wrong but that groups move, servers join and depart, and whatever takes
    /// time takes a small part of a lease: then no node loses a guard. A stranger may.
    pub(crate) fn is_planned_only(&self) -> bool {
        let faults = [
            self.late,
            self.loss,
            self.cut,
            self.one_way,
            self.store_cut,
            self.late_answers,
            self.suspects,
            self.node_crash,
            self.node_pause,
            self.server_crash,
            self.server_pause,
            self.retires,
        ];
        let is_fast = self.delay_max.max(self.disk_max) <= self.ttl / 50;
        matches!(self.class, Class::Moving | Class::Strangers)
            && is_fast
            && faults.iter().all(|&gap| gap == 0)
    }

    pub(crate) fn stay(&self) -> StayLimits {
        let turns = u32::try_from(self.stay_turns).unwrap_or(u32::MAX);
        StayLimits { turns, time: Duration::from_micros(self.stay_time) }
    }

    /// How long somebody who waits may have to wait when no fault happens (any more).
    ///
    /// - `settle`: the faults before have left dead sessions, dead owners of groups, and a grace
    ///   period behind. Each ends with a lease and its margin, by a clock that may be slow; one can
    ///   follow another, and each needs a write to storage.
    /// - `turn`: a node has the record for a turn of a thread that has begun, a stay in which
    ///   another begins, and a few messages; and it may have missed one, which is sent again.
    /// - in line are all other threads, and between two writers there is a phase of readers.
    ///
    /// Transactions also wait for what the holder of their record waits for, and start over after a
    /// deadlock, for which there is no bound but patience: they get eight times as long.
    pub(crate) fn wait_max(&self) -> u64 {
        let message = self.delay_max + self.timer_late;
        let store = self.disk_max + 4 * message + 300_000;
        let lossless = self.class.is_lossless();
        // A grace after a suspicion lasts for a lease of the server longer.
        let grace = if self.suspects > 0 { 3 * self.ttl } else { self.ttl * 3 / 2 };
        let settle = if lossless { 2 * store } else { 4 * (grace + store) };
        let again = if lossless { 0 } else { self.resend_node + self.resend_server + self.reserve };
        let turn = 2 * (self.hold_max + self.delay_max) + self.stay_time + 6 * message + again;
        let line = 2 * self.all_threads() * self.threads;
        let patient = if self.workload == Workload::Transactions { 8 } else { 1 };
        (settle + line * turn) * patient
    }
}
