//! What a thread does, a step at a time. A step reads or writes one place, or several of a record
//! that only grow.

use super::machine::{CPUS, Place, State};
use super::{Ending, Means, Mistake, Program, signals};

/// What became of a step.
pub(super) enum Step {
    Done,
    /// It cannot be taken now.
    Waits,
    Ends,
}

/// Where a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum At {
    /// Looks where it is and who owns the lock.
    Look,
    /// Looks at the record of that one, and makes a name.
    LookRecord,
    /// Exchanges the word for its name.
    Exchange,
    /// In a section: compares the processor, then exchanges.
    ExchangeHere,
    /// Sends the barrier, processor by processor.
    Barrier(u8),
    /// Waits for the victim's flag.
    WaitFlag,
    /// With signals: marks the word, sends a barrier, looks at the flag, sends a signal and another
    /// barrier, and exchanges the marked word.
    Mark,
    FirstBarrier(u8),
    LookFlag,
    Send,
    SecondBarrier(u8),
    Install,
    Settle,
    /// Loads the word, and looks whether it was the owner then.
    Load,
    CheckLoad,
    /// In a section, or with the flag up: checks, and stores.
    Enter,
    CheckOwner,
    Store,
    /// Has moved: makes a new name and exchanges the old one for it.
    Follow,
    FollowExchange,
    FollowSettle,
    /// Gives the lock back.
    End,
    Ended,
}

/// How to take the lock from its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Way {
    Free,
    Here,
    On(u8),
    Anywhere,
}

/// A thread's registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Thread {
    pub(super) at: At,
    adds: u8,
    /// The numbers of its names begin at 1.
    number: u8,
    pub(super) name: u8,
    pub(super) seen: u8,
    pub(super) way: Way,
    /// The processor that it took itself to be on.
    cpu: u8,
    value: u8,
}

impl Thread {
    pub(super) fn new(adds: u8) -> Self {
        let at = if adds == 0 { At::Ended } else { At::Look };
        Self { at, adds, number: 0, name: 0, seen: 0, way: Way::Free, cpu: 0, value: 0 }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.at == At::Ended
    }

    /// Leaves the section that it is in, if any: back to where that begins.
    pub(super) fn abort(&mut self) {
        match self.at {
            At::CheckOwner | At::Store => self.at = At::Enter,
            At::ExchangeHere => self.at = At::Exchange,
            _ => {}
        }
    }
}

/// Beside a name in the lock's word.
pub(super) const MARK: u8 = 128;

/// A name is its thread and number.
fn name(thread: usize, number: u8) -> u8 {
    (thread as u8 + 1) * 8 + number
}

pub(super) fn thread_of(name: u8) -> usize {
    usize::from(name / 8) - 1
}

fn number_of(name: u8) -> u8 {
    name % 8
}

