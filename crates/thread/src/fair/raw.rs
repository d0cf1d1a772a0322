//! The fair lock without its data: how it works, and the transitions by threads that acquire and
//! release. `mod.rs` has the public documentation.
//!
//! # How it works
//!
//! One word decides everything; its picture is in `word.rs`. A thread that cannot have the lock
//! pushes a node, which lies on its own stack (a task's node is on the heap), into an inbox, sets Q
//! and P in the word, and sleeps. Every thread that acquires or releases the lock while Q is set
//! tries to become the *scheduler* by setting S. The scheduler works for all: it moves the nodes
//! from the inbox into two lists, grants the lock to the waiters whose turn it is, and clears S.
//! No thread waits for S: every event changes the word before its thread looks at S, so the
//! compare-and-swap that clears S fails if there was an event, and the scheduler looks again.
//!
//! | W | U | readers | name       | who may touch the data                |
//! |:-:|:-:|:-------:|------------|---------------------------------------|
//! | 0 | 0 |    0    | Free       | nobody                                |
//! | 0 | 0 |    n    | Shared     | n readers read                        |
//! | 0 | 1 |    n    | Upgradable | n readers read; one of them may upgrade |
//! | 1 | 0 |    0    | Written    | the writer                            |
//!
//! Q, S, P, D, H, A and T concern the waiters only. They are clear when nobody waits.
//!
//! ## Invariants
//!
//! - **I1** `W ⇒ readers = 0 ∧ ¬U`; `U ⇒ readers ≥ 1`. At rest the word is 0.
//! - **I2** A node in the inbox or in a list is alive: its owner leaves only after the status says
//!   `GRANTED`, `PROMOTED`, `REMOVED` or `OFFICE` (a thread), or gives up its share of the node (a
//!   task). No panic unwinds through a thread in line.
//! - **I3** Only the thread that set S, or was handed it, touches the lists and a node's links.
//! - **I4** Whoever makes an event changes the word first and looks at S second. S leaves the word
//!   only by an exchange that compares all of it, so no event is overlooked.
//! - **I5** If Q is set and S is not, then the lock is held and a release will schedule, or A is
//!   set and the summoned waiter will call, or somebody between two steps of its own will.
//! - **I6** While arrivals may pass, `due` is at most the oldest waiter's beginning plus the bound.
//!
//! ## Transitions
//!
//! | id  | from → to                        | by                   | ordering        | pairs with |
//! |-----|----------------------------------|----------------------|-----------------|------------|
//! | T1  | ¬W → readers + 1                 | `read`               | Acquire         | T4, T6     |
//! | T2  | Free → W                         | `write`              | Acquire         | T3, T4     |
//! | T3  | readers − 1                      | `read_done`          | Release         | T2,5,11    |
//! | T4  | W → Free                         | `write_done`         | Release         | T1,2,11    |
//! | T5  | U, readers = 1 → W               | `upgrade`            | Acquire         | T3         |
//! | T6  | W → readers = 1                  | `downgrade`          | Release         | T1, T11    |
//! | T7  | node → inbox → lists             | `push`, `drain`      | Release/Acquire | each other |
//! | T8  | Q, P (an errand is in the inbox) | `get_in_line`, …     | Release         | T9         |
//! | T9  | ¬P                               | `serve`              | Acquire         | T8         |
//! | T10 | S                                | `schedule`           | Acquire         | T13        |
//! | T11 | the waiter's hold                | `grant`              | Acquire         | T3, T4     |
//! | T12 | status → `GRANTED`, …            | `deliver`, `status`  | AcqRel/Acquire  | T12, T14   |
//! | T13 | ¬S                               | `leave_office`       | Release         | T10        |
//! | T14 | status → `ASLEEP`                | `step`               | Release         | T12        |
//! | T15 | status → `REMOVED`, `OFFICE`     | `remove`, `status`   | Release/Acquire | each other |
//! | T16 | owners − 1                       | `let_go`             | AcqRel          | each other |
//!
//! Every event is a read-modify-write on one word, so *the releaser saw Q* or *the arrival saw the
//! lock free* is decided by that word's order alone: there is no pair of store and load that
//! needs `SeqCst`. The orderings stand in `ord.rs`, each with its reason.
//!
//! ## A race that a reviewer would ask about
//!
//! A writer leaves while a reader gets in line.
//! 1. The reader pushes its node. 2. The writer clears W; Q is not set, so it goes. 3. The reader
//!    sets Q and P, and the exchange shows it a word without W: it schedules itself.
//!    Or 2 and 3 the other way round: the writer sees Q and schedules for the reader.
//!
//! # Whose turn it is
//!
//! Readers and writers alternate (*phase-fair*): T says that the present or last turn was a
//! writer's, so that the readers that wait come next, together. Writers go in the order in which
//! they entered the inbox. An upgradable read stands with the writers; an upgrade goes before all.
//!
//! **`Strict`**, counted from T8: at most one writer's turn begins before a reader that waits
//! (besides the one that runs); once a writer waits no reader joins the running read phase; between
//! two writers' turns at most one read phase runs, of readers that waited; writers go in order. A
//! writer that downgrades, and an upgradable reader, begin such a phase themselves: the readers
//! that wait, or come before it ends, are let in beside it once. The next in line is woken a turn
//! ahead.
//!
//! **`Bounded`**: an arrival may pass those who wait until the lock is *due*: `QUANTUM_MICROS`
//! after the last waiter's turn (less if the line is long), and never later than the bound after
//! the oldest waiter began to wait. From then on the door is closed (H) until a waiter had its
//! turn. Arrivals ask the clock at every `Policy::ASKING`th pass, so `ASKING - 1` may pass after
//! that moment, and as many again for each arrival that races with another just then; with
//! `ASKING = 1` none does. Before it is due, the first in line is *summoned* (A): it wakes, naps
//! while the lock is busy, and then closes the door itself, so that it is on a processor when the
//! lock comes to it. Readers come in by as many as there are processors while a writer waits, and
//! all together once one of them has waited for the bound, or always with `Together`. What
//! remains beyond the bound is the holders' time and the operating system's.
//!
//! A scheduler that the operating system stops in the middle delays those who wait by as long as
//! it stands still; the fast path stays open to others where the policy lets them pass. Its work is
//! bounded: after `Policy::LOOKS` looks into the inbox it leaves the rest to a writer's release,
//! or hands its office to a thread that it lets in or that leaves the line. Only a stream of tasks,
//! to whom an office cannot be handed, could keep it longer.
//!
//! # Source, and what differs
//!
//! The idea of waiting threads that sleep and schedule each other is that of an old library for C
//! whose design note gives pseudo-code; `docs/failures.md` lists what goes wrong in it, and the
//! tests that show that it does not happen here. Five things differ on purpose. The measurements
//! are those of `benches/results/threads`, `benches/results/gathered` and
//! `docs/decisions/0001-turns-not-barging.md`, on two processors.
//!
//! 1. *The note calls its lock lock-free.* This one is not: the bit S is a lock on the line. If its
//!    owner stops (it has no processor, or a debugger holds it), threads in line are not served
//!    until it goes on; arrivals still come in where the policy lets them pass. Releases of the C
//!    functions wait for the owner of S, because the next owner of the lock may free it. *Why:*
//!    lists that several threads change at once, whose nodes are on the waiters' stacks, could
//!    only be had with memory reclamation. Instead the owner's work is bounded
//!    (`Policy::LOOKS`), and a thread that finds S set leaves its work to the owner and goes.
//! 2. *In the note a leaving writer wakes all readers that gathered.* `Bounded` lets in as many
//!    as there are processors while a writer waits, the others at the next read turn, and all once
//!    one of them has waited for the bound. *Why:* a reader that has the lock but no processor
//!    keeps the writers out. With 32 threads and reads of 1 ms, a writer's p99 is 13 ms with
//!    `Bounded` and 31 ms with `Together`, which lets in all, and has 1.3 times the throughput
//!    then. For short sections no difference was seen. `Strict` lets in all too.
//! 3. *In the note a thread sleeps until the lock is its own.* Here the first in line wakes a
//!    little before its turn. *Why:* else the lock is idle while a thread wakes up. A lock that
//!    hands over to sleeping threads was 50 to 200 times slower than one that lets running threads
//!    pass; with 8 threads and 10 % writes, `Bounded` has 1.57 times the throughput of
//!    `parking_lot`, and `Strict`, which wakes the next waiter a turn ahead, 0.006 times.
//! 4. *In the note a thread that locks and one that unlocks for writing may schedule at the same
//!    time.* Here one thread schedules at a time. *Why:* the two of the note meet between each
//!    other's steps, and a reader comes in beside a writer (the models `fair_s4_…`). The bit S is
//!    in the word that every release changes anyway, so it costs nothing without contention: a
//!    write takes 4.8 ns, `std`'s 5.2 ns.
//! 5. *The note has two queues and two lists, through which every thread goes.* Here there are an
//!    inbox and two lists for threads that must wait, and the readers inside are a count in the
//!    word. *Why:* a thread that finds the lock free is in after one atomic instruction; a read
//!    takes 5.7 ns with its release.

