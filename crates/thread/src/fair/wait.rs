//! Waiting in line: a thread's side of it.

use std::time::Duration;

use lockspan_park::{Deadline, Woken};

use super::bomb::Bomb;
use super::node::{self, Errand, Node};
use super::ord;
use super::policy::Policy;
use super::probe::{self, Event};
use super::raw::RawRwLock;
use super::word::{DEMAND, PENDING, QUEUED, READERS_NEXT, SCHEDULER, WRITER, has, is_free, lacks};
use crate::spin::Spin;
use crate::sync::{MODEL, Ordering};

impl<P: Policy> RawRwLock<P> {
    /// Gets in line and waits for the lock, or until `deadline`. When this returns, nobody knows
    /// of the node any more.
    pub(super) fn wait(&self, node: &Node, deadline: Option<Deadline>) -> bool {
        let bomb = Bomb::new("a lock's policy panicked in a thread that stands in line");
        let got = self.wait_in_line(node, deadline);
        bomb.defuse();
        got
    }

    fn wait_in_line(&self, node: &Node, deadline: Option<Deadline>) -> bool {
        self.get_in_line(core::ptr::from_ref(node).cast_mut());
        let mut spin = match P::PASSING || self.waiting.load(Ordering::Relaxed) > 1 {
            true => Spin::in_line(),
            false => Spin::before_a_turn(),
        };
        loop {
            match node.status() {
                node::GRANTED => return true,
                node::PROMOTED => {
                    self.serve();
                    return true;
                }
                node::REMOVED => return false,
                node::OFFICE => {
                    self.serve();
                    return false;
                }
                node::SUMMONED if P::PASSING => {
                    self.answer_summons(node);
                    spin = Spin::in_line();
                }
                node::SUMMONED => {
                    node.step(node::SUMMONED, node::SPINNING);
                    spin = Spin::before_a_turn();
                }
                node::SPINNING => {
                    if !spin.again() {
                        node.step(node::SPINNING, node::ASLEEP);
                    }
                }
                node::ASLEEP => {
                    if node.spot().sleep(node::ASLEEP, deadline) == Woken::TimedOut {
                        self.give_up(node);
                    }
                }
                // A scheduler takes the node out: its stack must not go before that.
                node::ABANDONED => drop(node.spot().sleep(node::ABANDONED, None)),
                status => unreachable!("a thread's node has status {status}"),
            }
        }
    }

    /// T7, T8: pushes the node, then says so in the word. From that step on the waiter counts.
    pub(super) fn get_in_line(&self, node: *mut Node) {
        // SAFETY: the node is the caller's; the field never changes.
        let kind = unsafe { (*node).kind };
        self.renew();
        self.push(node, Errand::Arrival);
        probe::note(|| Event::Pushed { node: node.addr(), kind });
        let mut word = self.state.load(Ordering::Relaxed);
        loop {
            let mut new = word | QUEUED | PENDING;
            if lacks(word, QUEUED) && has(word, WRITER) {
                new |= READERS_NEXT;
            }
            match self.state.compare_exchange_weak(word, new, ord::PUBLISH, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => word = now,
            }
        }
        probe::note(|| Event::Published { node: node.addr(), kind });
        // A writer will see Q when it leaves; a scheduler will see P before it does.
        if lacks(word, WRITER | SCHEDULER) {
            self.schedule();
        }
    }

    /// The waiter no longer wants the lock, unless it has just got it.
    fn give_up(&self, node: &Node) {
        if node.step(node::ASLEEP, node::ABANDONED) {
            self.get_out_of_line(core::ptr::from_ref(node).cast_mut(), DEMAND);
        }
    }

    /// Leaves word that an abandoned node has to go; `demand` is D if its owner waits for that.
    pub(super) fn get_out_of_line(&self, node: *mut Node, demand: usize) {
        self.push(node, Errand::Departure);
        self.call_scheduler(demand);
    }

    /// T8 without an arrival: something else for the scheduler to look at.
    fn call_scheduler(&self, demand: usize) {
        self.state.fetch_or(QUEUED | PENDING | demand, ord::PUBLISH);
        self.schedule();
    }

    fn push(&self, node: *mut Node, errand: Errand) {
        let entry = errand.tag(node);
        let mut head = self.inbox.load(Ordering::Relaxed);
        loop {
            // SAFETY: the node is its owner's until the exchange below succeeds.
            unsafe { Node::inbox_link(node, errand, |link| *link = head) };
            match self.inbox.compare_exchange_weak(head, entry, ord::PUSH, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// First in line, and awake while arrivals pass. If the lock is busy, that goes on until it is
    /// due: then the door closes, and the next release is ours. Meanwhile releases need not wake
    /// anybody, because we are here.
    fn answer_summons(&self, node: &Node) {
        if self.is_busy() {
            let left = self.nap().saturating_sub(P::now());
            if left > 0 && node.step(node::SUMMONED, node::ASLEEP) {
                let nap = Deadline::after(P::duration(left));
                node.spot().sleep(node::ASLEEP, nap.or_else(|| Deadline::after(Duration::ZERO)));
                node.step(node::ASLEEP, node::SPINNING);
            }
        }
        node.step(node::SUMMONED, node::SPINNING);
        node.insist();
        self.call_scheduler(DEMAND);
    }

    /// Until when the first in line lets others pass: a quarter of the turn, as one may wake up
    /// late.
    fn nap(&self) -> u64 {
        let turn = self.turn();
        self.due.load(Ordering::Relaxed).saturating_sub(turn / 4 * 3)
    }

    /// For how long arrivals may pass after a waiter's turn: the quantum, or less if the line is so
    /// long that its end would wait for longer than the bound.
    pub(super) fn turn(&self) -> u64 {
        let waiting = u64::from(self.waiting.load(Ordering::Relaxed).max(1));
        P::quantum().min(P::bound() / (2 * waiting))
    }

    /// Looks for about as long as a short section lasts: is anybody using the lock?
    fn is_busy(&self) -> bool {
        let glances = if MODEL { 1 } else { 64 };
        (0..glances).any(|_| {
            core::hint::spin_loop();
            !is_free(self.state.load(Ordering::Relaxed))
        })
    }
}
