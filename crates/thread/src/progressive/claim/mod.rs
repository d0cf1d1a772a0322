//! claim
#[cfg(not(lockspan_loom))]
mod guard;
#[cfg(all(test, lockspan_loom))]
mod loom;
mod ord;
mod raw;
mod word;

#[cfg(not(lockspan_loom))]
pub use self::guard::{AloneGuard, AtomicGuard, ClaimGuard, ClaimLock, JoinGuard, ReadGuard};
pub use self::raw::RawClaimLock;
