//! Who may pass whom: the hand-over policy, a parameter of the lock's type.

use core::fmt;
use core::marker::PhantomData;
use std::thread::available_parallelism;
use std::time::Duration;

use lockspan_park::uncancelled;

use super::clock;
use crate::sync::machine::{AtomicUsize, Ordering};

/// Decides whether an arriving thread may pass the threads that wait.
///
/// An arrival may pass until the lock is *due*: [`Policy::quantum`] after the last waiter's turn,
/// and never later than [`Policy::bound`] after the oldest waiter began to wait.
///
/// [`Bounded`], [`Strict`] and [`Together`] are policies. Implement the trait to inject a clock in
/// tests.
pub trait Policy: Sized + Send + Sync + 'static {
    /// Whether arrivals may pass waiters at all. With `false` the clock is never read.
    const PASSING: bool;

    /// The current time, in ticks of any length.
    fn now() -> u64;

    /// How many ticks arrivals may pass after a waiter had its turn. At most [`Policy::bound`].
    fn quantum() -> u64;

    /// After how many ticks of waiting a waiter can no longer be passed.
    fn bound() -> u64;

    /// The duration of this many ticks.
    fn duration(ticks: u64) -> Duration;

    /// How many readers are let in together while a writer waits. Once one of them has waited for
    /// longer than the bound, all of them are. Defaults to all.
    fn crowd() -> usize {
        usize::MAX
    }

    /// At every how many passes the clock is read. Defaults to 1. After the bound is reached, up to
    /// `ASKING - 1` arrivals may still pass, and as many again for each arrival that races with
    /// another at that moment.
    const ASKING: u32 = 1;

    /// How many rounds one thread works for other waiters before it passes that work on. Defaults
    /// to 64; at least 1.
    const LOOKS: u32 = 64;
}

/// The default policy: an arrival may pass waiters, but none that has waited for longer than
/// `MICROS` microseconds. Defaults to 10 ms.
///
/// After each waiter's turn, arrivals may pass for at most [`QUANTUM_MICROS`] before the next
/// waiter gets the lock. That keeps the throughput high: a running thread, which has the data in
/// its cache, goes on for a while, and then another has its turn.
#[derive(Clone, Copy, Default)]
pub struct Bounded<const MICROS: u64 = 10_000>;

/// For how many microseconds arrivals may pass the waiters of a [`Bounded`] lock after a waiter's
/// turn.
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

/// The policy `P`, but at the readers' turn all waiting readers are let in at once, whatever
/// [`Policy::crowd`] says.
///
/// Use it when readers wait for something other than a processor while they hold the lock, such as
/// input and output or a remote call. With [`Bounded`] alone, only as many of them run at the same
/// time as there are processors while a writer waits. The price: a writer waits for all these
/// readers.
///
/// Measured with 32 threads on two processors, reads that sleep for 1 ms and 10 % writes: 1.3
/// times the throughput of [`Bounded`], and 31 ms instead of 13 ms as the writers' p99. For short
/// sections no difference was seen (`benches/results/gathered`).
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

/// The policy under which nobody passes a waiter.
///
/// Every turn is a hand-over to a sleeping thread when threads outnumber processors: expect a small
/// fraction of the throughput of [`Bounded`] then.
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
