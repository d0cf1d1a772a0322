//! Sessions and terms: everything of a server that is durable, and every lease.
//!
//! # States of a session
//!
//! | state | in the store | lease | what it may do |
//! |---|---|---|---|
//! | Listed | yes | – | nothing, and it is told nothing until the term that lists it begins |
//! | Opening | being written | – | nothing; `Opened` follows when it is durable |
//! | Open | yes | from the last keep-alive's arrival | everything |
//! | Open, unheard | yes | the same, but for the groups that wait for it; R5 | re-assert there |
//! | Open, last | yes, with a mark | as it was when it was marked, not extended | everything |
//! | Ending | being deleted | over | nothing; its records go on when the entry is gone |
//! | Over | no | of a session that it has spoken for | nothing; its records go on after that, R6 |
//!
//! A session of another server, on the list of a hand-over, is no session here: see `formers.rs`.
//!
//! # Invariants
//!
//! - **R1** a session is durable before it is answered, and so before its first grant.
//! - **R2** an expired session's entry is deleted before [`ToTables::Ended`], and that of a listed
//!   session before [`ToTables::FormerOver`].
//! - **R3** a term's epoch is durable before it begins.
//! - **R4** an extension names the groups that it is for: what is served, without what waits for
//!   the session. A stranger's session is extended for all or not at all, and one that had
//!   something in groups that were left is marked in the store before [`Output::Left`], and never
//!   extended again.
//! - **R5** where a session has yet to re-assert, it is extended only if a page of its
//!   re-assertions was heard since it was extended last, and never beyond [`RECOVERY_LEASES`]
//!   leases from the beginning of the term: so it can't hold up the others for longer.
//! - **R6** what a session has re-asserted for another stays until that one's time is over: its
//!   node may not have heard that it was heard, and believe in that lease.

mod formers;
mod leaving;
mod views;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::{Listed, Output, Store};
use crate::bugs::Bug;
use crate::ids::{SessionId, StoreId};
use crate::limits::{Limits, RECOVERY_LEASES};
use crate::messages::{Client, Handoff, Term, ToNode};
use crate::refusal::{SessionRefusal, TermRefusal};
use crate::slot::GroupSet;
use crate::time::Tick;
use crate::token::Epoch;
use formers::{Former, Formers, HandOver, grace};
use leaving::Leaving;
pub use views::{Recovering, SessionView};

/// So many leases end at a time.
const EXPIRED_AT_ONCE: usize = 256;

/// What the registry wants told to the tables, in order, before anything else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToTables {
    /// To all: a session may use them.
    Began {
        /// Which.
        session: SessionId,
        /// How its waits end.
        handoff: Handoff,
    },
    /// To all: a session is over.
    Ended {
        /// Which.
        session: SessionId,
    },
    /// To the table of these groups: a term begins.
    Begin {
        /// Which.
        term: Term,
        /// Who may re-assert.
        listed: Vec<SessionId>,
        /// Some of them are sessions of another server.
        formers: bool,
    },
    /// To all: a listed session is not waited for any more in these groups.
    FormerOver {
        /// Which.
        former: SessionId,
        /// Where.
        groups: GroupSet,
    },
}

/// What a registry wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegistryOutput {
    /// For the tables.
    Tables(ToTables),
    /// For the driver.
    Out(Output),
}

#[derive(Clone, Debug)]
struct Session {
    ttl: Duration,
    handoff: Handoff,
    client: Client,
    state: State,
    until: Tick,
    /// It is not extended any more.
    is_last: bool,
    /// A page of its re-assertions was heard since its last keep-alive.
    has_progressed: bool,
    /// R6: what it has is kept until then, even if it is over before.
    keeps_until: Tick,
}

impl Session {
    /// As it is to be stored.
    fn stored(&self, session: SessionId) -> Store {
        let &Self { ttl, handoff, client, is_last: last, .. } = self;
        Store::Session { session, ttl, handoff, last, client }
    }

