//! [`ClaimLock`] with its data: how to come in, and where each guard can go.

use std::time::Duration;

use super::super::guard::{Guard, Locked};
use super::super::state::{Alone, Atomic, Claim, Holds, HoldsAlone, Join, Read, sealed};
use super::{RawClaimLock, Unfinished};
use crate::progressive::until;

/// A lock with the states Read, Join, Claim, Atomic and Alone; see the [module](super).
pub type ClaimLock<T> = Locked<RawClaimLock, T>;
/// Guard of a reader, beside other readers.
pub type ReadGuard<'a, T> = Guard<'a, RawClaimLock, Read, T>;
/// Guard of a joiner, on the way to Claim. Beside it are readers and other joiners; until it asks
/// for its claim, also claimants, or the atomics of the phase that it came from.
pub type JoinGuard<'a, T> = Guard<'a, RawClaimLock, Join, T>;
/// Guard of a claimant: it marks what it will change, beside other claimants.
pub type ClaimGuard<'a, T> = Guard<'a, RawClaimLock, Claim, T>;
/// Guard of an atomic: it changes what it has marked, beside other atomics.
pub type AtomicGuard<'a, T> = Guard<'a, RawClaimLock, Atomic, T>;
/// Guard of the exclusive Join, which is alone.
pub type AloneGuard<'a, T> = Guard<'a, RawClaimLock, Alone, T>;

impl sealed::Sealed<Read> for RawClaimLock {}
impl sealed::Sealed<Join> for RawClaimLock {}
impl sealed::Sealed<Claim> for RawClaimLock {}
impl sealed::Sealed<Atomic> for RawClaimLock {}
impl sealed::Sealed<Alone> for RawClaimLock {}

impl Holds<Read> for RawClaimLock {
    #[inline]
    fn leave(&self) {
        self.read_done();
    }
}

impl Holds<Join> for RawClaimLock {
    #[inline]
    fn leave(&self) {
        self.join_done();
    }
}

impl Holds<Claim> for RawClaimLock {
    #[inline]
    fn leave(&self) {
        self.claim_done();
    }
}

impl Holds<Atomic> for RawClaimLock {
    #[inline]
    fn leave(&self) {
        self.atomic_done();
    }
}

impl Holds<Alone> for RawClaimLock {
    #[inline]
    fn leave(&self) {
        self.alone_done();
    }
}

// SAFETY: I1 of the module: the exclusive joiner is alone.
unsafe impl HoldsAlone<Alone> for RawClaimLock {}

#[cfg(not(lockspan_loom))]
impl<T> Locked<RawClaimLock, T> {
    /// A lock around `data`.
    pub const fn new(data: T) -> Self {
        Self::from_parts(RawClaimLock::new(), data)
    }
}

