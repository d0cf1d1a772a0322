//! The registry with its lock, and the seats of all sessions.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use lockspan_protocol::server::registry::{Registry, RegistryOutput, ToTables};
use lockspan_protocol::server::table::TableInput;
use lockspan_protocol::server::{Listed, Output, Store};
use lockspan_protocol::{
    Epoch, Group, GroupSet, Limits, Seq, SessionId, SessionRefusal, StoreId, TermRefusal, Tick,
    ToNode, Token,
};
use lockspan_wire::{ErrorCode, Event, Value};

use super::epochs::Epochs;
use super::labels::Departed;
use super::of_users::OfUsers;
use super::public::ByPublicId;
use super::recovery::Recovers;
use super::seat::Seat;
use super::timer::DUE_AT_ONCE;
use super::work::Note;
use super::{Service, Work, shard_of};
use crate::clock;
use crate::store::Saved;

/// What is behind the registry's lock.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) registry: Registry,
    pub(super) out: VecDeque<RegistryOutput>,
    pub(super) seats: HashMap<SessionId, Arc<Seat>>,
    /// The same sessions, by what others see of them.
    pub(super) by_public: ByPublicId,
    /// What each user has of them.
    pub(super) of_users: OfUsers,
    /// Those from a run without users that nobody has spoken for since.
    orphans: HashSet<SessionId>,
    /// Stands for the sessions of a run before of which nothing is known.
    phantom: Option<Listed>,
    /// Whom a restart has to wait for.
    pub(super) recovers: Option<Recovers>,
    /// What clients have shown of later epochs.
    pub(super) epochs: Epochs,
    /// What ended sessions called themselves.
    pub(super) departed: Departed,
}

impl Desk {
    pub(super) fn new(limits: Limits, shards: usize) -> Self {
        let all = || (0..=u8::MAX).map(Group);
        let of = |shard| all().filter(move |group| shard_of(*group, shards) == shard).collect();
        let groups = (0..shards).map(of).collect();
        Self {
            registry: Registry::new(limits, groups),
            out: VecDeque::new(),
            seats: HashMap::new(),
            by_public: ByPublicId::default(),
            of_users: OfUsers::new(shards),
            orphans: HashSet::new(),
            phantom: None,
            recovers: None,
            epochs: Epochs::default(),
            departed: Departed::default(),
        }
    }
}

impl Desk {
    /// Whether it is what stands for the sessions of which nothing is known.
    pub(super) fn is_phantom(&self, session: SessionId) -> bool {
        self.phantom.is_some_and(|phantom| phantom.session == session)
    }

    /// What stands for them.
    pub(super) fn phantom(&self) -> Option<Listed> {
        self.phantom
    }

    /// Whether those are still waited for.
    pub(super) fn phantom_recovers(&self) -> bool {
        self.phantom.is_some_and(|phantom| self.registry.recovers(phantom.session))
    }

    /// A session has its seat.
    pub(super) fn seat(&mut self, seat: Arc<Seat>) {
        self.by_public.insert(seat.public, seat.id);
        self.seats.insert(seat.id, seat);
    }

    pub(super) fn is_orphan(&self, session: SessionId) -> bool {
        self.orphans.contains(&session)
    }

    /// A session is ended by its client, on this connection, or because nobody can use it.
    pub(super) fn close(
        &mut self,
        session: SessionId,
        from: Option<u64>,
    ) -> Result<(), SessionRefusal> {
        self.registry.close(session, &mut self.out)?;
        self.seats.get(&session).inspect(|seat| seat.close(from));
        if let Some(recovers) = &mut self.recovers {
            recovers.is_back(session);
        }
        Ok(())
    }
}

impl Service {
    /// One thing that the registry does, and all that follows from it. Leases that are over end
    /// first.
    pub(super) fn with_desk<R>(
        &self,
        work: &mut Work,
        step: impl FnOnce(&mut Desk, Tick) -> R,
    ) -> R {
        let mut desk = crate::lock(&self.desk);
        let now = clock::now();
        let Desk { registry, out, .. } = &mut *desk;
        registry.expire(now, out);
        self.settle(&mut desk, now, work);
        let result = step(&mut desk, now);
        self.settle(&mut desk, now, work);
        self.watch_recovery(&mut desk, now);
        let deadline = desk.registry.next_deadline();
        drop(desk);
        self.ring_by(deadline);
        result
    }

