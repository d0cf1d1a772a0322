//! What people see: records, sessions, terms.

use std::cell::Cell;
use std::sync::Arc;

use lockspan_protocol::server::table::RecordView;
use lockspan_protocol::{Record, Term};
use lockspan_wire::PublicId;
use lockspan_wire::reply::SessionView;

use super::{Seat, Service};
use crate::clock;
use crate::net::glob::Pattern;

/// Places of a table that are looked at while it is locked.
pub(super) const STEPS: usize = 1000;

/// Claims of one record that are shown; a page with so many ends.
const CLAIMS: usize = 1000;

/// A page with so many bytes ends. So it has at most that and one record: less than a frame may
/// have that a client of ours reads.
const BYTES: usize = 256 << 10;

/// What a record takes beside its name, and what a claim takes, at most.
const RECORD_BYTES: usize = 256;
const CLAIM_BYTES: usize = 224;

/// The shard is above this in a cursor, the place in its table below. Both together stay below
/// 2^53, so that every language can count so far.
const PLACE_BITS: u32 = 44;

impl Service {
    /// One record, if somebody holds it or waits for it.
    pub(crate) fn inspect(&self, record: &Record) -> Option<RecordView> {
        self.look(record, CLAIMS)
    }

    /// The same, with at most so many of its claims.
    pub(crate) fn look(&self, record: &Record, claims: usize) -> Option<RecordView> {
        crate::lock(&self.shards[self.shard_of(record.group())]).table.look(record, claims)
    }

    /// Some of the records from `cursor` on that fit the pattern: as many as are wanted, or
    /// as are found in one look at one table. The table is locked while [`STEPS`] names are looked
    /// at, and `count` records are copied, at most.
    pub(crate) fn search(
        &self,
        cursor: u64,
        count: usize,
        claims: usize,
        pattern: Option<&[u8]>,
    ) -> Found {
        // A long pattern takes longer for a name, and a table is locked meanwhile.
        let parsed = pattern.map(Pattern::new);
        let steps = (16 * STEPS / pattern.map_or(1, <[u8]>::len).max(16)).max(1);
        let mut found = Found { views: Vec::new(), next: None };
        let matches = Cell::new(0);
        let liked = |record: &Record| {
            let is_one = matches.get() < count
                && parsed.as_ref().is_none_or(|it| it.fits(record.as_bytes()));
            matches.set(matches.get() + usize::from(is_one));
            is_one
        };
        let shard = usize::try_from(cursor >> PLACE_BITS).unwrap_or(usize::MAX);
        let place = usize::try_from(cursor & ((1 << PLACE_BITS) - 1)).unwrap_or(usize::MAX);
        let Some(table) = self.shards.get(shard) else { return found };
        let (views, next) = crate::lock(table).table.page_of(place, steps, CLAIMS, liked);
        let mut after = next.map_or((shard + 1, 0), |next| (shard, next));
        if views.len() >= count {
            after = (shard, views.last().map_or(place, |(at, _)| at + 1));
        }
        found.views = views.into_iter().map(|(_, view)| view.cut(claims)).collect();
        let (shard, place) = after;
        found.next =
            (shard < self.shards.len()).then_some((shard as u64) << PLACE_BITS | place as u64);
        found
    }

    /// Records from `cursor` on, until there are `count` that `wanted` likes, or as much as a page
    /// may have, or enough was looked at; and the next cursor; 0 at the end.
    pub(crate) fn locks(
        &self,
        cursor: u64,
        count: usize,
        wanted: impl Fn(&Record) -> bool,
    ) -> (u64, Vec<RecordView>) {
        let mut shard = usize::try_from(cursor >> PLACE_BITS).unwrap_or(usize::MAX);
        let mut place = usize::try_from(cursor & ((1 << PLACE_BITS) - 1)).unwrap_or(usize::MAX);
        let mut page = Page::default();
        let mut looked = 0;
        while let Some(table) = self.shards.get(shard) {
            let steps = STEPS.min(count.saturating_sub(page.views.len()).max(1));
            let (views, next) = crate::lock(table).table.page(place, steps, CLAIMS);
            looked += steps + views.iter().map(|(_, view)| view.claims()).sum::<usize>();
            let mut is_over = looked >= count.saturating_mul(10).max(10 * STEPS);
            let mut after = next.map_or((shard + 1, 0), |next| (shard, next));
            let mut views = views.into_iter();
            while let Some((at, view)) = views.next() {
                if wanted(&view.record) && page.is_full_with(view, count) {
                    // The others are looked at again, next time.
                    if views.len() > 0 {
                        after = (shard, at + 1);
                    }
                    is_over = true;
                    break;
                }
            }
            (shard, place) = after;
            if is_over && shard < self.shards.len() {
                return ((shard as u64) << PLACE_BITS | place as u64, page.views);
            }
        }
        (0, page.views)
    }

    /// The sessions that are open, by their public ids: up to `count` above `after`; those of one
    /// user, if one is named.
    pub(crate) fn sessions(
        &self,
        after: Option<PublicId>,
        count: usize,
        of: Option<&Arc<str>>,
    ) -> Vec<SessionView> {
        let desk = crate::lock(&self.desk);
        let now = clock::now();
        let seats = desk.by_public.after(after).filter_map(|id| desk.seats.get(&id));
        let wanted = seats.filter(|seat| of.is_none() || seat.owner() == of);
        let open = wanted.filter_map(|seat| Some((seat, desk.registry.open_session(seat.id)?)));
        let view = |(seat, it): (&Arc<Seat>, lockspan_protocol::server::registry::SessionView)| {
            let view = SessionView {
                session: seat.public,
                lease: it.ttl,
                left: Some(it.until.since(now)),
                handoff: it.handoff,
                connections: seat.listeners(),
                records: 0,
                recovers: it.recovers,
                ends: it.last,
                user: seat.owner().cloned(),
            };
            (seat.id, view)
        };
        let mut views: Vec<_> = open.take(count).map(view).collect();
        drop(desk);
        for (id, view) in &mut views {
            view.records = self.claims_of(*id, 0).0;
        }
        views.into_iter().map(|(_, view)| view).collect()
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

/// What a search has found so far.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) views: Vec<RecordView>,
    /// Where to go on, unless this is all.
    pub(crate) next: Option<u64>,
}

/// A part of the records.
#[derive(Debug, Default)]
struct Page {
    views: Vec<RecordView>,
    claims: usize,
    bytes: usize,
}

impl Page {
    /// Takes one more record, and tells whether that was the last.
    fn is_full_with(&mut self, view: RecordView, count: usize) -> bool {
        let claims = view.holders.len() + view.waiters.len();
        self.claims += claims;
        self.bytes += RECORD_BYTES + view.record.as_bytes().len() + CLAIM_BYTES * claims;
        self.views.push(view);
        self.views.len() >= count || self.claims >= CLAIMS || self.bytes >= BYTES
    }
}
