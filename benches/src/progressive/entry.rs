//! A contestant with many threads, and its row compared with another.

use super::crowd::Seen;
use crate::contest::{Contest, Id, Rounds};
use crate::report::format::{rate, time};
use crate::report::{Row, TIMES, Target};

/// What a sample of a contestant comes to.
const METRICS: [&str; 4] = ["ops_per_s", "longest_ns", "jain", "failed_per_op"];

/// What is measured of one contestant.
pub(crate) struct Entry {
    name: &'static str,
    per_second: Id,
    longest: Id,
    jain: Id,
    /// What a turn added to the tally, if the rows show it.
    tallied: Option<Id>,
}

impl Entry {
    pub(crate) fn new<'a>(
        name: &'static str,
        tells_tally: bool,
        contest: &mut Contest<'a>,
        mut sample: impl FnMut() -> Seen + 'a,
    ) -> Self {
        let [per_second, longest, jain, tallied] = contest.enter_many(name, &METRICS, move || {
            let seen = sample();
            let tallied = seen.tally as f64 / seen.turns.max(1) as f64;
            Ok([seen.per_second, seen.longest_ns, seen.jain, tallied])
        });
        Self { name, per_second, longest, jain, tallied: tells_tally.then_some(tallied) }
    }

    /// The row of this contestant compared with another. Without a target it says whether it loses.
    pub(crate) fn against(&self, other: &Self, rounds: &Rounds, target: Target) -> Row {
        let result = rounds.ratio(self.per_second, other.per_second);
        let is_lost = matches!(target, Target::Open) && result.median < 1.0;
        Row {
            what: format!("{}{}", self.name, if is_lost { " (lost)" } else { "" }),
            ours: self.show(rounds),
            compared_with: format!("{}: {}", other.name, other.show(rounds)),
            result: Some(result),
            unit: TIMES,
            target,
        }
    }

    fn show(&self, rounds: &Rounds) -> String {
        let (longest, jain) = (time(rounds.median(self.longest)), rounds.median(self.jain));
        let tallied = self.tallied.map(|id| format!(", {:.3}", rounds.median(id)));
        let rate = rate(rounds.median(self.per_second));
        format!("{rate} ({longest}, {jain:.2}{})", tallied.unwrap_or_default())
    }
}