    fn new(ttl: Duration, handoff: Handoff, client: Client, state: State, until: Tick) -> Self {
        Self {
            ttl,
            handoff,
            client,
            state,
            until,
            is_last: false,
            has_progressed: false,
            keeps_until: Tick::ZERO,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Listed,
    Opening,
    Open,
    Ending,
    Over,
}

/// A write to storage that is under way.
#[derive(Clone, Debug)]
enum Pending {
    Epoch {
        terms: Vec<Term>,
        listed: Vec<Listed>,
    },
    Session(SessionId),
    /// A session again: that it is the last one, or what the driver keeps with it.
    Mark,
    Forget(SessionId),
    Settle(SessionId, HandOver),
}

/// The sessions and terms of a server.
#[derive(Clone, Debug)]
pub struct Registry {
    limits: Limits,
    /// The groups of each table; a term is split among them.
    shards: Vec<GroupSet>,
    sessions: BTreeMap<SessionId, Session>,
    leases: BTreeSet<(Tick, SessionId)>,
    formers: Formers,
    /// Sessions that ended lately, oldest first: a double of their open does not bring them back.
    ended: VecDeque<(Tick, SessionId)>,
    ended_ids: BTreeSet<SessionId>,
    terms: Vec<Term>,
    /// Groups whose epoch is being stored.
    taking: GroupSet,
    /// Groups that are not yet another's.
    leaving: Vec<Leaving>,
    stores: BTreeMap<StoreId, Pending>,
    last_store: u64,
}

impl Registry {
    /// A registry with no session, for tables with these groups.
    #[must_use]
    pub fn new(limits: Limits, shards: Vec<GroupSet>) -> Self {
        Self {
            limits,
            shards,
            sessions: BTreeMap::new(),
            leases: BTreeSet::new(),
            formers: Formers::default(),
            ended: VecDeque::new(),
            ended_ids: BTreeSet::new(),
            terms: Vec::new(),
            taking: GroupSet::EMPTY,
            leaving: Vec::new(),
            stores: BTreeMap::new(),
            last_store: 0,
        }
    }

    /// Ends leases whose time has come. Call it before anything else happens at `now`. If very many
    /// end at once, some are left for the next call, which [`Registry::next_deadline`] asks for at
    /// once; none of these is extended any more.
    pub fn expire(&mut self, now: Tick, out: &mut VecDeque<RegistryOutput>) {
        for _ in 0..EXPIRED_AT_ONCE {
            let Some(&(_, session)) = self.leases.first().filter(|(tick, _)| *tick <= now) else {
                break;
            };
            if self.sessions[&session].state == State::Over {
                self.leases.pop_first();
                self.finish(now, session, out);
                continue;
            }
            if self.limits.bugs.has(Bug::ForgetNotStored) {
                out.push_back(RegistryOutput::Tables(ToTables::Ended { session }));
            }
            self.end(session, out);
        }
        // R2: a session whose own lease is over too is ended first. That deletes its entry.
        if self.leases.first().is_some_and(|(tick, _)| *tick <= now) {
            return;
        }
        self.formers.forget_unlisted(now);
        for _ in 0..EXPIRED_AT_ONCE {
            let Some((session, hand, former, term)) = self.formers.expire(now) else { break };
            if former.is_own {
                // What it has in other groups is extended, so its entry stays. Its node has lost
                // what it had in these by its own clock.
                self.former_over(session, hand, out);
            } else {
                self.settle(session, hand, term, out);
            }
        }
    }

    /// R2: a listed session is over in the groups of a hand-over; when that is durable, they wait
    /// for it no more.
    fn settle(
        &mut self,
        former: SessionId,
        hand: HandOver,
        term: Term,
        out: &mut VecDeque<RegistryOutput>,
    ) {
        let what = if self.limits.bugs.has(Bug::ForgetWithoutScope) {
            Store::Forget { session: former }
        } else {
            Store::Settle { former, term }
        };
        self.store(Pending::Settle(former, hand), what, out);
    }

    fn former_over(
        &mut self,
        former: SessionId,
        hand: HandOver,
        out: &mut VecDeque<RegistryOutput>,
    ) {
        if let Some(Term { groups, .. }) = self.formers.remove(former, hand) {
            out.push_back(RegistryOutput::Tables(ToTables::FormerOver { former, groups }));
        }
    }

    /// A client opens a session, perhaps again.
    pub fn open(
        &mut self,
        now: Tick,
        id: SessionId,
        (ttl, handoff, client): (Duration, Handoff, Client),
        out: &mut VecDeque<RegistryOutput>,
    ) -> Result<(), SessionRefusal> {
        // Its node would have to speak for another session with the same id.
        if self.formers.has_other(id) {
            return Err(SessionRefusal::Unknown);
        }
        if let Some(known) = self.sessions.get(&id) {
            return match known.state {
                State::Ending | State::Over => Err(SessionRefusal::Unknown),
                State::Listed => Err(SessionRefusal::Resting),
                _ if (known.ttl, known.handoff) != (ttl, handoff) => Err(SessionRefusal::Differs),
                State::Opening => Ok(()),
                State::Open if known.until <= now => Err(SessionRefusal::Unknown),
                State::Open => {
                    self.send(id, ToNode::Opened { terms: self.terms.clone() }, out);
                    Ok(())
                }
            };
        }
        if self.ended_ids.contains(&id) {
            return Err(SessionRefusal::Unknown);
        }
        let Limits { ttl_min, ttl_max, sessions, .. } = self.limits;
        if ttl < ttl_min || ttl > ttl_max {
            return Err(SessionRefusal::Lease { min: ttl_min, max: ttl_max });
        }
        if self.sessions.len() >= sessions {
            return Err(SessionRefusal::TooMany { max: sessions });
        }
        self.sessions.insert(id, Session::new(ttl, handoff, client, State::Opening, now));
        let what = Store::Session { session: id, ttl, handoff, last: false, client };
        self.store(Pending::Session(id), what, out);
        if self.limits.bugs.has(Bug::SessionNotStored) {
            self.opened(now, id, out);
        }
        Ok(())
    }

    /// A node lives.
    pub fn keep_alive(
        &mut self,
        now: Tick,
        id: SessionId,
        number: u64,
        out: &mut VecDeque<RegistryOutput>,
    ) -> Result<(), SessionRefusal> {
        self.check_open(id)?;
        // It is over, and has yet to be ended.
        if self.sessions[&id].until <= now {
            return Err(SessionRefusal::Unknown);
        }
        let unheard = self.formers.unheard(id);
        let served = self.terms.iter().fold(GroupSet::EMPTY, |all, term| all.or(term.groups));
        let mut groups = served.without(unheard);
        if !unheard.is_empty() {
            if self.may_extend(now, id) {
                groups = served;
            } else {
                for term in self.terms.clone() {
                    if !term.groups.and(unheard).is_empty() {
                        self.send(id, ToNode::Serving(term), out);
                    }
                }
                // It would take the extension for one of all that it has.
                if self.sessions[&id].client == Client::Stranger || groups.is_empty() {
                    return Ok(());
                }
            }
        }
        let session = &self.sessions[&id];
        // R4: an extension for no group would be one of all that a stranger has.
        if session.is_last || (session.client == Client::Stranger && groups.is_empty()) {
            return Ok(());
        }
        let until = session.until.max(now + session.ttl);
        self.set_lease(id, until);
        if self.limits.bugs.has(Bug::AliveForAll) {
            groups = GroupSet::ALL;
        }
        self.send(id, ToNode::Alive { number, groups }, out);
        Ok(())
    }

    /// R5: whether a session that has yet to re-assert is extended. A page may count once.
    fn may_extend(&mut self, now: Tick, id: SessionId) -> bool {
        let Some(session) = self.sessions.get_mut(&id) else { return false };
        let until = now + session.ttl;
        std::mem::take(&mut session.has_progressed) && self.formers.extend(id, until)
    }

    /// A page of the session's re-assertions was heard.
    pub fn progressed(&mut self, id: SessionId) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.has_progressed = true;
        }
    }

