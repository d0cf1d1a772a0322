//! Mistakes that are put back into the machines, and the worlds of two servers in which they are
//! found.
//!
//! `HeedsReplaced` and `AnswersReplaced` are found as what they are, a breach of rule Z: the harm
//! that follows from them needs a third node. `ForgetWithoutScope` needs two groups.
//! `SpeakerEndsFirst` needs a session that speaks for another and ends before it.
//! `FormerAnsweredOnce` only makes the new owner wait.

use lockspan_protocol::{Bug, Bugs};
use stateright::Checker;

use super::setup::Moves;
use super::{explore, failure, worlds};

/// Searches a world with a mistake in it.
fn find(bug: Bug, world: Moves) {
    let checker = explore(Moves { bugs: Bugs::only(bug), ..world });
    let unique = checker.unique_state_count();
    let failure = failure(&checker);
    println!("{bug:?}, after {unique} states: {}", failure.as_deref().unwrap_or("not found"));
    assert!(failure.is_some(), "{bug:?} was not found in {unique} states");
}

macro_rules! finds {
    ($($name:ident: $bug:ident in $world:ident,)*) => {
        $(#[test]
        fn $name() {
            find(Bug::$bug, worlds::$world());
        })*
    };
}

finds! {
    alive_for_all: AliveForAll in moved,
    cap_forgotten: CapForgotten in moved,
    former_forgotten_early: FormerForgottenEarly in moved_back_late,
    grace_without_own: GraceWithoutOwn in suspected_cut,
    heeds_replaced: HeedsReplaced in suspected_cut,
    answers_replaced: AnswersReplaced in suspected,
    recovered_extends: RecoveredExtends in moved_back,
}
