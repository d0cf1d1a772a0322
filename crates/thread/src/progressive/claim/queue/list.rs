//! The linked list behind a [`Queue`](super::Queue). Who may call what in which phase is said with
//! each; the queue's guards see to it. Q1 to Q5 are the invariants of the queue.
//!
//! Every access is `Relaxed`: the phases order all that matters. In particular a node is made
//! before its thread claims, and the atomic phase begins after all claims, so whoever finds a node
//! there, even one that was linked a moment ago, finds it whole.
//!
//! # How it works
//!
//! A singly linked list with a dummy before the first item, behind a
//! `ClaimLock`.
//!
//! | phase  | who does what                                                                    |
//! |--------|----------------------------------------------------------------------------------|
//! | Read   | looks: is there anything? iterates                                               |
//! | Claim  | each marks the first item that nobody has marked, and goes past those marked     |
//! | Atomic | each takes out what it has marked, moves the head past what is taken; others push |
//! | Alone  | a thread that finds the lock idle pushes or pops without all that                |
//!
//! Nodes that the head has passed are put aside in the atomic phase. In the next claim phase, which
//! excludes atomics, nobody can know them any more, and one of the claimants frees them: the phases
//! are all the memory reclamation that is needed.
//!
//! # Invariants
//!
//! - **Q1** A node's mark goes from FREE to CLAIMED in the claim phase only, by one thread, and
//!   back to FREE or on to TAKEN by that thread only.
//! - **Q2** The item is in its node exactly while the mark is FREE or CLAIMED.
//! - **Q3** The head moves over TAKEN nodes only, in the atomic phase or alone; so whatever a
//!   reader or claimant reaches from the head stays.
//! - **Q4** A node is put aside after the head has passed it, in the atomic phase, and freed in a
//!   later claim phase or alone.
//! - **Q5** The tail is the last node whenever nobody is in the atomic phase, and the head never
//!   passes it: what was pushed in this phase is not TAKEN before the next.

use core::mem::MaybeUninit;
use core::ptr;

use crate::sync::{AtomicPtr, AtomicU32, Ordering, UnsafeCell};

const FREE: u32 = 0;
const CLAIMED: u32 = 1;
const TAKEN: u32 = 2;

/// One item, or the dummy before the first.
pub(super) struct Node<T> {
    next: AtomicPtr<Self>,
    /// The next one put aside; before that, the next one that the same thread has marked.
    next_aside: AtomicPtr<Self>,
    mark: AtomicU32,
    item: UnsafeCell<MaybeUninit<T>>,
    /// A model cannot see that an atomic is read before it was made; it sees it of this.
    #[cfg(lockspan_loom)]
    whole: UnsafeCell<()>,
}

impl<T> Node<T> {
    /// A node of its own, to be given to [`List::append`]. A pointer, since who moves a box may
    /// touch what is in it, and others look at a node as soon as it is linked.
    pub(super) fn make(item: T) -> *mut Self {
        Self::with(FREE, MaybeUninit::new(item))
    }

    fn with(mark: u32, item: MaybeUninit<T>) -> *mut Self {
        Box::into_raw(Box::new(Self {
            next: AtomicPtr::new(ptr::null_mut()),
            next_aside: AtomicPtr::new(ptr::null_mut()),
            mark: AtomicU32::new(mark),
            item: UnsafeCell::new(item),
            #[cfg(lockspan_loom)]
            whole: UnsafeCell::new(()),
        }))
    }

    pub(super) fn next(&self) -> *mut Self {
        #[cfg(lockspan_loom)]
        self.whole.with(|_| ());
        self.next.load(Ordering::Relaxed)
    }

    fn is_taken(&self) -> bool {
        #[cfg(lockspan_loom)]
        self.whole.with(|_| ());
        self.mark.load(Ordering::Relaxed) == TAKEN
    }

    /// The item, if it is there. For readers.
    pub(super) fn item(&self) -> Option<&T> {
        let is_there = !self.is_taken();
        // SAFETY: nobody takes the item while somebody reads.
        let item = self.item.with(|item| unsafe { &*item });
        // SAFETY: Q2: it is there.
        is_there.then(|| unsafe { item.assume_init_ref() })
    }

    /// Moves the item out.
    ///
    /// # Safety
    /// It is there, and the caller's alone; it is not used again.
    unsafe fn take(&self) -> T {
        self.item.with_mut(|item| {
            // SAFETY: the caller's alone.
            let item = unsafe { &*item };
            // SAFETY: it is there, and not used again.
            unsafe { item.assume_init_read() }
        })
    }
}

/// Nodes that one thread has marked, in their order. They hang together by `next_aside`, which is
/// that thread's until it takes the item.
pub(super) struct Claimed<T> {
    first: *mut Node<T>,
    last: *mut Node<T>,
    len: usize,
}

impl<T> Claimed<T> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    fn add(&mut self, node: *mut Node<T>) {
        // SAFETY: Q4: a node that is marked, and not yet taken, is in the list.
        match unsafe { self.last.as_ref() } {
            Some(last) => last.next_aside.store(node, Ordering::Relaxed),
            None => self.first = node,
        }
        self.last = node;
        self.len += 1;
    }
}

impl<T> Iterator for Claimed<T> {
    type Item = *mut Node<T>;

