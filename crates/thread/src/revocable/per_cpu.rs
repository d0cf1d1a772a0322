//! Words of which each processor has some, with a revocable lock for each: pseudo-per-CPU data.
//!
//! ```text
//! processor 0   lock, words ── lock, words ── lock, words
//! processor 1   lock, words
//! processor 2   lock, words ── lock, words
//! ```
//!
//! A thread owns its processor's part until another thread takes it. What happens to an owner:
//!
//! | the owner | a thread that wants the part |
//! |---|---|
//! | is this thread | has it, for a load and a comparison |
//! | was taken off this processor | takes it, without a barrier (`Steal::Local`) |
//! | refuses that, for the reasons below | takes a spare part instead, or makes one |
//! | the same, and there are `limit` parts | takes the first part by a barrier (`Steal::Force`) |
//! | any, and the thread iterates | takes it by a barrier (`Steal::Force`) |
//!
//! `Steal::Local` is refused
//!
//! - with `rseq`, if the owner's acquisition is not known to be bound to this processor: the owner
//!   has since acquired any revocable lock, or stored under one, on another processor, or its
//!   acquisition has not settled yet;
//! - with `signal`, if the owner seems to run on another processor;
//! - with `membarrier`, always: a preempted owner keeps its part, and the next thread takes a spare
//!   one;
//! - with `plain`, never.
//!
//! Only with `rseq` does a thread begin at the part of the processor that it is on. With the others
//! each thread always begins at the same part, by the order in which threads came.
//!
//! [`PerCpu::with`] keeps a part only if the thread is bound to the part's processor afterwards. A
//! thread that was moved while it stored releases the part, as it has no more use for it. The same
//! holds for a part that this thread owned before it iterated.
//!
//! # Invariants
//!
//! - **P1** Each part is a [`Lock`] with all its promises; nothing else protects the words.
//! - **P2** A chain only grows, and has at most `limit` parts. See `percpu/chain.rs`.
//! - **P3** Which chain a thread begins at is a hint: on whatever processor it is when it stores,
//!   the part is its own, or the store is not made.

use std::fmt;

use super::lock::{Lock, Refused, Steal};
use super::ticket::{Revoked, Ticket};
use crate::backend::{Area, possible_cpus};
use crate::percpu::chain;
use crate::percpu::parts::number_of_this_thread;

type Link<T> = chain::Link<Lock<T>>;

/// Words for each processor, which the next thread on the processor takes from one that was
/// preempted (with the backend `membarrier` it takes a spare part instead), and which any thread
/// can take from each processor in turn.
///
/// `T` has [`Word`](super::Word)s. A thread changes those of its processor by conditional stores,
/// as under any [`Lock`]: each store is made, or the thread learns that its part was taken. What
/// takes several stores must be sound after each of them, since a thread can lose its part between
/// any two. Values that are more than words are for [`percpu::Slot`](crate::percpu::Slot), from
/// which no owner is evicted.
///
/// ```
/// use lockspan_thread::revocable::{PerCpu, Revoked, Word};
///
/// #[derive(Default)]
/// struct Traffic {
///     packets: Word,
///     bytes: Word,
/// }
///
/// let traffic: PerCpu<Traffic> = PerCpu::default();
/// // The first try is nearly always the only one.
/// traffic.with(|ticket| ticket.add(|traffic| &traffic.bytes, 1500))?;
/// traffic.with(|ticket| ticket.add(|traffic| &traffic.packets, 1))?;
///
/// // From any processor: each part is taken from its owner and read.
/// let parts = traffic.for_each(|ticket| {
///     Ok((ticket.load(|traffic| &traffic.packets)?, ticket.load(|traffic| &traffic.bytes)?))
/// })?;
/// assert_eq!(parts.iter().map(|(packets, _)| packets).sum::<u64>(), 1);
/// assert_eq!(parts.iter().map(|(_, bytes)| bytes).sum::<u64>(), 1500);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Threads that share it make spare parts, which another thread drops. So it is shared only if `T`
/// may go from thread to thread:
///
/// ```
/// # use lockspan_thread::revocable::{PerCpu, Word};
/// fn share<T: Sync>(_: &T) {}
///
/// share(&PerCpu::new(|| Word::new(0)));
/// ```
///
/// A guard must be dropped by its own thread:
///
/// ```compile_fail,E0277
/// # use lockspan_thread::revocable::PerCpu;
/// # use std::sync::Mutex;
/// # fn share<T: Sync>(_: &T) {}
/// static LOCK: Mutex<()> = Mutex::new(());
///
/// share(&PerCpu::new(|| LOCK.try_lock().ok()));
/// ```
pub struct PerCpu<T> {
    chains: Box<[Link<T>]>,
    make: Box<dyn Fn() -> Option<T> + Send + Sync>,
    limit: usize,
}

