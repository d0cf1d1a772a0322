//! A node of the small world: a cache, and one thread that does what its script says.
//!
//! The thread is the whole of the local lock: it wants the record, is let in when the cache opens
//! it, leaves, and answers a drain as soon as it is not in the way.

use std::sync::Arc;

use lockspan_protocol::cache::{Input, Output};
use lockspan_protocol::{AcquireRefusal, LockCache, Mode, Tick, Token};

use super::frozen::Frozen;
use super::setup::{RECORD, SERVER, Setup};
use super::world::{Packet, World};

/// One thing to do with the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Op {
    Read,
    Write,
    /// Read, and then write without leaving.
    Upgrade,
    /// Write, and then read without leaving.
    Downgrade,
}

impl Op {
    pub(crate) fn first(self) -> Mode {
        match self {
            Self::Read | Self::Upgrade => Mode::Read,
            Self::Write | Self::Downgrade => Mode::Write,
        }
    }
}

/// Where the thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Thread {
    Idle,
    Wants(Mode),
    In {
        mode: Mode,
        /// It will want to write, or only to read, before it leaves.
        converts: bool,
    },
    /// It reads, and waits to write.
    Upgrades,
}

/// What the cache has opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Opened {
    mode: Mode,
    token: Token,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Hash)]
pub(crate) struct Node {
    /// Gone after a crash.
    pub(crate) cache: Option<Frozen<LockCache>>,
    pub(crate) thread: Thread,
    /// How many of the script's are over.
    pub(crate) done: usize,
    /// How many of those were done, not withdrawn, lost or refused.
    pub(crate) served: usize,
    opened: Option<Opened>,
    /// What it drains to.
    drain: Option<Option<Mode>>,
    lease: Tick,
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
            lease: Tick::ZERO,
        }
    }

    /// How the thread holds the record, as long as its lease stands.
    pub(crate) fn holds(&self, now: Tick) -> Option<Mode> {
        let mode = match self.thread {
            Thread::In { mode, .. } => mode,
            Thread::Upgrades => Mode::Read,
            Thread::Idle | Thread::Wants(_) => return None,
        };
        (now < self.lease).then_some(mode)
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.drain.is_some()
    }

    pub(crate) fn crash(&mut self, script: &[Op]) {
        self.cache = None;
        self.thread = Thread::Idle;
        self.opened = None;
        self.drain = None;
        self.done = script.len();
    }

    /// All of it is wanted back, and what is in the way is a reader under a grant for writing.
    fn has_downgraded(&self) -> bool {
        let reads = matches!(self.thread, Thread::In { mode: Mode::Read, .. });
        let writes = self.opened.is_some_and(|opened| opened.mode == Mode::Write);
        self.drain == Some(None) && reads && writes
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
    pub(crate) fn begin(&mut self, setup: &Setup, at: usize) {
        let op = setup.scripts[at][self.nodes[at].done];
        let node = &mut self.nodes[at];
        match node.opened {
            Some(opened) if opened.mode.covers(op.first()) && node.drain.is_none() => {
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
    pub(crate) fn upgrade(&mut self, setup: &Setup, at: usize) {
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

    /// A thread that writes goes on reading.
    pub(crate) fn downgrade(&mut self, setup: &Setup, at: usize) {
        self.nodes[at].thread = Thread::In { mode: Mode::Read, converts: false };
        self.settle(setup, at);
    }

    fn want(&mut self, setup: &Setup, at: usize, mode: Mode, upgrade: bool) {
        let input = Input::Want { record: RECORD.clone(), mode, upgrade, owners: Vec::new() };
        self.tell_cache(setup, at, input);
    }

    pub(crate) fn release(&mut self, setup: &Setup, at: usize) {
        let node = &mut self.nodes[at];
        node.thread = Thread::Idle;
        node.done += 1;
        node.served += 1;
        self.settle(setup, at);
    }

    /// The thread waits no more.
    pub(crate) fn withdraw(&mut self, setup: &Setup, at: usize) {
        let node = &mut self.nodes[at];
        if node.thread == Thread::Upgrades {
            node.thread = Thread::In { mode: Mode::Read, converts: false };
        } else {
            node.thread = Thread::Idle;
            node.done += 1;
        }
        self.tell_cache(setup, at, Input::Withdraw { record: RECORD.clone() });
    }

    fn enter(&mut self, setup: &Setup, at: usize, mode: Mode, token: Token) {
        let op = setup.scripts[at][self.nodes[at].done];
        let converts =
            op == Op::Upgrade && mode == Mode::Read || op == Op::Downgrade && mode == Mode::Write;
        self.nodes[at].thread = Thread::In { mode, converts };
        self.tokens.enter(at, mode, token, &mut self.wrong);
    }

    /// One input for a cache, everything that it wants done, and what follows from that at once.
    pub(crate) fn tell_cache(&mut self, setup: &Setup, at: usize, input: Input) {
        let Some(cache) = &self.nodes[at].cache else { return };
        let done = setup.caches.step(cache, self.now, input);
        self.nodes[at].cache = Some(done.next.clone());
        if let Some(panic) = &done.panic {
            self.wrong(format!("node {at}: {panic}"));
        }
        if let Err(refusal) = done.result {
            self.wrong(format!("node {at}: its driver is refused: {refusal}"));
        }
        for output in done.out.iter().cloned() {
            self.heed(setup, at, output);
        }
        self.settle(setup, at);
    }

    fn heed(&mut self, setup: &Setup, at: usize, output: Output) {
        let node = &mut self.nodes[at];
        match output {
            Output::Send { session, message, .. } => {
                self.send(Packet::Up { session, message });
            }
            Output::Open { mode, token, .. } => {
                node.opened = Some(Opened { mode, token });
                node.drain = None;
                match node.thread {
                    Thread::Wants(wish) if mode.covers(wish) => {
                        self.enter(setup, at, wish, token);
                    }
                    Thread::Upgrades if mode == Mode::Write => {
                        self.enter(setup, at, Mode::Write, token);
                    }
                    _ => {}
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
            Output::Lease { until, .. } => node.lease = until,
            Output::Rests { .. } => self.wrong(format!("node {at}: there is but one server")),
            Output::Locate { groups } => {
                self.tell_cache(setup, at, Input::Route { groups, server: SERVER });
            }
        }
    }

    /// Answers a drain, if nobody is in the way any more.
    fn settle(&mut self, setup: &Setup, at: usize) {
        let node = &mut self.nodes[at];
        if node.is_drained() {
            match (node.drain.take().flatten(), &mut node.opened) {
                (Some(mode), Some(opened)) => opened.mode = mode,
                _ => node.opened = None,
            }
            self.tell_cache(setup, at, Input::Drained { record: RECORD.clone() });
        } else if node.has_downgraded()
            && let Some(opened) = &mut node.opened
        {
            opened.mode = Mode::Read;
            node.drain = None;
            self.tell_cache(setup, at, Input::Downgraded { record: RECORD.clone() });
        }
    }

    /// Whether a message for this session can still mean something to its node.
    pub(crate) fn is_heard(&self, packet: &Arc<Packet>) -> bool {
        let Packet::Down { session, .. } = **packet else { return true };
        let cache = self.nodes[Setup::node_of(session)].cache.as_ref();
        cache.is_some_and(|cache| cache.sessions().any(|(_, present)| present == session))
    }
}
