//! What threads do: think, take a record or two, use them, leave.
//!
//! A *use* of a record that is held for writing is: read the version in the store behind it when
//! the guard begins; later check that the guard is not lost; a little later, unchecked, write the
//! next version. A pause can come between any two of these, and the write itself takes a while: the
//! fence decides then.

use fastrand::Rng;
use lockspan_protocol::cache::Input;
use lockspan_protocol::cache::LeaseId;
use lockspan_protocol::{Mode, Owner, Token};

use super::finish::Stage;
use super::{Event, World};
use crate::coverage::Hit;
use crate::fence::Write;
use crate::local::{Opened, Waiter};
use crate::oracle::Kind;
use crate::oracle::guards::Guard;
use crate::plan::Workload;
use crate::stream;
use crate::words::Machine;

/// A thread of a node.
#[derive(Debug)]
pub(super) struct Thread {
    rng: Rng,
    state: State,
    job: Job,
    held: Vec<Held>,
    /// Grows with each thing that it does; an event of an earlier one is nothing to it.
    turn: u32,
    /// How many jobs it may still begin when faults are over.
    jobs_left: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Thinking,
    Waiting {
        record: u8,
        since: u64,
        upgrade: bool,
    },
    /// In, and about to check its guards.
    Checks,
    /// In, and about to write, without checking again.
    Writes,
    /// In, and has done what it came for.
    Done,
    /// Finds nothing more to do.
    Idle,
}

/// What a thread is after.
#[derive(Clone, Debug, Default)]
struct Job {
    wants: Vec<(u8, Mode)>,
    /// How many of them it has.
    taken: usize,
    /// When it reads, it wants to write then.
    upgrades: bool,
    owner: Option<Owner>,
}

/// A record that a thread holds.
#[derive(Clone, Copy, Debug)]
struct Held {
    record: u8,
    mode: Mode,
    token: Token,
    /// The version that it will replace, if the store has accepted its token.
    base: Option<u64>,
    lost: bool,
}

impl Thread {
    pub(super) fn new(seed: u64, node: u8, thread: u8) -> Self {
        Self {
            rng: stream::Thread { node, thread }.rng(seed),
            state: State::Idle,
            job: Job::default(),
            held: Vec::new(),
            turn: 0,
            jobs_left: 1,
        }
    }

    pub(super) fn owner(&self) -> Option<Owner> {
        self.job.owner
    }

    pub(super) fn is_idle(&self) -> bool {
        self.state == State::Idle
    }

    /// Since when it waits, and for what.
    pub(super) fn waiting(&self) -> Option<(u8, u64)> {
        match self.state {
            State::Waiting { record, since, .. } => Some((record, since)),
            _ => None,
        }
    }

    fn has_lost(&self) -> bool {
        self.held.iter().any(|held| held.lost)
    }
}

impl World {
    fn thread(&mut self, node: u8, thread: u8) -> &mut Thread {
        &mut self.nodes[usize::from(node)].threads[usize::from(thread)]
    }

    pub(super) fn start_thread(&mut self, node: u8, number: u8) {
        let thread = self.thread(node, number);
        thread.held.clear();
        thread.job = Job::default();
        thread.state = State::Thinking;
        self.thinks(node, number);
    }

    /// The thread goes on after at most `within`.
    fn goes_on(&mut self, node: u8, number: u8, within: u64) {
        let life = self.nodes[usize::from(node)].life;
        let thread = self.thread(node, number);
        thread.turn += 1;
        let (turn, after) = (thread.turn, thread.rng.u64(0..=within));
        self.queue.push(self.now + after, Event::Thread { node, life, thread: number, turn });
    }

    fn thinks(&mut self, node: u8, number: u8) {
        self.thread(node, number).state = State::Thinking;
        self.goes_on(node, number, self.plan.think_max);
    }

    pub(super) fn thread_runs(&mut self, node: u8, number: u8, turn: u32) {
        let thread = self.thread(node, number);
        if thread.turn != turn {
            return;
        }
        match thread.state {
            State::Thinking => self.begins(node, number),
            State::Checks => self.checks(node, number),
            State::Writes => self.writes(node, number),
            State::Done => self.next_want(node, number),
            State::Waiting { .. } | State::Idle => {}
        }
        self.work_off(node);
    }

