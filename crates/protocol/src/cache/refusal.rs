//! The words for a [`WantRefusal`].

use std::fmt;

use super::WantRefusal;

impl fmt::Display for WantRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyRecords { max } => {
                write!(f, "this node caches {max} records, and no more are allowed; give some back")
            }
            Self::TooManyOwners { max } => write!(f, "more than {max} owners are named"),
            Self::NotHeld => f.write_str("only what is held for reading can be upgraded"),
            Self::UpgradeConflict => f.write_str(
                "another thread of this node already waits to upgrade: \
                 release the read, then acquire for writing",
            ),
            Self::NotDraining => f.write_str("nobody has asked for the record back"),
            Self::Closed => f.write_str("this node has closed its sessions"),
        }
    }
}

impl std::error::Error for WantRefusal {}
