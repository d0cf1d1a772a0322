//! Whom a server waits for: the sessions on the lists of its hand-overs.
//!
//! A *hand-over* is a set of groups that were taken together, with a list of the sessions that may
//! have something there. A listed session is waited for until it has been heard in every group, or
//! its time there is over. A session may be listed in several hand-overs, and each counts for
//! itself. A listed session is not a session of this server; the list of a restart names sessions
//! that are both.
//!
//! # Invariants
//!
//! - **F1** An entry speaks of the groups of its hand-over that are still served. When all of them
//!   were left, their next owner has the list, and there is no entry any more.
//! - **F2** The entry of another server's session stays until its time is over, even if it was
//!   heard: until then its node may believe in that lease, because the answer was lost, and a later
//!   owner has to wait for it.
//! - **F3** `waits` has an element for each entry that has yet to be heard, `ends` for each that is
//!   to be ended by time, and `waiting` counts the former by session.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::ids::SessionId;
use crate::limits::margin;
use crate::messages::{Client, Term};
use crate::server::Listed;
use crate::slot::GroupSet;
use crate::time::Tick;

/// Names groups that were taken together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HandOver(u64);

/// Groups that were taken together.
#[derive(Clone, Copy, Debug)]
struct Hand {
    /// Those of them that are still served.
    term: Term,
    /// Until then their former owner may act.
    acts_until: Tick,
    /// What was taken: for a bug put back.
    taken: Term,
    /// How many are listed.
    entries: usize,
}

/// A listed session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Former {
    /// When its lease there is over at the latest.
    pub(super) until: Tick,
    /// The groups that have yet to hear of it.
    pub(super) unheard: GroupSet,
    /// It is a session with this server.
    pub(super) is_own: bool,
    /// It is a stranger's.
    is_strange: bool,
    /// Its time is not extended beyond this.
    recover_by: Tick,
    /// Its end is under way.
    is_ending: bool,
}

impl Former {
    pub(super) fn new(until: Tick, one: &Listed, recover_by: Tick) -> Self {
        Self {
            until,
            unheard: GroupSet::EMPTY,
            is_own: one.here,
            is_strange: one.client == Client::Stranger,
            recover_by,
            is_ending: false,
        }
    }
}

type Key = (SessionId, HandOver);

/// All listed sessions of a server.
#[derive(Clone, Debug, Default)]
pub(super) struct Formers {
    hands: BTreeMap<HandOver, Hand>,
    last: u64,
    all: BTreeMap<Key, Former>,
    ends: BTreeSet<(Tick, Key)>,
    waits: BTreeSet<(Tick, Key)>,
    waiting: BTreeMap<SessionId, u32>,
    /// When sessions of other servers end that were not extended any more when they were listed
    /// first. Of a session that is not listed any more, because its groups were left, it is kept
    /// until then.
    lasts: BTreeMap<SessionId, Tick>,
}

impl Formers {
    /// When the time of a listed session of another server is over. If it was listed before, and
    /// was not extended any more then, that end stands: groups that are taken again and again must
    /// not prolong it.
    pub(super) fn end(&mut self, session: SessionId, latest: Tick, is_last: bool) -> Tick {
        if !is_last {
            return latest;
        }
        *self.lasts.entry(session).or_insert(latest)
    }

    /// It is over, and forgotten.
    pub(super) fn forget(&mut self, session: SessionId) {
        self.lasts.remove(&session);
    }

    /// Groups are taken, and their former owner may act until then.
    pub(super) fn begin(&mut self, term: Term, acts_until: Tick) -> HandOver {
        self.last += 1;
        let hand = HandOver(self.last);
        self.hands.insert(hand, Hand { term, acts_until, taken: term, entries: 0 });
        hand
    }

    /// A session is on the list.
    pub(super) fn add(&mut self, hand: HandOver, session: SessionId, former: Former) {
        let Some(of) = self.hands.get_mut(&hand) else { return };
        of.entries += 1;
        let (unheard, key) = (of.term.groups, (session, hand));
        self.all.insert(key, Former { unheard, ..former });
        self.ends.insert((former.until, key));
        self.waits.insert((former.until, key));
        *self.waiting.entry(session).or_default() += 1;
    }

