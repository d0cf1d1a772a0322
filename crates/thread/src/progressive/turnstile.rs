//! One 64-bit word that threads change, and how they wait for it: the ground of all locks here.
//!
//! Each lock gives the low 60 bits a meaning of its own; the four flags are the same in all.
//!
//! ```text
//!   63      62      61      60    59                                0
//! ┌───────┬───────┬───────┬───────┬──────────────────────────────────┐
//! │ CALL  │INSIDE │CLOSED │ LINE  │       the lock's own fields      │
//! └───────┴───────┴───────┴───────┴──────────────────────────────────┘
//! ```
//!
//! | flag     | set by                 | cleared by           | a thread that sees it            |
//! |----------|------------------------|----------------------|----------------------------------|
//! | `CALL`   | the first in line      | it, or its caller    | calls it when it releases        |
//! | `INSIDE` | a holder that sleeps   | the last one called  | calls those whose sign has come  |
//! | `CLOSED` | the first in line      | the first in line    | gets in line                     |
//! | `LINE`   | the first to get there | the last one to go   | passes, or gets in line if due   |
//!
//! There are two ways to wait.
//!
//! **Outside**, for a hold. An arrival may pass the line as long as the door is open: a thread that
//! runs goes on, which is what keeps the lock fast when threads outnumber processors. A thread that
//! cannot pass spins a little and gets in line. Only the *first in line* acts; the others sleep
//! until they are the first. The first tries, asks to be called (`CALL`) and sleeps; called in
//! vain, it naps and looks from time to time, so that a busy lock is not kept busy with calling.
//!
//! The door closes [`QUANTUM`] after the last turn of the line, in two ways. The first in line sets
//! `CLOSED`. And an arrival that sees `LINE` compares the clock with [`Due`], which holds the same
//! time, and gets in line if it has come. The second way is for a first in line that gets no
//! processor and so cannot set `CLOSED`: it would be passed without end, and all behind it, awake
//! or not, with it. So with *n* in line before it, a thread waits for at most *n* + 1 quanta, as
//! many turns of holders, and until those before it have been given a processor. After the quantum
//! at most 15 more acquisitions pass, since arrivals read the clock at every 16th pass (`due.rs`);
//! as many for each thread that is interrupted between its look at that count and its exchange.
//!
//! **Inside**, for others to move on: a writer for the readers to leave, a joiner for the claim
//! phase. What such a thread holds already keeps anybody from taking its turn away, so its sign
//! (a predicate of the word) stays true once it is true, and whoever makes it true calls it.
//!
//! # Invariants
//!
//! - **I1** Every change of the word is one read-modify-write, so it either comes before a flag is
//!   set, and the one who sets it sees it and does not sleep, or after, and its maker sees the
//!   flag.
//! - **I2** `CLOSED` and `CALL` belong to the first in line: it takes them away as it goes in (in
//!   the same exchange) or gives up; `CALL` goes also with the call.
//! - **I3** `INSIDE` is set exactly while somebody inside is in the list; it changes only behind
//!   the line's mutex.
//! - **I4** A thread that becomes the first in line is woken, and looks at the word before it
//!   sleeps again.
//! - **I5** `LINE` is set exactly while somebody is in the line; it changes only behind the line's
//!   mutex.
//! - **I6** An arrival that does not pass gets in line, whatever made it think that the door is
//!   closed. So a value of [`Due`] that is out of date delays an arrival by a turn at most, and no
//!   wake-up depends on it.

#[cfg(all(test, lockspan_loom))]
mod loom;
#[cfg(all(test, not(any(lockspan_loom, lockspan_shuttle))))]
mod tests;

use core::fmt;
use core::marker::PhantomData;
use std::time::{Duration, Instant};

use lockspan_park::Woken;

use super::due::Due;
use super::line::{self, Line, Place, Sign};
use super::ord;
use crate::spin::{Spin, Yield};
use crate::sync::{AtomicU64, MODEL, Ordering, thread};

const LINE: u64 = 1 << 60;
const CLOSED: u64 = 1 << 61;
const INSIDE: u64 = 1 << 62;
const CALL: u64 = 1 << 63;
pub(super) const FLAGS: u64 = LINE | CLOSED | INSIDE | CALL;
/// Without these an arrival need not ask whether it may pass.
const DOOR: u64 = LINE | CLOSED;

/// How long after a turn of the line arrivals may pass.
pub(super) const QUANTUM: Duration = Duration::from_micros(200);
/// How long the first in line leaves a busy lock alone.
const NAP: Duration = Duration::from_micros(50);