impl<T> fmt::Debug for PerCpu<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerCpu")
            .field("cpus", &self.cpus())
            .field("parts", &self.parts().count())
            .finish_non_exhaustive()
    }
}

impl<T: Default + 'static> Default for PerCpu<T> {
    fn default() -> Self {
        Self::new(T::default)
    }
}

impl<T> PerCpu<T> {
    /// How many parts a processor has at most, unless [`with_limit`](Self::with_limit) says
    /// otherwise.
    pub const LIMIT: usize = 8;

    /// A part for each processor that the machine can have, made by `make`, which is kept for
    /// spare parts. It may be called more often than there are parts: if two threads need a spare
    /// part at once, one gets the other's.
    pub fn new(make: impl Fn() -> T + Send + Sync + 'static) -> Self {
        Self::with_limit(Self::LIMIT, make)
    }

    /// The same with at most `limit` parts for each processor.
    ///
    /// # Panics
    /// If `limit` is 0, or if there is no memory for the parts.
    pub fn with_limit(limit: usize, make: impl Fn() -> T + Send + Sync + 'static) -> Self {
        let made = Self::try_with_limit(limit, move || Some(make()));
        made.expect("there is memory for a part of each processor")
    }

    /// The same with a `make` that may fail, for want of memory: none if it does at once, or if
    /// there is no memory for the parts. If `make` or the memory fails for a spare part, the thread
    /// takes the processor's first part from its owner. A box for `make` is the only memory without
    /// which the process is aborted.
    ///
    /// # Panics
    /// If `limit` is 0.
    pub fn try_with_limit(
        limit: usize,
        make: impl Fn() -> Option<T> + Send + Sync + 'static,
    ) -> Option<Self> {
        assert!(limit > 0, "a processor needs at least one part");
        let cpus = possible_cpus();
        let mut chains = Vec::new();
        chains.try_reserve_exact(cpus).ok()?;
        for _ in 0..cpus {
            chains.push(Link::new(Lock::new(make()?)));
        }
        Some(Self { chains: chains.into_boxed_slice(), make: Box::new(make), limit })
    }

    /// How many processors have parts: all that the machine can have.
    #[must_use]
    pub fn cpus(&self) -> usize {
        self.chains.len()
    }

    /// The parts, spare ones as well, those of one processor after those of the other. Parts that
    /// are made meanwhile may be among them.
    pub fn parts(&self) -> impl Iterator<Item = &Lock<T>> {
        self.chains.iter().flat_map(Link::chain).map(|link| &link.value)
    }