    /// A node ends its session: its records may go on at once, since it says so itself.
    pub fn close(
        &mut self,
        id: SessionId,
        out: &mut VecDeque<RegistryOutput>,
    ) -> Result<(), SessionRefusal> {
        self.check_open(id)?;
        // R6: a node that closes has given up whatever it had. A stranger may close the session
        // that has spoken, and believe in the lease of the one that it spoke for.
        if let Some(session) = self.sessions.get_mut(&id)
            && session.client == Client::Node
        {
            session.keeps_until = Tick::ZERO;
        }
        if self.sessions[&id].keeps_until == Tick::ZERO {
            out.push_back(RegistryOutput::Tables(ToTables::Ended { session: id }));
        }
        self.end(id, out);
        Ok(())
    }

    /// The session is extended no more, by an operator's wish. Its node is told at once that it has
    /// no session, and stops using what it holds; that is free for others when the lease is over.
    /// A restart finds the wish in the store.
    pub fn retire(
        &mut self,
        id: SessionId,
        out: &mut VecDeque<RegistryOutput>,
    ) -> Result<(), SessionRefusal> {
        self.check_open(id)?;
        let Some(known) = self.sessions.get_mut(&id).filter(|known| !known.is_last) else {
            return Ok(());
        };
        known.is_last = true;
        let what = known.stored(id);
        self.store(Pending::Mark, what, out);
        self.send(id, ToNode::NoSession, out);
        Ok(())
    }

