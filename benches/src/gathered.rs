//! The fair lock's two ways to let in readers that gathered behind a writer: as many as there are
//! processors (`Bounded`), or all of them together (`Together`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lockspan::thread::fair::{Bounded, Policy, PolicyRwLock, Together};

use crate::args::Args;
use crate::comparison::{Cell, Comparison, View};
use crate::contest::{Contest, Id};
use crate::dice::Dice;
use crate::plot::Plot;
use crate::plot::scatter::{self, Waits};
use crate::report::format::{rate, time};
use crate::report::{Report, Row, TIMES, Target};
use crate::results::Results;

pub(crate) const NAME: &str = "gathered";
const FAMILY: &str = "gathered";
const ROUNDS: usize = 9;
const MILLIS: u64 = 400;

/// What is measured.
#[derive(Clone, Copy)]
struct Spec {
    threads: u64,
    /// How many of a hundred critical sections write.
    writes: u32,
    /// How long a reader sleeps while it holds the lock.
    sleep: Duration,
}

const CELLS: [Spec; 4] = [
    Spec { threads: 8, writes: 10, sleep: Duration::ZERO },
    Spec { threads: 64, writes: 10, sleep: Duration::ZERO },
    Spec { threads: 64, writes: 50, sleep: Duration::ZERO },
    Spec { threads: 32, writes: 10, sleep: Duration::from_millis(1) },
];

impl Spec {
    fn path(self) -> String {
        let sleep = if self.sleep.is_zero() { "" } else { "/sleep" };
        format!("{}t/{}%{sleep}", self.threads, self.writes)
    }
}

/// How the results are shown.
pub(crate) const VIEW: View = View { plots, ..View::TABLES };

pub(crate) fn comparison() -> Comparison {
    let cell = |spec: Spec| Cell::new(spec.path(), move |args, report| run(spec, args, report));
    Comparison {
        name: NAME,
        title: "Readers that gathered: by processors, or together",
        note: "The column Lockspan has *Together*, the next one *Bounded*. Waits are those of \
               writers."
            .to_owned(),
        programs: &[("rustc", "--version")],
        packages: &[],
        cells: CELLS.map(cell).into(),
        view: VIEW,
    }
}

fn plots(results: &Results) -> Vec<Plot> {
    let waits = Waits {
        file: "waits.svg",
        title: "Throughput and the longest wait of a writer",
        note: "right and low is good",
        family: FAMILY,
        cells: &[],
        rate: "critical sections in a second",
        wait: ("longest_ns", "longest wait of a writer"),
        contestants: &[],
    };
    scatter::waits(results, &waits).into_iter().collect()
}

fn run(spec: Spec, args: &Args, report: &mut Report) -> Result<(), String> {
    let length = args.time(MILLIS);
    let mut contest = Contest::new(FAMILY, spec.path());
    let bounded = enter::<Bounded>("Bounded", &mut contest, spec, length);
    let together = enter::<Together>("Together", &mut contest, spec, length);
    let rounds = contest.run(args.rounds(ROUNDS), report)?;
    report.cell(&format!(
        "{} threads, {} % writes, a read takes {:?}",
        spec.threads, spec.writes, spec.sleep
    ));
    let mut row = |what: &str, at: usize, show: fn(f64) -> String| {
        report.row(Row {
            what: what.to_owned(),
            ours: show(rounds.median(together[at])),
            compared_with: show(rounds.median(bounded[at])),
            result: Some(rounds.ratio(together[at], bounded[at])),
            unit: TIMES,
            target: Target::Open,
        });
    };
    row("sections a second", 0, rate);
    row("writers' p99", 1, time);
    row("writers' longest wait", 2, time);
    Ok(())
}

fn enter<P: Policy>(
    name: &'static str,
    contest: &mut Contest<'_>,
    spec: Spec,
    time: Duration,
) -> [Id; 3] {
    contest.enter_many(name, &["ops_per_s", "p99_ns", "longest_ns"], move || {
        let seen = sample::<P>(spec, time);
        let [p99, longest] = [seen.p99, seen.longest].map(|wait| wait.as_nanos() as f64);
        Ok([seen.sections_per_s, p99, longest])
    })
}

/// What one sample came to.
struct Seen {
    sections_per_s: f64,
    /// The waits of writers.
    p99: Duration,
    longest: Duration,
}

fn sample<P: Policy>(spec: Spec, time: Duration) -> Seen {
    let Spec { threads, writes, sleep } = spec;
    let lock = PolicyRwLock::<u64, P>::new(0);
    let is_over = AtomicBool::new(false);
    let (lock_ref, over) = (&lock, &is_over);
    let (count, mut waits) = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|me| scope.spawn(move || work(lock_ref, over, me, writes, sleep)))
            .collect();
        thread::sleep(time);
        is_over.store(true, Ordering::Relaxed);
        workers.into_iter().map(|worker| worker.join().expect("a worker panicked")).fold(
            (0, Vec::new()),
            |(count, mut waits), (mine, my_waits)| {
                waits.extend(my_waits);
                (count + mine, waits)
            },
        )
    });
    waits.sort_unstable();
    let at = |part: usize| waits.get(waits.len() * part / 100).or_else(|| waits.last());
    Seen {
        sections_per_s: f64::from(count) / time.as_secs_f64(),
        p99: at(99).copied().unwrap_or_default(),
        longest: at(100).copied().unwrap_or_default(),
    }
}

/// What one thread does: how many sections it had, and how long it waited to write each time.
fn work<P: Policy>(
    lock: &PolicyRwLock<u64, P>,
    is_over: &AtomicBool,
    me: u64,
    writes: u32,
    sleep: Duration,
) -> (u32, Vec<Duration>) {
    let (mut dice, mut count, mut waits) = (Dice::new(me), 0, Vec::new());
    while !is_over.load(Ordering::Relaxed) {
        if dice.roll() < writes {
            let begun = Instant::now();
            *lock.write() += 1;
            waits.push(begun.elapsed());
        } else {
            let guard = lock.read();
            if !sleep.is_zero() {
                thread::sleep(sleep);
            }
            std::hint::black_box(*guard);
        }
        count += 1;
    }
    (count, waits)
}
