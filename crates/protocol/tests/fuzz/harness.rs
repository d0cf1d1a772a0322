//! Runs a machine through seeds; when it panics or hangs, prints the seed and the last inputs.

use std::collections::VecDeque;
use std::fmt::{Debug, Write as _};
use std::io::Write as _;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use lockspan_protocol::Tick;

/// More of them: `LOCKSPAN_FUZZ_SEEDS=10000`. One of them: `LOCKSPAN_FUZZ_SEED=17`.
const SEEDS: u64 = 100;
const STEPS: u64 = 400;
/// How many inputs are told of a failure.
const TOLD: usize = 30;
/// How long a step may take: this many looks at it.
const LOOKS: u32 = 1000;
const LOOK: Duration = Duration::from_millis(10);

/// A machine and what is thrown at it.
pub(crate) trait Fuzz: Sized {
    type Input: Debug + Clone + Send + 'static;
    /// How many kinds of output there are.
    const KINDS: u32;

    fn new(seed: u64) -> Self;

    /// The next input, and when.
    fn draw(&mut self) -> (Tick, Self::Input);

    /// Does it, and looks whether everything is as it must be. Tells whether it was accepted.
    fn step(&mut self, now: Tick, input: Self::Input) -> bool;

    /// Which kinds of output there were, a bit for each.
    fn seen(&self) -> u32;

    /// Nothing more happens but time: looks whether something is left over.
    fn finish(&mut self);
}

/// How far the run is.
struct Progress<I> {
    seed: u64,
    /// Steps of all seeds.
    steps: u64,
    /// Steps that were refused.
    refused: u64,
    seen: u32,
    last: VecDeque<(Tick, I)>,
}

type Shared<I> = Arc<Mutex<Progress<I>>>;

/// Runs all seeds; panics with the first that fails.
pub(crate) fn run<F: Fuzz>(name: &str) {
    let (first, seeds) = match (number("LOCKSPAN_FUZZ_SEED"), number("LOCKSPAN_FUZZ_SEEDS")) {
        (Some(seed), _) => (seed, 1),
        (None, seeds) => (1, seeds.unwrap_or(SEEDS)),
    };
    let (seed, last) = (first, VecDeque::new());
    let progress = Progress { seed, steps: 0, refused: 0, seen: 0, last };
    let shared: Shared<F::Input> = Arc::new(Mutex::new(progress));
    let worker = {
        let shared = Arc::clone(&shared);
        let seeds = first..first + seeds;
        let work = move || seeds.for_each(|seed| run_seed::<F>(seed, &shared));
        thread::Builder::new().name(name.to_owned()).spawn(work).expect("a thread can be had")
    };
    let mut idle = (0, 0);
    while !worker.is_finished() {
        thread::sleep(LOOK);
        let steps = shared.lock().unwrap_or_else(PoisonError::into_inner).steps;
        idle = if steps == idle.0 { (steps, idle.1 + 1) } else { (steps, 0) };
        if idle.1 == LOOKS {
            tell(name, "hangs", &shared);
            std::process::exit(1);
        }
    }
    if let Err(panic) = worker.join() {
        tell(name, "fails", &shared);
        resume_unwind(panic);
    }
    let Progress { steps, refused, seen, .. } =
        &*shared.lock().unwrap_or_else(PoisonError::into_inner);
    println!("{name}: {seeds} seeds, {steps} inputs, {refused} of them refused");
    if seeds >= SEEDS {
        let missing = !seen & ((1 << F::KINDS) - 1);
        assert_eq!(missing, 0, "{name}: outputs that never came, by bit: {missing:b}");
        assert!(refused * 2 < *steps, "{name}: too much of it is senseless");
        assert!(refused * 20 > *steps, "{name}: too little of it is senseless");
    }
}

fn run_seed<F: Fuzz>(seed: u64, shared: &Shared<F::Input>) {
    let mut fuzz = F::new(seed);
    let progress = || shared.lock().unwrap_or_else(PoisonError::into_inner);
    progress().seed = seed;
    progress().last.clear();
    for _ in 0..STEPS {
        let (now, input) = fuzz.draw();
        {
            let mut progress = progress();
            if progress.last.len() == TOLD {
                progress.last.pop_front();
            }
            progress.last.push_back((now, input.clone()));
        }
        let accepted = fuzz.step(now, input);
        let mut progress = progress();
        progress.steps += 1;
        progress.refused += u64::from(!accepted);
    }
    fuzz.finish();
    progress().seen |= fuzz.seen();
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// Past the capture of the test's output, since the process may be about to end.
fn tell<I: Debug>(name: &str, what: &str, shared: &Shared<I>) {
    let Progress { seed, last, .. } = &*shared.lock().unwrap_or_else(PoisonError::into_inner);
    let mut text = format!("{name}: seed {seed} {what}; the last inputs:\n");
    for (now, input) in last {
        writeln!(text, "  at {}: {input:?}", now.0).expect("a string takes all");
    }
    // There is nobody to tell that it can't be told.
    let _ = std::io::stderr().write_all(text.as_bytes());
}
