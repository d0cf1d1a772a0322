//! Places where a test stops this process, as a debugger or the system may do at any moment.
//!
//! Builds without debug assertions, such as release builds, do not look at the variable.

use std::sync::atomic::{AtomicBool, Ordering};

/// Names the place where the process stops itself (SIGSTOP).
const STOP: &str = "LOCKSPAN_TEST_STOP";

static HAS_STOPPED: AtomicBool = AtomicBool::new(false);

/// Stops here if the variable names this place, once.
pub(crate) fn stop_at(place: &str) {
    let is_here = || std::env::var_os(STOP).is_some_and(|wanted| wanted == place);
    if cfg!(debug_assertions) && is_here() && !HAS_STOPPED.swap(true, Ordering::Relaxed) {
        let own = rustix::process::getpid();
        let _ = rustix::process::kill_process(own, rustix::process::Signal::STOP);
    }
}
