//! Sorted lists of records, for the page.
//!
//! No index has the records in any of these orders, so a [`Ranking`] looks at all of them, in
//! steps: [`Service::rank`] locks one table while it looks at a thousand names, and the caller
//! pauses between two steps. Of all that it sees, a ranking keeps the first [`DEEPEST`].

use std::cmp::Reverse;

use lockspan_protocol::server::table::RecordBrief;
use lockspan_protocol::{Record, Tick};

use super::Service;
use super::look::steps;
use crate::net::glob::Pattern;

/// Records that a ranking keeps.
pub(crate) const DEEPEST: usize = 10_000;

/// What a list of records is sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Those with the most waiters first; of equals, those that are held longest.
    Waiters,
    /// Those that are held longest first.
    Age,
    /// By the bytes of their names.
    Name,
}

/// A record in an order: the lower one comes first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Ranked {
    waiters: Reverse<u32>,
    since: Tick,
    record: Record,
}

/// A look at all records that match, and the first of them so far.
#[derive(Debug)]
pub(crate) struct Ranking {
    order: Order,
    pattern: Option<Pattern>,
    only_wanted: bool,
    /// The table to look at next, and the place in it.
    at: (usize, usize),
    best: Vec<Ranked>,
    /// Once there are [`DEEPEST`]: the last of them. What comes after it is not kept.
    last: Option<Ranked>,
    found: usize,
}

impl Ranking {
    /// Of the records that fit the pattern, and if `only_wanted` only of those with waiters.
    pub(crate) fn new(order: Order, pattern: Option<Pattern>, only_wanted: bool) -> Self {
        let (best, last) = Default::default();
        Self { order, pattern, only_wanted, at: (0, 0), best, last, found: 0 }
    }

    fn see(&mut self, record: &Record, brief: RecordBrief) {
        let is_liked = |it: &Pattern| it.fits(record.as_bytes());
        if (self.only_wanted && brief.waiters == 0) || !self.pattern.as_ref().is_none_or(is_liked) {
            return;
        }
        self.found += 1;
        let (waiters, since) = match self.order {
            Order::Waiters => (brief.waiters, brief.since),
            Order::Age => (0, brief.since),
            Order::Name => (0, Tick::ZERO),
        };
        let ranked = Ranked { waiters: Reverse(waiters), since, record: record.clone() };
        if self.last.as_ref().is_none_or(|last| ranked < *last) {
            self.best.push(ranked);
        }
    }

    /// Forgets what is not among the first, now and then: on average in constant time for each.
    fn cut(&mut self) {
        if self.best.len() >= 2 * DEEPEST {
            let (_, last, _) = self.best.select_nth_unstable(DEEPEST - 1);
            self.last = Some(last.clone());
            self.best.truncate(DEEPEST);
        }
    }

    /// The first records in their order, and how many match.
    pub(crate) fn seen(mut self) -> (Vec<Record>, usize) {
        self.best.sort_unstable();
        self.best.truncate(DEEPEST);
        (self.best.into_iter().map(|it| it.record).collect(), self.found)
    }
}

impl Service {
    /// Looks at up to a thousand names of one table. Whether the ranking goes on.
    pub(crate) fn rank(&self, ranking: &mut Ranking) -> bool {
        let (shard, place) = ranking.at;
        let Some(table) = self.shards.get(shard) else { return false };
        let steps = steps(ranking.pattern.as_ref());
        let see = |record: &Record, brief| ranking.see(record, brief);
        let next = crate::lock(table).table.visit(place, steps, see);
        ranking.cut();
        ranking.at = next.map_or((shard + 1, 0), |next| (shard, next));
        ranking.at.0 < self.shards.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn brief(waiters: u32, since: u64) -> RecordBrief {
        RecordBrief { waiters, since: Tick(since) }
    }

    fn name(text: &str) -> Record {
        Record::parse(text.as_bytes()).expect("a record")
    }

    #[test]
    fn records_are_sorted_by_waiters_age_or_name() {
        let all = [("b:1", 0, 5), ("a:2", 3, 9), ("a:1", 3, 9), ("c:1", 1, 1), ("d:1", 3, 7)];
        for (order, only_wanted, expected) in [
            (Order::Waiters, false, &["d:1", "a:1", "a:2", "c:1", "b:1"][..]),
            (Order::Age, false, &["c:1", "b:1", "d:1", "a:1", "a:2"]),
            (Order::Name, false, &["a:1", "a:2", "b:1", "c:1", "d:1"]),
            (Order::Name, true, &["a:1", "a:2", "c:1", "d:1"]),
        ] {
            let mut ranking = Ranking::new(order, None, only_wanted);
            all.iter()
                .for_each(|&(text, waiters, at)| ranking.see(&name(text), brief(waiters, at)));
            let (seen, found) = ranking.seen();
            let expected: Vec<_> = expected.iter().map(|text| name(text)).collect();
            assert_eq!((seen, found), (expected.clone(), expected.len()), "{order:?}");
        }
    }

    #[test]
    fn only_the_first_of_many_are_kept() {
        let mut ranking = Ranking::new(Order::Name, Some(Pattern::new(b"x:*")), false);
        // Every number below the prime 50,021 once, in an order that is neither up nor down.
        for number in 0..50_021_u64 {
            ranking.see(&name(&format!("x:{:05}", number * 31_337 % 50_021)), brief(0, 0));
            ranking.see(&name(&format!("a:{number:05}")), brief(0, 0));
            ranking.cut();
            assert!(ranking.best.len() < 2 * DEEPEST);
        }
        let (seen, found) = ranking.seen();
        assert_eq!((seen.len(), found), (DEEPEST, 50_021));
        assert_eq!(seen[0], name("x:00000"));
        assert_eq!(seen[DEEPEST - 1], name("x:09999"));
    }
}
