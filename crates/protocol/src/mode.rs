//! How a record is held: shared or exclusive.

use std::fmt;

/// How a record is held: read is shared, write is exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// Shared: any number of sessions together.
    Read,
    /// Exclusive: one session alone.
    Write,
}

impl Mode {
    /// Whether a holder in this mode and one in `other` exclude each other.
    #[must_use]
    pub fn conflicts(self, other: Self) -> bool {
        self == Self::Write || other == Self::Write
    }

    /// Whether this mode permits everything that `wish` permits.
    #[must_use]
    pub fn covers(self, wish: Self) -> bool {
        self >= wish
    }

    /// The mode that a holder may keep when another session wants `wanted`: a holder keeps reading
    /// when the other wants to read, and keeps nothing when the other wants to write.
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
