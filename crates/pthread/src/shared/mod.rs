//! Phase-fair read-write lock for threads of several processes: no pointers, shared futexes.
//!
//! Use it where a lock lies in memory that processes share (`PTHREAD_PROCESS_SHARED`). Inside one
//! process the lock of `lockspan-thread` serves in order of arrival and knows its waiters by name;
//! this one cannot, as nothing in it may depend on where it is mapped.
//!
//! # State words
//!
//! `main` says who is in and which readers wait, `gate` puts the writers in line.
//!
//! ```text
//! main  63            38 37           20 19            2    1        0
//!      ┌────────────────┬───────────────┬───────────────┬────────┬────────┐
//!      │     PHASE      │    WAITING    │    READERS    │ CLOSED │ WRITER │
//!      └────────────────┴───────────────┴───────────────┴────────┴────────┘
//!       ◄─ high half: waiting readers ─► ◄─ low half: the head writer ──►
//!
//! gate   63    62                32 31                                0
//!      ┌───────┬──────────────────┬──────────────────────────────────┐
//!      │ TIMED │       NEXT       │             SERVING              │
//!      └───────┴──────────────────┴──────────────────────────────────┘
//!                                  ◄─ low half: writers in line ────►
//! ```
//!
//! | WRITER | CLOSED | READERS | WAITING | name    | who may touch the data, who comes next     |
//! |:------:|:------:|:-------:|:-------:|---------|--------------------------------------------|
//! |   0    |   0    |    0    |    0    | Free    | nobody; the next to come                   |
//! |   0    |   0    |    n    |    0    | Shared  | n readers; more readers                    |
//! |   0    |   1    |  n > 0  |    m    | Draining| n readers; then the head writer            |
//! |   0    |   1    |    0    |    m    | Handed  | nobody; the head writer, being woken       |
//! |   1    |   0    |    0    |    m    | Written | one writer; then the m readers             |
//! |   1    |   1    |    0    |    m    | Claimed | one writer; the m readers, then the head   |
//!
//! The *head* is the writer whose ticket `SERVING` shows. Gate: `NEXT` is the next ticket to give,
//! `NEXT = SERVING` an empty line, `TIMED` says that somebody without a ticket sleeps for that.
//!
//! # Invariants
//!
//! - **I1** `WRITER ⇒ READERS = 0`.
//! - **I2** only the head sets `CLOSED`, and it is clear again before `SERVING` moves on.
//! - **I3** `WAITING > 0 ⇒ WRITER or CLOSED`: no reader waits at an open door.
//! - **I4** `READERS + WAITING ≤ MOST_READERS`: to admit all who wait never overflows.
//! - **I5** a reader that waits since phase p is counted in `WAITING` while `PHASE = p`, and in
//!   `READERS` from the first change of `PHASE` on.
//! - **I6** after the step that gives up its hold, a thread does not touch the memory again: it at
//!   most names its address to the kernel. So the next owner may destroy and unmap it.
//!
//! # Transitions
//!
//! | id | from → to                                    | call           | ordering | pairs with |
//! |----|----------------------------------------------|----------------|----------|------------|
//! | T1 | ¬WRITER, ¬CLOSED → READERS + 1               | `read`         | Acquire  | T8         |
//! | T2 | WRITER or CLOSED → WAITING + 1               | `read`         | Relaxed  | –          |
//! | T3 | sees another PHASE                           | `read`         | Acquire  | T8         |
//! | T4 | same PHASE → WAITING − 1                     | `read`, late   | Relaxed  | –          |
//! | T5 | READERS − 1                                  | `read_unlock`  | Release  | T6         |
//! | T6 | ¬WRITER, READERS = 0 → WRITER, ¬CLOSED       | `write`        | Acquire  | T5, T8     |
//! | T7 | WRITER or READERS > 0 → CLOSED               | `write`        | Relaxed  | –          |
//! | T8 | WRITER → ¬WRITER, READERS := WAITING, PHASE' | `write_unlock` | Release  | T1, T3, T6 |
//! | T9 | CLOSED → ¬CLOSED, READERS += WAITING, PHASE' | `write`, late  | Relaxed  | –          |
//! | G1 | NEXT + 1                                     | `write`        | Acquire  | G3         |
//! | G2 | sees SERVING = own ticket                    | `write`        | Acquire  | G3         |
//! | G3 | SERVING + 1                                  | `write`        | Release  | G1, G2     |
//!
//! `PHASE'` is `PHASE + 1` if somebody waited, else `PHASE`. T9 may be relaxed: as a
//! read-modify-write it stays in the release sequence of the T8 before it, so a reader let in by it
//! still comes after that writer. A thread that already reads takes T1 through a closed door.
//!
//! The race a reviewer asks about, a reader whose time is up as it is let in:
//! 1. the reader waits since phase p and its deadline passes;
//! 2. the writer leaves (T8): the reader is counted in `READERS`, the phase is p + 1;
//! 3. the reader's T4 asks for phase p, fails, and it returns with the lock. Had T4 come first, T8
//!    would have found one fewer in `WAITING`. There is no third order, as both change one word.
//!
//! # Progress and fairness
//!
//! A reader waits for the readers inside, if the door is closed, and one writer: T8 lets in all who
//! wait before the next writer. A writer waits for those with a ticket before its own, each with
//! one batch of readers. A timed writer takes no ticket, as it could not hand it back: it enters
//! when the line is empty and can be overtaken until then; its deadline bounds the wait. A writer
//! that finds the lock free and the line empty enters at once, and so can pass one that has come
//! to the head but has not yet closed the door.
//!
//! # Limits
//!
//! 262 143 readers in and waiting; one more gets `Full`. 2³¹ − 1 writers in line, more than Linux
//! has threads. A reader that is stopped for exactly a multiple of 2²⁶ phases of writers that gave
//! up would not notice that it was let in. A process that dies with a hold, or in line, leaves the
//! lock as it was forever; POSIX has no robust read-write locks either.
//!
//! # Source
//!
//! The phases are those of Brandenburg and Anderson, "Reader-Writer Synchronization for
//! Shared-Memory Multiprocessor Real-Time Systems" (2009). Theirs spins, counts arrivals and
//! departures in two words and knows no deadlines; here one word holds both counts, so that a wait
//! can be taken back and the last step of an unlock is its only one.

