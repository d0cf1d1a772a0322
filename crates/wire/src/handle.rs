//! The names of one lock of `LS.LOCK`: the id that its client draws, and the handle that it gets.
//!
//! ```text
//! id       6f9619ff8b86d011b42d00c04fc964ff             a UUID, with or without its dashes
//! handle   6f9619ff8b86d011b42d00c04fc964ff.W.1099511627777.c3ab8ff13720e8ad9047dd39466b3c89
//!                                                       id, mode, token, the server's seal
//! ```
//!
//! Both are secrets: whoever knows one may unlock the lock. The handle has the mode and the token
//! in it because a server that was restarted has forgotten them: the next renewal brings them back.
//! The seal is a MAC that the server alone can compute: it shows that the server itself has granted
//! this lock with this token.

use std::fmt;

use lockspan_protocol::{Mode, Token};

use crate::read::number;
use crate::words::mode_word;

/// What was granted to a lock, as its handle says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockGrant {
    /// How it is held.
    pub mode: Mode,
    /// With which token.
    pub token: Token,
    /// The server's MAC of the lock, the record, the mode and the token.
    pub seal: u128,
}

/// Digits of an id.
const DIGITS: usize = 32;

/// Where a UUID has its dashes.
const DASHES: [usize; 4] = [8, 13, 18, 23];

/// What names one lock: 128 bits that nobody else can guess. `Debug` does not show them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LockId(u128);

impl LockId {
    /// An id with these bits.
    #[must_use]
    pub const fn new(bits: u128) -> Self {
        Self(bits)
    }

    /// The bits.
    #[must_use]
    pub const fn reveal(self) -> u128 {
        self.0
    }

    /// Reads 32 hexadecimal digits, or a UUID. One digit repeated is no random number: such an id
    /// is refused, for two programs would choose the same.
    pub(crate) fn parse(word: &[u8]) -> Option<Self> {
        let mut digits = Vec::with_capacity(DIGITS);
        for (at, &byte) in word.iter().enumerate() {
            match byte {
                b'-' if word.len() == DIGITS + DASHES.len() && DASHES.contains(&at) => {}
                byte if byte.is_ascii_hexdigit() => digits.push(byte),
                _ => return None,
            }
        }
        let random = digits.iter().any(|digit| *digit != digits[0]);
        bits(&digits).filter(|_| random).map(Self)
    }

    /// Its 32 digits.
    fn text(self) -> String {
        format!("{:032x}", self.0)
    }
}

impl fmt::Debug for LockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(lock id)")
    }
}

/// What `LS.RENEW` and `LS.UNLOCK` take: the id, and what was granted if that is known. `Debug`
/// does not show the id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockHandle {
    /// Which lock.
    pub id: LockId,
    /// How it is held, and with which token; none if its client has not heard.
    pub grant: Option<LockGrant>,
}

impl LockHandle {
    /// Its text, for its client alone.
    #[must_use]
    pub fn reveal(&self) -> String {
        match self.grant {
            Some(LockGrant { mode, token, seal }) => {
                let (id, mode) = (self.id.text(), mode_word(mode));
                format!("{id}.{mode}.{}.{seal:032x}", token.number())
            }
            None => self.id.text(),
        }
    }

    /// Reads a handle, or an id.
    pub(crate) fn parse(word: &[u8]) -> Option<Self> {
        let mut parts = word.split(|byte| *byte == b'.');
        let id = LockId::parse(parts.next()?)?;
        let Some(mode) = parts.next() else { return Some(Self { id, grant: None }) };
        let mode = match mode {
            b"R" => Mode::Read,
            b"W" => Mode::Write,
            _ => return None,
        };
        let token = i64::try_from(number(parts.next()?)?).ok().and_then(Token::from_number)?;
        let seal = bits(parts.next()?)?;
        parts.next().is_none().then_some(Self { id, grant: Some(LockGrant { mode, token, seal }) })
    }
}

/// The bits of exactly 32 hexadecimal digits.
fn bits(digits: &[u8]) -> Option<u128> {
    if digits.len() != DIGITS || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u128::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_handle_is_read_as_it_was_written(
            bits in any::<u128>(), number in 1_i64..i64::MAX, read in any::<bool>(),
            seal in any::<u128>(),
        ) {
            let mode = if read { Mode::Read } else { Mode::Write };
            let id = LockId::new(bits);
            let random = id.text().bytes().any(|digit| digit != id.text().as_bytes()[0]);
            let granted = Token::from_number(number).map(|token| LockGrant { mode, token, seal });
            for grant in [None, granted] {
                let handle = LockHandle { id, grant };
                let found = LockHandle::parse(handle.reveal().as_bytes());
                prop_assert_eq!(found, random.then_some(handle));
            }
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            if let Some(handle) = LockHandle::parse(&bytes) {
                prop_assert_eq!(LockHandle::parse(handle.reveal().as_bytes()), Some(handle));
            }
        }
    }

    #[test]
    fn a_uuid_may_have_its_dashes_and_nothing_else() {
        let plain = LockId::parse(b"6f9619ff8b86d011b42d00c04fc964ff").expect("32 digits");
        let dashed = LockId::parse(b"6F9619FF-8B86-D011-B42D-00C04FC964FF").expect("a UUID");
        assert_eq!(plain, dashed);
        assert_eq!(plain.reveal(), 0x6f96_19ff_8b86_d011_b42d_00c0_4fc9_64ff);
        for wrong in [
            &b""[..],
            b"1",
            b"worker-1",
            b"00000000000000000000000000000000",
            b"ffffffff-ffff-ffff-ffff-ffffffffffff",
            b"6f9619ff8b86d011b42d00c04fc964f",
            b"6f9619ff8b86d011b42d00c04fc964ff0",
            b"6f9619ff8-b86-d011-b42d-00c04fc964ff",
            b"6f9619ff8b86d011-b42d00c04fc964ff",
            b"{6f9619ff8b86d011b42d00c04fc964ff}",
            b"+f9619ff8b86d011b42d00c04fc964ff0",
        ] {
            assert_eq!(LockId::parse(wrong), None, "{}", wrong.escape_ascii());
        }
        let seal = "c3ab8ff13720e8ad9047dd39466b3c89";
        let wrong = [".", ".W", ".W.", ".W.5", ".W.5.", ".W.5.c3", ".W.5.+", ".W.5 ."];
        let wrong = wrong.map(str::to_owned).into_iter();
        let sealed = [".w.5", ".X.5", ".W.-5", ".W.5 ", ".W.5.", ".W.5.0", ".W.5.+"];
        for wrong in wrong.chain(sealed.map(|wrong| format!("{wrong}.{seal}"))) {
            let text = format!("6f9619ff8b86d011b42d00c04fc964ff{wrong}");
            assert_eq!(LockHandle::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(format!("{plain:?}"), "(lock id)", "it is not shown");
    }
}