/// How somebody outside comes in, from the word as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The word with the new holder.
    To(u64),
    /// Others have to go first.
    Wait,
    /// The counter is at its end.
    Full,
}

pub(super) type Enter = fn(u64) -> Step;

/// The meaning of a word, as far as waiting goes.
pub(super) trait Meaning {
    /// May be false only if no sign of somebody inside can have become true by this change.
    fn turned(old: u64, new: u64) -> bool;
}

/// The word and those who wait for it.
pub(super) struct Turnstile<M> {
    word: AtomicU64,
    due: Due,
    line: Line,
    meaning: PhantomData<M>,
}

impl<M> Turnstile<M> {
    /// Nobody holds anything.
    #[cfg(not(lockspan_loom))]
    pub(super) const fn new() -> Self {
        Self { word: AtomicU64::new(0), due: Due::new(), line: Line::new(), meaning: PhantomData }
    }

    /// Nobody holds anything; loom's atomics cannot be made at compile time.
    #[cfg(lockspan_loom)]
    pub(super) fn new() -> Self {
        Self { word: AtomicU64::new(0), due: Due::new(), line: Line::new(), meaning: PhantomData }
    }

    /// The lock's own fields; others may change them at any time.
    pub(super) fn fields(&self) -> u64 {
        self.word.load(Ordering::Relaxed) & !FLAGS
    }

    /// Whether nobody holds anything, and nobody waits.
    pub(super) fn is_idle(&self) -> bool {
        self.fields() == 0 && self.line.is_empty()
    }

    #[cfg(test)]
    pub(super) fn assert_at_rest(&self) {
        assert_eq!(self.word.load(Ordering::Acquire), 0, "the word is not zero at rest");
        assert!(self.line.is_empty(), "somebody is left in the line");
    }
}

impl<M> fmt::Debug for Turnstile<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.word.load(Ordering::Relaxed))
    }
}

impl<M: Meaning> Turnstile<M> {
    /// Comes in from outside, past those who wait if the door is open; the new word.
    #[inline]
    pub(super) fn try_enter(&self, step: impl Fn(u64) -> Step, order: Ordering) -> Option<u64> {
        match self.pass(&step, order) {
            Step::To(new) => Some(new),
            Step::Wait => self.try_pass_line(step, order),
            Step::Full => None,
        }
    }

    #[cold]
    fn try_pass_line(&self, step: impl Fn(u64) -> Step, order: Ordering) -> Option<u64> {
        match self.pass_line(step, order) {
            Step::To(new) => Some(new),
            Step::Wait | Step::Full => None,
        }
    }

    /// Comes in from outside, and waits for that as long as it takes; the new word.
    ///
    /// # Panics
    /// If the counter is at its end.
    #[inline]
    pub(super) fn enter(&self, step: Enter, order: Ordering) -> u64 {
        self.enter_unless_full(step, order).unwrap_or_else(|| full())
    }

    /// Like [`enter`](Self::enter), but none if the counter is at its end.
    #[inline]
    pub(super) fn enter_unless_full(&self, step: Enter, order: Ordering) -> Option<u64> {
        self.enter_from(self.word.load(Ordering::Relaxed), step, order)
    }

    /// Like [`enter`](Self::enter), but guesses that the word is 0 instead of loading it first.
    ///
    /// # Panics
    /// If the counter is at its end.
    #[inline]
    pub(super) fn enter_idle(&self, step: Enter, order: Ordering) -> u64 {
        self.enter_from(0, step, order).unwrap_or_else(|| full())
    }

    #[inline]
    fn enter_from(&self, word: u64, step: Enter, order: Ordering) -> Option<u64> {
        match self.pass_from(word, step, order) {
            Step::To(new) => Some(new),
            Step::Wait => self.enter_contended(step, order, None),
            Step::Full => None,
        }
    }

    /// Comes in from outside until `deadline`; the new word, or none if that passed first.
    pub(super) fn enter_until(
        &self,
        step: Enter,
        order: Ordering,
        deadline: Option<Instant>,
    ) -> Option<u64> {
        match self.pass(step, order) {
            Step::To(new) => Some(new),
            // A counter at its end may have room again before the deadline.
            Step::Wait | Step::Full => self.enter_contended(step, order, deadline),
        }
    }

    #[inline]
    fn pass(&self, step: impl Fn(u64) -> Step, order: Ordering) -> Step {
        self.pass_from(self.word.load(Ordering::Relaxed), step, order)
    }

