//! What people see: records, sessions, terms.
//!
//! What may be long is looked at in steps ([`LocksLook`], [`SessionsLook`]). Each holds one lock,
//! for no longer than a thousand names or sessions take; the caller lets others have their turn
//! between two steps.

use std::sync::Arc;

use lockspan_protocol::server::table::RecordView;
use lockspan_protocol::{Record, SessionId, Term, Tick};
use lockspan_wire::PublicId;
use lockspan_wire::reply::SessionView;

use super::desk::Desk;
use super::{Seat, Service};
use crate::clock;
use crate::net::glob::Pattern;

/// Places of a table that are looked at while it is locked, divided by how long it takes to look at
/// one: see [`steps`].
pub(super) const STEPS: usize = 1000;

/// A page ends when it has looked at so many places, or ten for each record that is wanted.
const STEPS_OF_PAGE: usize = 10 * STEPS;

/// Places that are looked at at least, even if few records are wanted.
const STEPS_MIN: usize = 64;

/// Claims of one record that are shown; a page with so many ends.
const CLAIMS: usize = 1000;

/// A page with so many bytes ends. So it has at most that and one record: less than a frame may
/// have that a client of ours reads.
const BYTES: usize = 256 << 10;

/// What a record takes beside its name, and what a claim takes, at most.
const RECORD_BYTES: usize = 256;
const CLAIM_BYTES: usize = 224;

/// Sessions that are looked at while the registry is locked, and those whose records are counted at
/// once.
const SESSIONS: usize = 500;
const COUNTED: usize = 16;

/// The shard is above this in a cursor, the place in its table below. Both together stay below
/// 2^53, so that every language can count so far.
const PLACE_BITS: u32 = 44;

/// How many places are looked at while a table is locked: a long pattern takes longer for a name.
pub(super) fn steps(pattern: Option<&Pattern>) -> usize {
    STEPS / pattern.map_or(1, Pattern::words)
}

impl Service {
    /// One record, if somebody holds it or waits for it.
    pub(crate) fn inspect(&self, record: &Record) -> Option<RecordView> {
        self.look(record, CLAIMS)
    }

    /// The same, with at most so many of its claims.
    pub(crate) fn look(&self, record: &Record, claims: usize) -> Option<RecordView> {
        crate::lock(&self.shards[self.shard_of(record.group())]).table.look(record, claims)
    }

    /// Looks at one table for a moment. Whether the look goes on; `may` says which records may be
    /// shown.
    pub(crate) fn look_at_locks(
        &self,
        look: &mut LocksLook,
        may: impl Fn(&Record) -> bool,
    ) -> bool {
        let (shard, place) = look.at;
        let Some(table) = self.shards.get(shard) else { return false };
        let LocksLook { pattern, page, count, .. } = look;
        let wanted = |record: &Record| {
            may(record) && pattern.as_ref().is_none_or(|it| it.fits(record.as_bytes()))
        };
        let left = count.saturating_sub(page.views.len()).max(STEPS_MIN);
        let steps = steps(pattern.as_ref()).min(left);
        let (views, next) = crate::lock(table).table.page_of(place, steps, CLAIMS, wanted);
        let claims = views.iter().map(|(_, view)| view.claims()).sum::<usize>();
        look.looked += steps * pattern.as_ref().map_or(1, Pattern::words) + claims;
        let mut goes_on = look.looked < STEPS_OF_PAGE.max(*count * 10);
        look.at = next.map_or((shard + 1, 0), |next| (shard, next));
        let mut views = views.into_iter();
        while let Some((at, view)) = views.next() {
            if page.is_full_with(view, *count) {
                // The others are looked at again, next time.
                if views.len() > 0 {
                    look.at = (shard, at + 1);
                }
                goes_on = false;
                break;
            }
        }
        goes_on && look.at.0 < self.shards.len()
    }