    fn begins(&mut self, node: u8, number: u8) {
        let running = self.stage == Stage::Running;
        let thread = self.thread(node, number);
        if !running {
            if thread.jobs_left == 0 {
                thread.state = State::Idle;
                self.thread_is_idle();
                return;
            }
            thread.jobs_left -= 1;
        }
        let life = self.nodes[usize::from(node)].life;
        let plan = self.plan.clone();
        let thread = self.thread(node, number);
        thread.job = draw_job(&plan, node, life, number, &mut thread.rng);
        self.next_want(node, number);
    }

    /// Gives a thread one last thing to do: to take a record for writing.
    pub(super) fn sweeps(&mut self, node: u8, number: u8, record: u8) {
        let thread = self.thread(node, number);
        thread.job = Job { wants: vec![(record, Mode::Write)], ..Job::default() };
        self.next_want(node, number);
        self.work_off(node);
    }

    /// Takes the next record of the job, upgrades, or leaves.
    fn next_want(&mut self, node: u8, number: u8) {
        let thread = self.thread(node, number);
        let upgrade = thread.job.upgrades && !thread.has_lost();
        let want = thread.job.wants.get(thread.job.taken).copied();
        match (want, thread.held.first().copied()) {
            (Some((record, mode)), _) => self.waits(node, number, record, mode, false),
            (None, Some(held)) if upgrade && held.mode == Mode::Read => {
                self.waits(node, number, held.record, Mode::Write, true);
            }
            _ => self.leaves(node, number),
        }
    }

    fn waits(&mut self, node: u8, number: u8, record: u8, mode: Mode, upgrade: bool) {
        let since = self.now;
        let (patience, longest) = (self.plan.patience, self.plan.patience_max);
        let life = self.nodes[usize::from(node)].life;
        let running = self.stage == Stage::Running;
        // Cycles over several servers are found by nobody: such transactions need patience.
        let blind = self.plan.workload == Workload::Transactions && self.cluster.is_some();
        let thread = self.thread(node, number);
        thread.state = State::Waiting { record, since, upgrade };
        thread.turn += 1;
        let (owner, turn) = (thread.job.owner, thread.turn);
        let patient = thread.rng.u64(..1000) >= patience || !running;
        let after = match (patient, blind) {
            (false, _) => Some(thread.rng.u64(1..=longest.max(1))),
            (true, true) => Some(thread.rng.u64(500_000..=1_000_000)),
            (true, false) => None,
        };
        if let Some(after) = after {
            let event = Event::Patience { node, life, thread: number, turn };
            self.queue.push(self.now + after, event);
        }
        if let (Some(deadlocks), Some(owner)) = (&mut self.deadlocks, owner) {
            deadlocks.waits(self.now, owner, record, mode);
        }
        let waiter = Waiter { thread: number, mode, upgrade, owner };
        let machine = &mut self.nodes[usize::from(node)];
        let line = &mut machine.lines[usize::from(record)];
        // Two upgraders wait for each other; who comes second is told so.
        if upgrade && line.waiters.iter().any(|other| other.upgrade) {
            self.leaves(node, number);
            return;
        }
        line.waiters.push_back(waiter);
        if self.is_in_cycle(node, owner) {
            self.coverage.hit(Hit::LocalDeadlock);
            let line = &mut self.nodes[usize::from(node)].lines[usize::from(record)];
            line.give_up(number);
            self.wait_fails(node, number);
            return;
        }
        self.settle(node, record);
    }

    /// Whether an owner waits for itself on one node. Servers leave such cycles to the node.
    fn is_in_cycle(&self, node: u8, owner: Option<Owner>) -> bool {
        let Some(owner) = owner else { return false };
        let (_, waits) = self.nodes[usize::from(node)].reachable(&[owner]);
        waits.iter().any(|wait| wait.holder == owner)
    }