    /// Comes in if nobody is in line. `word` is what the word may be; if it is not, the exchange
    /// says what it is. There is no call in here, so that the compiler keeps all in registers.
    #[inline]
    fn pass_from(&self, mut word: u64, step: impl Fn(u64) -> Step, order: Ordering) -> Step {
        loop {
            if word & DOOR != 0 {
                return Step::Wait;
            }
            let Step::To(new) = step(word) else { return step(word) };
            match self.word.compare_exchange_weak(word, new, order, Ordering::Relaxed) {
                Ok(_) => return Step::To(new),
                Err(now) => word = now,
            }
        }
    }

    /// Comes in past those in line, if the door is open.
    fn pass_line(&self, step: impl Fn(u64) -> Step, order: Ordering) -> Step {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if !self.is_open(word) {
                return Step::Wait;
            }
            let Step::To(new) = step(word) else { return step(word) };
            match self.word.compare_exchange_weak(word, new, order, Ordering::Relaxed) {
                Ok(_) => return Step::To(new),
                Err(now) => word = now,
            }
        }
    }

    /// Whether an arrival that sees `word` may pass those in line.
    fn is_open(&self, word: u64) -> bool {
        word & CLOSED == 0 && (word & LINE == 0 || !self.due.has_come())
    }

    /// Like [`change`](Self::change) for a holder that may not pass those in line: none also if the
    /// door is closed.
    #[inline]
    pub(super) fn change_if_open(&self, next: fn(u64) -> Option<u64>) -> Option<u64> {
        let at_once = |word| if word & DOOR == 0 { next(word) } else { None };
        self.change(Ordering::Relaxed, at_once).or_else(|| self.change_past_line(next))
    }

    #[cold]
    fn change_past_line(&self, next: fn(u64) -> Option<u64>) -> Option<u64> {
        let if_open = |word| if self.is_open(word) { next(word) } else { None };
        self.change(Ordering::Relaxed, if_open)
    }

    #[cold]
    fn enter_contended(
        &self,
        step: Enter,
        order: Ordering,
        deadline: Option<Instant>,
    ) -> Option<u64> {
        let mut spin = Spin::for_a_section();
        loop {
            match self.pass_line(step, order) {
                Step::To(new) => return Some(new),
                // With a deadline it waits in line for one to leave.
                Step::Full if deadline.is_none() => return None,
                Step::Wait | Step::Full if spin.again() => {}
                Step::Wait | Step::Full => break,
            }
        }
        // No `sched_yield` here: before it is in line, a thread that gives its processor away can
        // be passed without end, and newer kernels take tens of milliseconds to give it back.
        Due::prepare();
        let begun = Instant::now();
        let show = |closes| self.show_line(closes);
        let place = self.line.stand(begun, QUANTUM, deadline, show)?;
        let closes = self.line.closes(begun, QUANTUM);
        let entered = self.enter_as_first(&place, step, order, closes, deadline);
        self.line.leave(&place, QUANTUM, entered.is_some(), show);
        entered
    }

    /// Tells arrivals that another thread is the first in line and when the door closes for it, or
    /// that nobody is in line (I5). The caller has the line's mutex.
    fn show_line(&self, closes: Option<Instant>) {
        let Some(closes) = closes else {
            self.word.fetch_and(!LINE, Ordering::Relaxed);
            return;
        };
        self.due.set(closes);
        if self.word.load(Ordering::Relaxed) & LINE == 0 {
            self.word.fetch_or(LINE, Ordering::Relaxed);
        }
    }

    /// What the first in line does.
    fn enter_as_first(
        &self,
        place: &Place,
        step: Enter,
        order: Ordering,
        closes: Instant,
        deadline: Option<Instant>,
    ) -> Option<u64> {
        let mut was_called = false;
        loop {
            line::get_ready(place);
            let now = Instant::now();
            // No clock in a model: shuttle tries the open door first, loom would take too long.
            let is_closing =
                if cfg!(lockspan_shuttle) { was_called } else { MODEL || now >= closes };
            let (flags, until) = match (is_closing, was_called) {
                (true, _) => (CLOSED | CALL, None),
                (false, false) => (CALL, Some(closes)),
                (false, true) => (0, Some(closes.min(now + NAP))),
            };
            if let Some(new) = self.enter_or_ask(step, order, flags) {
                return Some(new);
            }
            if is_closing && line::sleep_until_called(place, deadline) == Woken::TimedOut {
                self.word.fetch_and(!(CLOSED | CALL), Ordering::Relaxed);
                return None;
            }
            if !is_closing {
                let until = until.into_iter().chain(deadline).min();
                line::sleep_until_called(place, until);
                if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                    self.word.fetch_and(!CALL, Ordering::Relaxed);
                    return None;
                }
                was_called = true;
            }
        }
    }

    /// The first in line goes in, through a door that may be closed, and takes its flags away; or
    /// sets `flags`, if it still has to wait.
    fn enter_or_ask(&self, step: Enter, order: Ordering, flags: u64) -> Option<u64> {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let (new, is_in, order) = match step(word) {
                Step::To(new) => (new & !(CLOSED | CALL), true, order),
                Step::Wait | Step::Full => (word & !CALL | flags, false, ord::ASK),
            };
            match self.word.compare_exchange_weak(word, new, order, Ordering::Relaxed) {
                Ok(_) => return is_in.then_some(new),
                Err(now) => word = now,
            }
        }
    }

    /// Changes the word for somebody who holds; the new word, or none if `next` says that it
    /// cannot be. Calls whom that concerns.
    #[inline]
    pub(super) fn change(&self, order: Ordering, next: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let new = next(word)?;
            match self.word.compare_exchange_weak(word, new, order, Ordering::Relaxed) {
                Ok(_) => {
                    self.call(word, new);
                    return Some(new);
                }
                Err(now) => word = now,
            }
        }
    }

    /// Puts `to` into the word in place of `from`: what needs no look at the word first.
    #[inline]
    pub(super) fn trade(&self, from: u64, to: u64, order: Ordering) {
        let more = to.wrapping_sub(from);
        let word = self.word.fetch_add(more, order);
        self.call(word, word.wrapping_add(more));
    }

    /// Calls those whom the change from `old` to `new` may concern.
    #[inline]
    fn call(&self, old: u64, new: u64) {
        if new & (CALL | INSIDE) != 0 {
            self.call_waiting(old, new);
        }
    }

    #[cold]
    fn call_waiting(&self, old: u64, new: u64) {
        if new & INSIDE != 0 && M::turned(old, new) {
            self.line.call_inside(|| self.word.load(Ordering::Relaxed), || self.unmark_inside());
        }
        if new & CALL != 0 {
            self.line.call_first(|| self.word.fetch_and(!CALL, ord::HEED) & CALL != 0);
        }
    }

    /// Waits inside until the word has the sign, or until `deadline`; whether it has it.
    #[inline]
    pub(super) fn settle(&self, sign: Sign, deadline: Option<Instant>) -> bool {
        sign(self.word.load(ord::SETTLE)) || self.settle_contended(sign, deadline)
    }

    /// Whether the word has the sign; what those did who brought it about is visible then.
    #[inline]
    pub(super) fn is_settled(&self, sign: Sign) -> bool {
        sign(self.word.load(ord::SETTLE))
    }

    #[cold]
    fn settle_contended(&self, sign: Sign, deadline: Option<Instant>) -> bool {
        let mut spin = Spin::for_a_section();
        while spin.again() {
            if self.is_settled(sign) {
                return true;
            }
        }
        let mut turns = Yield::until(a_quantum_from(Instant::now(), deadline));
        while turns.again() {
            if self.is_settled(sign) {
                return true;
            }
        }
        let Some(place) = self.line.stay(sign, || self.mark_inside(sign)) else {
            return self.is_settled(sign);
        };
        if line::sleep_until_called(&place, deadline) == Woken::TimedOut {
            self.line.stay_no_more(&place, || self.unmark_inside());
            return self.is_settled(sign);
        }
        // Whoever called has seen the sign; the call alone does not say that we see it too.
        while !self.is_settled(sign) {
            thread::yield_now();
        }
        true
    }

    /// Sets `INSIDE`, unless the word has the sign.
    fn mark_inside(&self, sign: Sign) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while !sign(word) {
            let new = word | INSIDE;
            match self.word.compare_exchange_weak(word, new, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    fn unmark_inside(&self) {
        self.word.fetch_and(!INSIDE, Ordering::Relaxed);
    }
}

/// How long a thread may give its processor away before it sleeps.
fn a_quantum_from(now: Instant, deadline: Option<Instant>) -> Instant {
    let end = now + QUANTUM;
    deadline.map_or(end, |deadline| deadline.min(end))
}

#[cold]
fn full() -> ! {
    panic!("a progressive lock has as many holders as it can count; were guards forgotten?")
}
