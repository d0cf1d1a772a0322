//! Tasks and threads wait in one queue: an async task and a blocked thread share a lock fairly.
//!
//! Run: `cargo run -p lockspan-examples --bin tasks_and_threads`
//!
//! You will see a task that waits behind a thread, a thread that waits behind a task, and a task
//! that gives up: a dropped future leaves the queue. Any executor will do; this one is ten lines.
#![forbid(unsafe_code)]

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use lockspan::thread::fair::{RwLock, RwLockExt};

fn main() {
    let log: RwLock<Vec<&str>> = RwLock::new(Vec::new());

    // The thread holds the lock, so the task's first poll is pending; it is woken by the unlock.
    let mut held = log.write();
    thread::scope(|scope| {
        scope.spawn(|| block_on(async { log.write_async().await.push("task, after the thread") }));
        held.push("thread");
        drop(held);
    });

    // And the other way round.
    let mut held = block_on(log.write_async());
    thread::scope(|scope| {
        scope.spawn(|| log.write().push("thread, after the task"));
        held.push("task");
        drop(held);
    });

    // A task that stops waiting leaves nothing behind.
    let held = log.read();
    {
        let mut impatient = pin!(log.write_async());
        let poll = impatient.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        println!(
            "a writing task beside a reader: {}",
            if poll.is_pending() { "waits" } else { "in" }
        );
    }
    drop(held);

    for line in block_on(log.read_async()).iter() {
        println!("{line}");
    }
}

/// Runs a future on this thread, which sleeps whenever the future waits.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}
