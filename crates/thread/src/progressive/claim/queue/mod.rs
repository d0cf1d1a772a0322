//! A queue from which many threads take items at once, and which can be read in order.
//!
//! # When to use it
//!
//! Use it when many threads take from the front of one queue, do not care which of the first items
//! each of them gets, and other threads read the queue in order meanwhile. Threads that want an
//! item at the same moment all get one in the same round; none of them fails and tries again. If
//! nobody reads the queue in order, a lock-free queue is faster: see *What it costs*.
//!
//! ```
//! use lockspan_thread::progressive::claim::Queue;
//!
//! let jobs = Queue::from_iter(["wash", "dry"]);
//! jobs.push("fold");
//! assert_eq!(jobs.read().iter().copied().collect::<Vec<_>>(), ["wash", "dry", "fold"]);
//! assert_eq!(jobs.pop(), Some("wash"));
//! assert_eq!(jobs.pop_many(5), ["dry", "fold"]);
//! assert_eq!(jobs.pop(), None);
//! ```
//!
//! # Order
//!
//! An item whose push has ended stands before every item whose push begins later. `pop` takes the
//! first item that nobody else has taken or is taking. So a single consumer sees the order of the
//! queue, and each of several consumers sees its own items in that order.
//!
//! # What it costs
//!
//! Push and pop, on two processors, as the ratio of throughputs (`benches/results/progressive`):
//!
//! | threads | a `VecDeque` in parking_lot's mutex | in std's mutex | crossbeam's `SegQueue` |
//! |--------:|------------------------------------:|---------------:|-----------------------:|
//! |       1 |                            **0.72** |       **0.72** |               **0.75** |
//! |       2 |                                1.20 |           1.96 |               **0.60** |
//! |       8 |                                1.02 |           2.11 |               **0.66** |
//! |      64 |                                1.08 |           1.84 |               **0.68** |
//!
//! It is slower than a mutex when one thread uses it alone (each item is a node on the heap), and
//! always slower than a lock-free queue, which cannot be read in order.

mod list;
#[cfg(all(test, lockspan_loom))]
mod loom;
#[cfg(all(test, not(any(lockspan_loom, lockspan_shuttle))))]
mod tests;

use core::fmt;
use core::marker::PhantomData;

use self::list::{Claimed, List, Node};
use super::guard::{ClaimGuard, ClaimLock, ReadGuard};
use crate::sync::{AtomicUsize, Ordering};

/// A queue from which many threads take items at once; see the [module](self).
pub struct Queue<T> {
    list: ClaimLock<List<T>>,
    /// Changes in the atomic phase, or alone; may be looked at without the lock.
    len: AtomicUsize,
}

// SAFETY: items are moved in and out, and only one thread moves each (Q1); references to them are
// given out by `View::iter` alone, which asks for T: Sync.
unsafe impl<T: Send> Sync for Queue<T> {}
// SAFETY: the nodes belong to the queue, and go with it.
unsafe impl<T: Send> Send for Queue<T> {}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Extend<T> for Queue<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        for item in items {
            self.push(item);
        }
    }
}

impl<T> FromIterator<T> for Queue<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut queue = Self::new();
        queue.extend(items);
        queue
    }
}

impl<T> fmt::Debug for Queue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl<T> Queue<T> {
    /// An empty queue.
    #[must_use]
    pub fn new() -> Self {
        Self { list: ClaimLock::from(List::new()), len: AtomicUsize::new(0) }
    }

    /// Adds an item at the end.
    pub fn push(&self, item: T) {
        let node = Node::make(item);
        match self.list.try_join_alone() {
            Some(alone) => self.append(&alone, node),
            None => self.push_beside_others(node),
        }
    }

    fn push_beside_others(&self, node: *mut Node<T>) {
        // Not `ClaimLock::atomic`: the claim phase makes the node visible to all atomics.
        let claim = self.list.claim();
        claim.free_aside();
        self.append(&ClaimGuard::atomic(claim), node);
    }

    fn append(&self, list: &List<T>, node: *mut Node<T>) {
        list.append(node);
        self.len.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes the first item.
    pub fn pop(&self) -> Option<T> {
        let mut first = None;
        self.take(1, |item| first = Some(item));
        first
    }

    /// Takes the first items, in their order: `most`, or as many as there are.
    pub fn pop_many(&self, most: usize) -> Vec<T> {
        let mut items = Vec::new();
        self.take(most, |item| items.push(item));
        items
    }

    fn take(&self, most: usize, give: impl FnMut(T)) {
        if most == 0 {
            return;
        }
        match self.list.try_join_alone() {
            Some(alone) => self.take_alone(&alone, most, give),
            None => self.take_beside_others(most, give),
        }
    }

    fn take_beside_others(&self, most: usize, give: impl FnMut(T)) {
        let read = self.list.read();
        if self.is_empty() {
            return;
        }
        let claim = ReadGuard::claim(read);
        claim.free_aside();
        let claimed = claim.claim(most);
        if claimed.len() == 0 {
            // Others were quicker: retract.
            return;
        }
        let atomic = ClaimGuard::atomic(claim);
        // SAFETY: this thread has marked them in the claim phase.
        unsafe { self.take_out(&atomic, claimed, give) };
    }

    fn take_alone(&self, alone: &List<T>, most: usize, give: impl FnMut(T)) {
        let claimed = alone.claim(most);
        // SAFETY: this thread has just marked them.
        unsafe { self.take_out(alone, claimed, give) };
        alone.free_aside();
    }

    /// Takes out what was marked. In the atomic phase, or alone.
    ///
    /// # Safety
    /// The caller has marked these nodes, and takes them once.
    unsafe fn take_out(&self, list: &List<T>, claimed: Claimed<T>, mut give: impl FnMut(T)) {
        self.len.fetch_sub(claimed.len(), Ordering::Relaxed);
        for node in claimed {
            // SAFETY: the same contract.
            give(unsafe { list.take(node) });
        }
        list.pass_taken();
    }

    /// How many items there are; others may change that at any time.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Whether there is no item; others may change that at any time.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A view of the queue, which does not change as long as the view lives. Threads that push or
    /// pop wait meanwhile, so a thread that has a view must not push or pop: that is a deadlock.
    #[must_use]
    pub fn read(&self) -> View<'_, T> {
        View { list: self.list.read() }
    }
}

/// The items of a [`Queue`], which is locked for reading.
pub struct View<'a, T> {
    list: ReadGuard<'a, List<T>>,
}

impl<T> fmt::Debug for View<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").finish_non_exhaustive()
    }
}

impl<T: Sync> View<'_, T> {
    /// The items, from the first to the last.
    #[must_use]
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { next: self.list.first(), view: PhantomData }
    }
}

impl<'a, T: Sync> IntoIterator for &'a View<'_, T> {
    type Item = &'a T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

/// The items of a [`View`], in their order.
pub struct Iter<'a, T> {
    next: *mut Node<T>,
    view: PhantomData<&'a T>,
}

impl<T> fmt::Debug for Iter<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter").finish_non_exhaustive()
    }
}

impl<'a, T: Sync> Iterator for Iter<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        while !self.next.is_null() {
            // SAFETY: Q3: the view holds the lock for reading, so the node stays.
            let node = unsafe { &*self.next };
            self.next = node.next();
            if let Some(item) = node.item() {
                return Some(item);
            }
        }
        None
    }
}
