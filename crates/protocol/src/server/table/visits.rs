//! Counts the claims that are looked at, for the tests that say how a cost grows. Outside of these
//! it is nothing.

use std::fmt;

#[cfg(test)]
use super::LockTable;

/// How many claims were looked at. It decides nothing, so it is not shown.
#[derive(Clone, Default)]
pub(super) struct Visits {
    #[cfg(test)]
    count: std::cell::Cell<u64>,
}

impl fmt::Debug for Visits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Visits")
    }
}

impl Visits {
    /// One more.
    #[inline]
    pub(super) fn count(&self) {
        self.add(1);
    }

    /// So many more.
    #[cfg_attr(not(test), expect(clippy::unused_self, reason = "it counts in tests alone"))]
    #[inline]
    pub(super) fn add(&self, _number: u64) {
        #[cfg(test)]
        self.count.set(self.count.get() + _number);
    }

    /// How many there were.
    #[cfg(test)]
    fn get(&self) -> u64 {
        self.count.get()
    }
}

#[cfg(test)]
impl LockTable {
    /// How many claims were looked at so far.
    pub(in crate::server) fn visited(&self) -> u64 {
        self.visits.get()
    }
}