    /// Serve these groups, above this epoch, as soon as that is durable.
    pub fn take(
        &mut self,
        now: Tick,
        groups: GroupSet,
        above: Epoch,
        listed: Vec<Listed>,
        out: &mut VecDeque<RegistryOutput>,
    ) -> Result<(), TermRefusal> {
        let served = self.terms.iter().fold(self.taking, |all, term| all.or(term.groups));
        if !served.and(groups).is_empty() {
            return Err(TermRefusal::AlreadyServed);
        }
        let epoch = above.next().ok_or(TermRefusal::LastEpoch)?;
        let listed: BTreeMap<_, _> = listed.into_iter().map(|one| (one.session, one)).collect();
        let listed: Vec<_> = listed.into_values().collect();
        // They must not be told that they are unknown, as long as it is not known what they have.
        for one in listed.iter().filter(|one| one.here) {
            let fresh = || Session::new(one.ttl, one.handoff, one.client, State::Listed, now);
            self.sessions.entry(one.session).or_insert_with(fresh).is_last |= one.last;
        }
        // Whoever is waiting to take them must not any more.
        self.leaving.iter_mut().for_each(|one| one.groups = one.groups.without(groups));
        let parts = self.shards.iter().map(|shard| shard.and(groups));
        let terms: Vec<_> =
            parts.filter(|part| !part.is_empty()).map(|groups| Term { groups, epoch }).collect();
        self.taking = self.taking.or(groups);
        if self.limits.bugs.has(Bug::EpochNotStored) {
            self.begin(now, &terms, &listed, out);
            self.store(
                Pending::Epoch { terms: Vec::new(), listed: Vec::new() },
                Store::Epoch(Term { groups, epoch }),
                out,
            );
            return Ok(());
        }
        self.store(Pending::Epoch { terms, listed }, Store::Epoch(Term { groups, epoch }), out);
        Ok(())
    }

    /// A write is durable.
    pub fn stored(
        &mut self,
        now: Tick,
        store: StoreId,
        out: &mut VecDeque<RegistryOutput>,
    ) -> Result<(), TermRefusal> {
        match self.stores.remove(&store).ok_or(TermRefusal::UnknownStore)? {
            Pending::Epoch { terms, listed } => self.begin(now, &terms, &listed, out),
            Pending::Session(id) => self.opened(now, id, out),
            Pending::Mark => {
                self.leaving.iter_mut().for_each(|one| {
                    one.marks.remove(&store);
                });
                self.say_left(out);
            }
            Pending::Forget(session) => self.forgotten(now, session, out),
            Pending::Settle(former, hand) => {
                self.former_over(former, hand, out);
                self.formers.forget(former);
                out.push_back(RegistryOutput::Out(Output::Settled { former }));
            }
        }
        Ok(())
    }

