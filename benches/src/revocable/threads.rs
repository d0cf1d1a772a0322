//! The same operations by many threads on one processor, and on two: do they get slower, and how
//! often does a thread lose the lock that it owns?
//!
//! - An *eviction*: a thread finds that another one has taken its lock.
//! - A *hard* eviction: the owner was running, so its processor had to be interrupted.
//!
//! Threads on one processor share its lock and take it from each other when they are scheduled. Two
//! threads on two processors have a lock each, or share one.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockspan::thread::percpu::{Counter, Stack};
use lockspan::thread::revocable::{Lock, Refused, Steal, Ticket, Word};

use super::crowd::{self, BATCH, Me, Seen};
use super::{system, text};
use crate::args::Args;
use crate::contest::{Contest, Id, Rounds};
use crate::padded::Padded;
use crate::report::{Report, Row, TIMES, Target};

pub(crate) const FAMILY: &str = "threads";
/// What a sample comes to.
const METRICS: [&str; 5] = ["cycles", "operations", "switches", "evictions", "hard_evictions"];

/// An owned add takes about 1.6 cycles in some samples and 2 or more in others, by one thread as by
/// 256. The median of a few rounds is then a toss of a coin.
const ROUNDS: usize = 15;
const MILLIS: u64 = 150;
/// A turn of each of 256 threads takes a scheduler a second.
const CROWD_MILLIS: u64 = 1_100;
/// How much slower 256 threads on a processor may be than one.
const MOST: f64 = 1.3;

/// How many threads, on how many processors, and whether these share one lock.
#[derive(Clone, Copy)]
struct Shape {
    name: &'static str,
    threads: usize,
    places: usize,
    shares: bool,
}

const SHAPES: [Shape; 5] = [
    Shape { name: "1 thd", threads: 1, places: 1, shares: false },
    Shape { name: "4 thd / 1 CPU", threads: 4, places: 1, shares: false },
    Shape { name: "256 / 1", threads: 256, places: 1, shares: false },
    Shape { name: "2 / 2", threads: 2, places: 2, shares: false },
    Shape { name: "2 / 2, one lock", threads: 2, places: 2, shares: true },
];
const ALONE: usize = 0;
const CROWDED: usize = 2;

/// Runs a crowd, and checks what it counted.
type Sample = fn(Shape, Duration) -> Result<Seen, String>;

/// Whether it must not get slower, and whether it owns something.
struct Contestant {
    name: &'static str,
    sample: Sample,
    is_ours: bool,
    owns: bool,
}

const CONTESTANTS: [Contestant; 6] = [
    Contestant { name: "owned store", sample: owned_store, is_ours: true, owns: true },
    Contestant { name: "owned add", sample: owned_add, is_ours: true, owns: true },
    Contestant { name: "percpu::Counter", sample: counter, is_ours: true, owns: false },
    Contestant { name: "percpu::Stack", sample: stack, is_ours: true, owns: false },
    Contestant { name: "`lock add`", sample: lock_add, is_ours: false, owns: false },
    Contestant { name: "std::sync::Mutex", sample: std_mutex, is_ours: false, owns: false },
];

/// The values of a contestant, shape by shape.
type Entry = Vec<[Id; 5]>;

pub(crate) fn run(args: &Args, report: &mut Report) -> Result<(), String> {
    let cpus = system::cpus();
    system::pin(*cpus.first().ok_or("no processors")?);
    let shapes: Vec<Shape> = SHAPES
        .into_iter()
        .filter(|shape| shape.places <= cpus.len())
        .map(|shape| Shape { threads: args.threads(shape.threads), ..shape })
        .collect();
    let mut contest = Contest::new(FAMILY, "");
    let mut enter = |contestant: &Contestant, shape: Shape| -> [Id; 5] {
        let time = if shape.threads > 64 { CROWD_MILLIS } else { MILLIS };
        let (time, sample) = (args.time(time), contestant.sample);
        let name = format!("{}, {}", contestant.name, shape.name);
        contest.enter_many(name, &METRICS, move || {
            let seen = sample(shape, time)?;
            let counts = [seen.operations, seen.switches, seen.evictions, seen.hard];
            let [operations, switches, evictions, hard] = counts.map(|count| count as f64);
            Ok([seen.cycles, operations, switches, evictions, hard])
        })
    };
    let entries: Vec<Entry> = CONTESTANTS
        .iter()
        .map(|contestant| shapes.iter().map(|shape| enter(contestant, *shape)).collect())
        .collect();
    let rounds = contest.run(args.rounds(ROUNDS), report)?;
    costs(report, &rounds, &shapes, &entries);
    evictions(report, &rounds, &shapes, &entries);
    targets(report, &rounds, &entries);
    Ok(())
}

fn costs(report: &mut Report, rounds: &Rounds, shapes: &[Shape], entries: &[Entry]) {
    let names = shapes.iter().map(|shape| shape.name);
    let columns: Vec<_> =
        std::iter::once("cycles of CPU time (least / median)").chain(names).collect();
    report.table("Many threads", &columns);
    for (contestant, ids) in CONTESTANTS.iter().zip(entries) {
        let cells = ids.iter().map(|ids| text::cycles(rounds.of(|round| round(ids[0]))));
        let cells: Vec<_> = std::iter::once(contestant.name.to_owned()).chain(cells).collect();
        report.line(&cells);
    }
}

