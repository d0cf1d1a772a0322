//! How long it takes to take a lock away, by where its owner is.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use lockspan::thread::revocable::{Lock, Steal, Word};

use super::system;
use crate::args::Args;
use crate::clock;
use crate::report::format::time;
use crate::report::{Report, Row, TIMES, Target};
use crate::stats::Spread;

pub(crate) const FAMILY: &str = "latency";

const SAMPLES: usize = 2_000;
/// Where a sample takes a nap of the thief.
const NAPS: usize = 300;
/// How long a thief waits for a victim to be where it should be.
const LIMIT: Duration = Duration::from_secs(20);

/// Nanoseconds of each sample.
#[derive(Default)]
struct Samples(Vec<f64>);

impl Samples {
    fn spread(&self) -> Spread {
        Spread::of(self.0.iter().copied())
    }

    fn at(&self, share: f64) -> f64 {
        let mut values = self.0.clone();
        values.sort_by(f64::total_cmp);
        let last = values.len().saturating_sub(1);
        values.get((last as f64 * share) as usize).copied().unwrap_or(f64::NAN)
    }
}

/// How long `work` takes.
fn timed<T>(samples: &mut Samples, work: impl FnOnce() -> T) -> T {
    let start = clock::now();
    let result = work();
    samples.0.push(clock::ns(clock::now() - start));
    result
}

pub(crate) fn run(args: &Args, report: &mut Report) -> Result<(), String> {
    let cpus = system::cpus();
    let here = *cpus.first().ok_or("no processors")?;
    system::pin(here);
    let (many, few) = (args.count(SAMPLES, 20), args.count(NAPS, 5));
    let local = napping(here, Steal::Local, few)?;
    let forced_here = napping(here, Steal::Force, few)?;
    let asleep_here = asleep(here, Steal::Local, few)?;
    let mut rows = vec![
        ("local take-over: the owner was taken off this processor", &local),
        ("forced: the owner was taken off this processor", &forced_here),
        ("local take-over: the owner sleeps, was last on this processor", &asleep_here),
    ];
    let remote = cpus.get(1).map(|there| Remote::measure(*there, many, few)).transpose()?;
    rows.extend(remote.iter().flat_map(Remote::rows));
    let (gone, barrier) = (gone(many)?, raw_barrier(None, many)?);
    rows.push(("cancel of a given owner that has gone", &gone));
    rows.push(("membarrier alone, nobody else runs", &barrier));
    report.table("Taking a lock away", &["what", "samples", "least", "median", "p99"]);
    for (what, samples) in rows {
        samples.keep(what, report);
        let cells: Vec<_> = std::iter::once(what.to_owned()).chain(samples.cells()).collect();
        report.line(&cells);
    }
    targets(report, &local, remote.as_ref());
    Ok(())
}

/// The owner is on another processor.
struct Remote {
    forced: Samples,
    given: Samples,
    sleeping: Samples,
    refused: Samples,
    /// How often the lock was had in spite of its owner.
    had: u64,
    barrier: Samples,
}

impl Remote {
    fn measure(there: usize, many: usize, few: usize) -> Result<Self, String> {
        let forced = running(there, many, |lock| drop(lock.acquire(Steal::Force)))?;
        let given = running(there, many, |lock| {
            let owner = lock.owner();
            let _ended = owner.map(|owner| lock.cancel_owner(owner, Steal::Force));
        })?;
        let sleeping = asleep(there, Steal::Force, few)?;
        let (refused, had) = refused(there, many)?;
        let barrier = raw_barrier(Some(there), many)?;
        Ok(Self { forced, given, sleeping, refused, had, barrier })
    }