    /// R2 holds for a session of this server. If it has spoken for others, R6.
    fn forgotten(&mut self, now: Tick, id: SessionId, out: &mut VecDeque<RegistryOutput>) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if session.keeps_until > now {
            session.state = State::Over;
            session.until = session.keeps_until;
            self.leases.insert((session.until, id));
            return;
        }
        self.finish(now, id, out);
    }

    /// The session is over for the tables.
    fn finish(&mut self, now: Tick, session: SessionId, out: &mut VecDeque<RegistryOutput>) {
        self.formers.own_ended(session);
        self.sessions.remove(&session);
        self.remember_ended(now, session);
        out.push_back(RegistryOutput::Tables(ToTables::Ended { session }));
        out.push_back(RegistryOutput::Out(Output::Ended { session }));
    }

    /// A session with this id is never opened, for a while, if there is none: whoever drew the id
    /// has given it up, and its open may come late.
    pub fn forestall(&mut self, now: Tick, id: SessionId) {
        if !self.sessions.contains_key(&id) {
            self.remember_ended(now, id);
        }
    }

    /// Keeps the id for as long as the longest lease, and at most as many as there may be sessions.
    fn remember_ended(&mut self, now: Tick, id: SessionId) {
        let Limits { ttl_max, sessions, .. } = self.limits;
        if self.ended_ids.insert(id) {
            self.ended.push_back((now + ttl_max, id));
        }
        let full = |ended: &VecDeque<_>| ended.len() > sessions;
        while let Some(&(until, id)) = self.ended.front()
            && (until <= now || full(&self.ended))
        {
            self.ended.pop_front();
            self.ended_ids.remove(&id);
        }
    }

    /// All that a listed session had in these groups was heard from the session `by`: from itself,
    /// if it had nothing, or is a session with this server.
    pub fn recovered(
        &mut self,
        former: SessionId,
        by: SessionId,
        groups: GroupSet,
        out: &mut VecDeque<RegistryOutput>,
    ) {
        if self.limits.bugs.has(Bug::FormerForgottenEarly) {
            for term in self.formers.taken_with(former, groups) {
                self.store(Pending::Mark, Store::Settle { former, term }, out);
            }
        }
        let Some(end) = self.formers.heard(former, groups).filter(|_| by != former) else { return };
        if self.limits.bugs.has(Bug::SpeakerEndsFirst) {
            return;
        }
        // R6. If the lease of the speaker is over already, and that is being stored, what it has
        // is kept all the same.
        let Some(speaker) = self.sessions.get_mut(&by) else { return };
        speaker.keeps_until = speaker.keeps_until.max(end);
        if speaker.state == State::Open && speaker.until < end {
            self.set_lease(by, end);
        }
    }

    /// R1 holds now.
    fn opened(&mut self, now: Tick, id: SessionId, out: &mut VecDeque<RegistryOutput>) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        // A term may have begun meanwhile that lists the session: then it is open by that.
        if session.state == State::Opening {
            session.state = State::Open;
            let (until, handoff) = (now + session.ttl, session.handoff);
            self.set_lease(id, until);
            out.push_back(RegistryOutput::Tables(ToTables::Began { session: id, handoff }));
        }
        self.send(id, ToNode::Opened { terms: self.terms.clone() }, out);
    }

    /// R3 holds now: the terms begin, and those on the list get their time to come back.
    fn begin(
        &mut self,
        now: Tick,
        terms: &[Term],
        listed: &[Listed],
        out: &mut VecDeque<RegistryOutput>,
    ) {
        self.taking = terms.iter().fold(self.taking, |rest, term| rest.without(term.groups));
        let is_short = self.limits.bugs.has(Bug::GraceWithoutOwn);
        let own_time = |one: &Listed| if is_short { Duration::ZERO } else { one.acts };
        let acts = listed.iter().map(own_time).max().unwrap_or_default();
        let hand = terms.first().map(|first| {
            let groups = terms.iter().fold(GroupSet::EMPTY, |all, term| all.or(term.groups));
            let acts_until = now + grace(acts, Duration::ZERO);
            self.formers.begin(Term { groups, epoch: first.epoch }, acts_until)
        });
        for one in listed {
            let forgets = self.limits.bugs.has(Bug::RestartForgetsLeases);
            let latest = if forgets { now } else { now + grace(own_time(one), one.ttl) };
            let until = match one.here {
                true => self.come_back(one, latest, out),
                false => Some(self.formers.end(one.session, latest, one.last)),
            };
            let (Some(hand), Some(until)) = (hand, until) else { continue };
            let recover_by = now + grace(Duration::ZERO, one.ttl) * RECOVERY_LEASES;
            self.formers.add(hand, one.session, Former::new(until, one, recover_by));
        }
        hand.into_iter().for_each(|hand| self.formers.tidy(hand));
        let formers = listed.iter().any(|one| !one.here);
        let is_awaited = |one: &&Listed| !one.here || self.has_entry(one.session);
        let listed: Vec<_> = listed.iter().filter(is_awaited).map(|one| one.session).collect();
        for &term in terms {
            let listed = listed.clone();
            out.push_back(RegistryOutput::Tables(ToTables::Begin { term, listed, formers }));
            self.terms.push(term);
        }
        let open = |session: &Session| session.state == State::Open;
        let open: Vec<_> =
            self.sessions.iter().filter(|(_, session)| open(session)).map(|(&id, _)| id).collect();
        for id in open {
            for &term in terms {
                self.send(id, ToNode::Serving(term), out);
            }
        }
    }

    /// A session with this server is listed: it is open, and may re-assert. Until when the term
    /// waits for it, if it does; `latest` is the end of its lease if all that is known is its
    /// length.
    ///
    /// If nobody but this server can have extended it since its end was set, that end stands:
    /// groups that are taken again and again must not prolong it.
    fn come_back(
        &mut self,
        one: &Listed,
        latest: Tick,
        out: &mut VecDeque<RegistryOutput>,
    ) -> Option<Tick> {
        // If it is not there, it has ended since it was listed, and its entry is deleted.
        let session = self.sessions.get_mut(&one.session)?;
        session.is_last |= one.last;
        session.has_progressed = false;
        let until = match session.state {
            // It is over, and its entry almost deleted.
            State::Ending | State::Over => return None,
            State::Open => session.until,
            // What is listed is durable, whether its node has heard so or not.
            State::Opening | State::Listed => latest,
        };
        session.state = State::Open;
        let (session, handoff) = (one.session, session.handoff);
        out.push_back(RegistryOutput::Tables(ToTables::Began { session, handoff }));
        self.set_lease(one.session, until);
        Some(until)
    }

    /// R2: whether a session of this server is in the store. One that is being deleted is, until
    /// that is durable.
    fn has_entry(&self, session: SessionId) -> bool {
        self.sessions.get(&session).is_some_and(|known| known.state != State::Over)
    }

    /// The session is over: deletes its entry; [`Registry::stored`] does the rest.
    fn end(&mut self, id: SessionId, out: &mut VecDeque<RegistryOutput>) {
        let session = self.sessions.get_mut(&id).expect("a session that ends is known");
        self.leases.remove(&(session.until, id));
        session.state = State::Ending;
        self.formers.own_ends(id);
        self.store(Pending::Forget(id), Store::Forget { session: id }, out);
    }

    /// The lease ends then, and not when it was to end before.
    fn set_lease(&mut self, id: SessionId, until: Tick) {
        let session = self.sessions.get_mut(&id).expect("a session with a lease is known");
        self.leases.remove(&(session.until, id));
        self.leases.insert((until, id));
        session.until = until;
    }

    fn store(&mut self, pending: Pending, what: Store, out: &mut VecDeque<RegistryOutput>) {
        self.last_store += 1;
        let store = StoreId(self.last_store);
        self.stores.insert(store, pending);
        out.push_back(RegistryOutput::Out(Output::Store { store, what }));
    }

    fn send(&self, session: SessionId, message: ToNode, out: &mut VecDeque<RegistryOutput>) {
        out.push_back(RegistryOutput::Out(Output::Send { session, message }));
    }
}