    pub(super) fn patience_ends(&mut self, node: u8, number: u8, turn: u32) {
        let thread = self.thread(node, number);
        let State::Waiting { record, .. } = thread.state else { return };
        if thread.turn != turn {
            return;
        }
        self.coverage.hit(Hit::Withdrawn);
        self.note(Machine::Node(node), || format!("thread {number} gives up record {record}"));
        self.nodes[usize::from(node)].lines[usize::from(record)].give_up(number);
        self.wait_fails(node, number);
        self.settle(node, record);
        self.work_off(node);
    }

    /// What a thread waited for will not come: it leaves everything and starts over.
    pub(super) fn wait_fails(&mut self, node: u8, number: u8) {
        self.leaves(node, number);
    }

    /// A thread was let in, or has become a writer.
    pub(super) fn goes_in(&mut self, node: u8, record: u8, waiter: Waiter, opened: Opened) {
        let (mode, token) = (waiter.mode, opened.token);
        let life = self.nodes[usize::from(node)].life;
        let guard = Guard {
            node,
            life,
            thread: waiter.thread,
            mode,
            grant: opened.mode,
            token,
            lease: opened.lease,
        };
        let begun = self.guards.begin(self.now, record, guard);
        self.check(begun);
        self.note(Machine::Node(node), || {
            format!("thread {} has record {record} to {mode}, token {token}", waiter.thread)
        });
        if let (Some(deadlocks), Some(owner)) = (&mut self.deadlocks, waiter.owner) {
            deadlocks.holds(self.now, owner, record, mode);
        }
        if waiter.upgrade {
            self.coverage.hit(Hit::UpgradeDone);
        }
        let base = if mode == Mode::Write { self.fence.read(record, token) } else { None };
        let hold = self.plan.hold_max / 2;
        let thread = self.thread(node, waiter.thread);
        thread.held.retain(|held| held.record != record);
        thread.held.push(Held { record, mode, token, base, lost: false });
        thread.job.taken += usize::from(!waiter.upgrade);
        thread.state = State::Checks;
        self.goes_on(node, waiter.thread, hold);
    }

    pub(super) fn guard_lost(&mut self, node: u8, number: u8, record: u8) {
        let held = self.thread(node, number).held.iter_mut();
        held.filter(|held| held.record == record).for_each(|held| held.lost = true);
    }

    /// Looks whether the guards are still good.
    fn checks(&mut self, node: u8, number: u8) {
        let machine = &self.nodes[usize::from(node)];
        let now = machine.clock.at(self.now);
        let Some(cache) = &machine.cache else { return };
        let held = &machine.threads[usize::from(number)].held;
        let usable = |one: &Held| {
            let opened = machine.lines[usize::from(one.record)].opened;
            let until = opened.and_then(|opened| cache.lease_end(opened.lease));
            !one.lost && until.is_some_and(|until| now < until)
        };
        let good = held.iter().all(usable);
        if good {
            let mut lapsed = self.guards.lapsed(self.now, node).into_iter();
            let ours = |(record, _): &(u8, LeaseId)| held.iter().any(|held| held.record == *record);
            if let Some((record, lease)) = lapsed.find(ours) {
                let what = format!(
                    "record {record}: a guard on node {node} is good past its lease {lease:?}"
                );
                self.fail(Kind::NotLost, what);
                return;
            }
        }
        if good {
            let hold = self.plan.hold_max / 4;
            self.thread(node, number).state = State::Writes;
            self.goes_on(node, number, hold);
        } else {
            self.leaves(node, number);
        }
    }

    /// Writes what it holds for writing and took last, without looking at anything again.
    fn writes(&mut self, node: u8, number: u8) {
        let hold = self.plan.hold_max / 4;
        let delay = self.plan.delay_max;
        let life = self.nodes[usize::from(node)].life;
        let thread = self.thread(node, number);
        thread.state = State::Done;
        match thread.held.last().copied() {
            Some(Held { record, mode: Mode::Write, token, base: Some(base), .. }) => {
                thread.turn += 1;
                let (turn, after) = (thread.turn, thread.rng.u64(0..=hold.max(2 * delay)));
                let event = Event::Write { node, life, thread: number, turn, record, token, base };
                self.queue.push(self.now + after, event);
            }
            _ => self.goes_on(node, number, hold),
        }
    }

