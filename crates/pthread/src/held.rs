//! What this thread holds: which locks, in which mode, how often.
//!
//! POSIX has one `unlock` for both modes, wants a second write lock refused rather than waited for,
//! and programs rely on a second read lock that does not wait behind a writer. All three need to
//! know what the calling thread holds, and the lock itself does not name its readers.
//!
//! | part | what it has | cost |
//! |---|---|---|
//! | [`recent`] | the last 8 to 16 locks that the thread took, in order | a push or a pop |
//! | [`table`] | older holds, in a hash table by the lock's address | one short search |
//!
//! Nearly all programs release the lock that they took last, so nearly all calls push or pop: a
//! lock call costs the same however many locks the thread holds. When the 16 places of `recent` are
//! in use, the older half moves to the table at once. A lock that is found free is not held by this
//! thread, so taking a free lock needs no search.
//!
//! **Invariant:** a hold is in one place, of `recent` or of the table.
//!
//! The exception: the memory of a lock that was held may go without an unlock, and a new lock may
//! come to lie there. The old hold is then found and struck out by `init`, `destroy`, or the first
//! call that asks for it and sees that nobody holds the lock.
//!
//! Both parts lie in the thread's static storage ([`near`]), larger tables in pages from the
//! kernel: never in the heap, as the program's `malloc` may use read-write locks of its own. The
//! pages go back when the table is empty, so a thread that ends properly leaves none and needs no
//! destructor; one that ends with many locks held leaks them along with the locks.
//!
//! A lock is known by its address: one that is mapped twice is two locks here. After `fork` the
//! child has the forking thread's holds, which is right for its copies of private locks;
//! process-shared ones stay the parent's ([`forget_shared`]).
//!
//! POSIX does not allow lock calls in a signal handler. A handler that takes and releases up to
//! eight locks at a time works nevertheless, also in the midst of a call of the interrupted thread
//! that does not wait ([`recent`] says why), as long as it does not make the table grow.

mod near;
mod recent;
mod table;

use std::cell::Cell;
#[cfg(any(test, miri))]
use std::ptr;

use libc::c_int;

use recent::Recent;
pub(crate) use recent::Top;
use table::Table;

/// How a thread holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// For reading, this many times.
    Read(u32),
    /// For writing.
    Write,
}

/// A hold, or nothing. All zero is nothing.
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

impl Slot {
    #[inline(always)]
    fn new(lock: usize, mode: Mode, shared: bool) -> Self {
        Self { lock, reads: reads(mode), shared }
    }

    /// How the lock is held. The slot is not empty.
    #[inline(always)]
    fn mode(self) -> Mode {
        if self.reads == 0 { Mode::Write } else { Mode::Read(self.reads) }
    }
}

#[inline(always)]
fn reads(mode: Mode) -> u32 {
    match mode {
        Mode::Read(reads) => reads,
        Mode::Write => 0,
    }
}

/// All that is kept of a thread. All zero is a valid one that has not been used yet.
#[repr(C)]
struct Holds {
    recent: Recent,
    table: Table,
    /// Where this thread's `errno` is; null before the first use.
    errno: Cell<*mut c_int>,
}

impl Holds {
    /// What all zero bytes are.
    #[cfg(any(test, miri))]
    const fn new() -> Self {
        Self { recent: Recent::new(), table: Table::new(), errno: Cell::new(ptr::null_mut()) }
    }

    /// Makes room for one more hold in `recent`; false if there is no memory for it.
    #[cold]
    #[inline(never)]
    fn make_room(&self) -> bool {
        self.table.reserve(recent::HALF) && {
            self.recent.drain_older_half(|slot| self.table.insert(slot));
            true
        }
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

/// Whether there is room for one more hold without further work: the usual case.
#[inline(always)]
pub(crate) fn has_room() -> bool {
    near::with(|holds| holds.recent.has_room())
}

/// Makes room for one more hold; false if there is no memory for it.
pub(crate) fn reserve() -> bool {
    near::with(|holds| holds.recent.has_room() || holds.make_room())
}

/// Notes a hold of a lock that this thread did not hold. [`has_room`] or [`reserve`] said that
/// there is room, and nothing has been added since.
#[inline(always)]
pub(crate) fn add(lock: usize, mode: Mode, shared: bool) {
    near::with(|holds| holds.recent.push(Slot::new(lock, mode, shared)));
}

/// The last hold and its mode, if it is of the lock at `lock`.
#[inline(always)]
pub(crate) fn top_of(lock: usize) -> Option<(Top, Mode)> {
    near::with(|holds| holds.recent.top_of(lock))
}

/// Strikes out the hold that [`top_of`] has found.
#[inline(always)]
pub(crate) fn forget_top(top: Top) {
    near::with(|holds| holds.recent.pop(top));
}

/// The position and mode of the lock at `lock`, if it is among the last ones that were taken.
#[inline(always)]
pub(crate) fn recent_of(lock: usize) -> Option<(u32, Mode)> {
    near::with(|holds| holds.recent.find(lock).map(|(at, slot)| (at, slot.mode())))
}

/// Strikes out the hold that [`recent_of`] has found, unless a signal handler has done so.
#[inline(always)]
pub(crate) fn forget_recent(at: u32, lock: usize) {
    near::with(|holds| {
        if holds.recent.is_at(at, lock) {
            holds.recent.remove(at);
        }
    });
}

/// The mode in which this thread holds the lock at `lock`.
pub(crate) fn mode(lock: usize) -> Option<Mode> {
    near::with(|holds| {
        let recent = holds.recent.find(lock).map(|(_, slot)| slot);
        recent.or_else(|| holds.table.get(lock)).map(Slot::mode)
    })
}

/// Changes the mode in which this thread holds the lock at `lock`.
pub(crate) fn change(lock: usize, mode: Mode) {
    near::with(|holds| match holds.recent.find(lock) {
        Some((at, slot)) => holds.recent.set(at, Slot { reads: reads(mode), ..slot }),
        None => holds.table.change(lock, reads(mode)),
    });
}

/// Strikes out the hold of the lock at `lock`, if there is one.
pub(crate) fn forget(lock: usize) {
    near::with(|holds| match holds.recent.find(lock) {
        Some((at, _)) => holds.recent.remove(at),
        None => holds.table.remove(lock),
    });
}

/// Strikes out every hold of the lock at `lock`: also those of earlier locks at this address, whose
/// memory went without an unlock.
pub(crate) fn forget_all(lock: usize) {
    while mode(lock).is_some() {
        forget(lock);
    }
}

/// Strikes out all process-shared locks: after `fork`, in the child, which holds none of them.
/// Tells whether the parent held one for reading at that moment.
pub(crate) fn forget_shared() -> bool {
    let mut any_read = false;
    let mut is_private = |slot: Slot| {
        any_read |= slot.shared && slot.reads > 0;
        !slot.shared
    };
    near::with(|holds| {
        holds.recent.retain(&mut is_private);
        holds.table.retain(&mut is_private);
    });
    any_read
}

/// Where this thread's `errno` is.
#[inline(always)]
pub(crate) fn errno() -> *mut c_int {
    near::with(|holds| {
        let at = holds.errno.get();
        if at.is_null() { holds.find_errno() } else { at }
    })
}

#[cfg(test)]
mod tests;
