//! The words for a [`WantRefusal`].

use std::fmt;

use super::WantRefusal;

impl fmt::Display for WantRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyRecords { max } => {
                write!(f, "too many records in this process: the maximum is {max}; release some")
            }
            Self::TooManyOwners { max } => write!(f, "too many owners: the maximum is {max}"),
            Self::NotHeld => f.write_str("only what is held for reading can be upgraded"),
            Self::UpgradeConflict => f.write_str(
                "another thread of this process already waits to upgrade: release the read, then \
                 acquire for writing",
            ),
            Self::NotDraining => f.write_str("the record was not revoked"),
            Self::Closed => f.write_str("this node has closed its sessions"),
        }
    }
}

impl std::error::Error for WantRefusal {}
