//! Messages that would come in floods, such as those about connections: at most one a second, with
//! the number of those that were left out.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How often one message may be logged.
const PAUSE: Duration = Duration::from_secs(1);

/// Counts the messages of one kind, and says which of them to log.
#[derive(Debug, Default)]
pub(crate) struct Seldom(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    logged: Option<Instant>,
    left_out: u64,
}

impl Seldom {
    /// One more message. If it is to be logged, this is what comes after its text.
    pub(crate) fn may_log(&self, now: Instant) -> Option<String> {
        let mut state = crate::lock(&self.0);
        if state.logged.is_some_and(|at| now.saturating_duration_since(at) < PAUSE) {
            state.left_out += 1;
            return None;
        }
        let left_out = std::mem::take(&mut state.left_out);
        state.logged = Some(now);
        Some(if left_out == 0 { String::new() } else { format!(" (and {left_out} times before)") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_f50_a_flood_is_logged_once_a_second_with_its_count() {
        let seldom = Seldom::default();
        let start = Instant::now();
        let at = |millis| seldom.may_log(start + Duration::from_millis(millis));
        assert_eq!(at(0).as_deref(), Some(""));
        for millis in (50..1000).step_by(50) {
            assert_eq!(at(millis), None);
        }
        assert_eq!(at(1000).as_deref(), Some(" (and 19 times before)"));
        assert_eq!(at(1999), None);
        assert_eq!(at(5000).as_deref(), Some(" (and 1 times before)"));
        assert_eq!(at(6000).as_deref(), Some(""));
    }
}