/// Takes the next step of `thread`, which is on `cpu`.
pub(super) fn step(state: &mut State, program: Program, cpu: usize, thread: usize) -> Step {
    let mistake = program.mistake;
    let flags = program.means != Means::Sections;
    let signals = program.means == Means::Signals;
    let mut me = state.threads[thread];
    if !state.has_room(cpu) {
        return Step::Waits;
    }
    match me.at {
        At::Look => {
            me.cpu = cpu as u8;
            me.seen = state.load(cpu, Place::Owner);
            me.way = Way::Free;
            if me.seen != 0 {
                me.at = At::LookRecord;
            } else if !make_name(state, program, (cpu, thread), &mut me) {
                return ends(state, thread);
            }
        }
        At::LookRecord => {
            let victim = me.seen & !MARK;
            let (victim, number) = (thread_of(victim), number_of(victim));
            let released = number < state.load(cpu, Place::Floor(victim));
            let settled = state.load(cpu, Place::Settled(victim)) >= number
                || mistake == Mistake::TrustsUnsettled;
            let (start, bound) = era_of(state.load(cpu, Place::Era(victim)));
            me.way = match bound {
                _ if released || victim == thread => Way::Free,
                _ if flags && !signals && !settled => {
                    // Looks again, which is of no use until the other one has gone on.
                    me.at = At::Look;
                    state.threads[thread] = me;
                    return Step::Done;
                }
                _ if flags || !settled || number < start => Way::Anywhere,
                bound if bound == me.cpu => Way::Here,
                bound => Way::On(bound),
            };
            if !make_name(state, program, (cpu, thread), &mut me) {
                return ends(state, thread);
            }
            if signals && me.way != Way::Free {
                me.at = signals::first(me.seen, mistake);
            } else if mistake == Mistake::BarrierFirst && !matches!(me.way, Way::Free | Way::Here) {
                me.at = At::Barrier(0);
            }
        }
        At::Exchange => {
            if me.way == Way::Here {
                let moved = usize::from(me.cpu) != cpu;
                let careless = mistake == Mistake::ExchangesAnywhere;
                me.at = if moved && !careless { At::Look } else { At::ExchangeHere };
                state.threads[thread] = me;
                return Step::Done;
            }
            if !state.is_drained(cpu) {
                return Step::Waits;
            }
            me.at = if !state.exchange(Place::Owner, me.seen, me.name) {
                At::Look
            } else if mistake == Mistake::SettlesFirst {
                At::Settle
            } else {
                after_exchange(me.way, mistake, flags)
            };
        }
        At::ExchangeHere => {
            if !state.is_drained(cpu) {
                return Step::Waits;
            }
            let taken = state.exchange(Place::Owner, me.seen, me.name);
            me.at = if taken { At::Settle } else { At::Look };
        }
        At::Barrier(at) => {
            let target = usize::from(at);
            if !state.is_drained(cpu) || !state.is_drained(target) {
                return Step::Waits;
            }
            let meant = !matches!(me.way, Way::On(one) if one != at);
            let aborts = !flags && mistake != Mistake::PlainBarrier;
            if meant && target != cpu {
                state.interrupt(target, aborts);
            }
            me.at = match target + 1 < CPUS {
                true => At::Barrier(at + 1),
                false if mistake == Mistake::BarrierFirst => {
                    me.way = Way::Free;
                    At::Exchange
                }
                false if flags && mistake != Mistake::NoWait => At::WaitFlag,
                false if mistake == Mistake::SettlesFirst => At::Load,
                false => At::Settle,
            };
        }
        At::Mark
        | At::FirstBarrier(_)
        | At::LookFlag
        | At::Send
        | At::SecondBarrier(_)
        | At::Install => match signals::step(state, mistake, cpu, &mut me) {
            Step::Done => {}
            other => return other,
        },
        At::WaitFlag => {
            if state.load(cpu, Place::Flag(thread_of(me.seen))) != 0 {
                return Step::Waits;
            }
            me.at = At::Settle;
        }
        At::Settle => {
            state.store(cpu, Place::Settled(thread), number_of(me.name));
            me.at = match me.way {
                Way::On(_) | Way::Anywhere if mistake == Mistake::SettlesFirst => At::Barrier(0),
                _ => At::Load,
            };
        }
        At::Load => {
            me.value = state.load(cpu, Place::Word);
            me.at = At::CheckLoad;
        }
        At::CheckLoad => {
            let owns = state.load(cpu, Place::Owner) == me.name;
            me.at = if owns { At::Enter } else { At::Look };
        }
        At::Enter if flags => {
            if mistake != Mistake::FlagLate {
                state.store(cpu, Place::Flag(thread), 1);
            }
            me.at = At::CheckOwner;
        }
        At::Enter => {
            let here = usize::from(me.cpu) == cpu || mistake == Mistake::NoProcessorCheck;
            me.at = if here { At::CheckOwner } else { At::Follow };
        }
        At::CheckOwner => {
            let owns = state.load(cpu, Place::Owner) == me.name || mistake == Mistake::NoCheck;
            if flags && (!owns || mistake == Mistake::FlagShort) {
                state.store(cpu, Place::Flag(thread), 0);
            }
            me.at = if owns { At::Store } else { At::Look };
        }
        At::Store => {
            if mistake == Mistake::FlagLate {
                state.store(cpu, Place::Flag(thread), 1);
            }
            state.store(cpu, Place::Word, me.value + 1);
            if flags {
                state.store(cpu, Place::Flag(thread), 0);
            }
            state.stored += 1;
            me.adds -= 1;
            me.at = if me.adds == 0 { At::End } else { At::Load };
        }
        At::Follow => {
            me.seen = me.name;
            me.cpu = cpu as u8;
            if mistake == Mistake::FollowsBlindly {
                me.at = At::Enter;
            } else if !make_name(state, program, (cpu, thread), &mut me) {
                return ends(state, thread);
            } else {
                me.at = At::FollowExchange;
            }
        }
        At::FollowExchange => {
            if !state.is_drained(cpu) {
                return Step::Waits;
            }
            let kept = state.exchange(Place::Owner, me.seen, me.name);
            me.at = if kept { At::FollowSettle } else { At::Look };
        }
        At::FollowSettle => {
            state.store(cpu, Place::Settled(thread), number_of(me.name));
            me.at = At::Enter;
        }
        At::End => {
            match program.ending {
                Ending::Keeps => {}
                Ending::Releases if !state.is_drained(cpu) => return Step::Waits,
                Ending::Releases => {
                    state.exchange(Place::Owner, me.name, 0);
                }
                Ending::ReleasesAll => state.store(cpu, Place::Floor(thread), me.number + 1),
            }
            return ends(state, thread);
        }
        At::Ended => return Step::Ends,
    }
    state.threads[thread] = me;
    Step::Done
}

fn after_exchange(way: Way, mistake: Mistake, flags: bool) -> At {
    match way {
        Way::Free | Way::Here => At::Settle,
        _ if mistake == Mistake::NoBarrier && flags => At::WaitFlag,
        _ if mistake == Mistake::NoBarrier => At::Settle,
        _ => At::Barrier(0),
    }
}

/// Nothing of a thread's registers matters after its end.
fn ends(state: &mut State, thread: usize) -> Step {
    state.threads[thread] = Thread::new(0);
    Step::Ends
}

/// A new name, bound to the processor that the thread took itself to be on; false if that would be
/// one too many. Then comes the exchange.
fn make_name(
    state: &mut State,
    program: Program,
    (cpu, thread): (usize, usize),
    me: &mut Thread,
) -> bool {
    if me.number == program.names {
        return false;
    }
    me.number += 1;
    me.name = name(thread, me.number);
    me.at = At::Exchange;
    let (start, bound) = era_of(state.load(cpu, Place::Era(thread)));
    if start == 0 || bound != me.cpu {
        state.store(cpu, Place::Era(thread), me.number * 8 + me.cpu);
    }
    true
}

/// The first number of an era, 0 before there is one, and its processor.
fn era_of(word: u8) -> (u8, u8) {
    (word / 8, word % 8)
}
