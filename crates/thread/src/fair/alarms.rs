//! Waiters to wake, kept until the scheduler is out of office: waking a thread takes a system call,
//! and waking a task runs somebody else's code.

use core::ptr;
use std::panic::{AssertUnwindSafe, catch_unwind};

use lockspan_park::Alarm;

use super::node::{Delivered, Node};

/// Threads by their alarms, tasks by their nodes, of which the queue's share is ours now.
pub(super) struct Alarms {
    threads: [Option<Alarm>; Self::ROOM],
    count: usize,
    tasks: *mut Node,
}

impl Alarms {
    const ROOM: usize = 16;

    pub(super) fn new() -> Self {
        Self { threads: [const { None }; Self::ROOM], count: 0, tasks: ptr::null_mut() }
    }

    /// Keeps what has to be rung. Thread alarms are rung early if there is no more room.
    pub(super) fn add(&mut self, delivered: Delivered) {
        match delivered {
            Delivered::Yes | Delivered::No => {}
            Delivered::Ring(alarm) => {
                if self.count == Self::ROOM {
                    self.ring_threads();
                }
                self.threads[self.count] = Some(alarm);
                self.count += 1;
            }
            Delivered::Task(node) => {
                // SAFETY: a granted node is off the lists, and the queue's share keeps it alive.
                unsafe { Node::links(node, |links| links.next = self.tasks) };
                self.tasks = node;
            }
        }
    }

    fn ring_threads(&mut self) {
        for alarm in self.threads[..core::mem::take(&mut self.count)].iter_mut() {
            alarm.take().expect("filled up to the count").ring();
        }
    }

    /// Rings all. A waker's panic ends here, after the panic hook has told of it: it must neither
    /// keep the others asleep nor unwind through a thread that stands in line.
    pub(super) fn ring(mut self) {
        self.ring_threads();
        let mut next = self.tasks;
        while !next.is_null() {
            let node = next;
            // SAFETY: the queue's share keeps it alive.
            next = unsafe { Node::links(node, |links| links.next) };
            // SAFETY: granted while it slept, and its waker has not been taken.
            let waker = unsafe { Node::take_waker(node) };
            // SAFETY: the queue's share, and its last use.
            unsafe { Node::let_go(node) };
            drop(catch_unwind(AssertUnwindSafe(|| waker.wake())));
        }
    }
}
