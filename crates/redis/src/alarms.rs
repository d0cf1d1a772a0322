//! What is to be done at a time.

use std::collections::BTreeMap;
use std::time::Duration;

use lockspan_protocol::Record;
use tokio::time::Instant;

/// An alarm that was set: when, and which of those then.
pub(crate) type Alarm = (Instant, u64);

/// What an alarm is about.
#[derive(Debug)]
pub(crate) enum Due {
    /// The claim at this record with this number: ask again.
    Claim(Record, u64),
    /// The end of the lock with this number: say it again.
    Leaving(u64),
}

/// The alarms that are set.
#[derive(Debug, Default)]
pub(crate) struct Alarms {
    due: BTreeMap<Alarm, Due>,
    last: u64,
}

impl Alarms {
    pub(crate) fn set(&mut self, at: Instant, due: Due) -> Alarm {
        self.last += 1;
        self.due.insert((at, self.last), due);
        (at, self.last)
    }

    pub(crate) fn unset(&mut self, alarm: Option<Alarm>) {
        if let Some(alarm) = alarm {
            self.due.remove(&alarm);
        }
    }

    /// When the first rings.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.due.first_key_value().map(|(&(at, _), _)| at)
    }

    /// One that rings now.
    pub(crate) fn rings(&mut self, now: Instant) -> Option<Due> {
        let first = self.due.first_entry().filter(|first| first.key().0 <= now)?;
        Some(first.remove())
    }
}

/// Up to half of it more, so that many do not come at the same moment.
pub(crate) fn jittered(pause: Duration) -> Duration {
    let mut drawn = [0; 4];
    // Without randomness there is no more.
    let share = getrandom::fill(&mut drawn).map_or(0, |()| u32::from_ne_bytes(drawn));
    pause + pause.mul_f64(f64::from(share) / f64::from(u32::MAX) / 2.0)
}
