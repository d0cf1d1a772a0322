//! From a world that fails to a smaller one that fails in the same way.
//!
//! Each step makes one number of the plan smaller: fewer machines first, then kinds of faults
//! switched off one by one, then shorter times. It is kept if the failure is of the same kind. A
//! smaller world takes other chances than the larger one did, so with each step a few other seeds
//! are tried too.

use lockspan_protocol::Bugs;

use crate::oracle::Failure;
use crate::plan::Plan;
use crate::run;

/// Worlds that are tried at most.
const TRIES_MAX: u32 = 4000;

/// Other seeds that are tried with each step.
const SEEDS: u64 = 6;

/// The smallest world found, and how it fails.
#[must_use]
pub fn shrink(plan: &Plan, bugs: Bugs, failure: &Failure) -> (Plan, Failure) {
    let (mut plan, mut failure) = (plan.clone(), failure.clone());
    let mut tries = 0;
    while tries < TRIES_MAX {
        let simpler = plan.simpler().into_iter();
        let with_seeds = simpler.flat_map(|plan| {
            (0..=SEEDS).map(move |more| Plan { seed: plan.seed.wrapping_add(more), ..plan.clone() })
        });
        let fails = |plan: Plan| {
            tries += 1;
            let found = run(&plan, bugs).failure.filter(|found| found.kind == failure.kind);
            found.map(|failure| (plan, failure))
        };
        match with_seeds.take(TRIES_MAX as usize).map(fails).find(Option::is_some) {
            Some(Some(found)) => (plan, failure) = found,
            _ => break,
        }
    }
    (plan, failure)
}
