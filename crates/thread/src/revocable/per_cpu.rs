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
//! | has stored to the part on another processor | takes a spare part instead, or makes one |
//! | the same, and there are `limit` parts | takes the first part by a barrier (`Steal::Force`) |
//! | any, and the thread iterates | takes it by a barrier (`Steal::Force`) |
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
/// preempted, and which any thread can take from each processor in turn.
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
/// // From any processor: each part is taken from its owner, read, and left to nobody.
/// let parts = traffic.for_each(|ticket| {
///     Ok((ticket.load(|traffic| &traffic.packets)?, ticket.load(|traffic| &traffic.bytes)?))
/// })?;
/// assert_eq!(parts.iter().map(|(packets, _)| packets).sum::<u64>(), 1);
/// assert_eq!(parts.iter().map(|(_, bytes)| bytes).sum::<u64>(), 1500);
/// # Ok::<(), Box<dyn std::error::Error>>(())
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
    /// If `limit` is 0.
    pub fn with_limit(limit: usize, make: impl Fn() -> T + Send + Sync + 'static) -> Self {
        let made = Self::try_with_limit(limit, move || Some(make()));
        made.expect("`make` has made a value for each processor")
    }

    /// The same with a `make` that may fail, for want of memory: none if it does at once. If it
    /// fails for a spare part, the thread takes the processor's first part from its owner.
    ///
    /// # Panics
    /// If `limit` is 0.
    pub fn try_with_limit(
        limit: usize,
        make: impl Fn() -> Option<T> + Send + Sync + 'static,
    ) -> Option<Self> {
        assert!(limit > 0, "a processor needs at least one part");
        let chains = (0..possible_cpus()).map(|_| make().map(|words| Link::new(Lock::new(words))));
        Some(Self { chains: chains.collect::<Option<_>>()?, make: Box::new(make), limit })
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
    /// That is the first part, unless its owner has stored to it on another processor. Then it is a
    /// spare part, which is made if there is none; if there are as many as the limit says, the
    /// first part is taken by force. If this thread owns the part already, this costs some loads
    /// and comparisons: [keep](Ticket::keep) the ticket for that, or use [`with`](Self::with).
    ///
    /// # Errors
    /// [`Refused::Thread`] if this thread can own nothing.
    #[inline]
    pub fn acquire(&self) -> Result<Ticket<'_, T>, Refused> {
        let first = self.first();
        match first.value.acquire(Steal::Local) {
            Err(Refused::Held) => self.acquire_spare(first),
            result => result,
        }
    }

    /// Calls `work` with the ticket of a part of this processor, and again with another one if that
    /// was taken away. The thread keeps the part until another thread takes it.
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
        if let Some(ticket) = self.first().value.acquire_again() {
            let result = work(&ticket);
            ticket.keep();
            if let Ok(result) = result {
                return Ok(result);
            }
        }
        loop {
            let ticket = self.acquire()?;
            let result = work(&ticket);
            ticket.keep();
            if let Ok(result) = result {
                return Ok(result);
            }
        }
    }

    /// Takes each part from its owner, one after the other and from any processor, calls `work`
    /// with its ticket, and leaves the part to nobody. An owner that runs on another processor
    /// uses a spare part meanwhile. What `work` returned for each part.
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
            let ticket = part.acquire(Steal::Force)?;
            // The last check comes after all loads of `work`.
            let result = work(&ticket).and_then(|result| ticket.check().map(|()| result));
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
                None => match (self.make)() {
                    Some(words) => link.append(Lock::new(words)),
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

    /// Where this thread begins: at its processor's chain, if that is known.
    #[inline]
    fn first(&self) -> &Link<T> {
        let number = Area::current().map_or_else(number_of_this_thread, Area::cpu);
        self.chains.get(number).unwrap_or_else(|| &self.chains[number % self.chains.len()])
    }
}
