//! base
mod guard;
#[cfg(all(test, lockspan_loom))]
mod loom;
mod ord;
mod raw;
mod word;

pub use self::guard::{AtomicGuard, Lock, ReadGuard, SeekGuard, WriteGuard};
pub use self::raw::RawLock;
