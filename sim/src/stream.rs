//! Random numbers: all from the world's seed, in streams, so that what one part of the world draws
//! does not change what another part draws. That keeps a world recognisable while a failure is made
//! smaller.

use fastrand::Rng;

/// What random numbers are drawn for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stream {
    /// The plan of the world.
    Plan,
    /// Delays, losses and doubles of messages.
    Network,
    /// Rates of clocks, numbers of sessions, who retries.
    Machines,
    /// When each kind of fault happens, and to whom.
    Fault(u8),
    /// What a thread does.
    Thread { node: u8, thread: u8 },
    /// How long writes to storage take.
    Disk,
    /// Which groups a cluster moves, and to whom.
    Cluster,
}

pub(crate) use Stream::{Cluster, Disk, Fault, Machines, Network, Plan, Thread};

impl Stream {
    pub(crate) fn rng(self, seed: u64) -> Rng {
        let number: u64 = match self {
            Self::Plan => 1,
            Self::Network => 2,
            Self::Machines => 3,
            Self::Disk => 4,
            Self::Cluster => 5,
            Self::Fault(kind) => 0x100 + u64::from(kind),
            Self::Thread { node, thread } => 0x10000 + u64::from(node) * 0x100 + u64::from(thread),
        };
        // Neighbouring seeds must not give similar streams.
        Rng::with_seed(mix(mix(seed) ^ number))
    }
}

/// The finaliser of SplitMix64.
fn mix(mut word: u64) -> u64 {
    word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_and_seeds_give_different_numbers() {
        let first = |stream: Stream, seed| stream.rng(seed).u64(..);
        assert_eq!(first(Network, 5), first(Network, 5));
        assert_ne!(first(Network, 5), first(Network, 6));
        assert_ne!(first(Network, 5), first(Disk, 5));
        assert_ne!(first(Fault(0), 5), first(Fault(1), 5));
    }
}
