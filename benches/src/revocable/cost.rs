//! What one operation costs a thread that is alone: the article's table.

use super::methods::{self, Method, Stage};
use super::system::{self, Counters};
use super::text;
use crate::args::Args;
use crate::clock;
use crate::report::format::known;
use crate::report::{Report, Row, TIMES, Target};
use crate::results::Row as RawRow;
use crate::stats::Spread;

pub(crate) const FAMILY: &str = "cost";

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

    /// Leaves the values of all rounds in the report.
    fn keep(&self, report: &mut Report) {
        for (round, (cycles, per_cycle)) in (1..).zip(self.cycles.iter().zip(&self.per_cycle)) {
            report.raw(RawRow {
                family: FAMILY.into(),
                cell: "".into(),
                contestant: self.name.into(),
                round,
                metrics: vec![
                    ("cycles".into(), *cycles),
                    ("instructions_per_cycle".into(), *per_cycle),
                ],
            });
        }
    }

    /// One divided by the other, inside each round.
    fn ratio(&self, compared_with: &Self) -> Spread {
        let pairs = self.cycles.iter().zip(&compared_with.cycles);
        Spread::of(pairs.map(|(ours, theirs)| ours / theirs))
    }

    /// The least of all rounds, divided by the other's.
    fn least(&self, compared_with: &Self) -> f64 {
        self.spread().low / compared_with.spread().low
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
    entries.iter().for_each(|entry| entry.keep(report));
    let (counting, keeping) = entries.split_at(count);

    table(report, "One thread counts by one", counting, methods::STD_MUTEX);
    table(report, "One thread keeps a word and gets it again", keeping, methods::MUTEX_VEC);

    report.cell("One thread: targets");
    targets(report, &entries);
    Ok(())
}

fn targets(report: &mut Report, entries: &[Entry]) {
    let find = |name| entries.iter().find(|entry| entry.name == name);
    for (ours, compared_with, most) in [
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
        let (Some(ours), Some(compared_with)) = (find(ours), find(compared_with)) else { continue };
        let show = |entry: &Entry| format!("{} ns", text::nanos(entry.spread()));
        let least = ours.least(compared_with);
        report.row(Row {
            what: ours.name.to_owned(),
            ours: show(ours),
            compared_with: format!(
                "{}: {}; least {least:.2} x",
                compared_with.name,
                show(compared_with)
            ),
            result: Some(ours.ratio(compared_with)),
            unit: TIMES,
            target: Target::AtMost(most),
        });
    }
}

/// The method that is first in a turn is last in the next.
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

/// The rows, each compared with the method that is called `compared_with`.
fn table(report: &mut Report, title: &str, entries: &[Entry], compared_with: &str) {
    let columns = [
        "method",
        "cycles (least / median)",
        "ns (least / median)",
        "instructions per cycle",
        &format!("x {compared_with} (least / median)"),
    ];
    report.table(title, &columns);
    let below = entries.iter().find(|entry| entry.name == compared_with);
    for entry in entries {
        let ratio = below.map(|below| {
            let (least, median) = (entry.least(below), entry.ratio(below).median);
            format!("{least:.2} x / {median:.2} x")
        });
        report.line(&[
            entry.name.to_owned(),
            text::cycles(entry.spread()),
            text::nanos(entry.spread()),
            known(Spread::of(entry.per_cycle.iter().copied()).median),
            ratio.unwrap_or_default(),
        ]);
    }
}
