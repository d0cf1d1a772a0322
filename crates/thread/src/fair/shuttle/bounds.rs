//! The lock's promises, counted: many threads, many schedules, and a record of every turn.
//!
//! A waiter counts from the step that publishes it (T8). The order among writers is that of their
//! way into the inbox (T7), which for threads that arrive one after the other is the same.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::Arc;

use super::in_many_schedules;
use crate::fair::node::Kind;
use crate::fair::policy::{Policy, Strict, Together};
use crate::fair::probe::{self, Event};
use crate::fair::raw::RawRwLock;
use crate::sync::thread::{self, ThreadId};

/// Time that passes by a random step at every reading.
struct Ticking;

const BOUND: u64 = 40;

thread_local! {
    static NOW: Cell<u64> = const { Cell::new(0) };
}

impl Policy for Ticking {
    const PASSING: bool = true;

    fn now() -> u64 {
        let now = NOW.get() + thread_rng().gen_range(0..4);
        NOW.set(now);
        probe::note(|| Event::Clock { now });
        now
    }

    fn quantum() -> u64 {
        10
    }

    fn bound() -> u64 {
        BOUND
    }

    fn duration(_ticks: u64) -> Duration {
        Duration::ZERO
    }
}

/// As [`Ticking`], and readers come in by two while a writer waits.
struct ByTwo;

impl Policy for ByTwo {
    const PASSING: bool = true;

    fn now() -> u64 {
        Ticking::now()
    }

    fn quantum() -> u64 {
        Ticking::quantum()
    }

    fn bound() -> u64 {
        Ticking::bound()
    }

    fn duration(ticks: u64) -> Duration {
        Ticking::duration(ticks)
    }

    fn crowd() -> usize {
        2
    }
}

type Record = Vec<(ThreadId, Event)>;

/// Runs `threads` threads of `turns` turns each, a third of them writes, and returns the record.
fn record<P: Policy>(threads: usize, turns: usize) -> Record {
    NOW.set(0);
    probe::start();
    let lock = Arc::new(RawRwLock::<P>::new());
    let workers: Vec<_> = (0..threads)
        .map(|_| {
            let lock = lock.clone();
            thread::spawn(move || {
                for _ in 0..turns {
                    if thread_rng().gen_range(0..3) == 0 {
                        lock.write();
                        thread::yield_now();
                        lock.write_done();
                    } else {
                        lock.read();
                        thread::yield_now();
                        lock.read_done();
                    }
                }
            })
        })
        .collect();
    for worker in workers {
        worker.join().unwrap();
    }
    assert!(lock.retire(), "the word is zero at rest");
    probe::taken()
}

fn check_schedules<P: Policy>(check: fn(&Record)) {
    for (threads, turns) in [(3, 4), (6, 3), (10, 2)] {
        in_many_schedules(move || check(&record::<P>(threads, turns)));
    }
}

/// Replays the record: who waits, who is inside, and what each event did to that.
#[derive(Default)]
struct World {
    waiting: BTreeMap<usize, Kind>,
    readers: usize,
    writer: bool,
}

impl World {
    fn step(&mut self, event: Event) {
        match event {
            Event::Published { node, kind } => {
                self.waiting.insert(node, kind);
            }
            Event::Turn { kind: Kind::Read, .. } | Event::Pushed { .. } | Event::Clock { .. } => {}
            Event::Turn { node, .. } => {
                self.waiting.remove(&node);
                self.writer = true;
            }
            Event::Same { node } => {
                self.waiting.remove(&node);
                self.readers += 1;
            }
            Event::Entered { kind: Kind::Read, .. } => self.readers += 1,
            Event::Entered { .. } => self.writer = true,
            Event::Left { kind: Kind::Read } => self.readers -= 1,
            Event::Left { .. } => self.writer = false,
        }
        assert!(!self.writer || self.readers == 0, "a writer is alone");
    }

    fn writer_waits(&self) -> bool {
        self.waiting.values().any(|kind| *kind == Kind::Write)
    }
}

/// The record without the publications that came after the turn: a waiter may be let in between
/// its push and its publication, and then it never waited.
fn without_late_publications(record: &Record) -> Record {
    let (mut waiting, mut early) = (BTreeSet::new(), BTreeSet::new());
    let counts = |(_, event): &&(ThreadId, Event)| match *event {
        Event::Published { node, .. } => !early.remove(&node) && waiting.insert(node),
        Event::Turn { node, kind } if kind != Kind::Read => {
            let _ = waiting.remove(&node) || early.insert(node);
            true
        }
        Event::Same { node } => {
            let _ = waiting.remove(&node) || early.insert(node);
            true
        }
        _ => true,
    };
    record.iter().filter(counts).copied().collect()
}

#[test]
fn shuttle_strict_at_most_one_writer_begins_before_a_waiting_reader() {
    check_schedules::<Strict>(|record| {
        let mut world = World::default();
        let mut passed: BTreeMap<usize, u32> = BTreeMap::new();
        for (_, event) in without_late_publications(record) {
            if let Event::Turn { kind: Kind::Write, .. }
            | Event::Entered { kind: Kind::Write, .. } = event
            {
                for (node, kind) in &world.waiting {
                    if *kind == Kind::Read {
                        let count = passed.entry(*node).or_default();
                        *count += 1;
                        assert!(*count <= 1, "two writers began before a waiting reader");
                    }
                }
            }
            if let Event::Same { node } = event {
                passed.remove(&node);
            }
            world.step(event);
        }
    });
}

