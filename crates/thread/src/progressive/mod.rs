//! Progressive locks.

pub mod base;
pub mod claim;
#[cfg(not(lockspan_loom))]
mod guard;
mod line;
#[cfg(all(test, lockspan_loom))]
mod loom;
mod ord;
#[cfg(not(lockspan_loom))]
pub mod state;
mod turnstile;
#[cfg(not(lockspan_loom))]
pub mod upgrade;

#[cfg(not(lockspan_loom))]
pub use self::base::Lock;
#[cfg(not(lockspan_loom))]
pub use self::claim::ClaimLock;
#[cfg(not(lockspan_loom))]
pub use self::guard::{Guard, Locked};
#[cfg(not(lockspan_loom))]
pub use self::upgrade::UpgradeLock;

/// The moment that lies `timeout` from now; a very long wait is thirty years.
#[cfg(not(lockspan_loom))]
fn until(timeout: std::time::Duration) -> std::time::Instant {
    const LONG: std::time::Duration = std::time::Duration::from_secs(1 << 30);
    std::time::Instant::now() + timeout.min(LONG)
}
