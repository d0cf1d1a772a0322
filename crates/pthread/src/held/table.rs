//! A hash table of holds, by the lock's address: open addressing, linear probing, at most a quarter
//! full, and a removal that moves later entries up, so that there are no tombstones.

use std::cell::Cell;
use std::ptr;

use super::{EMPTY, Slot};

/// A table has at least so many slots for each hold: then an empty slot is near, nearly always.
const SPARSE: usize = 4;
/// Slots of the table that needs no pages; a power of two.
pub(super) const NEAR: usize = 32;
/// Slots of the first table in pages; doubled as needed.
pub(super) const FAR: usize = if cfg!(miri) { 128 } else { 4096 / size_of::<Slot>() };

const _: () = assert!(NEAR.is_power_of_two() && FAR.is_power_of_two() && FAR > NEAR);

/// All zero is an empty table that has not been used yet.
#[repr(C)]
pub(super) struct Table {
    /// The slots in use: `near`, or pages. Null before the first use.
    slots: Cell<*mut Slot>,
    /// 64 less the binary logarithm of the number of slots.
    shift: Cell<u32>,
    /// How many of the slots are used.
    len: Cell<u32>,
    near: Cell<[Slot; NEAR]>,
}

impl Table {
    #[cfg(any(test, miri))]
    pub(super) const fn new() -> Self {
        Self {
            slots: Cell::new(ptr::null_mut()),
            shift: Cell::new(0),
            len: Cell::new(0),
            near: Cell::new([EMPTY; NEAR]),
        }
    }

    /// Makes room for so many more holds; false if there is no memory for them.
    pub(super) fn reserve(&self, more: usize) -> bool {
        while self.len.get() as usize + more > self.room() / SPARSE {
            if !self.grow() {
                return false;
            }
        }
        true
    }

    /// Adds a hold; [`Table::reserve`] has made room for it.
    pub(super) fn insert(&self, slot: Slot) {
        assert!((self.len.get() as usize) < self.room(), "a hold was noted without room for it");
        let place = self.find(slot.lock);
        // SAFETY: a slot of the table, all of which are written.
        let is_new = unsafe { place.read() }.lock == 0;
        // SAFETY: a slot of the calling thread's table, which no other thread knows.
        unsafe { place.write(slot) };
        self.len.set(self.len.get() + u32::from(is_new));
    }

    pub(super) fn get(&self, lock: usize) -> Option<Slot> {
        // SAFETY: a slot of the calling thread's table, which is not changed meanwhile.
        self.place_of(lock).map(|place| unsafe { place.read() })
    }

    /// Changes how often the lock is read, if the table has it.
    pub(super) fn change(&self, lock: usize, reads: u32) {
        if let Some(place) = self.place_of(lock) {
            // SAFETY: a slot of the calling thread's table, which no other thread knows.
            unsafe { (*place).reads = reads };
        }
    }

    /// Strikes out the hold of the lock, if the table has it.
    pub(super) fn remove(&self, lock: usize) {
        if let Some(place) = self.place_of(lock) {
            self.empty(place);
        }
    }

    /// Strikes out the holds for which `keep` is false.
    pub(super) fn retain(&self, mut keep: impl FnMut(Slot) -> bool) {
        let mut at = 0;
        while at < self.room() {
            let place = self.slots.get().wrapping_add(at);
            // SAFETY: `at` is below the number of slots, all of which are written.
            let slot = unsafe { place.read() };
            if slot.lock == 0 || keep(slot) {
                at += 1;
            } else {
                // A later entry may move into this slot: it is looked at next.
                self.empty(place);
            }
        }
    }

    /// How many slots there are; 0 before the first use.
    pub(super) fn room(&self) -> usize {
        // A shift of 0 stands for no slots: `2 << 63` has no bit left.
        2_usize.wrapping_shl(63 - self.shift.get())
    }

