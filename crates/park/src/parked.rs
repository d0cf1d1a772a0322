//! Sleeping by thread parking: every OS without futexes, and the model checkers.

use crate::sync::thread::{self, Thread};
use crate::sync::{AtomicU32, Ordering};
use crate::{Deadline, Woken};

/// The thread that made the spot.
#[derive(Debug)]
pub(crate) struct Sleeper(Thread);

impl Sleeper {
    pub(crate) fn current() -> Self {
        Self(thread::current())
    }

    pub(crate) fn sleep(
        &self,
        word: &AtomicU32,
        expected: u32,
        deadline: Option<Deadline>,
    ) -> Woken {
        // The caller looks at the word again with the ordering that it needs.
        while word.load(Ordering::Relaxed) == expected {
            match deadline {
                None => thread::park(),
                Some(deadline) if !park_until(deadline) => return Woken::TimedOut,
                Some(_) => {}
            }
        }
        Woken::Changed
    }

    pub(crate) fn alarm(&self, _word: &AtomicU32) -> Bell {
        Bell(self.0.clone())
    }
}

/// A handle of the thread that sleeps, taken before its spot can go.
#[derive(Debug)]
pub(crate) struct Bell(Thread);

impl Bell {
    pub(crate) fn ring(self) {
        self.0.unpark();
    }
}

/// Parks until woken or until the deadline; false if the deadline had passed.
#[cfg(not(any(lockspan_loom, lockspan_shuttle)))]
fn park_until(deadline: Deadline) -> bool {
    if deadline.passed() {
        return false;
    }
    thread::park_timeout(deadline.0.saturating_duration_since(std::time::Instant::now()));
    true
}

/// A model has no clock: a timed sleep is over at once, and the checker's interleavings decide
/// what happened before it.
#[cfg(any(lockspan_loom, lockspan_shuttle))]
fn park_until(_deadline: Deadline) -> bool {
    thread::yield_now();
    false
}
