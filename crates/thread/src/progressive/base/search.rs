//! Every walk of up to five threads over the base lock's word: any transition at any time, and
//! every one that waits may be taken back. It knows nothing of memory orderings or sleep.
//!
//! Checked in each state: who excludes whom; that a sign once seen stays until its thread acts;
//! that a change by which a sign comes up is one after which those inside are called; that somebody
//! can go on; and that the word is zero when nobody is there.

use std::collections::{BTreeSet, VecDeque};

use super::super::turnstile::{Meaning as _, Step};
use super::word::{self, Base, READER, SEEK, WRITE};

/// What a thread holds or waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Hold {
    Nothing,
    Read,
    Seek,
    Write,
    Atomic,
    /// Counted, and waiting for the last reader: from outside, or from the state that is named.
    ToWrite,
    SeekToWrite,
    ToAtomic,
    ReadToAtomic,
    /// An atomic that waits to be a reader.
    ToRead,
}

type State = (u64, Vec<Hold>);

fn sign(hold: Hold) -> Option<fn(u64) -> bool> {
    match hold {
        Hold::ToWrite | Hold::SeekToWrite | Hold::ToAtomic | Hold::ReadToAtomic => {
            Some(word::no_reader)
        }
        Hold::ToRead => Some(word::some_reader),
        _ => None,
    }
}

/// How a transition is taken back.
type Back = fn(u64) -> Option<u64>;

/// Where a thread that waits inside comes to, or how and where it goes back.
fn ahead_and_back(hold: Hold) -> Option<(Hold, Back, Hold)> {
    Some(match hold {
        Hold::ToWrite => (Hold::Write, word::write_back_out, Hold::Nothing),
        Hold::SeekToWrite => (Hold::Write, word::write_back_to_seek, Hold::Seek),
        Hold::ToAtomic => (Hold::Atomic, word::atomic_back_out, Hold::Nothing),
        Hold::ReadToAtomic => (Hold::Atomic, word::atomic_back_to_read, Hold::Read),
        Hold::ToRead => (Hold::Read, word::returner_back_to_atomic, Hold::Atomic),
        _ => return None,
    })
}

/// All that a thread can do next.
fn steps(word: u64, hold: Hold) -> Vec<(u64, Hold)> {
    if let (Some(sign), Some((ahead, back, behind))) = (sign(hold), ahead_and_back(hold)) {
        let went_back = back(word).map(|word| (word, behind));
        assert_eq!(went_back.is_none(), sign(word), "either it has its sign or it can go back");
        return went_back.into_iter().chain(sign(word).then_some((word, ahead))).collect();
    }
    let entered = |step: Step, hold| match step {
        Step::To(word) => Some((word, hold)),
        Step::Wait | Step::Full => None,
    };
    let moved = |word: Option<u64>, hold| word.map(|word| (word, hold));
    let traded = |from: u64, to: u64, hold| Some((word - from + to, hold));
    let steps = match hold {
        Hold::Nothing => [
            entered(word::read(word), Hold::Read),
            entered(word::seek(word), Hold::Seek),
            entered(word::write(word), Hold::ToWrite),
            entered(word::write_at_once(word), Hold::Write),
            entered(word::atomic(word), Hold::ToAtomic),
            entered(word::atomic_at_once(word), Hold::Atomic),
        ],
        Hold::Read => [
            traded(READER, 0, Hold::Nothing),
            moved(word::read_to_seek(word), Hold::Seek),
            moved(word::read_to_atomic(word), Hold::ReadToAtomic),
            None,
            None,
            None,
        ],
        Hold::Seek => [
            traded(SEEK, 0, Hold::Nothing),
            traded(SEEK, WRITE, Hold::SeekToWrite),
            traded(SEEK, READER, Hold::Read),
            None,
            None,
            None,
        ],
        Hold::Write => [
            traded(WRITE, 0, Hold::Nothing),
            traded(WRITE, SEEK, Hold::Seek),
            traded(WRITE, READER, Hold::Read),
            None,
            None,
            None,
        ],
        _ => [
            Some((word::atomic_done(word), Hold::Nothing)),
            Some((word::atomic_to_read(word), Hold::ToRead)),
            None,
            None,
            None,
            None,
        ],
    };
    steps.into_iter().flatten().collect()
}

fn check(state: &State) {
    let (word, holds) = state;
    let count = |wanted: Hold| holds.iter().filter(|hold| **hold == wanted).count();
    let (reading, seeking) = (count(Hold::Read), count(Hold::Seek));
    let (writing, changing) = (count(Hold::Write), count(Hold::Atomic));
    assert!(writing == 0 || writing + reading + seeking + changing == 1, "not alone: {state:?}");
    assert!(changing == 0 || reading + seeking == 0, "A beside readers: {state:?}");
    assert!(seeking <= 1, "two seek: {state:?}");
    let is_idle = holds.iter().all(|hold| *hold == Hold::Nothing);
    assert!(!is_idle || *word == 0, "the word is not zero at rest: {state:?}");
}

/// Checks the step of thread `me` against all others that wait.
fn check_step(before: &State, after: u64, me: usize) {
    for (other, hold) in before.1.iter().enumerate().filter(|(other, _)| *other != me) {
        let Some(sign) = sign(*hold) else { continue };
        assert!(!sign(before.0) || sign(after), "thread {other} had its sign: {before:?}");
        let is_new = !sign(before.0) && sign(after);
        assert!(!is_new || Base::turned(before.0, after), "{other} is not called: {before:?}");
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