    fn rows(&self) -> [(&'static str, &Samples); 5] {
        let refused = match self.had {
            0 => "local: the owner runs on another processor: always refused",
            _ => "local: the owner runs on another processor: mostly refused",
        };
        [
            ("forced: the owner runs on another processor", &self.forced),
            ("cancel of a given owner that runs on another processor", &self.given),
            ("forced: the owner sleeps, was last on another", &self.sleeping),
            (refused, &self.refused),
            ("membarrier alone, a thread runs on another processor", &self.barrier),
        ]
    }
}

fn targets(report: &mut Report, local: &Samples, remote: Option<&Remote>) {
    report.cell("Taking a lock away: targets");
    report.row(Row {
        what: "local take-over".to_owned(),
        ours: time(local.spread().median),
        compared_with: "1 µs".to_owned(),
        result: Some(Spread::one(local.spread().median / 1e3)),
        unit: TIMES,
        target: Target::AtMost(1.0),
    });
    if let Some(Remote { forced, barrier, .. }) = remote {
        let (ours, compared_with) = (forced.spread().median, barrier.spread().median);
        report.row(Row {
            what: "forced, remote".to_owned(),
            ours: time(ours),
            compared_with: format!("one membarrier: {}", time(compared_with)),
            result: (!compared_with.is_nan()).then(|| Spread::one(ours / compared_with)),
            unit: TIMES,
            target: Target::AtMost(1.5),
        });
    }
}

impl Samples {
    fn cells(&self) -> [String; 4] {
        if self.0.is_empty() {
            return ["0", "n/a", "n/a", "n/a"].map(str::to_owned);
        }
        let spread = self.spread();
        [self.0.len().to_string(), time(spread.low), time(spread.median), time(self.at(0.99))]
    }

    /// Leaves one row for all samples in the report: thousands are too many.
    fn keep(&self, what: &'static str, report: &mut Report) {
        let Spread { median, low, high } = self.spread();
        report.once(
            FAMILY,
            what,
            &[
                ("samples", self.0.len() as f64),
                ("least_ns", low),
                ("p50_ns", median),
                ("p99_ns", self.at(0.99)),
                ("longest_ns", high),
            ],
        );
    }
}

/// An owner that stores all the time on processor `cpu`, as long as `work` takes. The second word
/// counts its acquisitions.
fn with_owner<T>(
    cpu: usize,
    lock: &Lock<Word>,
    work: impl FnOnce(&AtomicU64) -> Result<T, String>,
) -> Result<T, String> {
    let (stop, acquired) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            system::pin(cpu);
            while !stop.load(Ordering::Relaxed) {
                let Ok(ticket) = lock.acquire(Steal::Never) else {
                    std::hint::spin_loop();
                    continue;
                };
                acquired.fetch_add(1, Ordering::Release);
                while ticket.add(|word| word, 1).is_ok() {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                }
            }
        });
        let result = work(&acquired);
        stop.store(true, Ordering::Relaxed);
        result
    })
}

/// Waits for something, and naps meanwhile if asked to.
fn until(nap: Option<Duration>, is_so: impl Fn() -> bool) -> Result<(), String> {
    let start = Instant::now();
    while !is_so() {
        if start.elapsed() > LIMIT {
            return Err("the owner does not get where it should be".to_owned());
        }
        nap.map_or_else(std::hint::spin_loop, std::thread::sleep);
    }
    Ok(())
}

/// The owner is taken off its processor by the thief, which wakes up there.
fn napping(cpu: usize, steal: Steal, count: usize) -> Result<Samples, String> {
    let (lock, mut samples) = (Lock::new(Word::default()), Samples::default());
    with_owner(cpu, &lock, |acquired| {
        while samples.0.len() < count {
            let before = acquired.load(Ordering::Acquire);
            drop(lock.acquire(Steal::Force));
            let nap = Some(Duration::from_micros(100));
            until(nap, || acquired.load(Ordering::Acquire) > before && lock.is_owned())?;
            let mut taken = Samples::default();
            if timed(&mut taken, || lock.acquire(steal)).is_ok() {
                samples.0.append(&mut taken.0);
            }
        }
        Ok(())
    })?;
    Ok(samples)
}

