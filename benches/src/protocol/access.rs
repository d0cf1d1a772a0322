//! Which record is used next: uniform, or Zipf with exponent 0.99 as in the usual key-value loads.

/// A stream of record numbers, from a fixed seed.
pub(crate) struct Access {
    records: usize,
    state: u64,
    /// Cumulated weights of the ranks, for Zipf.
    ranks: Option<Vec<f64>>,
}

impl Access {
    pub(crate) fn new(records: usize, zipf: bool) -> Self {
        let ranks = zipf.then(|| {
            let mut sum = 0.0;
            let weight = |rank: usize| ((rank + 1) as f64).powf(-0.99);
            let mut ranks: Vec<f64> = (0..records)
                .map(|rank| {
                    sum += weight(rank);
                    sum
                })
                .collect();
            ranks.iter_mut().for_each(|mass| *mass /= sum);
            ranks
        });
        Self { records, state: 0x9E37_79B9_7F4A_7C15, ranks }
    }

    /// SplitMix64.
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn next(&mut self) -> usize {
        let random = self.random();
        match &self.ranks {
            None => (random % self.records as u64) as usize,
            Some(ranks) => {
                let at = (random >> 11) as f64 / (1_u64 << 53) as f64;
                let rank = ranks.partition_point(|&mass| mass < at).min(self.records - 1);
                // The popular ones are spread over the whole space.
                rank.wrapping_mul(0x9E37_79B1) % self.records
            }
        }
    }
}
