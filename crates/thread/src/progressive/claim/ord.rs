//! Every memory ordering of [`ClaimLock`](super::ClaimLock), with its reason. `cargo xtask weaken`
//! sets each to `Relaxed` in turn and demands that a model fails.

use crate::sync::Ordering;

/// T1: what atomics and the exclusive joiner did is visible to the reader.
pub(super) const READ: Ordering = Ordering::Acquire;
/// T2: our reads are over before anybody claims, changes or is alone.
pub(super) const READ_DONE: Ordering = Ordering::Release;
/// T3: our reads are over before anybody claims.
pub(super) const JOIN: Ordering = Ordering::Release;
/// T5: what we read or marked is over before the next phase.
pub(super) const JOIN_DONE: Ordering = Ordering::Release;
/// T6: our marks are visible to everybody in the atomic phase.
pub(super) const ON_TO_ATOMIC: Ordering = Ordering::Release;
/// T7: our changes are visible to everybody after the atomic phase.
pub(super) const ATOMIC_DONE: Ordering = Ordering::Release;
/// T8: our changes are visible to those who become readers with us.
pub(super) const ATOMIC_TO_READ: Ordering = Ordering::Release;
/// T9: our changes are visible to those who join again with us.
pub(super) const ATOMIC_TO_JOIN: Ordering = Ordering::Release;
/// T10: we are alone, after all who were there.
pub(super) const ALONE: Ordering = Ordering::Acquire;
/// T11: what we did alone is visible to whoever comes next.
pub(super) const ALONE_DONE: Ordering = Ordering::Release;
/// T12: with nobody to wait for, this alone orders us after all who were there.
pub(super) const ATOMIC: Ordering = Ordering::Acquire;
/// T14: marks that we made, and took back, are visible to everybody in the atomic phase.
pub(super) const TO_READ: Ordering = Ordering::Release;
/// T15: with nobody to wait for, this alone orders us after all who were there; and what we did
/// before is visible to those who claim with us, as after T1 and T3.
pub(super) const CLAIM: Ordering = Ordering::AcqRel;