impl<T: ?Sized> Locked<RawClaimLock, T> {
    /// U→R: waits to read.
    #[inline]
    pub fn read(&self) -> ReadGuard<'_, T> {
        self.raw.read();
        self.guard()
    }

    /// U→R, if nobody is in the way.
    #[inline]
    pub fn try_read(&self) -> Option<ReadGuard<'_, T>> {
        self.raw.try_read().then(|| self.guard())
    }

    /// U→R, within `timeout`.
    pub fn read_timeout(&self, timeout: Duration) -> Option<ReadGuard<'_, T>> {
        self.raw.read_until(until(timeout)).then(|| self.guard())
    }

    /// U→C: joins, and waits for the claim phase.
    #[inline]
    pub fn claim(&self) -> ClaimGuard<'_, T> {
        self.raw.claim();
        self.guard()
    }

    /// U→C, if nobody is inside.
    #[inline]
    pub fn try_claim(&self) -> Option<ClaimGuard<'_, T>> {
        self.raw.try_claim().then(|| self.guard())
    }

    /// U→C, within `timeout`.
    pub fn claim_timeout(&self, timeout: Duration) -> Option<ClaimGuard<'_, T>> {
        self.raw.claim_until(until(timeout)).then(|| self.guard())
    }

    /// U→A: waits to change the data beside others that do, without a claim of its own.
    ///
    /// For changes that go together with whatever claimants may have marked, as a counter's. It
    /// comes in beside atomics, unless one of them already waits to read or to claim again; from
    /// then on it waits for the next atomic phase. While it waits for readers, no reader comes in;
    /// other threads that ask for Atomic may, and wait with it.
    ///
    /// It sees what was marked and changed before it came in. What it did itself before is not
    /// ordered before what any atomic of the same phase does, earlier or later, as a claimant's
    /// marks are: to show them something, a pointer to a new node for example, takes an atomic with
    /// `Release` and `Acquire` of its own.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering};
    /// use lockspan_thread::progressive::claim::{AtomicGuard, ClaimLock, JoinGuard};
    ///
    /// let lock = ClaimLock::new(AtomicU32::new(0));
    /// let atomic = lock.atomic();
    /// let other = lock.try_atomic().expect("atomics are together");
    /// other.fetch_add(1, Ordering::Relaxed);
    /// let join = AtomicGuard::join(other); // for the next round, or not:
    /// let other = JoinGuard::try_atomic(join).expect("the atomic phase goes on");
    /// drop((atomic, other));
    /// assert_eq!(lock.read().load(Ordering::Relaxed), 1);
    /// ```
    #[inline]
    pub fn atomic(&self) -> AtomicGuard<'_, T> {
        self.raw.atomic();
        self.guard()
    }

    /// U→A, if nobody is in the way.
    #[inline]
    pub fn try_atomic(&self) -> Option<AtomicGuard<'_, T>> {
        self.raw.try_atomic().then(|| self.guard())
    }

    /// U→A, within `timeout`.
    pub fn atomic_timeout(&self, timeout: Duration) -> Option<AtomicGuard<'_, T>> {
        self.raw.atomic_until(until(timeout)).then(|| self.guard())
    }

    /// U→J alone: waits until nobody is inside, and keeps it so.
    #[inline]
    pub fn join_alone(&self) -> AloneGuard<'_, T> {
        self.raw.join_alone();
        self.guard()
    }

    /// U→J alone, if the lock is idle.
    #[inline]
    pub fn try_join_alone(&self) -> Option<AloneGuard<'_, T>> {
        self.raw.try_join_alone().then(|| self.guard())
    }

    /// U→J alone, within `timeout`.
    pub fn join_alone_timeout(&self, timeout: Duration) -> Option<AloneGuard<'_, T>> {
        self.raw.join_alone_until(until(timeout)).then(|| self.guard())
    }
}

impl<'a, T: ?Sized> Guard<'a, RawClaimLock, Read, T> {
    /// R→J: joins, and goes on meanwhile. Nobody comes in to read from now on; the claim phase
    /// begins when all readers have left or joined.
    #[inline]
    pub fn join(this: Self) -> JoinGuard<'a, T> {
        Self::raw(&this).read_to_join();
        Self::moved(this)
    }

    /// R→C: joins, and waits for the claim phase.
    #[inline]
    pub fn claim(this: Self) -> ClaimGuard<'a, T> {
        Self::raw(&this).read_to_claim();
        Self::moved(this)
    }

    /// R→C, if nobody else reads.
    ///
    /// # Errors
    /// The guard as it was.
    #[inline]
    pub fn try_claim(this: Self) -> Result<ClaimGuard<'a, T>, Self> {
        let has_moved = Self::raw(&this).try_read_to_claim();
        Self::moved_if(this, has_moved)
    }

    /// R→C, within `timeout`.
    ///
    /// # Errors
    /// The guard as it was; others may read again.
    pub fn claim_timeout(this: Self, timeout: Duration) -> Result<ClaimGuard<'a, T>, Self> {
        let has_moved = Self::raw(&this).read_to_claim_until(until(timeout));
        Self::moved_if(this, has_moved)
    }
}

