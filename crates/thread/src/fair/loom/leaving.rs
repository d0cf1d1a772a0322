//! Leaving the line by time-out, and leaving the lock to somebody who frees it.

use loom::sync::Arc;

use super::*;

#[test]
fn loom_a_timed_out_writer_lets_waiting_readers_go() {
    together::<Strict>(&[
        reads,
        |lock| {
            lock.write_timed();
        },
        reads,
    ]);
}

#[test]
fn loom_timed_readers_and_writers_race_with_grants() {
    together::<Strict>(&[
        |lock| {
            lock.read_timed();
        },
        |lock| {
            lock.write_timed();
        },
        writes,
    ]);
}

#[test]
fn loom_a_summoned_waiter_may_time_out() {
    together::<Passing>(&[
        |lock| {
            lock.write_timed();
        },
        |lock| {
            lock.write_timed();
        },
        writes,
    ]);
}

/// Two owners, the last of which frees the lock at once: as C programs do.
fn last_owner_frees<P: Policy>() {
    model(4, || {
        let lock = Counted::<P>::new();
        side_by_side((0..2).map(|_| {
            let lock = lock.clone();
            move || {
                lock.raw.write();
                lock.add();
                let is_last = lock.look() == 2;
                // SAFETY: the lock is alive and held.
                unsafe { RawRwLock::leave(&raw const lock.raw, Kind::Write) };
                if is_last {
                    free(&lock);
                }
            }
        }));
    });
}

/// The same by the shortest way in and out, where that is open.
fn last_owner_frees_at_once<P: Policy>() {
    model(4, || {
        let lock = Counted::<P>::new();
        side_by_side((0..2).map(|_| {
            let lock = lock.clone();
            move || {
                if !lock.raw.try_enter_free(Kind::Write) {
                    lock.raw.write();
                }
                lock.add();
                let is_last = lock.look() == 2;
                let raw = &raw const lock.raw;
                // SAFETY: the lock is alive and held.
                if !unsafe { RawRwLock::try_leave(raw, Kind::Write) } {
                    // SAFETY: as above; nothing has changed.
                    unsafe { RawRwLock::leave(raw, Kind::Write) };
                }
                if is_last {
                    free(&lock);
                }
            }
        }));
    });
}

#[test]
fn fair_s13_the_last_owner_may_free_the_lock_by_the_shortest_way() {
    last_owner_frees_at_once::<Strict>();
}

#[test]
fn loom_a_reader_goes_the_shortest_way_beside_a_writer() {
    together::<Strict>(&[
        |lock| {
            if lock.raw.try_enter_free(Kind::Read) {
                lock.look();
                let raw = &raw const lock.raw;
                // SAFETY: the lock is alive and held.
                if !unsafe { RawRwLock::try_leave(raw, Kind::Read) } {
                    // SAFETY: as above; nothing has changed.
                    unsafe { RawRwLock::leave(raw, Kind::Read) };
                }
            }
        },
        writes,
        reads,
    ]);
}

/// What freeing means to a model: a write to the lock that nothing may come after.
fn free<P: Policy>(lock: &Arc<Counted<P>>) {
    lock.raw.lists.with_mut(|_| ());
    // SAFETY: nobody else may touch the lock now; loom fails the model if somebody does.
    assert_eq!(unsafe { lock.raw.state.unsync_load() }, 0);
}

#[test]
fn fair_s13_the_last_owner_may_free_the_lock() {
    last_owner_frees::<Strict>();
}

#[test]
fn fair_s13_the_last_owner_may_free_the_lock_when_passing() {
    last_owner_frees::<Passing>();
}

#[test]
fn loom_readers_leave_to_a_writer() {
    together::<Strict>(&[
        |lock| {
            lock.raw.read();
            lock.look();
            // SAFETY: the lock is alive and held.
            unsafe { RawRwLock::leave(&raw const lock.raw, Kind::Read) };
        },
        writes,
        |lock| {
            lock.raw.write();
            lock.add();
            // SAFETY: the lock is alive and held.
            unsafe { RawRwLock::leave(&raw const lock.raw, Kind::Write) };
        },
    ]);
}
