//! What a session is called where others can see it.

use std::fmt;

/// The name of a session in lists, on the page and in the log: `s` and twelve hexadecimal digits.
///
/// The number of a session is a secret: whoever knows it may use the session. So nothing that is
/// shown contains the number. A server derives the public id from it with a key that nobody else
/// knows, and no number can be computed from a public id. Only operators' commands take a public
/// id. `docs/decisions/0007-a-session-number-is-a-secret.md` has the reasons.
///
/// ```
/// use lockspan_wire::PublicId;
///
/// let id = PublicId::read(b"s4f2a9c01b7e3").unwrap();
/// assert_eq!(id.to_string(), "s4f2a9c01b7e3");
/// assert_eq!(PublicId::read(b"4711"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicId(u64);

impl PublicId {
    /// Hexadecimal digits after the `s`. Among 100,000 sessions two have the same id once in
    /// 50,000 such sets; an operator's command refuses an id that two sessions have.
    const DIGITS: usize = 12;

    /// The id with the first bits of a hash.
    #[must_use]
    pub const fn of_hash(hash: u64) -> Self {
        Self(hash >> (64 - 4 * Self::DIGITS))
    }

    /// Reads an id as [`Display`](fmt::Display) writes it, in upper or lower case.
    #[must_use]
    pub fn read(word: &[u8]) -> Option<Self> {
        let (b's' | b'S', digits) = word.split_first()? else { return None };
        let is_id = digits.len() == Self::DIGITS && digits.iter().all(u8::is_ascii_hexdigit);
        let digits = std::str::from_utf8(digits).ok().filter(|_| is_id)?;
        u64::from_str_radix(digits, 16).ok().map(Self)
    }
}

impl fmt::Display for PublicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{:0digits$x}", self.0, digits = Self::DIGITS)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(hash in any::<u64>()) {
            let id = PublicId::of_hash(hash);
            let text = id.to_string();
            prop_assert_eq!(text.len(), 13);
            prop_assert_eq!(PublicId::read(text.as_bytes()), Some(id));
            prop_assert_eq!(PublicId::read(text.to_uppercase().as_bytes()), Some(id));
        }

        #[test]
        fn no_number_is_a_public_id(number in any::<u64>()) {
            prop_assert_eq!(PublicId::read(number.to_string().as_bytes()), None);
        }
    }

    #[test]
    fn nothing_else_is_an_id() {
        for odd in ["", "s", "s4f2a9c01b7e", "s4f2a9c01b7e33", "x4f2a9c01b7e3", "s+f2a9c01b7e3"] {
            assert_eq!(PublicId::read(odd.as_bytes()), None, "{odd}");
        }
    }
}
