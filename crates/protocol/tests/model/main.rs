//! Small worlds, searched through: two nodes, one server, one record, and every order in which
//! messages can arrive, threads can leave, and the few faults that a world allows can happen.
//!
//! The machines are those that ship. What is looked for is in `check.rs`, what may happen in
//! `setup.rs`, the worlds are in `worlds.rs`. `moves/` has worlds of two servers and their store,
//! in which the record's group changes its owner.
//!
//! `LOCKSPAN_MODEL=full cargo test --release -p lockspan-protocol --test model` searches the larger
//! worlds too. With `--features mutants`, mistakes are put back into the machines, and have to be
//! found.

#![forbid(unsafe_code)]

mod check;
mod frozen;
mod moves;
#[cfg(feature = "mutants")]
mod mutants;
mod node;
mod setup;
mod world;
mod worlds;

use check::SERVED;
use setup::Setup;
use stateright::{Checker, HasDiscoveries, Model};

/// Searches a world until something is wrong or nothing is left to see. With one thread, so that
/// the same is found each time, by the shortest way.
fn explore(setup: Setup) -> impl Checker<Setup> {
    setup.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join()
}

/// What is wrong: the property, what happened, and why.
fn failure(checker: &impl Checker<Setup>) -> Option<String> {
    let names = checker.model().properties().into_iter().map(|property| property.name);
    let mut found = names.filter(|&name| name != SERVED);
    let (property, path) = found.find_map(|name| Some((name, checker.discovery(name)?)))?;
    let mut text = format!("not so: {property}\n");
    let last = path.last_state().clone();
    for action in path.into_actions() {
        text += &format!("  {action:?}\n");
    }
    let why = last.wrong.clone().map_or_else(|| checker.model().close(&last), Err);
    Some(text + &format!("  {:?}: {why:?}", last.nodes.each_ref().map(|node| node.thread)))
}

/// Searches a world through, says how many states it has, and that they were as many as expected: a
/// world in which little happens proves nothing.
fn search(name: &str, setup: Setup, at_least: usize) {
    let checker = explore(setup);
    let (unique, all) = (checker.unique_state_count(), checker.state_count());
    println!("{name}: {unique} states, {all} steps, depth {}", checker.max_depth());
    if let Some(failure) = failure(&checker) {
        panic!("{name}: {failure}");
    }
    assert!(checker.discovery(SERVED).is_some(), "{name}: never are all served");
    assert!(unique >= at_least, "{name}: {unique} states, {at_least} were expected");
}

macro_rules! searches {
    ($($name:ident: $at_least:literal,)*) => {
        $(#[test]
        fn $name() {
            search(stringify!($name), worlds::$name(), $at_least);
        })*
    };
}

macro_rules! searches_if_full {
    ($($name:ident: $at_least:literal,)*) => {
        $(#[test]
        fn $name() {
            if std::env::var("LOCKSPAN_MODEL").is_ok_and(|how| how == "full") {
                search(stringify!($name), worlds::$name(), $at_least);
            } else {
                println!("{}: only with LOCKSPAN_MODEL=full", stringify!($name));
            }
        })*
    };
}

searches! {
    wish_read: 10,
    wish_upgrade: 10,
    wish_upgrade_in_order: 10,
    wish_restart: 10,
    two_writers: 50_000,
    read_and_write: 40_000,
    two_upgrades: 600,
    upgrade_and_write: 4_000,
    downgrade_and_write: 3_000,
    two_downgrades: 20_000,
    lose_downgrade: 600,
    restart_downgrade: 3_500,
    retry: 50_000,
    retry_upgrade: 20_000,
    withdraw: 20_000,
    withdraw_upgrade: 5_000,
    withdraw_retry: 35_000,
    withdraw_and_lose: 1_500,
    double: 20_000,
    double_upgrade: 1_300,
    lose: 10_000,
    lose_read: 4_500,
    lose_upgrade: 700,
    lose_retry: 15_000,
    restart_alone: 500,
    restart: 18_000,
    restart_upgrades: 7_000,
    restart_retry: 8_000,
    restart_withdraw: 30_000,
    reconnect: 18_000,
    reconnect_upgrade: 8_000,
    slow_disk: 3_000,
    slow_disk_reconnect: 18_000,
    node_crash: 5_500,
    lease_alone: 17_000,
    leases: 30_000,
}

searches_if_full! {
    many_downgrades: 590_000,
    many_upgrades: 1_050_000,
    lose_in_time: 1_250_000,
    restart_in_disorder: 340_000,
    slow_disk_in_disorder: 360_000,
    node_crash_in_time: 150_000,
    late_leases: 140_000,
    long_leases: 100_000,
}
