//! [`ClaimLock`] with its data: how to come in, and where each guard can go.

use std::time::{Duration, Instant};

use super::super::guard::{Guard, Locked};
use super::super::state::{Alone, Atomic, Claim, Holds, HoldsAlone, Join, Read, sealed};
use super::RawClaimLock;
use crate::progressive::until;

/// Read, Join, Claim and Atomic, and the exclusive Join; the [module](super) explains it.
pub type ClaimLock<T> = Locked<RawClaimLock, T>;
/// Beside other readers.
pub type ReadGuard<'a, T> = Guard<'a, RawClaimLock, Read, T>;
/// On the way to Claim: beside readers and others that join, and, until it asks for its own claim,
/// beside those who claim already, or who are still in the atomic phase that it came from.
pub type JoinGuard<'a, T> = Guard<'a, RawClaimLock, Join, T>;
/// Beside others that mark what each will change.
pub type ClaimGuard<'a, T> = Guard<'a, RawClaimLock, Claim, T>;
/// Beside others that change what they have marked.
pub type AtomicGuard<'a, T> = Guard<'a, RawClaimLock, Atomic, T>;
/// The exclusive Join: alone.
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

    /// U→C: comes in as a reader, joins, and waits for the claim phase.
    #[inline]
    pub fn claim(&self) -> ClaimGuard<'_, T> {
        ReadGuard::claim(self.read())
    }

    /// U→C, within `timeout`.
    pub fn claim_timeout(&self, timeout: Duration) -> Option<ClaimGuard<'_, T>> {
        let deadline = until(timeout);
        let read = self.raw.read_until(deadline).then(|| self.guard::<Read>())?;
        JoinGuard::claim_until(ReadGuard::join(read), deadline).ok()
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
        JoinGuard::claim(Self::join(this))
    }
}

impl<'a, T: ?Sized> Guard<'a, RawClaimLock, Join, T> {
    /// J→C: waits for the claim phase. To give up instead, drop the guard.
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
        Self::claim_until(this, until(timeout))
    }

    fn claim_until(this: Self, deadline: Instant) -> Result<ClaimGuard<'a, T>, Self> {
        let has_moved = Self::raw(&this).join_to_claim_until(deadline);
        Self::moved_if(this, has_moved)
    }
}

impl<'a, T: ?Sized> Guard<'a, RawClaimLock, Claim, T> {
    /// C→A: waits until nobody claims any more. To give up instead, take the marks back and drop
    /// the guard; to hide until the others have done their work, go on and do nothing there:
    /// [`refuge`](Self::refuge).
    #[inline]
    pub fn atomic(this: Self) -> AtomicGuard<'a, T> {
        Self::raw(&this).claim_to_atomic();
        Self::moved(this)
    }

    /// C→A, within `timeout`.
    ///
    /// # Errors
    /// The guard as it was: it still claims.
    pub fn atomic_timeout(this: Self, timeout: Duration) -> Result<AtomicGuard<'a, T>, Self> {
        let has_moved = Self::raw(&this).claim_to_atomic_until(until(timeout));
        Self::moved_if(this, has_moved)
    }

    /// C→A→R without doing anything: lets the others make their changes, and reads again. The
    /// structure is held all the time, so nothing happens to it but what was claimed.
    #[inline]
    pub fn refuge(this: Self) -> ReadGuard<'a, T> {
        Self::raw(&this).claim_to_read();
        Self::moved(this)
    }
}

impl<'a, T: ?Sized> Guard<'a, RawClaimLock, Atomic, T> {
    /// A→R: waits until the last atomic has left or moved on.
    #[inline]
    pub fn read(this: Self) -> ReadGuard<'a, T> {
        Self::raw(&this).atomic_to_read();
        Self::moved(this)
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
        JoinGuard::claim(Self::join(this))
    }
}

impl<'a, T: ?Sized> Guard<'a, RawClaimLock, Alone, T> {
    /// J→C of the exclusive joiner: claims, still alone.
    #[inline]
    pub fn claim(this: Self) -> ClaimGuard<'a, T> {
        Self::raw(&this).alone_to_claim();
        Self::moved(this)
    }

    /// Goes on to the atomic phase, still alone.
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
