//! Contestants that are measured in turn, round by round, and what their rounds come to.

use crate::report::Report;
use crate::results::{Name, Row};
use crate::stats::Spread;

/// One measurement, which fills in its values.
type Turn<'a> = Box<dyn FnMut(&mut [f64]) -> Result<(), String> + 'a>;

/// The number of a value in each round.
#[derive(Clone, Copy)]
pub(crate) struct Id(usize);

/// Contestants of one cell, each measured once a round.
pub(crate) struct Contest<'a> {
    family: Name,
    cell: Name,
    contestants: Vec<Contestant<'a>>,
    values: usize,
}

struct Contestant<'a> {
    name: Name,
    metrics: &'static [&'static str],
    /// The number of its first value.
    first: usize,
    turn: Turn<'a>,
}

/// What a contest came to: all values of each round.
pub(crate) struct Rounds(Vec<Vec<f64>>);

impl<'a> Contest<'a> {
    /// Contestants whose rows in `raw.csv` are of this family and cell.
    pub(crate) fn new(family: impl Into<Name>, cell: impl Into<Name>) -> Self {
        Self { family: family.into(), cell: cell.into(), contestants: Vec::new(), values: 0 }
    }

    /// Enters a contestant that measures one thing.
    pub(crate) fn enter(
        &mut self,
        name: impl Into<Name>,
        metric: &'static [&'static str; 1],
        mut turn: impl FnMut() -> Result<f64, String> + 'a,
    ) -> Id {
        let [id] = self.enter_many(name, metric, move || Ok([turn()?]));
        id
    }

    /// Enters a contestant that measures several things at once.
    pub(crate) fn enter_many<const N: usize>(
        &mut self,
        name: impl Into<Name>,
        metrics: &'static [&'static str; N],
        mut turn: impl FnMut() -> Result<[f64; N], String> + 'a,
    ) -> [Id; N] {
        let first = self.values;
        self.values += N;
        self.contestants.push(Contestant {
            name: name.into(),
            metrics,
            first,
            turn: Box::new(move |values| {
                values[first..first + N].copy_from_slice(&turn()?);
                Ok(())
            }),
        });
        std::array::from_fn(|at| Id(first + at))
    }

    /// Measures all rounds and leaves their values in the report. The contestant that was first in
    /// a round is last in the next.
    pub(crate) fn run(mut self, rounds: usize, report: &mut Report) -> Result<Rounds, String> {
        let count = self.contestants.len();
        let mut all = vec![vec![0.0; self.values]; rounds];
        for (round, values) in all.iter_mut().enumerate() {
            for turn in 0..count {
                (self.contestants[(turn + round) % count].turn)(values)?;
            }
            self.keep(round + 1, values, report);
        }
        Ok(Rounds(all))
    }

    fn keep(&self, round: usize, values: &[f64], report: &mut Report) {
        for contestant in &self.contestants {
            let names = contestant.metrics.iter().map(|name| Name::Borrowed(name));
            report.raw(Row {
                family: self.family.clone(),
                cell: self.cell.clone(),
                contestant: contestant.name.clone(),
                round,
                metrics: names.zip(values[contestant.first..].iter().copied()).collect(),
            });
        }
    }
}

impl Rounds {
    /// Something that follows from the values of a round.
    pub(crate) fn of(&self, value: impl Fn(&dyn Fn(Id) -> f64) -> f64) -> Spread {
        Spread::of(self.0.iter().map(|round| value(&|id: Id| round[id.0])))
    }

    pub(crate) fn median(&self, id: Id) -> f64 {
        self.of(|round| round(id)).median
    }

    /// One divided by the other, inside each round.
    pub(crate) fn ratio(&self, above: Id, below: Id) -> Spread {
        self.of(|round| round(above) / round(below))
    }

    /// The sum over all rounds.
    pub(crate) fn total(&self, id: Id) -> f64 {
        self.0.iter().map(|round| round[id.0]).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn contestants_take_turns_and_leave_their_rows() {
        let order = RefCell::new(String::new());
        let mut report = Report::default();
        let mut contest = Contest::new("f", "c");
        let a = contest.enter("a", &["x"], || {
            order.borrow_mut().push('a');
            Ok(6.0)
        });
        let [b, _] = contest.enter_many("b", &["x", "y"], || {
            order.borrow_mut().push('b');
            Ok([2.0, 9.0])
        });
        let rounds = contest.run(3, &mut report).unwrap();
        assert_eq!(*order.borrow(), "abbaab");
        assert_eq!((rounds.ratio(a, b).median, rounds.total(b)), (3.0, 6.0));
        assert_eq!(report.results().median("f", "c", "b", "y"), Some(9.0));
        assert_eq!(report.results().rounds("f", "c", "a"), 3);
    }
}
