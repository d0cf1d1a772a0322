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
//! - **I2** A chain only grows, and has at most as many links as the limit says. Links go with the
//!   whole. See `chain.rs`.
//! - **I3** Which chain a thread begins at is a hint: whatever processor it is on when it has the
//!   value, the value is its own.

use std::cell::RefCell;
use std::fmt;
use std::iter;
use std::ptr;

use super::chain;
use super::parts::number_of_this_thread;
use crate::backend::{Area, possible_cpus};
use crate::biased::{Mutex, MutexGuard};

/// Values of any type, one for each processor and some spares.
///
/// A thread borrows the value of its processor. If another thread was preempted while it borrowed
/// that value, the thread gets a spare, which is made on demand and stays.
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

/// Why there is no value to be had.
#[derive(Debug)]
enum No {
    /// There are as many as there may be, and none is free.
    Room,
    /// Making one needs one.
    End,
}

/// A value behind its lock, in a chain.
type Link<T> = chain::Link<Mutex<T>>;

thread_local! {
    /// Which slots the calling thread is making spares for.
    static MAKING: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// A spare is being made.
#[derive(Debug)]
struct Making;

impl Making {
    /// None if the calling thread is making one for the slot at `address` already.
    fn begin(address: usize) -> Option<Self> {
        let is_new = MAKING.try_with(|making| {
            let mut making = making.borrow_mut();
            let is_new = !making.contains(&address);
            if is_new {
                making.push(address);
            }
            is_new
        });
        // At the end of the thread nothing is written down any more.
        is_new.unwrap_or(true).then_some(Self)
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        let _ = MAKING.try_with(|making| making.borrow_mut().pop());
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
    /// How many values a processor has at most by default. See [`with_limit`](Self::with_limit).
    pub const LIMIT: usize = 8;

    /// Makes a value for each processor that the machine can have with `make`, and spares later. If
    /// two threads need a spare at once, both call `make`, and one of the two values is dropped.
    #[must_use]
    pub fn new(make: impl Fn() -> T + Send + Sync + 'static) -> Self {
        Self::with_limit(Self::LIMIT, make)
    }

    /// [`new`](Self::new) with at most `limit` values for each processor. Defaults to 8.
    ///
    /// # Panics
    /// If `limit` is 0.
    #[must_use]
    pub fn with_limit(limit: usize, make: impl Fn() -> T + Send + Sync + 'static) -> Self {
        assert!(limit > 0, "a processor needs at least one value");
        let chains = (0..possible_cpus()).map(|_| Link::new(Mutex::new(make()))).collect();
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

    /// Always `false`: there is a value for each processor.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Calls `work` with a value that nobody else uses: the one of this processor if it is free,
    /// otherwise a spare. A call inside `work` gets another value.
    #[inline]
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        work(&mut self.lock())
    }

    /// Like [`with`](Self::with), as a guard.
    ///
    /// Waits if this processor has as many values as the limit allows and none is free. A thread
    /// that holds as many guards as the limit may deadlock with itself.
    ///
    /// # Panics
    /// If the function that makes values calls this, and another value would have to be made.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let first = self.first();
        first.value.try_lock().unwrap_or_else(|| self.lock_spare(first))
    }

    /// Like [`lock`](Self::lock), but returns `None` instead of waiting or panicking.
    #[must_use]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.try_chain(self.first()).ok()
    }

    #[cold]
    fn lock_spare<'a>(&'a self, first: &'a Link<T>) -> MutexGuard<'a, T> {
        match self.try_chain(first) {
            Ok(held) => held,
            Err(No::Room) => first.value.lock(),
            Err(No::End) => panic!("a spare is needed to make a spare"),
        }
    }

    /// A free value of the chain, or a new one at its end.
    fn try_chain<'a>(&'a self, first: &'a Link<T>) -> Result<MutexGuard<'a, T>, No> {
        let mut link = first;
        for length in 1.. {
            if let Some(held) = link.value.try_lock() {
                return Ok(held);
            }
            link = match link.next() {
                Some(next) => next,
                None if length >= self.limit => break,
                None => link.append(Mutex::new(self.make_spare().ok_or(No::End)?)),
            };
        }
        Err(No::Room)
    }

    /// A new value; none if this is called by who makes one.
    fn make_spare(&self) -> Option<T> {
        let _making = Making::begin(ptr::from_ref(self).addr())?;
        Some((self.make)())
    }

    /// Calls `work` with each value, including spares, one after the other, from any thread. Waits
    /// for threads that use a value. The other values may change meanwhile.
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

    /// All values, for a caller with exclusive access.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.chains.iter_mut().flat_map(|first| {
            let mut next = Some(first);
            iter::from_fn(move || {
                let (value, behind) = next.take()?.split();
                next = behind;
                Some(value.get_mut())
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
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::{OnceLock, mpsc};
    use std::thread;
    use std::time::Duration;

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
    fn who_makes_a_value_may_use_the_slot_unless_that_takes_another_one() {
        static SLOTS: OnceLock<Slot<&str>> = OnceLock::new();
        let tries = || match SLOTS.get().map(Slot::try_lock) {
            None => "first",
            Some(None) => "none was free",
            Some(Some(_)) => "one was free",
        };
        let slots = SLOTS.get_or_init(|| Slot::new(tries));
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let held: Vec<_> = slots.chains.iter().map(|first| first.value.lock()).collect();
            sender.send(*slots.lock()).unwrap();
            drop(held);
        });
        assert_eq!(receiver.recv_timeout(Duration::from_secs(60)), Ok("none was free"));

        static PANICS: OnceLock<Slot<()>> = OnceLock::new();
        let slots = PANICS.get_or_init(|| Slot::new(|| PANICS.get().map_or((), |s| *s.lock())));
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let held: Vec<_> = slots.chains.iter().map(|first| first.value.lock()).collect();
            let panics = catch_unwind(AssertUnwindSafe(|| drop(slots.lock()))).is_err();
            drop(held);
            // Nothing is left of the attempt.
            slots.with(|()| ());
            sender.send((panics, slots.len() - slots.cpus())).unwrap();
        });
        assert_eq!(receiver.recv_timeout(Duration::from_secs(60)), Ok((true, 0)));
    }

    #[test]
    fn a_long_chain_goes_without_deep_calls() {
        let slots = Slot::with_limit(usize::MAX, || 0_u8);
        let count = if cfg!(miri) { 20 } else { 20_000 };
        // The first few by biases, the others as they are.
        let link = &slots.chains[0];
        let mut last = link;
        for _ in 0..count {
            last = last.append(Mutex::new(0));
        }
        assert_eq!(slots.len(), slots.cpus() + count);
        drop(slots);
    }
}
