//! A thread waits for a future: detached from the interpreter, and a signal ends the wait.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::{errors, exit};

/// How often the main thread looks for signals while it waits.
const SLICE: Duration = Duration::from_millis(50);

/// A future of the client that owns what it needs.
pub(crate) type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

struct Sleeper {
    thread: Thread,
    is_woken: AtomicBool,
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Waits until the future is ready. An exception of a signal handler, such as KeyboardInterrupt,
/// ends the wait; dropping the future then leaves the queue. So does the end of the interpreter:
/// what one connection of this process frees then, a thread that waits on another one must not get.
pub(crate) fn wait<T>(py: Python<'_>, future: Boxed<T>) -> PyResult<T> {
    let done = wait_until(py, future, None)?;
    if exit::is_over() {
        drop(done);
        return Err(errors::is_over(py));
    }
    Ok(done.expect("without a deadline it waits until the future is ready"))
}

/// Waits until the future is ready or it is this late. It polls attached and sleeps detached.
pub(crate) fn wait_until<T>(
    py: Python<'_>,
    mut future: Boxed<T>,
    deadline: Option<Instant>,
) -> PyResult<Option<T>> {
    let sleeper = Arc::new(Sleeper { thread: thread::current(), is_woken: AtomicBool::new(false) });
    let waker = Waker::from(Arc::clone(&sleeper));
    let main = is_main_thread();
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Ok(Some(done));
        }
        loop {
            let woken = py.detach(|| sleeper.sleep(main, deadline));
            if woken {
                break;
            }
            py.check_signals()?;
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(None);
            }
        }
    }
}

impl Sleeper {
    /// Sleeps until it is woken, which it returns, or has to look at signals or the deadline.
    fn sleep(&self, main: bool, deadline: Option<Instant>) -> bool {
        loop {
            if self.is_woken.swap(false, Ordering::Acquire) {
                return true;
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let slice = if main { Some(left.map_or(SLICE, |left| left.min(SLICE))) } else { left };
            let Some(slice) = slice else {
                thread::park();
                continue;
            };
            thread::park_timeout(slice);
            return self.is_woken.swap(false, Ordering::Acquire);
        }
    }
}

/// Python runs signal handlers in the main thread only.
fn is_main_thread() -> bool {
    rustix::thread::gettid() == rustix::process::getpid()
}