/// The owner that the cancel names has gone; this thread owns the lock by now.
fn gone(count: usize) -> Result<Samples, String> {
    let (lock, mut samples) = (Lock::new(Word::default()), Samples::default());
    let why = |refused: lockspan::thread::revocable::Refused| refused.to_string();
    let owner = lock.acquire(Steal::Force).map_err(why)?.owner();
    let ticket = lock.acquire(Steal::Force).map_err(why)?;
    for _ in 0..count {
        timed(&mut samples, || lock.cancel_owner(owner, Steal::Force)).map_err(why)?;
    }
    ticket.check().map_err(|revoked| revoked.to_string())?;
    Ok(samples)
}

/// The owner runs on another processor, and `take` takes the lock from it.
fn running(cpu: usize, count: usize, take: impl Fn(&Lock<Word>)) -> Result<Samples, String> {
    let (lock, mut samples) = (Lock::new(Word::default()), Samples::default());
    with_owner(cpu, &lock, |acquired| {
        let mut before = 0;
        while samples.0.len() < count {
            until(None, || acquired.load(Ordering::Acquire) > before)?;
            at_work(&lock)?;
            before = acquired.load(Ordering::Acquire);
            timed(&mut samples, || take(&lock));
        }
        Ok(())
    })?;
    Ok(samples)
}

/// Waits until the owner has stored something: it runs.
fn at_work(lock: &Lock<Word>) -> Result<(), String> {
    let before = lock.words().peek();
    until(None, || lock.words().peek() != before)
}

/// The owner runs on another processor and may keep the lock; how often it was had nevertheless.
fn refused(cpu: usize, count: usize) -> Result<(Samples, u64), String> {
    let (lock, mut samples, mut had) = (Lock::new(Word::default()), Samples::default(), 0);
    with_owner(cpu, &lock, |_| {
        while samples.0.len() < count {
            at_work(&lock)?;
            let result = timed(&mut samples, || lock.acquire(Steal::Local));
            had += u64::from(result.is_ok());
        }
        Ok(())
    })?;
    Ok((samples, had))
}

/// The owner sleeps; it was last on `cpu`.
fn asleep(cpu: usize, steal: Steal, count: usize) -> Result<Samples, String> {
    let (lock, mut samples) = (Lock::new(Word::default()), Samples::default());
    let (go, goes) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| {
        let lock = &lock;
        scope.spawn(move || {
            system::pin(cpu);
            while goes.recv().is_ok() {
                let ticket = lock.acquire(Steal::Force).expect("the thief has let it go");
                ticket.add(|word| word, 1).expect("the thief waits");
                let _ = tell.send(system::this_thread());
                // Sleeps with its ticket until the thief has taken the lock.
                if goes.recv().is_err() {
                    break;
                }
            }
        });
        // Moved in, so that the other thread ends when this is done or has failed.
        let go = go;
        for _ in 0..count {
            go.send(()).map_err(|why| why.to_string())?;
            let owner = told.recv().map_err(|why| why.to_string())?;
            until(Some(Duration::from_micros(50)), || system::is_asleep(owner))?;
            let taken = timed(&mut samples, || lock.acquire(steal));
            drop(taken.map_err(|why| why.to_string())?);
            go.send(()).map_err(|why| why.to_string())?;
        }
        Ok::<_, String>(())
    })?;
    Ok(samples)
}

/// The barrier alone, while a thread runs on `other`.
fn raw_barrier(other: Option<usize>, count: usize) -> Result<Samples, String> {
    let mut samples = Samples::default();
    let mut measure = || {
        for _ in 0..count {
            // Sends nothing where the backend does not.
            if timed(&mut samples, system::membarrier).is_none() {
                samples.0.clear();
                break;
            }
        }
    };
    match other {
        None => measure(),
        Some(cpu) => with_owner(cpu, &Lock::new(Word::default()), |acquired| {
            until(None, || acquired.load(Ordering::Acquire) > 0)?;
            measure();
            Ok(())
        })?,
    }
    Ok(samples)
}
