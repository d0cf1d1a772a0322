//! A child of a fork, and what threads that are gone left in the lock: see `fair/fork.rs`.
//!
//! In a model the process's number is 0. So a lock with another stamp is one that this process has
//! from its parent, with every bit of the waiters set and pointers that lead nowhere: a model that
//! follows one, or waits for the scheduler that they speak of, fails.

use loom::sync::Arc;

use super::super::lists::Lists;
use super::super::node::Node;
use super::super::word::{QUEUED, WAITING_ONLY};
use super::*;

/// A lock with `held` in its word, as a child of a fork has it.
fn left_behind<P: Policy>(held: usize) -> Arc<Counted<P>> {
    let mut lock = Counted::<P>::new();
    Arc::get_mut(&mut lock).expect("it is new").raw.forked = true;
    let gone = core::ptr::without_provenance_mut(align_of::<Node>());
    lock.raw.state.store(held | QUEUED | WAITING_ONLY, Ordering::Relaxed);
    lock.raw.inbox.store(gone, Ordering::Relaxed);
    // SAFETY: no other thread has the lock yet.
    lock.raw.lists.with_mut(|lists| unsafe { lists.write(Lists::of_gone(gone)) });
    lock.raw.stamp.store(2, Ordering::Relaxed);
    lock
}

fn child<P: Policy>(preemptions: usize, held: usize, parts: &'static [Part<P>]) {
    model(preemptions, move || {
        let lock = left_behind::<P>(held);
        side_by_side(parts.iter().map(|part| {
            let lock = lock.clone();
            move || part(&lock)
        }));
        lock.assert_at_rest();
    });
}

/// The thread that forked has the lock for writing, and gives it up as C programs do.
fn leaves<P: Policy>(lock: &Counted<P>) {
    lock.add();
    // SAFETY: the lock is alive and held.
    unsafe { RawRwLock::leave(&raw const lock.raw, Kind::Write) };
}

/// The same by a guard's drop.
fn drops<P: Policy>(lock: &Counted<P>) {
    lock.add();
    lock.raw.write_done();
}

#[test]
fn fair_s17_loom_the_forker_leaves_while_a_new_thread_comes() {
    child::<Strict>(3, WRITER, &[leaves, writes]);
}

#[test]
fn fair_s17_loom_the_forker_drops_its_guard_while_a_new_thread_comes() {
    child::<Passing>(3, WRITER, &[drops, writes]);
}

#[test]
fn fair_s17_loom_two_new_threads_find_what_is_left() {
    // Dearer than the others: both may have to wait, for the clearing and then for the lock.
    child::<Strict>(1, 0, &[writes, writes]);
}

#[test]
fn fair_s17_loom_a_try_and_a_wait_find_what_is_left() {
    child::<Strict>(
        3,
        0,
        &[
            |lock| {
                if lock.raw.try_acquire(Kind::Write) {
                    lock.add();
                    lock.raw.write_done();
                }
            },
            writes,
        ],
    );
}
