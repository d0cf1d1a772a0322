//! The end of the interpreter: connections are closed, so that nobody waits for the leases of a
//! program that has ended.
//!
//! Handlers of `atexit` that were registered before this package's run after it, and may join a
//! thread that waits here. So a thread that waits for a record gets `Closed`, as the connection is
//! closed. A thread that comes back after that, when the interpreter itself ends, sleeps forever
//! in `PyEval_RestoreThread`: PyO3 and CPython see to that. No code of Python runs in this crate's
//! frames between the two, so no thread ends in the midst of them.

use std::cell::Cell;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, Weak};
use std::task::Poll;
use std::thread;

use pyo3::prelude::*;

use crate::locks::Shared;
use crate::park::{self, Boxed};

/// The connections of this process. Those of a parent are among them after a fork; closing such a
/// one does nothing.
static OPEN: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

/// The interpreter is about to end.
static IS_OVER: AtomicBool = AtomicBool::new(false);

pub(crate) fn remember(connection: Weak<Shared>) {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.retain(|known| known.strong_count() > 0);
    open.push(connection);
}

thread_local! {
    /// This thread ends the interpreter.
    static ENDS: Cell<bool> = const { Cell::new(false) };
}

/// Closes all connections at once, and waits for the confirmation of each. With `ends` the
/// interpreter is about to end: other threads that wait for records get `Closed`. Returns how many
/// were not confirmed.
#[pyfunction]
pub(crate) fn close_all(py: Python<'_>, ends: bool) -> PyResult<usize> {
    if ends {
        ENDS.set(true);
        // First: what is freed below must not be acquired by another thread of this process.
        IS_OVER.store(true, Ordering::Release);
    }
    let mut unknown = 0;
    loop {
        // Again until there is none: a thread may have been about to connect.
        let open = std::mem::take(&mut *OPEN.lock().unwrap_or_else(PoisonError::into_inner));
        if open.is_empty() {
            return Ok(unknown);
        }
        let open = open.iter().filter_map(Weak::upgrade);
        let closing = open.map(|open| -> Boxed<_> { Box::pin(open.locks.clone().close()) });
        let mut closing: Vec<_> = closing.collect();
        let mut failed = 0;
        let all = poll_fn(move |context| {
            closing.retain_mut(|one| match one.as_mut().poll(context) {
                Poll::Pending => true,
                Poll::Ready(closed) => {
                    // A server that does not answer frees everything when the lease expires.
                    failed += usize::from(closed.is_err());
                    false
                }
            });
            if closing.is_empty() { Poll::Ready(failed) } else { Poll::Pending }
        });
        unknown += park::wait(py, Box::pin(all))?;
    }
}

/// Whether the interpreter is about to end, and the calling thread is not the one that ends it.
pub(crate) fn is_over() -> bool {
    IS_OVER.load(Ordering::Acquire) && !ENDS.get()
}

/// Sleeps forever if the interpreter is about to end. For threads of the package that nobody
/// joins, and that would call what a user has left behind.
pub(crate) fn stay_out() {
    while is_over() {
        thread::park();
    }
}