use core::fmt;
use core::marker::PhantomData;
use core::ptr;
use std::time::Duration;

use lockspan_park::Deadline;

use super::lists::Lists;
use super::node::{Kind, Node};
use super::policy::{Bounded, Policy};
use super::probe::{self, Event};
use super::word::{
    CROWDED, HANDOVER, QUEUED, READER, READERS, READERS_NEXT, SCHEDULER, UPGRADABLE, WRITER, has,
    is_free, lacks, readers,
};
use super::{ord, word};
use crate::spin::{Naps, Patience, Spin};
use crate::sync::{AtomicPtr, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, UnsafeCell};

/// The fair read-write lock without data, for [`lock_api`]. Use [`RwLock`](super::RwLock).
///
/// 48 bytes on 64-bit targets, all of them zero when unlocked.
#[repr(C)]
pub struct RawRwLock<P: Policy = Bounded> {
    pub(super) state: AtomicUsize,
    pub(super) inbox: AtomicPtr<Node>,
    /// Until when an arrival may pass the waiters. Written by the scheduler; a hint to others.
    pub(super) due: AtomicU64,
    /// How many arrivals may pass before one has to ask the clock again. A hint.
    pub(super) unasked: AtomicU16,
    /// Which process the waiters' state is of; see `fork.rs`.
    pub(super) stamp: AtomicU16,
    /// How many are in the lists. Written by the scheduler; a hint to others.
    pub(super) waiting: AtomicU32,
    /// Owned by whoever set S.
    pub(super) lists: UnsafeCell<Lists>,
    policy: PhantomData<fn() -> P>,
    /// Whether a model of a fork has this lock. In the others `stamp` never changes, and is not
    /// looked at: each look would multiply the interleavings.
    #[cfg(lockspan_loom)]
    pub(super) forked: bool,
}

