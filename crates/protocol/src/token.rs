//! Fencing tokens and queue tickets: an epoch and a count in one positive `i64`.
//!
//! ```text
//!   63   62                    40 39                                     0
//! ┌────┬─────────────────────────┬────────────────────────────────────────┐
//! │ 0  │      EPOCH (23 bits)    │            COUNT (40 bits)             │
//! └────┴─────────────────────────┴────────────────────────────────────────┘
//! ```
//!
//! The numeric order is the order in time: a later epoch is above every count of an earlier one.

use std::fmt;

const COUNT_BITS: u32 = 40;
const EPOCH_BITS: u32 = 23;

const _: () = assert!(EPOCH_BITS + COUNT_BITS == 63);

/// How many changes of owner and restarts a group has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(u32);

impl Epoch {
    /// Before the first owner.
    pub const NONE: Self = Self(0);
    /// There is none above it.
    pub const MAX: Self = Self((1 << EPOCH_BITS) - 1);

    /// The epoch with this number, if it fits into a token.
    #[must_use]
    pub fn new(number: u32) -> Option<Self> {
        (number <= Self::MAX.0).then_some(Self(number))
    }

    /// The number.
    #[must_use]
    pub fn number(self) -> u32 {
        self.0
    }

    /// The next one, unless this is the last.
    #[must_use]
    pub fn next(self) -> Option<Self> {
        Self::new(self.0 + 1)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "epoch {}", self.0)
    }
}

macro_rules! packed {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(i64);

        impl $name {
            /// The greatest count of an epoch.
            pub const COUNT_MAX: u64 = (1 << COUNT_BITS) - 1;

            /// Packs the two, if the count fits.
            #[must_use]
            pub fn new(epoch: Epoch, count: u64) -> Option<Self> {
                let packed = (i64::from(epoch.0) << COUNT_BITS) | i64::try_from(count).ok()?;
                (count <= Self::COUNT_MAX).then_some(Self(packed))
            }

            /// What travels: never negative.
            #[must_use]
            pub fn number(self) -> i64 {
                self.0
            }

            /// Reads what travelled.
            #[must_use]
            pub fn from_number(number: i64) -> Option<Self> {
                (number >= 0).then_some(Self(number))
            }

            /// The epoch in it.
            #[must_use]
            pub fn epoch(self) -> Epoch {
                Epoch((self.0 >> COUNT_BITS) as u32)
            }

            /// The count in it.
            #[must_use]
            pub fn count(self) -> u64 {
                (self.0 as u64) & Self::COUNT_MAX
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}.{}", self.epoch().0, self.count())
            }
        }
    };
}

packed! {
    /// A fencing token. Every write grant takes the next of its group; a read grant carries the
    /// present one. A store remembers the highest *write* token that it has seen and refuses what
    /// is lower; reads never raise the mark.
    Token
}
packed! {
    /// A place in line, so that the order of waiters survives a restart of the server.
    Ticket
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_epoch_is_above_every_count_of_an_earlier_one() {
        let last = Token::new(Epoch(7), Token::COUNT_MAX).unwrap();
        let first = Token::new(Epoch(8), 0).unwrap();
        assert!(last < first);
        assert_eq!((first.epoch(), first.count()), (Epoch(8), 0));
        assert_eq!((last.epoch(), last.count()), (Epoch(7), Token::COUNT_MAX));
    }

    #[test]
    fn the_greatest_token_is_a_positive_number() {
        let top = Token::new(Epoch::MAX, Token::COUNT_MAX).unwrap();
        assert_eq!(top.number(), i64::MAX);
        assert_eq!(Token::from_number(top.number()), Some(top));
        assert_eq!(Token::from_number(-1), None);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert_eq!(Token::new(Epoch(1), Token::COUNT_MAX + 1), None);
        assert_eq!(Epoch::new(Epoch::MAX.number() + 1), None);
        assert_eq!(Epoch::MAX.next(), None);
    }
}
