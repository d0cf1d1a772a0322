//! Which acquisition owns a lock, as a value that can be kept and passed on.

use std::num::NonZeroU64;

use super::record::Name;

/// One acquisition of a lock: a thread's record and a number that never comes twice.
///
/// A ticket has it ([`Ticket::owner`](super::Ticket::owner)), and everybody can read it from the
/// lock ([`Lock::owner`](super::Lock::owner)). It stays the same while the ticket's thread is moved
/// from one processor to another, and it is gone for good when the lock is taken away or released:
/// even the same thread gets another one then, and so does the next thread that uses the same
/// record. So [`Lock::cancel_owner`](super::Lock::cancel_owner) never hits a later acquisition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner(NonZeroU64);

impl Owner {
    /// The acquisition whose first name this is.
    #[inline]
    pub(super) fn of(first: Name) -> Self {
        Self::from_bits(first.word()).expect("a name is not 0")
    }

    /// As a number, for a log or for another language. It is not 0.
    #[inline]
    #[must_use]
    pub fn to_bits(self) -> u64 {
        self.0.get()
    }

    /// From what [`to_bits`](Self::to_bits) gave; none for 0. Any other number is harmless: it
    /// names an acquisition that owns nothing.
    #[inline]
    #[must_use]
    pub fn from_bits(bits: u64) -> Option<Self> {
        NonZeroU64::new(bits).map(Self)
    }
}
