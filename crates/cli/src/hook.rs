//! Places where a test stops this process, as a debugger or the system may do at any moment.
//!
//! Builds without debug assertions, such as release builds, do not look at the variable.

/// Names the place where the process stops itself (SIGSTOP).
const STOP: &str = "LOCKSPAN_TEST_STOP";

/// Stops here if the variable names this place.
pub(crate) fn stop_at(place: &str) {
    if cfg!(debug_assertions) && std::env::var_os(STOP).is_some_and(|wanted| wanted == place) {
        let own = rustix::process::getpid();
        let _ = rustix::process::kill_process(own, rustix::process::Signal::STOP);
    }
}
