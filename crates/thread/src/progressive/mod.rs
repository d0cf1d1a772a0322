//! Progressive locks.

pub mod base;
pub mod claim;
mod guard;
mod line;
#[cfg(all(test, lockspan_loom))]
mod loom;
mod ord;
pub mod state;
mod turnstile;
pub mod upgrade;

pub use self::base::Lock;
pub use self::claim::ClaimLock;
pub use self::guard::{Guard, Locked};
pub use self::upgrade::UpgradeLock;

/// The moment that lies `timeout` from now; a very long wait is thirty years.
fn until(timeout: std::time::Duration) -> std::time::Instant {
    const LONG: std::time::Duration = std::time::Duration::from_secs(1 << 30);
    std::time::Instant::now() + timeout.min(LONG)
}
