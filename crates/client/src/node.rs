//! This process as a node of the service: the cache of the protocol, the lines of its records, and
//! the way to the server.
//!
//! # Who holds what, in which order
//!
//! 1. `core`: the protocol's cache. One at a time; never while waiting for anything.
//! 2. a record's `line`.
//! 3. the outbox of the way.
//!
//! A thread that finds in a line that the cache has to be told something lets go of the line, takes
//! the core, and looks at the line again ([`Node::settle`]): what it tells the cache is what is
//! true then. Wakers are called with nothing held.
//!
//! # Why no stale guard is good
//!
//! Everything that is lost is lost ([`Gate::lose`](lockspan_thread::gate::Gate::lose)) before the
//! end of a later lease is stored in `until`, with release. A thread that goes in takes its
//! generation with it, loads `until` with acquire, reads the clock, and then looks whether its
//! generation is still the present one: if it saw the later lease, it sees that it was lost.
//!
//! # In a child of a fork
//!
//! The child has a copy of the node, and not the threads that look after it. The end of the lease
//! is in a [word that a fork wipes](lockspan_park::fork): in the child it is 0, so every lease is
//! over there, and the fast path needs no check of its own. In the child, any mutex of the node
//! may stay locked, and its sockets are shared with the parent. So every call of a user that
//! would take a mutex, send something or arm a timer asks [`Node::is_forked`] first; and the node
//! and its task are [bound](lockspan_park::fork::ProcessBound) to their process: they are leaked in
//! the child, since dropping a socket would deregister the parent's from the `epoll` that both
//! have.

pub(crate) mod batch;
mod cycles;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;

use lockspan_park::fork::{Process, WipedWord};
use lockspan_protocol::cache::{Config, Input, Output, WantRefusal};
use lockspan_protocol::{
    AcquireRefusal, GroupSet, LockCache, Owner, Record as Name, ServerId, SessionId,
    SessionRefusal, Tick, ToNode, ToServer,
};
use lockspan_thread::gate::Pass;
use lockspan_wire::Event;
use tokio::sync::Notify;

use crate::clock;
use crate::entry::{Entries, Entry, lock};
use crate::error::LockError;
use crate::line::{Drain, Line, Look, Opened, Waiter};
use crate::meter::{Hold, Meter};
use crate::stats::{Counts, Stats};
use crate::timeout::HeldBy;
use crate::way::Way;

/// So few unanswered wants are sent one by one, for each to be fast; more are sent together.
const FEW: usize = 2;

/// So many records are given back with the core locked; then others may have it.
const GIVEN_BACK_AT_ONCE: usize = 64;

/// The one server of a node.
pub(crate) const SERVER: ServerId = ServerId(0);

/// How a node uses its records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Habits {
    pub(crate) caching: bool,
    /// How much earlier the lease is over than it must be.
    pub(crate) margin: std::time::Duration,
    /// After how long an unused record goes back.
    pub(crate) idle: std::time::Duration,
    /// Beyond this number of records the least recently used go back.
    pub(crate) max_cached: usize,
}

/// What stands behind the core lock.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) cache: LockCache,
    inbox: VecDeque<Input>,
    out: Vec<Output>,
    /// Records that an output was about.
    touched: Vec<Arc<Entry>>,
    /// The record of the last of them: the next is mostly about the same.
    pub(crate) last: Option<Arc<Entry>>,
    /// When the core was taken. Everything that is done until it is let go is done then.
    pub(crate) now: Tick,
    /// What the recorder of metrics is to hear.
    pub(crate) holds: Vec<Hold>,
    /// There is a session that the server has opened.
    pub(crate) has_lease: bool,
    /// Records that named owners wait for.
    waits: BTreeMap<Owner, Vec<Arc<Entry>>>,
    /// Records that are wanted back while a named owner holds them.
    draining: Vec<Arc<Entry>>,
    /// Records that are fetched for those who acquire several.
    batches: batch::Batches,
    /// Wants that are not answered.
    asking: usize,
    /// When the background task will look again.
    pub(crate) armed: Option<Tick>,
}

