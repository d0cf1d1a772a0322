//! The memory orderings that all locks here share. `cargo xtask weaken` sets each to `Relaxed` in
//! turn and demands that a model fails.

use crate::sync::Ordering;

/// Who waited inside has seen its sign: what those did who brought it about is over and visible.
pub(super) const SETTLE: Ordering = Ordering::Acquire;
/// The first in line asks to be called: its place is ready before anybody can.
pub(super) const ASK: Ordering = Ordering::Release;
/// The call that was asked for comes after the place was made ready for it.
pub(super) const HEED: Ordering = Ordering::Acquire;
