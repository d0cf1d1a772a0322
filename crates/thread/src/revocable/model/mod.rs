//! Every order of events of small programs, on a machine with store buffers.
//!
//! The machine has two processors, each with a buffer in which its stores wait before others see
//! them; threads are put on processors, taken off and put on another one; a thread that is taken
//! off, or that a barrier for sections interrupts, leaves the section that it is in. With signals
//! it is one that gets a signal, which comes when the thread is put on a processor, when a barrier
//! interrupts it, or at any moment between. The threads acquire a lock by force and add 1 to a
//! word, by a load and a store. A store that comes too late shows as a sum that is too small.
//!
//! `machine.rs` is the machine, `program.rs` what the threads do, step by step as in `lock.rs` and
//! `ticket.rs`, and `signals.rs` what thieves do that send signals, as in the file of that name.
//! The mistakes are ones that one could make there; each must be found. No stress test finds all of
//! them: the windows are too short.

mod machine;
mod program;
mod signals;

use std::collections::HashSet;
use std::hash::BuildHasher as _;

use foldhash::fast;
use foldhash::quality::FixedState;

use self::machine::State;

/// What the threads have in place of sections of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Means {
    Sections,
    Flags,
    Signals,
}

/// How a thread ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Keeps,
    Releases,
    ReleasesAll,
}

/// Something done wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    Nothing,
    /// A thief sends no barrier.
    NoBarrier,
    /// A thief sends a barrier that aborts no section.
    PlainBarrier,
    /// A thief sends the barrier before it exchanges the word.
    BarrierFirst,
    /// A thief tells that it has settled before it sends the barrier.
    SettlesFirst,
    /// A thief takes a name that has not settled for bound to its processor.
    TrustsUnsettled,
    /// A store does not look who owns the lock.
    NoCheck,
    /// A store does not look on which processor it is.
    NoProcessorCheck,
    /// A thief on the victim's processor does not look whether it is still there.
    ExchangesAnywhere,
    /// A thread that has moved takes the lock for its own without an exchange.
    FollowsBlindly,
    /// A thief does not wait for the flag.
    NoWait,
    /// An owner raises the flag after it has looked who owns the lock.
    FlagLate,
    /// An owner lowers the flag before its store.
    FlagShort,
    /// A thief sends no signal.
    NoSignal,
    /// A thief looks at the flag without a barrier before.
    NoFirstBarrier,
    /// A thief does not make sure that a running owner hears of the signal.
    NoSecondBarrier,
    /// A thief exchanges the word for its name first, and sees to the owner's end after that.
    SwapsFirst,
    /// A thief that finds a mark takes it for proof that the owner's end was seen to.
    TrustsMark,
}

/// A program: how often each thread adds, how it ends, how many names it may use up before it gives
/// up, and how often one may be taken off its processor.
#[derive(Clone, Copy, Debug)]
struct Program {
    means: Means,
    adds: [u8; 3],
    ending: Ending,
    names: u8,
    moves: u8,
    mistake: Mistake,
}

/// Goes through all states; the number of them, or the sum and what it should be. Of states that it
/// has seen it keeps a number of 64 bits each.
fn explore(program: Program) -> Result<usize, String> {
    let hasher = FixedState::default();
    let mut seen = HashSet::with_hasher(fast::FixedState::default());
    let mut stack = vec![State::new(program)];
    while let Some(state) = stack.pop() {
        let mut last = true;
        state.successors(program, |next| {
            last = false;
            if seen.insert(hasher.hash_one(next)) {
                stack.push(next);
            }
        });
        if last {
            state.check_end().map_err(|wrong| format!("{program:?}: {wrong}"))?;
        }
    }
    Ok(seen.len())
}

const SECTIONS: Program = Program {
    means: Means::Sections,
    adds: [1, 0, 1],
    ending: Ending::Keeps,
    names: 3,
    moves: 2,
    mistake: Mistake::Nothing,
};

const FLAGS: Program = Program { means: Means::Flags, moves: 1, ..SECTIONS };

const SIGNALS: Program = Program { means: Means::Signals, moves: 1, ..SECTIONS };

/// The first and second thread are on processors at the start; the third one waits for a place.
fn programs(base: Program) -> [Program; 3] {
    [
        base,
        Program { adds: [2, 1, 0], moves: 1, ..base },
        Program { adds: [1, 1, 1], moves: 1, names: 2, ..base },
    ]
}

/// Programs of three threads have a million states: without optimisation one ending must do.
fn assert_sound(base: Program) {
    let brief = cfg!(debug_assertions) && base.ending != Ending::Keeps;
    for program in programs(base).into_iter().filter(|program| !brief || program.names > 2) {
        let states = explore(program).unwrap_or_else(|wrong| panic!("{wrong}"));
        println!("{states} states: {program:?}");
        assert!(states > 1_000, "{program:?}: {states} states are too few to mean anything");
    }
}

fn assert_found(base: Program, mistakes: &[Mistake]) {
    for mistake in mistakes {
        let mut programs = programs(Program { mistake: *mistake, ..base }).into_iter();
        let found = programs.find_map(|program| explore(program).err());
        println!("{}", found.unwrap_or_else(|| panic!("{mistake:?} was not found")));
    }
}

#[test]
fn with_sections_no_store_comes_too_late() {
    for ending in [Ending::Keeps, Ending::Releases, Ending::ReleasesAll] {
        assert_sound(Program { ending, ..SECTIONS });
    }
}

#[test]
fn with_flags_no_store_comes_too_late() {
    for ending in [Ending::Keeps, Ending::Releases, Ending::ReleasesAll] {
        assert_sound(Program { ending, ..FLAGS });
    }
}

#[test]
fn with_sections_each_mistake_is_found() {
    use Mistake::*;
    let mistakes = [NoBarrier, PlainBarrier, BarrierFirst, SettlesFirst, TrustsUnsettled];
    assert_found(SECTIONS, &mistakes);
    assert_found(SECTIONS, &[NoCheck, NoProcessorCheck, ExchangesAnywhere, FollowsBlindly]);
}

#[test]
fn with_flags_each_mistake_is_found() {
    use Mistake::*;
    assert_found(FLAGS, &[NoBarrier, BarrierFirst, TrustsUnsettled]);
    assert_found(FLAGS, &[NoCheck, NoWait, FlagLate, FlagShort]);
}

#[test]
fn with_signals_no_store_comes_too_late() {
    for ending in [Ending::Keeps, Ending::Releases, Ending::ReleasesAll] {
        assert_sound(Program { ending, ..SIGNALS });
    }
}

#[test]
fn with_signals_each_mistake_is_found() {
    use Mistake::*;
    assert_found(SIGNALS, &[NoSignal, NoFirstBarrier, NoSecondBarrier, SwapsFirst, TrustsMark]);
    assert_found(SIGNALS, &[NoCheck, FlagLate]);
}
