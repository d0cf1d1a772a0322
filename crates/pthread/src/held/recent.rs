//! The last locks that a thread took and has not released, in that order: a ring of 16 places.
//!
//! ```text
//!   oldest                        newest
//!     │                             │
//!   ┌─▼─┬───┬───┬───┬───┬───┬───┬───▼┬───┬───┐
//!   │ a │ b │ c │ d │ … │   │   │  z │ 0 │ 0 │      positions begin ≤ p < end, places p mod 16
//!   └───┴───┴───┴───┴───┴───┴───┴────┴───┴───┘
//! ```
//!
//! **Invariant:** a place outside `begin..end` is empty. So the place of `end` is empty if there is
//! room, and the place before it does not name a lock if there is no hold.
//!
//! # A signal handler in between
//!
//! A handler that takes and releases some locks leaves `end` as it found it: it pushes and pops, or
//! strikes out the interrupted thread's own last hold if that was just released. It may move
//! `begin`, when it fills the ring; no entry changes its place by that.
//!
//! - [`Recent::push`] raises `end` first and then writes the entry, so a handler in between uses
//!   the next place.
//! - [`Recent::pop`] is told the position by [`Recent::top_of`], which looked before the lock was
//!   released. If a handler has struck out that hold meanwhile, `end` is that position already.

use std::cell::Cell;
use std::sync::atomic::{Ordering, compiler_fence};

use super::{EMPTY, Mode, Slot};

const PLACES: usize = 16;

/// How many holds leave the ring at once when it is full.
pub(super) const HALF: usize = PLACES / 2;

const _: () = assert!(PLACES.is_power_of_two());

#[repr(C)]
pub(super) struct Recent {
    places: [Cell<Slot>; PLACES],
    begin: Cell<u32>,
    end: Cell<u32>,
}

/// The position of the last hold.
#[derive(Clone, Copy)]
pub(crate) struct Top(u32);

impl Recent {
    #[cfg(any(test, miri))]
    pub(super) const fn new() -> Self {
        Self {
            places: [const { Cell::new(EMPTY) }; PLACES],
            begin: Cell::new(0),
            end: Cell::new(0),
        }
    }

    #[inline(always)]
    fn place(&self, position: u32) -> &Cell<Slot> {
        &self.places[position as usize % PLACES]
    }

    #[inline(always)]
    pub(super) fn has_room(&self) -> bool {
        self.place(self.end.get()).get().lock == 0
    }

    /// There is room.
    #[inline(always)]
    pub(super) fn push(&self, slot: Slot) {
        // A signal handler may have run since the lock was taken: `end` is read after that.
        compiler_fence(Ordering::SeqCst);
        let at = self.end.get();
        self.end.set(at.wrapping_add(1));
        compiler_fence(Ordering::SeqCst);
        self.place(at).set(slot);
    }

    /// The last hold, if it is of this lock.
    #[inline(always)]
    pub(super) fn top_of(&self, lock: usize) -> Option<(Top, Mode)> {
        let at = self.end.get().wrapping_sub(1);
        let slot = self.place(at).get();
        (slot.lock == lock).then(|| (Top(at), slot.mode()))
    }

    /// Strikes out the last hold.
    #[inline(always)]
    pub(super) fn pop(&self, Top(at): Top) {
        self.place(at).set(EMPTY);
        compiler_fence(Ordering::SeqCst);
        self.end.set(at);
    }

    /// Whether the hold at this position is of this lock.
    #[inline(always)]
    pub(super) fn is_at(&self, at: u32, lock: usize) -> bool {
        // A signal handler may have run since the position was found.
        compiler_fence(Ordering::SeqCst);
        self.place(at).get().lock == lock
    }

    /// The newest hold of this lock, and its position.
    #[inline(always)]
    pub(super) fn find(&self, lock: usize) -> Option<(u32, Slot)> {
        let count = self.end.get().wrapping_sub(self.begin.get());
        let newest_first = (1..=count).map(|back| self.end.get().wrapping_sub(back));
        let mut holds = newest_first.map(|at| (at, self.place(at).get()));
        holds.find(|(_, slot)| slot.lock == lock)
    }

    pub(super) fn set(&self, at: u32, slot: Slot) {
        self.place(at).set(slot);
    }

    /// Strikes out the hold at this position; later ones move up.
    pub(super) fn remove(&self, mut at: u32) {
        let last = self.end.get().wrapping_sub(1);
        while at != last {
            let next = at.wrapping_add(1);
            self.place(at).set(self.place(next).get());
            at = next;
        }
        self.pop(Top(last));
    }

    /// Gives the older half to `take`.
    pub(super) fn drain_older_half(&self, mut take: impl FnMut(Slot)) {
        for _ in 0..HALF {
            let at = self.begin.get();
            let slot = self.place(at).get();
            if slot.lock != 0 {
                take(slot);
            }
            self.begin.set(at.wrapping_add(1));
            self.place(at).set(EMPTY);
        }
    }

    /// Strikes out the holds for which `keep` is false.
    pub(super) fn retain(&self, mut keep: impl FnMut(Slot) -> bool) {
        let mut at = self.begin.get();
        while at != self.end.get() {
            if keep(self.place(at).get()) {
                at = at.wrapping_add(1);
            } else {
                self.remove(at);
            }
        }
    }
}
