//! What the child of a fork does with waiters that it does not have.
//!
//! A child has only the thread that forked. All other threads that stood in line, were about to, or
//! were the scheduler, are gone; the pointers that they left in the inbox and the lists lead to
//! stacks that the C library gives to new threads. So nothing that they left is ever followed or
//! waited for: the child forgets it.
//!
//! The *waiters' state* of a lock is Q and [`WAITING_ONLY`] in the word, the inbox, the lists,
//! `waiting`, `due` and `unasked`. Beside it stands `stamp`, which says which process it is of:
//!
//! ```text
//!  15                                                1   0
//! ┌─────────────────────────────────────────────────┬────┐
//! │ the process's number (`generation`), low 15 bits │ B  │
//! └─────────────────────────────────────────────────┴────┘
//! ```
//!
//! | stamp                         | means                                               |
//! |-------------------------------|-----------------------------------------------------|
//! | this process's number, B = 0  | all of the waiters' state was written by its threads |
//! | this process's number, B = 1  | one of its threads is clearing what is left          |
//! | any other number              | all of it was written by threads that are gone       |
//!
//! - **F1** Whoever is about to write to the waiters' state (push a node, set Q, S, P, D), or to
//!   wait for S to go, has called [`renew`](RawRwLock::renew) before. So within one process the
//!   stamp changes at most twice, to B = 1 and to B = 0, and then nothing of before is left.
//! - **F2** Holds are not the waiters' state. The word's W, U and READERS stay as they were: what
//!   the thread that forked holds, it still holds; what others held stays held forever. A
//!   scheduler that was interrupted between T11 and T12 leaves a hold of that kind.
//! - **F3** If the thread that forked holds the lock for writing, nobody else holds it (I1), and
//!   none can have been let in (T11 needs room). So after its release the lock is free, and as
//!   good as new.
//! - **F4** A thread cannot be in line or the scheduler while it forks, so none of the forgotten
//!   nodes is its own. (A signal handler that interrupts a call of this lock must not fork, unless
//!   the child goes on to `exec` or `_exit`.) A task can: its future notes the number of the
//!   process in which it got in line, and in another process takes its node back without asking
//!   the lock.
//!
//! Clearing races only with threads of the same process that have not called `renew` yet. These
//! change W, U and READERS alone, each by a read-modify-write, as clearing the bits is one. They
//! may see Q or S of before, and then either call `renew` themselves or leave the waiters' state
//! alone: a release that sees the S of a scheduler that is gone does not schedule, and the next
//! arrival clears that S before it gets in line.
//!
//! Uncontended calls neither read nor write the stamp. Only if a lock was last waited for in an
//! ancestor exactly 2^15 forks away, and nobody in between has waited for it or cleared it, is what
//! is left taken for the child's own.

use core::ptr;

use lockspan_park::fork::generation;

use super::lists::Lists;
use super::ord;
use super::policy::Policy;
use super::raw::RawRwLock;
use super::word::{QUEUED, WAITING_ONLY};
use crate::spin::Patience;
use crate::sync::Ordering;

/// B: the waiters' state is being cleared.
const BUSY: u16 = 1;

/// The stamp of this process: 0, which a new lock has, in the first one that asks.
#[inline]
fn this_process() -> u16 {
    (generation().wrapping_sub(1) as u16) << 1
}

impl<P: Policy> RawRwLock<P> {
    /// F1: after this, the waiters' state is of this process. True if it was not before.
    #[inline]
    pub(super) fn renew(&self) -> bool {
        #[cfg(lockspan_loom)]
        if !self.forked {
            return false;
        }
        let ours = this_process();
        let is_old = self.stamp.load(ord::RENEWED) != ours;
        if is_old {
            self.forget_the_gone(ours);
        }
        is_old
    }

    #[cold]
    fn forget_the_gone(&self, ours: u16) {
        let mut patience = Patience::new();
        loop {
            let seen = self.stamp.load(ord::RENEWED);
            if seen == ours {
                return;
            }
            let taken = seen != ours | BUSY
                && self
                    .stamp
                    .compare_exchange(seen, ours | BUSY, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok();
            if taken {
                break;
            }
            patience.wait();
        }
        // Only this thread is here now. Nothing that the pointers lead to is touched.
        self.inbox.store(ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: the old ones are of threads that are gone, and others wait for the stamp (F1).
        self.lists.with_mut(|lists| unsafe { lists.write(Lists::new()) });
        self.waiting.store(0, Ordering::Relaxed);
        self.due.store(0, Ordering::Relaxed);
        self.unasked.store(0, Ordering::Relaxed);
        self.state.fetch_and(!(QUEUED | WAITING_ONLY), Ordering::Relaxed);
        self.stamp.store(ours, ord::RENEW);
    }
}
