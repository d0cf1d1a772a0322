//! The lock service without sockets: the parts of `lockspan-protocol`, driven by many threads.
//!
//! | part | here | its lock |
//! |---|---|---|
//! | registry | [`desk`], with the seats of all sessions | one |
//! | tables | [`shard`], each with the seats that it knows | one each |
//! | graph of waits | | one |
//! | sessions | [`seat`]: listeners and waiting commands | one each |
//! | connections | `net::outbox` | one each |
//!
//! There is no thread for a part: whoever has a message locks what it is for, steps it, and goes
//! on. Locks are taken in the order of the table above, and never two tables at once. What may not
//! be done under a lock is collected in [`Work`] and done by [`Service::finish`]; bytes go to
//! sockets when no lock is held.
//!
//! # Why this is the same as `LockServer`
//!
//! `LockServer` handles one input at a time, and passes on all that the parts have to say to each
//! other before the next. Here inputs overlap. They could still have come one after the other, in
//! an order that every part and every client agrees with, or in one that the protocol allows
//! anyway:
//!
//! 1. **A table's step is whole.** Under its lock it takes its input, its messages are put into the
//!    outboxes, and its facts into the graph, before the next input. So the messages about a record
//!    and the facts about it are in the order in which they came about. Different tables share no
//!    record, and the protocol promises no order between records.
//! 2. **The registry speaks to the tables with its lock held**, in its own order: `Began` reaches
//!    all tables before `Opened` goes out, `Begin` before `Serving`, and `Ended` before anybody is
//!    granted what the session had (it is that input that grants it). Between two tables that hear
//!    of an `Ended`, another thread may step a third one; that thread's message could as well have
//!    come before or after the whole, since neither table looks at the other.
//! 3. **A message finds its session open, and meanwhile the session ends.** Its table then does not
//!    know the session and refuses it as unknown, or has not heard yet: as if the message had come
//!    before. What it is granted ends with the `Ended` that is on its way. The flag in the seat is
//!    only a short cut; the table's own list decides.
//! 4. **A lease that is over, and the timer is late.** The registry looks at its leases before each
//!    thing that it does, so no such lease is extended. A table may serve the session until it
//!    hears of the end, as in 3; its records go to nobody before that.
//! 5. **`Recovered` reaches the registry late**, when the table is unlocked. It takes groups from a
//!    set that the beginning of a term has filled, so the order does not matter; until then the
//!    session is not extended there but told to re-assert, which is answered again. If the session
//!    that has spoken is over meanwhile, the registry keeps what it has (R6). A late `Progress`
//!    extends nothing that was not extended anyway, or may be.
//! 6. **`Behind` reaches the registry late**, perhaps when the groups are in a later term already.
//!    It counts only against a term that is not above the epoch that it names, so a late double
//!    does not end a new term, and no epoch is taken twice.
//! 7. **A victim of the graph is refused late.** The table refuses it only if it still waits with
//!    that number. If it was granted meanwhile, the cycle is gone. If it asked again meanwhile, it
//!    is refused all the same, and its second fact is withdrawn by that. So a cycle is always
//!    broken; that somebody may be refused for a cycle that has just dissolved is said in
//!    `docs/protocol.md`.
//!
//! `now` is read once for all commands of one turn of a connection. A table takes the latest that
//! it has seen, and the registry reads it under its lock: so for each part it never goes back.

mod acquire;
mod desk;
mod epochs;
mod labels;
mod lock;
mod lock_all;
mod look;
mod of_users;
mod operate;
mod patience;
mod places;
mod public;
mod ranking;
mod recovery;
mod seat;
mod sessions;
mod shard;
#[cfg(test)]
mod tests;
mod timer;
mod watching;
mod work;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use lockspan_protocol::server::table::TableInput;
use lockspan_protocol::server::watch::{Datatypes, Watch};
use lockspan_protocol::server::{Budget, SEARCH_PAUSE};
use lockspan_protocol::{
    Epoch, GROUPS, Group, Limits, LockTable, Record, Refusal, SessionId, SessionRefusal, Tick,
    ToServer, WaitGraph,
};
use lockspan_wire::CommandError;
use lockspan_wire::reply::Deadlock;
use tokio::sync::Notify;

