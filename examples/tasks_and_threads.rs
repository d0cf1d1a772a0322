//! Async tasks and blocked threads wait for a lock in one fair queue.
//!
//! Run: `cargo run -p lockspan-examples --bin tasks_and_threads`
//!
//! You will see a task that waits for a thread, a thread that waits for a task, and a task that
//! gives up: a dropped future leaves the queue. Any executor works; the one in this file is short.
#![forbid(unsafe_code)]

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use lockspan::thread::fair::{RwLock, RwLockExt};

fn main() {
    let log: RwLock<Vec<&str>> = RwLock::new(Vec::new());

    // This thread holds the lock, so the task's first poll is pending. The unlock wakes the task.
    let mut held = log.write();
    thread::scope(|scope| {
        scope.spawn(|| block_on(async { log.write_async().await.push("task, after the thread") }));
        held.push("thread");
        drop(held);
    });

    // The other way round: a thread waits for a task.
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
            "a writing task while a reader is inside: {}",
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