    /// What the look has found, and the cursor to go on with; 0 at the end.
    pub(crate) fn locks_seen(&self, look: LocksLook) -> (u64, Vec<RecordView>) {
        let is_end = look.at.0 >= self.shards.len();
        (if is_end { 0 } else { cursor_of(look.at) }, look.page.views)
    }

    /// Looks at some sessions, those of one user if one is named, or counts the records of some.
    /// Whether the look goes on.
    pub(crate) fn look_at_sessions(&self, look: &mut SessionsLook, of: Option<&Arc<str>>) -> bool {
        if look.is_all {
            let left = look.views.iter_mut().skip(look.counted).take(COUNTED);
            for (id, view) in left {
                view.records = self.claims_of(*id, 0).0;
            }
            look.counted += COUNTED;
            return look.counted < look.views.len();
        }
        let desk = crate::lock(&self.desk);
        let now = clock::now();
        let mut looked = 0;
        for (public, id) in desk.by_public.after(look.after).take(SESSIONS) {
            looked += 1;
            look.after = Some((public, id));
            let Some(seat) = desk.seats.get(&id) else { continue };
            if of.is_none() || seat.owner() == of {
                look.views.extend(self.session_view(&desk, seat, now).map(|view| (id, view)));
            }
            if look.views.len() >= look.count {
                break;
            }
        }
        look.is_all = looked < SESSIONS || look.views.len() >= look.count;
        true
    }

    /// How many sessions there are, in whatever state but that of a stand-in.
    pub(crate) fn session_count(&self) -> usize {
        crate::lock(&self.desk).seats.len()
    }

    fn session_view(&self, desk: &Desk, seat: &Seat, now: Tick) -> Option<SessionView> {
        let open = desk.registry.open_session(seat.id)?;
        Some(SessionView {
            session: self.who_at(desk, seat.id),
            lease: open.ttl,
            left: Some(open.until.since(now)),
            handoff: open.handoff,
            connections: seat.listeners(),
            records: 0,
            recovers: open.recovers,
            ends: open.last,
            user: seat.owner().cloned(),
        })
    }

    /// What is served.
    pub(crate) fn terms(&self) -> Vec<Term> {
        crate::lock(&self.desk).registry.terms().to_vec()
    }
}

/// A table, and a place in it.
type At = (usize, usize);

fn place_of(cursor: u64) -> At {
    let place = cursor & ((1 << PLACE_BITS) - 1);
    let [shard, place] =
        [cursor >> PLACE_BITS, place].map(|it| usize::try_from(it).unwrap_or(usize::MAX));
    (shard, place)
}

fn cursor_of((shard, place): At) -> u64 {
    (shard as u64) << PLACE_BITS | place as u64
}

/// A look at the records from a cursor on: until there are as many as are wanted, or as much as a
/// page may have, or enough was looked at. [`Service::look_at_locks`] goes on with it.
#[derive(Debug)]
pub(crate) struct LocksLook {
    at: At,
    count: usize,
    pattern: Option<Pattern>,
    page: Page,
    looked: usize,
}

impl LocksLook {
    pub(crate) fn new(cursor: u64, count: usize, pattern: Option<Pattern>) -> Self {
        Self { at: place_of(cursor), count, pattern, page: Page::default(), looked: 0 }
    }
}

/// A look at the sessions that are open, by their public ids: up to `count` above `after`.
/// [`Service::look_at_sessions`] goes on with it.
#[derive(Debug)]
pub(crate) struct SessionsLook {
    after: Option<(PublicId, SessionId)>,
    count: usize,
    views: Vec<(SessionId, SessionView)>,
    /// All are found; the records of so many are counted.
    is_all: bool,
    counted: usize,
}

impl SessionsLook {
    pub(crate) fn new(after: Option<PublicId>, count: usize) -> Self {
        // No session with this id comes again.
        let after = after.map(|id| (id, SessionId(u64::MAX)));
        Self { after, count, views: Vec::new(), is_all: false, counted: 0 }
    }

    pub(crate) fn seen(self) -> Vec<SessionView> {
        self.views.into_iter().map(|(_, view)| view).collect()
    }
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
