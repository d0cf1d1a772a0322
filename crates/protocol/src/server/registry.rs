//! Sessions and terms: everything of a server that is durable, and every lease.
//!
//! # States of a session
//!
//! | state | in the store | lease | what it may do |
//! |---|---|---|---|
//! | Listed | yes | – | nothing, and it is told nothing until the term that lists it begins |
//! | Opening | being written | – | nothing; `Opened` follows when it is durable |
//! | Open | yes | from the last keep-alive's arrival | everything |
//! | Open, unrecovered | yes | as it was, or TTL + margin from a restart; R5 | re-assert |
//! | Open, last | yes, with a mark | as it was when groups were left, not extended | everything |
//! | Former | yes, another server's | the same | be spoken for |
//! | Ending | being deleted | over | nothing; its records go on when the entry is gone |
//!
//! # Invariants
//!
//! - **R1** a session is durable before it is answered, and so before its first grant.
//! - **R2** an expired session's entry is deleted before [`ToTables::Ended`].
//! - **R3** a term's epoch is durable before it begins.
//! - **R4** a session that was open when groups were left is marked in the store before
//!   [`Output::Left`], and is never extended again.
//! - **R5** a session that has yet to re-assert is extended only if a page of its re-assertions was
//!   heard since it was extended last, and never beyond [`RECOVERY_LEASES`] leases from the
//!   beginning of the term: so it can't hold up the others for longer.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::time::Duration;

use super::{Listed, Output, Store};
use crate::bugs::Bug;
use crate::ids::{SessionId, StoreId};
use crate::limits::{Limits, RECOVERY_LEASES, margin};
use crate::messages::{Handoff, Term, ToNode};
use crate::refusal::{SessionRefusal, TermRefusal};
use crate::slot::GroupSet;
use crate::time::Tick;
use crate::token::Epoch;

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
    state: State,
    until: Tick,
    /// Terms in which it has yet to re-assert.
    unrecovered: u32,
    /// Groups were left while it was open: its grants there rest on its lease, so that may not
    /// grow.
    is_last: bool,
    /// It is a session with this server.
    is_own: bool,
    /// A page of its re-assertions was heard since its last keep-alive.
    has_progressed: bool,
    /// While it has yet to re-assert, its lease is not extended beyond this.
    recover_by: Tick,
}

impl Session {
    fn new(ttl: Duration, handoff: Handoff, state: State, until: Tick) -> Self {
        let is_own = state != State::Former;
        Self {
            ttl,
            handoff,
            state,
            until,
            unrecovered: 0,
            is_last: false,
            is_own,
            has_progressed: false,
            recover_by: until,
        }
    }

    fn view(&self, session: SessionId) -> SessionView {
        SessionView {
            session,
            ttl: self.ttl,
            handoff: self.handoff,
            until: self.until,
            recovers: self.unrecovered > 0,
            last: self.is_last,
        }
    }

    /// When its lease ends if a term begins that lists it, of which all that is known is that it
    /// ends by `latest`. If nobody but this server can have extended it since its end was set, that
    /// end stands: groups that are taken again and again must not prolong it.
    fn grace_end(&self, latest: Tick) -> Tick {
        match self.state {
            State::Open => self.until,
            State::Former if self.is_last => self.until,
            _ => self.until.max(latest),
        }
    }
}

/// A session that is open with this server, for people and for a list of those that may re-assert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionView {
    /// Which.
    pub session: SessionId,
    /// Its lease.
    pub ttl: Duration,
    /// How its waits end.
    pub handoff: Handoff,
    /// When the lease ends.
    pub until: Tick,
    /// It has yet to re-assert what it had.
    pub recovers: bool,
    /// Its lease is not extended any more.
    pub last: bool,
}

/// A recovery that has not ended: nothing is granted in its terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovering {
    /// When it ends at the latest: the last of the leases below, as it stands now.
    pub until: Tick,
    /// The sessions that have yet to re-assert what they had, by their ids.
    pub waiting_for: Vec<SessionId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Listed,
    Opening,
    Open,
    Former,
    Ending,
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
}

/// Groups that are left, and the marks that have to be durable before somebody else takes them.
#[derive(Clone, Debug)]
struct Leaving {
    groups: GroupSet,
    marks: BTreeSet<StoreId>,
}

