//! A small random number generator: what a thread does next.

/// A xorshift generator.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        // Spread small seeds over the word; the state must not be 0.
        Self((seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// A number below 100.
    #[inline]
    pub(crate) fn roll(&mut self) -> u32 {
        self.below(100)
    }

    /// A number below `end`.
    #[inline]
    pub(crate) fn below(&mut self, end: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (((self.0 >> 32) * u64::from(end)) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dice_fall_evenly_and_below_a_hundred() {
        let mut dice = Dice::new(1);
        let mut low = 0;
        for _ in 0..100_000 {
            let roll = dice.roll();
            assert!(roll < 100);
            low += u32::from(roll < 10);
        }
        assert!((9_000..11_000).contains(&low), "{low}");
    }
}
