//! Every walk of up to five threads over the claim lock's word: any transition at any time, and
//! every one that waits may be taken back. It knows nothing of memory orderings or sleep.
//!
//! One step is one exchange on the word, or a look that finds a sign. Checked in each state: that
//! A and R, C and R, C and A are never together and the exclusive joiner is alone; that the phase
//! follows from the counts, and these from what the threads do; that nobody changes the data while
//! a thread is in Join that read it before; that a sign once seen stays until its thread acts; that
//! a change by which a sign comes up is one after which
//! those inside are called; that no thread comes in beside atomics that others inside wait for;
//! that somebody can go on; and that the word is zero when nobody is there.

use std::collections::{BTreeSet, VecDeque};

use super::super::line::Sign;
use super::super::turnstile::{Meaning as _, Step};
use super::Holders;
use super::word::{self, Claims};

/// What a thread holds or waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Hold {
    Nothing,
    Read,
    /// On the way to Claim, with what it has read.
    Join,
    /// On the way to Claim, from Atomic.
    JoinAgain,
    Claim,
    Atomic,
    Alone,
    /// Joined, and waiting for the claim phase: from the state that is named.
    OutToClaim,
    ReadToClaim,
    AtomicToClaim,
    /// Counted as an atomic, and waiting for the atomic phase.
    OutToAtomic,
    JoinToAtomic,
    ClaimToAtomic,
    /// Counted as a reader, and waiting to read.
    JoinToRead,
    JoinAgainToRead,
    ClaimToRead,
    AtomicToRead,
}

type State = (u64, Vec<Hold>);

/// How a transition is taken back.
type Back = fn(u64) -> Option<u64>;

/// For a thread that waits inside: its sign, and where it comes to.
fn ahead(hold: Hold) -> Option<(Sign, Hold)> {
    Some(match hold {
        Hold::OutToClaim | Hold::ReadToClaim | Hold::AtomicToClaim => {
            (word::is_claiming, Hold::Claim)
        }
        Hold::OutToAtomic | Hold::JoinToAtomic | Hold::ClaimToAtomic => {
            (word::is_changing, Hold::Atomic)
        }
        Hold::JoinToRead | Hold::JoinAgainToRead | Hold::ClaimToRead | Hold::AtomicToRead => {
            (word::is_reading, Hold::Read)
        }
        _ => return None,
    })
}

fn sign(hold: Hold) -> Option<Sign> {
    ahead(hold).map(|(sign, _)| sign)
}

/// For a thread that waits inside: how and where it goes back. The three transitions that can need
/// two steps may end half-way.
fn behind(word: u64, hold: Hold) -> (Back, Hold) {
    match hold {
        Hold::OutToClaim => (word::claim_back_out, Hold::Nothing),
        Hold::ReadToClaim => (word::join_back_to_read, Hold::Read),
        Hold::AtomicToClaim if word::is_reading(word) => (Some, Hold::Join),
        Hold::AtomicToClaim => (word::join_back_to_atomic, Hold::Atomic),
        Hold::OutToAtomic => (word::atomic_back_out, Hold::Nothing),
        Hold::JoinToAtomic => (word::atomic_back_to_join, Hold::Join),
        Hold::ClaimToAtomic => (word::atomic_back_to_join, Hold::Claim),
        Hold::JoinToRead if word::is_claiming(word) => (word::refuge_back, Hold::Join),
        Hold::JoinAgainToRead => (word::read_back_to_join, Hold::JoinAgain),
        Hold::ClaimToRead if word::is_claiming(word) => (word::refuge_back, Hold::Claim),
        Hold::JoinToRead | Hold::ClaimToRead => (word::refuge_back, Hold::Atomic),
        _ => (word::read_back_to_atomic, Hold::Atomic),
    }
}

/// All that a thread can do next.
fn steps(word: u64, hold: Hold) -> Vec<(u64, Hold)> {
    if let Some((sign, ahead)) = ahead(hold) {
        let (back, behind) = behind(word, hold);
        let went_back = back(word).map(|word| (word, behind));
        assert_eq!(went_back.is_none(), sign(word), "either it has its sign or it can go back");
        return went_back.into_iter().chain(sign(word).then_some((word, ahead))).collect();
    }
    let mut steps = Vec::new();
    let mut enters = |step: Step, hold| {
        if let Step::To(word) = step {
            steps.push((word, hold));
        }
    };
    match hold {
        Hold::Nothing => {
            enters(word::read(word), Hold::Read);
            enters(word::claim(word), Hold::OutToClaim);
            enters(word::claim_at_once(word), Hold::Claim);
            enters(word::atomic(word), Hold::OutToAtomic);
            enters(word::atomic_at_once(word), Hold::Atomic);
            enters(word::be_alone(word), Hold::Alone);
        }
        Hold::Read => {
            steps.push((word::read_done(word), Hold::Nothing));
            steps.push((word::join(word), Hold::Join));
            steps.push((word::join(word), Hold::ReadToClaim));
        }
        Hold::Join | Hold::JoinAgain => {
            let is_changing = word::is_changing(word);
            let to_read = if is_changing { Hold::JoinAgainToRead } else { Hold::JoinToRead };
            steps.push((word::join_done(word), Hold::Nothing));
            steps.push((word::to_read(word), to_read));
            steps.push((word::to_atomic(word), Hold::JoinToAtomic));
            // J → C taken back is no change at all.
            steps.extend(word::is_claiming(word).then_some((word, Hold::Claim)));
        }
        Hold::Claim => {
            steps.push((word::join_done(word), Hold::Nothing));
            steps.push((word::to_read(word), Hold::ClaimToRead));
            steps.push((word::to_atomic(word), Hold::ClaimToAtomic));
        }
        Hold::Atomic => {
            steps.push((word::atomic_done(word), Hold::Nothing));
            steps.push((word::atomic_to_read(word), Hold::AtomicToRead));
            steps.push((word::atomic_to_join(word), Hold::JoinAgain));
            steps.push((word::atomic_to_join(word), Hold::AtomicToClaim));
        }
        _ => {
            let traded = |to: u64| word - word::ALONE + to;
            steps.push((traded(word::OPEN), Hold::Nothing));
            steps.push((traded(word::OPEN + word::READER), Hold::Read));
            steps.push((traded(word::CLAIMING + word::JOINER), Hold::Claim));
            steps.push((traded(word::CHANGING + word::ATOMIC), Hold::Atomic));
        }
    }
    steps
}