/// To give up: [`try_read`](Self::try_read) for a thread that came from Read,
/// [`try_atomic`](Self::try_atomic) for one that came from Atomic, or drop the guard.
impl<'a, T: ?Sized> Guard<'a, RawClaimLock, Join, T> {
    /// J→C: waits for the claim phase.
    #[inline]
    pub fn claim(this: Self) -> ClaimGuard<'a, T> {
        Self::raw(&this).join_to_claim();
        Self::moved(this)
    }

    /// J→C, if the claim phase has begun.
    ///
    /// # Errors
    /// The guard as it was.
    #[inline]
    pub fn try_claim(this: Self) -> Result<ClaimGuard<'a, T>, Self> {
        let has_moved = Self::raw(&this).try_join_to_claim();
        Self::moved_if(this, has_moved)
    }

    /// J→C, within `timeout`.
    ///
    /// # Errors
    /// The guard as it was.
    pub fn claim_timeout(this: Self, timeout: Duration) -> Result<ClaimGuard<'a, T>, Self> {
        let has_moved = Self::raw(&this).join_to_claim_until(until(timeout));
        Self::moved_if(this, has_moved)
    }

    /// J→R: gives up and reads. At once until the claim phase begins; from then on, and after
    /// Atomic, it waits until others have made their changes.
    #[inline]
    pub fn read(this: Self) -> ReadGuard<'a, T> {
        Self::raw(&this).join_to_read();
        Self::moved(this)
    }

    /// J→R, if readers are inside. A thread that came from Read is refused only if the claim phase
    /// has begun.
    ///
    /// # Errors
    /// The guard as it was.
    #[inline]
    pub fn try_read(this: Self) -> Result<ReadGuard<'a, T>, Self> {
        let has_moved = Self::raw(&this).try_join_to_read();
        Self::moved_if(this, has_moved)
    }

    /// J→R, within `timeout`.
    ///
    /// # Errors
    /// The guard as it was, or a guard in Atomic if the claim phase that it had joined for is over
    /// and others change the data: it can do nothing there, and wait on for
    /// [`read`](AtomicGuard::read). A guard in Join would go on to claim by what it read before
    /// those changes.
    pub fn read_timeout(
        this: Self,
        timeout: Duration,
    ) -> Result<ReadGuard<'a, T>, Unfinished<Self, AtomicGuard<'a, T>>> {
        match Self::raw(&this).join_to_read_until(until(timeout)) {
            Ok(()) => Ok(Self::moved(this)),
            Err(Unfinished::Back(())) => Err(Unfinished::Back(this)),
            Err(Unfinished::HalfWay(())) => Err(Unfinished::HalfWay(Self::moved(this))),
        }
    }

    /// J→A: gives up and changes beside others, without a claim of its own. At once while the
    /// atomic phase lasts that it came from; else it waits for the next one.
    #[inline]
    pub fn atomic(this: Self) -> AtomicGuard<'a, T> {
        Self::raw(&this).join_to_atomic();
        Self::moved(this)
    }

    /// J→A, if it need not wait. A thread that came from Atomic is refused only if the atomic
    /// phase is over: the other atomics have left, read again or joined again.
    ///
    /// # Errors
    /// The guard as it was.
    #[inline]
    pub fn try_atomic(this: Self) -> Result<AtomicGuard<'a, T>, Self> {
        let has_moved = Self::raw(&this).try_join_to_atomic();
        Self::moved_if(this, has_moved)
    }

    /// J→A, within `timeout`.
    ///
    /// # Errors
    /// The guard as it was.
    pub fn atomic_timeout(this: Self, timeout: Duration) -> Result<AtomicGuard<'a, T>, Self> {
        let has_moved = Self::raw(&this).join_to_atomic_until(until(timeout));
        Self::moved_if(this, has_moved)
    }
}

impl<'a, T: ?Sized> Guard<'a, RawClaimLock, Claim, T> {
    /// C→A: waits until nobody claims any more. To give up instead, take the marks back and drop
    /// the guard; to stay inside until the others have done their work: [`refuge`](Self::refuge).
    #[inline]
    pub fn atomic(this: Self) -> AtomicGuard<'a, T> {
        Self::raw(&this).claim_to_atomic();
        Self::moved(this)
    }

    /// C→A, if nobody else claims.
    ///
    /// # Errors
    /// The guard as it was.
    #[inline]
    pub fn try_atomic(this: Self) -> Result<AtomicGuard<'a, T>, Self> {
        let has_moved = Self::raw(&this).try_claim_to_atomic();
        Self::moved_if(this, has_moved)
    }

    /// C→A, within `timeout`.
    ///
    /// # Errors
    /// The guard as it was: it still claims.
    pub fn atomic_timeout(this: Self, timeout: Duration) -> Result<AtomicGuard<'a, T>, Self> {
        let has_moved = Self::raw(&this).claim_to_atomic_until(until(timeout));
        Self::moved_if(this, has_moved)
    }

    /// C→R: lets the others make their changes, and reads again. The structure is held all the
    /// time, so nothing happens to it but what others in Claim and Atomic do. Among these may be
    /// threads without a claim: [`ClaimLock::atomic`], [`JoinGuard::atomic`].
    #[inline]
    pub fn refuge(this: Self) -> ReadGuard<'a, T> {
        Self::raw(&this).claim_to_read();
        Self::moved(this)
    }

    /// C→R, if nobody else claims and nobody waits for Atomic, after a claim or without one.
    ///
    /// # Errors
    /// The guard as it was.
    #[inline]
    pub fn try_refuge(this: Self) -> Result<ReadGuard<'a, T>, Self> {
        let has_moved = Self::raw(&this).try_claim_to_read();
        Self::moved_if(this, has_moved)
    }

    /// C→R, within `timeout`.
    ///
    /// # Errors
    /// The guard as it was, or a guard in Atomic if the claim phase is over: it can do nothing
    /// there, and wait on for [`read`](AtomicGuard::read).
    pub fn refuge_timeout(
        this: Self,
        timeout: Duration,
    ) -> Result<ReadGuard<'a, T>, Unfinished<Self, AtomicGuard<'a, T>>> {
        match Self::raw(&this).claim_to_read_until(until(timeout)) {
            Ok(()) => Ok(Self::moved(this)),
            Err(Unfinished::Back(())) => Err(Unfinished::Back(this)),
            Err(Unfinished::HalfWay(())) => Err(Unfinished::HalfWay(Self::moved(this))),
        }
    }
}

