//! The simulator's own promises: a seed is a world, worlds pass, and every bug put back is found.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;

use lockspan_protocol::{Bug, Bugs};
use sim::bugs::TABLE;
use sim::plan::Class;
use sim::{Plan, run, trace};

/// Every class of worlds, some of each.
fn some_plans() -> impl Iterator<Item = Plan> {
    use Class::{Calm, Drift, Faulty, Jitter, Moving, Restart, Strangers};
    let classes = [Calm, Jitter, Restart, Faulty, Drift, Moving, Strangers];
    (0..10).flat_map(move |seed| classes.map(|class| Plan::draw_with(seed, Some(class), None)))
}

#[test]
fn the_same_seed_gives_the_same_log_byte_for_byte() {
    for plan in some_plans() {
        let (first, second) = (trace(&plan, Bugs::NONE), trace(&plan, Bugs::NONE));
        assert!(first.1 == second.1, "{} differs from itself", plan.flags());
        assert!(first.1.lines().count() > 20, "{} is empty", plan.flags());
    }
}

#[test]
fn a_world_is_the_same_whether_it_is_logged_or_not() {
    for plan in some_plans() {
        assert_eq!(run(&plan, Bugs::NONE).steps, trace(&plan, Bugs::NONE).0.steps);
    }
}

#[test]
fn worlds_keep_their_promises() {
    for plan in some_plans() {
        assert_eq!(run(&plan, Bugs::NONE).failure, None, "{}", plan.flags());
    }
}

/// Groups move all the time. The stories behind this class are scripts, in the tests of
/// `lockspan-protocol`.
#[test]
fn worlds_in_which_groups_move_keep_their_promises() {
    for class in [Class::Moving, Class::Strangers] {
        for plan in (0..60).map(|seed| Plan::draw_with(seed, Some(class), None)) {
            assert_eq!(run(&plan, Bugs::NONE).failure, None, "{}", plan.flags());
        }
    }
}

#[test]
fn worlds_in_which_operators_end_sessions_keep_their_promises() {
    for seed in 0..100 {
        let mut plan = Plan::draw_with(seed, None, None);
        // There no session ends before its node does, and the oracle holds the server to that.
        if plan.class.is_lossless() || plan.class.has_one_delay() {
            continue;
        }
        plan.retires = plan.time / 8;
        assert_eq!(run(&plan, Bugs::NONE).failure, None, "{}", plan.flags());
    }
}

#[test]
fn each_bug_put_back_is_found() {
    let listed: BTreeSet<_> = TABLE.iter().map(|(bug, ..)| format!("{bug:?}")).collect();
    let all: BTreeSet<_> = Bug::ALL.iter().map(|bug| format!("{bug:?}")).collect();
    assert_eq!(listed, all, "every bug has a world that finds it");
    for &(bug, class, seed) in TABLE {
        let plan = Plan::draw_with(seed, class, None);
        assert_eq!(run(&plan, Bugs::NONE).failure, None, "seed {seed} without a bug");
        assert!(run(&plan, Bugs::only(bug)).failure.is_some(), "seed {seed} misses {bug:?}");
    }
}
