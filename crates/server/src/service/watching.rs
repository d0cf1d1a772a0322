//! What people see beyond single records: counts, what happened, who waits for whom.

use std::sync::Arc;

use lockspan_protocol::server::registry::SessionView;
use lockspan_protocol::server::table::{ClaimView, RecordView, TableInput};
use lockspan_protocol::server::watch::{Datatypes, Happening, Tally};
use lockspan_protocol::server::{OwnersView, Victim};
use lockspan_protocol::{Annotation, Record, SessionId};
use lockspan_wire::PublicId;
use lockspan_wire::reply::Deadlock;

use super::desk::Desk;
use super::look::STEPS;
use super::{Seat, Service, Work};
use crate::clock;

/// Refused deadlocks that are remembered. Of each, at most the first [`OWNERS`] owners.
const DEADLOCKS: usize = 64;
const OWNERS: usize = 100;

/// What was counted of one datatype; none: of all that have no count of their own.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    pub(crate) datatype: Option<Vec<u8>>,
    pub(crate) tally: Tally,
}

/// An open session.
#[derive(Clone, Debug)]
pub(crate) struct SessionSeen {
    pub(crate) view: SessionView,
    /// Its public id.
    pub(crate) id: PublicId,
    /// What it calls itself, if it does.
    pub(crate) label: Option<Annotation>,
    /// The numbers of the connections that hear of its events.
    pub(crate) connections: Vec<u64>,
    /// Whose it is, where there are users.
    pub(crate) user: Option<Arc<str>>,
    /// How many records it holds or waits for.
    pub(crate) claims: usize,
}

impl Service {
    /// What all tables have counted, by datatype.
    pub(crate) fn counted(&self) -> Vec<Counted> {
        let names = self.datatypes.names().enumerate();
        let (mut all, places): (Vec<_>, Vec<_>) = names
            .map(|(at, name)| {
                let datatype = name.map(<[u8]>::to_vec);
                let counted = Counted { datatype, tally: Tally::default() };
                (counted, Datatypes::index(at, name))
            })
            .unzip();
        for shard in &self.shards {
            let shard = crate::lock(shard);
            let tallies = shard.table.watch().tallies();
            for (counted, &place) in all.iter_mut().zip(&places) {
                counted.tally.add(&tallies[place]);
            }
        }
        all
    }

    /// What happened lately to a record, the latest first: at most `count`.
    pub(crate) fn history(&self, record: &Record, count: usize) -> Vec<Happening> {
        let (mut all, mut before) = (Vec::new(), Some(u64::MAX));
        while let Some(from) = before {
            before = self.history_part(record, from, count, &mut all);
        }
        all
    }

    /// Adds to `all`, until it has `count`, what happened to the record, as far as it is among the
    /// latest things before the number `before` that one look at its table sees. Returns the number
    /// to go on with, if there may be more.
    pub(crate) fn history_part(
        &self,
        record: &Record,
        mut before: u64,
        count: usize,
        all: &mut Vec<Happening>,
    ) -> Option<u64> {
        let shard = crate::lock(&self.shards[self.shard_of(record.group())]);
        let mut looked = 0;
        for (number, it) in shard.table.watch().happenings(before).take(STEPS) {
            if all.len() >= count {
                return None;
            }
            all.extend((it.record == *record).then(|| it.clone()));
            (before, looked) = (number, looked + 1);
        }
        (looked == STEPS).then_some(before)
    }

    /// Records of one table that are held and waited for: its part of `count` from all tables.
    pub(crate) fn wanted_of(
        &self,
        table: usize,
        count: usize,
        claims: usize,
        may: impl Fn(&Record) -> bool,
    ) -> Vec<RecordView> {
        let each = count.div_ceil(self.tables()).max(4);
        crate::lock(&self.shards[table]).table.wanted(each, claims, may)
    }

    /// How many tables there are.
    pub(crate) fn tables(&self) -> usize {
        self.shards.len()
    }

    /// How many claims a session has, and some of them.
    pub(crate) fn claims_of(
        &self,
        session: SessionId,
        count: usize,
    ) -> (usize, Vec<(Record, ClaimView)>) {
        let (mut sum, mut some) = (0, Vec::new());
        for shard in &self.shards {
            let left = count.saturating_sub(some.len());
            let (here, claims) = crate::lock(shard).table.claims_of(session, left);
            sum += here;
            some.extend(claims);
        }
        (sum, some)
    }

    /// Sessions that are open, by their public ids: up to `count` above `after`. Their claims are
    /// not counted.
    pub(crate) fn sessions_seen(&self, after: Option<PublicId>, count: usize) -> Vec<SessionSeen> {
        let desk = crate::lock(&self.desk);
        let after = after.map(|id| (id, SessionId(u64::MAX)));
        let seats = desk.by_public.after(after).filter_map(|(_, id)| desk.seats.get(&id));
        let open = seats.filter_map(|seat| seen(&desk, seat));
        open.take(count).collect()
    }

    /// One of them, with so many of its claims.
    pub(crate) fn session_seen(
        &self,
        session: SessionId,
        claims: usize,
    ) -> Option<(SessionSeen, Vec<(Record, ClaimView)>)> {
        let desk = crate::lock(&self.desk);
        let mut seen = seen(&desk, desk.seats.get(&session)?)?;
        drop(desk);
        let (count, claims) = self.claims_of(session, claims);
        seen.claims = count;
        Some((seen, claims))
    }

    /// The owners that are known, of at most so many waits and as many grants.
    pub(crate) fn owners(&self, count: usize, may: impl Fn(&Record) -> bool) -> Vec<OwnersView> {
        crate::lock(&self.graph).owners(count, may)
    }

    /// The deadlocks that were refused last, the latest first.
    pub(crate) fn deadlocks(&self) -> Vec<Deadlock> {
        crate::lock(&self.deadlocks).iter().rev().cloned().collect()
    }

    pub(super) fn remember(&self, victim: &Victim) {
        let mut deadlocks = crate::lock(&self.deadlocks);
        if deadlocks.len() >= DEADLOCKS {
            deadlocks.pop_front();
        }
        deadlocks.push_back(Deadlock {
            at: clock::now(),
            session: victim.session,
            record: victim.record.clone(),
            owners: victim.cycle.iter().take(OWNERS).copied().collect(),
        });
    }

    /// A table hears that a session is over; tells how many grants end with it, now or a little
    /// later.
    pub(super) fn end_in_shard(&self, shard: usize, session: SessionId, work: &mut Work) -> u64 {
        self.with_shard(shard, work, |shard, now, work| {
            let held = shard.table.held_by(session);
            let told = shard.step(now, TableInput::Ended { session }, &self.graph, work);
            told.expect("a table refuses nothing but messages");
            held
        })
    }
}

fn seen(desk: &Desk, seat: &Seat) -> Option<SessionSeen> {
    let view = desk.registry.open_session(seat.id)?;
    let (connections, user) = (seat.listening(), seat.owner().cloned());
    let (id, label) = (seat.public, seat.label());
    Some(SessionSeen { view, id, label, connections, user, claims: 0 })
}