    /// A hand-over that nobody is listed in is none.
    pub(super) fn tidy(&mut self, hand: HandOver) {
        if self.hands.get(&hand).is_some_and(|hand| hand.entries == 0) {
            self.hands.remove(&hand);
        }
    }

    pub(super) fn next_end(&self) -> Option<Tick> {
        let first = self.ends.first().map(|&(tick, _)| tick);
        first.into_iter().chain(self.unlisted().map(|(_, end)| end)).min()
    }

    /// The sessions of which only the end is known.
    fn unlisted(&self) -> impl Iterator<Item = (SessionId, Tick)> {
        let lasts = self.lasts.iter().filter(|(session, _)| !self.has_other(**session));
        lasts.map(|(&session, &end)| (session, end))
    }

    /// Forgets when sessions have ended that are not listed.
    pub(super) fn forget_unlisted(&mut self, now: Tick) {
        if self.lasts.is_empty() {
            return;
        }
        let over: Vec<_> = self.unlisted().filter(|&(_, end)| end <= now).collect();
        over.into_iter().for_each(|(session, _)| self.forget(session));
    }

    /// One whose time is over; its end is under way from now on.
    pub(super) fn expire(&mut self, now: Tick) -> Option<(SessionId, HandOver, Former, Term)> {
        let &(_, key) = self.ends.first().filter(|(tick, _)| *tick <= now)?;
        self.set_ending(key);
        Some((key.0, key.1, self.all[&key], self.hands[&key.1].term))
    }

    fn set_ending(&mut self, key: Key) {
        if let Some(former) = self.all.get_mut(&key) {
            self.ends.remove(&(former.until, key));
            former.is_ending = true;
        }
    }

    /// It is over there. The groups in which that matters, if it was there.
    pub(super) fn remove(&mut self, session: SessionId, hand: HandOver) -> Option<Term> {
        let key = (session, hand);
        let former = self.all.remove(&key)?;
        self.ends.remove(&(former.until, key));
        self.set_heard(key, former.until);
        let of = self.hands.get_mut(&hand)?;
        of.entries -= 1;
        let term = of.term;
        self.tidy(hand);
        Some(term)
    }

    /// A session with this server ends: it is not ended here by time any more.
    pub(super) fn own_ends(&mut self, session: SessionId) {
        for key in self.keys_of(session, true) {
            self.set_ending(key);
        }
    }

    /// A session with this server is over.
    pub(super) fn own_ended(&mut self, session: SessionId) {
        for (session, hand) in self.keys_of(session, true) {
            self.remove(session, hand);
        }
    }

    fn keys_of(&self, session: SessionId, is_own: bool) -> Vec<Key> {
        let range = (session, HandOver(0))..=(session, HandOver(u64::MAX));
        let of = self.all.range(range).filter(|(_, former)| former.is_own == is_own);
        of.map(|(&key, _)| key).collect()
    }

    fn set_heard(&mut self, key: Key, until: Tick) {
        if self.waits.remove(&(until, key))
            && let Some(count) = self.waiting.get_mut(&key.0)
        {
            *count -= 1;
            if *count == 0 {
                self.waiting.remove(&key.0);
            }
        }
    }

    /// The session was heard in these groups. When its time there would have been over, if it is
    /// listed there.
    pub(super) fn heard(&mut self, session: SessionId, groups: GroupSet) -> Option<Tick> {
        let mut end = None;
        let mut keys = self.keys_of(session, true);
        keys.extend(self.keys_of(session, false));
        for key in keys {
            let Some(former) = self.all.get_mut(&key) else { continue };
            if self.hands[&key.1].term.groups.and(groups).is_empty() {
                continue;
            }
            former.unheard = former.unheard.without(groups);
            let Former { until, unheard, is_own, .. } = *former;
            end = end.max(Some(until));
            if unheard.is_empty() {
                self.set_heard(key, until);
                // F2 is for others: a session of this server lives on by itself.
                if is_own {
                    self.remove(session, key.1);
                }
            }
        }
        end
    }

    /// The hand-over of these groups as it was taken: for a bug put back.
    pub(super) fn taken_with(&self, session: SessionId, groups: GroupSet) -> Vec<Term> {
        let keys = self.keys_of(session, false).into_iter();
        let hands = keys.map(|(_, hand)| self.hands[&hand]);
        let concerned = hands.filter(|hand| !hand.term.groups.and(groups).is_empty());
        concerned.map(|hand| hand.taken).collect()
    }