#[test]
fn shuttle_strict_no_reader_joins_a_read_phase_once_a_writer_waits() {
    check_schedules::<Strict>(|record| {
        let mut world = World::default();
        for (_, event) in without_late_publications(record) {
            match event {
                Event::Entered { .. } => {
                    assert!(!world.writer_waits(), "somebody passed a waiting writer");
                }
                Event::Turn { kind: Kind::Read, .. } if world.writer_waits() => {
                    assert_eq!(world.readers, 0, "readers joined a phase that a writer waits for");
                }
                _ => {}
            }
            world.step(event);
        }
    });
}

#[test]
fn shuttle_strict_at_most_one_read_phase_between_two_writers() {
    check_schedules::<Strict>(|record| {
        let mut world = World::default();
        let mut phases = 0;
        for (_, event) in without_late_publications(record) {
            if !world.writer_waits() {
                phases = 0;
            }
            match event {
                Event::Turn { kind: Kind::Read, .. } if world.writer_waits() => {
                    phases += 1;
                    assert!(phases <= 1, "two read phases while a writer waits");
                }
                Event::Turn { .. } => phases = 0,
                _ => {}
            }
            world.step(event);
        }
    });
}

#[test]
fn shuttle_strict_writers_go_in_order_of_arrival() {
    check_schedules::<Strict>(|record| {
        let mut line = VecDeque::new();
        for (_, event) in record {
            match *event {
                Event::Pushed { node, kind: Kind::Write } => line.push_back(node),
                Event::Turn { node, kind: Kind::Write } => {
                    assert_eq!(line.pop_front(), Some(node), "a writer passed another");
                }
                _ => {}
            }
        }
        assert!(line.is_empty(), "a writer was never let in");
    });
}

#[test]
fn shuttle_bounded_nobody_passes_a_waiter_older_than_the_bound() {
    check_schedules::<Ticking>(|record| {
        let mut world = World::default();
        let mut since: BTreeMap<usize, u64> = BTreeMap::new();
        // What each thread saw at its last look at the clock: a waiter that nobody may pass.
        let mut saw: Vec<(ThreadId, Option<usize>)> = Vec::new();
        let mut latest = 0;
        for (thread, event) in without_late_publications(record) {
            match event {
                Event::Clock { now } => {
                    latest = now;
                    let overdue = world.waiting.keys().find(|node| since[node] + BOUND <= now);
                    saw.retain(|(other, _)| *other != thread);
                    saw.push((thread, overdue.copied()));
                }
                Event::Published { node, .. } => drop(since.insert(node, latest)),
                Event::Entered { with_waiters: true, .. } => {
                    let (_, overdue) = saw.iter().find(|(other, _)| *other == thread).unwrap();
                    let passed = overdue.is_some_and(|node| world.waiting.contains_key(&node));
                    assert!(!passed, "an arrival passed a waiter that was past the bound");
                }
                _ => {}
            }
            world.step(event);
        }
    });
}

/// How many readers are left behind by read turns that began while a writer waited: those that were
/// in line before the turn and were not let in by it.
fn left_behind(record: &Record) -> usize {
    let mut world = World::default();
    let (mut gathered, mut left) = (BTreeSet::new(), 0);
    for (_, event) in without_late_publications(record) {
        if let Event::Same { node } = event {
            gathered.remove(&node);
        } else {
            left += gathered.len();
            gathered.clear();
        }
        if let Event::Turn { kind: Kind::Read, .. } = event
            && world.writer_waits()
        {
            let readers = world.waiting.iter().filter(|(_, kind)| **kind == Kind::Read);
            gathered = readers.map(|(node, _)| *node).collect();
        }
        world.step(event);
    }
    left
}

#[test]
fn shuttle_together_a_read_turn_lets_in_everybody_who_gathered() {
    static LEFT: std::sync::Mutex<usize> = std::sync::Mutex::new(0);
    check_schedules::<Together<ByTwo>>(|record| {
        assert_eq!(left_behind(record), 0, "a reader that was in line is left behind");
    });
    check_schedules::<ByTwo>(|record| *LEFT.lock().unwrap() += left_behind(record));
    assert!(*LEFT.lock().unwrap() > 100, "without it some are left for the next read turn");
}

/// The tests above would be worth nothing if the record had no waiters and nobody who passes.
#[test]
fn shuttle_records_have_what_the_promises_are_about() {
    static SEEN: std::sync::Mutex<[usize; 3]> = std::sync::Mutex::new([0; 3]);
    check_schedules::<Ticking>(|record| {
        let mut seen = SEEN.lock().unwrap();
        for (_, event) in record {
            match event {
                Event::Entered { with_waiters: true, .. } => seen[0] += 1,
                Event::Turn { kind: Kind::Write, .. } => seen[1] += 1,
                Event::Same { .. } => seen[2] += 1,
                _ => {}
            }
        }
    });
    let seen = SEEN.lock().unwrap();
    assert!(seen.iter().all(|count| *count > 100), "passed, writers, readers: {seen:?}");
}