/// The sessions and terms of a server.
#[derive(Clone, Debug)]
pub struct Registry {
    limits: Limits,
    /// The groups of each table; a term is split among them.
    shards: Vec<GroupSet>,
    sessions: BTreeMap<SessionId, Session>,
    leases: BTreeSet<(Tick, SessionId)>,
    /// The sessions whose `unrecovered` is above 0, and when the lease of each ends.
    unrecovered: BTreeSet<SessionId>,
    unrecovered_ends: BTreeSet<(Tick, SessionId)>,
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
            unrecovered: BTreeSet::new(),
            unrecovered_ends: BTreeSet::new(),
            ended: VecDeque::new(),
            ended_ids: BTreeSet::new(),
            terms: Vec::new(),
            taking: GroupSet::EMPTY,
            leaving: Vec::new(),
            stores: BTreeMap::new(),
            last_store: 0,
        }
    }

    /// When a lease ends next.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Tick> {
        self.leases.first().map(|&(tick, _)| tick)
    }

    /// Number of sessions, in whatever state.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether there is no session.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Whether the session may use the tables.
    pub fn check_open(&self, session: SessionId) -> Result<(), SessionRefusal> {
        match self.sessions.get(&session).map(|session| session.state) {
            Some(State::Open) => Ok(()),
            Some(State::Listed) => Err(SessionRefusal::Resting),
            _ => Err(SessionRefusal::Unknown),
        }
    }

    /// Whether the session is open and has yet to re-assert what it had.
    #[must_use]
    pub fn is_unrecovered(&self, session: SessionId) -> bool {
        let known = self.sessions.get(&session).filter(|known| known.state == State::Open);
        known.is_some_and(|known| known.unrecovered > 0)
    }

    /// The sessions that are open with this server.
    pub fn open_sessions(&self) -> impl Iterator<Item = SessionView> {
        self.open_sessions_after(None)
    }

    /// Those with an id above this one, by their ids.
    pub fn open_sessions_after(
        &self,
        after: Option<SessionId>,
    ) -> impl Iterator<Item = SessionView> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let known = self.sessions.range((from, Bound::Unbounded));
        let open = known.filter(|(_, session)| session.state == State::Open);
        open.map(|(&session, known)| known.view(session))
    }

    /// One session, if it is open with this server.
    #[must_use]
    pub fn open_session(&self, session: SessionId) -> Option<SessionView> {
        let known = self.sessions.get(&session).filter(|known| known.state == State::Open)?;
        Some(known.view(session))
    }

    /// How many sessions have yet to re-assert what they had, or to be over.
    #[must_use]
    pub fn unrecovered(&self) -> usize {
        self.unrecovered.len()
    }

    /// Whether this is one of them.
    #[must_use]
    pub fn recovers(&self, session: SessionId) -> bool {
        self.unrecovered.contains(&session)
    }

    /// Those sessions, by their ids.
    pub fn recovering_sessions(&self) -> impl Iterator<Item = SessionId> {
        self.unrecovered.iter().copied()
    }

    /// When the last of their leases ends: then nobody is waited for any longer.
    #[must_use]
    pub fn recovers_until(&self) -> Option<Tick> {
        self.unrecovered_ends.last().map(|&(until, _)| until)
    }

    /// When the session's lease ends, if it is open.
    #[must_use]
    pub fn lease_end(&self, session: SessionId) -> Option<Tick> {
        let known = self.sessions.get(&session);
        known.filter(|known| known.state == State::Open).map(|known| known.until)
    }

    /// For which sessions the terms of this server wait, and until when; none if they wait for
    /// nobody. Takes as long as there are such sessions, and no time if there are none.
    #[must_use]
    pub fn recovering(&self) -> Option<Recovering> {
        let until = self.recovers_until()?;
        Some(Recovering { until, waiting_for: self.recovering_sessions().collect() })
    }

    /// What is served now.
    #[must_use]
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// Ends leases whose time has come. Call it before anything else happens at `now`. If very many
    /// end at once, some are left for the next call, which [`Registry::next_deadline`] asks for at
    /// once; none of these is extended any more.
    pub fn expire(&mut self, now: Tick, out: &mut VecDeque<RegistryOutput>) {
        for _ in 0..EXPIRED_AT_ONCE {
            let Some(&(_, session)) = self.leases.first().filter(|(tick, _)| *tick <= now) else {
                break;
            };
            if self.limits.bugs.has(Bug::ForgetNotStored) {
                out.push_back(RegistryOutput::Tables(ToTables::Ended { session }));
            }
            self.end(session, out);
        }
    }

    /// A node opens a session, perhaps again.
    pub fn open(
        &mut self,
        now: Tick,
        id: SessionId,
        ttl: Duration,
        handoff: Handoff,
        out: &mut VecDeque<RegistryOutput>,
    ) -> Result<(), SessionRefusal> {
        if let Some(known) = self.sessions.get(&id) {
            return match known.state {
                State::Former | State::Ending => Err(SessionRefusal::Unknown),
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
        let state = State::Opening;
        self.sessions.insert(id, Session::new(ttl, handoff, state, now));
        let what = Store::Session { session: id, ttl, handoff, last: false };
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
        if self.sessions[&id].unrecovered > 0 && !self.may_extend(now, id) {
            for term in self.terms.clone() {
                self.send(id, ToNode::Serving(term), out);
            }
            return Ok(());
        }
        let session = &self.sessions[&id];
        if session.is_last {
            return Ok(());
        }
        let until = session.until.max(now + session.ttl);
        self.set_lease(id, until);
        self.send(id, ToNode::Alive { number }, out);
        Ok(())
    }

    /// R5: whether a session that has yet to re-assert is extended. A page may count once.
    fn may_extend(&mut self, now: Tick, id: SessionId) -> bool {
        let Some(session) = self.sessions.get_mut(&id) else { return false };
        let is_in_time = now + session.ttl <= session.recover_by;
        std::mem::take(&mut session.has_progressed) && is_in_time
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
        out.push_back(RegistryOutput::Tables(ToTables::Ended { session: id }));
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
        let what =
            Store::Session { session: id, ttl: known.ttl, handoff: known.handoff, last: true };
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
            let fresh = || Session::new(one.ttl, one.handoff, State::Listed, now);
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

    /// Serve these groups no more. If another server is to have them, [`Registry::freeze`] follows.
    pub fn leave(&mut self, groups: GroupSet) {
        for term in &mut self.terms {
            term.groups = term.groups.without(groups);
        }
        self.terms.retain(|term| !term.groups.is_empty());
        self.taking = self.taking.without(groups);
        for pending in self.stores.values_mut() {
            if let Pending::Epoch { terms, .. } = pending {
                terms.iter_mut().for_each(|term| term.groups = term.groups.without(groups));
                terms.retain(|term| !term.groups.is_empty());
            }
        }
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
            // Listed again meanwhile, in another term: it goes when that has heard of it.
            Pending::Forget(id)
                if self.sessions.get(&id).is_some_and(|it| it.state != State::Ending) => {}
            Pending::Forget(session) => {
                self.set_recovered(session);
                self.sessions.remove(&session);
                self.remember_ended(now, session);
                out.push_back(RegistryOutput::Tables(ToTables::Ended { session }));
                out.push_back(RegistryOutput::Out(Output::Ended { session }));
            }
        }
        Ok(())
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

    /// A listed session has re-asserted all it had in one term.
    pub fn recovered(&mut self, id: SessionId, out: &mut VecDeque<RegistryOutput>) {
        self.one_term_less(id);
        let session = self.sessions.get(&id);
        if session.is_some_and(|it| it.unrecovered == 0 && it.state == State::Former) {
            self.end(id, out);
        }
    }

    fn one_term_less(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        session.unrecovered = session.unrecovered.saturating_sub(1);
        if session.unrecovered == 0 {
            self.set_recovered(id);
        }
    }

    /// The session is not waited for any more.
    fn set_recovered(&mut self, id: SessionId) {
        if self.unrecovered.remove(&id)
            && let Some(session) = self.sessions.get(&id)
        {
            self.unrecovered_ends.remove(&(session.until, id));
        }
    }

    /// A term is left in which a listed session had yet to re-assert: the next owner will hear of
    /// it. So its entry is not deleted before its lease is over.
    pub fn dropped(&mut self, id: SessionId) {
        self.one_term_less(id);
    }

    /// No session that is open now is extended any more: these groups are left, it may have
    /// something there, and their next owner counts on its end. When that is durable,
    /// [`Output::Left`] follows.
    pub fn freeze(&mut self, groups: GroupSet, out: &mut VecDeque<RegistryOutput>) {
        let is_durable = !self.limits.bugs.has(Bug::LeaveNotStored);
        let mut marks = Vec::new();
        for (&session, known) in &mut self.sessions {
            if known.is_own && known.state != State::Ending && !known.is_last {
                known.is_last = true;
                let (ttl, handoff, last) = (known.ttl, known.handoff, true);
                marks.push(Store::Session { session, ttl, handoff, last });
            }
        }
        for mark in marks.into_iter().filter(|_| is_durable) {
            self.store(Pending::Mark, mark, out);
        }
        // Those too that groups left before have to wait for.
        let marks = self.stores.iter().filter(|(_, pending)| matches!(pending, Pending::Mark));
        let marks = marks.map(|(&store, _)| store).collect();
        self.leaving.push(Leaving { groups, marks });
        self.say_left(out);
    }

    /// Stores an open session again, because of something that the driver keeps with it. Whether
    /// there is one.
    pub fn store_again(&mut self, session: SessionId, out: &mut VecDeque<RegistryOutput>) -> bool {
        let known = self.sessions.get(&session).filter(|it| it.is_own && it.state == State::Open);
        let Some(&Session { ttl, handoff, is_last: last, .. }) = known else { return false };
        self.store(Pending::Mark, Store::Session { session, ttl, handoff, last }, out);
        true
    }

    /// R4 holds for groups of which all marks are durable.
    fn say_left(&mut self, out: &mut VecDeque<RegistryOutput>) {
        for Leaving { groups, .. } in self.leaving.extract_if(.., |one| one.marks.is_empty()) {
            out.push_back(RegistryOutput::Out(Output::Left { groups }));
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
        let count = u32::try_from(terms.len()).expect("there are at most 256 terms");
        for one in listed {
            let until = now + (one.ttl + margin(one.ttl));
            let state = if one.here { State::Open } else { State::Former };
            let fresh = || Session::new(one.ttl, one.handoff, state, until);
            let session = self.sessions.entry(one.session).or_insert_with(fresh);
            let until = session.grace_end(until);
            match session.state {
                // It is over, and its entry almost deleted. But another server's may have more
                // here.
                State::Ending if session.is_own => continue,
                State::Ending => session.state = State::Former,
                // What is listed is durable, whether its node has heard so or not.
                State::Opening | State::Listed => session.state = State::Open,
                State::Open | State::Former => {}
            }
            if session.unrecovered == 0 {
                session.recover_by = now + (one.ttl + margin(one.ttl)) * RECOVERY_LEASES;
                session.has_progressed = false;
            }
            session.unrecovered += count;
            session.is_last |= one.last;
            if count > 0 {
                self.unrecovered.insert(one.session);
                self.unrecovered_ends.insert((session.until, one.session));
            }
            if session.state == State::Open {
                let (session, handoff) = (one.session, session.handoff);
                out.push_back(RegistryOutput::Tables(ToTables::Began { session, handoff }));
            }
            let forgets = self.limits.bugs.has(Bug::RestartForgetsLeases);
            self.set_lease(one.session, if forgets { now } else { until });
        }
        let formers = listed.iter().any(|one| !one.here);
        let listed: Vec<_> = listed.iter().map(|one| one.session).collect();
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

    /// The session is over: deletes its entry; [`Registry::stored`] does the rest.
    fn end(&mut self, id: SessionId, out: &mut VecDeque<RegistryOutput>) {
        let session = self.sessions.get_mut(&id).expect("a session that ends is known");
        self.leases.remove(&(session.until, id));
        session.state = State::Ending;
        self.store(Pending::Forget(id), Store::Forget { session: id }, out);
    }

    /// The lease ends then, and not when it was to end before.
    fn set_lease(&mut self, id: SessionId, until: Tick) {
        let session = self.sessions.get_mut(&id).expect("a session with a lease is known");
        self.leases.remove(&(session.until, id));
        self.leases.insert((until, id));
        if self.unrecovered_ends.remove(&(session.until, id)) {
            self.unrecovered_ends.insert((until, id));
        }
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