    /// F1: these groups are left.
    pub(super) fn leave(&mut self, groups: GroupSet) {
        let mut gone = Vec::new();
        for (&hand, it) in &mut self.hands {
            if it.term.groups.and(groups).is_empty() {
                continue;
            }
            it.term.groups = it.term.groups.without(groups);
            gone.extend(self.all.keys().filter(|(_, other)| *other == hand).copied());
        }
        for key in gone {
            let is_left = self.hands.get(&key.1).is_none_or(|hand| hand.term.groups.is_empty());
            let Some(former) = self.all.get_mut(&key) else { continue };
            former.unheard = former.unheard.without(groups);
            let Former { until, unheard, is_own, .. } = *former;
            if unheard.is_empty() {
                self.set_heard(key, until);
            }
            if is_left || (unheard.is_empty() && is_own) {
                self.remove(key.0, key.1);
            }
        }
    }

    /// The groups in which a session of this server has yet to be heard.
    pub(super) fn unheard(&self, session: SessionId) -> GroupSet {
        if !self.waiting.contains_key(&session) {
            return GroupSet::EMPTY;
        }
        let keys = self.keys_of(session, true).into_iter();
        keys.fold(GroupSet::EMPTY, |all, key| all.or(self.all[&key].unheard))
    }

    /// The sessions of this server that have yet to be heard in one of these groups.
    pub(super) fn own_unheard_in(&self, groups: GroupSet) -> BTreeSet<SessionId> {
        let own = self.all.iter().filter(|(_, former)| former.is_own);
        let unheard = own.filter(|(_, former)| !former.unheard.and(groups).is_empty());
        unheard.map(|(&(session, _), _)| session).collect()
    }

    /// A session of this server makes progress: it is waited for up to `until`, if it may be.
    pub(super) fn extend(&mut self, session: SessionId, until: Tick) -> bool {
        let keys = self.keys_of(session, true);
        if keys.iter().any(|key| until > self.all[key].recover_by || self.all[key].is_ending) {
            return false;
        }
        for key in keys {
            let Some(former) = self.all.get_mut(&key) else { continue };
            let before = former.until;
            former.until = before.max(until);
            let after = former.until;
            self.ends.remove(&(before, key));
            self.ends.insert((after, key));
            if self.waits.remove(&(before, key)) {
                self.waits.insert((after, key));
            }
        }
        true
    }

    /// How long the former owner of one of these groups may still act.
    pub(super) fn acts_for(&self, now: Tick, groups: GroupSet) -> Duration {
        let hands = self.hands.values().filter(|hand| !hand.term.groups.and(groups).is_empty());
        hands.map(|hand| hand.acts_until.since(now)).max().unwrap_or(Duration::ZERO)
    }

    /// How many sessions have yet to be heard.
    pub(super) fn count(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn awaits(&self, session: SessionId) -> bool {
        self.waiting.contains_key(&session)
    }

    pub(super) fn awaited(&self) -> impl Iterator<Item = SessionId> {
        self.waiting.keys().copied()
    }

    /// When nobody is waited for any more, if some are now.
    pub(super) fn awaited_until(&self) -> Option<Tick> {
        self.waits.last().map(|&(until, _)| until)
    }

    /// Whether a session of another server with this id is listed.
    pub(super) fn has_other(&self, session: SessionId) -> bool {
        !self.keys_of(session, false).is_empty()
    }

    /// How many entries there are, those included that were heard, and sessions of which only the
    /// end is known.
    pub(super) fn len(&self) -> usize {
        self.all.len() + self.unlisted().count()
    }

    /// Whether a listed session of another server is a stranger's.
    pub(super) fn is_of_stranger(&self, session: SessionId) -> bool {
        self.keys_of(session, false).iter().any(|key| self.all[key].is_strange)
    }
}

/// So long a listed session is waited for: its lease, after its server may have extended it for the
/// last time, and the margin for clocks.
pub(super) fn grace(acts: Duration, ttl: Duration) -> Duration {
    let longest = acts + ttl;
    longest + margin(longest)
}
