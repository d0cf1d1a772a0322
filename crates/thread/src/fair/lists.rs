//! Who waits, in order: the scheduler's private lists.
//!
//! Readers and writers stand in two lists, each in order of arrival; an upgradable read stands
//! with the writers, as it excludes its like. The one possible upgrader stands before all writers.
//! The lists are circular, so that each needs one pointer and the whole lock has 48 bytes.

use core::ptr;

use super::node::{Kind, Node};

/// A circular list through [`Links`](super::node::Links); null when empty.
#[derive(Debug)]
pub(super) struct List {
    front: *mut Node,
}

impl List {
    pub(super) const fn new() -> Self {
        Self { front: ptr::null_mut() }
    }

    pub(super) fn front(&self) -> Option<*mut Node> {
        (!self.front.is_null()).then_some(self.front)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.front.is_null()
    }

    /// The node behind `node`, unless that is the front again.
    ///
    /// # Safety
    /// The caller is the scheduler and `node` is in this list.
    pub(super) unsafe fn after(&self, node: *mut Node) -> Option<*mut Node> {
        // SAFETY: a listed node is alive.
        let next = unsafe { Node::links(node, |links| links.next) };
        (next != self.front).then_some(next)
    }

    /// The node that arrived last.
    ///
    /// # Safety
    /// The caller is the scheduler.
    pub(super) unsafe fn back(&self) -> Option<*mut Node> {
        let front = self.front()?;
        // SAFETY: a listed node is alive.
        Some(unsafe { Node::links(front, |links| links.prev) })
    }

    /// # Safety
    /// The caller is the scheduler; `node` is alive and in no list.
    unsafe fn push_back(&mut self, node: *mut Node) {
        // SAFETY: the caller is the scheduler.
        let (prev, next) = match unsafe { self.back() } {
            Some(back) => (back, self.front),
            None => (node, node),
        };
        // SAFETY: alive by contract.
        unsafe {
            Node::links(node, |links| {
                links.prev = prev;
                links.next = next;
            });
        }
        // SAFETY: listed, or the node itself.
        unsafe { Node::links(prev, |links| links.next = node) };
        // SAFETY: listed, or the node itself.
        unsafe { Node::links(next, |links| links.prev = node) };
        if self.front.is_null() {
            self.front = node;
        }
    }

    /// # Safety
    /// The caller is the scheduler; `node` is alive and in no list.
    unsafe fn push_front(&mut self, node: *mut Node) {
        // SAFETY: the same contract. In a circular list the last is the one before the first.
        unsafe { self.push_back(node) };
        self.front = node;
    }

    /// # Safety
    /// The caller is the scheduler and `node` is in this list.
    unsafe fn unlink(&mut self, node: *mut Node) {
        // SAFETY: a listed node is alive.
        let (prev, next) = unsafe { Node::links(node, |links| (links.prev, links.next)) };
        if next == node {
            self.front = ptr::null_mut();
            return;
        }
        // SAFETY: a listed node is alive.
        unsafe { Node::links(prev, |links| links.next = next) };
        // SAFETY: a listed node is alive.
        unsafe { Node::links(next, |links| links.prev = prev) };
        if self.front == node {
            self.front = next;
        }
    }
}

/// All who wait.
#[derive(Debug)]
pub(super) struct Lists {
    pub(super) readers: List,
    pub(super) writers: List,
}

impl Lists {
    pub(super) const fn new() -> Self {
        Self { readers: List::new(), writers: List::new() }
    }

    /// What a fork may leave to a child: pointers to a node that is no node any more.
    #[cfg(all(test, not(any(miri, lockspan_shuttle))))]
    pub(super) const fn of_gone(node: *mut Node) -> Self {
        Self { readers: List { front: node }, writers: List { front: node } }
    }

    /// Takes `node` in at the end of its line.
    ///
    /// # Safety
    /// The caller is the scheduler; `node` is alive and not listed.
    pub(super) unsafe fn insert(&mut self, node: *mut Node) {
        // SAFETY: alive by contract; the field never changes.
        match unsafe { (*node).kind } {
            // SAFETY: as this function's contract says.
            Kind::Read => unsafe { self.readers.push_back(node) },
            // SAFETY: as this function's contract says.
            Kind::Write | Kind::Upgradable => unsafe { self.writers.push_back(node) },
            // SAFETY: as this function's contract says.
            Kind::Upgrade => unsafe { self.writers.push_front(node) },
        }
        // SAFETY: alive by contract.
        unsafe { Node::links(node, |links| links.listed = true) };
    }

    /// Takes `node` out; true if it was the summoned one.
    ///
    /// # Safety
    /// The caller is the scheduler and `node` is listed.
    pub(super) unsafe fn remove(&mut self, node: *mut Node) -> bool {
        // SAFETY: a listed node is alive; the field never changes.
        match unsafe { (*node).kind } {
            // SAFETY: listed, and this is where its kind is listed.
            Kind::Read => unsafe { self.readers.unlink(node) },
            // SAFETY: listed, and this is where its kind is listed.
            _ => unsafe { self.writers.unlink(node) },
        }
        // SAFETY: alive until its status changes, which only the scheduler does.
        unsafe {
            Node::links(node, |links| {
                links.listed = false;
                core::mem::take(&mut links.summoned)
            })
        }
    }

    /// When the oldest waiter began to wait.
    ///
    /// # Safety
    /// The caller is the scheduler.
    pub(super) unsafe fn oldest(&self) -> Option<u64> {
        let fronts = [self.readers.front(), self.writers.front()];
        // SAFETY: listed nodes are alive; the field never changes.
        fronts.into_iter().flatten().map(|node| unsafe { (*node).since }).min()
    }
}