impl Core {
    /// The cache hears of this when whoever has the core is done.
    pub(crate) fn push(&mut self, input: Input) {
        self.inbox.push_back(input);
    }
}

/// A node.
#[derive(Debug)]
pub(crate) struct Node {
    /// The end of the lease, in ticks. Only the process that made the node stores here.
    until: WipedWord,
    /// The process that made it.
    process: Process,
    #[cfg_attr(not(feature = "metrics"), expect(dead_code, reason = "nothing is counted"))]
    pub(crate) meter: Meter,
    pub(crate) core: Mutex<Core>,
    pub(crate) entries: Entries,
    pub(crate) habits: Habits,
    pub(crate) way: Way,
    /// Rung when the background task has something to do.
    pub(crate) bell: Notify,
    /// How many records the last sweep left.
    unswept: AtomicUsize,
    /// Nothing can be acquired any more. Set with the core held.
    is_closed: AtomicBool,
    /// The last handle is gone.
    pub(crate) is_ended: AtomicBool,
    /// An operator has ended a session of this node.
    pub(crate) ended_by_operator: AtomicBool,
    /// Rung when the server has answered a command.
    pub(crate) confirmed: Notify,
    pub(crate) counts: Counts,
    pub(crate) runtime: tokio::runtime::Handle,
}

impl Node {
    pub(crate) fn new(
        config: Config,
        habits: Habits,
        meter: Meter,
        way: Way,
        runtime: tokio::runtime::Handle,
    ) -> Self {
        let mut core = Core {
            cache: LockCache::new(config),
            inbox: VecDeque::new(),
            out: Vec::new(),
            touched: Vec::new(),
            last: None,
            now: Tick(0),
            holds: Vec::new(),
            has_lease: false,
            waits: BTreeMap::new(),
            draining: Vec::new(),
            batches: batch::Batches::default(),
            asking: 0,
            armed: None,
        };
        core.inbox.push_back(Input::Route { groups: GroupSet::ALL, server: SERVER });
        Self {
            until: WipedWord::new(),
            process: Process::current(),
            meter,
            core: Mutex::new(core),
            entries: Entries::new(),
            habits,
            way,
            bell: Notify::new(),
            unswept: AtomicUsize::new(0),
            is_closed: AtomicBool::new(false),
            is_ended: AtomicBool::new(false),
            ended_by_operator: AtomicBool::new(false),
            confirmed: Notify::new(),
            counts: Counts::default(),
            runtime,
        }
    }

    /// Whether this is a copy that a fork has made: another process has the connection.
    #[inline]
    pub(crate) fn is_forked(&self) -> bool {
        !self.process.is_current()
    }

    /// The end of the lease; 0 in a child of a fork.
    #[inline]
    pub(crate) fn until(&self) -> Tick {
        Tick(self.until.load(Ordering::Acquire))
    }

    /// Whether somebody who is in is in with a lease that stands. The order matters, see the
    /// module.
    #[inline]
    pub(crate) fn stands(&self, entry: &Entry, pass: &Pass) -> Option<Tick> {
        let until = self.until();
        let now = clock::now();
        (now < until && entry.gate.has(pass)).then_some(now)
    }

