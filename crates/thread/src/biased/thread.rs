//! The calling thread's record.

use std::cell::Cell;
use std::ptr;

use super::record::Record;
use crate::backend::{Chained, Spares};
use crate::sync::machine::{AtomicPtr, Ordering};

/// For threads that have none: never free, and never written.
static NOBODY: Record = Record::of_nobody();

/// Records of threads that have ended.
static SPARES: Spares<Made> = Spares::new();

/// A record, and the one that was made before it: none is ever freed, and none is out of reach.
struct Made {
    record: Record,
    before: AtomicPtr<Self>,
    /// The next one without a thread.
    spare: AtomicPtr<Self>,
}

impl Chained for Made {
    fn next(&self) -> &AtomicPtr<Self> {
        &self.spare
    }
}

/// The record that was made last.
static LAST: AtomicPtr<Made> = AtomicPtr::new(ptr::null_mut());

thread_local! {
    /// The record whose first slot may be tried. Has no destructor, so that it can be read at any
    /// time and at no price.
    static FIRST: Cell<&'static Record> = const { Cell::new(&NOBODY) };
    static MINE: Cell<Option<&'static Made>> = const { Cell::new(None) };
    static AT_THE_END: GiveBack = const { GiveBack };
}

/// The record whose first slot the calling thread may try: its own, or nobody's.
#[inline]
pub(super) fn first() -> &'static Record {
    FIRST.get()
}

/// Another slot than the first of the thread's record was filled, or emptied: the first one is not
/// to be tried meanwhile.
pub(super) fn has_nested(mine: &'static Record) {
    FIRST.set(if mine.is_nested() { &NOBODY } else { mine });
}

/// The calling thread's record, made if there is none; none if the thread is about to end.
pub(super) fn mine() -> Option<&'static Record> {
    MINE.get().or_else(make).map(|made| &made.record)
}

#[cold]
fn make() -> Option<&'static Made> {
    AT_THE_END.try_with(|_| {}).ok()?;
    let made = SPARES.take().unwrap_or_else(make_record);
    MINE.set(Some(made));
    FIRST.set(&made.record);
    Some(made)
}

fn make_record() -> &'static Made {
    let none = || AtomicPtr::new(ptr::null_mut());
    let made = Made { record: Record::new(), before: none(), spare: none() };
    let made: &'static Made = Box::leak(Box::new(made));
    let mut last = LAST.load(Ordering::Relaxed);
    loop {
        made.before.store(last, Ordering::Relaxed);
        let new = ptr::from_ref(made).cast_mut();
        match LAST.compare_exchange_weak(last, new, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return made,
            Err(now) => last = now,
        }
    }
}

/// Gives the record back when the thread ends.
#[derive(Debug)]
struct GiveBack;

impl Drop for GiveBack {
    fn drop(&mut self) {
        // If some guard is left, in another thread-local value or forgotten, the record stays with
        // this thread for good.
        if let Some(made) = MINE.get().filter(|made| made.record.is_empty()) {
            FIRST.set(&NOBODY);
            MINE.set(None);
            SPARES.leave(made);
        }
    }
}
