//! What one operation costs a thread that is alone: the article's table.

use std::cell::RefCell;

use crate::args::Args;
use crate::clock;
use crate::contest::{Contest, Id, Rounds, Spread};
use crate::methods::{self, Method, Stage};
use crate::report::{Report, Row, TIMES, Target};
use crate::system::{self, Counters};
use crate::text;

const ROUNDS: usize = 401;
/// Operations of a slice.
const SLICE: u64 = 50_000;

/// What is measured of a method.
struct Entry {
    name: &'static str,
    cycles: Id,
    per_cycle: Id,
}

pub(crate) fn run(args: &Args, report: &mut Report) -> Result<(), String> {
    let home = system::cpus();
    system::pin(*home.last().ok_or("no processors")?);
    let stage = Stage::default();
    let counters = RefCell::new(Counters::new());
    let mut contest = Contest::default();
    let slice = args.count(SLICE as usize, 1_000) as u64;
    let mut enter = |method| enter(method, slice, &counters, &mut contest);
    let counting: Vec<_> = methods::counting(&stage).into_iter().map(&mut enter).collect();
    let keeping: Vec<_> = methods::keeping(&stage).into_iter().map(&mut enter).collect();
    let rounds = contest.run(args.rounds(ROUNDS))?;

    table(report, "One thread counts by one", &counting, methods::STD_MUTEX, &rounds);
    table(
        report,
        "One thread keeps a word and gets it again",
        &keeping,
        methods::MUTEX_VEC,
        &rounds,
    );

    report.cell("One thread: targets");
    let all: Vec<_> = counting.iter().chain(&keeping).collect();
    let find = |name| all.iter().find(|entry| entry.name == name).copied();
    for (ours, beside, most) in [
        (methods::OWNED_STORE, methods::STD_MUTEX, 0.25),
        (methods::OWNED_STORE, methods::LOCK_ADD, 1.0),
        (methods::OWNED_ADD, methods::STD_MUTEX, 0.25),
        (methods::BIASED, methods::STD_MUTEX, 0.15),
        (methods::COUNTER, methods::STD_MUTEX, 0.15),
        (methods::STACK, methods::MUTEX_VEC, 0.35),
    ] {
        let (Some(ours), Some(beside)) = (find(ours), find(beside)) else { continue };
        let cycles = |entry: &Entry| rounds.of(|round| round(entry.cycles));
        let show = |entry: &Entry| format!("{} ns", text::nanos(cycles(entry)));
        let median = rounds.ratio(ours.cycles, beside.cycles).median;
        report.row(Row {
            what: ours.name.to_owned(),
            ours: show(ours),
            beside: format!("{}: {}; median {median:.2} x", beside.name, show(beside)),
            // What others on the machine do only adds to a slice, so the least ones are compared.
            result: Some(Spread::one(cycles(ours).low / cycles(beside).low)),
            unit: TIMES,
            target: Target::AtMost(most),
        });
    }
    Ok(())
}

fn enter<'a>(
    mut method: Method<'a>,
    slice: u64,
    counters: &'a RefCell<Counters>,
    contest: &mut Contest<'a>,
) -> Entry {
    let name = method.name;
    let [cycles, per_cycle] = contest.enter_many(move || {
        (method.run)(slice / 10);
        let mut cycles = 0;
        let per_cycle = counters.borrow_mut().of(|| {
            let start = clock::now();
            (method.run)(slice);
            cycles = clock::now() - start;
        });
        Ok([cycles as f64 / slice as f64, per_cycle])
    });
    Entry { name, cycles, per_cycle }
}

/// The rows, each beside the one that is called `beside`.
fn table(report: &mut Report, title: &str, entries: &[Entry], beside: &str, rounds: &Rounds) {
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
        let cycles = rounds.of(|round| round(entry.cycles));
        let ratio = below.map(|below| {
            let least = cycles.low / rounds.of(|round| round(below.cycles)).low;
            let median = rounds.ratio(entry.cycles, below.cycles).median;
            format!("{least:.2} x / {median:.2} x")
        });
        text::line(
            report,
            &[
                entry.name.to_owned(),
                text::cycles(cycles),
                text::nanos(cycles),
                text::known(rounds.median(entry.per_cycle)),
                ratio.unwrap_or_default(),
            ],
        );
    }
}