// SAFETY: the lists, the only part that is not an atomic, belong to the thread that set S (I3).
unsafe impl<P: Policy> Sync for RawRwLock<P> {}
// SAFETY: nodes in the lists belong to waiters that borrow the lock; a lock that can be moved to
// another thread has none, but for those of forgotten futures, which stay on the heap.
unsafe impl<P: Policy> Send for RawRwLock<P> {}

#[cfg(all(target_pointer_width = "64", not(any(lockspan_loom, lockspan_shuttle))))]
const _: () = assert!(size_of::<RawRwLock>() == 48);

impl<P: Policy> RawRwLock<P> {
    /// An unlocked lock.
    #[cfg(not(lockspan_loom))]
    #[must_use]
    pub const fn new() -> Self {
        Self {
            state: AtomicUsize::new(0),
            inbox: AtomicPtr::new(ptr::null_mut()),
            due: AtomicU64::new(0),
            unasked: AtomicU16::new(0),
            stamp: AtomicU16::new(0),
            waiting: AtomicU32::new(0),
            lists: UnsafeCell::new(Lists::new()),
            policy: PhantomData,
        }
    }

    /// An unlocked lock; loom's atomics cannot be made at compile time.
    #[cfg(lockspan_loom)]
    pub fn new() -> Self {
        Self {
            state: AtomicUsize::new(0),
            inbox: AtomicPtr::new(ptr::null_mut()),
            due: AtomicU64::new(0),
            unasked: AtomicU16::new(0),
            stamp: AtomicU16::new(0),
            waiting: AtomicU32::new(0),
            lists: UnsafeCell::new(Lists::new()),
            policy: PhantomData,
            forked: false,
        }
    }

