//! What sessions ask of the registry: to begin, to live on, to end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lockspan_protocol::server::Output;
use lockspan_protocol::server::registry::{RegistryOutput, ToTables};
use lockspan_protocol::server::table::TableInput;
use lockspan_protocol::{
    Client, GroupSet, Handoff, ReassertRefusal, SessionId, SessionRefusal, Term, ToNode, ToServer,
};
use lockspan_wire::{CommandError, ErrorCode};

use super::seat::Seat;
use super::{Service, Work};
use crate::clock;
use crate::net::outbox::Slot;

impl Service {
    /// Opens a session, perhaps again. `join` sees its seat before anything is said to it.
    pub(crate) fn open(
        &self,
        session: SessionId,
        (ttl, handoff, client): (Duration, Handoff, Client),
        owner: Option<&Arc<str>>,
        join: impl FnOnce(&Arc<Seat>),
        work: &mut Work,
    ) -> Result<Arc<Seat>, SessionRefusal> {
        self.with_desk(work, |desk, now| {
            let is_own = |seat: &Arc<Seat>| owner.is_none_or(|owner| seat.belongs_to(owner));
            let known = desk.seats.get(&session);
            let new = owner.filter(|_| !known.is_some_and(is_own));
            if let Some(user) = new
                && let Some(max) = desk.of_users.is_full(user)
            {
                return Err(SessionRefusal::TooManyOfUser { max });
            }
            if !known.is_none_or(is_own) {
                // As if it were over: whose it is is told to nobody else.
                return Err(SessionRefusal::Unknown);
            }
            desk.registry.open(now, session, (ttl, handoff, client), &mut desk.out)?;
            if let Some(user) = new {
                desk.of_users.one_more(user);
            }
            let known = desk.seats.get(&session).cloned();
            let seat = known.unwrap_or_else(|| {
                let names = (session, self.public(session));
                let seat = Seat::new(names, ttl, handoff, owner.cloned());
                desk.seat(Arc::clone(&seat));
                seat
            });
            join(&seat);
            Ok(seat)
        })
    }

    /// Whether there are sessions from a run without users that nobody has spoken for since.
    pub(crate) fn has_orphans(&self) -> bool {
        self.orphans.load(Ordering::Relaxed) > 0
    }

    /// This user speaks for the session. If it is an orphan it is theirs from now on, and after a
    /// restart.
    pub(crate) fn claim(&self, session: SessionId, user: &Arc<str>, work: &mut Work) {
        self.with_desk(work, |desk, _| {
            if desk.is_orphan(session)
                && let Some(seat) = desk.seats.get(&session)
                && desk.registry.store_again(session, &mut desk.out)
            {
                // Before it is written, which is when this is done.
                seat.claim(user);
                desk.of_users.one_more(user);
                // The tables know the session; now they hear whose it is.
                desk.out.push_back(RegistryOutput::Tables(ToTables::Began {
                    session,
                    handoff: seat.handoff,
                }));
                self.adopted(desk, session);
            }
        });
    }

    /// A command waits for the session to be open.
    pub(crate) fn await_open(seat: &Seat, slot: Slot) {
        seat.await_open(slot);
    }

    /// A node's keep-alive: the answer is an event.
    pub(crate) fn keep_alive(
        &self,
        session: SessionId,
        number: u64,
        work: &mut Work,
    ) -> Result<(), SessionRefusal> {
        self.with_desk(work, |desk, now| {
            desk.registry.keep_alive(now, session, number, &mut desk.out)
        })
    }

