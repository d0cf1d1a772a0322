//! One session as the driver sees it: who hears of its events, and which commands wait for an
//! answer from the tables.
//!
//! A message for the session comes here while its table is locked, so that the messages about one
//! record stay in order. If a command waits for it, it becomes the command's reply; otherwise it
//! goes, as an event, to every connection that listens.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use lockspan_protocol::server::Scope;
use lockspan_protocol::server::table::ClaimView;
use lockspan_protocol::{
    Epoch, Group, GroupSet, Handoff, Mode, Owner, Record, Seq, SessionId, SessionRefusal, Term,
    ToNode, ToServer,
};
use lockspan_wire::{CommandError, ErrorCode, Event, PublicId, Value, Wait, reply};

use super::lock::{LockAsk, LockGranted, LockTag};
use super::patience::{Patience, PatienceKey};
use super::places::Place;
use super::work::Work;
use crate::net::outbox::{Dirty, Outbox, Slot};

/// The first acquire of a lock's session.
const FIRST_SEQ: Seq = Seq(1);

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
    listeners: Vec<Listener>,
    /// Acquires whose command was not answered yet.
    asks: BTreeMap<(Record, Seq), Vec<Ask>>,
    /// Who holds what was granted to commands that named owners.
    owners: BTreeMap<(Record, Seq), Vec<Owner>>,
    /// Reads that go on under a number that nobody was told: the last one that was, and theirs.
    renamed: BTreeMap<Record, (Seq, Seq)>,
    /// Commands that wait for the session to be open.
    opens: Vec<Slot>,
    /// `LS.LOCK`s that do.
    lock_opens: Vec<LockAsk>,
    /// Of the session of a lock: its mode, as far as it is known, and whether it is over.
    lock: Option<(Mode, OneLock)>,
    /// The number of its present acquire, after the first: see [`Seat::lock_seq`].
    lock_seq: Option<Seq>,
    /// The lock was unlocked before its session was open: it is closed as soon as it is.
    unlocked: bool,
    /// A reply or a renewal says that the lock is held: its client may be inside.
    lock_told: bool,
    /// Replies that tell of its grant, and wait for an earlier reply of their connection.
    held_back: Vec<Slot>,
    /// The server keeps the lease: the lock is waited for, or a reply is held back.
    watched: bool,
    /// A client has closed the session, which its lease did not end.
    closed: bool,
    /// The connection that closed it: it need not be told.
    closed_by: Option<u64>,
    /// Everybody else who listens has been told that it is over.
    told_over: bool,
    /// What `LS.REASSERT` has told in this epoch.
    told: (Option<Epoch>, BTreeMap<Seq, Group>),
}

/// What the lock of a session is to a command that names a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OneLock {
    /// The same lock.
    Own,
    /// The same, and nobody waits for it any more: the `WAIT` is over.
    Over,
    /// A lock in the other mode.
    Other,
}

/// An acquire that only commands of a connection which has gone waited for.
#[derive(Debug)]
pub(super) struct Forsaken {
    pub(super) record: Record,
    pub(super) seq: Seq,
    /// What the session reads meanwhile, if it is an upgrade.
    pub(super) base: Option<Seq>,
    /// Which lock it is, if it is an `LS.LOCK`.
    pub(super) lock: Option<LockTag>,
}

#[derive(Debug)]
struct Listener {
    outbox: Arc<Outbox>,
    as_message: bool,
    /// It has spoken by `LS.TELL`, so it keeps grants in a cache.
    is_node: bool,
}

/// A command that acquires, and waits for its answer.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) slot: Slot,
    pub(crate) wait: Wait,
    pub(crate) mode: Mode,
    pub(crate) epoch: Epoch,
    /// The session reads the record meanwhile.
    pub(crate) upgrade: bool,
    /// What it reads it as, if it is an upgrade.
    pub(crate) base: Option<Seq>,
    pub(crate) owners: Vec<Owner>,
    /// What ends the wait in time.
    pub(crate) timer: Option<PatienceKey>,
    /// Which lock it is, if it is an `LS.LOCK`.
    pub(crate) lock: Option<LockTag>,
}

impl Ask {
    pub(super) fn answer(self, value: &Value, work: &mut Work) {
        work.patience_over.extend(self.timer);
        self.slot.fill(value, &mut work.dirty);
    }

    /// The acquire, said again.
    fn message(&self, record: &Record, seq: Seq) -> ToServer {
        ToServer::Acquire {
            record: record.clone(),
            mode: self.mode,
            seq,
            epoch: self.epoch,
            upgrade: self.upgrade,
            owners: self.owners.clone(),
        }
    }
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

