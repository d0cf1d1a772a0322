//! How a biased mutex works, and its transitions, for any record and any fair lock: the models
//! choose both.
//!
//! # The words
//!
//! Each thread that uses such locks has a record with a few *slots*; it alone writes them. A lock
//! has an ordinary fair lock inside, and beside it a word, `owner`: the record of the thread that
//! has the bias, and whether that is being taken back. In a slot stands the *mark* of a lock: a
//! number that it gets with its first bias and keeps, and no other lock ever has.
//!
//! | `owner`      | the mark is in a slot of R | name     | who holds the lock    |
//! |--------------|:--------------------------:|----------|-----------------------|
//! | 0            | –                          | Fair     | who has the fair lock |
//! | R            | no                         | Biased   | nobody                |
//! | R            | yes                        | Used     | R's thread            |
//! | R, revoking  | yes                        | Revoking | R's thread, or nobody |
//! | R, revoking  | no                         | Revoked  | who has the fair lock |
//!
//! Nobody, while *revoking*: R's thread is about to see that it came too late.
//!
//! The slots are the thread's and not the lock's. A word in the lock would not do: a thread that
//! has lost the bias can be stopped just before it writes "I am in", for as long as it likes, and
//! would then write over what the next owner says. And the mark is not the lock's address: a guard
//! that was forgotten would then speak for whatever lock is moved there.
//!
//! # Invariants
//!
//! - **I1** `owner` is changed only by who holds the fair lock.
//! - **I2** A record's slots are written only by its thread, and a slot in use keeps its mark.
//! - **I3** A thread is in by its bias if a slot of its record has the mark, and `owner` was that
//!   record, not revoking, when the thread looked *after* it had written the slot.
//! - **I4** After the barrier that follows *revoking*, a thread that is in by its bias is seen to
//!   be (its mark is visible), and one that is not will not get in.
//! - **I5** Who holds the fair lock touches the data after it has found `owner` to be 0, or has
//!   made it 0, which it may once no slot of the record has the mark.
//! - **I6** Records are never freed; one goes to another thread only with all its slots empty. A
//!   lock that still names it is then biased to that other thread, which is as good.
//! - **I7** A bias is given by its new owner to itself, after the lock has its mark, which never
//!   changes. So a thread that finds the bias to be its own has read the mark that counts, even if
//!   it read it before; what another thread reads then, 0 at worst, it takes out of the slot again.
//!
//! # Transitions
//!
//! | id | from → to | by | ordering | pairs with |
//! |----|-----------|----|----------|------------|
//! | T1 | Biased → Used | `enter`: slot := mark, *light* fence, look at `owner` | – | T4 |
//! | T2 | Used → Biased, Revoking → Revoked | `empty_first`, `empty_other` | Release | T5 |
//! | T3 | Fair → Biased | `leave_fair`, as the policy says | the fair lock's | T4 |
//! | T4 | Biased, Used → Revoked, Revoking | the holder of the fair lock; *heavy* fence | – | T1 |
//! | T5 | Revoked → Fair | the same, as it sees the mark in no slot | Acquire | T2 |
//!
//! *Light* and *heavy* are the two halves of an asymmetric fence. The light one keeps the compiler
//! from moving things and costs nothing; the heavy one is the kernel's barrier in every thread of
//! the process. Between two fences of which one is heavy, a store before and a load after on both
//! sides cannot both miss each other: that is I4. In the models and under Miri both are `SeqCst`
//! fences. Where the kernel has no such barrier (see `backend`) no lock is ever biased: it is the
//! fair lock from the start, with a look more.
//!
//! # Two races that a reviewer would ask about
//!
//! The owner enters while a thief comes. 1. The owner writes its slot. 2. The thief writes
//! *revoking* and sends the barrier. 3. The owner looks at `owner`. If it still sees itself there,
//! its look came before the barrier, and so did its slot: the thief sees the mark and waits.
//! Otherwise it empties the slot and takes the fair lock, behind the thief.
//!
//! A thief gives up, as its time is over, while the owner is in. The lock stays *revoking*: whoever
//! has the fair lock next waits for the same mark, and needs no barrier for that, as what the first
//! one promised (I4) still holds.

use std::fmt;
use std::ptr;

use lockspan_park::Deadline;

use super::fences;
use super::history::History;
use super::record::Record;
use crate::spin::{Naps, Spin};
use crate::sync::machine;
use crate::sync::{AtomicPtr, AtomicU32, AtomicUsize, Ordering, UnsafeCell};

