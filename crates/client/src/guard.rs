//! What a thread or task has in hand while it holds a record.

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

/// How a guard holds its record.
pub trait Kind: fmt::Debug + Unpin + 'static {
    /// As the protocol says it.
    const MODE: Mode;
}

/// For reading, beside others.
#[derive(Clone, Copy, Debug)]
pub struct Shared;

/// For writing, alone.
#[derive(Clone, Copy, Debug)]
pub struct Exclusive;

impl Kind for Shared {
    const MODE: Mode = Mode::Read;
}

impl Kind for Exclusive {
    const MODE: Mode = Mode::Write;
}

/// A record that is held for reading.
pub type ReadGuard<'a> = Guard<Shared, &'a Record>;
/// A record that is held for writing.
pub type WriteGuard<'a> = Guard<Exclusive, &'a Record>;
/// A record that is held for reading, with its handle.
pub type OwnedReadGuard = Guard<Shared, Record>;
/// A record that is held for writing, with its handle.
pub type OwnedWriteGuard = Guard<Exclusive, Record>;

/// A record that is held. Dropping it releases the record on this node, which keeps it cached;
/// it never waits.
///
/// The lease behind it can end while it is held: the network was cut, the process was stopped. Then
/// others may hold the record. [`Guard::is_valid`] says whether that has happened, [`Guard::lost`]
/// waits for it, and the store behind the record can refuse a late write by the [`Guard::token`].
/// In a child of a fork every guard of the parent is lost at once.
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

    /// The record that is held.
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

    /// The fencing token. The store behind this record should remember the highest token that the
    /// holder of a *write* lock has shown it, and refuse a lower one. Show it with the first read
    /// under a write lock and with every write; a fence at writes alone loses an update when a
    /// late write comes between that read and the write. The token of a read guard must not raise
    /// the mark.
    ///
    /// All guards of one node under one cached grant have the same token: it tells nodes from each
    /// other, not the threads of one node.
    #[must_use]
    pub fn token(&self) -> Token {
        self.token
    }

    /// Whether the lease behind it stands, by this machine's clock now. A `false` can come a moment
    /// early, while the lease is being extended; a `true` is never late.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let record = self.record();
        record.node().stands(&record.entry, self.pass()).is_some()
    }

    /// For how long the lease stands without another word from the server; nothing if it is over.
    #[must_use]
    pub fn valid_for(&self) -> Duration {
        if self.is_valid() {
            self.record().node().until().since(clock::now())
        } else {
            Duration::ZERO
        }
    }

    /// Waits until the record is lost: its lease has ended, or the server has given it away. Any
    /// executor may wait for it, also while the runtime of `connect` stands still.
    pub async fn lost(&self) {
        if !self.record().node().is_forked() {
            // The timer is the parent's, and so is the bell.
            BoundFuture::new(self.lost_here(), || Poll::Ready(())).await;
        }
    }

    /// [`Guard::lost`] for a thread. Not to be called in a task: it blocks.
    ///
    /// A thread that works under the guard asks [`Guard::is_valid`] now and then instead; this is
    /// for a thread beside it.
    pub fn blocking_lost(&self) {
        block::block_on(self.lost());
    }

    /// [`Guard::blocking_lost`] for at most this long: whether the record is lost.
    #[must_use = "it returns as well when the time is over"]
    pub fn blocking_lost_timeout(&self, time: Duration) -> bool {
        // A time that no clock can show is for ever.
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
    /// Goes on reading, beside others. It keeps its token. Readers that wait come in beside it, on
    /// this node and on others, also if a writer waits as well.
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