    /// The connection hears of the session's events from now on, in this way alone.
    pub(crate) fn listen(&self, outbox: &Arc<Outbox>, as_message: bool) {
        let inner = &mut *self.lock();
        match inner.listeners.iter_mut().find(|one| Arc::ptr_eq(&one.outbox, outbox)) {
            Some(known) => known.as_message = as_message,
            None => {
                let outbox = Arc::clone(outbox);
                inner.listeners.push(Listener { outbox, as_message, is_node: false });
                // An operator may have ended the session, and this one was not told.
                inner.told_over = false;
            }
        }
    }

    /// The same for a connection that speaks by `LS.TELL`.
    pub(crate) fn listen_as_node(&self, outbox: &Arc<Outbox>) {
        self.listen(outbox, false);
        let listeners = &mut self.lock().listeners;
        let own = listeners.iter_mut().find(|one| Arc::ptr_eq(&one.outbox, outbox));
        own.into_iter().for_each(|own| own.is_node = true);
    }

    /// The connection does not hear of them any more.
    pub(crate) fn stop_listening(&self, outbox: &Arc<Outbox>) {
        self.lock().listeners.retain(|one| !Arc::ptr_eq(&one.outbox, outbox));
    }

    /// How many connections listen.
    pub(crate) fn listeners(&self) -> usize {
        self.lock().listeners.len()
    }

    /// The connections that listen.
    pub(super) fn listening(&self) -> Vec<u64> {
        self.lock().listeners.iter().map(|one| one.outbox.id).collect()
    }

    /// Whether another connection than `from` listens. `from` is known to listen itself if
    /// `listens`, which spares a look in the most common case.
    pub(super) fn others_listen(&self, from: Option<u64>, listens: bool) -> bool {
        self.heard_by.load(Ordering::Relaxed) > usize::from(listens)
            && self.lock().listeners.iter().any(|one| Some(one.outbox.id) != from)
    }

    /// A command of the connection `from` has ended this grant: all others that listen hear so,
    /// before anybody hears of what became of the record. For a node the grant is lost.
    pub(super) fn tell_over(&self, record: Record, seq: Seq, from: Option<u64>, work: &mut Work) {
        let inner = self.lock();
        let lost = Event::Node(ToNode::Lost { record: record.clone(), seq });
        let released = Event::Released { record, seq };
        let event = |is_node: bool| if is_node { &lost } else { &released };
        work.dirty.first(|dirty| inner.tell_all_but(from, self.id, event, dirty));
    }

    /// Whether a client has closed the session.
    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// A command waits for the session to be open.
    pub(super) fn await_open(&self, slot: Slot) {
        self.lock().opens.push(slot);
    }

    /// An `LS.LOCK` waits for the session to be open.
    pub(super) fn await_lock(&self, ask: LockAsk) {
        self.lock().lock_opens.push(ask);
    }

    /// The lock is unlocked before its session is open, which is closed when it is. Whether an
    /// `LS.LOCK` waits for that; it hears that the lock is over.
    pub(super) fn unlock_early(&self) -> bool {
        let mut inner = self.lock();
        inner.unlocked = true;
        !inner.lock_opens.is_empty()
    }

    /// What the lock of this session is; from now on it has this mode, if it is not known.
    pub(super) fn one_lock(&self, mode: Mode) -> OneLock {
        let mut inner = self.lock();
        let (known, lock) = *inner.lock.get_or_insert((mode, OneLock::Own));
        if known == mode { lock } else { OneLock::Other }
    }

    /// Nobody waits for the lock any more. Its session ends with its lease, as if it were closed.
    pub(super) fn lock_is_over(&self) {
        let mut inner = self.lock();
        inner.closed = true;
        if let Some((_, lock)) = &mut inner.lock {
            *lock = OneLock::Over;
        }
    }

    /// The number of the lock's acquire. It changes when a grant found nobody, see
    /// [`Service::pass_over`](super::Service::pass_over). Called with the record's table locked.
    pub(super) fn lock_seq(&self) -> Seq {
        self.lock().lock_seq.unwrap_or(FIRST_SEQ)
    }

    /// A client has shown that it was told of the grant.
    pub(super) fn lock_was_told(&self) {
        self.lock().lock_told = true;
    }

