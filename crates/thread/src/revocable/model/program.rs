//! What a thread does, a step at a time. A step reads or writes one place, or several of a record
//! that only grow.

use super::machine::{CPUS, Place, State, Wrong};
use super::{Ending, Means, Mistake, Program, Role, cancels, signals};

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
    /// Stores its first name, in a section; or has moved, and begins another acquisition.
    OriginEnter,
    OriginCheck,
    OriginStore,
    OriginMoved,
    OriginExchange,
    /// Looks whether it is still the owner, before another addition.
    Again,
    /// A cancel: reads the first name of a name that has moved, and looks whether that is still
    /// there; decides; makes sure that the owner that has gone is over; releases what it took; has
    /// returned.
    LookOrigin,
    LookAgain,
    Decide,
    GoneBarrier(u8),
    Release,
    Cancelled,
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
    /// Gives the lock back, and acquires it again.
    Between,
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
    pub(super) role: Role,
    adds: u8,
    /// The numbers of its names begin at 1.
    number: u8,
    pub(super) name: u8,
    /// The first name of the acquisition.
    pub(super) first: u8,
    pub(super) seen: u8,
    /// The owner in `seen`, and the one that is to be cancelled.
    pub(super) owner: u8,
    pub(super) target: u8,
    pub(super) way: Way,
    /// The processor that it took itself to be on.
    cpu: u8,
    value: u8,
}

impl Thread {
    pub(super) fn new(adds: u8, role: Role) -> Self {
        let at = if adds == 0 { At::Ended } else { At::Look };
        let way = Way::Free;
        let (number, name, first, seen, owner, target, cpu, value) = (0, 0, 0, 0, 0, 0, 0, 0);
        Self { at, role, adds, number, name, first, seen, owner, target, way, cpu, value }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.at == At::Ended
    }

    /// Leaves the section that it is in, if any: back to where that begins.
    pub(super) fn abort(&mut self) {
        match self.at {
            At::CheckOwner | At::Store => self.at = At::Enter,
            At::OriginCheck | At::OriginStore => self.at = At::OriginEnter,
            At::ExchangeHere => self.at = At::Exchange,
            _ => {}
        }
    }
}

/// Beside a name in the lock's word.
pub(super) const MARK: u8 = 128;

/// In a name: the acquisition had another one before.
pub(super) const MOVED: u8 = 1;

/// A name is its thread, its number and whether it has moved.
fn name(thread: usize, number: u8) -> u8 {
    (thread as u8 + 1) * 16 + number * 2
}

pub(super) fn thread_of(name: u8) -> usize {
    usize::from(name / 16) - 1
}

pub(super) fn number_of(name: u8) -> u8 {
    name % 16 / 2
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
            if mistake == Mistake::LooksEarly && me.role == Role::Drains {
                me.value = state.load(cpu, Place::Word);
            }
            if me.role == Role::Cancels {
                me.owner = me.seen & !MARK;
                me.at = if me.seen & MOVED != 0 { At::LookOrigin } else { At::Decide };
            } else if me.seen != 0 {
                me.at = At::LookRecord;
            } else if !make_name(state, program, (cpu, thread), &mut me) {
                return ends(state, thread);
            }
        }
        At::LookRecord => {
            let victim = me.seen & !MARK;
            let (victim, number) = (thread_of(victim), number_of(victim));
            let released = number < state.load(cpu, Place::Floor(victim));
            if released && me.role == Role::Cancels {
                me.at = At::Cancelled;
                state.threads[thread] = me;
                return Step::Done;
            }
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
            let taken = state.exchange(Place::Owner, me.seen, me.name);
            cancels::check_victim(state, &me, taken);
            me.at = if !taken {
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
            cancels::check_victim(state, &me, taken);
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
                _ if me.role == Role::Cancels => At::Release,
                _ if program.has_cancel() && !flags => At::OriginEnter,
                _ if mistake == Mistake::LooksEarly && me.role == Role::Drains => At::Enter,
                _ => At::Load,
            };
        }
        At::OriginEnter => {
            let here = usize::from(me.cpu) == cpu;
            me.at = match mistake {
                Mistake::OriginUnchecked => At::OriginStore,
                _ if here => At::OriginCheck,
                _ => At::OriginMoved,
            };
        }
        At::OriginCheck => {
            let owns = state.load(cpu, Place::Owner) == me.name;
            me.at = if owns { At::OriginStore } else { At::Look };
        }
        At::OriginStore => {
            state.store(cpu, Place::Origin, me.name);
            me.at = At::Load;
        }
        At::OriginMoved => {
            me.seen = me.name;
            me.cpu = cpu as u8;
            if !make_name(state, program, (cpu, thread), &mut me) {
                return ends(state, thread);
            }
            me.at = At::OriginExchange;
        }
        At::OriginExchange => {
            if !state.is_drained(cpu) {
                return Step::Waits;
            }
            let kept = state.exchange(Place::Owner, me.seen, me.name);
            me.way = Way::Free;
            me.at = if kept { At::Settle } else { At::Look };
        }
        At::Again => {
            let seen = state.load(cpu, Place::Owner);
            let is_own = seen != 0 && seen & MARK == 0 && thread_of(seen) == thread;
            me.at = if is_own || mistake == Mistake::AcquiresBlindly { At::Load } else { At::Look };
            if me.at == At::Load && cancels::is_over(state, &me, thread) {
                state.wrong = Some(Wrong::OwnsAfterCancel);
            }
        }
        At::LookOrigin
        | At::LookAgain
        | At::Decide
        | At::GoneBarrier(_)
        | At::Release
        | At::Cancelled => match cancels::step(state, program, cpu, &mut me) {
            Step::Done => {}
            Step::Ends => return ends(state, thread),
            Step::Waits => return Step::Waits,
        },
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
            if cancels::is_over(state, &me, thread) {
                state.wrong = Some(Wrong::StoredAfterCancel);
            }
            if me.role == Role::Drains {
                state.store(cpu, Place::Word, 0);
                state.drained += me.value;
            } else {
                state.store(cpu, Place::Word, me.value + 1);
                state.stored += 1;
            }
            if flags {
                state.store(cpu, Place::Flag(thread), 0);
            }
            me.adds -= 1;
            me.at = match me.role {
                _ if me.adds == 0 => At::End,
                // As after a release, another acquisition.
                Role::Adds if program.ending == Ending::Releases => At::Between,
                Role::AddsAgain => At::Again,
                _ => At::Load,
            };
        }
        At::Follow => {
            me.seen = me.name;
            me.cpu = cpu as u8;
            if mistake == Mistake::FollowsBlindly {
                me.at = At::Enter;
            } else {
                let first = me.first;
                if !make_name(state, program, (cpu, thread), &mut me) {
                    return ends(state, thread);
                }
                me.first = first;
                if mistake != Mistake::FollowsAsNew {
                    me.name |= MOVED;
                }
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
        At::Between => {
            if !state.is_drained(cpu) {
                return Step::Waits;
            }
            state.exchange(Place::Owner, me.name, 0);
            me.at = At::Look;
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
    state.threads[thread] = Thread::new(0, Role::Adds);
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
    me.first = me.name;
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
