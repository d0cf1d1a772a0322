//! Steps per second of the protocol's machines alone: no sockets, no threads.
//!
//! `cargo run --release -p lockspan-benches --bin protocol` measures the table and the cache with a
//! thousand and a million live records, uniform and Zipf access, beside a plain hash map that does
//! nothing but look names up; `--smoke` runs everything once, tiny; `--instructions` counts
//! instructions per step under valgrind instead of time, which a busy machine does not disturb;
//! `--out FILE` writes the tables there as well.
//!
//! Inputs are made in batches before the clock starts, as a wire decoder would hand them over.

mod access;
mod cache;
mod instructions;
mod map;
mod memory;
mod table;

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use access::Access;

/// Steps between two looks at the clock.
pub(crate) const BATCH: usize = 256;

/// Something whose steps are counted.
pub(crate) trait Machine {
    /// Makes the next inputs; returns how many steps they are.
    fn prepare(&mut self, access: &mut Access, steps: usize);
    /// Runs them.
    fn run(&mut self) -> usize;
    /// Forgets them; returns how many steps they would have been.
    fn skip(&mut self) -> usize;
}

/// One kind of machine and load.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) build: fn(records: usize) -> Box<dyn Machine>,
}

pub(crate) const CASES: &[Case] = &[
    Case { name: "table: share", build: table::share },
    Case { name: "table: hand over", build: table::hand_over },
    Case { name: "cache: want and give back", build: cache::churn },
    Case { name: "(std HashMap: insert, remove)", build: map::churn },
];

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<(), String> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let mut flag = |name: &str| {
        let found = args.iter().position(|arg| arg == name);
        found.map(|at| args.remove(at)).is_some()
    };
    let (smoke, count) = (flag("--smoke"), flag("--instructions"));
    if let [mode @ ("--steps" | "--skips"), case, records, steps] = &words(&args)[..] {
        return instructions::child(*mode == "--steps", case, records, steps);
    }
    let out = match &args[..] {
        [] => None,
        [name, path] if name == "--out" => Some(path.clone()),
        other => return Err(format!("unknown arguments {other:?}; see the head of main.rs")),
    };
    let text = if count { instructions::table(smoke)? } else { measure(smoke) };
    print!("{text}");
    match out {
        Some(path) => std::fs::write(&path, text).map_err(|error| format!("{path}: {error}")),
        None => Ok(()),
    }
}

fn words(args: &[String]) -> Vec<&str> {
    args.iter().map(String::as_str).collect()
}

/// Millions of steps a second, median of the rounds, for each case, size and access.
fn measure(smoke: bool) -> String {
    let (sizes, rounds, time) = if smoke {
        ([100, 1_000], 1, Duration::from_millis(2))
    } else {
        ([1_000, 1_000_000], 7, Duration::from_millis(300))
    };
    // Before anything else has grown the process.
    let memory = memory::table(if smoke { 10_000 } else { 1_000_000 });
    let mut text = String::from(
        "| machine | records | access | million steps/s | ns/step | against the smaller |\n\
         |---|---|---|---|---|---|\n",
    );
    for case in CASES {
        // One machine of each size, taken in turn: what disturbs one disturbs the other.
        let mut machines = sizes.map(|records| (case.build)(records));
        for zipf in [false, true] {
            let mut accesses = sizes.map(|records| Access::new(records, zipf));
            let mut nanos = [const { Vec::new() }; 2];
            for _ in 0..rounds {
                for (at, machine) in machines.iter_mut().enumerate() {
                    nanos[at].push(round(machine.as_mut(), &mut accesses[at], time));
                }
            }
            let medians = nanos.map(|mut nanos| {
                nanos.sort_by(f64::total_cmp);
                nanos[nanos.len() / 2]
            });
            for (at, records) in sizes.into_iter().enumerate() {
                let access = if zipf { "Zipf" } else { "uniform" };
                let (name, ns) = (case.name, medians[at]);
                let ratio = ns / medians[0];
                let millions = 1e3 / ns;
                writeln!(
                    text,
                    "| {name} | {records} | {access} | {millions:.2} | {ns:.0} | {ratio:.2} x |"
                )
                .expect("a string takes everything");
            }
        }
    }
    text + &memory
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