    /// The grant `seq` of the lock is to be given back, for nobody was told of it; false if
    /// somebody was meanwhile. Called with the record's table locked, as grants are told.
    pub(super) fn pass_over(&self, seq: Seq) -> bool {
        let mut inner = self.lock();
        let passes = !inner.lock_told && inner.lock_seq.unwrap_or(FIRST_SEQ) == seq;
        if passes {
            inner.lock_seq = Some(Seq(seq.0 + 1));
        }
        passes
    }

    /// This reply tells of the lock's grant, and waits for an earlier one.
    pub(super) fn hold_back(&self, reply: Slot) {
        self.lock().held_back.push(reply);
    }

    /// The server keeps the lease from now on; false if it did already.
    pub(super) fn begin_vigil(&self) -> bool {
        !std::mem::replace(&mut self.lock().watched, true)
    }

    /// Whether a command still waits for the lock, or for a reply that is held back. If none does,
    /// the lease is not kept any more.
    pub(super) fn goes_on_waiting(&self) -> bool {
        let mut inner = self.lock();
        inner.held_back.retain(|slot| !slot.is_closed() && !slot.is_sent());
        // A connection may have gone while its command was on the way here.
        let waits = |ask: &Ask| ask.lock.is_some() && !ask.slot.is_closed();
        let waits = inner.asks.values().flatten().any(waits);
        inner.watched = waits || !inner.held_back.is_empty();
        inner.watched
    }

    /// A command waits for what becomes of this acquire.
    pub(super) fn ask(&self, record: Record, seq: Seq, ask: Ask) {
        self.lock().asks.entry((record, seq)).or_default().push(ask);
    }

    /// How many commands wait for what becomes of this acquire.
    pub(super) fn asked(&self, record: &Record, seq: Seq) -> usize {
        if !self.is_busy() {
            return 0;
        }
        self.lock().asks.get(&(record.clone(), seq)).map_or(0, Vec::len)
    }

