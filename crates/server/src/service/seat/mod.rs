//! One session as the driver sees it: who hears of its events, and which commands wait for an
//! answer from the tables.
//!
//! A message for the session comes here while its table is locked, so that the messages about one
//! record stay in order. If a command waits for it, it becomes the command's reply; otherwise it
//! goes, as an event, to every connection that listens.
//!
//! | file | what of a session |
//! |---|---|
//! | `asks` | commands that wait for an acquire, and the owners and numbers of what was granted |
//! | `delivery` | messages of the tables and the registry, as replies or as events |
//! | `listeners` | connections that hear of its events |
//! | `one_lock` | the state of a lock of `LS.LOCK`, which has a session of its own |
//! | `told` | what `LS.REASSERT` has told |

mod asks;
mod delivery;
mod listeners;
mod one_lock;
mod told;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use lockspan_protocol::server::Scope;
use lockspan_protocol::{Annotation, Handoff, Owner, Record, Seq, SessionId};
use lockspan_wire::PublicId;

use super::lock::LockAsk;
use super::work::Work;
use crate::net::outbox::Slot;
pub(crate) use asks::Ask;
use asks::Asks;
pub(super) use asks::Forsaken;
use listeners::Listeners;
use one_lock::LockState;
pub(super) use one_lock::OneLock;
use told::Told;

/// A session of this server.
#[derive(Debug)]
pub(crate) struct Seat {
    /// Its number: a secret of whoever uses the session.
    pub(crate) id: SessionId,
    /// What others see of it.
    pub(crate) public: PublicId,
    pub(crate) ttl: Duration,
    pub(crate) handoff: Handoff,
    /// The user whose it is, if that is known.
    owner: OnceLock<Arc<str>>,
    /// What it calls itself.
    label: Mutex<Option<Annotation>>,
    /// The tables know the session, and the registry has not ended it.
    open: AtomicBool,
    /// The session is over.
    ended: AtomicBool,
    /// The highest seq that was ever seen.
    last_seq: AtomicU64,
    /// How many acquires have a command that waits, owners or two numbers; changed under the lock.
    busy: AtomicUsize,
    /// How many connections listen; changed under the lock.
    heard_by: AtomicUsize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    listeners: Listeners,
    /// Acquires whose command was not answered yet.
    asks: Asks,
    /// Who holds what was granted to commands that named owners.
    owners: BTreeMap<(Record, Seq), Vec<Owner>>,
    /// Reads whose new number no client was told: the last number that one was told, and the
    /// present one.
    renamed: BTreeMap<Record, (Seq, Seq)>,
    /// Commands that wait for the session to be open.
    opens: Vec<Slot>,
    /// `LS.LOCK`s that do.
    lock_opens: Vec<LockAsk>,
    lock: LockState,
    /// A client has closed the session, which its lease did not end.
    closed: bool,
    /// The connection that closed it: it need not be told.
    closed_by: Option<u64>,
    /// An operator has ended it.
    by_operator: bool,
    /// Everybody else who listens has been told that it is over.
    told_over: bool,
    /// What `LS.REASSERT` has told.
    told: Told,
}

impl Seat {
    pub(super) fn new(
        (id, public): (SessionId, PublicId),
        ttl: Duration,
        handoff: Handoff,
        owner: Option<Arc<str>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            id,
            public,
            ttl,
            handoff,
            owner: owner.map_or_else(OnceLock::new, OnceLock::from),
            label: Mutex::default(),
            open: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            last_seq: AtomicU64::new(0),
            busy: AtomicUsize::new(0),
            heard_by: AtomicUsize::new(0),
            inner: Mutex::default(),
        })
    }

    /// Whether it is this user's.
    pub(crate) fn belongs_to(&self, user: &Arc<str>) -> bool {
        self.owner.get() == Some(user)
    }

    /// It is this user's from now on, unless it is somebody's.
    pub(super) fn claim(&self, user: &Arc<str>) {
        self.owner.get_or_init(|| Arc::clone(user));
    }

    /// Owners that are named here are not those that other users name.
    pub(super) fn scope(&self) -> Scope {
        self.owner.get().map_or_else(Scope::default, |user| {
            let mut hasher = DefaultHasher::new();
            user.hash(&mut hasher);
            Scope(hasher.finish())
        })
    }

    /// What it calls itself, if it does.
    pub(crate) fn label(&self) -> Option<Annotation> {
        crate::lock(&self.label).clone()
    }

    /// It calls itself this from now on.
    pub(crate) fn set_label(&self, label: Annotation) {
        *crate::lock(&self.label) = Some(label);
    }

    /// Whose it is, if that is known.
    pub(crate) fn owner(&self) -> Option<&Arc<str>> {
        self.owner.get()
    }

    /// Whether its messages go to the tables without asking the registry. The tables look too, so
    /// an answer that is out of date does no harm.
    pub(super) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    pub(super) fn set_open(&self, open: bool) {
        self.open.store(open, Ordering::Release);
    }

    /// Whether the session is not over, as far as is known.
    pub(crate) fn is_alive(&self) -> bool {
        !self.ended.load(Ordering::Acquire)
    }

    /// A client has used this seq.
    pub(super) fn saw(&self, seq: Seq) {
        // It never falls, so one that it has passed needs no change.
        if self.last_seq.load(Ordering::Relaxed) < seq.0 {
            self.last_seq.fetch_max(seq.0, Ordering::Relaxed);
        }
    }

    /// A seq above all that were seen. Called with the record's table locked, so that the table
    /// sees them in order.
    pub(super) fn next_seq(&self) -> Seq {
        let next = |last: u64| Some(last.saturating_add(1));
        let last = self.last_seq.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        Seq(last.unwrap_or(u64::MAX).saturating_add(1))
    }

    /// Whether a client has closed the session.
    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// The connection `by` closes the session: it need not hear that it is over.
    pub(super) fn close(&self, by: Option<u64>) {
        let mut inner = self.lock();
        (inner.closed, inner.closed_by) = (true, by);
    }

    /// The session is over.
    pub(super) fn end(&self, work: &mut Work) {
        self.set_open(false);
        self.ended.store(true, Ordering::Release);
        self.fail(work);
        self.say_over(work);
        let mut inner = self.lock();
        // Connections may know it for as long as they live.
        let (closed, told_over) = (inner.closed, inner.told_over);
        *inner = Inner { closed, told_over, ..Inner::default() };
    }

    fn lock(&self) -> Locked<'_> {
        Locked { inner: crate::lock(&self.inner), busy: &self.busy, heard_by: &self.heard_by }
    }
}

/// The inside of a seat; counts what it has when it is left.
struct Locked<'a> {
    inner: MutexGuard<'a, Inner>,
    busy: &'a AtomicUsize,
    heard_by: &'a AtomicUsize,
}

impl Deref for Locked<'_> {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.inner
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut Inner {
        &mut self.inner
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let Inner { asks, owners, renamed, listeners, .. } = &*self.inner;
        self.heard_by.store(listeners.len(), Ordering::Relaxed);
        let busy = asks.len() + owners.len() + renamed.len();
        self.busy.store(busy, Ordering::Relaxed);
    }
}
