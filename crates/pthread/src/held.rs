//! What this thread holds: which locks, in which mode, how often.
//!
//! POSIX has one `unlock` for both modes, wants a second write lock refused rather than waited for,
//! and programs rely on a second read lock that does not wait behind a writer. All three need to
//! know what the calling thread holds, and the lock itself does not name its readers.
//!
//! The lock that was taken last is in the slot [`Table::last`], until it is left or another one is
//! taken: that is the one that is left next, mostly. All others are in a hash table, by the lock's
//! address: open addressing, linear probing, at most a quarter full, and a removal that moves later
//! entries up, so that there are no tombstones. So a lock call that does not wait looks at two
//! slots at most, nearly always, however many locks the thread holds.
//!
//! **Invariant:** a lock that is held is in one slot, `last` or one of the table.
//!
//! The first table lies in the thread's static storage ([`near`]), larger ones in pages from the
//! kernel: never in the heap, as the program's `malloc` may use read-write locks of its own. The
//! pages go back when the thread holds nothing any more, so a thread that ends properly leaves none
//! and needs no destructor; one that ends with more than [`NEAR`] / 4 locks held leaks them along
//! with the locks.
//!
//! A lock is known by its address: one that is mapped twice is two locks here. After `fork` the
//! child has the forking thread's table, which is right for its copies of private locks;
//! process-shared ones stay the parent's ([`forget_shared`]).
//!
//! Nothing here is safe against a signal handler that takes locks in the middle of a lock call; nor
//! are the calls themselves.

mod near;

use std::cell::Cell;
use std::ptr;

use libc::c_int;

/// How a thread holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// For reading, this many times.
    Read(u32),
    /// For writing.
    Write,
}

/// A place in a table. All zero is an empty one.
#[derive(Clone, Copy)]
#[repr(C)]
struct Slot {
    /// The lock's address; 0 if the slot is empty.
    lock: usize,
    /// How often it is read; 0 for writing.
    reads: u32,
    shared: bool,
}

const EMPTY: Slot = Slot { lock: 0, reads: 0, shared: false };

/// A table has at least so many slots for each hold: then an empty slot is near, nearly always.
const SPARSE: usize = 4;
/// The usual case looks at so many slots; beyond that it takes the longer way.
const LOOKS: usize = 8;
/// Slots of the table that needs no pages; a power of two.
const NEAR: usize = 64;
/// Slots of the first table in pages; doubled as needed.
const FAR: usize = if cfg!(miri) { 128 } else { 4096 / size_of::<Slot>() };

const _: () = assert!(NEAR.is_power_of_two() && FAR.is_power_of_two() && FAR > NEAR);

/// A thread's table. All zero is a valid one that has not been used yet.
#[repr(C)]
struct Table {
    /// What was taken last; empty if that was left since.
    last: Cell<Slot>,
    /// The slots in use for the others: `near`, or pages. Null before the first use.
    slots: Cell<*mut Slot>,
    /// 64 less the binary logarithm of the number of slots.
    shift: Cell<u32>,
    /// How many of the slots are used.
    len: Cell<u32>,
    /// Where this thread's `errno` is; null before the first use.
    errno: Cell<*mut c_int>,
    near: Cell<[Slot; NEAR]>,
}

impl Table {
    /// What all zero bytes are.
    #[cfg(any(test, miri))]
    const fn new() -> Self {
        Self {
            last: Cell::new(EMPTY),
            slots: Cell::new(ptr::null_mut()),
            shift: Cell::new(0),
            len: Cell::new(0),
            errno: Cell::new(ptr::null_mut()),
            near: Cell::new([EMPTY; NEAR]),
        }
    }
}

/// Where the hold of a lock is, or would be. Good until the next call of this module by this thread
/// other than through it: there is none while a lock call is under way.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    lock: usize,
    slot: *mut Slot,
}

/// The place of the lock at `lock`, which is not null; with room for its hold. `None` if there is
/// no memory for it.
pub(crate) fn place(lock: usize) -> Option<Place> {
    near::with(|table| table.place(lock).map(|slot| Place { lock, slot }))
}

/// The place of a lock that this thread holds: it needs no room.
pub(crate) fn held(lock: usize) -> Option<Place> {
    near::with(|table| table.held(lock).map(|slot| Place { lock, slot }))
}

/// The slot of the lock that is taken last.
#[derive(Clone, Copy)]
pub(crate) struct Last(());

/// The empty slot for the lock at `lock`, if a short look is enough to see that this thread does
/// not hold it: the usual case.
#[inline(always)]
pub(crate) fn last_for(lock: usize) -> Option<Last> {
    near::with(|table| {
        if table.last.get().lock != 0 {
            return None;
        }
        if table.len.get() == 0 {
            return Some(Last(()));
        }
        let (slots, home, mask) = (table.slots.get(), table.home(lock), table.room() - 1);
        for at in 0..LOOKS {
            let slot = slots.wrapping_add((home + at) & mask);
            // SAFETY: below the number of slots, all of which are written.
            match unsafe { (*slot).lock } {
                0 => return Some(Last(())),
                other if other == lock => return None,
                _ => {}
            }
        }
        None
    })
}

