//! Small worlds with two servers, of which one owns the group of the record: it moves, or its owner
//! is replaced while it may still act.

mod check;
#[cfg(feature = "mutants")]
mod mutants;
mod node;
mod setup;
mod store;
mod world;
mod worlds;

use check::{LATE_GRANT, SEEN};
use setup::Moves;
use stateright::{Checker, HasDiscoveries, Model};

/// Searches a world until something is wrong or nothing is left to see.
fn explore(setup: Moves) -> impl Checker<Moves> {
    setup.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join()
}

/// What is wrong: the property, what happened, and why.
fn failure(checker: &impl Checker<Moves>) -> Option<String> {
    let names = checker.model().properties().into_iter().map(|property| property.name);
    let mut found = names.filter(|name| !SEEN.contains(name));
    let (property, path) = found.find_map(|name| Some((name, checker.discovery(name)?)))?;
    let mut text = format!("not so: {property}\n");
    let last = path.last_state().clone();
    for (state, action) in path.into_vec() {
        if let Some(action) = action {
            text += &format!("  {} {action:?}\n", state.now);
        }
    }
    let why = last.wrong.clone().map_or_else(|| checker.model().close(&last), Err);
    Some(text + &format!("  {:?}: {why:?}", last.nodes.each_ref().map(|node| node.thread)))
}

/// Searches a world through, says how many states it has, and that they were as many as expected.
fn search(name: &str, setup: Moves, at_least: usize) {
    let has_late = setup.any_order || setup.budget.delays > 0;
    let checker = explore(setup);
    let (unique, all) = (checker.unique_state_count(), checker.state_count());
    println!("{name}: {unique} states, {all} steps, depth {}", checker.max_depth());
    if let Some(failure) = failure(&checker) {
        panic!("{name}: {failure}");
    }
    for seen in SEEN {
        let is_possible = seen != LATE_GRANT || has_late;
        assert!(
            !is_possible || checker.discovery(seen).is_some(),
            "{name}: it is never so: {seen}"
        );
    }
    assert!(unique >= at_least, "{name}: {unique} states, {at_least} were expected");
}

/// Searches a larger world, if that is asked for.
fn search_if_full(name: &str, setup: Moves, at_least: usize) {
    if std::env::var("LOCKSPAN_MODEL").is_ok_and(|how| how == "full") {
        search(name, setup, at_least);
    } else {
        println!("{name}: only with LOCKSPAN_MODEL=full");
    }
}

macro_rules! tests {
    ($how:ident $($name:ident: $at_least:literal,)*) => {
        $(#[test]
        fn $name() {
            $how(stringify!($name), worlds::$name(), $at_least);
        })*
    };
}

tests! { search
    moved: 35_000,
    moved_in_disorder: 600_000,
    moved_reader: 40_000,
    moved_back: 60_000,
    moved_back_late: 70_000,
    suspected: 55_000,
    suspected_late: 18_000,
}

tests! { search_if_full
    moved_late: 150_000,
    moved_and_crash: 200_000,
    suspected_cut: 75_000,
    suspected_skewed: 90_000,
    moved_and_suspected: 100_000,
}
