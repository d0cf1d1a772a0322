//! Every memory ordering of [`Lock`](super::Lock), with its reason. `cargo xtask weaken` sets each
//! to `Relaxed` in turn and demands that a model fails.

use crate::sync::Ordering;

/// T1: what writers and atomics did is visible to the reader.
pub(super) const READ: Ordering = Ordering::Acquire;
/// T2: what writers and atomics did is visible to the seeker.
pub(super) const SEEK: Ordering = Ordering::Acquire;
/// T3: with no reader to wait for, this alone orders us after all who were there.
pub(super) const WRITE: Ordering = Ordering::Acquire;
/// T4: with no reader to wait for, this alone orders us after all who were there.
pub(super) const ATOMIC: Ordering = Ordering::Acquire;
/// T5: our reads are over before a writer or an atomic finds that no reader is left.
pub(super) const READ_DONE: Ordering = Ordering::Release;
/// T6: our reads are over before the next seeker or writer writes.
pub(super) const SEEK_DONE: Ordering = Ordering::Release;
/// T7: our writes are visible to whoever comes in.
pub(super) const WRITE_DONE: Ordering = Ordering::Release;
/// T8: our changes are visible to whoever comes in after the last atomic.
pub(super) const ATOMIC_DONE: Ordering = Ordering::Release;
/// T10: our reads are over before another atomic changes what we read.
pub(super) const READ_TO_ATOMIC: Ordering = Ordering::Release;
/// T13: our writes are visible to the readers that come in beside us.
pub(super) const WRITE_TO_SEEK: Ordering = Ordering::Release;
/// T14: our writes are visible to the readers that come in beside us.
pub(super) const WRITE_TO_READ: Ordering = Ordering::Release;
/// T15: our changes are visible to the readers that we become.
pub(super) const ATOMIC_TO_READ: Ordering = Ordering::Release;
/// T11, when it must not wait: this alone orders us after the readers' reads.
pub(super) const TRY_SEEK_TO_WRITE: Ordering = Ordering::Acquire;
