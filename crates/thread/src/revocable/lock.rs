//! How a revocable lock works: its word, invariants and transitions. `mod.rs` has the public
//! documentation.
//!
//! # The word
//!
//! 0, or the name of an acquisition; `record.rs` explains names and what is known about them. An
//! acquisition is bound to the processor that its thread was on, and its stores happen only there;
//! if the thread has moved, its next store binds it anew, under a new name.
//!
//! | word | record of the name | who may store |
//! |------|--------------------|---------------|
//! | 0 | – | nobody |
//! | n | not settled | victims of n whose sections are not over yet; n waits for that |
//! | n | settled, bound to c | n's thread, in a section on c |
//! | n | released, or left behind by a fork | nobody |
//! | n, marked | – | nobody, once the signal has come: see `signals.rs` |
//!
//! # Invariants
//!
//! - **I1** A section stores only if the word is its name and the processor the name's, and no
//!   interruption lies between these checks and the store.
//! - **I2** The word changes by atomic exchanges alone, each of which names what it replaces.
//!   No name comes twice, so an exchange proves that nobody has owned the lock in between.
//! - **I3** When a name has settled, no section of another name under this lock is at work, nor
//!   will one store. `acquire` returns after that.
//! - **I4** Only a settled name is released, or followed to another processor.
//! - **I5** While the word is a name that has moved (T7), the lock's `origin` is the first name of
//!   the same acquisition, which is its `Owner`. The owner stores it conditionally, as any word
//!   under the lock, before its acquire returns. So no store of another acquisition lands there
//!   later, and a thread that finds the same word before and after it reads `origin` has the
//!   word's owner.
//!
//! # Transitions
//!
//! | id | word | call | needs | then, before it settles |
//! |----|------|------|-------|-------------------------|
//! | T1 | 0 → m | acquire | – | nothing (I4) |
//! | T2 | n → m | acquire | n released, left behind, or of this thread | nothing (I4) |
//! | T3 | n → m | `Local`, `Force` | n settled and bound here | nothing: see below |
//! | T4 | n → m | `Force` | – | barrier that aborts sections: see below |
//! | T5 | n → m | `Force`, no sections | n settled: waits | barrier; waits for n's flag |
//! | T6 | n → 0 | release, drop | – | – |
//! | T7 | n → m, moved | store by a moved thread | n is the ticket's | nothing: n was its own |
//! | T8 | n | acquire | n of this thread, not released | nothing: the same ticket |
//! | T9 | n → m → 0 | `cancel_owner` | n's owner is the given one | as T2 to T5, then T6 |
//! | T10 | n | `cancel_owner` | n's owner is another one, or n is 0 | barrier or wait, see below |
//!
//! The backend `signal` has T1, T2, T6, T8 and steps of its own, in `signals.rs`.
//!
//! T3 exchanges the word on the processor that n is bound to: n's thread is elsewhere, or was
//! interrupted there, and then leaves the section that it may be in.
//!
//! T4 sends its barrier to n's processor; to all of them if that is not known, or if n has not
//! settled: then n's thread may not yet have sent its own barrier, so that whom it robbed may still
//! be in a section anywhere.
//!
//! T10 finds that the given owner has gone. If n has settled, that owner is over (I3). If not, n's
//! thread may not have sent its barrier yet: with sections the cancel sends its own to all
//! processors, without them it waits until n has settled.
//!
//! # Orderings
//!
//! Exchanges are `SeqCst`: x86-64 has no weaker ones. The fields of a record
//! are stored with release and read with acquire. A ticket's stores are plain ones; x86-64 shows
//! them in order, and who acquires sees those of all owners before: by T1 and T2 as it saw the
//! release, by T3 as both ran on one processor, by T4 and T5 as the barrier is the victim's too.

use std::fmt;

use super::owner::Owner;
use super::record::{self, CPU_MAX, Name, Record};
use super::ticket::{Mode, Ticket};
#[cfg(test)]
use crate::backend::sabotage::{self, Mistake};
use crate::backend::{
    Area, Backend, Claim, Latch, backend, barrier, stop_sections, stop_sections_on,
};
use crate::spin::Patience;
use crate::sync::machine::{AtomicU64, Ordering};

