//! The simulator's own promises: a seed is a world, worlds pass, and every bug put back is found.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;

use lockspan_protocol::{Bug, Bugs};
use sim::bugs::TABLE;
use sim::plan::Class;
use sim::{Plan, run, trace};

/// Every class of worlds, some of each.
fn some_plans() -> impl Iterator<Item = Plan> {
    use Class::{Calm, Drift, Faulty, Jitter, Restart};
    let classes = [Calm, Jitter, Restart, Faulty, Drift];
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

/// A server leaves groups and is restarted within a lease.
#[test]
fn a_restart_after_a_move_extends_nobody() {
    let plan = Plan::draw_with(33446, None, None);
    assert_eq!(run(&plan, Bugs::NONE).failure, None, "{}", plan.flags());
}

/// Groups move often, and servers crash often: the gaps between that are in microseconds.
fn moving(seed: u64, moves: u64, server_crash: u64) -> Plan {
    let servers = 3;
    Plan { servers, moves, server_crash, ..Plan::draw_with(seed, Some(Class::Faulty), None) }
}

/// In a grace, the record is acquired anew before what was held is re-asserted.
#[test]
fn an_acquire_that_overtakes_a_re_assertion_leaves_one_grant() {
    let plan = moving(2493, 1_500_000, 800_000);
    assert_eq!(run(&plan, Bugs::NONE).failure, None, "{}", plan.flags());
}

/// A server has all re-assertions, its answer is lost, and it is restarted.
#[test]
fn what_a_restarted_owner_does_not_hear_again_is_lost() {
    let plan = moving(9505, 800_000, 1_200_000);
    assert_eq!(run(&plan, Bugs::NONE).failure, None, "{}", plan.flags());
}

/// A former session has re-asserted in some groups, and the server leaves the others.
#[test]
fn a_former_session_in_groups_that_are_left_does_not_stay_in_the_store() {
    let plan = moving(15669, 400_000, 2_500_000);
    assert_eq!(run(&plan, Bugs::NONE).failure, None, "{}", plan.flags());
}

#[test]
fn worlds_in_which_groups_move_keep_their_promises() {
    for plan in (0..40).map(|seed| moving(seed, 600_000, 1_200_000)) {
        assert_eq!(run(&plan, Bugs::NONE).failure, None, "{}", plan.flags());
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
    let listed: BTreeSet<_> = TABLE.iter().map(|(bug, _)| format!("{bug:?}")).collect();
    let all: BTreeSet<_> = Bug::ALL.iter().map(|bug| format!("{bug:?}")).collect();
    assert_eq!(listed, all, "every bug has a world that finds it");
    for &(bug, seed) in TABLE {
        let plan = Plan::draw_with(seed, None, None);
        assert_eq!(run(&plan, Bugs::NONE).failure, None, "seed {seed} without a bug");
        assert!(run(&plan, Bugs::only(bug)).failure.is_some(), "seed {seed} misses {bug:?}");
    }
}