mod bits;
mod gate;
#[cfg(all(test, lockspan_loom))]
mod loom;
mod ord;
#[cfg(all(test, not(lockspan_loom)))]
mod tests;

use crate::clock::Deadline;
use crate::sync::{Half, Ordering, SPINS, Woken, Word, spin_loop};
use bits::{CLOSED, PHASE, READER, WAITER, WRITER, admit_all, full, occupied, readers, waiting};
use gate::Gate;

/// Every sleeper on either half of `main`.
const ALL: u32 = u32::MAX;

/// How a lock call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The caller has the lock.
    Held,
    /// It would have to wait (of the `try_` calls), or waited until its deadline.
    NotHeld,
    /// There are [`bits::MOST_READERS`] readers already.
    Full,
}

/// The lock. All zero is a free one.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct SharedRwLock {
    main: Word,
    gate: Gate,
}

impl SharedRwLock {
    #[cfg(not(lockspan_loom))]
    pub(crate) const fn new() -> Self {
        Self { main: Word::new(), gate: Gate::new() }
    }

    #[cfg(lockspan_loom)]
    pub(crate) fn new() -> Self {
        Self { main: Word::new(), gate: Gate::new() }
    }

    /// T1 if that needs no waiting. `again`: the caller reads already, and may pass a closed door.
    pub(crate) fn try_read(&self, again: bool) -> Outcome {
        let shut = if again { WRITER } else { WRITER | CLOSED };
        let mut seen = self.main.load(Ordering::Relaxed);
        loop {
            if seen & shut != 0 {
                return Outcome::NotHeld;
            }
            if full(seen) {
                return Outcome::Full;
            }
            match self.main.change(seen, seen + READER, ord::READ) {
                Ok(()) => return Outcome::Held,
                Err(now) => seen = now,
            }
        }
    }

    /// T1, or T2 and then T3 or T4.
    pub(crate) fn read(&self, until: Option<Deadline>) -> Outcome {
        let mut seen = self.main.load(Ordering::Relaxed);
        loop {
            if full(seen) {
                return Outcome::Full;
            }
            let open = seen & (WRITER | CLOSED) == 0;
            let (new, order) =
                if open { (seen + READER, ord::READ) } else { (seen + WAITER, ord::LINE_UP) };
            match self.main.change(seen, new, order) {
                Ok(()) if open => return Outcome::Held,
                Ok(()) => return self.read_contended(seen & PHASE, until),
                Err(now) => seen = now,
            }
        }
    }

    /// T3, or T4 if the deadline comes first. We are in `WAITING` since `phase` (I5).
    #[cold]
    fn read_contended(&self, phase: u64, until: Option<Deadline>) -> Outcome {
        for _ in 0..SPINS {
            if self.main.load(ord::ADMITTED) & PHASE != phase {
                return Outcome::Held;
            }
            spin_loop();
        }
        loop {
            let seen = self.main.load(ord::ADMITTED);
            if seen & PHASE != phase {
                return Outcome::Held;
            }
            if self.main.wait(Half::High, seen, ALL, until) == Woken::TimedOut {
                break;
            }
        }
        loop {
            let seen = self.main.load(ord::ADMITTED);
            if seen & PHASE != phase {
                return Outcome::Held;
            }
            if self.main.change(seen, seen - WAITER, ord::GIVE_UP).is_ok() {
                return Outcome::NotHeld;
            }
        }
    }

