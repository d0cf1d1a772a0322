//! Values of which each processor has one, and more if one is not to be had: pseudo-per-CPU data.
//!
//! A value of any type cannot be changed by one store, so a thread that is moved or preempted in
//! the middle keeps what it has. Nobody is evicted: the next thread on that processor takes a
//! *spare* value instead, which is made then, and stays. How many threads can be in the middle on
//! one processor bounds the number of spares, and so does a limit; beyond that a thread waits.
//!
//! ```text
//! processor 0   value ── spare ── spare
//! processor 1   value
//! processor 2   value ── spare
//! ```
//!
//! # Invariants
//!
//! - **I1** Each value has a [biased mutex](crate::biased) of its own. On a processor where one
//!   thread runs most of the time it costs about a plain store.
//! - **I2** A chain only grows, by one link at its end, and has at most as many as the limit says.
//!   Links go with the whole.
//! - **I3** Which chain a thread begins at is a hint: whatever processor it is on when it has the
//!   value, the value is its own.

use std::fmt;
use std::iter;
use std::sync::OnceLock;

use super::parts::number_of_this_thread;
use crate::backend::{Area, possible_cpus};
use crate::biased::{Mutex, MutexGuard};

/// Values, one for each processor and some to spare. See the [module](super) for when to use it.
///
/// ```
/// use lockspan_thread::percpu::Slot;
///
/// let lengths = Slot::new(Vec::new);
/// lengths.with(|lengths| lengths.push(7));
/// let mut all = Vec::new();
/// lengths.for_each(|lengths| all.append(lengths));
/// assert_eq!(all, [7]);
/// ```
pub struct Slot<T> {
    chains: Box<[Link<T>]>,
    make: Box<dyn Fn() -> T + Send + Sync>,
    limit: usize,
}

/// A value, away from others' cache lines, and the next one of the same processor.
#[repr(align(128))]
struct Link<T> {
    value: Mutex<T>,
    next: OnceLock<Box<Self>>,
}

impl<T> Link<T> {
    fn new(value: T) -> Self {
        Self { value: Mutex::new(value), next: OnceLock::new() }
    }

    /// This link and those behind it.
    fn chain(&self) -> impl Iterator<Item = &Self> {
        iter::successors(Some(self), |link| link.next.get().map(Box::as_ref))
    }
}

impl<T> Drop for Link<T> {
    fn drop(&mut self) {
        // One after the other, not in ever deeper calls.
        let mut next = self.next.take();
        while let Some(mut link) = next {
            next = link.next.take();
        }
    }
}

impl<T> fmt::Debug for Slot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot")
            .field("cpus", &self.cpus())
            .field("values", &self.len())
            .finish_non_exhaustive()
    }
}

impl<T: Default + 'static> Default for Slot<T> {
    fn default() -> Self {
        Self::new(T::default)
    }
}

impl<T> Slot<T> {
    /// How many values a processor has at most, unless `with_limit` says otherwise.
    pub const LIMIT: usize = 8;

    /// A value for each processor that the machine can have, made by `make`, which is kept for
    /// spares.
    pub fn new(make: impl Fn() -> T + Send + Sync + 'static) -> Self {
        Self::with_limit(Self::LIMIT, make)
    }

    /// The same with at most `limit` values for each processor.
    ///
    /// # Panics
    /// If `limit` is 0.
    pub fn with_limit(limit: usize, make: impl Fn() -> T + Send + Sync + 'static) -> Self {
        assert!(limit > 0, "a processor needs at least one value");
        let chains = (0..possible_cpus()).map(|_| Link::new(make())).collect();
        Self { chains, make: Box::new(make), limit }
    }

    /// How many processors have values: all that the machine can have.
    #[must_use]
    pub fn cpus(&self) -> usize {
        self.chains.len()
    }

