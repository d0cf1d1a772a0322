//! What this thread holds: which locks, in which mode, how often.
//!
//! POSIX has one `unlock` for both modes, wants a second write lock refused rather than waited for,
//! and programs rely on a second read lock that does not wait behind a writer. All three need to
//! know what the calling thread holds, and the lock itself does not name its readers.
//!
//! A thread that holds one lock has it in the slot [`Table::first`]. Whatever it takes while that
//! slot is in use goes into a hash table, by the lock's address: open addressing, linear probing,
//! at most a quarter full, and a removal that moves later entries up, so that there are no
//! tombstones. So a lock call that does not wait looks at two or three slots, nearly always,
//! however many locks the thread holds.
//!
//! **Invariant:** a lock that is held is in one slot, `first` or one of the table.
//!
//! The short ways ([`First`], [`Spot`]) keep a pointer to a slot over one attempt to take or
//! leave the lock; everything else finds its slot anew, since adding and removing move entries. A
//! signal handler that comes in between and takes and leaves other locks puts everything back where
//! it was: it adds one entry and removes that one, which moves no other. (It must not be one that
//! makes the table grow.)
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
//! POSIX does not allow lock calls in a signal handler, and none of the above is a promise.

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
    /// One of the holds; it may be empty beside others.
    first: Cell<Slot>,
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
            first: Cell::new(EMPTY),
            slots: Cell::new(ptr::null_mut()),
            shift: Cell::new(0),
            len: Cell::new(0),
            errno: Cell::new(ptr::null_mut()),
            near: Cell::new([EMPTY; NEAR]),
        }
    }
}

/// Makes room for one more hold; false if there is no memory for it.
pub(crate) fn reserve() -> bool {
    near::with(|table| table.first.get().lock == 0 || table.has_room() || table.grow())
}

/// The mode in which this thread holds the lock at `lock`.
pub(crate) fn mode(lock: usize) -> Option<Mode> {
    // SAFETY: a slot of the calling thread's table, which is not changed meanwhile.
    near::with(|table| table.held(lock).map(|slot| unsafe { slot.read() }.mode()))
}

/// Notes a hold of a lock that this thread did not hold. [`reserve`] was called before, and
/// nothing has been added since.
pub(crate) fn add(lock: usize, mode: Mode, shared: bool) {
    let hold = Slot { lock, reads: reads(mode), shared };
    near::with(|table| {
        if table.first.get().lock == 0 {
            table.first.set(hold);
            return;
        }
        assert!(table.has_room(), "a hold was noted without room for it");
        // SAFETY: an empty slot of the calling thread's table.
        unsafe { table.find(lock).write(hold) };
        table.len.set(table.len.get() + 1);
    });
}

/// Changes the mode in which this thread holds the lock at `lock`.
pub(crate) fn change(lock: usize, mode: Mode) {
    near::with(|table| {
        if let Some(slot) = table.held(lock) {
            // SAFETY: a slot of the calling thread's table, which no other thread knows.
            unsafe { (*slot).reads = reads(mode) };
        }
    });
}

/// Strikes out the hold of the lock at `lock`, if there is one.
pub(crate) fn forget(lock: usize) {
    near::with(|table| {
        if let Some(slot) = table.held(lock) {
            table.remove(slot);
        }
    });
}

/// The slot [`Table::first`], empty in a thread that holds nothing.
#[derive(Clone, Copy)]
pub(crate) struct First(());

/// The first slot, if this thread holds nothing.
#[inline(always)]
pub(crate) fn first() -> Option<First> {
    near::with(|table| {
        let is_free = table.first.get().lock == 0 && table.len.get() == 0;
        is_free.then_some(First(()))
    })
}

/// The first slot and how it is held, if the lock at `lock` is there.
#[inline(always)]
pub(crate) fn first_of(lock: usize) -> Option<(First, Mode)> {
    near::with(|table| {
        let slot = table.first.get();
        (slot.lock == lock).then(|| (First(()), slot.mode()))
    })
}

impl First {
    /// Notes a hold of a private lock.
    #[inline(always)]
    pub(crate) fn add(self, lock: usize, mode: Mode) {
        near::with(|table| table.first.set(Slot { lock, reads: reads(mode), shared: false }));
    }

    /// Strikes out the hold.
    #[inline(always)]
    pub(crate) fn forget(self) {
        near::with(|table| table.first.set(EMPTY));
    }
}

/// A slot that a short look has found, for the lock at this address.
#[derive(Clone, Copy)]
pub(crate) struct Spot {
    lock: usize,
    slot: *mut Slot,
}

/// An empty slot for the lock at `lock`, if a short look is enough to see that this thread does not
/// hold it and that there is room: the usual case.
#[inline(always)]
pub(crate) fn spot_for(lock: usize) -> Option<Spot> {
    near::with(|table| {
        let slot = table.first.as_ptr();
        let first = table.first.get().lock;
        if table.len.get() == 0 {
            // What is not in `first` is not held; a table is used for the second hold only.
            return (first == 0).then_some(Spot { lock, slot });
        }
        if first == lock {
            return None;
        }
        let (slots, home, mask) = (table.slots.get(), table.home(lock), table.room() - 1);
        for at in 0..LOOKS {
            let there = slots.wrapping_add((home + at) & mask);
            // SAFETY: below the number of slots, all of which are written.
            match unsafe { (*there).lock } {
                0 if first == 0 => return Some(Spot { lock, slot }),
                0 => return table.has_room().then_some(Spot { lock, slot: there }),
                other if other == lock => return None,
                _ => {}
            }
        }
        None
    })
}

