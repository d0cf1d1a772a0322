//! Places where a test stops this process, as a debugger or the system may do at any moment.
//!
//! Builds without debug assertions, such as release builds, do not look at the variable.

use std::sync::Mutex;

use rustix::process::{Pid, Signal, getpid, getppid, kill_process};

/// Names the places where the process stops itself (SIGSTOP), once each, divided by commas.
const STOP: &str = "LOCKSPAN_TEST_STOP";

static STOPPED_AT: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn is_at(place: &str) -> bool {
    let is_named = |all: String| all.split(',').any(|wanted| wanted == place);
    cfg!(debug_assertions) && std::env::var(STOP).is_ok_and(is_named)
}

/// Stops here if the variable names this place.
pub(crate) fn stop_at(place: &str) {
    if is_at(place)
        && let Ok(mut before) = STOPPED_AT.lock()
        && !before.iter().any(|other| other == place)
    {
        before.push(place.to_owned());
        let _ = kill_process(getpid(), Signal::STOP);
    }
}

/// The same, when `parent` is not our parent any more: as long as it dies, the system makes its
/// stopped children go on.
pub(crate) fn stop_without_parent_at(place: &str, parent: Option<Pid>) {
    while is_at(place) && getppid() == parent {
        std::thread::yield_now();
    }
    stop_at(place);
}
