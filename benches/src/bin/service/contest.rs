//! Contestants that take turns, and what their rounds come to.

/// One measurement, which fills in its values.
type Turn<'a> = Box<dyn FnMut(&mut [f64]) -> Result<(), String> + 'a>;

/// A value's number.
#[derive(Clone, Copy)]
pub(crate) struct Id(usize);

/// Contestants, each measured once a round.
#[derive(Default)]
pub(crate) struct Contest<'a> {
    turns: Vec<Turn<'a>>,
    values: usize,
}

/// What a contest came to: a value for each contestant in each round.
pub(crate) struct Rounds(Vec<Vec<f64>>);

/// The median of the rounds, with the lowest and the highest.
#[derive(Clone, Copy)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl<'a> Contest<'a> {
    pub(crate) fn enter(&mut self, mut turn: impl FnMut() -> Result<f64, String> + 'a) -> Id {
        let [id] = self.enter_many(move || Ok([turn()?]));
        id
    }

    /// Enters a contestant that measures several things at once.
    pub(crate) fn enter_many<const N: usize>(
        &mut self,
        mut turn: impl FnMut() -> Result<[f64; N], String> + 'a,
    ) -> [Id; N] {
        let first = self.values;
        self.values += N;
        self.turns.push(Box::new(move |values| {
            values[first..first + N].copy_from_slice(&turn()?);
            Ok(())
        }));
        std::array::from_fn(|at| Id(first + at))
    }

    /// Whoever was first in a round is last in the next.
    pub(crate) fn run(mut self, rounds: usize) -> Result<Rounds, String> {
        let count = self.turns.len();
        let mut all = vec![vec![0.0; self.values]; rounds];
        for (round, values) in all.iter_mut().enumerate() {
            for turn in 0..count {
                (self.turns[(turn + round) % count])(values)?;
            }
        }
        Ok(Rounds(all))
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

    /// One through the other, inside each round.
    pub(crate) fn ratio(&self, above: Id, below: Id) -> Spread {
        self.of(|round| round(above) / round(below))
    }
}

impl Spread {
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let at = |share: usize| values.get((values.len() - 1) * share / 2).copied();
        match values.is_empty() {
            true => Self { median: f64::NAN, low: f64::NAN, high: f64::NAN },
            false => Self {
                median: at(1).unwrap_or(f64::NAN),
                low: at(0).unwrap_or(f64::NAN),
                high: at(2).unwrap_or(f64::NAN),
            },
        }
    }

    /// Measured once.
    pub(crate) fn one(value: f64) -> Self {
        Self { median: value, low: value, high: value }
    }
}