    /// Whether somebody is in line, or is about to be.
    #[cfg(not(lockspan_loom))]
    pub(crate) fn is_waited_for(&self) -> bool {
        has(self.state.load(Ordering::Relaxed), QUEUED)
    }

    /// T1. Waits for a read hold.
    #[inline]
    pub(super) fn read(&self) {
        let word = self.state.load(Ordering::Relaxed);
        let open = lacks(word, WRITER | QUEUED | CROWDED);
        let entered = open && self.enter(Kind::Read, word, word + READER);
        if !entered && !self.pass(Kind::Read, word) {
            self.acquire(Kind::Read, None);
        }
    }

    /// T2. Waits for the write hold.
    #[inline]
    pub(super) fn write(&self) {
        let word = self.state.load(Ordering::Relaxed);
        let entered = word == 0 && self.enter(Kind::Write, 0, WRITER);
        if !entered && !self.pass(Kind::Write, word) {
            self.acquire(Kind::Write, None);
        }
    }

    /// One attempt past those who wait, if that is allowed.
    fn pass(&self, kind: Kind, word: usize) -> bool {
        let held = admit(kind, word).filter(|_| self.may_pass(word));
        held.is_some_and(|held| self.enter(kind, word, held))
    }

    #[inline]
    fn enter(&self, kind: Kind, word: usize, held: usize) -> bool {
        let entered = self.replace(word, held, entry(kind));
        if entered {
            probe::note(|| Event::Entered { kind, with_waiters: has(word, QUEUED) });
        }
        entered
    }

    /// T1 or T2 without waiting.
    #[inline]
    pub(super) fn try_acquire(&self, kind: Kind) -> bool {
        self.try_enter(kind, |word| self.may_pass(word)) || self.try_after_fork(kind)
    }

    /// After a refusal: if that was because of waiters that are gone since a fork, they are
    /// forgotten, and this is another attempt.
    #[cold]
    fn try_after_fork(&self, kind: Kind) -> bool {
        has(self.state.load(Ordering::Relaxed), QUEUED)
            && self.renew()
            && self.try_enter(kind, |word| self.may_pass(word))
    }

    /// T1. Takes a read hold whenever no writer has the lock, past all who wait.
    pub(super) fn try_read_recursive(&self) -> bool {
        self.try_enter(Kind::Read, |_| true)
    }

    /// T5. The upgradable reader becomes the writer, if it is alone.
    pub(super) fn try_upgrade(&self) -> bool {
        self.try_enter(Kind::Upgrade, |_| true)
    }

    #[inline]
    fn try_enter(&self, kind: Kind, may: impl Fn(usize) -> bool) -> bool {
        let mut word = self.state.load(Ordering::Relaxed);
        while let Some(held) = admit(kind, word).filter(|_| may(word)) {
            match self.state.compare_exchange_weak(word, held, entry(kind), Ordering::Relaxed) {
                Ok(_) => {
                    probe::note(|| Event::Entered { kind, with_waiters: has(word, QUEUED) });
                    return true;
                }
                Err(now) => word = now,
            }
        }
        false
    }