    /// The seat of a session, if there is one.
    pub(crate) fn seat(&self, session: SessionId) -> Option<Arc<Seat>> {
        crate::lock(&self.desk).seats.get(&session).cloned()
    }

    /// Serves everything, above every epoch that ever was, as soon as that is durable.
    pub(crate) fn take_all(&self, saved: Saved, work: &mut Work) -> Result<(), TermRefusal> {
        self.with_desk(work, |desk, now| {
            // What the session drew in an earlier run is not known. A release that was meant for it
            // must not end what is acquired now, so numbers go on above, packed as tokens are.
            let first = saved.epoch.next().and_then(|epoch| Token::new(epoch, 0));
            let first = first.map_or(Seq::NONE, |first| Seq(first.number().unsigned_abs()));
            for one in &saved.sessions {
                if one.here {
                    let owner = self.storage.owner(one.session);
                    match &owner {
                        Some(owner) => desk.of_users.one_more(owner),
                        None => {
                            desk.orphans.insert(one.session);
                        }
                    }
                    let names = (one.session, self.public(one.session));
                    let seat = Seat::new(names, one.ttl, one.handoff, owner);
                    seat.saw(first);
                    desk.seat(seat);
                } else {
                    desk.phantom = Some(*one);
                }
            }
            self.orphans.store(desk.orphans.len(), Ordering::Relaxed);
            let Saved { epoch, sessions } = saved;
            desk.epochs.first = epoch.next().unwrap_or(Epoch::MAX).number();
            desk.registry.take(now, GroupSet::ALL, epoch, sessions, &mut desk.out)
        })
    }

    /// The highest epoch of any group that is served.
    pub(crate) fn highest_epoch(&self) -> u32 {
        self.epochs.iter().map(|epoch| epoch.load(Ordering::Acquire)).max().unwrap_or(0)
    }

    /// The group is not served until it is taken again.
    pub(super) fn unserve(&self, group: Group) {
        self.epochs[usize::from(group.0)].store(0, Ordering::Release);
    }

    /// Whether every group is served.
    pub(crate) fn serves_all(&self) -> bool {
        self.epochs.iter().all(|epoch| epoch.load(Ordering::Acquire) > 0)
    }

    /// The writer has made these durable.
    pub(crate) fn stored(&self, stores: Vec<StoreId>, work: &mut Work) {
        // A commit may have very many; others have the registry in between.
        for some in stores.chunks(DUE_AT_ONCE) {
            self.with_desk(work, |desk, now| {
                for &store in some {
                    // It was under way; if it is not any more, its groups were left.
                    let _ = desk.registry.stored(now, store, &mut desk.out);
                }
            });
        }
    }

    /// Every session hears that the server stops, and every command that waits.
    pub(crate) fn announce_stop(&self, work: &mut Work) {
        let value = Value::error(ErrorCode::Loading, "the server is stopping; connect again");
        for seat in crate::lock(&self.desk).seats.values() {
            seat.announce_event(&Event::Stopping, work);
            seat.answer_all(&value, work);
        }
    }

    /// Passes on what the registry and the tables have to say to each other, until they have
    /// nothing more to say. What the tables said comes before what the registry says next.
    fn settle(&self, desk: &mut Desk, now: Tick, work: &mut Work) {
        loop {
            for note in std::mem::take(&mut work.notes) {
                match note {
                    Note::Recovered { former, by, groups } => {
                        desk.registry.recovered(former, by, groups, &mut desk.out);
                        if let Some(recovers) = &mut desk.recovers
                            && !desk.registry.recovers(former)
                        {
                            recovers.is_back(former);
                        }
                    }
                    Note::Progress { session } => desk.registry.progressed(session),
                    Note::Behind { groups, above, by } => {
                        self.behind(desk, now, groups, above, by, work);
                    }
                }
            }
            match desk.out.pop_front() {
                None if work.notes.is_empty() => return,
                None => {}
                Some(RegistryOutput::Out(output)) => self.desk_said(desk, now, output, work),
                Some(RegistryOutput::Tables(said)) => self.tell_tables(desk, said, work),
            }
        }
    }

