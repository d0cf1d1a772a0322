//! Every memory ordering of the lock, with its reason. `cargo xtask weaken` sets each to `Relaxed`
//! in turn and demands that a model fails.
//!
//! Elsewhere in this folder only `Relaxed` stands: loads that seed a compare-and-swap, counters
//! and hints.

use crate::sync::Ordering;

/// T1: what the last writer wrote is visible to a reader that comes in.
pub(super) const READ: Ordering = Ordering::Acquire;
/// T2: what earlier readers read and writers wrote is over before we write.
pub(super) const WRITE: Ordering = Ordering::Acquire;
/// T3: our reads are over before the next writer comes in.
pub(super) const READ_DONE: Ordering = Ordering::Release;
/// T4: our writes are visible to whoever comes next.
pub(super) const WRITE_DONE: Ordering = Ordering::Release;
/// T5: the other readers' reads are over before the upgraded reader writes.
pub(super) const UPGRADE: Ordering = Ordering::Acquire;
/// T6: our writes are visible to the readers that come in beside us.
pub(super) const DOWNGRADE: Ordering = Ordering::Release;
/// T7: a node is complete before the scheduler finds it in the inbox.
pub(super) const PUSH: Ordering = Ordering::Release;
/// T7: the scheduler reads a node's fields only after they were written.
pub(super) const DRAIN: Ordering = Ordering::Acquire;
/// T8: who sees our P also sees what we pushed and what we ask for.
pub(super) const PUBLISH: Ordering = Ordering::Release;
/// T9: the scheduler, having taken P, sees what was pushed before it.
pub(super) const TAKE_PENDING: Ordering = Ordering::Acquire;
/// T10: the lists are as the last scheduler left them.
pub(super) const TAKE_OFFICE: Ordering = Ordering::Acquire;
/// T13: our work on the lists is over before the next scheduler begins.
pub(super) const LEAVE_OFFICE: Ordering = Ordering::Release;
/// T11: what former holders did is over before the waiter that we let in begins.
pub(super) const GRANT: Ordering = Ordering::Acquire;
/// T12: release, the granted waiter sees what the scheduler saw; acquire, the scheduler may take
/// the waker that a task left in its node.
pub(super) const DELIVER: Ordering = Ordering::AcqRel;
/// T12: the waiter's side of it.
pub(super) const RECEIVE: Ordering = Ordering::Acquire;
/// T14: the waker is in its place before the scheduler may take it.
pub(super) const REST: Ordering = Ordering::Release;
/// T15: the scheduler's last access to a node is over before its owner reuses the memory.
pub(super) const REMOVE: Ordering = Ordering::Release;
/// T16: a task's node is freed after both of its owners let go.
pub(super) const LET_GO: Ordering = Ordering::AcqRel;
/// F1: what is left of threads that are gone was cleared before anybody in this process relies on
/// its waiters' state.
pub(super) const RENEW: Ordering = Ordering::Release;
/// F1: the other side of it.
pub(super) const RENEWED: Ordering = Ordering::Acquire;
/// T3, T4: [`leave`](super::raw::RawRwLock::leave) gives up a hold (release) and may take office in
/// the same step (acquire).
pub(super) const EXIT: Ordering = Ordering::AcqRel;