    /// T3. Ends a read hold.
    #[inline]
    pub(super) fn read_done(&self) {
        let word = self.state.fetch_sub(READER, ord::READ_DONE) - READER;
        probe::note(|| Event::Left { kind: Kind::Read });
        if owes_schedule(word) {
            self.released();
        }
    }

    /// T4. Ends the write hold.
    #[inline]
    pub(super) fn write_done(&self) {
        let word = self.state.fetch_sub(WRITER, ord::WRITE_DONE) - WRITER;
        probe::note(|| Event::Left { kind: Kind::Write });
        if owes_schedule(word) {
            self.released();
        }
    }

    /// T3 for the upgradable read hold.
    pub(super) fn upgradable_done(&self) {
        let word = self.state.fetch_sub(READER + UPGRADABLE, ord::READ_DONE);
        if has(word, QUEUED) {
            // Another upgradable read may go, whatever the other readers do.
            self.schedule();
        }
    }

    /// T3 or T4, and the next waiter has the lock before anybody can pass.
    pub(super) fn done_fairly(&self, kind: Kind) {
        let word = self.exit(kind, |word| if has(word, QUEUED) { HANDOVER } else { 0 });
        if has(word, QUEUED) {
            self.schedule();
        }
    }

    /// T1 or T2 from the free word, without looking at it first.
    #[inline(always)]
    pub(super) fn try_enter_free(&self, kind: Kind) -> bool {
        let entered = self.state.compare_exchange(0, hold(kind), entry(kind), Ordering::Relaxed);
        if entered.is_ok() {
            probe::note(|| Event::Entered { kind, with_waiters: false });
        }
        entered.is_ok()
    }

    /// T3 or T4, if the lock is held in this way and nobody waits or is the scheduler: then nobody
    /// is owed anything, and this is the last that the caller does with the lock (S13).
    ///
    /// # Safety
    /// `this` is alive; if it is held in this way, the caller gives up a hold of that kind.
    #[inline(always)]
    pub(super) unsafe fn try_leave(this: *const Self, kind: Kind) -> bool {
        // SAFETY: alive until the exchange below.
        let state = unsafe { &(*this).state };
        let word = state.load(Ordering::Relaxed);
        let plain = match kind {
            Kind::Write => word == WRITER,
            _ => word & READERS == word && word >= READER,
        };
        if !plain {
            return false;
        }
        let left = word - hold(kind);
        let done = state.compare_exchange(word, left, ord::EXIT, Ordering::Relaxed).is_ok();
        if done {
            probe::note(|| Event::Left { kind });
        }
        done
    }

    /// T3 or T4 for callers whose lock may be freed by the next owner (S13). Whoever is the
    /// scheduler now is waited for before the hold ends; and if there is work to do afterwards,
    /// this thread has S from that same step on, so that the next owner waits for it in turn.
    ///
    /// # Safety
    /// `this` is alive and the caller has a hold of that kind, which it gives up.
    pub(super) unsafe fn leave(this: *const Self, kind: Kind) {
        // SAFETY: alive until the exit below, and beyond it if this thread has S.
        let lock = unsafe { &*this };
        lock.settle();
        let left = lock.exit(kind, |word| if owes_schedule(word) { SCHEDULER } else { 0 });
        if has(left, SCHEDULER) {
            lock.serve();
        }
    }

    /// Waits until nobody is the scheduler. One that is not in this process is not waited for, and
    /// if waiters are left, they are of this process.
    fn settle(&self) {
        if has(self.state.load(Ordering::Relaxed), QUEUED | SCHEDULER) {
            self.renew();
        }
        let mut patience = Patience::new();
        while has(self.state.load(ord::READ), SCHEDULER) {
            patience.wait();
        }
    }

    /// Gives up a hold and sets the bits that `also` names, in one step. Returns the new word, from
    /// which S is missing if it was set before: it is somebody else's.
    fn exit(&self, kind: Kind, also: impl Fn(usize) -> usize) -> usize {
        let mut word = self.state.load(Ordering::Relaxed);
        loop {
            let left = word - hold(kind);
            let new = left | also(left);
            // Release for the hold, acquire for the lists if S comes with it.
            match self.state.compare_exchange_weak(word, new, ord::EXIT, Ordering::Relaxed) {
                Ok(_) => return new & !(word & SCHEDULER),
                Err(now) => word = now,
            }
        }
    }

