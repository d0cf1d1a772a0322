//! The child of a fork, and the waiters and the scheduler that it does not have.
//!
//! Each test brings a lock into a state that another thread left behind, forks, and has the child
//! use the lock. The parent then lets its threads go on.

use std::future::Future as _;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use lock_api::{RawRwLock as _, RawRwLockTimed as _};

use super::node::{Kind, Node};
use super::word::{
    AWAKE, DEMAND, HANDOVER, PENDING, QUEUED, READERS_NEXT, SCHEDULER, WAITING_ONLY,
};
use super::*;
use crate::sync::Ordering;

/// Runs `body` in a child of a fork. False if it fails there, or does not end: to be looked at when
/// no other thread waits any more.
#[must_use]
fn in_child(body: impl FnOnce()) -> bool {
    // SAFETY: the child runs `body` and leaves without destructors; an alarm ends it. The other
    // threads of these tests wait in locks or channels meanwhile, not in the allocator.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: its default is to end the process.
        unsafe { libc::alarm(60) };
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        // SAFETY: this leaves the process.
        unsafe { libc::_exit(if result.is_ok() { 0 } else { 1 }) }
    }
    assert!(child > 0, "fork: {}", std::io::Error::last_os_error());
    let mut status = 0;
    // SAFETY: our own child, and a place for its status.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    status == 0
}

/// One thread has begun to find out how fast the clock is, and another one forks. If the clock is
/// known already, as other tests have run in this process, there is nothing to see.
#[test]
fn fair_s16_a_child_finds_out_by_itself_what_another_thread_was_finding_out() {
    use super::clock::pause::{OFF, ON, STATE, STOPPED};

    STATE.store(ON, Ordering::Release);
    let mut went_well = true;
    thread::scope(|scope| {
        let finder = scope.spawn(Bounded::<10_000>::now);
        while STATE.load(Ordering::Acquire) != STOPPED && !finder.is_finished() {
            thread::yield_now();
        }
        went_well = in_child(|| {
            works(&RawRwLock::<Bounded>::new());
            assert!(Bounded::<10_000>::now() > 0 && Bounded::<10_000>::crowd() > 0);
        });
        STATE.store(OFF, Ordering::Release);
    });
    assert!(went_well, "the child waits for a thread that it does not have");
}

/// Some threads use the lock, as if nothing had happened; then it is at rest.
fn works<P: Policy>(lock: &RawRwLock<P>) {
    thread::scope(|scope| {
        for turn in 0..4 {
            scope.spawn(move || {
                for _ in 0..200 {
                    if turn % 2 == 0 {
                        lock.lock_exclusive();
                        // SAFETY: this thread has the hold that it gives up here.
                        unsafe { lock.unlock_exclusive(()) };
                    } else {
                        lock.lock_shared();
                        // SAFETY: this thread has the hold that it gives up here.
                        unsafe { lock.unlock_shared(()) };
                    }
                }
            });
        }
    });
    // If no call met another one, nobody has had a reason to look into the inbox yet.
    lock.renew();
    is_at_rest(lock);
    assert!(lock.try_lock_exclusive().is_some());
    // SAFETY: held, and alive.
    unsafe { RawRwLock::leave_exclusive(lock) };
    assert!(lock.retire());
}

fn is_at_rest<P: Policy>(lock: &RawRwLock<P>) {
    assert_eq!(lock.state.load(Ordering::Acquire), 0);
    assert!(lock.inbox.load(Ordering::Acquire).is_null());
}

/// The calling thread holds the lock for writing, two others wait for it, and a third, the
/// scheduler, has lost its processor. `body` forks.
fn with_waiters_and_scheduler<P: Policy>(body: impl FnOnce(&RawRwLock<P>) -> bool) {
    let lock = RawRwLock::<P>::new();
    lock.lock_exclusive();
    let mut went_well = false;
    thread::scope(|scope| {
        for turn in 0..2 {
            let lock = &lock;
            scope.spawn(move || {
                if turn == 0 {
                    lock.lock_exclusive();
                    // SAFETY: this thread has the hold that it gives up here.
                    unsafe { lock.unlock_exclusive(()) };
                } else {
                    lock.lock_shared();
                    // SAFETY: this thread has the hold that it gives up here.
                    unsafe { lock.unlock_shared(()) };
                }
            });
        }
        while lock.inbox.load(Ordering::Acquire).is_null()
            || lock.state.load(Ordering::Acquire) & SCHEDULER != 0
        {
            thread::yield_now();
        }
        // Into the lists with those who are there; the rest stays in the inbox.
        lock.schedule();
        let before = lock.state.fetch_or(SCHEDULER | DEMAND | AWAKE, Ordering::Relaxed);
        assert!(before & QUEUED != 0 && before & SCHEDULER == 0, "{before:#x}");
        went_well = body(&lock);
        // In the parent the scheduler is there, and leaves.
        let new = SCHEDULER | (AWAKE & !before) | (DEMAND & !before);
        lock.state.fetch_and(!new, Ordering::Relaxed);
        lock.schedule();
        // SAFETY: this thread has the hold that it gives up here.
        unsafe { lock.unlock_exclusive(()) };
    });
    is_at_rest(&lock);
    assert!(went_well, "a child failed, or did not end");
}