/// What [`Lock::acquire`] does if another thread owns the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Steal {
    /// Do not take it: the call is refused.
    Never,
    /// Take it only if that needs no interrupt on another processor, that is if the owner ran last
    /// on this one. May be refused at any time.
    Local,
    /// Take it. Never refused.
    Force,
}

/// Why a lock was not acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// Another thread owns the lock, and [`Steal`] said not to take it.
    Held,
    /// This thread cannot own a lock: it is about to end, or has no restartable sequences.
    Thread,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Held => "somebody owns the lock",
            Self::Thread => "this thread is ending or has no restartable sequences",
        })
    }
}

impl std::error::Error for Refused {}

/// A revocable lock with the words that it protects. See the [module](super).
pub struct Lock<T> {
    /// The name of the owner's acquisition, or 0.
    owner: AtomicU64,
    /// The first name of that acquisition; valid while `owner` has a name that has moved.
    origin: AtomicU64,
    /// Shut around each operation where there is nothing better.
    gate: Latch,
    words: T,
}

impl<T: Default> Default for Lock<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: fmt::Debug> fmt::Debug for Lock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").field("owned", &self.is_owned()).field("words", &self.words).finish()
    }
}

/// No processor: a section that compares this one fails.
pub(super) const NO_CPU: u32 = 0xffff_fff0;

/// How the lock can be taken from whom it names.
enum Way {
    /// Nobody can be at work.
    Free,
    /// They can be at work on this processor alone, where this thread is.
    Here(u32),
    /// They can be at work on one processor.
    On(u32),
    /// Nobody knows where who is at work.
    Anywhere,
}

impl<T> Lock<T> {
    /// A lock that nobody owns.
    pub const fn new(words: T) -> Self {
        let (owner, origin) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { owner, origin, gate: Latch::new(), words }
    }

    /// The words. Any thread may [`peek`](super::Word::peek) at them.
    pub fn words(&self) -> &T {
        &self.words
    }

    /// Whether a thread owned the lock at this moment.
    #[must_use]
    pub fn is_owned(&self) -> bool {
        Name::of(self.owner.load(Ordering::Acquire)).is_some_and(|name| !is_released(name))
    }

    /// The acquisition that owned the lock at this moment.
    #[must_use]
    pub fn owner(&self) -> Option<Owner> {
        let (seen, owner) = self.look();
        owner.filter(|_| Name::of(seen).is_some_and(|name| !is_released(name)))
    }

