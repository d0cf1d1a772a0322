//! What people see: records, sessions, terms.

use lockspan_protocol::server::table::RecordView;
use lockspan_protocol::{Record, Term};
use lockspan_wire::reply::SessionView;

use super::Service;
use crate::clock;

/// Places of a table that are looked at while it is locked.
const STEPS: usize = 1000;

/// The shard is above this in a cursor, the place in its table below. Both together stay below
/// 2^53, so that every language can count so far.
const PLACE_BITS: u32 = 44;

impl Service {
    /// One record, if somebody holds it or waits for it.
    pub(crate) fn inspect(&self, record: &Record) -> Option<RecordView> {
        crate::lock(&self.shards[self.shard_of(record.group())]).table.look(record)
    }

    /// Records from `cursor` on, until there are `count` that `wanted` likes or enough was looked
    /// at, and the next cursor; 0 at the end.
    pub(crate) fn locks(
        &self,
        cursor: u64,
        count: usize,
        wanted: impl Fn(&Record) -> bool,
    ) -> (u64, Vec<RecordView>) {
        let mut shard = usize::try_from(cursor >> PLACE_BITS).unwrap_or(usize::MAX);
        let mut place = usize::try_from(cursor & ((1 << PLACE_BITS) - 1)).unwrap_or(usize::MAX);
        let mut found = Vec::new();
        let mut looked = 0;
        while let Some(table) = self.shards.get(shard) {
            let steps = STEPS.min(count.saturating_sub(found.len()).max(1));
            let (views, next) = crate::lock(table).table.page(place, steps);
            found.extend(views.into_iter().filter(|view| wanted(&view.record)));
            looked += steps;
            (shard, place) = next.map_or((shard + 1, 0), |next| (shard, next));
            if (found.len() >= count || looked >= count.saturating_mul(10).max(10 * STEPS))
                && shard < self.shards.len()
            {
                return ((shard as u64) << PLACE_BITS | place as u64, found);
            }
        }
        (0, found)
    }

    /// The sessions that are open.
    pub(crate) fn sessions(&self) -> Vec<SessionView> {
        let desk = crate::lock(&self.desk);
        let now = clock::now();
        let listeners = |id| desk.seats.get(&id).map_or(0, |seat| seat.listeners());
        let view = |it: lockspan_protocol::server::registry::SessionView| SessionView {
            session: it.session,
            lease: it.ttl,
            left: Some(it.until.since(now)),
            handoff: it.handoff,
            connections: listeners(it.session),
        };
        desk.registry.open_sessions().map(view).collect()
    }

    /// How many sessions there are, in whatever state but that of a stand-in.
    pub(crate) fn session_count(&self) -> usize {
        crate::lock(&self.desk).seats.len()
    }

    /// What is served.
    pub(crate) fn terms(&self) -> Vec<Term> {
        crate::lock(&self.desk).registry.terms().to_vec()
    }
}
