//! Each bug that can be put back into the node is seen by a script.

#![cfg(feature = "mutants")]

use super::*;
use crate::bugs::Bug;

/// All that is said when these inputs come, each a few milliseconds after the one before.
fn story(bugs: Bugs, inputs: &[(u64, Input)]) -> Vec<Vec<String>> {
    let mut cache = node(Config { bugs, ..config() });
    inputs.iter().map(|(at, input)| step(&mut cache, *at, input.clone())).collect()
}

/// The inputs make a difference with the bug.
fn check_bug(bug: Bug, inputs: &[(u64, Input)]) {
    assert_ne!(story(Bugs::NONE, inputs), story(Bugs::only(bug), inputs), "{bug:?}");
}

#[test]
fn every_bug_of_the_node_is_seen() {
    let write = [(10, want("x", Write)), (20, granted("x", 1, Write))];
    let then = |more: &[(u64, Input)]| [&write[..], more].concat();

    let traded = [(10, want("x", Read)), (20, granted("x", 1, Read)), (30, want("x", Write))];
    let traded = [&traded[..], &[(40, granted("x", 2, Write)), (50, revoke("x", 1, Write))]];
    check_bug(Bug::RevokeIgnoresSeq, &traded.concat());
    check_bug(Bug::LeaseFromArrival, &[(3000, Input::Tick), (3100, alive(1))]);
    check_bug(Bug::EarlyRevokeForgotten, &[(10, want("x", Write)), (20, revoke("x", 1, Write))]);
    check_bug(Bug::StrayGrantKept, &[(10, granted("x", 1, Write))]);
    check_bug(Bug::AcquireOnce, &[(10, want("x", Write)), (600, Input::Tick)]);
    check_bug(Bug::DowngradeEarly, &then(&[(30, revoke("x", 1, Read))]));
    let waits = [(10, want("x", Write)), (20, queued("x", 1)), (30, serving(2))];
    check_bug(Bug::WaitsNotReasserted, &waits);
    check_bug(Bug::SeqNotRaised, &then(&[(30, revoke("x", 1, Read)), (40, drained("x"))]));
    check_bug(
        Bug::SeqNotRaised,
        &[&traded.concat()[..2], &[(30, upgrade("x")), (40, withdraw("x"))]].concat(),
    );
}

#[test]
fn the_bugs_of_the_lease_are_seen() {
    for (bug, until) in [(Bug::NoMargin, 9_000_000), (Bug::LeaseForgotten, u64::MAX)] {
        let mut cache = LockCache::new(Config { bugs: Bugs::only(bug), ..config() });
        step(&mut cache, 0, route(1));
        step(&mut cache, 0, want("x", Write));
        step(&mut cache, 0, opened(1, 100, 1));
        assert_eq!(cache.lease_until(ServerId(1)), Some(Tick(until)), "{bug:?}");
    }
}
