//! One waiter: what it wants, where it stands, and how it is woken.
//!
//! A thread's node lives on that thread's stack; a task's node is on the heap and has two owners,
//! the future and the queue. Nobody but the scheduler reaches a node that has been pushed, except
//! for its status word.
//!
//! | status      | meaning                                             | left for              |
//! |-------------|-----------------------------------------------------|-----------------------|
//! | `SPINNING`  | awake and looking                                   | GRANTED, ASLEEP       |
//! | `ASLEEP`    | sleeps; a task's waker is in its place              | all that a waiter can be |
//! | `SUMMONED`  | a thread that was woken before its turn             | GRANTED, ASLEEP, …    |
//! | `UPDATING`  | a task that is being polled                         | GRANTED, ASLEEP       |
//! | `ABANDONED` | has given up; the scheduler will take the node out  | REMOVED, OFFICE       |
//! | `GRANTED`   | holds the lock; the scheduler touches it no more    | –                     |
//! | `REMOVED`   | out of the line, without the lock                   | –                     |
//! | `OFFICE`    | out of the line, and the scheduler now              | –                     |
//! | `PROMOTED`  | holds the lock, and the scheduler now (threads only)| –                     |
//!
//! The scheduler writes `SUMMONED` and the last four; the owner writes the others.

use core::fmt;
use core::ptr;
use std::task::Waker;

use lockspan_park::{Alarm, Spot};

use super::ord;
use crate::sync::{AtomicBool, AtomicU32, Ordering, UnsafeCell};

pub(super) const SPINNING: u32 = 0;
pub(super) const ASLEEP: u32 = 1;
pub(super) const SUMMONED: u32 = 2;
pub(super) const UPDATING: u32 = 3;
pub(super) const ABANDONED: u32 = 4;
pub(super) const GRANTED: u32 = 5;
pub(super) const REMOVED: u32 = 6;
pub(super) const OFFICE: u32 = 7;
pub(super) const PROMOTED: u32 = 8;

/// What a waiter wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
    Upgradable,
    /// The holder of the upgradable read waits for the other readers to leave.
    Upgrade,
}

/// What came out of an attempt to give a node something.
#[derive(Debug)]
pub(super) enum Delivered {
    /// It has it and is awake.
    Yes,
    /// A thread has it once the alarm is rung.
    Ring(Alarm),
    /// A task has it once its waker is woken. The queue's share of the node goes with this.
    Task(*mut Node),
    /// Its owner gave up first, or cannot take it now.
    No,
}

/// The scheduler's part of a node.
#[derive(Debug)]
pub(super) struct Links {
    pub(super) next: *mut Node,
    pub(super) prev: *mut Node,
    /// In one of the lists.
    pub(super) listed: bool,
    /// The word's A stands for this node.
    pub(super) summoned: bool,
}

pub(super) struct Node {
    spot: Spot,
    pub(super) kind: Kind,
    /// When the wait began, by the policy's clock.
    pub(super) since: u64,
    /// A summoned waiter that saw its time come: the door closes until it is served.
    insists: AtomicBool,
    arrival: UnsafeCell<*mut Self>,
    departure: UnsafeCell<*mut Self>,
    links: UnsafeCell<Links>,
    task: Option<TaskPart>,
}

/// What only a task's node has.
struct TaskPart {
    waker: UnsafeCell<Option<Waker>>,
    owners: AtomicU32,
}

impl Node {
    /// The node of the calling thread.
    pub(super) fn of_thread(kind: Kind, since: u64) -> Self {
        Self::new(SPINNING, kind, since, None)
    }

    /// A task's node, on the heap; it starts as `UPDATING`, since the task is being polled.
    pub(super) fn of_task(kind: Kind, since: u64, waker: Waker) -> *mut Self {
        let task = TaskPart {
            waker: UnsafeCell::new(Some(waker)),
            // The future and the queue.
            owners: AtomicU32::new(2),
        };
        Box::into_raw(Box::new(Self::new(UPDATING, kind, since, Some(task))))
    }

