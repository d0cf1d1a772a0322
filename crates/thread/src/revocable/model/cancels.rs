//! What a thread does that cancels an owner it has seen, as `take_by_sections` and its siblings of
//! `lock.rs` do with an owner given.

use super::machine::{CPUS, Place, State, Wrong};
use super::program::{At, Step, Thread, number_of, thread_of};
use super::{Means, Mistake, Program};

/// Whether the cancel of the thread's present acquisition has returned.
pub(super) fn is_over(state: &State, me: &Thread, thread: usize) -> bool {
    state.cancelled[thread] & (1 << number_of(me.first)) != 0
}

/// After an exchange: a cancel has taken the lock from the owner that it was given.
pub(super) fn check_victim(state: &mut State, me: &Thread, taken: bool) {
    if !taken || me.target == 0 {
        return;
    }
    let seen = me.seen & !super::program::MARK;
    let victim = state.threads[thread_of(seen)];
    if victim.name == seen && victim.first != me.target {
        state.wrong = Some(Wrong::HitAnother);
    }
}

/// Takes a step of the thread `me`, which is on `cpu`.
pub(super) fn step(state: &mut State, program: Program, cpu: usize, me: &mut Thread) -> Step {
    match me.at {
        At::LookOrigin => {
            me.owner = state.load(cpu, Place::Origin);
            me.at = At::LookAgain;
        }
        At::LookAgain => {
            let same = state.load(cpu, Place::Owner) == me.seen;
            me.at = if same { At::Decide } else { At::Look };
        }
        At::Decide if me.target == 0 => {
            if me.seen == 0 {
                return Step::Ends;
            }
            me.target = me.owner;
            me.at = At::Look;
        }
        At::Decide => me.at = decide(state, program, cpu, me),
        At::GoneBarrier(at) => {
            let target = usize::from(at);
            if !state.is_drained(cpu) || !state.is_drained(target) {
                return Step::Waits;
            }
            if target != cpu {
                state.interrupt(target, program.mistake != Mistake::PlainBarrier);
            }
            me.at = if target + 1 < CPUS { At::GoneBarrier(at + 1) } else { At::Cancelled };
        }
        At::Release => {
            if !state.is_drained(cpu) {
                return Step::Waits;
            }
            state.exchange(Place::Owner, me.name, 0);
            me.at = At::Cancelled;
        }
        _ => {
            state.cancelled[thread_of(me.target)] |= 1 << number_of(me.target);
            return Step::Ends;
        }
    }
    Step::Done
}

/// The word names somebody, and there is an owner to be cancelled.
fn decide(state: &State, program: Program, cpu: usize, me: &Thread) -> At {
    let is_target = match program.mistake {
        Mistake::IgnoresGeneration => me.owner != 0 && thread_of(me.owner) == thread_of(me.target),
        _ => me.owner == me.target,
    };
    if is_target {
        return At::LookRecord;
    }
    if me.seen == 0 {
        return At::Cancelled;
    }
    let seen = me.seen & !super::program::MARK;
    let settled = state.load(cpu, Place::Settled(thread_of(seen))) >= number_of(seen);
    match program.means {
        _ if settled || program.mistake == Mistake::TrustsAbsence => At::Cancelled,
        Means::Sections => At::GoneBarrier(0),
        // Looks again, which is of no use until the other one has gone on.
        Means::Flags => At::Look,
        // The word changes only after its owner's end.
        Means::Signals => At::Cancelled,
    }
}
