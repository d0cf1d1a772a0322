//! Models of the transitions that ship, with records that the model chooses and a fair lock that is
//! as simple as can be: the real one has models of its own. The data is a loom cell, so a model
//! fails on any access that is not ordered.

use lockspan_park::Deadline;
use loom::cell::UnsafeCell;
use loom::sync::{Arc, Condvar, Mutex};

use super::core::{Core, Fair, No, Wait};
use super::record::Record;
use crate::sync::thread;

/// More do not finish in minutes.
const PREEMPTIONS: usize = 3;

const FOREVER: Wait = Wait::Until(None);

/// Sleeps, as threads that wait in a loop would do so forever in a model.
struct Simple {
    is_locked: Mutex<bool>,
    unlocked: Condvar,
}

// SAFETY: whoever sets the flag is alone until it clears it, and the mutex orders both.
unsafe impl Fair for Simple {
    fn lock(&self, _deadline: Option<Deadline>) -> bool {
        let mut is_locked = self.is_locked.lock().unwrap();
        while *is_locked {
            is_locked = self.unlocked.wait(is_locked).unwrap();
        }
        *is_locked = true;
        true
    }

    fn try_lock(&self) -> bool {
        !std::mem::replace(&mut *self.is_locked.lock().unwrap(), true)
    }

    unsafe fn unlock(&self) {
        *self.is_locked.lock().unwrap() = false;
        self.unlocked.notify_one();
    }

    fn is_locked(&self) -> bool {
        *self.is_locked.lock().unwrap()
    }

    fn has_waiters(&self) -> bool {
        false
    }
}

/// How a thread is in.
enum How {
    First,
    Other(usize),
    Fair,
}

struct Guarded {
    core: Core<Simple>,
    data: UnsafeCell<u32>,
}

impl Guarded {
    fn new() -> Self {
        let fair = Simple { is_locked: Mutex::new(false), unlocked: Condvar::new() };
        Self { core: Core::new(fair), data: UnsafeCell::new(0) }
    }

    fn lock(&self, me: &Record, wait: Wait) -> Option<How> {
        if self.core.enter(me) {
            return Some(How::First);
        }
        match self.core.enter_other(me) {
            Ok(at) => Some(How::Other(at)),
            Err(No::Mine) => None,
            Err(No::Bias) => self.core.lock_fair(Some(me), wait).then_some(How::Fair),
        }
    }

    fn add(&self) {
        // SAFETY: whoever calls holds the lock; loom checks it.
        self.data.with_mut(|data| unsafe { *data += 1 });
    }

    fn unlock(&self, me: &Record, how: How) {
        match how {
            How::First => me.empty_first(),
            How::Other(at) => me.empty_other(at),
            // SAFETY: it says so.
            How::Fair => unsafe { self.core.leave_fair(Some(me)) },
        }
    }

    fn use_once(&self, me: &Record) {
        let how = self.lock(me, FOREVER).expect("it waits, and does not hold it");
        self.add();
        self.unlock(me, how);
    }

    fn try_once(&self, me: &Record) -> bool {
        let how = self.lock(me, Wait::Not);
        let is_in = how.is_some();
        if let Some(how) = how {
            self.add();
            self.unlock(me, how);
        }
        is_in
    }
}

/// Two locks and the records of three threads.
struct World {
    one: Guarded,
    two: Guarded,
    records: [Record; 3],
}

/// Each part in a thread of its own, with a record of its own, in every interleaving; the first
/// one's record has the bias of both locks.
fn side_by_side(parts: &'static [fn(&World, &Record)], uses: u32) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(PREEMPTIONS);
    model.check(move || {
        let records = [Record::new(), Record::new(), Record::new()];
        let world = Arc::new(World { one: Guarded::new(), two: Guarded::new(), records });
        for lock in [&world.one, &world.two] {
            lock.use_once(&world.records[0]);
            assert!(lock.core.is_biased());
        }
        let others: Vec<_> = (1..parts.len())
            .map(|at| {
                let world = Arc::clone(&world);
                thread::spawn(move || parts[at](&world, &world.records[at]))
            })
            .collect();
        parts[0](&world, &world.records[0]);
        others.into_iter().for_each(|thread| thread.join().unwrap());
        // SAFETY: all are done; loom checks it.
        let count = |lock: &Guarded| lock.data.with(|data| unsafe { *data });
        assert_eq!(count(&world.one) + count(&world.two), uses + 2);
        assert!(!world.one.core.is_locked() && !world.two.core.is_locked());
    });
}

#[test]
fn loom_biased_rlock_r1_a_thief_and_the_owner_are_never_in_together() {
    side_by_side(
        &[
            |world, me| {
                world.one.use_once(me);
                world.one.use_once(me);
            },
            |world, me| world.one.use_once(me),
        ],
        3,
    );
}

#[test]
fn loom_biased_rlock_r2_two_thieves_rob_each_other_and_the_owner() {
    side_by_side(
        &[
            |world, me| world.one.use_once(me),
            |world, me| world.one.use_once(me),
            |world, me| world.one.use_once(me),
        ],
        3,
    );
}

#[test]
fn loom_biased_rlock_r3_a_thief_that_gives_up_leaves_the_owner_in_peace() {
    side_by_side(
        &[
            |world, me| {
                world.one.use_once(me);
                world.one.use_once(me);
            },
            |world, me| {
                // What the attempt did is added here, so that the sum tells.
                if !world.one.try_once(me) {
                    world.one.use_once(me);
                }
            },
        ],
        3,
    );
}

#[test]
fn loom_biased_rlock_r4_after_one_gave_up_another_needs_no_barrier() {
    side_by_side(
        &[
            |world, me| world.one.use_once(me),
            |world, me| {
                if !world.one.try_once(me) {
                    world.two.use_once(me);
                }
            },
            |world, me| world.one.use_once(me),
        ],
        3,
    );
}

#[test]
fn loom_biased_rlock_r5_an_owner_of_two_is_robbed_of_the_outer_one_alone() {
    side_by_side(
        &[
            |world, me| {
                let outer = world.one.lock(me, FOREVER).unwrap();
                let inner = world.two.lock(me, FOREVER).unwrap();
                world.one.add();
                world.two.add();
                // Not the last one first.
                world.one.unlock(me, outer);
                world.two.add();
                world.two.unlock(me, inner);
            },
            |world, me| world.one.use_once(me),
        ],
        4,
    );
}

#[test]
fn loom_biased_rlock_r6_who_is_in_another_lock_is_not_waited_for() {
    side_by_side(
        &[
            |world, me| {
                let how = world.two.lock(me, FOREVER).unwrap();
                // If a thief waited for this section to end, nobody would ever go on.
                world.one.use_once(me);
                world.two.unlock(me, how);
                world.two.use_once(me);
            },
            |world, me| world.one.use_once(me),
        ],
        3,
    );
}
