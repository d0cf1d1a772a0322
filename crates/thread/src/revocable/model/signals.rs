//! What a thief does that sends signals.

use super::Mistake;
use super::machine::{CPUS, Place, State};
use super::program::{At, MARK, Step, Thread, thread_of};

/// Where it begins, after it has looked at the lock and has made a name.
pub(super) fn first(seen: u8, mistake: Mistake) -> At {
    match mistake {
        Mistake::SwapsFirst => At::Install,
        Mistake::TrustsMark if seen & MARK != 0 => At::Install,
        _ if seen & MARK != 0 => see_to_the_end(mistake),
        _ => At::Mark,
    }
}

fn see_to_the_end(mistake: Mistake) -> At {
    match mistake {
        Mistake::NoFirstBarrier => At::LookFlag,
        _ => At::FirstBarrier(0),
    }
}

/// Takes a step of the thread `me`, which is on `cpu`.
pub(super) fn step(state: &mut State, mistake: Mistake, cpu: usize, me: &mut Thread) -> Step {
    let swaps_first = mistake == Mistake::SwapsFirst;
    let after_all = if swaps_first { At::Settle } else { At::Install };
    match me.at {
        At::Mark | At::Install if !state.is_drained(cpu) => return Step::Waits,
        At::Mark => {
            let marked = state.exchange(Place::Owner, me.seen, me.seen | MARK);
            me.seen |= MARK;
            me.at = if marked { see_to_the_end(mistake) } else { At::Look };
        }
        At::FirstBarrier(target) | At::SecondBarrier(target) => {
            let at = usize::from(target);
            if !state.is_drained(cpu) || !state.is_drained(at) {
                return Step::Waits;
            }
            if at != cpu {
                state.interrupt(at, false);
            }
            me.at = match me.at {
                At::FirstBarrier(_) if at + 1 < CPUS => At::FirstBarrier(target + 1),
                At::FirstBarrier(_) => At::LookFlag,
                _ if at + 1 < CPUS => At::SecondBarrier(target + 1),
                _ => after_all,
            };
        }
        At::LookFlag => {
            let is_up = state.load(cpu, Place::Flag(thread_of(me.seen & !MARK))) != 0;
            me.at = match mistake {
                _ if !is_up => after_all,
                Mistake::NoSignal => At::SecondBarrier(0),
                _ => At::Send,
            };
        }
        At::Send => {
            state.pending[thread_of(me.seen & !MARK)] = true;
            me.at = match mistake {
                Mistake::NoSecondBarrier => after_all,
                _ => At::SecondBarrier(0),
            };
        }
        At::Install => {
            let taken = state.exchange(Place::Owner, me.seen, me.name);
            me.at = match taken {
                false => At::Look,
                true if swaps_first => see_to_the_end(mistake),
                true => At::Settle,
            };
        }
        _ => {}
    }
    Step::Done
}
