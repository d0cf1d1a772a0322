//! Who may pass whom: the hand-over policy, a parameter of the lock's type.

use core::fmt;
use core::marker::PhantomData;
use std::thread::available_parallelism;
use std::time::Duration;

use lockspan_park::uncancelled;

use super::clock;
use crate::sync::machine::{AtomicUsize, Ordering};

/// Decides whether a thread that arrives may pass those that wait.
///
/// The lock asks one question: *may an arrival at this time still pass?* It may while the time is
/// before the lock's `due` time, which is [`Policy::quantum`] after the last waiter's turn and
/// never later than [`Policy::bound`] after the oldest waiter began to wait.
///
/// Implement it to inject a clock in tests, or to choose another bound.
pub trait Policy: Sized + Send + Sync + 'static {
    /// False: nobody passes a waiter, ever, and no time is asked for.
    const PASSING: bool;

    /// The present time, in ticks of the policy's own.
    fn now() -> u64;

    /// How long arrivals may pass after a waiter had its turn. At most [`Policy::bound`].
    fn quantum() -> u64;

    /// The age at which a waiter can no longer be passed.
    fn bound() -> u64;

    /// How long that many ticks are.
    fn duration(ticks: u64) -> Duration;

    /// How many readers are let in together while a writer waits, unless one of them has waited
    /// for longer than the bound: then, and with the default, all of them.
    fn crowd() -> usize {
        usize::MAX
    }

    /// At which pass an arrival asks the clock: the first, the second… An arrival that does not ask
    /// may pass a waiter that has just reached the bound: `ASKING - 1` of them, and as many again
    /// for each arrival that races with another at that moment. With 1, none.
    const ASKING: u32 = 1;

    /// How often a scheduler looks into the inbox before it hands its office on. At least once.
    const LOOKS: u32 = 64;
}

/// The default: an arrival may pass, but never a waiter older than `MICROS` microseconds.
///
/// After each waiter's turn, arrivals have at most [`QUANTUM_MICROS`] before the next waiter is
/// handed the lock. That is what keeps the throughput of a lock that lets everybody pass: a thread
/// that runs and has the lock's data in its cache goes on for a while, and the others take turns.
#[derive(Clone, Copy, Default)]
pub struct Bounded<const MICROS: u64 = 10_000>;

/// How long arrivals may pass the waiters of a [`Bounded`] lock after a waiter's turn.
pub const QUANTUM_MICROS: u64 = 400;

impl<const MICROS: u64> Policy for Bounded<MICROS> {
    const PASSING: bool = true;
    const ASKING: u32 = 8;

    #[inline]
    fn now() -> u64 {
        clock::now()
    }

    #[inline]
    fn quantum() -> u64 {
        clock::from_micros(MICROS.min(QUANTUM_MICROS))
    }

    #[inline]
    fn bound() -> u64 {
        clock::from_micros(MICROS)
    }

    fn duration(ticks: u64) -> Duration {
        Duration::from_micros(ticks / clock::from_micros(1))
    }

    /// As many as there are processors: a reader that has the lock but no processor keeps the
    /// writers out for nothing.
    fn crowd() -> usize {
        /// 0 until it is known. A thread that comes too early finds it out again: to wait for
        /// another thread would be a deadlock in a child of a fork that it is not in.
        static PROCESSORS: AtomicUsize = AtomicUsize::new(0);
        match PROCESSORS.load(Ordering::Relaxed) {
            0 => {
                // It reads files of the control group, which is a cancellation point.
                let count = uncancelled(available_parallelism).map_or(2, usize::from);
                PROCESSORS.store(count, Ordering::Relaxed);
                count
            }
            count => count,
        }
    }
}

impl<const MICROS: u64> fmt::Debug for Bounded<MICROS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bounded<{MICROS} µs>")
    }
}

/// As `P`, but everybody who gathered goes in together: when it is the readers' turn, all who wait
/// are let in at once, whatever [`Policy::crowd`] says.
///
/// For sections that wait for something else than a processor (input and output under the lock, a
/// reader that holds the lock over a remote call): with [`Bounded`] alone, as many of them run side
/// by side as there are processors while a writer waits, until one has waited for the bound. The
/// price is paid by writers, who wait for all these readers.
///
/// Measured with 32 threads on two processors, reads that sleep for 1 ms and 10 % writes: 1.3
/// times the throughput of [`Bounded`], and 31 ms instead of 13 ms as the writers' p99. For short
/// sections there was no difference that could be told from noise (`benches/results-gathered`).
///
/// ```
/// use lockspan_thread::fair::{PolicyRwLock, Together};
///
/// let lock = PolicyRwLock::<_, Together>::new(5); // passing as with `Bounded`
/// assert_eq!(*lock.read(), 5);
/// ```
pub struct Together<P = Bounded>(PhantomData<fn() -> P>);

impl<P: Policy> Policy for Together<P> {
    const PASSING: bool = P::PASSING;
    const ASKING: u32 = P::ASKING;
    const LOOKS: u32 = P::LOOKS;

    #[inline]
    fn now() -> u64 {
        P::now()
    }

    #[inline]
    fn quantum() -> u64 {
        P::quantum()
    }

    #[inline]
    fn bound() -> u64 {
        P::bound()
    }

    fn duration(ticks: u64) -> Duration {
        P::duration(ticks)
    }

    fn crowd() -> usize {
        usize::MAX
    }
}

impl<P> Clone for Together<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for Together<P> {}

impl<P> Default for Together<P> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<P: Default + fmt::Debug> fmt::Debug for Together<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Together<{:?}>", P::default())
    }
}

/// Nobody passes a waiter: phase-fair hand-over always.
#[derive(Clone, Copy, Debug, Default)]
pub struct Strict;

impl Policy for Strict {
    const PASSING: bool = false;

    fn now() -> u64 {
        0
    }

    fn quantum() -> u64 {
        0
    }

    fn bound() -> u64 {
        0
    }

    fn duration(_ticks: u64) -> Duration {
        Duration::ZERO
    }
}
