//! What one operation costs a thread that is alone: the article's table.

use crate::args::Args;
use crate::clock;
use crate::contest::Spread;
use crate::methods::{self, Method, Stage};
use crate::report::{Report, Row, TIMES, Target};
use crate::system::{self, Counters};
use crate::text;

const ROUNDS: usize = 301;
/// In a round the methods take turns so often. What others on the machine do only adds to a slice,
/// so the least of a method's slices is its value of the round.
const TURNS: usize = 9;
/// Operations of a slice: short, so that all methods of a round meet the same machine.
const SLICE: u64 = 10_000;

/// What a method came to, round by round.
struct Entry {
    name: &'static str,
    cycles: Vec<f64>,
    per_cycle: Vec<f64>,
}

impl Entry {
    fn spread(&self) -> Spread {
        Spread::of(self.cycles.iter().copied())
    }

    /// One through the other, inside each round.
    fn ratio(&self, beside: &Self) -> Spread {
        let pairs = self.cycles.iter().zip(&beside.cycles);
        Spread::of(pairs.map(|(ours, theirs)| ours / theirs))
    }

    /// The least of all rounds through the other's.
    fn least(&self, beside: &Self) -> f64 {
        self.spread().low / beside.spread().low
    }
}

pub(crate) fn run(args: &Args, report: &mut Report) -> Result<(), String> {
    let home = system::cpus();
    system::pin(*home.last().ok_or("no processors")?);
    let stage = Stage::default();
    let mut all = methods::counting(&stage);
    let count = all.len();
    all.extend(methods::keeping(&stage));
    let slice = args.count(SLICE as usize, 1_000) as u64;
    let turns = args.count(TURNS, 1);
    let entries = measure(all, args.rounds(ROUNDS), turns, slice);
    let (counting, keeping) = entries.split_at(count);

    table(report, "One thread counts by one", counting, methods::STD_MUTEX);
    table(report, "One thread keeps a word and gets it again", keeping, methods::MUTEX_VEC);

    report.cell("One thread: targets");
    let find = |name| entries.iter().find(|entry| entry.name == name);
    for (ours, beside, most) in [
        (methods::OWNED_STORE, methods::STD_MUTEX, 0.25),
        (methods::OWNED_STORE, methods::LOCK_ADD, 1.0),
        (methods::OWNED_ADD, methods::STD_MUTEX, 0.25),
        (methods::OWNED_STORE_TO, methods::STD_MUTEX, 0.25),
        (methods::OWNED_STORE_TO, methods::LOCK_ADD, 1.0),
        (methods::PER_CPU, methods::STD_MUTEX, 1.0),
        (methods::BIASED, methods::STD_MUTEX, 0.15),
        (methods::COUNTER, methods::STD_MUTEX, 0.15),
        (methods::STACK, methods::MUTEX_VEC, 0.35),
    ] {
        let (Some(ours), Some(beside)) = (find(ours), find(beside)) else { continue };
        let show = |entry: &Entry| format!("{} ns", text::nanos(entry.spread()));
        let least = ours.least(beside);
        report.row(Row {
            what: ours.name.to_owned(),
            ours: show(ours),
            beside: format!("{}: {}; least {least:.2} x", beside.name, show(beside)),
            result: Some(ours.ratio(beside)),
            unit: TIMES,
            target: Target::AtMost(most),
        });
    }
    Ok(())
}

/// Whoever is first in a turn is last in the next.
fn measure(mut all: Vec<Method<'_>>, rounds: usize, turns: usize, slice: u64) -> Vec<Entry> {
    let mut counters = Counters::new();
    let entry = |method: &Method<'_>| Entry {
        name: method.name,
        cycles: vec![f64::INFINITY; rounds],
        per_cycle: vec![f64::NAN; rounds],
    };
    let mut entries: Vec<Entry> = all.iter().map(entry).collect();
    let count = all.len();
    for turn in 0..rounds * turns {
        let round = turn / turns;
        for at in 0..count {
            let at = (at + turn) % count;
            let (cycles, per_cycle) = measure_slice(&mut all[at], slice, &mut counters);
            if cycles < entries[at].cycles[round] {
                entries[at].cycles[round] = cycles;
                entries[at].per_cycle[round] = per_cycle;
            }
        }
    }
    entries
}

/// Cycles of an operation, and instructions per cycle.
fn measure_slice(method: &mut Method<'_>, slice: u64, counters: &mut Counters) -> (f64, f64) {
    (method.run)(slice / 10);
    let mut cycles = 0;
    let per_cycle = counters.of(|| {
        let start = clock::now();
        (method.run)(slice);
        cycles = clock::now() - start;
    });
    (cycles as f64 / slice as f64, per_cycle)
}

/// The rows, each beside the one that is called `beside`.
fn table(report: &mut Report, title: &str, entries: &[Entry], beside: &str) {
    let columns = [
        "method",
        "cycles (least / median)",
        "ns (least / median)",
        "instructions per cycle",
        &format!("beside {beside} (least / median)"),
    ];
    text::head(report, title, &columns);
    let below = entries.iter().find(|entry| entry.name == beside);
    for entry in entries {
        let ratio = below.map(|below| {
            let (least, median) = (entry.least(below), entry.ratio(below).median);
            format!("{least:.2} x / {median:.2} x")
        });
        text::line(
            report,
            &[
                entry.name.to_owned(),
                text::cycles(entry.spread()),
                text::nanos(entry.spread()),
                text::known(Spread::of(entry.per_cycle.iter().copied()).median),
                ratio.unwrap_or_default(),
            ],
        );
    }
}
