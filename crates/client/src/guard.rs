//! Guards: a thread or task has one while it holds a record.

use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;
use std::task::Poll;
use std::time::{Duration, Instant};

use lockspan_park::fork::BoundFuture;
use lockspan_protocol::{Mode, Token};
use lockspan_thread::gate::{Left, Pass};

use crate::block;
use crate::clock;
use crate::entry::lock;
use crate::record::Record;
use crate::task;

/// How a [`Guard`] holds its record: [`Shared`] or [`Exclusive`]. For code that is generic over
/// guards. Other crates cannot implement it.
pub trait Kind: sealed::Sealed + fmt::Debug + Unpin + 'static {
    /// The mode in the protocol.
    const MODE: Mode;
}

/// The [`Kind`] of a guard for reading.
#[derive(Clone, Copy, Debug)]
pub struct Shared;

/// The [`Kind`] of a guard for writing.
#[derive(Clone, Copy, Debug)]
pub struct Exclusive;

mod sealed {
    #[expect(unnameable_types, reason = "other crates must not implement it")]
    pub trait Sealed {}
    impl Sealed for super::Shared {}
    impl Sealed for super::Exclusive {}
}

impl Kind for Shared {
    const MODE: Mode = Mode::Read;
}

impl Kind for Exclusive {
    const MODE: Mode = Mode::Write;
}

/// Guard of a record held for reading. It borrows the [`Record`].
pub type ReadGuard<'a> = Guard<Shared, &'a Record>;
/// Guard of a record held for writing. It borrows the [`Record`].
pub type WriteGuard<'a> = Guard<Exclusive, &'a Record>;
/// Guard of a record held for reading. It borrows nothing.
pub type OwnedReadGuard = Guard<Shared, Record>;
/// Guard of a record held for writing. It borrows nothing.
pub type OwnedWriteGuard = Guard<Exclusive, Record>;

/// A record that is held. Dropping the guard releases the record and never waits; the record stays
/// cached in this process.
///
/// The lease can expire while a guard is held, because the network was cut or the process was
/// suspended. Then other processes may acquire the record. Three ways to deal with it:
///
/// - [`Guard::is_valid`] tells whether the lease still stands. Ask before each step that matters.
/// - [`Guard::lost`] waits until it does not, so that a task can stop its work.
/// - [`Guard::token`] is a number for the data store, which can refuse a write that comes too late.
///   This is the only way that is safe even if the process is suspended between check and write.
///
/// In a child of a fork every guard of the parent is invalid.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// let locks = lockspan_client::connect("memory:").await?;
/// let invoice = locks.record("invoice", 42)?;
/// let held = invoice.write().await?;
/// tokio::select! {
///     () = held.lost() => println!("stop: somebody else may write now"),
///     () = async { /* the work */ } => println!("done, with token {}", held.token()),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[must_use = "the record is released as soon as its guard is dropped"]
pub struct Guard<K: Kind, R: Borrow<Record>> {
    /// None once it has turned into another guard.
    held: Option<(R, Pass)>,
    token: Token,
    kind: PhantomData<K>,
}

impl<K: Kind, R: Borrow<Record>> Guard<K, R> {
    #[inline]
    pub(crate) fn new(record: R, pass: Pass, token: Token) -> Self {
        Self { held: Some((record, pass)), token, kind: PhantomData }
    }

    fn held(&self) -> &(R, Pass) {
        self.held.as_ref().expect("it has not turned into another guard")
    }

    fn take_held(&mut self) -> (R, Pass) {
        self.held.take().expect("it has not turned into another guard")
    }

    pub(crate) fn pass(&self) -> &Pass {
        &self.held().1
    }

    /// The keeper of the gate has upgraded it: the new pass takes the place of the old one.
    pub(crate) fn set_pass(&mut self, pass: Pass) {
        let (record, _) = self.take_held();
        self.held = Some((record, pass));
    }

    /// The record that this guard holds.
    #[must_use]
    pub fn record(&self) -> &Record {
        self.held().0.borrow()
    }

    /// Stays in without a guard, until another one is made of this.
    pub(crate) fn into_entered(mut self) -> (Pass, Token) {
        let (_, pass) = self.take_held();
        (pass, self.token)
    }

