//! Leaving the line by time-out, and leaving the lock to somebody who frees it.

use loom::sync::Arc;

use super::*;

#[test]
fn loom_a_timed_out_writer_lets_waiting_readers_go() {
    together::<Strict>(
        2,
        &[
            reads,
            |lock| {
                lock.write_timed();
            },
            reads,
        ],
    );
}

#[test]
fn loom_timed_readers_and_writers_race_with_grants() {
    together::<Strict>(
        2,
        &[
            |lock| {
                lock.read_timed();
            },
            |lock| {
                lock.write_timed();
            },
            writes,
        ],
    );
}

#[test]
fn loom_a_summoned_waiter_may_time_out() {
    together::<Passing>(
        2,
        &[
            |lock| {
                lock.write_timed();
            },
            |lock| {
                lock.write_timed();
            },
            writes,
        ],
    );
}

/// Two owners, one of which frees the lock once it is the last: as C programs do.
fn last_owner_frees<P: Policy>(preemptions: usize, kind: Kind) {
    model(preemptions, move || {
        let lock = Counted::<P>::new();
        let leave = move |lock: &Arc<Counted<P>>| {
            match kind {
                Kind::Read => lock.raw.read(),
                _ => lock.raw.write(),
            }
            let left = match kind {
                Kind::Read => 2,
                _ => {
                    lock.add();
                    lock.look()
                }
            };
            let raw = std::ptr::from_ref(&lock.raw);
            // SAFETY: the lock is alive and held.
            unsafe { RawRwLock::leave(raw, kind) };
            left
        };
        let other = {
            let lock = lock.clone();
            thread::spawn(move || {
                if leave(&lock) == 2 && kind == Kind::Write {
                    free(&lock);
                }
            })
        };
        if leave(&lock) == 2 && kind == Kind::Write {
            free(&lock);
        }
        other.join().unwrap();
    });
}

/// What freeing means to a model: a write to the lock that nothing may come after.
fn free<P: Policy>(lock: &Arc<Counted<P>>) {
    assert!(lock.raw.retire(), "nobody holds or waits any more");
    lock.raw.lists.with_mut(|_| ());
    // SAFETY: nobody else may touch the lock now; loom fails the model if somebody does.
    assert_eq!(unsafe { lock.raw.state.unsync_load() }, 0);
}

#[test]
fn fair_s13_the_last_owner_may_free_the_lock() {
    last_owner_frees::<Strict>(3, Kind::Write);
}

#[test]
fn fair_s13_the_last_owner_may_free_the_lock_when_passing() {
    last_owner_frees::<Passing>(3, Kind::Write);
}

#[test]
fn loom_readers_leave_to_a_writer() {
    model(2, || {
        let lock = Strictly::new();
        let reader = {
            let lock = lock.clone();
            thread::spawn(move || {
                lock.raw.read();
                lock.look();
                // SAFETY: the lock is alive and held.
                unsafe { RawRwLock::leave(&raw const lock.raw, Kind::Read) };
            })
        };
        let second = {
            let lock = lock.clone();
            thread::spawn(move || lock.write())
        };
        lock.raw.write();
        lock.add();
        // SAFETY: the lock is alive and held.
        unsafe { RawRwLock::leave(&raw const lock.raw, Kind::Write) };
        reader.join().unwrap();
        second.join().unwrap();
        assert_eq!(lock.read(), 2);
        lock.assert_at_rest();
    });
}