    /// Becomes the owner of a part of this processor.
    ///
    /// That is the first part, unless its owner refuses a [`Steal::Local`]: it has acquired or
    /// stored on another processor since, or is acquiring the part at this moment; with the backend
    /// `membarrier` any other owner does. Then it is a spare part, which is made if there is none;
    /// if there are as many as the limit says, or there is no memory for one more, the first part
    /// is taken by force. If this thread owns the part already, this costs some loads and
    /// comparisons: [keep](Ticket::keep) the ticket for that, or use [`with`](Self::with).
    ///
    /// # Errors
    /// [`Refused::Thread`] if this thread can own nothing.
    #[inline]
    pub fn acquire(&self) -> Result<Ticket<'_, T>, Refused> {
        self.acquire_from(self.first().1)
    }

    #[inline]
    fn acquire_from<'a>(&'a self, first: &'a Link<T>) -> Result<Ticket<'a, T>, Refused> {
        match first.value.acquire(Steal::Local) {
            Err(Refused::Held) => self.acquire_spare(first),
            result => result,
        }
    }

    /// Calls `work` with the ticket of a part of this processor, and again with another one if that
    /// was taken away. The thread keeps the part until another thread takes it, unless it was moved
    /// to another processor meanwhile: then it releases the part for the threads that are there,
    /// and all its tickets of the part are revoked.
    ///
    /// If `work` makes several stores, those before the last try may have been made as well.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    #[inline]
    pub fn with<R>(
        &self,
        mut work: impl FnMut(&Ticket<'_, T>) -> Result<R, Revoked>,
    ) -> Result<R, Refused> {
        // By itself: a ticket that comes from one place only stays in registers.
        let (cpu, first) = self.first();
        if let Some(ticket) = first.value.acquire_again() {
            let result = work(&ticket);
            ticket.keep_on(cpu);
            if let Ok(result) = result {
                return Ok(result);
            }
        }
        loop {
            let (cpu, first) = self.first();
            let ticket = self.acquire_from(first)?;
            let result = work(&ticket);
            ticket.keep_on(cpu);
            if let Ok(result) = result {
                return Ok(result);
            }
        }
    }

    /// Takes each part from its owner, one after the other and from any processor, calls `work`
    /// with its ticket, and leaves the part to nobody, unless this thread has owned it before: then
    /// it keeps it, if `work` has not bound it to another processor by a store. So `work` may
    /// iterate itself, and this can be called inside [`with`](Self::with). An owner that runs on
    /// another processor uses a spare part meanwhile. What `work` returned for each part.
    ///
    /// All that the former owners have stored is seen, and what `work` loads from one part belongs
    /// together: if the part is taken back before `work` has returned, its result is dropped and
    /// `work` is called again for that part. There is no moment at which all parts are looked at.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    pub fn for_each<R>(
        &self,
        mut work: impl FnMut(&Ticket<'_, T>) -> Result<R, Revoked>,
    ) -> Result<Vec<R>, Refused> {
        self.parts().map(|part| Self::visit(part, &mut work)).collect()
    }

    fn visit<R>(
        part: &Lock<T>,
        work: &mut impl FnMut(&Ticket<'_, T>) -> Result<R, Revoked>,
    ) -> Result<R, Refused> {
        loop {
            // A release would end the acquisition of this thread that was there before, and make
            // an outer call that stores under it begin anew, forever.
            let mine = part.acquire_again();
            let bound = mine.as_ref().map(Ticket::processor);
            let ticket = mine.map_or_else(|| part.acquire(Steal::Force), Ok)?;
            // The last check comes after all loads of `work`.
            let result = work(&ticket).and_then(|result| ticket.check().map(|()| result));
            match bound {
                Some(bound) => ticket.keep_on(bound),
                None => drop(ticket),
            }
            if let Ok(result) = result {
                return Ok(result);
            }
        }
    }

    /// A spare part, or the first one by force.
    #[cold]
    fn acquire_spare<'a>(&'a self, first: &'a Link<T>) -> Result<Ticket<'a, T>, Refused> {
        let mut link = first;
        for length in 1.. {
            link = match link.next() {
                Some(next) => next,
                None if length >= self.limit => break,
                None => match (self.make)().and_then(|words| link.try_append(Lock::new(words))) {
                    Some(spare) => spare,
                    None => break,
                },
            };
            match link.value.acquire(Steal::Local) {
                Err(Refused::Held) => {}
                result => return result,
            }
        }
        first.value.acquire(Steal::Force)
    }

    /// Where this thread begins, at its processor's chain, if that is known; and the number of
    /// that processor.
    #[inline]
    fn first(&self) -> (usize, &Link<T>) {
        let number = Area::current().map_or_else(number_of_this_thread, Area::cpu);
        let chain = self.chains.get(number);
        (number, chain.unwrap_or_else(|| &self.chains[number % self.chains.len()]))
    }
}