    /// Whoever is let in looks at the clock once more: so a moment that has just passed will do.
    pub(crate) fn look<'a>(&self, entry: &'a Entry, now: Tick) -> Look<'a> {
        let caching = self.habits.caching;
        let downgraded = &entry.downgraded;
        Look { gate: &entry.gate, until: self.until(), now, caching, downgraded }
    }

    /// Whether a server somewhere else is asked for each turn, so that none is answered at once.
    pub(crate) fn is_asked_each_time(&self) -> bool {
        !self.habits.caching && matches!(self.way, Way::Stream(_))
    }

    /// Does something with a line, looks after it, and tells the cache what has come of it.
    pub(crate) fn with_line<R>(
        &self,
        entry: &Arc<Entry>,
        act: impl FnOnce(&mut Line, &Look<'_>, &mut Vec<Waker>) -> R,
    ) -> R {
        if !self.habits.caching {
            let (done, is_urgent) = self.with_both(entry, act);
            self.flush(is_urgent);
            return done;
        }
        let mut wakes = Vec::new();
        let look = self.look(entry, clock::now());
        let (done, needs_cache) = {
            let mut line = lock(&entry.line);
            let done = act(&mut line, &look, &mut wakes);
            (done, line.needs_cache(&look))
        };
        wakes.into_iter().for_each(Waker::wake);
        if needs_cache {
            let is_urgent = self.settle(entry);
            self.flush(is_urgent);
        }
        done
    }

    /// The same for somebody who has left. A release that nobody is known to wait for may travel
    /// with what the task says next: the background task takes it along as soon as it runs, as it
    /// would have to run to give back a record that stays cached.
    pub(crate) fn after_leaving(
        &self,
        entry: &Arc<Entry>,
        act: impl FnOnce(&mut Line, &Look<'_>, &mut Vec<Waker>),
    ) {
        let (is_wanted, is_urgent) = if self.habits.caching {
            let mut wakes = Vec::new();
            let look = self.look(entry, clock::now());
            let (is_wanted, needs_cache) = {
                let mut line = lock(&entry.line);
                act(&mut line, &look, &mut wakes);
                (line.is_wanted(), line.needs_cache(&look))
            };
            wakes.into_iter().for_each(Waker::wake);
            if !needs_cache {
                return;
            }
            (is_wanted, self.settle(entry))
        } else {
            self.with_both(entry, |line, look, wakes| {
                act(line, look, wakes);
                line.is_wanted()
            })
        };
        // A thread outside of any runtime writes faster than it wakes another.
        let must_write =
            || is_urgent && (is_wanted || tokio::runtime::Handle::try_current().is_err());
        self.flush(must_write());
    }

    /// Does something with a line, and tells the cache what has come of it, in one go: without
    /// caching there nearly always is something. Also tells whether that is urgent.
    fn with_both<R>(
        &self,
        entry: &Arc<Entry>,
        act: impl FnOnce(&mut Line, &Look<'_>, &mut Vec<Waker>) -> R,
    ) -> (R, bool) {
        self.with_core_only(|node, core, wakes| {
            let done = node.settle_with(core, entry, false, wakes, act);
            node.look_at_lease(core);
            done
        })
    }

    /// Tells the cache what a line needs, and does what follows from it but for the sending; tells
    /// whether that is urgent.
    fn settle(&self, entry: &Arc<Entry>) -> bool {
        let ((), is_urgent) = self.with_core_only(|node, core, wakes| {
            node.settle_entry(core, entry, false, wakes);
            node.look_at_lease(core);
        });
        is_urgent
    }

    /// If the lease is over, the cache is told that time has passed.
    fn look_at_lease(&self, core: &mut Core) {
        if self.until() <= core.now {
            core.inbox.push_back(Input::Tick);
        }
    }

    /// Sends what is to be sent, or leaves it to the background task.
    fn flush(&self, is_urgent: bool) {
        if self.way.flush(self, is_urgent) {
            self.bell.notify_one();
        }
    }

    /// Takes the core, does something, works off what follows, wakes whom it concerns and sends
    /// what is to be sent.
    pub(crate) fn with_core<R>(
        &self,
        act: impl FnOnce(&Self, &mut Core, &mut Vec<Waker>) -> R,
    ) -> R {
        let (done, is_urgent) = self.with_core_only(act);
        self.flush(is_urgent);
        done
    }

    /// The same, but what is to be sent is left to the caller. Also tells whether it is urgent.
    fn with_core_only<R>(
        &self,
        act: impl FnOnce(&Self, &mut Core, &mut Vec<Waker>) -> R,
    ) -> (R, bool) {
        self.with_core_for(0, act)
    }

    /// The same, for something that wakes about so many.
    fn with_core_for<R>(
        &self,
        woken: usize,
        act: impl FnOnce(&Self, &mut Core, &mut Vec<Waker>) -> R,
    ) -> (R, bool) {
        debug_assert!(!self.is_forked(), "the core may be locked forever");
        let mut wakes = Vec::with_capacity(woken);
        let mut core = lock(&self.core);
        core.now = clock::now();
        let done = act(self, &mut core, &mut wakes);
        self.work_off(&mut core, &mut wakes);
        self.watch_lease(&mut core);
        let holds = std::mem::take(&mut core.holds);
        let next = core.cache.next_deadline();
        let is_earlier = next.is_some_and(|next| core.armed.is_none_or(|armed| next < armed));
        if is_earlier {
            core.armed = next;
        }
        let is_urgent = core.asking <= FEW;
        drop(core);
        wakes.into_iter().for_each(Waker::wake);
        if is_earlier {
            self.bell.notify_one();
        }
        holds.iter().for_each(Hold::tell);
        (done, is_urgent)
    }

    /// Messages have come.
    pub(crate) fn hear(&self, heard: &mut Vec<(SessionId, Event)>) {
        let is_much = heard.len() > FEW;
        if is_much && let Way::Stream(outbox) = &self.way {
            outbox.hold();
        }
        let is_urgent = self.hear_quietly(heard.drain(..));
        // Whoever was woken by it will have more to say.
        if is_much || !is_urgent || self.way.flush(self, true) {
            self.bell.notify_one();
        }
    }

    /// The same, but sends nothing; tells whether what is to be sent is urgent.
    pub(crate) fn hear_quietly(&self, heard: impl IntoIterator<Item = (SessionId, Event)>) -> bool {
        let heard = heard.into_iter();
        let ((), is_urgent) = self.with_core_for(heard.size_hint().0, |node, core, wakes| {
            for (session, event) in heard {
                node.hear_one(core, session, event, wakes);
            }
        });
        is_urgent
    }

    fn hear_one(&self, core: &mut Core, session: SessionId, event: Event, wakes: &mut Vec<Waker>) {
        Counts::one(&self.counts.heard);
        match event {
            Event::Node(message) => {
                match &message {
                    ToNode::Revoke { .. } => Counts::one(&self.counts.revokes),
                    ToNode::Granted { .. } => Counts::one(&self.counts.grants),
                    ToNode::Retry { .. } => Counts::one(&self.counts.retries),
                    _ => {}
                }
                self.count_heard(core, &message);
                let queued = match &message {
                    ToNode::Queued { record, .. } => Some(record.clone()),
                    _ => None,
                };
                self.step(core, Input::Message { server: SERVER, session, message }, wakes);
                if let Some(record) = queued {
                    self.queued(core, &record, wakes);
                }
                self.work_off(core, wakes);
            }
            // The session has ended before this node heard that it was open. That is no reason to
            // refuse anything: the node opens another one.
            Event::NotOpened(SessionRefusal::Unknown) => {
                self.hear_one(core, session, Event::Node(ToNode::NoSession), wakes);
            }
            Event::EndedByOperator => {
                self.ended_by_operator.store(true, Ordering::Release);
                self.hear_one(core, session, Event::Node(ToNode::NoSession), wakes);
            }
            Event::NotOpened(why) if core.cache.sessions().any(|(_, ours)| ours == session) => {
                self.refuse_all(core, &LockError::NoSession(Box::new(why)), wakes);
            }
            _ => {}
        }
    }

    /// The way to the server is open, perhaps again.
    pub(crate) fn connected(&self) {
        self.with_core(|_, core, _| core.inbox.push_back(Input::Connected { server: SERVER }));
    }

    /// Time has passed; returns when to look again.
    pub(crate) fn tick(&self) -> Option<Tick> {
        self.with_core(|_, core, _| core.inbox.push_back(Input::Tick));
        let mut core = lock(&self.core);
        core.armed = core.cache.next_deadline();
        core.armed
    }

    /// When the background task is to look again.
    pub(crate) fn armed(&self) -> Option<Tick> {
        lock(&self.core).armed
    }

    /// Whether a session is open or being opened, so that the server has something to answer.
    pub(crate) fn is_open(&self) -> bool {
        lock(&self.core).cache.sessions().next().is_some()
    }

    /// Whether many more records are cached than are allowed, or than the last sweep had to leave
    /// because they were in use.
    pub(crate) fn is_crowded(&self) -> bool {
        let max = self.habits.max_cached.max(self.unswept.load(Ordering::Relaxed));
        self.cached() > max.saturating_add(self.habits.max_cached / 8)
    }

    /// Gives back what is not in use.
    pub(crate) fn give_back_idle(&self) {
        if self.is_forked() {
            return;
        }
        let all = self.entries.which(|_| true);
        self.give_back(&all);
    }

    fn give_back(&self, entries: &[Arc<Entry>]) {
        for part in entries.chunks(GIVEN_BACK_AT_ONCE) {
            self.with_core(|node, core, wakes| {
                for entry in part {
                    node.settle_entry(core, entry, true, wakes);
                    node.work_off(core, wakes);
                }
            });
        }
    }

    /// Ends the sessions: nothing is held or wanted after this.
    pub(crate) fn close(&self) {
        let is_urgent = self.close_quietly();
        self.flush(is_urgent);
        // The background task may never run again.
        if let Way::Stream(outbox) = &self.way
            && outbox.write()
        {
            self.bell.notify_one();
        }
    }

    /// The same, but sends nothing; tells whether what is to be sent is urgent.
    pub(crate) fn close_quietly(&self) -> bool {
        let ((), is_urgent) = self.with_core_only(|node, core, wakes| {
            if node.is_closed.swap(true, Ordering::AcqRel) {
                return;
            }
            // Nobody is in any more before the server can hear of it: what is put to be sent may be
            // on its way at once.
            let entries = node.entries.which(|_| true);
            for entry in &entries {
                Self::at_line(core, entry, |line| line.lose(&entry.gate, wakes));
                Self::entry_hold_ends(core, entry);
            }
            // And nobody who waits hears of it before that.
            for entry in &entries {
                Self::at_line(core, entry, |line| {
                    line.refuse(&LockError::Closed, |_| true, wakes);
                    line.wanted = None;
                });
            }
            core.inbox.push_back(Input::Close);
        });
        is_urgent
    }

    /// Refuses whoever waits for a record, which is then not wanted any more.
    pub(crate) fn refuse_record(&self, name: &Name, why: &LockError) {
        self.with_core(|node, core, wakes| {
            let entry = node.entries.get(name);
            lock(&entry.line).refuse(why, |_| true, wakes);
            node.settle_entry(core, &entry, false, wakes);
        });
    }

    fn refuse_all(&self, core: &mut Core, why: &LockError, wakes: &mut Vec<Waker>) {
        for entry in self.entries.which(|_| true) {
            lock(&entry.line).refuse(why, |_| true, wakes);
            self.settle_entry(core, &entry, false, wakes);
        }
    }

    /// Handles what stands in the inbox, and what follows from it.
    fn work_off(&self, core: &mut Core, wakes: &mut Vec<Waker>) {
        while let Some(input) = core.inbox.pop_front() {
            self.step(core, input, wakes);
        }
    }

    fn step(&self, core: &mut Core, input: Input, wakes: &mut Vec<Waker>) {
        let wanted = match &input {
            Input::Want { record, .. } => Some(record.clone()),
            _ => None,
        };
        let mut out = std::mem::take(&mut core.out);
        let handled = core.cache.handle(core.now, input, &mut out);
        for output in out.drain(..) {
            self.output(core, output, wakes);
        }
        core.out = out;
        if let (Err(why), Some(record)) = (handled, wanted) {
            self.refuse_want(core, &record, why, wakes);
        }
        while let Some(entry) = core.touched.pop() {
            self.settle_entry(core, &entry, false, wakes);
        }
    }

    /// Does something with a line, and counts whether something is wanted there.
    fn at_line<R>(core: &mut Core, entry: &Entry, act: impl FnOnce(&mut Line) -> R) -> R {
        let mut line = lock(&entry.line);
        core.asking -= usize::from(line.wanted.is_some());
        let done = act(&mut line);
        core.asking += usize::from(line.wanted.is_some());
        done
    }

    /// The cache refuses what was wanted.
    fn refuse_want(
        &self,
        core: &mut Core,
        record: &Name,
        why: WantRefusal,
        wakes: &mut Vec<Waker>,
    ) {
        let entry = self.entry(core, record);
        let upgrade = matches!(why, WantRefusal::NotHeld | WantRefusal::UpgradeConflict);
        let why = match why {
            WantRefusal::NotHeld => LockError::Lost,
            WantRefusal::UpgradeConflict => LockError::UpgradeConflict,
            WantRefusal::Closed => LockError::Closed,
            why => LockError::TooManyRecords(Box::new(why)),
        };
        Self::at_line(core, &entry, |line| {
            line.wanted = None;
            line.refuse(&why, |waiter| waiter.upgrade.is_some() || !upgrade, wakes);
        });
        core.touched.push(entry);
    }

    /// The entry of a record that the cache speaks of.
    fn entry(&self, core: &mut Core, record: &Name) -> Arc<Entry> {
        let entry = self.take_entry(core, record);
        core.last = Some(Arc::clone(&entry));
        entry
    }

    /// The same, to be put back as the last by the caller.
    fn take_entry(&self, core: &mut Core, record: &Name) -> Arc<Entry> {
        match core.last.take() {
            Some(last) if last.name == *record => last,
            _ => self.entries.get(record),
        }
    }

    /// Does what the cache wants done.
    fn output(&self, core: &mut Core, output: Output, wakes: &mut Vec<Waker>) {
        match output {
            Output::Send { session, message, .. } => {
                Counts::one(&self.counts.told);
                if matches!(message, ToServer::Acquire { .. }) {
                    Counts::one(&self.counts.acquires);
                }
                self.count_told(core, &message);
                self.way.put(session, message);
            }
            Output::Open { record, mode, token, .. } => {
                let entry = self.take_entry(core, &record);
                entry.set_token(token);
                if entry.gate.inside().is_empty() {
                    entry.downgraded.clear();
                }
                self.hold_begins(core, &entry);
                let look = self.look(&entry, core.now);
                let is_settled = Self::at_line(core, &entry, |line| {
                    line.open(Opened { mode, token });
                    line.serve(&look, wakes);
                    line.is_settled(&look)
                });
                if !is_settled {
                    core.touched.push(Arc::clone(&entry));
                }
                core.last = Some(entry);
            }
            Output::Drain { record, to, stay } => {
                let entry = self.entry(core, &record);
                lock(&entry.line).drain.get_or_insert(Drain { to, stay }).to = to;
                core.touched.push(entry);
            }
            Output::Lost { record } => {
                Counts::one(&self.counts.lost);
                let entry = self.entry(core, &record);
                Self::at_line(core, &entry, |line| line.lose(&entry.gate, wakes));
                self.count_lost(core, &entry);
                // What was said about it does not hold any more.
                core.inbox.retain(|input| !needs_grant(input, &record));
                core.touched.push(entry);
            }
            Output::Refused { record, why } => self.refused(core, &record, why, wakes),
            // What an extension does not name ends earlier, and one end counts for all records
            // here: the earliest.
            Output::Lease { .. } => {
                let Some(until) = core.cache.all_until(SERVER) else { return };
                let margin = u64::try_from(self.habits.margin.as_micros()).unwrap_or(u64::MAX);
                self.until.store(until.0.saturating_sub(margin), Ordering::Release);
            }
            Output::Locate { .. } => {
                core.inbox.push_back(Input::Route { groups: GroupSet::ALL, server: SERVER });
            }
            Output::HeldBy { record, ahead, holders } => {
                let entry = self.entry(core, &record);
                lock(&entry.line).held_by = Some(Box::new(HeldBy { ahead, holders }));
            }
            // There is one server.
            Output::Rests { .. } => {}
        }
    }

    fn refused(&self, core: &mut Core, record: &Name, why: AcquireRefusal, wakes: &mut Vec<Waker>) {
        let entry = self.entry(core, record);
        let cycle = match &why {
            AcquireRefusal::Deadlock { cycle } => Some(cycle.clone()),
            _ => None,
        };
        let upgrade = matches!(why, AcquireRefusal::UpgradeConflict | AcquireRefusal::NotHeld);
        // Who may read is not refused because somebody else here may not write.
        let denied = match why {
            AcquireRefusal::Denied { mode } => Some(mode),
            _ => None,
        };
        let error = LockError::from_refusal(why);
        let is_meant = |waiter: &Waiter| match &cycle {
            _ if denied.is_some() => denied.is_some_and(|mode| waiter.mode >= mode),
            Some(cycle) => waiter.owner.is_some_and(|owner| cycle.contains(&owner)),
            None => waiter.upgrade.is_some() || !upgrade,
        };
        Self::at_line(core, &entry, |line| {
            line.wanted = None;
            line.refuse(&error, is_meant, wakes);
        });
        core.touched.push(entry);
    }

    /// Looks after a line, and tells the cache what has come of it.
    pub(crate) fn settle_entry(
        &self,
        core: &mut Core,
        entry: &Arc<Entry>,
        give_back: bool,
        wakes: &mut Vec<Waker>,
    ) {
        self.settle_with(core, entry, give_back, wakes, |_, _, _| ());
    }

    /// The same, after something was done with the line.
    fn settle_with<R>(
        &self,
        core: &mut Core,
        entry: &Arc<Entry>,
        give_back: bool,
        wakes: &mut Vec<Waker>,
        act: impl FnOnce(&mut Line, &Look<'_>, &mut Vec<Waker>) -> R,
    ) -> R {
        let look = self.look(entry, core.now);
        let mut inbox = std::mem::take(&mut core.inbox);
        let (done, is_named) = Self::at_line(core, entry, |line| {
            let done = act(line, &look, wakes);
            line.settle(&look, &entry.name, give_back, wakes, &mut inbox);
            (done, line.drain.is_some() && !line.named.is_empty())
        });
        core.inbox = inbox;
        if is_named && !core.draining.iter().any(|other| Arc::ptr_eq(other, entry)) {
            core.draining.push(Arc::clone(entry));
        }
        self.report(core);
        done
    }

    /// Gives back what was not used for a while, and the least used beyond the number allowed.
    pub(crate) fn sweep(&self) {
        let now = clock::now();
        let is_old = |entry: &Entry| entry.used() + self.habits.idle <= now;
        let mut old = self.entries.which(is_old);
        let excess = self.cached().saturating_sub(self.habits.max_cached);
        if excess > old.len() {
            let mut all = self.entries.which(|_| true);
            all.sort_by_key(|entry| entry.used());
            all.truncate(excess);
            old = all;
        }
        if !old.is_empty() {
            self.give_back(&old);
        }
        drop(old);
        self.entries.tidy();
        self.unswept.store(self.cached(), Ordering::Relaxed);
    }

    /// How many records are cached, in use or asked for.
    pub(crate) fn cached(&self) -> usize {
        lock(&self.core).cache.len()
    }

    /// What has happened so far.
    pub(crate) fn stats(&self) -> Stats {
        if self.is_forked() {
            return self.counts.stats(0, 0);
        }
        self.counts.stats(self.cached(), self.way.sent_bytes())
    }

    /// Whether it is closed, or about to be.
    pub(crate) fn is_closing(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Whether nothing can be acquired any more. Who hears that it is so finds every guard lost:
    /// whoever closes keeps the core until they are.
    pub(crate) fn is_closed(&self) -> bool {
        let is_closed = self.is_closing();
        if is_closed {
            drop(lock(&self.core));
        }
        is_closed
    }
}

/// Whether an input is about a grant that is void now.
fn needs_grant(input: &Input, name: &Name) -> bool {
    match input {
        Input::Drained { record }
        | Input::Downgraded { record }
        | Input::Busy { record, .. }
        | Input::Return { record } => record == name,
        Input::Want { record, upgrade, .. } => *upgrade && record == name,
        _ => false,
    }
}