impl<'a, T: ?Sized> Guard<'a, RawClaimLock, Atomic, T> {
    /// A→R: waits until the last atomic has left or moved on.
    #[inline]
    pub fn read(this: Self) -> ReadGuard<'a, T> {
        Self::raw(&this).atomic_to_read();
        Self::moved(this)
    }

    /// A→R, if it is the last atomic.
    ///
    /// # Errors
    /// The guard as it was.
    #[inline]
    pub fn try_read(this: Self) -> Result<ReadGuard<'a, T>, Self> {
        let has_moved = Self::raw(&this).try_atomic_to_read();
        Self::moved_if(this, has_moved)
    }

    /// A→R, within `timeout`.
    ///
    /// # Errors
    /// The guard as it was.
    pub fn read_timeout(this: Self, timeout: Duration) -> Result<ReadGuard<'a, T>, Self> {
        let has_moved = Self::raw(&this).atomic_to_read_until(until(timeout));
        Self::moved_if(this, has_moved)
    }

    /// A→J: joins again, for the next round, and goes on meanwhile.
    #[inline]
    pub fn join(this: Self) -> JoinGuard<'a, T> {
        Self::raw(&this).atomic_to_join();
        Self::moved(this)
    }

    /// A→C: joins again, and waits for the next claim phase.
    #[inline]
    pub fn claim(this: Self) -> ClaimGuard<'a, T> {
        Self::raw(&this).atomic_to_claim();
        Self::moved(this)
    }

    /// A→C, if it is the last atomic and nobody waits to read.
    ///
    /// # Errors
    /// The guard as it was.
    #[inline]
    pub fn try_claim(this: Self) -> Result<ClaimGuard<'a, T>, Self> {
        let has_moved = Self::raw(&this).try_atomic_to_claim();
        Self::moved_if(this, has_moved)
    }

    /// A→C, within `timeout`.
    ///
    /// # Errors
    /// The guard as it was, or a guard in Join if other atomics already read again: no thread can
    /// be in Atomic beside them.
    pub fn claim_timeout(
        this: Self,
        timeout: Duration,
    ) -> Result<ClaimGuard<'a, T>, Unfinished<Self, JoinGuard<'a, T>>> {
        match Self::raw(&this).atomic_to_claim_until(until(timeout)) {
            Ok(()) => Ok(Self::moved(this)),
            Err(Unfinished::Back(())) => Err(Unfinished::Back(this)),
            Err(Unfinished::HalfWay(())) => Err(Unfinished::HalfWay(Self::moved(this))),
        }
    }
}

impl<'a, T: ?Sized> Guard<'a, RawClaimLock, Alone, T> {
    /// J→C of the exclusive joiner: claims, still alone.
    #[inline]
    pub fn claim(this: Self) -> ClaimGuard<'a, T> {
        Self::raw(&this).alone_to_claim();
        Self::moved(this)
    }

    /// Goes on to the atomic phase; others that ask for Atomic from outside may come in beside it.
    #[inline]
    pub fn atomic(this: Self) -> AtomicGuard<'a, T> {
        Self::raw(&this).alone_to_atomic();
        Self::moved(this)
    }

    /// Becomes a reader, beside others that may come.
    #[inline]
    pub fn read(this: Self) -> ReadGuard<'a, T> {
        Self::raw(&this).alone_to_read();
        Self::moved(this)
    }
}
