//! Every memory ordering of the process-shared lock, with its reason: T1 to T9 of its word, G1 to
//! G3 of the writers' line before it. `cargo xtask weaken` sets each to `Relaxed` in turn and
//! demands that a model fails.

use crate::sync::Ordering;

/// T1: our reads come after the writes of the last writer.
pub(super) const READ: Ordering = Ordering::Acquire;
/// T2: no hold is won by it.
pub(super) const LINE_UP: Ordering = Ordering::Relaxed;
/// T3: like T1, for a reader that was let in by the writer itself.
pub(super) const ADMITTED: Ordering = Ordering::Acquire;
/// T4: no hold is lost by it.
pub(super) const GIVE_UP: Ordering = Ordering::Relaxed;
/// T5: our reads are over before the writer that sees `READERS = 0` writes.
pub(super) const READ_UNLOCK: Ordering = Ordering::Release;
/// T6: we write after the reads and writes of all who were in.
pub(super) const WRITE: Ordering = Ordering::Acquire;
/// T7: no hold is won by it.
pub(super) const CLOSE: Ordering = Ordering::Relaxed;
/// T8: our writes are seen by whoever comes next.
pub(super) const WRITE_UNLOCK: Ordering = Ordering::Release;
/// T9: no hold of ours is lost by it, and T8's release sequence goes through it.
pub(super) const OPEN: Ordering = Ordering::Relaxed;

/// G1 and G2: we come after all that the last head did to `main`, so that the door is ours to
/// close (I2).
pub(super) const SERVED: Ordering = Ordering::Acquire;
/// G3: the other side of it.
pub(super) const ADVANCE: Ordering = Ordering::Release;