use crate::clock;
use crate::seldom::Seldom;
use crate::stats::{Meters, Stats};
use crate::store::Storage;
pub(crate) use acquire::{Wish, check_waits};
use desk::Desk;
use lock::Vigils;
pub(crate) use lock::{LockTag, LockWish, session_of};
use lock_all::Abandoned;
pub(crate) use lock_all::{Chain, LockAllWish};
pub(crate) use look::{LocksLook, SessionsLook};
pub(crate) use of_users::PerUser;
use patience::Patiences;
use places::Places;
pub(crate) use public::PublicKey;
pub(crate) use ranking::{DEEPEST, Order, Ranking};
pub(crate) use seat::Seat;
use shard::Shard;
pub(crate) use watching::{Counted, SessionSeen};
pub(crate) use work::Work;

/// The running service.
#[derive(Debug)]
pub(crate) struct Service {
    desk: Mutex<Desk>,
    shards: Box<[Mutex<Shard>]>,
    graph: Mutex<WaitGraph>,
    storage: Storage,
    /// From which public ids are computed.
    public_key: PublicKey,
    /// The epoch of each group; 0 while it is not served.
    epochs: Box<[AtomicU32]>,
    patiences: Patiences,
    vigils: Vigils,
    /// Locks of commands for several that have failed.
    abandoned: Arc<Abandoned>,
    places: Places,
    /// When the timer rings next, in microseconds.
    rings_at: AtomicU64,
    rings_earlier: Notify,
    /// Sessions of which it is not known whose they are.
    orphans: AtomicUsize,
    /// Sessions have yet to re-assert what they held before a restart.
    recovers: AtomicBool,
    /// Nothing is decided any more.
    halted: AtomicBool,
    /// Every group has been served once: the start is over.
    ready: AtomicBool,
    /// A term has begun, or it could not be stored that it does.
    pub(crate) began: Notify,
    pub(crate) limits: Limits,
    /// Clients log in, and of those who show later epochs only operators come this far.
    pub(crate) has_users: bool,
    pub(crate) meters: Meters,
    /// Epochs that users show and are not believed, for the log.
    pub(crate) shown_epochs: Seldom,
    /// By which tables count.
    pub(crate) datatypes: Arc<Datatypes>,
    /// The last waits that were refused because they closed a cycle (a deadlock).
    deadlocks: Mutex<VecDeque<Deadlock>>,
}

impl Service {
    pub(crate) fn new(
        limits: Limits,
        shards: usize,
        (key, public_key): (u64, PublicKey),
        storage: Storage,
        remembered: usize,
    ) -> Self {
        let (records, claims) =
            (Budget::new(limits.records, shards), Budget::new(limits.claims, shards));
        let datatypes = Arc::<Datatypes>::default();
        let watch = || Watch::new(Arc::clone(&datatypes), remembered);
        let table = || LockTable::new(limits.clone(), key).within(&records, &claims);
        let shard = || Mutex::new(Shard::new(table().watched_by(watch())));
        Self {
            desk: Mutex::new(Desk::new(limits.clone(), shards)),
            shards: (0..shards).map(|_| shard()).collect(),
            graph: Mutex::new(WaitGraph::new(limits.search_steps)),
            storage,
            public_key,
            epochs: (0..GROUPS).map(|_| AtomicU32::new(0)).collect(),
            patiences: Patiences::default(),
            vigils: Vigils::default(),
            abandoned: Arc::default(),
            places: Places::default(),
            rings_at: AtomicU64::new(u64::MAX),
            rings_earlier: Notify::new(),
            orphans: AtomicUsize::new(0),
            recovers: AtomicBool::new(false),
            halted: AtomicBool::new(false),
            ready: AtomicBool::new(false),
            began: Notify::new(),
            limits,
            has_users: false,
            meters: Meters::default(),
            shown_epochs: Seldom::default(),
            datatypes,
            deadlocks: Mutex::default(),
        }
    }