    /// A write arrives at the store behind the record.
    pub(super) fn write_arrives(&mut self, node: u8, record: u8, token: Token, base: u64) {
        let written = self.fence.write(record, token, base);
        self.note(Machine::Node(node), || {
            format!("writes record {record} with token {token}: {written:?}")
        });
        match written {
            Ok(Write::Accepted) => {}
            Ok(Write::Refused) => self.coverage.hit(Hit::FenceRefused),
            Err(failure) => self.check(Err(failure)),
        }
    }

    /// Leaves everything, and thinks about something else.
    fn leaves(&mut self, node: u8, number: u8) {
        let share = self.plan.give_back;
        let thread = self.thread(node, number);
        let held = std::mem::take(&mut thread.held);
        let owner = std::mem::take(&mut thread.job).owner;
        if let (Some(deadlocks), Some(owner)) = (&mut self.deadlocks, owner) {
            deadlocks.leaves(self.now, owner);
        }
        for one in held {
            let machine = &mut self.nodes[usize::from(node)];
            let line = &mut machine.lines[usize::from(one.record)];
            if one.lost || !line.leave(number) {
                continue;
            }
            self.guards.end(one.record, node, number);
            self.settle(node, one.record);
            if share > 0 && self.thread(node, number).rng.u64(..1000) < share {
                self.give_back(node, one.record);
            }
        }
        if self.stage.is_sweep() {
            self.thread(node, number).state = State::Idle;
            self.swept();
        } else {
            self.thinks(node, number);
        }
    }

    /// Gives back a record that nobody uses: of every second one it is closed at once.
    pub(super) fn give_back(&mut self, node: u8, record: u8) {
        let machine = &mut self.nodes[usize::from(node)];
        let line = &mut machine.lines[usize::from(record)];
        if line.is_idle() && line.drain.is_none() && line.opened.is_some() {
            let name = self.records[usize::from(record)].clone();
            if (node ^ record) & 1 == 0 {
                self.coverage.hit(Hit::GivenBack);
                machine.inbox.push_back(Input::GiveBack { record: name });
            } else {
                self.coverage.hit(Hit::Returned);
                line.opened = None;
                self.guards.closed(record, node);
                machine.inbox.push_back(Input::Return { record: name });
            }
        }
    }
}

fn draw_job(plan: &crate::plan::Plan, node: u8, life: u32, thread: u8, rng: &mut Rng) -> Job {
    let records = plan.records as u8;
    let any = |rng: &mut Rng| rng.u8(0..records);
    let mode = |rng: &mut Rng, writes: u32| match rng.u32(..100) < writes {
        true => Mode::Write,
        false => Mode::Read,
    };
    let one = |record, mode| Job { wants: vec![(record, mode)], ..Job::default() };
    match plan.workload {
        Workload::Cached => {
            let own = if rng.u32(..100) < 85 { node % records } else { any(rng) };
            one(own, mode(rng, 40))
        }
        Workload::Contended => one(any(rng), mode(rng, 90)),
        Workload::Readers => one(any(rng), mode(rng, 15)),
        Workload::Many => one(any(rng), mode(rng, 50)),
        Workload::Upgrades => {
            let wants = vec![(any(rng), mode(rng, 20))];
            Job { wants, upgrades: rng.u32(..100) < 60, ..Job::default() }
        }
        Workload::Transactions => {
            let owner = u64::from(life) * 10_000 + u64::from(node) * 100 + u64::from(thread);
            let first = any(rng);
            let mut wants = vec![(first, mode(rng, 80))];
            if records > 1 && rng.u32(..100) < 80 {
                let second = (first + rng.u8(1..records)) % records;
                wants.push((second, mode(rng, 80)));
            }
            Job { wants, owner: Some(Owner(owner)), ..Job::default() }
        }
    }
}
