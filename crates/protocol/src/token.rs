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
//!
//! Everywhere that a token leaves this process (text, wire, environment, JSON) it is this one
//! decimal number. There is no second notation: epoch and count side by side would order `1.9`
//! after `1.10`, as text and as a decimal fraction alike, and turn a fence around.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

const COUNT_BITS: u32 = 40;
const EPOCH_BITS: u32 = 23;

const _: () = assert!(EPOCH_BITS + COUNT_BITS == 63);

/// The number of restarts and changes of owner of a group of records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(u32);

impl Epoch {
    /// The epoch before the first owner.
    pub const NONE: Self = Self(0);
    /// The last epoch.
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

    /// The next epoch; `None` after [`Epoch::MAX`].
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

            /// Packs epoch and count; `None` if the count is above [`Self::COUNT_MAX`].
            #[must_use]
            pub fn new(epoch: Epoch, count: u64) -> Option<Self> {
                let packed = (i64::from(epoch.0) << COUNT_BITS) | i64::try_from(count).ok()?;
                (count <= Self::COUNT_MAX).then_some(Self(packed))
            }

            /// The number, from 0 to `i64::MAX`: what to store and to compare.
            #[must_use]
            pub fn number(self) -> i64 {
                self.0
            }

            /// The value with this number; `None` if it is negative.
            #[must_use]
            pub fn from_number(number: i64) -> Option<Self> {
                (number >= 0).then_some(Self(number))
            }

            /// The epoch part.
            #[must_use]
            pub fn epoch(self) -> Epoch {
                Epoch((self.0 >> COUNT_BITS) as u32)
            }

            /// The count part.
            #[must_use]
            pub fn count(self) -> u64 {
                (self.0 as u64) & Self::COUNT_MAX
            }

            /// Epoch and count, for the scripts of the tests: `2.7` is the seventh of epoch 2.
            #[cfg(test)]
            pub(crate) fn parts(self) -> String {
                format!("{}.{}", self.epoch().0, self.count())
            }
        }

        /// The number, in decimal. Formatting flags such as a width apply to it.
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl From<$name> for i64 {
            fn from(from: $name) -> Self {
                from.0
            }
        }

        impl From<$name> for u64 {
            fn from(from: $name) -> Self {
                from.0.unsigned_abs()
            }
        }

        impl TryFrom<i64> for $name {
            type Error = BadToken;

            fn try_from(number: i64) -> Result<Self, BadToken> {
                Self::from_number(number).ok_or(BadToken::OutOfRange)
            }
        }

        impl TryFrom<u64> for $name {
            type Error = BadToken;

            fn try_from(number: u64) -> Result<Self, BadToken> {
                i64::try_from(number).map(Self).map_err(|_| BadToken::OutOfRange)
            }
        }

        /// Reads the decimal number that `Display` writes. Only digits: a sign, a space or the
        /// fraction of another notation is refused.
        impl FromStr for $name {
            type Err = BadToken;

            fn from_str(text: &str) -> Result<Self, BadToken> {
                if !text.bytes().all(|byte| byte.is_ascii_digit()) || text.is_empty() {
                    return Err(BadToken::NotANumber);
                }
                text.parse().map(Self).map_err(|_: ParseIntError| BadToken::OutOfRange)
            }
        }
    };
}

/// A token is serialized as its number.
#[cfg(feature = "serde")]
impl serde_core::Serialize for Token {
    fn serialize<S: serde_core::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(self.0)
    }
}

/// Reads the number; a negative one, or one above `i64::MAX`, is an error.
#[cfg(feature = "serde")]
impl<'de> serde_core::Deserialize<'de> for Token {
    fn deserialize<D: serde_core::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde_core::de::Error as _;
        let number = i64::deserialize(deserializer)?;
        Self::try_from(number).map_err(D::Error::custom)
    }
}

/// Why something is not a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadToken {
    /// The text has something other than decimal digits, or nothing.
    NotANumber,
    /// The number is negative or above `i64::MAX`.
    OutOfRange,
}

