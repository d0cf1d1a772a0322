//! Every memory ordering of the biased mutex, with its reason. `cargo xtask weaken` sets each to
//! `Relaxed` in turn and demands that a model fails.

use crate::sync::Ordering;

/// T2: what we did under the lock is over before anybody sees the slot empty.
pub(super) const LEAVE: Ordering = Ordering::Release;
/// T5: what the owner did under the lock is visible to who finds the slot empty.
pub(super) const LOOK: Ordering = Ordering::Acquire;