/// The slot and how the lock at `lock` is held, if a short look finds it, and its removal moves
/// nothing.
#[inline(always)]
pub(crate) fn spot_of(lock: usize) -> Option<(Spot, Mode)> {
    near::with(|table| {
        let first = table.first.get();
        if first.lock == lock {
            return Some((Spot { lock, slot: table.first.as_ptr() }, first.mode()));
        }
        // The last entry of a table in pages takes the pages with it.
        let len = table.len.get();
        if len == 0 || (len == 1 && table.room() > NEAR) {
            return None;
        }
        let (slots, home, mask) = (table.slots.get(), table.home(lock), table.room() - 1);
        let slot = slots.wrapping_add(home);
        // SAFETY: below the number of slots, all of which are written.
        let there = unsafe { slot.read() };
        // SAFETY: also below the number of slots, by the mask.
        let is_alone = unsafe { (*slots.wrapping_add((home + 1) & mask)).lock } == 0;
        (there.lock == lock && is_alone).then(|| (Spot { lock, slot }, there.mode()))
    })
}

impl Spot {
    /// Notes a hold of a private lock, in the empty slot.
    #[inline(always)]
    pub(crate) fn add(self, mode: Mode) {
        let Self { lock, slot } = self;
        near::with(|table| {
            // SAFETY: a slot of the calling thread's table, empty still: see the module.
            unsafe { slot.write(Slot { lock, reads: reads(mode), shared: false }) };
            if !table.is_first(slot) {
                table.len.set(table.len.get() + 1);
            }
        });
    }

    /// Strikes out the hold.
    #[inline(always)]
    pub(crate) fn forget(self) {
        near::with(|table| {
            // SAFETY: a slot of the calling thread's table, with this hold in it still.
            unsafe { self.slot.write(EMPTY) };
            if !table.is_first(self.slot) {
                table.len.set(table.len.get() - 1);
            }
        });
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
        if is_gone(table.first.get()) {
            table.first.set(EMPTY);
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

    #[inline(always)]
    fn is_first(&self, slot: *const Slot) -> bool {
        ptr::eq(slot, self.first.as_ptr())
    }

    /// Whether the table has room for one more.
    #[inline(always)]
    fn has_room(&self) -> bool {
        (self.len.get() as usize) < self.room() / SPARSE
    }

    /// Where the hold of `lock` is.
    fn held(&self, lock: usize) -> Option<*mut Slot> {
        if self.first.get().lock == lock {
            return Some(self.first.as_ptr());
        }
        let slot = (self.len.get() > 0).then(|| self.find(lock))?;
        // SAFETY: a slot of the table, all of which are written.
        (unsafe { slot.read() }.lock == lock).then_some(slot)
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
        if self.is_first(slot) {
            self.first.set(EMPTY);
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

    fn take(lock: usize, mode: Mode) {
        assert!(reserve());
        add(lock, mode, lock.is_multiple_of(3));
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
                assert_eq!(mode(lock(number)), Some(Mode::Read(number as u32 + 1)));
            }
            assert_eq!(mode((many + 9) * stride), None);
            for number in (0..many).step_by(2).chain((1..many).step_by(2)) {
                forget(lock(number));
                assert_eq!(mode(lock(number)), None);
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
            let how = if state & (1 << 20) == 0 { Mode::Write } else { Mode::Read(3) };
            // The short way where it is open, the long one otherwise and now and then.
            let short = state & (1 << 21) == 0;
            assert_eq!(mode(lock), held.get(&lock).copied());
            if let (true, Some((first, how))) = (short, first_of(lock)) {
                assert_eq!(held.remove(&lock), Some(how));
                first.forget();
                continue;
            }
            if let (true, Some(first)) = (short, first()) {
                assert_eq!(held.insert(lock, how), None);
                first.add(lock, how);
                continue;
            }
            match (spot_of(lock), spot_for(lock)) {
                (Some((spot, how)), other) => {
                    assert!(other.is_none(), "it is held");
                    assert_eq!(held.remove(&lock), Some(how));
                    if short { spot.forget() } else { forget(lock) }
                }
                (None, Some(spot)) => {
                    assert_eq!(held.insert(lock, how), None);
                    if short { spot.add(how) } else { take(lock, how) }
                }
                _ if held.remove(&lock).is_some() => forget(lock),
                _ => {
                    take(lock, how);
                    held.insert(lock, how);
                }
            }
        }
        held.into_keys().for_each(forget);
    }

    #[test]
    fn after_a_fork_only_private_locks_are_held() {
        for lock in 1..=40 {
            take(lock, Mode::Write);
        }
        assert!(!forget_shared(), "none was held for reading");
        for lock in 1..=40_usize {
            let held = (!lock.is_multiple_of(3)).then_some(Mode::Write);
            assert_eq!(mode(lock), held, "lock {lock}");
            forget(lock);
        }
    }

    #[test]
    fn a_change_of_mode_is_seen_and_an_unknown_lock_ignored() {
        take(5, Mode::Read(1));
        change(5, Mode::Read(2));
        assert_eq!(mode(5), Some(Mode::Read(2)));
        assert_eq!(mode(6), None);
        forget(6);
        forget(5);
    }
}
