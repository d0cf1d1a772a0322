//! Every memory ordering of the gate, with its reason. `cargo xtask weaken` sets each to `Relaxed`
//! in turn and demands that a model fails.

use crate::sync::Ordering;

/// T1: what earlier holders did, and what the keeper says about the opening, is visible inside.
pub(super) const ENTER: Ordering = Ordering::Acquire;
/// T2: what we did is over before anybody whom we exclude comes in.
pub(super) const LEAVE: Ordering = Ordering::Release;
/// T3: what belongs to the opening is in its place before anybody comes in by it.
pub(super) const OPEN: Ordering = Ordering::Release;
/// T4: the other readers' reads are over before the upgraded one writes.
pub(super) const UPGRADE: Ordering = Ordering::Acquire;
/// T5: our writes are visible to the readers that come in beside us.
pub(super) const DOWNGRADE: Ordering = Ordering::Release;
/// T6: what those did who have left is over when the keeper acts on it.
pub(super) const LOOK: Ordering = Ordering::Acquire;
