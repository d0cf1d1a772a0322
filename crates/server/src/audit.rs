//! What operators do is written down, or it is not done.
//!
//! Each action leaves a line in the log with the target `audit`. Whoever writes the log may hold on
//! to such lines when nobody reads it, but not to any number of them: before that it closes the
//! [`AuditGate`], and actions are refused until it is open again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The target of lines that say what an operator did. A log must not drop them.
pub const AUDIT: &str = "audit";

/// Whether operators may act; shared with what writes the log. It is open unless that closes it.
#[derive(Clone, Debug, Default)]
pub struct AuditGate(Arc<AtomicBool>);

impl AuditGate {
    /// No action is carried out from now on. Those under way still leave their lines.
    pub fn close(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Actions are carried out again.
    pub fn open(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Whether no action is carried out now.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Why an operator can't act now, if so.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        if self.is_closed() {
            return Err(
                "nothing was done: actions of operators must be logged, and the server's log is \
                 not being read. Check what reads it (journald, a pipe), then try again",
            );
        }
        Ok(())
    }
}