#[test]
fn fair_s17_a_child_unlocks_a_lock_whose_scheduler_is_gone() {
    fn leaves<P: Policy>() {
        with_waiters_and_scheduler::<P>(|lock| {
            in_child(|| {
                // SAFETY: held, and alive.
                unsafe { RawRwLock::leave_exclusive(lock) };
                is_at_rest(lock);
                works(lock);
            })
        });
    }
    leaves::<Bounded>();
    leaves::<Strict>();
}

#[test]
fn fair_s17_a_child_drops_a_guard_of_a_lock_that_others_waited_for() {
    with_waiters_and_scheduler::<Bounded>(|lock| {
        let child = in_child(|| {
            // SAFETY: this thread has the hold that it gives up here.
            unsafe { lock.unlock_exclusive(()) };
            // What is left is cleared by the first who meets it.
            assert!(lock.try_lock_exclusive().is_some());
            // SAFETY: this thread has the hold that it gives up here.
            unsafe { lock.unlock_exclusive(()) };
            works(lock);
        });
        // A grandchild, by way of a child that did not touch the lock.
        let drops = || {
            // SAFETY: this thread has the hold that it gives up here.
            unsafe { lock.unlock_exclusive(()) };
            works(lock);
        };
        child && in_child(|| assert!(in_child(drops)))
    });
}

#[test]
fn fair_s17_a_child_downgrades_and_hands_over_fairly() {
    use lock_api::RawRwLockFair as _;

    with_waiters_and_scheduler::<Strict>(|lock| {
        in_child(|| {
            lock.downgrade(Kind::Read);
            assert!(lock.try_lock_shared().is_some());
            // SAFETY: this thread has the hold that it gives up here.
            unsafe { lock.unlock_shared_fair(()) };
            // SAFETY: this thread has the hold that it gives up here.
            unsafe { lock.unlock_shared_fair(()) };
            works(lock);
        })
    });
}

/// A pointer to where a node was: the stack belongs to another thread by now.
fn gone() -> *mut Node {
    core::ptr::without_provenance_mut(align_of::<Node>())
}

#[test]
fn fair_s17_nothing_that_a_gone_thread_left_is_followed_or_waited_for() {
    // Each set of bits that waiters can leave, with nobody inside and with one reader.
    let bits = [
        0,
        QUEUED,
        QUEUED | HANDOVER,
        QUEUED | SCHEDULER | PENDING,
        QUEUED | AWAKE | READERS_NEXT,
        QUEUED | PENDING | DEMAND,
        SCHEDULER,
        QUEUED | WAITING_ONLY,
    ];
    for left in bits {
        let lock = RawRwLock::<Bounded>::new();
        // As whoever left all this has done.
        lock.renew();
        lock.state.store(left, Ordering::Relaxed);
        lock.inbox.store(gone(), Ordering::Relaxed);
        lock.waiting.store(3, Ordering::Relaxed);
        // SAFETY: nobody else uses the lock.
        lock.lists.with_mut(|lists| unsafe { lists.write(super::lists::Lists::of_gone(gone())) });
        let writes = in_child(|| {
            assert!(lock.try_lock_exclusive().is_some(), "{left:#x}");
            // SAFETY: held, and alive.
            unsafe { RawRwLock::leave_exclusive(&lock) };
            works(&lock);
        });
        let reads = in_child(|| {
            lock.lock_shared();
            let soon = Duration::from_millis(1);
            assert!(lock.try_lock_exclusive_for(soon).is_none(), "{left:#x}");
            // SAFETY: held, and alive.
            unsafe { RawRwLock::leave_shared(&lock) };
            works(&lock);
        });
        let uses = in_child(|| works(&lock));
        let frees = in_child(|| assert!(lock.retire(), "{left:#x}"));
        assert!(writes && reads && uses && frees, "{left:#x}: {writes} {reads} {uses} {frees}");
    }
}

struct Nothing;

impl Wake for Nothing {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn fair_s17_a_future_that_got_in_line_in_the_parent_gets_in_line_again() {
    let lock = RwLock::new(0);
    let held = lock.write();
    let waker = Waker::from(Arc::new(Nothing));
    let mut context = Context::from_waker(&waker);
    let mut waiting = pin!(lock.write_async());
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    let mut dropped = Some(Box::pin(lock.read_async()));
    assert!(dropped.as_mut().unwrap().as_mut().poll(&mut context).is_pending());
    let went_well = in_child(|| {
        drop(dropped.take());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        // SAFETY: the raw lock is used in pairs with what is held.
        let raw = unsafe { lock.raw() };
        // SAFETY: held; the child ends without dropping the guard.
        unsafe { raw.unlock_exclusive(()) };
        let Poll::Ready(mut written) = waiting.as_mut().poll(&mut context) else {
            panic!("the future was not let in");
        };
        *written += 1;
        drop(written);
        works(raw);
    });
    drop(held);
    drop(dropped);
    assert!(went_well);
    assert!(waiting.as_mut().poll(&mut context).is_ready());
}
