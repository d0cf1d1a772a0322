//! Medians, the spread of rounds, and Jain's index of fairness.

/// The middle value, or the mean of the middle two; values that are not a number are left out.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    middle(&sorted(values))
}

/// The median of some rounds, with the lowest and the highest. All three are NaN if there is no
/// round with a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Spread {
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let values = sorted(values);
        Self {
            median: middle(&values).unwrap_or(f64::NAN),
            low: values.first().copied().unwrap_or(f64::NAN),
            high: values.last().copied().unwrap_or(f64::NAN),
        }
    }

    /// A value that was measured once.
    pub(crate) fn one(value: f64) -> Self {
        Self { median: value, low: value, high: value }
    }
}

/// Jain's index of fairness: 1 when all shares are equal, 1/n when one of n takes all.
pub(crate) fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    if squares == 0.0 { 1.0 } else { sum * sum / (shares.len() as f64 * squares) }
}

fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.into_iter().filter(|value| !value.is_nan()).collect();
    values.sort_by(f64::total_cmp);
    values
}

fn middle(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_leaves_out_what_is_not_a_number() {
        assert_eq!(median([3.0, f64::NAN, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0]), Some(2.5));
        assert_eq!(median([f64::NAN]), None);
    }

    #[test]
    fn a_spread_has_the_lowest_and_the_highest() {
        assert_eq!(Spread::of([2.0, 9.0, 1.0]), Spread { median: 2.0, low: 1.0, high: 9.0 });
        assert!(Spread::of([]).median.is_nan());
    }

    #[test]
    fn jain_is_one_for_equals_and_one_nth_for_a_hog() {
        assert_eq!(jain(&[3.0; 8]), 1.0);
        assert_eq!(jain(&[5.0, 0.0, 0.0, 0.0]), 0.25);
    }
}
