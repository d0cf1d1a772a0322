//! claim
mod guard;
#[cfg(all(test, lockspan_loom))]
mod loom;
mod ord;
pub mod queue;
mod raw;
mod word;

pub use self::guard::{AloneGuard, AtomicGuard, ClaimGuard, ClaimLock, JoinGuard, ReadGuard};
pub use self::queue::Queue;
pub use self::raw::RawClaimLock;
