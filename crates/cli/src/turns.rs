//! What a waiter waits for. The service grants a record in turns: readers that are next to each
//! other in line together, a writer alone. So the first turn waits for the holders in its way, and
//! each later turn for the one before it: a reader behind a writer waits for that writer, even if
//! only readers hold the record.

use std::ops::Range;

use crate::replies::{Claim, Locked};

/// The turn before that of the waiter at `at` (counted from 0), as a range of waiters; nothing if
/// its turn is the first.
pub(crate) fn behind(waiters: &[Claim], at: usize) -> Option<Range<usize>> {
    let begin_of = |mut at: usize| {
        while at > 0 && waiters[at].mode == "R" && waiters[at - 1].mode == "R" {
            at -= 1;
        }
        at
    };
    let begin = begin_of(at);
    (begin > 0).then(|| begin_of(begin - 1)..begin)
}

/// Whether the holder is in the way of the waiter.
pub(crate) fn is_in_the_way(holder: &Claim, waiter: &Claim) -> bool {
    holder.who.id != waiter.who.id && (holder.mode == "W" || waiter.mode == "W")
}

/// The holders or waiters that the waiter at `at` waits for.
pub(crate) fn waits_for(record: &Locked, at: usize) -> Vec<&Claim> {
    match behind(&record.waiters, at) {
        Some(turn) => record.waiters[turn].iter().collect(),
        None => {
            let waiter = &record.waiters[at];
            record.holders.iter().filter(|holder| is_in_the_way(holder, waiter)).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replies::Who;

    /// Claims by their modes; their sessions are numbered from `first` on.
    fn claims(modes: &str, first: usize) -> Vec<Claim> {
        let claim = |(at, mode): (usize, char)| Claim {
            who: Who { id: (first + at).to_string(), ..Who::default() },
            mode: mode.to_string(),
            ..Claim::default()
        };
        modes.chars().enumerate().map(claim).collect()
    }

    #[test]
    fn a_turn_waits_for_the_one_before_it_and_the_first_for_holders_in_its_way() {
        for (holders, waiters, expected) in [
            ("W", "RRW", &["1", "1", "2 3"][..]),
            ("RR", "WR", &["1 2", "3"]),
            ("R", "WRRWW", &["1", "2", "2", "3 4", "5"]),
            // Readers that are about to be granted the record wait for no reader.
            ("R", "R", &[""]),
        ] {
            let record = Locked {
                holders: claims(holders, 1),
                waiters: claims(waiters, 1 + holders.len()),
                ..Locked::default()
            };
            let ids = |at| {
                let all = waits_for(&record, at).into_iter().map(|it| it.who.id.clone());
                all.collect::<Vec<_>>().join(" ")
            };
            let all: Vec<_> = (0..waiters.len()).map(ids).collect();
            assert_eq!(all, expected, "{holders} {waiters}");
        }
    }

    #[test]
    fn an_upgrade_does_not_wait_for_its_own_read() {
        let mut record =
            Locked { holders: claims("RR", 1), waiters: claims("W", 2), ..Locked::default() };
        assert_eq!(waits_for(&record, 0).len(), 1);
        record.holders.truncate(1);
        assert_eq!(waits_for(&record, 0)[0].who.id, "1");
    }
}
