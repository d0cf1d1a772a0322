//! What waiting costs in memory: a thread allocates nothing, a task once.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::sync::mpsc;
use std::task::{Context, Waker};
use std::thread;

use lockspan_thread::fair::{RwLock, RwLockExt, StrictRwLock};

/// Counts this thread's allocations.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the same contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the same contract.
        unsafe { System.dealloc(at, layout) };
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Counts what `f` allocates on this thread.
fn allocations(f: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.get();
    f();
    ALLOCATIONS.get() - before
}

#[test]
fn a_thread_that_waits_allocates_nothing() {
    let lock = RwLock::new(0);
    // The first wait in a process calibrates a clock; that is not the lock's.
    let wait = |lock: &RwLock<i32>| {
        let writer = lock.write();
        let (ready, is_ready) = mpsc::channel();
        thread::scope(|scope| {
            let waiter = scope.spawn(move || {
                ready.send(()).unwrap();
                allocations(|| drop(lock.read()))
            });
            is_ready.recv().unwrap();
            while !somebody_waits(lock) {
                thread::yield_now();
            }
            drop(writer);
            waiter.join().unwrap()
        })
    };
    wait(&lock);
    assert_eq!(wait(&lock), 0);
}

fn somebody_waits(lock: &RwLock<i32>) -> bool {
    // SAFETY: only looked at.
    let raw = unsafe { lock.raw() };
    format!("{raw:?}").contains("waiters: true")
}

#[test]
fn a_task_that_waits_allocates_once() {
    let lock = StrictRwLock::new(0);
    let mut context = Context::from_waker(Waker::noop());
    let free = allocations(|| {
        assert!(pin!(lock.write_async()).poll(&mut context).is_ready());
    });
    assert_eq!(free, 0, "a lock that is free costs nothing");
    let writer = lock.write();
    let count = allocations(|| {
        let mut future = pin!(lock.read_async());
        for _ in 0..3 {
            assert!(future.as_mut().poll(&mut context).is_pending());
        }
    });
    assert_eq!(count, 1);
    drop(writer);
}
