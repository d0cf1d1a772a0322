//! A log-linear histogram: 16 buckets an octave, so a quantile is right within about 3 %.
//!
//! Recording is a shift, an add and a compare. The greatest value is kept exactly.

const SUB_BITS: u32 = 4;
const SUB: usize = 1 << SUB_BITS;
const BUCKETS: usize = (64 - SUB_BITS as usize + 1) * SUB;

/// Counts of values by size.
pub(crate) struct Histogram {
    counts: Box<[u64; BUCKETS]>,
    count: u64,
    max: u64,
}

impl Histogram {
    pub(crate) fn new() -> Self {
        Self { counts: Box::new([0; BUCKETS]), count: 0, max: 0 }
    }

    #[inline]
    pub(crate) fn record(&mut self, value: u64) {
        self.counts[bucket(value)] += 1;
        self.count += 1;
        self.max = self.max.max(value);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(other.counts.iter()) {
            *mine += theirs;
        }
        self.count += other.count;
        self.max = self.max.max(other.max);
    }

    /// The greatest value recorded, 0 if none.
    pub(crate) fn max(&self) -> u64 {
        self.max
    }

    /// The value that a share `q` of all values does not exceed, 0 if there are none.
    pub(crate) fn quantile(&self, q: f64) -> u64 {
        let rank = ((self.count as f64 * q).ceil() as u64).max(1);
        if rank >= self.count {
            return self.max;
        }
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return middle(index).min(self.max);
            }
        }
        self.max
    }
}

#[inline]
fn bucket(value: u64) -> usize {
    if value < SUB as u64 {
        return value as usize;
    }
    let shift = value.ilog2() - SUB_BITS;
    (shift as usize + 1) * SUB + ((value >> shift) as usize & (SUB - 1))
}

fn middle(index: usize) -> u64 {
    if index < SUB {
        return index as u64;
    }
    let shift = (index / SUB - 1) as u32;
    let low = ((SUB + index % SUB) as u64) << shift;
    low + ((1_u64 << shift) >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_falls_into_a_bucket_whose_middle_is_near_it() {
        for value in (0..63).flat_map(|bit| [1_u64 << bit, (1 << bit) + (1 << bit) / 3]) {
            let error = middle(bucket(value)).abs_diff(value);
            assert!(error as f64 <= value as f64 / 16.0, "{value} is off by {error}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_of_a_ramp_are_its_fractions_and_the_maximum_is_exact() {
        let (mut low, mut high) = (Histogram::new(), Histogram::new());
        (0..5_000).for_each(|value| low.record(value));
        (5_000..10_000).for_each(|value| high.record(value));
        low.merge(&high);
        for q in [0.1, 0.5, 0.99] {
            let got = low.quantile(q) as f64;
            assert!((got / (q * 10_000.0) - 1.0).abs() < 0.04, "{q}: {got}");
        }
        assert_eq!((low.quantile(1.0), low.max()), (9_999, 9_999));
    }

    #[test]
    fn an_empty_histogram_answers_zero() {
        assert_eq!(Histogram::new().quantile(0.5), 0);
    }
}
