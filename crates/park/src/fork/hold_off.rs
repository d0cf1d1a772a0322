//! Keeps forks of this process waiting while a thread makes something that a child needs whole.
//!
//! Libraries make things once in a process behind a `Once`: Tokio's table of signals, for one. If
//! another thread forks in the midst of that, the child waits at its copy of the `Once` for a
//! thread that it does not have, forever. [`without_forks`] makes such a fork wait instead: a
//! handler of `pthread_atfork` runs in the forking thread, before the process is copied.
//!
//! ```text
//!   31       30                              0
//! ┌─────────┬─────────────────────────────────┐
//! │ FORKING │  threads inside without_forks   │
//! └─────────┴─────────────────────────────────┘
//! ```
//!
//! - **I1** While a thread forks, nobody is inside, except the forking thread itself.
//! - **I2** Whoever finds `FORKING` set goes out again and waits until it is clear.
//! - **I3** The handlers may be registered more than once, by two threads that come first or by a
//!   child: the second one finds that its thread has set `FORKING` already, and does nothing.
//!
//! A fork that a thread makes *inside*, as starting a command may, does not wait for itself. A bare
//! `clone` runs no handlers, and is not kept waiting.

use std::cell::Cell;
use std::time::Duration;

use super::ProcessLocal;
use crate::sync::machine::{AtomicU32, Ordering};

const FORKING: u32 = 1 << 31;

/// How long to wait before looking again. What is made inside takes about a millisecond, once.
const GLANCE: Duration = Duration::from_micros(100);

static STATE: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// How deep this thread is inside.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// This thread forks and has set [`FORKING`].
    static FORKS: Cell<bool> = const { Cell::new(false) };
}

/// Does `work`; forks of other threads of this process wait until it is done.
pub fn without_forks<R>(work: impl FnOnce() -> R) -> R {
    register();
    let _inside = Inside::enter();
    work()
}

struct Inside(());

impl Inside {
    fn enter() -> Self {
        let depth = DEPTH.get();
        DEPTH.set(depth + 1);
        // Acquire: what a thread did before it forked, or inside, comes first.
        while depth == 0 && STATE.fetch_add(1, Ordering::Acquire) & FORKING != 0 {
            STATE.fetch_sub(1, Ordering::Relaxed);
            crate::nap(GLANCE);
        }
        Self(())
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        if DEPTH.get() == 1 {
            // Release: what was made inside is complete before a fork copies it. In a child that
            // was forked inside, nobody is counted.
            let fewer = |state: u32| (state & !FORKING > 0).then(|| state - 1);
            let _ = STATE.fetch_update(Ordering::Release, Ordering::Relaxed, fewer);
        }
        DEPTH.set(DEPTH.get() - 1);
    }
}

fn register() {
    static REGISTERED: ProcessLocal<()> = ProcessLocal::new();
    REGISTERED.get_or_init(|| {
        #[cfg(unix)]
        // SAFETY: the handlers are plain functions, and touch a static and thread-local flags only.
        unsafe {
            // Without memory for it forks are not kept waiting, as before.
            libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child))
        };
    });
}

/// In the forking thread, before the process is copied.
extern "C" fn before() {
    if DEPTH.get() > 0 || FORKS.get() {
        return;
    }
    // Acquire: pairs with the end of what was made inside.
    while STATE.compare_exchange(0, FORKING, Ordering::Acquire, Ordering::Relaxed).is_err() {
        crate::nap(GLANCE);
    }
    FORKS.set(true);
}

extern "C" fn in_parent() {
    if FORKS.replace(false) {
        STATE.fetch_and(!FORKING, Ordering::Release);
    }
}

/// The child has no other thread that could be inside. The forking thread itself is not counted any
/// more, wherever it was.
extern "C" fn in_child() {
    FORKS.set(false);
    STATE.store(0, Ordering::Relaxed);
}

#[cfg(all(test, unix, not(any(miri, lockspan_loom, lockspan_shuttle))))]
mod tests {
    use super::super::tests::in_a_child;
    use super::*;

    /// Threads are inside nearly all the time; no child sees one of them there, and each child can
    /// go inside itself.
    #[test]
    fn service_f24_no_child_is_made_while_a_thread_is_inside() {
        static WITHIN: AtomicU32 = AtomicU32::new(0);
        static OVER: AtomicU32 = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while OVER.load(Ordering::Relaxed) == 0 {
                        without_forks(|| {
                            WITHIN.fetch_add(1, Ordering::Relaxed);
                            crate::nap(Duration::from_micros(300));
                            WITHIN.fetch_sub(1, Ordering::Relaxed);
                        });
                        crate::nap(Duration::from_micros(50));
                    }
                });
            }
            let look = || WITHIN.load(Ordering::Relaxed) == 0 && without_forks(|| true);
            let seen = (0..100).filter(|_| !in_a_child(look)).count();
            OVER.store(1, Ordering::Relaxed);
            assert_eq!(seen, 0, "children were made while a thread was inside");
        });
    }

    #[test]
    fn a_fork_inside_does_not_wait_for_itself() {
        let child = without_forks(|| without_forks(|| in_a_child(|| without_forks(|| true))));
        assert!(child);
        assert!(in_a_child(|| in_a_child(|| without_forks(|| true))), "nor does one of a child");
    }
}
