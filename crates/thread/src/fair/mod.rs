//! A fair read-write lock.

#[cfg(not(lockspan_loom))]
mod api;
mod clock;
mod lists;
mod node;
mod ord;
mod policy;
mod raw;
mod schedule;
mod spin;
mod task;
mod wait;
mod word;

#[cfg(not(lockspan_loom))]
pub use self::api::{ReadAsync, RwLockExt, WriteAsync};
pub use self::policy::{Bounded, Policy, QUANTUM_MICROS, Strict};
pub use self::raw::RawRwLock;

/// A fair read-write lock around its data.
#[cfg(not(lockspan_loom))]
pub type RwLock<T, P = Bounded> = lock_api::RwLock<RawRwLock<P>, T>;

#[cfg(all(test, lockspan_loom))]
mod loom;