/// The slot and how the lock at `lock` is held, if that was taken last.
#[inline(always)]
pub(crate) fn last_is(lock: usize) -> Option<(Last, Mode)> {
    near::with(|table| {
        let slot = table.last.get();
        (slot.lock == lock).then(|| (Last(()), slot.mode()))
    })
}

impl Last {
    /// Notes a hold of a private lock, in the empty slot.
    #[inline(always)]
    pub(crate) fn add(self, lock: usize, mode: Mode) {
        near::with(|table| table.last.set(Slot { lock, reads: reads(mode), shared: false }));
    }

    /// Strikes out the hold.
    #[inline(always)]
    pub(crate) fn forget(self) {
        near::with(|table| table.last.set(EMPTY));
    }
}

impl Slot {
    /// How it is held. It is not empty.
    #[inline(always)]
    fn mode(self) -> Mode {
        if self.reads == 0 { Mode::Write } else { Mode::Read(self.reads) }
    }
}

/// Where this thread's `errno` is.
#[inline(always)]
pub(crate) fn errno() -> *mut c_int {
    near::with(|table| {
        let at = table.errno.get();
        if at.is_null() { table.find_errno() } else { at }
    })
}

impl Place {
    fn slot(self) -> Slot {
        // SAFETY: in the calling thread's table, which has not changed since: see the type.
        unsafe { self.slot.read() }
    }

    fn set(self, slot: Slot) {
        // SAFETY: as in `slot`; no other thread knows the table.
        unsafe { self.slot.write(slot) };
    }

    /// The mode in which this thread holds the lock.
    pub(crate) fn mode(self) -> Option<Mode> {
        let slot = self.slot();
        (slot.lock != 0).then(|| slot.mode())
    }

    /// Notes a hold of a lock that this thread did not hold: the place is `last`.
    pub(crate) fn add(self, mode: Mode, shared: bool) {
        debug_assert!(self.mode().is_none());
        let Self { lock, .. } = self;
        self.set(Slot { lock, reads: reads(mode), shared });
    }

    /// Changes the mode in which this thread holds the lock.
    pub(crate) fn change(self, mode: Mode) {
        self.set(Slot { reads: reads(mode), ..self.slot() });
    }

    /// Strikes out the hold of the lock, if there is one.
    pub(crate) fn forget(self) {
        if self.slot().lock != 0 {
            near::with(|table| table.remove(self.slot));
        }
    }
}

#[inline(always)]
fn reads(mode: Mode) -> u32 {
    match mode {
        Mode::Read(reads) => reads,
        Mode::Write => 0,
    }
}

/// Strikes out all process-shared locks: after `fork`, in the child, which holds none of them.
/// Tells whether the parent held one for reading at that moment.
pub(crate) fn forget_shared() -> bool {
    let mut any_read = false;
    let mut is_gone = |slot: Slot| {
        any_read |= slot.shared && slot.reads > 0;
        slot.shared
    };
    near::with(|table| {
        if is_gone(table.last.get()) {
            table.last.set(EMPTY);
        }
        let mut at = 0;
        while at < table.room() {
            let slot = table.slots.get().wrapping_add(at);
            // SAFETY: `at` is below the number of slots, all of which are written.
            if is_gone(unsafe { slot.read() }) {
                // A later entry may move into this slot: it is looked at next.
                table.remove(slot);
            } else {
                at += 1;
            }
        }
    });
    any_read
}

impl Table {
    /// How many slots there are; 0 before the first use.
    #[inline(always)]
    fn room(&self) -> usize {
        // A shift of 0 stands for no slots: `2 << 63` has no bit left.
        2_usize.wrapping_shl(63 - self.shift.get())
    }

    fn is_last(&self, slot: *const Slot) -> bool {
        ptr::eq(slot, self.last.as_ptr())
    }

    /// Where the hold of `lock` is.
    fn held(&self, lock: usize) -> Option<*mut Slot> {
        if self.last.get().lock == lock {
            return Some(self.last.as_ptr());
        }
        let slot = (self.len.get() > 0).then(|| self.find(lock))?;
        // SAFETY: a slot of the table, all of which are written.
        (unsafe { slot.read() }.lock == lock).then_some(slot)
    }

    /// Where the hold of `lock` is; if there is none, `last`, made empty.
    fn place(&self, lock: usize) -> Option<*mut Slot> {
        if let Some(slot) = self.held(lock) {
            return Some(slot);
        }
        let before = self.last.get();
        if before.lock != 0 {
            let has_room = (self.len.get() as usize) < self.room() / SPARSE || self.grow();
            let slot = has_room.then(|| self.find(before.lock))?;
            // SAFETY: an empty slot of the table, which is this thread's.
            unsafe { slot.write(before) };
            self.len.set(self.len.get() + 1);
            self.last.set(EMPTY);
        }
        Some(self.last.as_ptr())
    }

