//! What a thread or task has in hand while it holds a record.

use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;
use std::task::Poll;
use std::time::Duration;

use lockspan_park::fork::BoundFuture;
use lockspan_protocol::{Mode, Token};
use lockspan_thread::gate::{Left, Pass};

use crate::acquire::Upgrade;
use crate::clock;
use crate::entry::lock;
use crate::record::Record;

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
    record: Option<R>,
    pass: Pass,
    token: Token,
    kind: PhantomData<K>,
}

impl<K: Kind, R: Borrow<Record>> Guard<K, R> {
    #[inline]
    pub(crate) fn new(record: R, pass: Pass, token: Token) -> Self {
        Self { record: Some(record), pass, token, kind: PhantomData }
    }

    pub(crate) fn pass(&self) -> Pass {
        self.pass
    }

    pub(crate) fn set_pass(&mut self, pass: Pass) {
        self.pass = pass;
    }

    /// The record that is held.
    pub fn record(&self) -> &Record {
        self.record.as_ref().expect("it has not turned into another guard").borrow()
    }

    /// Stays in without a guard, until another one is made of this.
    pub(crate) fn into_entered(mut self) -> (Pass, Token) {
        self.record = None;
        (self.pass, self.token)
    }

    /// Becomes a guard of another kind.
    pub(crate) fn turned<L: Kind>(mut self, pass: Pass, token: Token) -> Guard<L, R> {
        let record = self.record.take().expect("it has not turned into another guard");
        Guard::new(record, pass, token)
    }

    /// The fencing token. A store that is written under this record should remember the highest
    /// token that it has seen with a *write*, and refuse a write with a lower one.
    #[must_use]
    pub fn token(&self) -> Token {
        self.token
    }

    /// Whether the lease behind it stands, by this machine's clock now. A `false` can come a moment
    /// early, while the lease is being extended; a `true` is never late.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let record = self.record();
        record.node().stands(&record.entry, self.pass).is_some()
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

    /// Waits until the record is lost: its lease has ended, or the server has given it away.
    pub async fn lost(&self) {
        if !self.record().node().is_forked() {
            // The timer is the parent's, and so is the bell.
            BoundFuture::new(self.lost_here(), || Poll::Ready(())).await;
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
            let over = {
                let _runtime = record.node().runtime.enter();
                tokio::time::sleep(left)
            };
            tokio::select! {
                () = rung => {}
                () = over => {}
            }
        }
    }
}

impl<R: Borrow<Record> + Unpin> Guard<Shared, R> {
    /// Becomes the writer, without anybody writing in between. Refused if somebody else already
    /// waits for the same: both would wait for ever. Then this guard is returned, and still reads.
    pub fn upgrade(self) -> Upgrade<R> {
        Upgrade::new(self)
    }

    /// [`Guard::upgrade`] for a thread.
    pub fn blocking_upgrade(self) -> Result<Guard<Exclusive, R>, (Self, crate::error::LockError)> {
        crate::block::block_on(self.upgrade())
    }
}

impl<R: Borrow<Record>> Guard<Exclusive, R> {
    /// Goes on reading, beside others. It keeps its token.
    pub fn downgrade(self) -> Guard<Shared, R> {
        let (pass, token) = (self.pass, self.token);
        let turned = self.record().entry.gate.downgrade(pass);
        // One that was lost stays lost.
        let (reader, left) = turned.unwrap_or((pass, Left::Lost));
        let guard = self.turned(reader, token);
        if left == Left::Watched {
            guard.record().downgraded(pass);
        }
        guard
    }
}

impl<K: Kind, R: Borrow<Record>> Drop for Guard<K, R> {
    #[inline]
    fn drop(&mut self) {
        if let Some(record) = &self.record {
            record.borrow().leave(self.pass);
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