impl fmt::Display for BadToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotANumber => "a token is a decimal number such as 1099511627777, digits only",
            Self::OutOfRange => "a token is a number from 0 to 9223372036854775807",
        })
    }
}

impl std::error::Error for BadToken {}

packed! {
    /// A fencing token: one number that rises with every write grant of a record.
    ///
    /// A data store that remembers the highest token that a *write* lock has shown it, and refuses
    /// lower ones, is safe from a process that lost its lock and does not know it yet. The token of
    /// a read lock must not raise the remembered number: a read grant carries the number of the
    /// last write grant.
    ///
    /// All guards under one cached grant have the same token. The token distinguishes processes
    /// from each other, not the threads of one process.
    ///
    /// ```
    /// # use lockspan_protocol::Token;
    /// let token = Token::try_from(1_099_511_627_856_i64)?;
    /// assert_eq!(token.to_string(), "1099511627856");
    /// assert_eq!("1099511627856".parse(), Ok(token));
    /// assert_eq!(i64::from(token), 1_099_511_627_856);
    /// assert_eq!(u64::from(token), 1_099_511_627_856);
    /// # Ok::<(), lockspan_protocol::BadToken>(())
    /// ```
    ///
    /// With the feature `serde` a token is serialized as the same number. It can be above 2^53:
    /// send text to a program that reads JSON numbers as floating point, such as JavaScript.
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

    #[cfg(feature = "serde")]
    #[test]
    fn a_token_is_serialized_as_its_number() {
        let token = Token::new(Epoch(1), 9).unwrap();
        let json = serde_json::to_string(&token).unwrap();
        assert_eq!(json, "1099511627785");
        assert_eq!(serde_json::from_str::<Token>(&json).unwrap(), token);
        let top = Token::try_from(i64::MAX).unwrap();
        let json = serde_json::to_string(&top).unwrap();
        assert_eq!(serde_json::from_str::<Token>(&json).unwrap(), top);
        let why = serde_json::from_str::<Token>("-1").unwrap_err().to_string();
        assert!(why.contains("from 0 to 9223372036854775807"), "{why}");
        for bad in ["9223372036854775808", "\"7\"", "1.9", "null"] {
            assert!(serde_json::from_str::<Token>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn service_f53_a_token_has_one_notation_whose_order_is_that_of_its_numbers() {
        let ninth = Token::new(Epoch(1), 9).unwrap();
        let tenth = Token::new(Epoch(1), 10).unwrap();
        assert_eq!(
            (ninth.to_string(), tenth.to_string()),
            ("1099511627785".to_owned(), "1099511627786".to_owned(),)
        );
        assert_eq!(format!("{tenth:>14}"), " 1099511627786");
        assert_eq!(tenth.to_string().parse(), Ok(tenth));
        assert_eq!((i64::from(tenth), u64::from(tenth)), (tenth.number(), 1_099_511_627_786));
        assert_eq!(Token::try_from(u64::from(tenth)), Ok(tenth));
        assert_eq!(Token::try_from(tenth.number()), Ok(tenth));
    }

    #[test]
    fn what_is_no_token_is_refused_with_its_reason() {
        for text in ["", "1.80", "-1", "+1", " 1", "1 ", "0x1", "one"] {
            assert_eq!(text.parse::<Token>(), Err(BadToken::NotANumber), "{text:?}");
        }
        assert_eq!("9223372036854775808".parse::<Token>(), Err(BadToken::OutOfRange));
        assert_eq!(Token::try_from(-1_i64), Err(BadToken::OutOfRange));
        assert_eq!(Token::try_from(u64::MAX), Err(BadToken::OutOfRange));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert_eq!(Token::new(Epoch(1), Token::COUNT_MAX + 1), None);
        assert_eq!(Epoch::new(Epoch::MAX.number() + 1), None);
        assert_eq!(Epoch::MAX.next(), None);
    }
}