    /// T5.
    ///
    /// # Safety
    ///
    /// The lock at `this` is live and the caller has a read hold, which it gives up.
    pub(crate) unsafe fn read_unlock(this: *const Self) {
        // SAFETY: live until our hold ends, which is at the `fetch_sub` below.
        let main = unsafe { &raw const (*this).main };
        // SAFETY: as above; the reference ends with the call.
        let before = unsafe { &*main }.fetch_sub(READER, ord::READ_UNLOCK);
        debug_assert!(readers(before) > 0 && before & WRITER == 0, "read unlock of {before:#x}");
        if readers(before) == 1 && before & CLOSED != 0 {
            Word::wake(main, Half::Low, ALL);
        }
    }

    /// T6 if that needs no waiting.
    pub(crate) fn try_write(&self) -> Outcome {
        let mut seen = self.main.load(Ordering::Relaxed);
        while !occupied(seen) && seen & CLOSED == 0 {
            match self.main.change(seen, seen | WRITER, ord::WRITE) {
                Ok(()) => return Outcome::Held,
                Err(now) => seen = now,
            }
        }
        Outcome::NotHeld
    }

    /// T6 at once, or through the gate: G1, G2, T7, T6, G3.
    pub(crate) fn write(&self, until: Option<Deadline>) -> Outcome {
        if self.gate.is_empty() && self.try_write() == Outcome::Held {
            return Outcome::Held;
        }
        if !self.gate.enter(until) {
            return Outcome::NotHeld;
        }
        let outcome = self.write_as_head(until);
        self.gate.advance();
        outcome
    }

    /// T7 and T6, or T9 if the deadline comes first. We are the head.
    #[cold]
    fn write_as_head(&self, until: Option<Deadline>) -> Outcome {
        let mut spins = SPINS;
        let mut seen = self.main.load(Ordering::Relaxed);
        loop {
            if !occupied(seen) {
                match self.main.change(seen, (seen | WRITER) & !CLOSED, ord::WRITE) {
                    Ok(()) => return Outcome::Held,
                    Err(now) => seen = now,
                }
            } else if seen & CLOSED == 0 {
                match self.main.change(seen, seen | CLOSED, ord::CLOSE) {
                    Ok(()) => seen |= CLOSED,
                    Err(now) => seen = now,
                }
            } else if spins > 0 {
                spins -= 1;
                spin_loop();
                seen = self.main.load(Ordering::Relaxed);
            } else {
                if self.main.wait(Half::Low, seen, ALL, until) == Woken::TimedOut {
                    return self.open_again();
                }
                seen = self.main.load(Ordering::Relaxed);
            }
        }
    }

    /// T9, or T6 if the lock was left at the last moment. We are the head and closed the door.
    fn open_again(&self) -> Outcome {
        let mut seen = self.main.load(Ordering::Relaxed);
        loop {
            if !occupied(seen) {
                match self.main.change(seen, (seen | WRITER) & !CLOSED, ord::WRITE) {
                    Ok(()) => return Outcome::Held,
                    Err(now) => seen = now,
                }
                continue;
            }
            let let_in = seen & WRITER == 0 && waiting(seen) > 0;
            let new = if let_in { admit_all(seen & !CLOSED) } else { seen & !CLOSED };
            match self.main.change(seen, new, ord::OPEN) {
                Ok(()) => {
                    if let_in {
                        Word::wake(&raw const self.main, Half::High, ALL);
                    }
                    return Outcome::NotHeld;
                }
                Err(now) => seen = now,
            }
        }
    }

    /// T8.
    ///
    /// # Safety
    ///
    /// The lock at `this` is live and the caller has the write hold, which it gives up.
    pub(crate) unsafe fn write_unlock(this: *const Self) {
        // SAFETY: live until our hold ends, which is at the `change` below that succeeds.
        let main = unsafe { &raw const (*this).main };
        // SAFETY: as above; still before our hold ends.
        let mut seen = unsafe { &*main }.load(Ordering::Relaxed);
        loop {
            debug_assert!(seen & WRITER != 0 && readers(seen) == 0, "write unlock of {seen:#x}");
            let let_in = waiting(seen) > 0;
            let new = if let_in { admit_all(seen & !WRITER) } else { seen & !WRITER };
            // SAFETY: as above; the reference ends with the call.
            match unsafe { &*main }.change(seen, new, ord::WRITE_UNLOCK) {
                Ok(()) if let_in => return Word::wake(main, Half::High, ALL),
                Ok(()) if seen & CLOSED != 0 => return Word::wake(main, Half::Low, ALL),
                Ok(()) => return,
                Err(now) => seen = now,
            }
        }
    }

    /// Whether somebody holds the lock.
    pub(crate) fn is_held(&self) -> bool {
        occupied(self.main.load(Ordering::Relaxed))
    }

    /// Whether somebody holds the lock for reading.
    pub(crate) fn is_read(&self) -> bool {
        readers(self.main.load(Ordering::Relaxed)) > 0
    }

    /// Whether nobody holds the lock or waits for it. By I6 it can then be destroyed at once.
    pub(crate) fn is_idle(&self) -> bool {
        let seen = self.main.load(Ordering::Acquire);
        !occupied(seen) && seen & CLOSED == 0 && waiting(seen) == 0 && self.gate.is_empty()
    }
}
