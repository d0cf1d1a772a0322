//! The lock: who owns it, and how one becomes the owner.

use std::fmt;

use super::record::{self, CPU_MAX, Name, Record};
use super::ticket::{Mode, Ticket};
#[cfg(test)]
use crate::backend::sabotage::{self, Mistake};
use crate::backend::{Area, Backend, Latch, backend, barrier, stop_sections, stop_sections_on};
use crate::spin::Patience;
use crate::sync::machine::{AtomicU64, Ordering};

/// What to do if somebody owns the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Steal {
    /// Leave it to them.
    Never,
    /// Take it if that needs no interrupt on another processor: if the owner was last on this one,
    /// or is this thread. May fail at any time.
    Local,
    /// Take it. Cannot fail.
    Force,
}

/// Why a lock was not had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// Somebody owns it, and the [`Steal`] policy left it to them.
    Held,
    /// The thread is about to end, or the kernel knows nothing of it: it can own nothing.
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

/// A lock with the words under it. See the [module](super).
pub struct Lock<T> {
    /// The name of the owner's acquisition, or 0.
    owner: AtomicU64,
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
        Self { owner: AtomicU64::new(0), gate: Latch::new(), words }
    }

    /// The words, for everybody to [`peek`](super::Word::peek) at.
    pub fn words(&self) -> &T {
        &self.words
    }

    /// Whether somebody owned it at this moment.
    #[must_use]
    pub fn is_owned(&self) -> bool {
        Name::of(self.owner.load(Ordering::Acquire)).is_some_and(|name| !is_released(name))
    }

    /// Becomes the owner. When this returns, no other ticket of this lock stores any more.
    ///
    /// # Errors
    /// [`Refused::Held`] if somebody owns it and may keep it; [`Refused::Thread`] if this thread
    /// can own nothing.
    pub fn acquire(&self, steal: Steal) -> Result<Ticket<'_, T>, Refused> {
        self.acquire_by(backend().backend(), steal)
    }

    /// The same by a backend that works. A lock can be had by one backend only.
    pub(super) fn acquire_by(
        &self,
        backend: Backend,
        steal: Steal,
    ) -> Result<Ticket<'_, T>, Refused> {
        let mine = record::mine().ok_or(Refused::Thread)?;
        let (mode, name, cpu) = match backend {
            Backend::Rseq => {
                let area = Area::current().ok_or(Refused::Thread)?;
                let (name, cpu) = self.acquire_by_sections(mine, area, steal)?;
                (Mode::Sections(area), name, cpu)
            }
            #[cfg(feature = "signals")]
            Backend::Signal => (Mode::Signals, self.acquire_by_signals(mine, steal)?, 0),
            Backend::Membarrier => (Mode::Flag, self.acquire_by_barriers(mine, steal)?, 0),
            Backend::Plain => (Mode::Gate, self.acquire_by_gate(mine, steal)?, 0),
        };
        mine.settle(name);
        Ok(Ticket::new(self, mine, mode, name, cpu))
    }

    /// Takes the lock from its owner and leaves it to nobody. When this returns, the ticket that
    /// there was stores nothing any more.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    pub fn cancel(&self, steal: Steal) -> Result<(), Refused> {
        if !self.is_owned() {
            return Ok(());
        }
        self.acquire(steal).map(drop)
    }

    /// T1 to T4, with sections.
    fn acquire_by_sections(
        &self,
        mine: &'static Record,
        area: Area,
        steal: Steal,
    ) -> Result<(Name, u32), Refused> {
        loop {
            let cpu = processor(area)?;
            let seen = self.owner.load(Ordering::Acquire);
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
            return Ok((name, cpu));
        }
    }

    /// T1, T2 and T5: the thief waits until the victim is out.
    fn acquire_by_barriers(&self, mine: &'static Record, steal: Steal) -> Result<Name, Refused> {
        let name = mine.name(0);
        let mut patience = Patience::new();
        loop {
            let seen = self.owner.load(Ordering::Acquire);
            let victim = Name::of(seen).filter(|name| !is_released(*name));
            let other = victim.filter(|victim| !ptr_eq(victim.record(), mine));
            if victim.is_some() && steal == Steal::Never || other.is_some() && steal == Steal::Local
            {
                return Err(Refused::Held);
            }
            // To rob somebody who still waits for a victim would only make both wait; and if all
            // did so, nobody would ever own the lock by the time that the waiting is over.
            if other.is_some_and(|victim| !victim.record().has_settled(victim)) {
                patience.wait();
                continue;
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
            return Ok(name);
        }
    }

    /// Everything happens behind the gate.
    fn acquire_by_gate(&self, mine: &'static Record, steal: Steal) -> Result<Name, Refused> {
        let _gate = self.gate.shut();
        let owner = Name::of(self.owner.load(Ordering::Relaxed));
        if steal == Steal::Never && owner.is_some_and(|name| !is_released(name)) {
            return Err(Refused::Held);
        }
        let name = mine.name(0);
        self.owner.store(name.word(), Ordering::Release);
        Ok(name)
    }

    /// Exchanges the lock's word.
    pub(super) fn exchange(&self, seen: u64, new: u64) -> bool {
        let order = (Ordering::SeqCst, Ordering::Relaxed);
        self.owner.compare_exchange(seen, new, order.0, order.1).is_ok()
    }

    #[inline]
    pub(super) fn owner(&self) -> &AtomicU64 {
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
