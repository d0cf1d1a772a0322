//! Places where a test stops this process, as a debugger or the system may do at any moment.
//!
//! Builds without debug assertions, such as release builds, do not look at the variable.

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Pid, Signal, getpid, getppid, kill_process};

/// Names the place where the process stops itself (SIGSTOP).
const STOP: &str = "LOCKSPAN_TEST_STOP";

static HAS_STOPPED: AtomicBool = AtomicBool::new(false);

fn is_at(place: &str) -> bool {
    cfg!(debug_assertions) && std::env::var_os(STOP).is_some_and(|wanted| wanted == place)
}

/// The same, when `parent` is not our parent any more: as long as it dies, the system makes its
/// stopped children go on.
pub(crate) fn stop_without_parent_at(place: &str, parent: Option<Pid>) {
    while is_at(place) && getppid() == parent {
        std::thread::yield_now();
    }
    stop_at(place);
}

/// Stops here if the variable names this place, once.
pub(crate) fn stop_at(place: &str) {
    if is_at(place) && !HAS_STOPPED.swap(true, Ordering::Relaxed) {
        let _ = kill_process(getpid(), Signal::STOP);
    }
}