    fn desk_said(&self, desk: &mut Desk, now: Tick, output: Output, work: &mut Work) {
        match output {
            Output::Send { session, message } => {
                let Some(seat) = desk.seats.get(&session) else { return };
                match message {
                    ToNode::Opened { terms } => {
                        let until = desk.registry.lease_end(session).unwrap_or(now);
                        seat.opened(terms, until.since(now), work);
                    }
                    ToNode::NoSession => seat.say_over(work),
                    message => seat.deliver(message, work),
                }
            }
            Output::Store { store, what } => {
                if let Store::Forget { session } = what
                    && let Some(seat) = desk.seats.get(&session)
                {
                    seat.set_open(false);
                }
                if let Store::Session { session, .. } = what
                    && let Some(owner) = desk.seats.get(&session).and_then(|seat| seat.owner())
                {
                    self.storage.set_owner(session, Arc::clone(owner));
                }
                if self.storage.put(store, what) {
                    let stored = desk.registry.stored(now, store, &mut desk.out);
                    stored.expect("the write is under way");
                }
            }
            Output::Settled { former } => {
                desk.phantom.take_if(|phantom| phantom.session == former);
            }
            Output::Ended { session } => {
                if let Some(seat) = desk.seats.remove(&session) {
                    desk.by_public.remove(seat.public, session);
                    if let Some(owner) = seat.owner() {
                        desk.of_users.one_less(owner);
                    }
                    if let Some(label) = seat.label() {
                        desk.departed.add(session, label);
                    }
                    self.adopted(desk, session);
                    seat.end(work);
                }
            }
            // It is the tables that are behind; see below. No group goes to another server.
            Output::Behind { .. } | Output::Left { .. } => {}
        }
    }

    /// The session is no orphan any more, if it was one.
    pub(super) fn adopted(&self, desk: &mut Desk, session: SessionId) {
        desk.orphans.remove(&session);
        self.orphans.store(desk.orphans.len(), Ordering::Relaxed);
    }

    fn tell_tables(&self, desk: &mut Desk, said: ToTables, work: &mut Work) {
        match said {
            ToTables::Began { session, handoff } => {
                let Some(seat) = desk.seats.get(&session) else { return };
                let user = seat.owner().and_then(|owner| desk.of_users.quota(owner));
                for shard in 0..self.shards.len() {
                    crate::lock(&self.shards[shard]).seats.insert(session, Arc::clone(seat));
                    let user = user.clone();
                    self.tell_shard(shard, TableInput::Began { session, handoff, user }, work);
                }
                seat.set_open(true);
            }
            ToTables::Ended { session } => {
                let seat = desk.seats.get(&session);
                seat.inspect(|seat| {
                    seat.set_open(false);
                    seat.say_over(work);
                });
                let mut ended = 0;
                for shard in 0..self.shards.len() {
                    ended += self.end_in_shard(shard, session, work);
                    crate::lock(&self.shards[shard]).seats.remove(session);
                }
                if seat.is_some_and(|seat| !seat.is_closed()) {
                    self.meters.expirations.add(1);
                    self.meters.lost_grants.add(ended);
                }
                seat.inspect(|seat| seat.fail(work));
            }
            ToTables::FormerOver { former, groups } => {
                for shard in 0..self.shards.len() {
                    self.tell_shard(shard, TableInput::FormerOver { former, groups }, work);
                }
            }
            ToTables::Begin { term, listed, .. } => {
                let groups = term.groups;
                let Some(group) = groups.iter().next() else { return };
                let listed_count = listed.len();
                if listed_count > 0 {
                    // Before a table says that it recovers: whoever sees that is told for whom.
                    self.recovers.store(true, Ordering::Release);
                }
                // The only session of another server stands for ones of which nothing is known:
                // nobody can speak for it.
                let input = TableInput::Begin { term, listed, formers: false };
                self.tell_shard(self.shard_of(group), input, work);
                for group in groups.iter() {
                    self.epochs[usize::from(group.0)].store(term.epoch.number(), Ordering::Release);
                }
                if !self.is_ready() && self.serves_all() {
                    self.ready.store(true, Ordering::Release);
                }
                tracing::debug!(
                    "{} of {groups} has started; {listed_count} sessions may re-assert",
                    term.epoch
                );
                self.began.notify_one();
            }
        }
    }
}
