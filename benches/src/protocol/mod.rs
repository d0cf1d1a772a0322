//! Steps per second of the protocol's state machines alone: no sockets, no threads.
//!
//! The lock table and the cache run with a thousand and with a million live records, with uniform
//! and with Zipf access, and so does a plain hash map that does nothing but look names up. Inputs
//! are made in batches before the clock starts, as a wire decoder would hand them over.

mod access;
mod cache;
pub(crate) mod instructions;
mod map;
mod memory;
mod server;
mod table;

use std::time::{Duration, Instant};

use crate::args::Args;
use crate::comparison::{Cell, Comparison, View};
use crate::report::{Report, Row, TIMES, Target};
use crate::results::Row as RawRow;
use crate::stats::{Spread, median};
use access::Access;

pub(crate) const NAME: &str = "protocol";
const FAMILY: &str = "steps";
const ROUNDS: usize = 7;
const MILLIS: u64 = 300;
const MILLIS_SMOKE: u64 = 2;

/// Steps between two looks at the clock.
const BATCH: usize = 256;

/// Something whose steps are counted.
trait Machine {
    /// Makes the next inputs; returns how many steps they are.
    fn prepare(&mut self, access: &mut Access, steps: usize);
    /// Runs them.
    fn run(&mut self) -> usize;
    /// Forgets them; returns how many steps they would have been.
    fn skip(&mut self) -> usize;
}

/// One kind of machine and load.
struct Case {
    /// Its name on the command line.
    path: &'static str,
    name: &'static str,
    build: fn(records: usize) -> Box<dyn Machine>,
}

static CASES: [Case; 7] = [
    Case { path: "table-share", name: "table: share", build: table::share },
    Case { path: "table-hand-over", name: "table: hand over", build: table::hand_over },
    Case { path: "server-hand-over", name: "server: hand over", build: server::hand_over },
    Case { path: "server-keep-alive", name: "server: keep alive", build: server::keep_alive },
    Case { path: "cache-keep-alive", name: "cache: keep alive", build: cache::keep_alive },
    Case { path: "cache", name: "cache: want and give back", build: cache::churn },
    Case { path: "map", name: "(std HashMap: insert, remove)", build: map::churn },
];

/// The comparison of times, or of instructions that valgrind counts.
pub(crate) fn comparison(instructions: bool) -> Comparison {
    let mut cells = Vec::new();
    if instructions {
        cells.extend(CASES.iter().map(instructions::cell));
    } else {
        // Before anything else has grown the process.
        cells.push(Cell::new(memory::FAMILY, memory::run));
        cells.extend(CASES.iter().map(|case| {
            let path = format!("{FAMILY}/{}", case.path);
            Cell::new(path, move |args, report| measure(case, args, report))
        }));
    }
    Comparison {
        name: NAME,
        title: "The protocol's state machines alone",
        note: "The column Lockspan has the larger number of records, the next one the smaller."
            .to_owned(),
        programs: &[("rustc", "--version")],
        packages: &["hashbrown", "foldhash"],
        cells,
        view: View::TABLES,
    }
}

/// The numbers of records that are compared.
fn sizes(args: &Args) -> [usize; 2] {
    if args.smoke { [100, 1_000] } else { [1_000, 1_000_000] }
}

/// Nanoseconds of a step with few and with many records, for each kind of access.
fn measure(case: &'static Case, args: &Args, report: &mut Report) -> Result<(), String> {
    let (sizes, time) = (sizes(args), args.millis(MILLIS, MILLIS_SMOKE));
    report.cell(case.name);
    // One machine of each size, taken in turn: what disturbs one disturbs the other.
    let mut machines = sizes.map(|records| (case.build)(records));
    for (zipf, access) in [(false, "uniform"), (true, "Zipf")] {
        let mut accesses = sizes.map(|records| Access::new(records, zipf));
        let mut nanos = [const { Vec::new() }; 2];
        for number in 1..=args.rounds(ROUNDS) {
            for (at, machine) in machines.iter_mut().enumerate() {
                let ns = round(machine.as_mut(), &mut accesses[at], time);
                nanos[at].push(ns);
                keep(report, (case, access, sizes[at]), number, ns);
            }
        }
        row(report, access, sizes, nanos);
    }
    Ok(())
}

/// Leaves the value of a round in the report.
fn keep(
    report: &mut Report,
    (case, access, records): (&Case, &'static str, usize),
    round: usize,
    ns: f64,
) {
    report.raw(RawRow {
        family: FAMILY.into(),
        cell: case.path.into(),
        contestant: format!("{access}, {records} records").into(),
        round,
        metrics: vec![("ns_per_step".into(), ns)],
    });
}

/// The ratio is that of the medians.
fn row(report: &mut Report, access: &str, sizes: [usize; 2], nanos: [Vec<f64>; 2]) {
    let [few, many] = nanos.map(|nanos| median(nanos).unwrap_or(f64::NAN));
    let show = |ns: f64, records: usize| {
        format!("{:.2} million steps/s, {ns:.0} ns ({records} records)", 1e3 / ns)
    };
    report.row(Row {
        what: format!("{access} access: time of a step"),
        ours: show(many, sizes[1]),
        compared_with: show(few, sizes[0]),
        result: Some(Spread::one(many / few)),
        unit: TIMES,
        target: Target::Open,
    });
}

/// Nanoseconds per step over about `time`.
fn round(machine: &mut dyn Machine, access: &mut Access, time: Duration) -> f64 {
    let (mut spent, mut steps) = (Duration::ZERO, 0);
    while spent < time {
        machine.prepare(access, BATCH);
        let start = Instant::now();
        steps += machine.run();
        spent += start.elapsed();
    }
    spent.as_nanos() as f64 / steps as f64
}