    /// So much may one user have. For a server that has no session yet.
    pub(crate) fn allow_each_user(&mut self, per_user: PerUser) {
        let desk = self.desk.get_mut().expect("nobody else has had it");
        desk.of_users.allow(per_user);
    }

    /// Nothing is decided from now on: messages are not looked at.
    pub(crate) fn halt(&self) {
        self.halted.store(true, Ordering::Release);
    }

    pub(crate) fn is_halted(&self) -> bool {
        self.halted.load(Ordering::Acquire)
    }

    /// Whether every group has been served: before that, no message about sessions or records is
    /// looked at.
    pub(crate) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// Whether the server waits for clients to re-assert what they held before a restart. It takes
    /// no lock.
    pub(crate) fn is_recovering(&self) -> bool {
        !self.is_ready() || self.recovers.load(Ordering::Acquire)
    }

    /// Why nothing can be stored at the moment, if so.
    pub(crate) fn storage_trouble(&self) -> Option<String> {
        self.storage.trouble()
    }

    /// The writer of the data file ends.
    pub(crate) fn end_storage(&self) {
        self.storage.end();
    }

    /// A session that is open says something about a record, or about the groups of one table.
    pub(crate) fn tell_table(
        &self,
        seat: &Seat,
        message: ToServer,
        work: &mut Work,
    ) -> Result<(), Refusal> {
        if !seat.is_open() {
            self.check_open(seat.id, work).map_err(Refusal::Session)?;
        }
        let group = match &message {
            ToServer::Acquire { record, seq, .. } => {
                seat.saw(*seq);
                record.group()
            }
            ToServer::Release { record, seq, keep } | ToServer::Cancel { record, seq, keep } => {
                seat.saw(keep.unwrap_or(*seq));
                record.group()
            }
            ToServer::Reassert { record, seq, .. } => {
                seat.saw(*seq);
                record.group()
            }
            ToServer::Report { record, .. } | ToServer::Note { record, .. } => record.group(),
            ToServer::Page { groups, .. } | ToServer::Reasserted { groups, .. } => {
                if matches!(message, ToServer::Reasserted { .. }) {
                    self.check_reasserted(seat.id, *groups).map_err(Refusal::Reassert)?;
                }
                match groups.iter().next() {
                    Some(group) => group,
                    None => return Ok(()),
                }
            }
            _ => return Ok(()),
        };
        self.with_shard(self.shard_of(group), work, |shard, now, work| {
            shard.counts.messages_in += 1;
            match &message {
                ToServer::Acquire { .. } => shard.counts.acquires += 1,
                ToServer::Release { .. } | ToServer::Cancel { .. } => shard.counts.releases += 1,
                _ => {}
            }
            let record = seat.is_busy().then(|| record_of(&message).cloned()).flatten();
            let result = shard.hear(now, (seat, true), message, &self.graph, work);
            if let Some(record) = record {
                self::acquire::supersede(shard, seat, &record, work);
            }
            result
        })
    }

    /// What a session that is not known to be open hears.
    fn check_open(&self, session: SessionId, work: &mut Work) -> Result<(), SessionRefusal> {
        self.with_desk(work, |desk, _| desk.registry.check_open(session))
    }

    fn shard_of(&self, group: Group) -> usize {
        shard_of(group, self.shards.len())
    }

    /// The epoch of the record's group, if it is served.
    pub(crate) fn epoch_of(&self, record: &Record) -> Option<Epoch> {
        let number = self.epochs[usize::from(record.group().0)].load(Ordering::Acquire);
        Epoch::new(number).filter(|&epoch| epoch != Epoch::NONE)
    }

    fn with_shard<R>(
        &self,
        shard: usize,
        work: &mut Work,
        step: impl FnOnce(&mut Shard, Tick, &mut Work) -> R,
    ) -> R {
        let mut shard = crate::lock(&self.shards[shard]);
        let now = shard.at(work.now.unwrap_or_else(clock::now));
        let result = step(&mut shard, now, work);
        let deadline = shard.table.next_deadline();
        drop(shard);
        self.ring_by(deadline);
        if std::mem::take(&mut work.is_searching) {
            self.ring_by(Some(now + SEARCH_PAUSE));
        }
        result
    }