    /// Becomes the owner. When this returns, no other acquisition of this lock stores any more.
    ///
    /// If this thread owns the lock already, it gets the same ticket again, for some loads and
    /// comparisons, whatever `steal` says. Both tickets are good until the lock is taken away, or
    /// until one of them is released or dropped. So a thread can acquire before each batch of
    /// stores, if it [keeps](Ticket::keep) the lock after each:
    ///
    /// ```
    /// use lockspan_thread::revocable::{Lock, Steal, Word};
    ///
    /// let lock = Lock::new(Word::new(0));
    /// for _batch in 0..3 {
    ///     let ticket = lock.acquire(Steal::Local)?;
    ///     for _ in 0..10 {
    ///         ticket.add(|word| word, 1)?;
    ///     }
    ///     ticket.keep();
    /// }
    /// assert_eq!(lock.words().peek(), 30);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Refused::Held`] if another thread owns the lock and `steal` does not take it;
    /// [`Refused::Thread`] if this thread cannot own a lock.
    #[inline]
    pub fn acquire(&self, steal: Steal) -> Result<Ticket<'_, T>, Refused> {
        self.acquire_by(backend().backend(), steal)
    }

    /// The same by a backend that works. A lock can be had by one backend only.
    #[inline]
    pub(super) fn acquire_by(
        &self,
        backend: Backend,
        steal: Steal,
    ) -> Result<Ticket<'_, T>, Refused> {
        if let Some(ticket) = self.ticket_again(backend) {
            return Ok(ticket);
        }
        let ticket = self.take_by(backend, steal, None)?;
        Ok(ticket.expect("no owner was asked for that could be gone"))
    }

    /// T8 alone: the same ticket again, if this thread owns the lock.
    #[inline]
    pub(super) fn acquire_again(&self) -> Option<Ticket<'_, T>> {
        self.ticket_again(backend().backend())
    }

    /// T8: the ticket of this thread's own acquisition, if that owns the lock.
    #[inline]
    fn ticket_again(&self, backend: Backend) -> Option<Ticket<'_, T>> {
        let mine = record::mine_already()?;
        let (seen, owner) = self.look();
        let name = mine.own_name(seen).filter(|name| !mine.has_released(*name))?;
        let (mode, cpu) = match backend {
            Backend::Rseq => {
                // Another era's processor is not known any more: the next store binds it anew.
                (Mode::Sections(Area::current()?), mine.cpu_of(name).unwrap_or(NO_CPU))
            }
            #[cfg(feature = "signals")]
            Backend::Signal => (Mode::Signals, 0),
            Backend::Membarrier => (Mode::Flag, 0),
            Backend::Plain => (Mode::Gate, 0),
        };
        Some(Ticket::new(self, mine, mode, (name, owner?), cpu))
    }

    /// A new acquisition, even if this thread owns the lock; if `only` is some, none unless that
    /// one owns it. When it returns `Ok`, no other acquisition stores any more.
    #[inline(never)]
    fn take_by(
        &self,
        backend: Backend,
        steal: Steal,
        only: Option<Owner>,
    ) -> Result<Option<Ticket<'_, T>>, Refused> {
        let mine = record::mine().ok_or(Refused::Thread)?;
        let (mode, taken) = match backend {
            Backend::Rseq => {
                let area = Area::current().ok_or(Refused::Thread)?;
                (Mode::Sections(area), self.take_by_sections(mine, area, steal, only)?)
            }
            #[cfg(feature = "signals")]
            Backend::Signal => {
                (Mode::Signals, self.take_by_signals(mine, steal, only)?.map(|name| (name, 0)))
            }
            Backend::Membarrier => {
                (Mode::Flag, self.take_by_barriers(mine, steal, only)?.map(|name| (name, 0)))
            }
            Backend::Plain => {
                (Mode::Gate, self.take_by_gate(mine, steal, only)?.map(|name| (name, 0)))
            }
        };
        Ok(taken.map(|(name, cpu)| {
            mine.settle(name);
            Ticket::new(self, mine, mode, (name, Owner::of(name)), cpu)
        }))
    }

    /// Takes the lock from its owner and leaves it free. When this returns, the owner's ticket
    /// stores nothing any more.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire); and [`Refused::Held`] for [`Steal::Never`] even if this
    /// thread is the owner.
    pub fn cancel(&self, steal: Steal) -> Result<(), Refused> {
        if !self.is_owned() {
            return Ok(());
        }
        self.take_by(backend().backend(), steal, None).map(drop)
    }

    /// Takes the lock from this one owner, if it still owns it, and leaves it free. Returns `true`
    /// if this call has ended that acquisition, `false` if it had ended before. Either way it
    /// stores nothing under this lock any more. Any other owner keeps the lock, even a later
    /// acquisition by the same thread.
    ///
    /// ```
    /// use lockspan_thread::revocable::{Lock, Steal, Word};
    ///
    /// let lock = Lock::new(Word::new(0));
    /// let first = lock.acquire(Steal::Force)?;
    /// let owner = first.owner();
    /// first.release()?;
    ///
    /// let second = lock.acquire(Steal::Force)?;
    /// assert_eq!(lock.cancel_owner(owner, Steal::Force), Ok(false));
    /// assert_eq!(second.check(), Ok(()));
    /// assert_eq!(lock.cancel_owner(second.owner(), Steal::Force), Ok(true));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`cancel`](Self::cancel), if it still owns the lock.
    pub fn cancel_owner(&self, owner: Owner, steal: Steal) -> Result<bool, Refused> {
        self.cancel_owner_by(backend().backend(), owner, steal)
    }

    pub(super) fn cancel_owner_by(
        &self,
        backend: Backend,
        owner: Owner,
        steal: Steal,
    ) -> Result<bool, Refused> {
        self.take_by(backend, steal, Some(owner)).map(|taken| taken.is_some())
    }

    /// The word, and the acquisition that it names.
    #[inline]
    pub(super) fn look(&self) -> (u64, Option<Owner>) {
        let mut seen = self.owner.load(Ordering::Acquire);
        loop {
            let name = Name::of(seen);
            if !name.is_some_and(Name::has_moved) {
                return (seen, name.map(Owner::of));
            }
            // I5. Another acquisition stores its own name here after it has exchanged the word.
            let origin = self.origin.load(Ordering::Acquire);
            let again = self.owner.load(Ordering::Acquire);
            if again == seen {
                return (seen, Owner::from_bits(origin));
            }
            seen = again;
        }
    }

    /// T1 to T4, with sections. None if `only` does not own the lock, and is not at work any more.
    fn take_by_sections(
        &self,
        mine: &'static Record,
        area: Area,
        steal: Steal,
        only: Option<Owner>,
    ) -> Result<Option<(Name, u32)>, Refused> {
        loop {
            let cpu = processor(area)?;
            let (seen, owner) = self.look();
            if is_gone(only, seen, owner) {
                // I3: whoever was named before is over when the present name has settled.
                if Name::of(seen).is_some_and(|name| !name.record().has_settled(name)) {
                    stop_sections();
                }
                return Ok(None);
            }
            let way = way(seen, mine, steal, cpu)?;
            let name = mine.name(cpu);
            let taken = match way {
                // SAFETY: the lock's word lives as long as the lock and is an atomic.
                Way::Here(cpu) => unsafe {
                    area.exchange_on(cpu, self.owner.as_ptr(), seen, name.word())
                },
                _ => self.exchange(seen, name.word()),
            };
            if !taken {
                continue;
            }
            match way {
                Way::Free | Way::Here(_) => {}
                Way::On(cpu) => stop_sections_on(cpu as usize),
                Way::Anywhere => stop_sections(),
            }
            return self.keep_origin(mine, area, (name, cpu)).map(Some);
        }
    }

    /// I5: stores the acquisition's first name, while it owns the lock. A thread that was moved
    /// meanwhile begins another acquisition on its new processor: nobody has its ticket yet.
    fn keep_origin(
        &self,
        mine: &'static Record,
        area: Area,
        (mut name, mut cpu): (Name, u32),
    ) -> Result<(Name, u32), Refused> {
        loop {
            mine.settle(name);
            let owner = self.owner.as_ptr().cast_const();
            let floor = mine.floor().as_ptr().cast_const();
            let claim = Claim { owner, name: name.word(), floor, cpu };
            // SAFETY: the words live as long as the lock or forever, and are atomics.
            if unsafe { area.store_if(claim, self.origin.as_ptr(), name.word()) } {
                return Ok((name, cpu));
            }
            let here = processor(area).inspect_err(|_| {
                // T6: nobody gets a ticket of this acquisition. If it fails, a thief has the lock.
                let _released = self.exchange(name.word(), 0);
            })?;
            let next = mine.name(here);
            if !self.exchange(name.word(), next.word()) {
                // The lock was taken away: the ticket will say so.
                return Ok((name, cpu));
            }
            (name, cpu) = (next, here);
        }
    }

    /// T1, T2 and T5: the thief waits until the victim is out.
    fn take_by_barriers(
        &self,
        mine: &'static Record,
        steal: Steal,
        only: Option<Owner>,
    ) -> Result<Option<Name>, Refused> {
        let name = mine.name(0);
        let mut patience = Patience::new();
        loop {
            let (seen, owner) = self.look();
            let victim = Name::of(seen).filter(|name| !is_released(*name));
            let other = victim.filter(|victim| !ptr_eq(victim.record(), mine));
            let gone = is_gone(only, seen, owner);
            let refused = steal == Steal::Never && victim.is_some()
                || steal == Steal::Local && other.is_some();
            if refused && !gone {
                return Err(Refused::Held);
            }
            // To take the lock from a thread that still waits for its victim would only make both
            // wait; and if all did so, no thread would own the lock when its waiting is over. An
            // owner that is gone may be that victim.
            if other.is_some_and(|victim| !victim.record().has_settled(victim)) {
                patience.wait();
                continue;
            }
            if gone {
                return Ok(None);
            }
            if !self.exchange(seen, name.word()) {
                continue;
            }
            if let Some(record) = other.map(Name::record) {
                barrier();
                let at_work = || record.section.load(Ordering::Acquire) == self.address();
                #[cfg(test)]
                let at_work = || !sabotage::is(Mistake::NoWait) && at_work();
                while at_work() && !record.is_left_behind() {
                    patience.wait();
                }
            }
            return Ok(Some(name));
        }
    }

    /// Everything happens behind the gate.
    fn take_by_gate(
        &self,
        mine: &'static Record,
        steal: Steal,
        only: Option<Owner>,
    ) -> Result<Option<Name>, Refused> {
        let _gate = self.gate.shut();
        let (seen, owner) = self.look();
        if is_gone(only, seen, owner) {
            return Ok(None);
        }
        if steal == Steal::Never && Name::of(seen).is_some_and(|name| !is_released(name)) {
            return Err(Refused::Held);
        }
        let name = mine.name(0);
        self.owner.store(name.word(), Ordering::Release);
        Ok(Some(name))
    }

    /// Exchanges the lock's word.
    pub(super) fn exchange(&self, seen: u64, new: u64) -> bool {
        let order = (Ordering::SeqCst, Ordering::Relaxed);
        self.owner.compare_exchange(seen, new, order.0, order.1).is_ok()
    }

    #[inline]
    pub(super) fn word(&self) -> &AtomicU64 {
        &self.owner
    }

    pub(super) fn gate(&self) -> &Latch {
        &self.gate
    }

    /// What stands for this lock in a record.
    #[inline]
    pub(super) fn address(&self) -> u64 {
        self.owner.as_ptr().addr() as u64
    }
}