fn check(state: &State) {
    let (word, holds) = state;
    let holds_some = |wanted: Hold| holds.contains(&wanted);
    assert!(!(holds_some(Hold::Atomic) && holds_some(Hold::Read)), "A and R: {state:?}");
    assert!(!(holds_some(Hold::Claim) && holds_some(Hold::Read)), "C and R: {state:?}");
    assert!(!(holds_some(Hold::Claim) && holds_some(Hold::Atomic)), "C and A: {state:?}");
    let is_changing = word::is_changing(*word);
    assert!(!(holds_some(Hold::Join) && is_changing), "changed since a joiner read: {state:?}");
    let inside = holds.iter().filter(|hold| **hold != Hold::Nothing).count();
    assert!(!holds_some(Hold::Alone) || inside == 1, "not alone: {state:?}");
    assert!(inside > 0 || *word == 0, "the word is not zero at rest: {state:?}");
    check_counts(state);
}

/// I2, and that every thread is in one count.
fn check_counts(state: &State) {
    let (word, holds) = state;
    let count = |kinds: &[Hold]| holds.iter().filter(|hold| kinds.contains(hold)).count() as u32;
    let inside = word::holders(*word);
    let Holders { readers, joiners, atomics, .. } = inside;
    let in_readers = [
        Hold::Read,
        Hold::JoinToRead,
        Hold::JoinAgainToRead,
        Hold::ClaimToRead,
        Hold::AtomicToRead,
    ];
    let in_joiners = [
        Hold::Join,
        Hold::JoinAgain,
        Hold::Claim,
        Hold::OutToClaim,
        Hold::ReadToClaim,
        Hold::AtomicToClaim,
    ];
    let in_atomics = [Hold::Atomic, Hold::OutToAtomic, Hold::JoinToAtomic, Hold::ClaimToAtomic];
    assert_eq!(readers, count(&in_readers), "{state:?}");
    assert_eq!(joiners, count(&in_joiners), "{state:?}");
    assert_eq!(atomics, count(&in_atomics), "{state:?}");
    assert!(inside.phase_follows_from_counts(), "{inside:?}: {state:?}");
}

/// Checks the step of thread `me` against all others that wait.
fn check_step(before: &State, after: u64, me: usize) {
    let is_entering = before.1[me] == Hold::Nothing;
    for (other, hold) in before.1.iter().enumerate().filter(|(other, _)| *other != me) {
        let Some(sign) = sign(*hold) else { continue };
        assert!(!sign(before.0) || sign(after), "thread {other} had its sign: {before:?}");
        let is_new = !sign(before.0) && sign(after);
        assert!(!is_new || Claims::turned(before.0, after), "{other} is not called: {before:?}");
        // A thread that comes in calls nobody, and must not hold up those who wait for atomics.
        assert!(!(is_new && is_entering), "{other} is not called: {before:?}");
        let waits_for_atomics = word::is_changing(before.0) && !sign(before.0);
        assert!(!(waits_for_atomics && is_entering), "{other} is held up: {before:?}");
    }
}

fn search(threads: usize) -> usize {
    let start: State = (0, vec![Hold::Nothing; threads]);
    let mut seen = BTreeSet::from([start.clone()]);
    let mut ahead = VecDeque::from([start]);
    while let Some(state) = ahead.pop_front() {
        check(&state);
        let mut can_go_on = false;
        for (me, hold) in state.1.iter().enumerate() {
            for (word, hold) in steps(state.0, *hold) {
                check_step(&state, word, me);
                let mut holds = state.1.clone();
                // To be taken back is no way on for somebody who does not want to.
                can_go_on |= sign(holds[me]).is_none_or(|sign| sign(state.0));
                holds[me] = hold;
                // Threads are alike: their order makes no difference.
                holds.sort_unstable();
                let next = (word, holds);
                if seen.insert(next.clone()) {
                    ahead.push_back(next);
                }
            }
        }
        assert!(can_go_on, "nobody can go on: {state:?}");
    }
    seen.len()
}

#[test]
#[cfg_attr(miri, ignore = "it has no unsafe code, and many states")]
fn no_walk_of_five_threads_breaks_an_invariant() {
    for threads in 1..=5 {
        println!("{threads} threads: {} states", search(threads));
    }
}