    /// Does what was left to do; it may lead to more. What is to be sent stays.
    pub(crate) fn finish(&self, work: &mut Work) {
        while work.is_left() || !self.abandoned.is_empty() {
            for (seat, slot) in self.abandoned.take() {
                self.end_abandoned(&seat, &slot, work);
            }
            self.patiences.change(&mut work.patience, &mut work.patience_over);
            self.ring_by(self.patiences.next_deadline());
            if !work.places.is_empty() {
                self.places.add(clock::now(), &mut work.places);
                self.ring_by(self.places.next_deadline());
            }
            for victim in std::mem::take(&mut work.victims) {
                self.meters.deadlocks.add(1);
                self.remember(&victim);
                let lockspan_protocol::server::Victim { session, seq, record, cycle } = victim;
                let shard = self.shard_of(record.group());
                let input = TableInput::Refuse { session, record, seq, cycle };
                self.tell_shard(shard, input, work);
            }
            for (seat, message) in std::mem::take(&mut work.again) {
                let told = self.tell_table(&seat, message.clone(), work);
                if let (Err(why), ToServer::Acquire { record, seq, .. }) = (told, &message) {
                    seat.refuse(record, *seq, &CommandError::from(&why).into(), work);
                }
            }
            for (seat, ask) in std::mem::take(&mut work.locks) {
                self.lock_opened(&seat, ask, work);
            }
            for granted in std::mem::take(&mut work.granted) {
                self.lock_granted(granted, work);
            }
            for seat in std::mem::take(&mut work.vigils) {
                self.watch_over(seat, work);
            }
            for (seat, record, seq) in std::mem::take(&mut work.passed) {
                self.pass_over(&seat, &record, seq, work);
            }
            for seat in std::mem::take(&mut work.over) {
                // It may have ended by itself.
                let _ = self.close(seat.id, work);
            }
            if !work.notes.is_empty() {
                self.with_desk(work, |_, _| ());
            }
        }
    }

    /// Something that no table refuses.
    fn tell_shard(&self, shard: usize, input: TableInput, work: &mut Work) {
        let told = self
            .with_shard(shard, work, |shard, now, work| shard.step(now, input, &self.graph, work));
        told.expect("a table refuses nothing but messages");
    }

    /// What there was and is.
    pub(crate) fn stats(&self) -> Stats {
        let mut stats = Stats {
            commands: self.meters.commands.get(),
            deadlocks: self.meters.deadlocks.get(),
            slow_readers: self.meters.slow_readers.get(),
            expirations: self.meters.expirations.get(),
            lost_grants: self.meters.lost_grants.get(),
            bytes_in: self.meters.bytes_in.get(),
            connections_total: self.meters.connections_total.get(),
            sessions: crate::lock(&self.desk).registry.len() as u64,
            recovering: !self.is_ready(),
            ..Stats::default()
        };
        for shard in &self.shards {
            let shard = crate::lock(shard);
            stats.add(&shard.counts);
            for tally in shard.table.watch().tallies() {
                stats.revokes += tally.revokes;
                stats.revoke_repeats += tally.revoke_repeats;
            }
            stats.records += shard.table.records() as u64;
            stats.claims += shard.table.claims() as u64;
            stats.recovering |= shard.table.is_recovering();
        }
        stats
    }
}

/// Which of so many tables has the group: neighbours are together, so that a term is told in few
/// bytes.
fn shard_of(group: Group, shards: usize) -> usize {
    usize::from(group.0) * shards / GROUPS
}

fn record_of(message: &ToServer) -> Option<&Record> {
    match message {
        ToServer::Acquire { record, .. }
        | ToServer::Release { record, .. }
        | ToServer::Cancel { record, .. }
        | ToServer::Reassert { record, .. } => Some(record),
        _ => None,
    }
}