    /// `LS.KEEP`: how long the lease is from now on.
    pub(crate) fn keep(
        &self,
        session: SessionId,
        work: &mut Work,
    ) -> Result<Duration, CommandError> {
        self.with_desk(work, |desk, now| {
            let mut said = VecDeque::new();
            let kept = desk.registry.keep_alive(now, session, 0, &mut said);
            kept.map_err(|why| CommandError::from(&why))?;
            let alive = |said: &RegistryOutput| {
                let RegistryOutput::Out(Output::Send { message, .. }) = said else { return false };
                matches!(message, ToNode::Alive { .. })
            };
            if said.iter().any(alive) {
                let seat = desk.seats.get(&session);
                return Ok(seat.map_or(Duration::ZERO, |seat| seat.ttl));
            }
            let text = if said.is_empty() {
                "the lease is no longer extended; open a new session"
            } else {
                "the server was restarted, and the lease is extended after the session has \
                 re-asserted its locks: LS.REASSERT, then LS.REASSERTED"
            };
            // It says `Serving`: which groups wait for re-assertions.
            desk.out.extend(said);
            Err(CommandError::new(ErrorCode::Loading, text))
        })
    }

    /// `LS.REASSERT`.
    pub(crate) fn reassert(
        &self,
        seat: &Seat,
        message: ToServer,
        work: &mut Work,
    ) -> Result<(), CommandError> {
        let told = match &message {
            ToServer::Reassert { record, epoch, seq, .. } => Some((*epoch, *seq, record.group())),
            _ => None,
        };
        let result = self.tell_table(seat, message, work);
        result.map_err(|why| CommandError::from(&why))?;
        if let Some((epoch, seq, group)) = told
            && !seat.told(epoch, seq, group, self.told_max())
        {
            let text = "LS.REASSERT: more records than a session may hold";
            return Err(CommandError::new(ErrorCode::Limit, text));
        }
        Ok(())
    }

    /// A node re-asserts what it may not: it has heard so, and that counts as told.
    pub(crate) fn disown(&self, seat: &Seat, message: &ToServer, work: &mut Work) {
        let ToServer::Reassert { record, epoch, former, seq, .. } = message else { return };
        let (session, record) = (seat.id, record.clone());
        let (shard, epoch) = (self.shard_of(record.group()), *epoch);
        let (former, seq) = (*former, *seq);
        let input = TableInput::Disown { session, record, epoch, former, seq };
        self.tell_shard(shard, input, work);
    }

    /// Of so many seqs a session may tell: the tables have no more of it.
    fn told_max(&self) -> usize {
        self.limits.claims_per_session.saturating_mul(self.shards.len())
    }

    /// `LS.REASSERTED`: the totals of several terms are divided by what `LS.REASSERT` has told.
    pub(crate) fn reasserted(
        &self,
        seat: &Seat,
        told: Term,
        former: SessionId,
        (count, sum): (u32, u64),
        work: &mut Work,
    ) -> Result<(), CommandError> {
        let Term { groups, epoch } = told;
        let terms = self.terms().into_iter().filter(|term| !term.groups.and(groups).is_empty());
        let terms: Vec<_> = terms.collect();
        let known = seat.told_of(epoch, groups);
        if terms.len() > 1 && known != (count, sum) {
            let text = format!(
                "LS.REASSERTED: {count} seqs with the sum {sum} do not match LS.REASSERT, which \
                 reported {} with the sum {}; re-assert the missing ones",
                known.0, known.1
            );
            return Err(CommandError::new(ErrorCode::Stale, text));
        }
        for term in &terms {
            let (count, sum) = match terms.len() {
                1 => (count, sum),
                _ => seat.told_of(epoch, term.groups),
            };
            let groups = term.groups;
            let message = ToServer::Reasserted { groups, epoch, former, count, sum };
            let result = self.tell_table(seat, message, work);
            result.map_err(|why| CommandError::from(&why))?;
        }
        Ok(())
    }

    /// Whether what a session says of its re-assertions counts yet.
    pub(super) fn check_reasserted(
        &self,
        session: SessionId,
        groups: GroupSet,
    ) -> Result<(), ReassertRefusal> {
        let desk = crate::lock(&self.desk);
        desk.registry.check_reasserted(clock::now(), session, groups)
    }

    /// A client ends its session. Other connections that listen for it are told.
    pub(crate) fn close(&self, session: SessionId, work: &mut Work) -> Result<(), SessionRefusal> {
        let from = work.from;
        self.with_desk(work, |desk, _| desk.close(session, from))
    }
}