fn evictions(report: &mut Report, rounds: &Rounds, shapes: &[Shape], entries: &[Entry]) {
    let columns = [
        "evictions, all rounds",
        "stores",
        "switches",
        "evictions",
        "per switch",
        "hard",
        "hard per switch",
    ];
    report.table("Evictions", &columns);
    for (contestant, ids) in CONTESTANTS.iter().zip(entries).filter(|(it, _)| it.owns) {
        for (shape, ids) in shapes.iter().zip(ids) {
            let [_, operations, switches, evictions, hard] = ids.map(|id| rounds.total(id));
            let per = |count: f64| format!("{:.3}", count / switches.max(1.0));
            report.line(&[
                format!("{}, {}", contestant.name, shape.name),
                format!("{operations}"),
                format!("{switches}"),
                format!("{evictions}"),
                per(evictions),
                format!("{hard}"),
                per(hard),
            ]);
        }
    }
}

fn targets(report: &mut Report, rounds: &Rounds, entries: &[Entry]) {
    report.cell("Many threads: targets");
    for (contestant, ids) in CONTESTANTS.iter().zip(entries) {
        let cycles = |at: usize| ids[at][0];
        let show = |at: usize| {
            let spread = rounds.of(|round| round(cycles(at)));
            format!("{} cycles", text::cycles(spread))
        };
        report.row(Row {
            what: format!("{}, 256 / 1", contestant.name),
            ours: show(CROWDED),
            compared_with: format!("1 thd: {}", show(ALONE)),
            result: Some(rounds.ratio(cycles(CROWDED), cycles(ALONE))),
            unit: TIMES,
            target: if contestant.is_ours { Target::AtMost(MOST) } else { Target::Open },
        });
    }
}

/// A lock for each processor, or one for all.
#[derive(Default)]
struct Locks([Padded<Lock<Word>>; 2]);

impl Locks {
    fn of(&self, shape: Shape, place: usize) -> &Lock<Word> {
        &self.0[if shape.shares { 0 } else { place % 2 }].0
    }

    /// All that was stored is there.
    fn check(&self, seen: Seen) -> Result<Seen, String> {
        let sum: u64 = self.0.iter().map(|lock| lock.0.words().peek()).sum();
        equal(sum, seen)
    }
}

fn equal(sum: u64, seen: Seen) -> Result<Seen, String> {
    let done = seen.operations;
    if sum == done { Ok(seen) } else { Err(format!("{done} additions came to {sum}")) }
}

/// Owns the lock whenever it can, and does `once` with it.
#[inline(always)]
fn own<'a>(me: &mut Me<'_>, lock: &'a Lock<Word>, once: impl Fn(&Ticket<'a, Word>) -> bool) {
    let (mut left, mut evictions, mut hard) = (0, 0, 0);
    'all: loop {
        let ticket = match lock.acquire(Steal::Local) {
            Err(Refused::Held) => {
                hard += 1;
                lock.acquire(Steal::Force)
            }
            result => result,
        };
        let ticket = ticket.expect("a thread that goes on can own what it forces");
        loop {
            if left == 0 {
                if !me.goes_on() {
                    break 'all;
                }
                left = BATCH;
            }
            if !once(&ticket) {
                break;
            }
            left -= 1;
        }
        evictions += 1;
    }
    me.tell(evictions, hard);
}

fn owned_store(shape: Shape, time: Duration) -> Result<Seen, String> {
    let locks = Locks::default();
    locks.check(crowd::run(shape.threads, shape.places, time, |me| {
        let lock = locks.of(shape, me.place);
        own(me, lock, |ticket| {
            let value = lock.words().peek().wrapping_add(1);
            ticket.store(|word| word, value).is_ok()
        });
    }))
}

fn owned_add(shape: Shape, time: Duration) -> Result<Seen, String> {
    let locks = Locks::default();
    locks.check(crowd::run(shape.threads, shape.places, time, |me| {
        own(me, locks.of(shape, me.place), |ticket| ticket.add(|word| word, 1).is_ok());
    }))
}

fn counter(shape: Shape, time: Duration) -> Result<Seen, String> {
    let counter = Counter::new();
    let seen = crowd::run(shape.threads, shape.places, time, |me| {
        while me.goes_on() {
            (0..BATCH).for_each(|_| counter.add(1));
        }
    });
    equal(counter.sum().cast_unsigned(), seen)
}

fn stack(shape: Shape, time: Duration) -> Result<Seen, String> {
    let stack: Stack<u64> = Stack::with_capacity(2 * shape.threads);
    let seen = crowd::run(shape.threads, shape.places, time, |me| {
        while me.goes_on() {
            for _ in 0..BATCH {
                assert!(stack.push(7).is_ok(), "there is room for an item of each thread");
                std::hint::black_box(stack.pop());
            }
        }
    });
    if stack.is_empty() { Ok(seen) } else { Err("what was pushed was not popped".to_owned()) }
}

fn lock_add(shape: Shape, time: Duration) -> Result<Seen, String> {
    let words: [Padded<AtomicU64>; 2] = Default::default();
    let seen = crowd::run(shape.threads, shape.places, time, |me| {
        let word = &words[if shape.shares { 0 } else { me.place % 2 }].0;
        while me.goes_on() {
            for _ in 0..BATCH {
                word.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    equal(words.iter().map(|word| word.0.load(Ordering::Relaxed)).sum(), seen)
}

fn std_mutex(shape: Shape, time: Duration) -> Result<Seen, String> {
    let words: [Padded<Mutex<u64>>; 2] = Default::default();
    let seen = crowd::run(shape.threads, shape.places, time, |me| {
        let word = &words[if shape.shares { 0 } else { me.place % 2 }].0;
        while me.goes_on() {
            (0..BATCH).for_each(|_| *word.lock().expect("nobody panics") += 1);
        }
    });
    equal(words.iter().map(|word| *word.0.lock().expect("nobody panics")).sum(), seen)
}