    /// Becomes a guard of another kind, with the pass that it has.
    pub(crate) fn turned<L: Kind>(mut self, token: Token) -> Guard<L, R> {
        let (record, pass) = self.take_held();
        Guard::new(record, pass, token)
    }

    /// The same hold, in a guard that has the handle of the record with it.
    pub(crate) fn into_owned(mut self) -> Guard<K, Record> {
        let (record, pass) = self.take_held();
        Guard::new(record.borrow().clone(), pass, self.token)
    }

    /// The fencing token: a number that grows with every write grant of a record.
    ///
    /// The data store behind the record remembers the highest token that a *write* guard has shown
    /// it, and refuses lower ones. Show the token with the first read under a write guard and with
    /// every write: if the store checks writes only, a late write between that read and the next
    /// write is lost. The token of a read guard must not raise the remembered number.
    ///
    /// All guards under one cached grant have the same token. The token distinguishes processes
    /// from each other, not the threads of one process.
    #[must_use]
    pub fn token(&self) -> Token {
        self.token
    }

    /// Whether the lease of this guard stands now, by this machine's clock.
    ///
    /// `true` is never too late: no other process held the record in conflict at that moment.
    /// `false` can come a moment early, while the lease is being extended. Sends no message.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let record = self.record();
        record.node().stands(&record.entry, self.pass()).is_some()
    }

    /// How long the lease still stands if the server is not heard from again. Zero if the guard is
    /// not valid.
    #[must_use]
    pub fn valid_for(&self) -> Duration {
        if self.is_valid() {
            self.record().node().until().since(clock::now())
        } else {
            Duration::ZERO
        }
    }

    /// Waits until the guard becomes invalid: its lease has expired, or the server has given the
    /// record to another process. Works in any executor, even if the runtime of `connect` is
    /// blocked.
    pub async fn lost(&self) {
        if !self.record().node().is_forked() {
            // The timer is the parent's, and so is the bell.
            BoundFuture::new(self.lost_here(), || Poll::Ready(())).await;
        }
    }

    /// [`Guard::lost`] that blocks the thread. Do not call it in an async task.
    ///
    /// It is for a thread that watches the guard. The thread that does the work calls
    /// [`Guard::is_valid`] now and then instead.
    pub fn blocking_lost(&self) {
        block::block_on(self.lost());
    }

    /// [`Guard::blocking_lost`] that waits for at most `time`. Returns `true` if the guard is
    /// invalid, `false` if the time is over.
    #[must_use = "it also returns when the time is over"]
    pub fn blocking_lost_timeout(&self, time: Duration) -> bool {
        // A time that no clock can show is forever.
        match Instant::now().checked_add(time) {
            Some(deadline) => block::block_until(self.lost(), deadline).is_some(),
            None => {
                self.blocking_lost();
                true
            }
        }
    }

    async fn lost_here(&self) {
        let record = self.record();
        loop {
            let bell = lock(&record.entry.line).bell();
            let mut rung = std::pin::pin!(bell.rung());
            rung.as_mut().enable();
            let left = self.valid_for();
            if left.is_zero() && !self.is_valid() {
                return;
            }
            tokio::select! {
                () = rung => {}
                () = task::timer(record.node(), left) => {}
            }
        }
    }
}

impl<R: Borrow<Record>> Guard<Exclusive, R> {
    /// Turns this write guard into a read guard. Never waits, and nobody writes in between.
    ///
    /// The guard keeps its token. Waiting readers of all processes are let in, even if a writer
    /// waits too.
    pub fn downgrade(mut self) -> Guard<Shared, R> {
        let (record, pass) = self.take_held();
        let how = pass.how();
        record.borrow().entry.downgraded.set();
        // One that was lost stays lost.
        let turned = record.borrow().entry.gate.downgrade(pass);
        let (reader, left) = turned.unwrap_or_else(|lost| (lost, Left::Lost));
        let guard = Guard::new(record, reader, self.token);
        if left == Left::Watched {
            guard.record().downgraded(how);
        }
        guard
    }
}

impl<K: Kind, R: Borrow<Record>> Drop for Guard<K, R> {
    #[inline]
    fn drop(&mut self) {
        if let Some((record, pass)) = self.held.take() {
            record.borrow().leave(pass);
        }
    }
}

impl<K: Kind, R: Borrow<Record>> fmt::Debug for Guard<K, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("record", &self.record().name())
            .field("mode", &K::MODE)
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}
