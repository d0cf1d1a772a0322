//! Lines of the log that would come in floods, such as those about connections: at most a few a
//! second of each kind, with the number of those that were left out.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How long a few lines are all that is logged.
const PAUSE: Duration = Duration::from_secs(1);

/// Counts the lines of one kind, and says which of them to log. By default one a second.
#[derive(Debug)]
pub(crate) struct Seldom {
    /// How many are logged within a pause.
    lines: u32,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// When the pause began.
    since: Option<Instant>,
    /// How many were logged within it.
    logged: u32,
    left_out: u64,
}

impl Default for Seldom {
    fn default() -> Self {
        Self::up_to(1)
    }
}

impl Seldom {
    /// So many lines a second.
    pub(crate) fn up_to(lines: u32) -> Self {
        Self { lines, state: Mutex::default() }
    }

    /// One more line. If it is to be logged, this is what comes after its text.
    pub(crate) fn may_log(&self, now: Instant) -> Option<String> {
        let mut state = crate::lock(&self.state);
        if state.since.is_none_or(|since| now.saturating_duration_since(since) >= PAUSE) {
            state.since = Some(now);
            state.logged = 0;
        }
        if state.logged >= self.lines {
            state.left_out += 1;
            return None;
        }
        state.logged += 1;
        let left_out = std::mem::take(&mut state.left_out);
        Some(match left_out {
            0 => String::new(),
            _ => format!(" (similar lines suppressed before: {left_out})"),
        })
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
        assert_eq!(at(1000).as_deref(), Some(" (similar lines suppressed before: 19)"));
        assert_eq!(at(1999), None);
        assert_eq!(at(5000).as_deref(), Some(" (similar lines suppressed before: 1)"));
        assert_eq!(at(6000).as_deref(), Some(""));
    }

    #[test]
    fn a_few_lines_a_second_may_be_told_apart() {
        let seldom = Seldom::up_to(3);
        let start = Instant::now();
        let logged = (0..100).filter(|_| seldom.may_log(start).is_some()).count();
        assert_eq!(logged, 3);
        let later = seldom.may_log(start + PAUSE);
        assert_eq!(later.as_deref(), Some(" (similar lines suppressed before: 97)"));
        assert_eq!(seldom.may_log(start + PAUSE).as_deref(), Some(""));
    }
}