/// The number of this thread's processor.
pub(super) fn processor(area: Area) -> Result<u32, Refused> {
    u32::try_from(area.cpu()).ok().filter(|cpu| *cpu <= CPU_MAX).ok_or(Refused::Thread)
}

/// Whether `only` was asked for, and does not own the lock.
pub(super) fn is_gone(only: Option<Owner>, seen: u64, owner: Option<Owner>) -> bool {
    only.is_some_and(|only| owner != Some(only) || Name::of(seen).is_none_or(is_released))
}

/// Whether nobody can store under the name, and nobody has to be asked.
pub(super) fn is_released(name: Name) -> bool {
    let record = name.record();
    record.has_released(name) || record.is_left_behind()
}

pub(super) fn ptr_eq(one: &'static Record, other: &'static Record) -> bool {
    std::ptr::eq(one, other)
}

/// How to take the lock from whom its word names, for a thread on `cpu`.
fn way(seen: u64, mine: &'static Record, steal: Steal, cpu: u32) -> Result<Way, Refused> {
    let Some(name) = Name::of(seen).filter(|name| !is_released(*name)) else {
        return Ok(Way::Free);
    };
    if steal == Steal::Never {
        return Err(Refused::Held);
    }
    let record = name.record();
    if ptr_eq(record, mine) {
        return Ok(Way::Free);
    }
    // Before it has settled, others may be at work whom it has robbed.
    let bound = record.has_settled(name).then(|| record.cpu_of(name)).flatten();
    match bound {
        Some(bound) if bound == cpu => Ok(Way::Here(cpu)),
        _ if steal == Steal::Local => Err(Refused::Held),
        Some(bound) => Ok(Way::On(bound)),
        None => Ok(Way::Anywhere),
    }
}
