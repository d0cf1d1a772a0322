//! The end of the interpreter: connections are closed, so that nobody waits for the leases of a
//! program that has ended, and no thread comes back into an interpreter that is gone.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, Weak};
use std::thread;

use pyo3::prelude::*;

use crate::locks::Shared;
use crate::park;

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

/// Closes all connections, and waits for the confirmation of each. With `ends` the interpreter is
/// about to end: threads of this package that wait now do not come back.
#[pyfunction]
pub(crate) fn close_all(py: Python<'_>, ends: bool) -> PyResult<()> {
    if ends {
        ENDS.set(true);
        // First: what is freed below must not be acquired by another thread of this process.
        IS_OVER.store(true, Ordering::Release);
    }
    loop {
        // Again until there is none: a thread may have been about to connect.
        let open = std::mem::take(&mut *OPEN.lock().unwrap_or_else(PoisonError::into_inner));
        if open.is_empty() {
            return Ok(());
        }
        for connection in open.iter().filter_map(Weak::upgrade) {
            // A server that does not answer frees everything when the lease expires.
            let locks = connection.locks.clone();
            let _ = park::wait(py, Box::pin(locks.close()))?;
        }
    }
}

/// Sleeps forever if the interpreter is about to end, in every thread but the one that ends it.
pub(crate) fn stay_out() {
    while IS_OVER.load(Ordering::Acquire) && !ENDS.get() {
        thread::park();
    }
}