    /// T5, waiting for the other readers to leave.
    pub(super) fn upgrade(&self, deadline: Option<Deadline>) -> bool {
        self.try_upgrade() || self.stand_in_line(Kind::Upgrade, deadline)
    }

    /// T6. The writer becomes a reader, upgradable or not; waiting readers may come in beside it.
    pub(super) fn downgrade(&self, to: Kind) {
        self.state.fetch_add(hold(to) - WRITER, ord::DOWNGRADE);
        self.schedule_if_queued();
    }

    /// The upgradable reader becomes a plain one; another upgradable may come in.
    pub(super) fn downgrade_upgradable(&self) {
        self.state.fetch_sub(UPGRADABLE, ord::READ_DONE);
        self.schedule_if_queued();
    }

    fn schedule_if_queued(&self) {
        if has(self.state.load(Ordering::Relaxed), QUEUED) {
            self.schedule();
        }
    }

    /// True while somebody holds the lock.
    #[cfg(not(lockspan_loom))]
    pub(super) fn held(&self) -> bool {
        !is_free(self.state.load(Ordering::Relaxed))
    }

    /// True while a writer holds the lock.
    #[cfg(not(lockspan_loom))]
    pub(super) fn held_by_writer(&self) -> bool {
        has(self.state.load(Ordering::Relaxed), WRITER)
    }

    /// Makes sure that nobody is inside the lock any more, so that its memory may go: false if it
    /// is held or waited for. An earlier unlocker that still works for others is waited for. All
    /// its users must have left by [`leave_shared`](Self::leave_shared) or
    /// [`leave_exclusive`](Self::leave_exclusive), and none may be in a call.
    pub fn retire(&self) -> bool {
        self.settle();
        self.state.load(ord::READ) == 0
    }

    /// Waits for a hold of `kind`, until `deadline` at the latest; false if that passed first.
    #[cold]
    pub(super) fn acquire(&self, kind: Kind, deadline: Option<Deadline>) -> bool {
        let mut naps = Naps::new();
        loop {
            match (self.spin(kind), deadline) {
                (Spun::Entered, _) => return true,
                (Spun::InVain, _) => return self.stand_in_line(kind, deadline),
                // Nobody calls when the count has room again, so the thread looks now and then.
                (Spun::Crowded, Some(deadline)) => match deadline.left() {
                    Duration::ZERO => return false,
                    left => naps.nap(Some(left)),
                },
                (Spun::Crowded, None) => panic!("too many readers hold this lock"),
            }
        }
    }

    /// Tries for a while, as long as passing is allowed.
    fn spin(&self, kind: Kind) -> Spun {
        let mut spin = Spin::before_the_line();
        loop {
            let word = self.state.load(Ordering::Relaxed);
            match admit(kind, word) {
                Some(_) if !self.may_pass(word) => return Spun::InVain,
                Some(held) if self.enter(kind, word, held) => return Spun::Entered,
                Some(_) => {}
                None if has(word, CROWDED) && kind != Kind::Write => return Spun::Crowded,
                None if has(word, HANDOVER) || (!P::PASSING && has(word, QUEUED)) => {
                    return Spun::InVain;
                }
                None => {}
            }
            if !spin.again() {
                return Spun::InVain;
            }
        }
    }

    fn stand_in_line(&self, kind: Kind, deadline: Option<Deadline>) -> bool {
        if deadline.is_some_and(|deadline| deadline.passed()) {
            return false;
        }
        let node = Node::of_thread(kind, self.arrival_time());
        self.wait(&node, deadline)
    }

    /// Where nobody passes, nobody's age matters.
    pub(super) fn arrival_time(&self) -> u64 {
        if P::PASSING { P::now() } else { 0 }
    }