    fn next(&mut self) -> Option<*mut Node<T>> {
        // SAFETY: as above; whoever iterates takes a node after it was given out.
        let node = unsafe { self.first.as_ref() }?;
        let first = self.first;
        self.first = node.next_aside.load(Ordering::Relaxed);
        self.len -= 1;
        Some(first)
    }
}

/// The list. A new one has a dummy only.
pub(super) struct List<T> {
    /// The dummy: the last node whose item is taken.
    head: AtomicPtr<Node<T>>,
    /// The last node, or in the atomic phase one that was (Q5).
    tail: AtomicPtr<Node<T>>,
    /// Nodes that the head has passed.
    aside: AtomicPtr<Node<T>>,
}

impl<T> List<T> {
    pub(super) fn new() -> Self {
        let dummy = Node::with(TAKEN, MaybeUninit::uninit());
        Self {
            head: AtomicPtr::new(dummy),
            tail: AtomicPtr::new(dummy),
            aside: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// The first node after the dummy, or null. In any phase.
    pub(super) fn first(&self) -> *mut Node<T> {
        // SAFETY: Q4: the head is never freed while anybody holds the lock.
        unsafe { &*self.head.load(Ordering::Relaxed) }.next()
    }

    /// Marks the first `most` items that nobody has marked. In the claim phase, or alone.
    pub(super) fn claim(&self, most: usize) -> Claimed<T> {
        let mut claimed = Claimed { first: ptr::null_mut(), last: ptr::null_mut(), len: 0 };
        let mut at = self.first();
        while !at.is_null() && claimed.len < most {
            // SAFETY: Q3: what is reached from the head stays in this phase.
            let node = unsafe { &*at };
            let marked =
                node.mark.compare_exchange(FREE, CLAIMED, Ordering::Relaxed, Ordering::Relaxed);
            if marked.is_ok() {
                claimed.add(at);
            }
            at = node.next();
        }
        claimed
    }

    /// Takes the item out. In the atomic phase, or alone.
    ///
    /// # Safety
    /// The caller has marked the node, in the claim phase before or alone, and takes it once.
    pub(super) unsafe fn take(&self, node: *mut Node<T>) -> T {
        // SAFETY: Q4: it is not TAKEN, so the head has not passed it.
        let node = unsafe { &*node };
        // SAFETY: Q2: it is CLAIMED, by the caller, so the item is there and nobody else's.
        let item = unsafe { node.take() };
        node.mark.store(TAKEN, Ordering::Relaxed);
        item
    }

    /// Moves the head past all that is taken, and puts aside what it passes. In the atomic phase,
    /// or alone.
    pub(super) fn pass_taken(&self) {
        loop {
            let head = self.head.load(Ordering::Relaxed);
            // SAFETY: Q4: nothing that was the head is freed in this phase.
            let next = unsafe { &*head }.next();
            // SAFETY: a node in the list, or null.
            let is_taken = unsafe { next.as_ref() }.is_some_and(Node::is_taken);
            if !is_taken {
                return;
            }
            let moved =
                self.head.compare_exchange(head, next, Ordering::Relaxed, Ordering::Relaxed);
            if moved.is_ok() {
                self.put_aside(head);
            }
        }
    }

    fn put_aside(&self, node: *mut Node<T>) {
        // SAFETY: it is freed in a later phase at the earliest.
        let node_ref = unsafe { &*node };
        let mut first = self.aside.load(Ordering::Relaxed);
        loop {
            node_ref.next_aside.store(first, Ordering::Relaxed);
            match self.aside.compare_exchange(first, node, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }

    /// Frees what was put aside. In the claim phase, or alone: then nobody is in the atomic phase
    /// any more, and nobody else can reach those nodes.
    pub(super) fn free_aside(&self) {
        if self.aside.load(Ordering::Relaxed).is_null() {
            return;
        }
        let mut node = self.aside.swap(ptr::null_mut(), Ordering::Relaxed);
        while !node.is_null() {
            // SAFETY: Q4: the swap has given it to us alone.
            let owned = unsafe { Box::from_raw(node) };
            node = owned.next_aside.load(Ordering::Relaxed);
        }
    }

    /// Adds a node that was made before at the end. In the atomic phase, or alone.
    pub(super) fn append(&self, node: *mut Node<T>) {
        loop {
            let tail = self.tail.load(Ordering::Relaxed);
            // SAFETY: Q5: the tail is in the list.
            let last = unsafe { &*tail };
            let next = last.next();
            if !next.is_null() {
                _ = self.tail.compare_exchange(tail, next, Ordering::Relaxed, Ordering::Relaxed);
                continue;
            }
            let null = ptr::null_mut();
            if last.next.compare_exchange(null, node, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            {
                _ = self.tail.compare_exchange(tail, node, Ordering::Relaxed, Ordering::Relaxed);
                return;
            }
        }
    }
}

impl<T> Drop for List<T> {
    fn drop(&mut self) {
        self.free_aside();
        let mut at = self.head.load(Ordering::Relaxed);
        while !at.is_null() {
            // SAFETY: nobody else has the list any more; each node is reached once.
            let node = unsafe { Box::from_raw(at) };
            if !node.is_taken() {
                // SAFETY: Q2: the item is there; nobody else has the node any more.
                drop(unsafe { node.take() });
            }
            at = node.next();
        }
    }
}
