//! Many worlds: each processor takes the next seed. A world follows from its seed alone, so what is
//! found does not depend on how many processors there are.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZero;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use sim::{Coverage, Failure, Outcome, Plan};

/// What worlds came to.
#[derive(Default)]
pub(crate) struct Met {
    pub(crate) worlds: u64,
    pub(crate) steps: u64,
    pub(crate) overlaps: u64,
    pub(crate) coverage: Coverage,
    /// How many there were of each class.
    classes: BTreeMap<String, u64>,
    /// Those that broke a promise, by their seeds.
    pub(crate) broken: BTreeMap<u64, (Plan, Failure)>,
}

impl Met {
    fn add(&mut self, plan: Plan, outcome: Outcome) {
        self.worlds += 1;
        self.steps += outcome.steps;
        self.overlaps += outcome.overlaps;
        self.coverage.add(&outcome.coverage);
        *self.classes.entry(plan.class.to_string()).or_default() += 1;
        if let Some(failure) = outcome.failure {
            self.broken.insert(plan.seed, (plan, failure));
        }
    }
}

impl fmt::Display for Met {
    /// How many worlds of each class, and which promises were broken how often.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let classes: Vec<_> =
            self.classes.iter().map(|(class, worlds)| format!("{worlds} {class}")).collect();
        writeln!(f, "classes: {}", classes.join(", "))?;
        let mut kinds = BTreeMap::new();
        for (_, failure) in self.broken.values() {
            *kinds.entry(failure.kind.to_string()).or_insert(0_u64) += 1;
        }
        let kinds: Vec<_> = kinds.iter().map(|(kind, times)| format!("{times} {kind}")).collect();
        let none = "none".to_owned();
        writeln!(f, "broken promises: {}", if kinds.is_empty() { none } else { kinds.join(", ") })
    }
}

/// How many run at once.
pub(crate) fn processors() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Runs these worlds, and says so of each that fails; unless it is to keep going, it stops then.
pub(crate) fn run(
    seeds: Range<u64>,
    keep_going: bool,
    plan_of: impl Fn(u64) -> Plan + Sync,
    run: impl Fn(&Plan) -> Outcome + Sync,
    says: impl Fn(&Met, &Plan, Option<&Failure>) + Sync,
) -> Met {
    let next = AtomicU64::new(seeds.start);
    let met = Mutex::new(Met::default());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let plan = plan_of(seed);
            let outcome = run(&plan);
            let failure = outcome.failure.clone();
            let mut met = met.lock().expect("no thread panics with it");
            met.add(plan.clone(), outcome);
            says(&met, &plan, failure.as_ref());
            if failure.is_some() && !keep_going {
                next.store(seeds.end, Ordering::Relaxed);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..processors() {
            scope.spawn(work);
        }
    });
    met.into_inner().expect("no thread panics with it")
}

/// Does something for each of these, on all processors; what came of it, in their order.
pub(crate) fn for_each<T: Sync, R: Send>(all: &[T], act: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicU64::new(0);
    let done = Mutex::new(BTreeMap::new());
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(one) = all.get(at as usize) else { return };
            let result = act(one);
            done.lock().expect("no thread panics with it").insert(at, result);
        }
    };
    thread::scope(|scope| {
        for _ in 0..processors() {
            scope.spawn(work);
        }
    });
    done.into_inner().expect("no thread panics with it").into_values().collect()
}