    /// Where a search for `lock` begins. Addresses of locks are multiples of 8 and often of a page:
    /// the high bits of a product depend on all of them (Fibonacci hashing).
    #[inline(always)]
    fn home(&self, lock: usize) -> usize {
        (lock as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_shr(self.shift.get()) as usize
    }

    /// The slot of `lock`, or the empty one where it would be. There are slots.
    #[inline(always)]
    fn find(&self, lock: usize) -> *mut Slot {
        let slots = self.slots.get();
        let mut at = self.home(lock);
        loop {
            let slot = slots.wrapping_add(at);
            // SAFETY: `at` is below the number of slots, all of which are written.
            let there = unsafe { (*slot).lock };
            if there == lock || there == 0 {
                return slot;
            }
            at = (at + 1) & (self.room() - 1);
        }
    }

    /// Empties a slot, and moves up what was put further on because of it.
    fn remove(&self, slot: *mut Slot) {
        if self.is_last(slot) {
            self.last.set(EMPTY);
            return;
        }
        let (slots, mask) = (self.slots.get(), self.room() - 1);
        let mut gap = (slot.addr() - slots.addr()) / size_of::<Slot>();
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

    #[cold]
    fn find_errno(&self) -> *mut c_int {
        // SAFETY: it has no preconditions and gives the address of this thread's errno, which is
        // good for as long as the thread lives.
        let at = unsafe { libc::__errno_location() };
        self.errno.set(at);
        at
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

#[cfg(test)]
mod tests {
    use super::*;

    fn at(lock: usize) -> Place {
        place(lock).unwrap()
    }

    fn take(lock: usize, mode: Mode) {
        at(lock).add(mode, lock.is_multiple_of(3));
    }

    #[test]
    fn many_holds_are_all_found_and_their_pages_go_back() {
        let many = if cfg!(miri) { FAR + 9 } else { 20_000 };
        // Neighbours, multiples of a page, and in no order: each has its own slot.
        for stride in [1, 56, 4096] {
            let lock = |number: usize| (number * 7919 % (many + 1) + 1) * stride;
            for number in 0..many {
                take(lock(number), Mode::Read(number as u32 + 1));
            }
            for number in 0..many {
                assert_eq!(at(lock(number)).mode(), Some(Mode::Read(number as u32 + 1)));
            }
            assert_eq!(at((many + 9) * stride).mode(), None);
            for number in (0..many).step_by(2).chain((1..many).step_by(2)) {
                at(lock(number)).forget();
                assert_eq!(at(lock(number)).mode(), None);
            }
            near::with(|table| assert_eq!((table.room(), table.len.get()), (NEAR, 0)));
        }
    }

    #[test]
    fn whatever_is_taken_and_left_the_table_says_what_is_held() {
        let mut held = std::collections::BTreeMap::new();
        let mut state = 1_u64;
        for _ in 0..if cfg!(miri) { 500 } else { 200_000 } {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let lock = ((state >> 33) % 50 + 1) as usize * 64;
            let mode = if state & (1 << 20) == 0 { Mode::Write } else { Mode::Read(3) };
            // The short way where it is open, the long one otherwise and now and then.
            let short = state & (1 << 21) == 0;
            let known = self::held(lock).and_then(Place::mode);
            assert_eq!(known, held.get(&lock).copied());
            match (last_is(lock), last_for(lock)) {
                (Some((last, mode)), _) if short => {
                    assert_eq!(held.remove(&lock), Some(mode));
                    last.forget();
                }
                (_, Some(last)) if short => {
                    assert_eq!(held.insert(lock, mode), None);
                    last.add(lock, mode);
                }
                _ if held.remove(&lock).is_some() => at(lock).forget(),
                _ => {
                    at(lock).add(mode, false);
                    held.insert(lock, mode);
                }
            }
        }
        held.into_keys().for_each(|lock| at(lock).forget());
    }

    #[test]
    fn after_a_fork_only_private_locks_are_held() {
        for lock in 1..=40 {
            take(lock, Mode::Write);
        }
        assert!(!forget_shared(), "none was held for reading");
        for lock in 1..=40_usize {
            let held = (!lock.is_multiple_of(3)).then_some(Mode::Write);
            assert_eq!(at(lock).mode(), held, "lock {lock}");
            at(lock).forget();
        }
    }

    #[test]
    fn a_change_of_mode_is_seen_and_an_unknown_lock_ignored() {
        take(5, Mode::Read(1));
        at(5).change(Mode::Read(2));
        assert_eq!(at(5).mode(), Some(Mode::Read(2)));
        assert_eq!(at(6).mode(), None);
        at(6).forget();
        at(5).forget();
    }
}
