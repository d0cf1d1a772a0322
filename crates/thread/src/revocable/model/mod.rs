//! Every order of events of small programs, on a machine with store buffers.
//!
//! The machine has two processors, each with a buffer in which its stores wait before others see
//! them; threads are put on processors, taken off and put on another one; a thread that is taken
//! off, or that a barrier for sections interrupts, leaves the section that it is in. With signals
//! it is one that gets a signal, which comes when the thread is put on a processor, when a barrier
//! interrupts it, or at any moment between. The threads acquire a lock by force and add 1 to a
//! word, by a load and a store. A store that comes too late shows as a sum that is too small.
//!
//! Other threads cancel an owner that they have seen: after that it must not store, nor be told
//! that it owns the lock, and no other owner may be hit. Or they empty the word, as a thread does
//! that goes through the parts of all processors: what they take out counts for the sum.
//!
//! `machine.rs` is the machine, `program.rs` what the threads do, step by step as in `lock.rs` and
//! `ticket.rs`, and `signals.rs` what thieves do that send signals, as in the file of that name.
//! The mistakes are ones that one could make there; each must be found. No stress test finds all of
//! them: the windows are too short.

mod cancels;
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

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Role {
    /// Adds 1 to the word, with one ticket for as long as it owns the lock.
    Adds,
    /// The same, and acquires before each addition.
    AddsAgain,
    /// Takes out what the word has.
    Drains,
    /// Looks who owns the lock, and cancels that owner.
    Cancels,
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
    /// A cancel takes the lock from any owner of the given one's thread.
    IgnoresGeneration,
    /// A cancel that finds another owner does not make sure that the given one is over.
    TrustsAbsence,
    /// A thread that has moved names its acquisition as if it were a new one.
    FollowsAsNew,
    /// An owner stores its first name without looking whether it still owns the lock.
    OriginUnchecked,
    /// An owner that acquires again does not look whether it still owns the lock.
    AcquiresBlindly,
    /// A thread that takes out what the word has looks at it before it has the lock.
    LooksEarly,
}

/// A program: how often each thread adds, how it ends, how many names it may use up before it gives
/// up, and how often one may be taken off its processor.
#[derive(Clone, Copy, Debug)]
struct Program {
    means: Means,
    adds: [u8; 3],
    roles: [Role; 3],
    ending: Ending,
    names: u8,
    moves: u8,
    mistake: Mistake,
}

impl Program {
    /// Only a cancel reads an acquisition's first name: without one, nobody stores it.
    fn has_cancel(&self) -> bool {
        self.roles.contains(&Role::Cancels)
    }
}

/// Goes through all states; the number of them, or the sum and what it should be. Of states that it
/// has seen it keeps a number of 64 bits each.
fn explore(program: Program) -> Result<usize, String> {
    let hasher = FixedState::default();
    let mut seen = HashSet::with_hasher(fast::FixedState::default());
    let mut stack = vec![State::new(program)];
    while let Some(state) = stack.pop() {
        let (mut last, mut wrong) = (true, None);
        state.successors(program, |next| {
            last = false;
            wrong = wrong.or(next.wrong);
            if seen.insert(hasher.hash_one(next)) {
                stack.push(next);
            }
        });
        if let Some(wrong) = wrong {
            return Err(format!("{program:?}: {wrong:?}"));
        }
        if last {
            state.check_end().map_err(|wrong| format!("{program:?}: {wrong}"))?;
        }
    }
    Ok(seen.len())
}

const SECTIONS: Program = Program {
    means: Means::Sections,
    adds: [1, 0, 1],
    roles: [Role::Adds; 3],
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
    assert_found_by(&programs(base), mistakes);
}

fn assert_found_by(programs: &[Program], mistakes: &[Mistake]) {
    for mistake in mistakes {
        let mut programs = programs.iter().map(|program| Program { mistake: *mistake, ..*program });
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

/// Programs with a thread that cancels an owner, in place of the second one.
fn with_cancel(base: Program) -> [Program; 3] {
    use Role::*;
    [
        Program { adds: [1, 1, 0], roles: [Adds, Cancels, Adds], moves: 2, names: 3, ..base },
        Program { adds: [2, 1, 0], roles: [AddsAgain, Cancels, Adds], moves: 1, names: 3, ..base },
        Program { adds: [1, 1, 1], roles: [Adds, Cancels, Adds], moves: 1, names: 2, ..base },
    ]
}

/// Programs with a thread that empties the word.
fn drains(base: Program) -> [Program; 2] {
    use Role::*;
    [
        Program { adds: [2, 1, 0], roles: [Adds, Drains, Adds], moves: 1, names: 3, ..base },
        Program { adds: [2, 1, 0], roles: [AddsAgain, Drains, Adds], moves: 1, names: 3, ..base },
    ]
}

/// Programs of three threads are for the release profile.
fn assert_all_sound(programs: &[Program]) {
    let brief = |program: &&Program| !cfg!(debug_assertions) || program.adds.contains(&0);
    for program in programs.iter().filter(brief) {
        let states = explore(*program).unwrap_or_else(|wrong| panic!("{wrong}"));
        println!("{states} states: {program:?}");
        assert!(states > 500, "{program:?}: {states} states are too few to mean anything");
    }
}

#[test]
fn a_cancel_ends_the_owner_that_it_was_given_and_no_other() {
    for base in [SECTIONS, FLAGS, SIGNALS] {
        for ending in [Ending::Keeps, Ending::Releases, Ending::ReleasesAll] {
            assert_all_sound(&with_cancel(Program { ending, ..base }));
        }
    }
}

#[test]
fn a_thread_that_empties_the_word_finds_every_store() {
    for base in [SECTIONS, FLAGS, SIGNALS] {
        assert_all_sound(&drains(base));
    }
}

#[test]
fn each_mistake_of_a_cancel_is_found() {
    use Mistake::*;
    // An owner that releases the lock and gets it again is another one.
    let released = with_cancel(Program { ending: Ending::Releases, ..SECTIONS });
    let again = released.map(|program| Program { adds: [2, 1, 0], ..program });
    assert_found_by(&again, &[IgnoresGeneration]);
    assert_found_by(&with_cancel(SECTIONS), &[FollowsAsNew, AcquiresBlindly]);
    assert_found_by(&with_cancel(SECTIONS), &[NoBarrier, PlainBarrier, TrustsUnsettled]);
    assert_found_by(&with_cancel(FLAGS), &[AcquiresBlindly, NoWait]);
    assert_found_by(&with_cancel(SIGNALS), &[AcquiresBlindly, NoSignal, SwapsFirst]);
    // These need a third thread, which takes the lock while the first one takes it or is robbed.
    let third = |base, moves| [Program { moves, ..with_cancel(base)[2] }];
    assert_found_by(&third(SECTIONS, 2), &[TrustsAbsence]);
    assert_found_by(&third(FLAGS, 2), &[TrustsAbsence]);
    assert_found_by(&third(SECTIONS, 4), &[OriginUnchecked]);
}

#[test]
fn a_thread_that_looks_before_it_takes_the_lock_misses_a_store() {
    for base in [SECTIONS, FLAGS, SIGNALS] {
        assert_found_by(&drains(base), &[Mistake::LooksEarly]);
    }
}
