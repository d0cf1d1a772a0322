//! Every memory ordering of [`Queue`](super::Queue) that the phases of its lock do not give.

use crate::sync::Ordering;

/// A node is whole before anybody finds it.
pub(super) const LINK: Ordering = Ordering::Release;
/// Who finds a node finds it whole.
pub(super) const FOLLOW: Ordering = Ordering::Acquire;