    fn new(status: u32, kind: Kind, since: u64, task: Option<TaskPart>) -> Self {
        let links =
            Links { next: ptr::null_mut(), prev: ptr::null_mut(), listed: false, summoned: false };
        Self {
            spot: Spot::new(status),
            kind,
            since,
            insists: AtomicBool::new(false),
            arrival: UnsafeCell::new(ptr::null_mut()),
            departure: UnsafeCell::new(ptr::null_mut()),
            links: UnsafeCell::new(links),
            task,
        }
    }

    pub(super) fn spot(&self) -> &Spot {
        &self.spot
    }

    pub(super) fn status(&self) -> u32 {
        self.spot.word().load(ord::RECEIVE)
    }

    pub(super) fn is_task(&self) -> bool {
        self.task.is_some()
    }

    /// The owner's own step from one status to another; false if the scheduler was faster.
    pub(super) fn step(&self, from: u32, to: u32) -> bool {
        self.spot.word().compare_exchange(from, to, ord::REST, Ordering::Relaxed).is_ok()
    }

    pub(super) fn insist(&self) {
        // Published by the P that follows.
        self.insists.store(true, Ordering::Relaxed);
    }

    pub(super) fn insists(&self) -> bool {
        self.insists.load(Ordering::Relaxed)
    }

    /// T12. Gives `status` to the waiter if it is in a state to take it. `self` is not touched
    /// after that if it is a thread's: the thread may be gone.
    ///
    /// # Safety
    /// The caller is the scheduler, `this` is alive, and has been taken off the lists if `status`
    /// is `GRANTED`.
    pub(super) unsafe fn deliver(this: *mut Self, status: u32) -> Delivered {
        // SAFETY: alive by contract, and at least until its status changes below.
        let node = unsafe { &*this };
        let alarm = if node.is_task() { None } else { Some(node.spot.alarm()) };
        let word = node.spot.word();
        let mut old = word.load(Ordering::Relaxed);
        loop {
            let ready = match status {
                GRANTED | PROMOTED => matches!(old, SPINNING | ASLEEP | SUMMONED | UPDATING),
                _ => old == ASLEEP && !node.is_task(),
            };
            if !ready {
                return Delivered::No;
            }
            match word.compare_exchange(old, status, ord::DELIVER, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => old = now,
            }
        }
        match (alarm, old) {
            (Some(alarm), ASLEEP) => Delivered::Ring(alarm),
            (None, ASLEEP) => Delivered::Task(this),
            (None, _) => {
                // SAFETY: the queue's share, and its last use: the poller sees the new status.
                unsafe { Self::let_go(this) };
                Delivered::Yes
            }
            (Some(_), _) => Delivered::Yes,
        }
    }

    /// T15. Tells the owner of a thread's node that the node is out of the line: `REMOVED`, or
    /// `OFFICE` if the thread is the scheduler from here on.
    ///
    /// # Safety
    /// The caller is the scheduler; the node is a thread's, abandoned, and off the lists.
    pub(super) unsafe fn remove(this: *mut Self, status: u32) -> Delivered {
        // SAFETY: alive by contract until its status changes below.
        let node = unsafe { &*this };
        let alarm = node.spot.alarm();
        node.spot.word().store(status, ord::REMOVE);
        Delivered::Ring(alarm)
    }

    /// The waker that the task left.
    ///
    /// # Safety
    /// `this` is alive; the caller has moved its status from `ASLEEP`, so that it alone may take
    /// the waker, and does so once.
    pub(super) unsafe fn take_waker(this: *mut Self) -> Waker {
        // SAFETY: alive by contract.
        let task = unsafe { &*this }.task.as_ref().expect("only tasks leave wakers");
        // SAFETY: exclusive by contract; the poller comes back only after a new status.
        let waker = task.waker.with_mut(|waker| unsafe { (*waker).take() });
        waker.expect("a task that sleeps has left its waker")
    }