    /// The policy's question: may an arrival that finds `word` pass those who wait?
    #[inline]
    pub(super) fn may_pass(&self, word: usize) -> bool {
        lacks(word, QUEUED) || (P::PASSING && lacks(word, HANDOVER) && self.is_early())
    }

    /// Is the next turn not yet due? Reading the clock costs more than the lock, so it is asked at
    /// every [`Policy::ASKING`]th pass, and at each one when the time comes near.
    #[inline]
    fn is_early(&self) -> bool {
        let unasked = self.unasked.load(Ordering::Relaxed);
        if unasked > 0 {
            self.unasked.store(unasked - 1, Ordering::Relaxed);
            return true;
        }
        self.ask_the_clock()
    }

    fn ask_the_clock(&self) -> bool {
        // The clock first: a time that was set later counts the waiters of that moment.
        let now = P::now();
        let left = self.due.load(Ordering::Relaxed).saturating_sub(now);
        if left > P::quantum() / 32 {
            // More often than every 2^16th time does no harm.
            let unasked = u16::try_from(P::ASKING.saturating_sub(1)).unwrap_or(u16::MAX);
            self.unasked.store(unasked, Ordering::Relaxed);
        }
        left > 0
    }

    #[cold]
    fn released(&self) {
        self.schedule();
    }

    #[inline]
    fn replace(&self, from: usize, to: usize, order: Ordering) -> bool {
        self.state.compare_exchange(from, to, order, Ordering::Relaxed).is_ok()
    }
}

impl<P: Policy> Default for RawRwLock<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Policy> fmt::Debug for RawRwLock<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.state.load(Ordering::Relaxed);
        f.debug_struct("RawRwLock")
            .field("writer", &has(word, WRITER))
            .field("readers", &readers(word))
            .field("waiters", &has(word, QUEUED))
            .finish()
    }
}

/// How a spin ended.
enum Spun {
    Entered,
    InVain,
    /// The reader count is at its limit.
    Crowded,
}

/// What a hold of `kind` adds to the word.
#[inline]
fn hold(kind: Kind) -> usize {
    match kind {
        Kind::Read => READER,
        Kind::Upgradable => READER + UPGRADABLE,
        Kind::Write | Kind::Upgrade => WRITER,
    }
}

/// The word after a hold of `kind` was taken; `None` if the present holders exclude it.
#[inline]
pub(super) fn admit(kind: Kind, word: usize) -> Option<usize> {
    let fits = match kind {
        Kind::Read => lacks(word, WRITER | CROWDED),
        Kind::Write => is_free(word),
        Kind::Upgradable => lacks(word, WRITER | UPGRADABLE | CROWDED),
        Kind::Upgrade => word & READERS == READER,
    };
    fits.then(|| match kind {
        // A writer's turn, whoever waited before it: the readers are next.
        Kind::Upgrade if has(word, QUEUED) => {
            (word - hold(Kind::Upgradable) + WRITER) | READERS_NEXT
        }
        Kind::Upgrade => word - hold(Kind::Upgradable) + WRITER,
        _ => word + hold(kind),
    })
}

#[inline]
fn entry(kind: Kind) -> Ordering {
    match kind {
        Kind::Read | Kind::Upgradable => ord::READ,
        Kind::Write => ord::WRITE,
        Kind::Upgrade => ord::UPGRADE,
    }
}

/// After a release that left `word`: must the releaser see to the waiters? Not while others hold
/// the lock, nor while a scheduler or an awake waiter will look at the word anyway.
#[inline]
fn owes_schedule(left: usize) -> bool {
    if lacks(left, QUEUED) {
        return false;
    }
    let last = left & READERS == 0 || (left & READERS == READER && has(left, UPGRADABLE));
    // Whoever left P behind counts on the next release.
    let watched = has(left, word::AWAKE) && lacks(left, HANDOVER | word::PENDING);
    lacks(left, SCHEDULER | WRITER) && last && !watched
}
