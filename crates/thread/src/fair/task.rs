//! Waiting in line as a task: futures of any executor, in the same queue as threads.
//!
//! A future allocates its node when it has to wait, once. Dropping it at any point is safe and
//! never waits: a future that still waits leaves word that its node has to go, and one that was
//! just given the lock hands it on.
//!
//! In a child of a fork the lock has forgotten those who waited (`fork.rs`, F4). A future that got
//! in line in the parent is then the only owner of its node: it frees it, and if it is polled again
//! it gets in line again.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use lockspan_park::fork::generation;

use super::node::{self, Kind, Node};
use super::policy::Policy;
use super::raw::RawRwLock;

/// Resolves once the lock is held; the hold is the caller's from then on.
pub(super) struct Acquire<'a, P: Policy> {
    lock: &'a RawRwLock<P>,
    kind: Kind,
    progress: Progress,
}

enum Progress {
    New,
    /// The node, and the number of the process in which it got in line.
    InLine(*mut Node, u64),
    Over,
}

// SAFETY: the future is one of the node's two owners, and its part of the node (status, waker) is
// made for use from any thread, one at a time.
unsafe impl<P: Policy> Send for Acquire<'_, P> {}
// SAFETY: a shared future does nothing.
unsafe impl<P: Policy> Sync for Acquire<'_, P> {}

impl<'a, P: Policy> Acquire<'a, P> {
    pub(super) fn new(lock: &'a RawRwLock<P>, kind: Kind) -> Self {
        Self { lock, kind, progress: Progress::New }
    }

    fn start(&mut self, context: &Context<'_>) -> Poll<()> {
        if self.lock.try_acquire(self.kind) {
            self.progress = Progress::Over;
            return Poll::Ready(());
        }
        let node = Node::of_task(self.kind, self.lock.arrival_time(), context.waker().clone());
        self.progress = Progress::InLine(node, generation());
        self.lock.get_in_line(node);
        self.rest(node)
    }

    /// Ends a poll: the status is `UPDATING`, unless the scheduler has changed it.
    fn rest(&mut self, node: *mut Node) -> Poll<()> {
        // SAFETY: the future is still an owner of its node.
        let ours = unsafe { &*node };
        if ours.step(node::UPDATING, node::ASLEEP) {
            return Poll::Pending;
        }
        assert_eq!(ours.status(), node::GRANTED, "only a grant ends a poll otherwise");
        // SAFETY: granted while the status was `UPDATING`.
        unsafe { ours.drop_waker() };
        self.finish(node)
    }

    fn resume(&mut self, node: *mut Node, context: &Context<'_>) -> Poll<()> {
        loop {
            // SAFETY: the future is still an owner of its node.
            let ours = unsafe { &*node };
            match ours.status() {
                node::GRANTED => return self.finish(node),
                node::ASLEEP => {
                    if ours.step(node::ASLEEP, node::UPDATING) {
                        // SAFETY: this is the poller, and the status is `UPDATING`.
                        unsafe { ours.leave_waker(context.waker()) };
                        return self.rest(node);
                    }
                }
                status => unreachable!("a task's node has status {status}"),
            }
        }
    }

    fn finish(&mut self, node: *mut Node) -> Poll<()> {
        self.progress = Progress::Over;
        // SAFETY: the future's share, and its last use.
        unsafe { Node::let_go(node) };
        Poll::Ready(())
    }

    /// F4. Frees the node of a future that got in line in process `of`, if that is an ancestor and
    /// the lock was not granted there. False if the node is as good as ever.
    fn take_back(&mut self, node: *mut Node, of: u64) -> bool {
        // SAFETY: the future is still an owner of its node.
        if of == generation() || unsafe { &*node }.status() == node::GRANTED {
            return false;
        }
        self.progress = Progress::New;
        // SAFETY: made by `Box::into_raw` in `of_task`. The queue's share is lost: no thread of
        // this process has found the node, and none will, as the lock forgets it unseen (F1).
        drop(unsafe { Box::from_raw(node) });
        true
    }

    /// Out of the line, or on with the lock that was just granted.
    fn cancel(&mut self, node: *mut Node) {
        loop {
            // SAFETY: the future is still an owner of its node.
            let ours = unsafe { &*node };
            match ours.status() {
                node::GRANTED => {
                    match self.kind {
                        Kind::Read => self.lock.read_done(),
                        Kind::Write => self.lock.write_done(),
                        kind => unreachable!("no future waits for {kind:?}"),
                    }
                    break;
                }
                status => {
                    if ours.step(status, node::ABANDONED) {
                        self.lock.get_out_of_line(node, 0);
                        // SAFETY: the status is `ABANDONED`.
                        unsafe { ours.drop_waker() };
                        break;
                    }
                }
            }
        }
        // SAFETY: the future's share, and its last use.
        unsafe { Node::let_go(node) };
    }
}

impl<P: Policy> Future for Acquire<'_, P> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match self.progress {
            Progress::New => self.start(context),
            Progress::InLine(node, of) => match self.take_back(node, of) {
                true => self.start(context),
                false => self.resume(node, context),
            },
            Progress::Over => panic!("a future was polled after it had given the lock"),
        }
    }
}

impl<P: Policy> Drop for Acquire<'_, P> {
    fn drop(&mut self) {
        if let Progress::InLine(node, of) = self.progress
            && !self.take_back(node, of)
        {
            self.cancel(node);
        }
    }
}

impl<P: Policy> fmt::Debug for Acquire<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire").field("kind", &self.kind).finish_non_exhaustive()
    }
}
