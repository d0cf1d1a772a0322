//! What this thread holds: which locks, in which mode, how often.
//!
//! POSIX has one `unlock` for both modes, wants a second write lock refused rather than waited for,
//! and programs rely on a second read lock that does not wait behind a writer. All three need to
//! know what the calling thread holds, and the lock itself does not name its readers.
//!
//! Sixteen holds live in the thread's static storage, more in pages from the kernel: never in the
//! heap, as the program's `malloc` may use read-write locks of its own. The pages go back when the
//! thread holds nothing any more, so a thread that ends properly leaves none and needs no
//! destructor; one that ends with more than sixteen locks held leaks them along with the locks.
//!
//! A lock is known by its address: one that is mapped twice is two locks here. After `fork` the
//! child has the forking thread's table, which is right for its copies of private locks;
//! process-shared ones stay the parent's ([`forget_shared`]).

use std::cell::Cell;
use std::ptr;

/// How a thread holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// For reading, this many times.
    Read(u32),
    /// For writing.
    Write,
}

#[derive(Clone, Copy)]
struct Hold {
    lock: usize,
    mode: Mode,
    shared: bool,
}

/// How many holds need no pages.
const NEAR: usize = 16;
/// Holds the first pages have room for; doubled as needed.
const FAR_FIRST: usize = if cfg!(miri) { 8 } else { 4096 / size_of::<Hold>() };

const NONE: Hold = Hold { lock: 0, mode: Mode::Write, shared: false };

struct Table {
    len: Cell<usize>,
    near: [Cell<Hold>; NEAR],
    far: Cell<*mut Hold>,
    far_room: Cell<usize>,
}

thread_local! {
    static TABLE: Table = const {
        Table {
            len: Cell::new(0),
            near: [const { Cell::new(NONE) }; NEAR],
            far: Cell::new(ptr::null_mut()),
            far_room: Cell::new(0),
        }
    };
}

/// The mode in which this thread holds the lock at `lock`.
pub(crate) fn mode(lock: usize) -> Option<Mode> {
    TABLE.with(|table| table.find(lock).map(|at| table.get(at).mode))
}

/// Makes room for one more hold; false if there is no memory for it.
pub(crate) fn reserve() -> bool {
    TABLE.with(Table::reserve)
}

/// Notes a hold of a lock this thread did not hold. [`reserve`] was called before.
pub(crate) fn add(lock: usize, mode: Mode, shared: bool) {
    TABLE.with(|table| {
        let at = table.len.get();
        table.len.set(at + 1);
        table.set(at, Hold { lock, mode, shared });
    });
}

/// Changes the mode in which this thread holds `lock`.
pub(crate) fn change(lock: usize, mode: Mode) {
    TABLE.with(|table| {
        if let Some(at) = table.find(lock) {
            table.set(at, Hold { mode, ..table.get(at) });
        }
    });
}

/// Strikes out the hold of `lock`, if there is one.
pub(crate) fn forget(lock: usize) {
    TABLE.with(|table| {
        if let Some(at) = table.find(lock) {
            table.remove(at);
        }
    });
}

/// Strikes out all process-shared locks: after `fork`, in the child, which holds none of them.
pub(crate) fn forget_shared() {
    TABLE.with(|table| {
        for at in (0..table.len.get()).rev() {
            if table.get(at).shared {
                table.remove(at);
            }
        }
    });
}

impl Table {
    /// The newest first: locks are mostly left in the reverse order of their taking.
    fn find(&self, lock: usize) -> Option<usize> {
        (0..self.len.get()).rev().find(|&at| self.get(at).lock == lock)
    }

    fn get(&self, at: usize) -> Hold {
        match self.near.get(at) {
            Some(hold) => hold.get(),
            // SAFETY: `at < len ≤ NEAR + far_room`, and all places below `len` have been written.
            None => unsafe { self.far_place(at).read() },
        }
    }

    fn set(&self, at: usize, hold: Hold) {
        match self.near.get(at) {
            Some(place) => place.set(hold),
            // SAFETY: `at < len ≤ NEAR + far_room`: `reserve` saw to it.
            None => unsafe { self.far_place(at).write(hold) },
        }
    }

    fn far_place(&self, at: usize) -> *mut Hold {
        assert!(at - NEAR < self.far_room.get(), "a hold was noted without room for it");
        self.far.get().wrapping_add(at - NEAR)
    }

    fn remove(&self, at: usize) {
        let last = self.len.get() - 1;
        self.set(at, self.get(last));
        self.len.set(last);
        if last == 0 && !self.far.get().is_null() {
            // SAFETY: the pages come from `map`, with this room, and no place in them is used.
            unsafe { libc::munmap(self.far.get().cast(), self.far_room.get() * size_of::<Hold>()) };
            self.far.set(ptr::null_mut());
            self.far_room.set(0);
        }
    }

    fn reserve(&self) -> bool {
        let far = self.far_room.get();
        if self.len.get() < NEAR + far {
            return true;
        }
        let room = if far == 0 { FAR_FIRST } else { far * 2 };
        let Some(pages) = map(room) else { return false };
        if far != 0 {
            // SAFETY: both are live and apart, and the new pages have room for twice as many.
            unsafe { ptr::copy_nonoverlapping(self.far.get(), pages, far) };
            // SAFETY: the old pages come from `map`, with this room, and were just copied.
            unsafe { libc::munmap(self.far.get().cast(), far * size_of::<Hold>()) };
        }
        self.far.set(pages);
        self.far_room.set(room);
        true
    }
}

/// Fresh pages for `room` holds.
fn map(room: usize) -> Option<*mut Hold> {
    // SAFETY: a new private anonymous mapping wherever the kernel likes touches no memory of ours.
    let pages = unsafe {
        libc::mmap(
            ptr::null_mut(),
            room * size_of::<Hold>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    (pages != libc::MAP_FAILED).then_some(pages.cast())
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
        let many = if cfg!(miri) { NEAR + 3 * FAR_FIRST } else { 2000 };
        for lock in 1..=many {
            take(lock, Mode::Read(lock as u32));
        }
        for lock in 1..=many {
            assert_eq!(mode(lock), Some(Mode::Read(lock as u32)));
        }
        assert_eq!(mode(many + 1), None);
        for lock in 1..=many {
            forget(lock);
            assert_eq!(mode(lock), None);
        }
        TABLE.with(|table| assert!(table.far.get().is_null() && table.far_room.get() == 0));
    }

    #[test]
    fn after_a_fork_only_private_locks_are_held() {
        for lock in 1..=40 {
            take(lock, Mode::Write);
        }
        forget_shared();
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
        change(6, Mode::Write);
        assert_eq!(mode(5), Some(Mode::Read(2)));
        assert_eq!(mode(6), None);
        forget(6);
        forget(5);
    }
}
