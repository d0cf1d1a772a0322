//! Which mutants a run tries: all of them, or one part of several, and with `--resume` only those
//! without a result.

use anyhow::{Context as _, Result, ensure};

use super::Outcome;
use crate::models::Verdict;

/// `--part 2/5`: the second of five parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    index: usize,
    count: usize,
}

impl Part {
    pub(super) const ALL: Self = Self { index: 0, count: 1 };

    pub(super) fn parse(text: &str) -> Result<Self> {
        let numbers = || -> Option<(usize, usize)> {
            let (number, count) = text.split_once('/')?;
            Some((number.parse().ok()?, count.parse().ok()?))
        };
        let (number, count) = numbers().context("--part is K/N, for example 2/5")?;
        ensure!(
            (1..=count).contains(&number),
            "--part {text}: parts are 1/{count} to {count}/{count}"
        );
        Ok(Self { index: number - 1, count })
    }

    /// Every `count`-th mutant: neighbours are of one lock and cost about the same, so that the
    /// parts do as well.
    fn has(self, position: usize) -> bool {
        position % self.count == self.index
    }
}

/// The positions of the mutants to try, of as many as `known` has outcomes. What ran into its
/// limit is tried again.
pub(super) fn choose(known: &[Option<&Outcome>], part: Part, resume: bool) -> Vec<usize> {
    let is_settled = |outcome: &Outcome| outcome.verdict != Verdict::TimedOut;
    (0..known.len())
        .filter(|&at| part.has(at))
        .filter(|&at| !(resume && known[at].is_some_and(is_settled)))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_parts_together_are_all_and_no_two_share_one() {
        let known = [None; 7];
        let part = |text| choose(&known, Part::parse(text).unwrap(), false);
        assert_eq!(part("1/3"), [0, 3, 6]);
        assert_eq!(part("2/3"), [1, 4]);
        assert_eq!(part("3/3"), [2, 5]);
        assert_eq!(choose(&known, Part::ALL, false), [0, 1, 2, 3, 4, 5, 6]);
        for wrong in ["0/3", "4/3", "1/0", "1", "a/b", "/"] {
            assert!(Part::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_resumed_run_tries_what_has_no_result_and_what_ran_into_its_limit() {
        let outcome = |verdict| Outcome { verdict, took: Duration::ZERO, by: String::new() };
        let [failed, passed, timed_out] =
            [Verdict::Failed, Verdict::Passed, Verdict::TimedOut].map(outcome);
        let known = [Some(&failed), None, Some(&passed), Some(&timed_out), None];
        assert_eq!(choose(&known, Part::ALL, true), [1, 3, 4]);
        assert_eq!(choose(&known, Part::parse("2/2").unwrap(), true), [1, 3]);
        assert_eq!(choose(&known, Part::ALL, false), [0, 1, 2, 3, 4]);
    }
}