    /// How many values there are by now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.links().count()
    }

    /// There is a value for each processor, and there are processors.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Calls `work` with a value that nobody else has: this processor's if it is free, else a
    /// spare. Within `work` a further call gets another value.
    #[inline]
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        work(&mut self.lock())
    }

    /// The same as a guard.
    ///
    /// Waits if this processor has as many values as it may and none is free. So a thread that
    /// has as many guards as the limit says, and wants one more, may wait for itself.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let first = self.first();
        first.value.try_lock().unwrap_or_else(|| self.lock_spare(first))
    }

    /// Like [`lock`](Self::lock), but none instead of waiting.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.try_chain(self.first())
    }

    #[cold]
    fn lock_spare<'a>(&'a self, first: &'a Link<T>) -> MutexGuard<'a, T> {
        self.try_chain(first).unwrap_or_else(|| first.value.lock())
    }

    /// A free value of the chain, or a new one at its end.
    fn try_chain<'a>(&'a self, first: &'a Link<T>) -> Option<MutexGuard<'a, T>> {
        let mut link = first;
        for length in 1.. {
            if let Some(held) = link.value.try_lock() {
                return Some(held);
            }
            link = match link.next.get() {
                Some(next) => next,
                None if length >= self.limit => return None,
                // If two threads come at once, one waits for the other's to be made.
                None => link.next.get_or_init(|| Box::new(Link::new((self.make)()))),
            };
        }
        None
    }

    /// Calls `work` with each value, spares as well, one after the other, from any thread. Waits
    /// for who has one. What happens to the others meanwhile is not seen.
    pub fn for_each(&self, mut work: impl FnMut(&mut T)) {
        self.links().for_each(|link| work(&mut link.value.lock()));
    }

    /// Takes each value and leaves a new one in its place.
    pub fn drain(&self) -> Vec<T> {
        // Made before the lock is taken: `make` is the user's, and may take its time.
        let fresh = |link: &Link<T>| {
            let new = (self.make)();
            std::mem::replace(&mut *link.value.lock(), new)
        };
        self.links().map(fresh).collect()
    }

    /// All values, for who has the whole for itself.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.chains.iter_mut().flat_map(|first| {
            let mut next = Some(first);
            iter::from_fn(move || {
                let link = next.take()?;
                next = link.next.get_mut().map(Box::as_mut);
                Some(link.value.get_mut())
            })
        })
    }

    fn links(&self) -> impl Iterator<Item = &Link<T>> {
        self.chains.iter().flat_map(Link::chain)
    }

    /// Where this thread begins: at its processor's chain, if that is known.
    #[inline]
    fn first(&self) -> &Link<T> {
        let number = Area::current().map_or_else(number_of_this_thread, Area::cpu);
        self.chains.get(number).unwrap_or_else(|| &self.chains[number % self.chains.len()])
    }
}

#[cfg(all(test, not(any(lockspan_loom, lockspan_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_value_for_each_processor_and_a_spare_for_who_finds_it_taken() {
        let slots = Slot::with_limit(3, || 0_u64);
        assert_eq!(slots.len(), slots.cpus());
        let held: Vec<_> = iter::from_fn(|| slots.try_lock()).take(100).collect();
        // If this thread moves meanwhile, it finds the values of more processors.
        assert!((3..=3 * slots.cpus()).contains(&held.len()), "{}", held.len());
        let values = slots.len();
        assert!(values >= slots.cpus() + 2 && values <= 3 * slots.cpus());
        drop(held);
        slots.with(|value| *value += 1);
        assert_eq!(slots.len(), values, "a spare is used again");
        assert!(!slots.is_empty());
    }

    #[test]
    fn all_values_are_reached_from_anywhere() {
        let mut slots: Slot<Vec<u64>> = Slot::default();
        slots.with(|outer| {
            outer.push(1);
            slots.with(|inner| inner.push(2));
        });
        let mut sum = 0;
        slots.for_each(|values| sum += values.iter().sum::<u64>());
        assert_eq!(sum, 3);
        slots.iter_mut().for_each(|values| values.push(10));
        let drained: u64 = slots.drain().iter().flatten().sum();
        assert_eq!(drained, 3 + 10 * slots.len() as u64);
        slots.for_each(|values| assert!(values.is_empty()));
        assert!(format!("{slots:?}").starts_with("Slot { cpus: "));
    }

    #[test]
    fn a_long_chain_goes_without_deep_calls() {
        let slots = Slot::with_limit(usize::MAX, || 0_u8);
        let count = if cfg!(miri) { 20 } else { 20_000 };
        // The first few by biases, the others as they are.
        let link = &slots.chains[0];
        let mut last = link;
        for _ in 0..count {
            last = last.next.get_or_init(|| Box::new(Link::new(0)));
        }
        assert_eq!(slots.len(), slots.cpus() + count);
        drop(slots);
    }
}