    /// Where the hold of `lock` is.
    fn place_of(&self, lock: usize) -> Option<*mut Slot> {
        let place = (self.len.get() > 0).then(|| self.find(lock))?;
        // SAFETY: a slot of the table, all of which are written.
        (unsafe { place.read() }.lock == lock).then_some(place)
    }

    /// Where a search for `lock` begins. Addresses of locks are multiples of 8 and often of a page:
    /// the high bits of a product depend on all of them (Fibonacci hashing).
    fn home(&self, lock: usize) -> usize {
        (lock as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_shr(self.shift.get()) as usize
    }

    /// The slot of `lock`, or the empty one where it would be. There are slots.
    fn find(&self, lock: usize) -> *mut Slot {
        let slots = self.slots.get();
        let mut at = self.home(lock);
        loop {
            let place = slots.wrapping_add(at);
            // SAFETY: `at` is below the number of slots, all of which are written.
            let there = unsafe { (*place).lock };
            if there == lock || there == 0 {
                return place;
            }
            at = (at + 1) & (self.room() - 1);
        }
    }

    /// Empties a slot, and moves up what was put further on because of it.
    fn empty(&self, place: *mut Slot) {
        let (slots, mask) = (self.slots.get(), self.room() - 1);
        let mut gap = (place.addr() - slots.addr()) / size_of::<Slot>();
        let mut at = gap;
        loop {
            at = (at + 1) & mask;
            // SAFETY: `at` is below the number of slots, all of which are written.
            let there = unsafe { slots.wrapping_add(at).read() };
            if there.lock == 0 {
                break;
            }
            // It may fill the gap unless its search begins behind the gap.
            if (at.wrapping_sub(self.home(there.lock)) & mask) >= (at.wrapping_sub(gap) & mask) {
                // SAFETY: `gap` is below the number of slots, and the table is this thread's.
                unsafe { slots.wrapping_add(gap).write(there) };
                gap = at;
            }
        }
        // SAFETY: `gap` is below the number of slots, and the table is this thread's.
        unsafe { slots.wrapping_add(gap).write(EMPTY) };
        self.len.set(self.len.get() - 1);
        if self.len.get() == 0 && self.room() > NEAR {
            self.give_back();
        }
    }

    /// Begins to use the table, or makes it twice as large; false if there is no memory for that.
    #[cold]
    fn grow(&self) -> bool {
        let (old, old_room) = (self.slots.get(), self.room());
        if old.is_null() {
            self.use_near();
            return true;
        }
        let room = if old_room == NEAR { FAR } else { old_room * 2 };
        let Some(pages) = map(room) else { return false };
        self.slots.set(pages);
        self.shift.set(64 - room.trailing_zeros());
        for at in 0..old_room {
            // SAFETY: below the number of the old slots, all of which are written.
            let slot = unsafe { old.wrapping_add(at).read() };
            if slot.lock != 0 {
                // SAFETY: a slot of the new pages, which are zero where nothing was put yet.
                unsafe { self.find(slot.lock).write(slot) };
            }
        }
        if old_room > NEAR {
            unmap(old, old_room);
        }
        true
    }

    fn use_near(&self) {
        self.near.set([EMPTY; NEAR]);
        self.slots.set(self.near.as_ptr().cast());
        self.shift.set(64 - NEAR.trailing_zeros());
    }

    #[cold]
    fn give_back(&self) {
        let (pages, room) = (self.slots.get(), self.room());
        self.use_near();
        unmap(pages, room);
    }
}

/// Fresh pages for `room` slots, all of them empty.
fn map(room: usize) -> Option<*mut Slot> {
    // SAFETY: a new private anonymous mapping wherever the kernel likes touches no memory of ours.
    let pages = unsafe {
        libc::mmap(
            ptr::null_mut(),
            room * size_of::<Slot>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    (pages != libc::MAP_FAILED).then_some(pages.cast())
}

fn unmap(pages: *mut Slot, room: usize) {
    // SAFETY: the pages come from `map`, with this room, and the table does not use them any more.
    unsafe { libc::munmap(pages.cast(), room * size_of::<Slot>()) };
}