    /// Leaves `waker` in its place, if another one is there.
    ///
    /// # Safety
    /// The caller is the task's poller and the status is `UPDATING`.
    pub(super) unsafe fn leave_waker(&self, waker: &Waker) {
        let task = self.task.as_ref().expect("only tasks leave wakers");
        task.waker.with_mut(|place| {
            // SAFETY: while the status is `UPDATING` nobody else touches the waker.
            let place = unsafe { &mut *place };
            if !place.as_ref().is_some_and(|old| old.will_wake(waker)) {
                *place = Some(waker.clone());
            }
        });
    }

    /// Drops the waker that nobody needs any more, on the task's side: its drop is somebody else's
    /// code and must not run in the scheduler's office.
    ///
    /// # Safety
    /// The caller is the task, and the scheduler cannot take the waker: the status went from
    /// `UPDATING` to `GRANTED`, or is `ABANDONED`.
    pub(super) unsafe fn drop_waker(&self) {
        let task = self.task.as_ref().expect("only tasks leave wakers");
        // SAFETY: exclusive by contract.
        drop(task.waker.with_mut(|waker| unsafe { (*waker).take() }));
    }

    /// T16. One of a task node's two owners lets go; the last one frees it.
    ///
    /// # Safety
    /// The caller is such an owner and does not touch the node again.
    pub(super) unsafe fn let_go(this: *mut Self) {
        // SAFETY: alive, as the caller has not let go before.
        let node = unsafe { &*this };
        let task = node.task.as_ref().expect("a thread's node has no owners to count");
        if task.owners.fetch_sub(1, ord::LET_GO) == 1 {
            // SAFETY: made by `Box::into_raw` in `of_task`; the other owner has let go.
            drop(unsafe { Box::from_raw(this) });
        }
    }

    /// The scheduler's part.
    ///
    /// # Safety
    /// The caller is the scheduler and `this` is alive; `f` does not come back to this node.
    pub(super) unsafe fn links<R>(this: *mut Self, f: impl FnOnce(&mut Links) -> R) -> R {
        // SAFETY: alive by contract.
        let node = unsafe { &*this };
        // SAFETY: the scheduler alone uses links.
        node.links.with_mut(|links| f(unsafe { &mut *links }))
    }

    /// The node's link in the inbox, for the errand that it stands there for.
    ///
    /// # Safety
    /// `this` is alive, and the caller is about to push that errand or has drained it.
    pub(super) unsafe fn inbox_link<R>(
        this: *mut Self,
        errand: Errand,
        f: impl FnOnce(&mut *mut Self) -> R,
    ) -> R {
        // SAFETY: alive by contract.
        let node = unsafe { &*this };
        let link = match errand {
            Errand::Arrival => &node.arrival,
            Errand::Departure => &node.departure,
        };
        // SAFETY: exclusive by contract: before the push it is the pusher's, then the drainer's.
        link.with_mut(|link| f(unsafe { &mut *link }))
    }
}

/// A model sees the end of a node as a write to all of it: whoever touches it later is found.
#[cfg(lockspan_loom)]
impl Drop for Node {
    fn drop(&mut self) {
        self.arrival.with_mut(|_| ());
        self.departure.with_mut(|_| ());
        self.links.with_mut(|_| ());
        if let Some(task) = &self.task {
            task.waker.with_mut(|_| ());
        }
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("kind", &self.kind).field("since", &self.since).finish()
    }
}

/// Why a node stands in the inbox. A node can stand there for both reasons at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Errand {
    Arrival,
    Departure,
}

const DEPARTURE_TAG: usize = 1;

impl Errand {
    /// The inbox keeps node and errand in one pointer, since a node is aligned.
    pub(super) fn tag(self, node: *mut Node) -> *mut Node {
        const { assert!(align_of::<Node>() > DEPARTURE_TAG) };
        match self {
            Self::Arrival => node,
            Self::Departure => node.map_addr(|addr| addr | DEPARTURE_TAG),
        }
    }

    pub(super) fn untag(entry: *mut Node) -> (*mut Node, Self) {
        let node = entry.map_addr(|addr| addr & !DEPARTURE_TAG);
        (node, if node == entry { Self::Arrival } else { Self::Departure })
    }
}
