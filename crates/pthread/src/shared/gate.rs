//! The line of writers before the process-shared lock: tickets, served in order (G1 to G3).
//!
//! A writer without a deadline draws a ticket and sleeps until it is served. One with a deadline
//! could not give a ticket back, so it waits until the line is empty and draws then. The picture
//! and the transitions are in the header of the lock.

use super::ord;
use crate::clock::Deadline;
use crate::sync::{Half, Ordering, Woken, Word};

/// Tickets are numbers of 31 bits.
const TICKETS: u64 = (1 << 31) - 1;
/// One ticket, in `NEXT`.
const NEXT: u64 = 1 << 32;
/// A writer with a deadline sleeps until the line is empty.
const TIMED: u64 = 1 << 63;

const _: () = assert!((TICKETS * NEXT) & TIMED == 0 && (TICKETS * NEXT) & TICKETS == 0);

/// The class of sleepers that wait for an empty line.
const FOR_EMPTY: u32 = 1 << 31;

/// The class of sleepers with this ticket, and each 31st after it.
fn class(ticket: u64) -> u32 {
    1 << (ticket % 31)
}

fn serving(word: u64) -> u64 {
    word & TICKETS
}

fn next(word: u64) -> u64 {
    (word / NEXT) & TICKETS
}

/// `word` with the next ticket drawn.
fn drawn(word: u64) -> u64 {
    let ticket = (next(word) + 1) & TICKETS;
    (word & !(TICKETS * NEXT)) | (ticket * NEXT)
}

/// The line. All zero is an empty one.
#[repr(transparent)]
#[derive(Debug)]
pub(super) struct Gate(Word);

impl Gate {
    #[cfg(not(lockspan_loom))]
    pub(super) const fn new() -> Self {
        Self(Word::new())
    }

    #[cfg(lockspan_loom)]
    pub(super) fn new() -> Self {
        Self(Word::new())
    }

    /// Whether no writer is in line.
    pub(super) fn is_empty(&self) -> bool {
        let seen = self.0.load(Ordering::Relaxed);
        next(seen) == serving(seen)
    }

    /// Returns as the head of the line (G1, G2), or false if the deadline came first.
    pub(super) fn enter(&self, until: Option<Deadline>) -> bool {
        match until {
            None => {
                self.enter_in_turn();
                true
            }
            Some(_) => self.enter_when_empty(until),
        }
    }

    fn enter_in_turn(&self) {
        let mut seen = self.0.load(Ordering::Relaxed);
        let ticket = loop {
            match self.0.change(seen, drawn(seen), ord::SERVED) {
                Ok(()) => break next(seen),
                Err(now) => seen = now,
            }
        };
        while serving(seen) != ticket {
            self.0.wait(Half::Low, seen, class(ticket), None);
            seen = self.0.load(ord::SERVED);
        }
    }

    fn enter_when_empty(&self, until: Option<Deadline>) -> bool {
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            if next(seen) == serving(seen) {
                match self.0.change(seen, drawn(seen), ord::SERVED) {
                    Ok(()) => return true,
                    Err(now) => seen = now,
                }
            } else if seen & TIMED == 0 {
                match self.0.change(seen, seen | TIMED, Ordering::Relaxed) {
                    Ok(()) => seen |= TIMED,
                    Err(now) => seen = now,
                }
            } else {
                if self.0.wait(Half::Low, seen, FOR_EMPTY, until) == Woken::TimedOut {
                    return false;
                }
                seen = self.0.load(Ordering::Relaxed);
            }
        }
    }

    /// G3: the head leaves the line and the next is woken, if there is one.
    pub(super) fn advance(&self) {
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            let now_serving = (serving(seen) + 1) & TICKETS;
            let empty = now_serving == next(seen);
            let moved = (seen & !TICKETS) | now_serving;
            let new = if empty { moved & !TIMED } else { moved };
            match self.0.change(seen, new, ord::ADVANCE) {
                Ok(()) if !empty => {
                    return Word::wake(&raw const self.0, Half::Low, class(now_serving));
                }
                Ok(()) if seen & TIMED != 0 => {
                    return Word::wake(&raw const self.0, Half::Low, FOR_EMPTY);
                }
                Ok(()) => return,
                Err(now) => seen = now,
            }
        }
    }
}
