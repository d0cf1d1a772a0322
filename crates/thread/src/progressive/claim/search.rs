//! Every interleaving of up to four threads on the claim lock's word: a search that is exhaustive
//! where the models are bounded, and knows nothing of memory orderings or sleep.
//!
//! One step is one exchange on the word, or a look that finds a sign. The invariants are those of
//! the module: A and R never together, C and R never, C and A never, the exclusive joiner alone,
//! nobody stuck, and the word zero at rest.

use std::collections::{HashSet, VecDeque};

use super::super::turnstile::Step;
use super::word;
use Do::{
    Alone, AloneToAtomic, AloneToClaim, Atomic, AtomicToJoin, AtomicToRead, Claim, Join, Leave,
    Read,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Do {
    Read,
    Join,
    Claim,
    Atomic,
    AtomicToRead,
    AtomicToJoin,
    Alone,
    AloneToClaim,
    AloneToAtomic,
    Leave,
}

/// What a thread holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Hold {
    Nothing,
    Read,
    Join,
    Claim,
    /// Has left the claim phase and waits for the atomic one.
    ToAtomic,
    Atomic,
    /// Has left the atomic phase and waits to read.
    ToRead,
    Alone,
}

const WAYS: &[&[Do]] = &[
    &[Read, Leave],
    &[Read, Join, Leave],
    &[Read, Join, Claim, Leave],
    &[Read, Join, Claim, Atomic, Leave],
    &[Read, Join, Claim, Atomic, AtomicToRead, Leave],
    &[Read, Join, Claim, Atomic, AtomicToRead, Join, Claim, Atomic, Leave],
    &[Read, Join, Claim, Atomic, AtomicToJoin, Claim, Atomic, Leave],
    &[Read, Join, Claim, Atomic, AtomicToJoin, Leave],
    &[Alone, Leave],
    &[Alone, AloneToClaim, Atomic, Leave],
    &[Alone, AloneToAtomic, AtomicToJoin, Claim, Leave],
];

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    word: u64,
    threads: Vec<(usize, Hold)>,
}

/// What `hold` and the next thing to do make of the word: none if it waits. The second is true
/// when the thing is done.
fn step(word: u64, hold: Hold, next: Do) -> Option<(u64, Hold, bool)> {
    let entered = |step: Step, hold| match step {
        Step::To(word) => Some((word, hold, true)),
        Step::Wait | Step::Full => None,
    };
    let seen = |sign: bool, hold| sign.then_some((word, hold, true));
    match (hold, next) {
        (Hold::Nothing, Read) => entered(word::read(word), Hold::Read),
        (Hold::Nothing, Alone) => entered(word::be_alone(word), Hold::Alone),
        (Hold::Read, Join) => Some((word::join(word), Hold::Join, true)),
        (Hold::Read, Leave) => Some((word::read_done(word), Hold::Nothing, true)),
        (Hold::Join, Claim) => seen(word::is_claiming(word), Hold::Claim),
        (Hold::Join | Hold::Claim, Leave) => Some((word::join_done(word), Hold::Nothing, true)),
        (Hold::Claim, Atomic) => Some((word::on_to_atomic(word), Hold::ToAtomic, false)),
        (Hold::ToAtomic, Atomic) => seen(word::is_changing(word), Hold::Atomic),
        (Hold::Atomic, AtomicToRead) => Some((word::atomic_to_read(word), Hold::ToRead, false)),
        (Hold::ToRead, AtomicToRead) => seen(word::is_reading(word), Hold::Read),
        (Hold::Atomic, AtomicToJoin) => Some((word::atomic_to_join(word), Hold::Join, true)),
        (Hold::Atomic, Leave) => Some((word::atomic_done(word), Hold::Nothing, true)),
        (Hold::Alone, AloneToClaim) => {
            Some((word - word::ALONE + word::CLAIMING + word::JOINER, Hold::Claim, true))
        }
        (Hold::Alone, AloneToAtomic) => {
            Some((word - word::ALONE + word::CHANGING + word::ATOMIC, Hold::Atomic, true))
        }
        (Hold::Alone, Leave) => Some((word - word::ALONE, Hold::Nothing, true)),
        (hold, next) => unreachable!("{next:?} does not follow {hold:?}"),
    }
}

fn check(state: &State) {
    let holds = |hold| state.threads.iter().any(|thread| thread.1 == hold);
    let inside = state.threads.iter().filter(|thread| thread.1 != Hold::Nothing).count();
    assert!(!(holds(Hold::Atomic) && holds(Hold::Read)), "A and R together: {state:?}");
    assert!(!(holds(Hold::Claim) && holds(Hold::Read)), "C and R together: {state:?}");
    assert!(!(holds(Hold::Claim) && holds(Hold::Atomic)), "C and A together: {state:?}");
    assert!(!holds(Hold::Alone) || inside == 1, "the exclusive joiner is not alone: {state:?}");
}

/// Visits every state that the ways lead to; how many there are.
fn search(ways: &[&[Do]]) -> usize {
    let start = State { word: 0, threads: vec![(0, Hold::Nothing); ways.len()] };
    let mut seen = HashSet::from([start.clone()]);
    let mut ahead = VecDeque::from([start]);
    while let Some(state) = ahead.pop_front() {
        check(&state);
        let mut is_stuck = true;
        for (me, way) in ways.iter().enumerate() {
            let (at, hold) = state.threads[me];
            let Some(next) = way.get(at) else { continue };
            let Some((word, hold, is_done)) = step(state.word, hold, *next) else { continue };
            is_stuck = false;
            let mut threads = state.threads.clone();
            threads[me] = (at + usize::from(is_done), hold);
            let state = State { word, threads };
            if seen.insert(state.clone()) {
                ahead.push_back(state);
            }
        }
        let is_over = state.threads.iter().zip(ways).all(|(thread, way)| thread.0 == way.len());
        assert!(!is_stuck || is_over, "nobody can go on: {state:?} of {ways:?}");
        assert!(!is_over || state.word == 0, "the word is not zero at rest: {state:?}");
    }
    seen.len()
}

/// All ways beside each other, in groups of `threads`, each group once.
fn search_groups(threads: usize, from: usize, group: &mut Vec<&'static [Do]>) -> usize {
    if group.len() == threads {
        return search(group);
    }
    let mut states = 0;
    for (at, way) in WAYS.iter().enumerate().skip(from) {
        group.push(way);
        states += search_groups(threads, at, group);
        group.pop();
    }
    states
}

#[test]
#[cfg_attr(miri, ignore = "it has no unsafe code, and many states")]
fn no_interleaving_of_four_threads_breaks_an_invariant() {
    assert!(search_groups(2, 0, &mut Vec::new()) > 1_000);
    assert!(search_groups(3, 0, &mut Vec::new()) > 10_000);
    let states = search_groups(4, 0, &mut Vec::new());
    println!("four threads: {states} states");
}
