//! Threads that do the same again and again for a time: how often, how evenly, the longest wait.
//!
//! Counting begins when every thread has begun, since the scheduler needs many milliseconds to give
//! 64 threads their first turn. A turn that reaches over the beginning or the end of the counted
//! time is no operation, but the part of its wait that lies inside counts as a wait.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use crate::clock;
use crate::dice::Dice;
use crate::padded::Padded;
use crate::stats::jain;

/// What a crowd came to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) per_second: f64,
    pub(crate) longest_ns: f64,
    pub(crate) jain: f64,
    /// All turns, those before and after counting too, and the sum of what they tallied.
    pub(crate) turns: u64,
    pub(crate) tally: u64,
}

/// How many threads there are, for how long, and what their dice show.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spec {
    pub(crate) threads: usize,
    pub(crate) time: Duration,
    pub(crate) seed: u64,
}

/// What the threads share.
struct Stage {
    start: Barrier,
    begun: Padded<AtomicUsize>,
    /// When counting begins and ends, 0 until then.
    open: Padded<AtomicU64>,
    stop: AtomicU64,
}

struct Worker {
    counted: u64,
    longest: u64,
    turns: u64,
    tally: u64,
}

/// Runs `turn` in all threads. It adds what it likes to the tally, and returns the ticks that it
/// waited.
pub(crate) fn run(spec: Spec, turn: impl Fn(&mut Dice, &mut u64) -> u64 + Sync) -> Seen {
    let stage = Stage {
        start: Barrier::new(spec.threads + 1),
        begun: Padded(AtomicUsize::new(0)),
        open: Padded(AtomicU64::new(0)),
        stop: AtomicU64::new(0),
    };
    let (workers, ticks) = std::thread::scope(|scope| {
        let (stage, turn) = (&stage, &turn);
        let threads: Vec<_> = (0..spec.threads)
            .map(|at| {
                let dice = Dice::new(spec.seed.wrapping_mul(1_000).wrapping_add(at as u64));
                scope.spawn(move || work(stage, dice, turn))
            })
            .collect();
        stage.start.wait();
        while stage.begun.0.load(Relaxed) < spec.threads {
            std::thread::sleep(Duration::from_millis(1));
        }
        let opened = clock::now();
        stage.open.0.store(opened, Relaxed);
        std::thread::sleep(spec.time);
        let stopped = clock::now();
        stage.stop.store(stopped, Relaxed);
        let workers: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        (workers, stopped - opened)
    });
    let counted: Vec<f64> = workers.iter().map(|worker| worker.counted as f64).collect();
    Seen {
        per_second: counted.iter().sum::<f64>() * 1e9 / clock::ns(ticks),
        longest_ns: clock::ns(workers.iter().map(|worker| worker.longest).max().unwrap_or(0)),
        jain: jain(&counted),
        turns: workers.iter().map(|worker| worker.turns).sum(),
        tally: workers.iter().map(|worker| worker.tally).sum(),
    }
}

fn work(stage: &Stage, mut dice: Dice, turn: impl Fn(&mut Dice, &mut u64) -> u64) -> Worker {
    let mut worker = Worker { counted: 0, longest: 0, turns: 0, tally: 0 };
    stage.start.wait();
    stage.begun.0.fetch_add(1, Relaxed);
    loop {
        let begun = clock::now();
        let waited = turn(&mut dice, &mut worker.tally);
        worker.turns += 1;
        let (opened, stopped) = (stage.open.0.load(Relaxed), stage.stop.load(Relaxed));
        if opened == 0 {
            continue;
        }
        // Of a turn that began before counting, or ended after it, the part inside.
        let end = if stopped == 0 { clock::now() } else { stopped };
        worker.longest = worker.longest.max(waited.min(end.saturating_sub(begun.max(opened))));
        if stopped != 0 {
            return worker;
        }
        worker.counted += u64::from(begun >= opened);
    }
}

/// What `f` gives, and how many ticks it took.
#[inline]
pub(crate) fn timed<T>(f: impl FnOnce() -> T) -> (T, u64) {
    let asked = clock::now();
    let got = f();
    (got, clock::now().saturating_sub(asked))
}