/// The lock that all but the owner of the bias take.
///
/// # Safety
/// Between `lock` or `try_lock`, if they return true, and `unlock` nobody else gets true; and what
/// was done before an `unlock` is visible after.
pub(super) unsafe trait Fair {
    /// Waits until `deadline`; false if that passed first.
    fn lock(&self, deadline: Option<Deadline>) -> bool;
    fn try_lock(&self) -> bool;
    /// # Safety
    /// The caller has it.
    unsafe fn unlock(&self);
    fn is_locked(&self) -> bool;
    /// Whether somebody waits for it.
    fn has_waiters(&self) -> bool;
}

/// Why a lock cannot be had by its bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum No {
    /// There is none for this thread, or there is no slot left.
    Bias,
    /// This thread holds the lock.
    Mine,
}

/// How long somebody waits for the owner.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wait {
    Not,
    Until(Option<Deadline>),
}

/// In `owner`: the bias is being taken back.
const REVOKING: usize = 1;

/// One that no lock has had: more than what slots have for other reasons.
fn new_mark() -> usize {
    static NEXT: machine::AtomicUsize = machine::AtomicUsize::new(2);
    NEXT.fetch_add(1, machine::Ordering::Relaxed)
}

/// The lock without its data. The header of this file has the meaning of the words.
pub(super) struct Core<F> {
    owner: AtomicPtr<Record>,
    /// What stands for this lock in a slot: 0 before its first bias, and the same ever after.
    mark: AtomicUsize,
    fair: F,
    /// How often a bias was taken back.
    steals: AtomicU32,
    /// Belongs to who holds `fair`.
    history: UnsafeCell<History>,
}

// SAFETY: the history belongs to who holds the fair lock; the pointers are to records, which only
// have atomics.
unsafe impl<F: Sync> Sync for Core<F> {}
// SAFETY: the history goes with the lock, and records may be named from any thread.
unsafe impl<F: Send> Send for Core<F> {}

impl<F> fmt::Debug for Core<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("is_biased", &self.is_biased()).finish_non_exhaustive()
    }
}

impl<F> Core<F> {
    /// Without bias, around an unlocked fair lock.
    #[cfg(not(lockspan_loom))]
    pub(super) const fn new(fair: F) -> Self {
        Self {
            owner: AtomicPtr::new(ptr::null_mut()),
            mark: AtomicUsize::new(0),
            fair,
            steals: AtomicU32::new(0),
            history: UnsafeCell::new(History::new()),
        }
    }

    /// Without bias; loom's atomics cannot be made at compile time.
    #[cfg(lockspan_loom)]
    pub(super) fn new(fair: F) -> Self {
        Self {
            owner: AtomicPtr::new(ptr::null_mut()),
            mark: AtomicUsize::new(0),
            fair,
            steals: AtomicU32::new(0),
            history: UnsafeCell::new(History::new()),
        }
    }

    /// Whether some thread has the bias.
    pub(super) fn is_biased(&self) -> bool {
        let owner = self.owner.load(Ordering::Relaxed);
        !owner.is_null() && owner.addr() & REVOKING == 0
    }

    /// How often a bias was taken back.
    pub(super) fn steals(&self) -> u32 {
        self.steals.load(Ordering::Relaxed)
    }

    #[inline]
    fn is_biased_to(&self, me: &Record) -> bool {
        ptr::eq(self.owner.load(Ordering::Relaxed), me)
    }

    /// What stands for this lock in a slot. It is visible to who holds the fair lock, and (I7) to a
    /// thread that then finds the bias to be its own.
    #[inline]
    fn mark(&self) -> usize {
        self.mark.load(Ordering::Relaxed)
    }

    /// T1 with the first slot; false if that is not free, or the bias is not this thread's.
    #[inline]
    pub(super) fn enter(&self, me: &Record) -> bool {
        if !me.fill_first(self.mark()) {
            return false;
        }
        fences::light();
        let is_mine = self.is_biased_to(me);
        if !is_mine {
            me.empty_first();
        }
        is_mine
    }