    /// Whether it matters here what becomes of an acquire.
    pub(super) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed) > 0
    }

    /// Who holds this grant, if a command has named them.
    pub(super) fn owners(&self, record: &Record, seq: Seq) -> Vec<Owner> {
        self.lock().owners.get(&(record.clone(), seq)).cloned().unwrap_or_default()
    }

    /// The grant goes on with another number.
    pub(super) fn renumber(&self, record: &Record, seq: Seq, new: Seq) {
        let mut inner = self.lock();
        if let Some(owners) = inner.owners.remove(&(record.clone(), seq)) {
            inner.owners.insert((record.clone(), new), owners);
        }
    }

    /// Nobody could be told that what was `old` has a new number: both mean it from now on.
    pub(super) fn rename(&self, record: &Record, old: Seq, new: Seq) {
        let renamed = &mut self.lock().renamed;
        let old = renamed.get(record).map_or(old, |&(first, _)| first.min(old));
        renamed.insert(record.clone(), (old, new));
    }

    /// The present number of what a client knows as `seq`.
    pub(super) fn present(&self, record: &Record, seq: Seq) -> Seq {
        if !self.is_busy() {
            return seq;
        }
        let inner = self.lock();
        let renamed = inner.renamed.get(record).filter(|(old, new)| (*old..*new).contains(&seq));
        renamed.map_or(seq, |&(_, new)| new)
    }

    /// This is what the session has at the record now. Commands that wait there for something
    /// else hear that a later acquire or a release has ended it.
    pub(super) fn supersede(
        &self,
        record: &Record,
        holding: Option<&ClaimView>,
        waiting: Option<&ClaimView>,
        challenging: Option<Seq>,
        work: &mut Work,
    ) {
        let mut inner = self.lock();
        let all = || (record.clone(), Seq(0))..=(record.clone(), Seq(u64::MAX));
        let held = holding.map(|claim| claim.seq);
        inner.owners.extract_if(all(), |(_, seq), _| held != Some(*seq)).for_each(drop);
        if inner.renamed.get(record).is_some_and(|&(_, new)| held != Some(new)) {
            inner.renamed.remove(record);
        }
        let reserved = holding.filter(|claim| claim.token.is_none());
        let [reserved, waiting] = [reserved, waiting].map(|claim| claim.map(|claim| claim.seq));
        let in_line = [reserved, waiting, challenging];
        let over = inner.asks.extract_if(all(), |(_, seq), _| !in_line.contains(&Some(*seq)));
        let text = "this acquire is over: the session has released the record or acquired it again";
        let value = Value::error(ErrorCode::Stale, text);
        for ask in over.flat_map(|(_, asks)| asks) {
            ask.answer(&value, work);
        }
    }

    /// The acquire was refused: all its commands hear so.
    pub(super) fn refuse(&self, record: &Record, seq: Seq, value: &Value, work: &mut Work) {
        let asks = self.lock().asks.remove(&(record.clone(), seq));
        for ask in asks.into_iter().flatten() {
            ask.answer(value, work);
        }
    }

    /// The wait of this command is over, if it still waits; and whether another waits for the same.
    pub(super) fn unask(&self, record: &Record, seq: Seq, slot: &Slot) -> Option<(Ask, bool)> {
        let mut inner = self.lock();
        let key = (record.clone(), seq);
        let asks = inner.asks.get_mut(&key)?;
        let at = asks.iter().position(|ask| ask.slot == *slot)?;
        let ask = asks.swap_remove(at);
        let shared = !asks.is_empty();
        if !shared {
            inner.asks.remove(&key);
        }
        Some((ask, shared))
    }

    /// The acquires that only commands of this connection wait for: it has gone.
    pub(super) fn forsaken(&self, outbox: &Arc<Outbox>, work: &mut Work) -> Vec<Forsaken> {
        let mut inner = self.lock();
        inner.opens.retain(|slot| !slot.is_of(outbox));
        inner.lock_opens.retain(|ask| !ask.slot.is_of(outbox));
        let mut gone = Vec::new();
        inner.asks.retain(|(record, seq), asks| {
            let base = asks.iter().find_map(|ask| ask.base);
            let lock = asks.iter().find_map(|ask| ask.lock);
            asks.retain(|ask| {
                let leaves = ask.slot.is_of(outbox);
                if leaves {
                    work.patience_over.extend(ask.timer);
                }
                !leaves
            });
            if asks.is_empty() {
                gone.push(Forsaken { record: record.clone(), seq: *seq, base, lock });
            }
            !asks.is_empty()
        });
        gone
    }

    /// What is said later, if then: that a node waits. Commands and those who are to acquire again
    /// hear it at once.
    pub(super) fn put_off(self: &Arc<Self>, message: &ToNode) -> Option<Place> {
        let ToNode::Queued { record, seq, .. } = message else { return None };
        let waits = self.handoff == Handoff::Direct && self.asked(record, *seq) == 0;
        waits.then(|| Place { seat: Arc::clone(self), record: record.clone(), seq: *seq })
    }

    /// The table or the registry says something to the session.
    pub(super) fn deliver(self: &Arc<Self>, message: ToNode, work: &mut Work) {
        let mut inner = self.lock();
        let inner = &mut *inner;
        let Some(message) = self.reply(inner, message, work) else { return };
        Self::announce(inner, self.id, &Event::Node(message), work);
    }

    /// The session is open, and so much of its lease is left, which is less than all of it if it
    /// was open before. A command that waits for it has its reply; others hear of it as an event.
    pub(super) fn opened(self: &Arc<Self>, terms: Vec<Term>, left: Duration, work: &mut Work) {
        let mut inner = self.lock();
        let asks = std::mem::take(&mut inner.lock_opens);
        if inner.unlocked {
            let value = lock_ended();
            asks.into_iter().for_each(|ask| ask.slot.fill(&value, &mut work.dirty));
            work.over.push(Arc::clone(self));
        } else {
            work.locks.extend(asks.into_iter().map(|ask| (Arc::clone(self), ask)));
        }
        let value = reply::opened((self.id, self.public), left.min(self.ttl), self.handoff, &terms);
        let slots = std::mem::take(&mut inner.opens);
        let event = Event::Node(ToNode::Opened { terms });
        for Listener { outbox, as_message, .. } in &inner.listeners {
            if !slots.iter().any(|slot| slot.is_of(outbox)) {
                outbox.event(self.id, &event, *as_message, &mut work.dirty);
            }
        }
        slots.into_iter().for_each(|slot| slot.fill(&value, &mut work.dirty));
    }

    /// The server says something to every session.
    pub(super) fn announce_event(&self, event: &Event, work: &mut Work) {
        Self::announce(&self.lock(), self.id, event, work);
    }

    fn announce(inner: &Inner, session: SessionId, event: &Event, work: &mut Work) {
        for Listener { outbox, as_message, .. } in &inner.listeners {
            outbox.event(session, event, *as_message, &mut work.dirty);
        }
    }

    /// What is left of a message when the commands that wait for it have been answered.
    fn reply(
        self: &Arc<Self>,
        inner: &mut Inner,
        message: ToNode,
        work: &mut Work,
    ) -> Option<ToNode> {
        match message {
            ToNode::Revoke { ref record, seq, .. } => self.report(inner, record, seq, work),
            ToNode::Granted { ref record, seq, .. }
                if inner.lock.is_some() && !inner.lock_told && !inner.is_asked(record, seq) =>
            {
                // The commands that waited are gone, and so are their connections.
                let asks = inner.asks.remove(&(record.clone(), seq)).unwrap_or_default();
                if asks.iter().any(|ask| ask.lock.is_some_and(|lock| !lock.brought)) {
                    work.over.push(Arc::clone(self));
                } else {
                    work.passed.push((Arc::clone(self), record.clone(), seq));
                }
                work.patience_over.extend(asks.into_iter().filter_map(|ask| ask.timer));
                return None;
            }
            _ if inner.asks.is_empty() => {}
            ToNode::Granted { ref record, seq, mode, token, give_back } => {
                if let Some(asks) = inner.asks.remove(&(record.clone(), seq)) {
                    let value = reply::granted(seq, mode, token, give_back);
                    let owners = asks.iter().find(|ask| !ask.owners.is_empty());
                    if let Some(owners) = owners.map(|ask| ask.owners.clone()) {
                        inner.owners.insert((record.clone(), seq), owners);
                        if give_back.is_some() {
                            self.report(inner, record, seq, work);
                        }
                    }
                    for ask in asks {
                        match ask.lock {
                            Some(tag) => {
                                inner.lock_told = true;
                                work.patience_over.extend(ask.timer);
                                let (seat, slot) = (Arc::clone(self), ask.slot);
                                let record = record.clone();
                                let granted = LockGranted { seat, slot, tag, record, mode, token };
                                work.granted.push(granted);
                            }
                            None => ask.answer(&value, work),
                        }
                    }
                    return None;
                }
            }
            ToNode::Refused { ref record, seq, ref why } => {
                if let Some(asks) = inner.asks.remove(&(record.clone(), seq)) {
                    let value = CommandError::from(why).into();
                    if asks.iter().any(|ask| ask.lock.is_some_and(|lock| !lock.brought)) {
                        work.over.push(Arc::clone(self));
                    }
                    asks.into_iter().for_each(|ask| ask.answer(&value, work));
                    return None;
                }
            }
            ToNode::Queued { ref record, seq, ticket } => {
                let key = (record.clone(), seq);
                if let Some(asks) = inner.asks.get_mut(&key) {
                    let at_once = asks.extract_if(.., |ask| ask.wait == Wait::No);
                    for ask in at_once {
                        let value = reply::queued(seq, ask.mode, ticket);
                        ask.answer(&value, work);
                    }
                    if asks.iter().any(|ask| ask.lock.is_some()) {
                        work.vigils.push(Arc::clone(self));
                    }
                    for ask in asks.iter_mut().filter(|ask| ask.timer.is_none()) {
                        if let Wait::Ms(span) = ask.wait {
                            let (seat, record) = (Arc::clone(self), record.clone());
                            let key = PatienceKey::new(crate::clock::now() + span);
                            ask.timer = Some(key);
                            let slot = ask.slot.clone();
                            work.patience.push((key, Patience { seat, record, seq, slot }));
                        }
                    }
                    if asks.is_empty() {
                        inner.asks.remove(&key);
                    }
                    return None;
                }
            }
            ToNode::Retry { ref record, seq } => {
                if let Some(ask) = inner.asks.get(&(record.clone(), seq)).and_then(|it| it.first())
                {
                    work.again.push((Arc::clone(self), ask.message(record, seq)));
                    return None;
                }
            }
            ToNode::Serving(term) => self.term_began(inner, term, work),
            _ => {}
        }
        Some(message)
    }

    /// Somebody wants what was granted to owners that a command has named: they hold it until it
    /// is released, so the graph of waits hears of them.
    fn report(self: &Arc<Self>, inner: &Inner, record: &Record, seq: Seq, work: &mut Work) {
        if let Some(holders) = inner.owners.get(&(record.clone(), seq)) {
            let (record, holders, waits) = (record.clone(), holders.clone(), Vec::new());
            let report = ToServer::Report { record, seq, number: 1, holders, waits };
            work.again.push((Arc::clone(self), report));
        }
    }

    /// Acquires of an earlier epoch wait in no line any more.
    fn term_began(self: &Arc<Self>, inner: &mut Inner, term: Term, work: &mut Work) {
        let text = "a new term has begun, and what waited in the last one is over; acquire again";
        let value = Value::error(ErrorCode::Loading, text);
        let over = |(record, _): &(Record, Seq), asks: &mut Vec<Ask>| {
            term.groups.contains(record.group()) && asks.iter().any(|ask| ask.epoch < term.epoch)
        };
        for (_, asks) in inner.asks.extract_if(.., over) {
            // Nobody can ask for such a lock again.
            if asks.iter().any(|ask| ask.lock.is_some_and(|lock| !lock.brought)) {
                work.over.push(Arc::clone(self));
            }
            asks.into_iter().for_each(|ask| ask.answer(&value, work));
        }
    }

    /// Its commands hear that there is no such session, or no such lock.
    pub(super) fn fail(&self, work: &mut Work) {
        let is_lock = self.lock().lock.is_some();
        if is_lock {
            self.answer_all(&lock_ended(), work);
        }
        self.answer_all(&CommandError::from(&SessionRefusal::Unknown).into(), work);
    }

    /// All commands that wait are answered by this.
    pub(super) fn answer_all(&self, value: &Value, work: &mut Work) {
        let mut inner = self.lock();
        for asks in std::mem::take(&mut inner.asks).into_values() {
            asks.into_iter().for_each(|ask| ask.answer(value, work));
        }
        let locks = inner.lock_opens.drain(..).map(|ask| ask.slot).collect::<Vec<_>>();
        let slots = inner.opens.drain(..).chain(locks);
        slots.for_each(|slot| slot.fill(value, &mut work.dirty));
    }

    /// `LS.REASSERT` has told of this seq. No, if there are `max` already.
    pub(super) fn told(&self, epoch: Epoch, seq: Seq, group: Group, max: usize) -> bool {
        let told = &mut self.lock().told;
        if told.0 != Some(epoch) {
            *told = (Some(epoch), BTreeMap::new());
        }
        let fits = told.1.len() < max || told.1.contains_key(&seq);
        if fits {
            told.1.insert(seq, group);
        }
        fits
    }

    /// How many seqs of these groups `LS.REASSERT` has told of, and their sum.
    pub(super) fn told_of(&self, epoch: Epoch, groups: GroupSet) -> (u32, u64) {
        let inner = self.lock();
        let (known, seqs) = &inner.told;
        let in_groups = seqs.iter().filter(|(_, group)| groups.contains(**group));
        let of_epoch = in_groups.filter(|_| *known == Some(epoch));
        of_epoch.fold((0, 0), |(count, sum), (seq, _)| (count + 1, seq.0.wrapping_add(sum)))
    }

    /// The connection `by` closes the session: it need not hear that it is over.
    pub(super) fn close(&self, by: Option<u64>) {
        let mut inner = self.lock();
        (inner.closed, inner.closed_by) = (true, by);
    }

    /// Whoever listens hears that the session is over, once. To be called before the tables hear of
    /// its end: nobody is granted what it had before its listeners are told.
    pub(super) fn say_over(&self, work: &mut Work) {
        let mut inner = self.lock();
        if !std::mem::replace(&mut inner.told_over, true) {
            let event = Event::Node(ToNode::NoSession);
            let (but, id) = (inner.closed_by, self.id);
            work.dirty.first(|dirty| inner.tell_all_but(but, id, |_| &event, dirty));
        }
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

/// What an `LS.LOCK` hears that waits for a lock which is over.
fn lock_ended() -> Value {
    let text = "the lock was unlocked, or its lease ended, while it was waited for";
    Value::error(ErrorCode::NoSession, text)
}

impl Inner {
    /// Whether a command waits for this acquire whose connection is there.
    fn is_asked(&self, record: &Record, seq: Seq) -> bool {
        let asks = self.asks.get(&(record.clone(), seq));
        asks.is_some_and(|asks| asks.iter().any(|ask| !ask.slot.is_closed()))
    }

    /// Every connection that listens hears this, but the one with the number `but`; what it hears
    /// depends on whether it is a node.
    fn tell_all_but<'a>(
        &self,
        but: Option<u64>,
        session: SessionId,
        event: impl Fn(bool) -> &'a Event,
        dirty: &mut Dirty,
    ) {
        for one in self.listeners.iter().filter(|one| Some(one.outbox.id) != but) {
            one.outbox.event(session, event(one.is_node), one.as_message, dirty);
        }
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
