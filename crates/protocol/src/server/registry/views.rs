//! What a registry tells about its sessions, and for whom its terms wait.

use std::ops::Bound;
use std::time::Duration;

use super::{Registry, Session, State};
use crate::bugs::Bug;
use crate::ids::SessionId;
use crate::messages::{Client, Handoff, Term};
use crate::refusal::{ReassertRefusal, SessionRefusal};
use crate::slot::GroupSet;
use crate::time::Tick;

/// A session that is open with this server, for people and for a list of those that may re-assert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionView {
    /// Which.
    pub session: SessionId,
    /// Its lease.
    pub ttl: Duration,
    /// How its waits end.
    pub handoff: Handoff,
    /// Whose it is.
    pub client: Client,
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

impl Registry {
    /// When a lease ends next.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Tick> {
        let lease = self.leases.first().map(|&(tick, _)| tick);
        lease.into_iter().chain(self.formers.next_end()).min()
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
        known.is_some() && !self.formers.unheard(session).is_empty()
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
        open.map(|(&session, known)| self.view(session, known))
    }

    /// One session, if it is open with this server.
    #[must_use]
    pub fn open_session(&self, session: SessionId) -> Option<SessionView> {
        let known = self.sessions.get(&session).filter(|known| known.state == State::Open)?;
        Some(self.view(session, known))
    }

    /// How many sessions have yet to re-assert what they had, or to be over.
    #[must_use]
    pub fn unrecovered(&self) -> usize {
        self.formers.count()
    }

    /// Whether this is one of them.
    #[must_use]
    pub fn recovers(&self, session: SessionId) -> bool {
        self.formers.awaits(session)
    }

    /// Those sessions, by their ids.
    pub fn recovering_sessions(&self) -> impl Iterator<Item = SessionId> {
        self.formers.awaited()
    }

    /// When the last of their leases ends: then nobody is waited for any longer.
    #[must_use]
    pub fn recovers_until(&self) -> Option<Tick> {
        self.formers.awaited_until()
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

    /// How many sessions of other servers are listed here, those included that were heard.
    #[must_use]
    pub fn formers(&self) -> usize {
        self.formers.len()
    }

    /// Whether a session may say now that it has re-asserted all that it had in these groups. A
    /// stranger may still be told something by their former owner, and act upon it: so what it says
    /// counts only when that server has stopped.
    pub fn check_reasserted(
        &self,
        now: Tick,
        session: SessionId,
        groups: GroupSet,
    ) -> Result<(), ReassertRefusal> {
        let client = self.sessions.get(&session).map(|session| session.client);
        self.check_told(now, groups, client == Some(Client::Stranger))
    }

    /// The same for a session of another server, which says as itself that it had nothing.
    pub fn check_nothing(
        &self,
        now: Tick,
        former: SessionId,
        groups: GroupSet,
    ) -> Result<(), ReassertRefusal> {
        let is_stranger = self.formers.is_of_stranger(former);
        self.check_told(now, groups, is_stranger)
    }

    fn check_told(
        &self,
        now: Tick,
        groups: GroupSet,
        is_stranger: bool,
    ) -> Result<(), ReassertRefusal> {
        let wait = self.formers.acts_for(now, groups);
        if !is_stranger || wait.is_zero() || self.limits.bugs.has(Bug::StrangerRecoveredEarly) {
            return Ok(());
        }
        Err(ReassertRefusal::TooEarly { wait })
    }

    fn view(&self, session: SessionId, known: &Session) -> SessionView {
        SessionView {
            session,
            ttl: known.ttl,
            handoff: known.handoff,
            client: known.client,
            until: known.until,
            recovers: self.formers.awaits(session),
            last: known.is_last,
        }
    }
}