    /// T1 with another slot, as the first one is not to be had.
    pub(super) fn enter_other(&self, me: &Record) -> Result<usize, No> {
        let owner = self.owner.load(Ordering::Relaxed);
        if !ptr::eq(owner.map_addr(|addr| addr & !REVOKING), me) {
            return Err(No::Bias);
        }
        if me.has(self.mark()) {
            return Err(No::Mine);
        }
        let at = me.fill_other(self.mark()).ok_or(No::Bias)?;
        fences::light();
        if self.is_biased_to(me) {
            return Ok(at);
        }
        me.empty_other(at);
        Err(No::Bias)
    }

    /// Waits until no slot of `record` has the mark; false if `deadline` passed first.
    fn wait_for(&self, record: &Record, deadline: Option<Deadline>) -> bool {
        let (mut spin, mut naps) = (Spin::for_a_section(), Naps::new());
        while record.has(self.mark()) {
            if spin.again() {
                continue;
            }
            let left = deadline.map(|deadline| deadline.left());
            if left.is_some_and(|left| left.is_zero()) {
                return false;
            }
            naps.nap(left);
        }
        true
    }
}

impl<F: Fair> Core<F> {
    /// Whether somebody holds it.
    pub(super) fn is_locked(&self) -> bool {
        let owner = self.owner.load(Ordering::Relaxed);
        let owner = owner.map_addr(|addr| addr & !REVOKING);
        // SAFETY: I6: a record that a lock may name is never freed.
        let record = unsafe { owner.as_ref() };
        // Who asks from afar may see an owner and not yet the mark.
        let mark = self.mark();
        let is_used = record.is_some_and(|record| mark != 0 && record.has(mark));
        is_used || self.fair.is_locked()
    }

    /// Takes the fair lock, and the bias back if somebody has it; false if `wait` was not enough.
    pub(super) fn lock_fair(&self, me: Option<&Record>, wait: Wait) -> bool {
        if !self.fair.try_lock() {
            let Wait::Until(deadline) = wait else { return false };
            if !self.fair.lock(deadline) {
                return false;
            }
        }
        if self.owner.load(Ordering::Relaxed).is_null() {
            return true;
        }
        let is_alone = self.end_bias(me, wait);
        if !is_alone {
            // SAFETY: this thread has the fair lock since `lock` or `try_lock` said so above.
            unsafe { self.fair.unlock() };
        }
        is_alone
    }

    /// T4 and T5, by who holds the fair lock; false if the owner is still in.
    #[cold]
    fn end_bias(&self, me: Option<&Record>, wait: Wait) -> bool {
        let owner = self.owner.load(Ordering::Relaxed);
        let is_revoking = owner.addr() & REVOKING != 0;
        // SAFETY: I6: a record that a lock may name is never freed.
        let record = unsafe { owner.map_addr(|addr| addr & !REVOKING).as_ref() };
        let Some(record) = record else { return true };
        // What this thread itself does not do needs no barrier to be seen.
        if !me.is_some_and(|me| ptr::eq(me, record)) {
            if matches!(wait, Wait::Not) && record.has(self.mark()) {
                return false;
            }
            if !is_revoking {
                self.owner.store(owner.map_addr(|addr| addr | REVOKING), Ordering::Relaxed);
                fences::heavy();
                self.steals.store(self.steals().wrapping_add(1), Ordering::Relaxed);
                self.with_history(History::stolen);
            }
        }
        let is_out = match wait {
            Wait::Not => !record.has(self.mark()),
            Wait::Until(deadline) => self.wait_for(record, deadline),
        };
        if is_out {
            self.owner.store(ptr::null_mut(), Ordering::Relaxed);
        }
        is_out
    }

    /// Gives the fair lock back, and the bias to this thread if it has earned it (T3).
    ///
    /// # Safety
    /// The caller has the fair lock, and found the owner to be out.
    pub(super) unsafe fn leave_fair(&self, me: Option<&Record>) {
        let has_earned = self.with_history(|history| history.used(me));
        if let Some(me) = me.filter(|_| has_earned && !self.fair.has_waiters()) {
            self.with_history(History::given);
            if self.mark() == 0 {
                self.mark.store(new_mark(), Ordering::Relaxed);
            }
            self.owner.store(ptr::from_ref(me).cast_mut(), Ordering::Relaxed);
        }
        // SAFETY: the caller has it.
        unsafe { self.fair.unlock() };
    }

    /// Only for who holds the fair lock.
    fn with_history<R>(&self, f: impl FnOnce(&mut History) -> R) -> R {
        // SAFETY: the caller holds the fair lock, to which the history belongs.
        self.history.with_mut(|history| f(unsafe { &mut *history }))
    }
}
