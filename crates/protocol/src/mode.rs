//! How a record is held: shared or alone.

use std::fmt;

/// Read is shared, write is alone. More modes may come; match with a wildcard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// Shared: any number of sessions together.
    Read,
    /// Alone.
    Write,
}

impl Mode {
    /// Whether a holder in this mode and one in `other` exclude each other.
    #[must_use]
    pub fn conflicts(self, other: Self) -> bool {
        self == Self::Write || other == Self::Write
    }

    /// Whether a holder in this mode may do what `wish` asks for.
    #[must_use]
    pub fn covers(self, wish: Self) -> bool {
        self >= wish
    }

    /// What a holder may keep when somebody wants `wanted`: readers may stay beside a reader.
    #[must_use]
    pub fn left_beside(wanted: Self) -> Option<Self> {
        match wanted {
            Self::Read => Some(Self::Read),
            Self::Write => None,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
        })
    }
}
