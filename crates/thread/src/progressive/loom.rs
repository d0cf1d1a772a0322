//! What the models of the progressive locks share: data that loom watches, and threads that follow
//! scripts.
//!
//! Each thread has a slot, which it changes in the atomic phase, and a mark, which it makes in the
//! claim phase. Readers look at all slots and marks, claimants at all slots, atomics at all marks,
//! and a thread that is alone changes everything. All are loom cells: a model fails when two
//! accesses that exclude each other are not ordered, even if they did not meet.

use loom::cell::UnsafeCell;
use loom::sync::Arc;

use crate::sync::thread;

/// As many threads as a model has.
const THREADS: usize = 3;

/// The data behind a lock.
pub(super) struct Watched<R> {
    pub(super) raw: R,
    slots: [UnsafeCell<u32>; THREADS],
    marks: [UnsafeCell<u32>; THREADS],
}

// SAFETY: the cells are only reached under the lock; loom checks just that.
unsafe impl<R> Sync for Watched<R> {}
// SAFETY: the cells go where the lock goes; loom checks who reaches them.
unsafe impl<R> Send for Watched<R> {}

impl<R> Watched<R> {
    fn new(raw: R) -> Self {
        let cells = || core::array::from_fn(|_| UnsafeCell::new(0));
        Self { raw, slots: cells(), marks: cells() }
    }

    /// What a reader or a seeker does; how many changes it sees.
    pub(super) fn look(&self) -> u32 {
        self.look_at_marks();
        self.changes()
    }

    fn changes(&self) -> u32 {
        // SAFETY: loom fails the model if anybody changes it.
        self.slots.iter().map(|slot| slot.with(|slot| unsafe { *slot })).sum()
    }

    fn look_at_marks(&self) {
        // SAFETY: loom fails the model if anybody changes it.
        self.marks.iter().for_each(|mark| mark.with(|mark| unsafe { _ = *mark }));
    }

    /// What a claimant does; how many changes it sees.
    pub(super) fn mark(&self, me: usize) -> u32 {
        // SAFETY: loom fails the model if anybody else is there.
        self.marks[me].with_mut(|mark| unsafe { *mark += 1 });
        self.changes()
    }

    /// What an atomic does.
    pub(super) fn change(&self, me: usize) {
        self.look_at_marks();
        // SAFETY: loom fails the model if anybody else is there.
        self.slots[me].with_mut(|slot| unsafe { *slot += 1 });
    }

    /// What somebody does who is alone.
    pub(super) fn change_all(&self) {
        for cell in self.slots.iter().chain(&self.marks) {
            // SAFETY: loom fails the model if anybody else is there.
            cell.with_mut(|cell| unsafe { *cell += 1 });
        }
    }
}

/// Every thread follows its script, in every interleaving of `preemptions`; `at_rest` looks at the
/// lock afterwards.
pub(super) fn side_by_side<R: 'static, D: Copy + Send + Sync + 'static>(
    preemptions: usize,
    new: fn() -> R,
    scripts: &[&'static [D]],
    follow: fn(&Watched<R>, usize, &[D]),
    at_rest: fn(&R),
) {
    let scripts = scripts.to_vec();
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(move || {
        let watched = Arc::new(Watched::new(new()));
        let mut threads = Vec::new();
        for (me, script) in scripts.iter().enumerate().skip(1) {
            let (watched, script) = (Arc::clone(&watched), *script);
            threads.push(thread::spawn(move || follow(&watched, me, script)));
        }
        follow(&watched, 0, scripts[0]);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        watched.look();
        at_rest(&watched.raw);
    });
}
