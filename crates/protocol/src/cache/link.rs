//! Sessions with servers, and the leases that everything rests on.
//!
//! A lease is counted from when the node *sent* what was answered, less a margin, so it ends on the
//! node before it ends on the server. A keep-alive that is sent again keeps its number, and counts
//! from its first sending.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::caps::Unnamed;
use super::entry::Held;
use super::{Config, LeaseId, LockCache, Output};
use crate::bugs::Bug;
use crate::ids::{ServerId, SessionId};
use crate::limits::margin;
use crate::messages::{Term, ToServer};
use crate::record::Record;
use crate::slot::GroupSet;
use crate::time::Tick;

/// Keep-alives of which the answer may still come. One is begun every third of a lease, so an
/// answer to one that was forgotten would extend nothing.
const UNANSWERED_MAX: usize = 4;

/// So many sessions that are over are remembered.
const PAST_MAX: usize = 8;

/// A session that is over, or was given up. A server that takes groups of its server lists it, and
/// waits for it unless the node says that it has nothing there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Past {
    pub(super) server: ServerId,
    pub(super) session: SessionId,
    /// The end of its lease. What rested on it in groups that another server owns may still live on
    /// that.
    pub(super) until: Tick,
    /// When no server can be waiting for it any more, or hardly.
    forget_at: Tick,
}

/// A session with one server.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) session: SessionId,
    /// The server has said that the session is durable.
    pub(super) is_open: bool,
    /// The end of the lease. Before the session is open: of the one that it would bring.
    pub(super) until: Tick,
    /// Where it ends earlier.
    pub(super) unnamed: Unnamed,
    /// A term was told before the answer to the open came. That answer may be older.
    pub(super) missed_term: bool,
    /// When the open or a keep-alive is to be sent next.
    pub(super) due: Tick,
    /// The last keep-alive.
    number: u64,
    /// Keep-alives without an answer, and when each was first sent. The open is number 0.
    unanswered: VecDeque<(u64, Tick)>,
}

/// The sessions of a node, at most one with each server.
#[derive(Clone, Debug, Default)]
pub(super) struct Links(BTreeMap<ServerId, Link>);

impl Links {
    pub(super) fn get(&self, server: ServerId) -> Option<&Link> {
        self.0.get(&server)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ServerId, &Link)> {
        self.0.iter().map(|(&server, link)| (server, link))
    }

    /// The link with `server`, if the session is open.
    pub(super) fn open(&self, server: ServerId) -> Option<&Link> {
        self.get(server).filter(|link| link.is_open)
    }

    /// Sends, if there is a session.
    pub(super) fn send(&self, server: ServerId, message: ToServer, out: &mut Vec<Output>) {
        if let Some(link) = self.get(server) {
            out.push(Output::Send { server, session: link.session, message });
        }
    }

    /// When something is to be sent, or a lease ends.
    pub(super) fn next_deadline(&self) -> Option<Tick> {
        self.0.values().map(|link| link.due.min(link.until)).min()
    }

    pub(super) fn missed_term(&mut self, server: ServerId) {
        if let Some(link) = self.0.get_mut(&server) {
            link.missed_term = true;
        }
    }

    pub(super) fn get_mut(&mut self, server: ServerId) -> Option<&mut Link> {
        self.0.get_mut(&server)
    }

    fn which(&self, is_so: impl Fn(&Link) -> bool) -> Vec<ServerId> {
        self.iter().filter(|(_, link)| is_so(link)).map(|(server, _)| server).collect()
    }
}

impl Link {
    /// Whether something is due to be sent, and there was no answer to the open, or to a keep-alive
    /// for a third of a lease.
    fn is_silent(&self, now: Tick, third: Duration) -> bool {
        let last = self.unanswered.back();
        self.due <= now && last.is_some_and(|&(_, sent)| !self.is_open || sent + third <= now)
    }

    /// The answer to the open or a keep-alive has come. An answer that is not awaited says nothing.
    fn answered(&mut self, number: u64, now: Tick, config: &Config) {
        let Some(at) = self.unanswered.iter().position(|&(sent, _)| sent == number) else {
            return;
        };
        let (_, sent) = self.unanswered[at];
        self.unanswered.drain(..=at);
        if self.unanswered.is_empty() {
            self.due = sent + config.ttl / 3;
        }
        self.until = self.until.max(lease_end(config, sent, now));
    }
}

/// When a lease ends that was asked for at `sent` and answered `now`.
pub(super) fn lease_end(config: &Config, sent: Tick, now: Tick) -> Tick {
    if config.bugs.has(Bug::LeaseForgotten) {
        return Tick(u64::MAX);
    }
    let from = if config.bugs.has(Bug::LeaseFromArrival) { now } else { sent };
    let less = if config.bugs.has(Bug::NoMargin) { 0 } else { 1 };
    from + (config.ttl - margin(config.ttl) * less)
}

impl LockCache {
    /// Ends the sessions whose lease is over.
    pub(super) fn end_leases(&mut self, now: Tick, out: &mut Vec<Output>) {
        if self.links.0.values().any(|link| link.until <= now) {
            let over = self.links.which(|link| link.until <= now);
            self.sessions_lost(now, &over, out);
        }
    }

    /// Begins a session with `server`, unless there is one.
    pub(super) fn reach(&mut self, now: Tick, server: ServerId, out: &mut Vec<Output>) {
        if self.links.0.contains_key(&server) {
            return;
        }
        let link = self.new_link(now, now);
        self.links.0.insert(server, link);
        self.keep(now, server, out);
    }

    /// The session that is being opened has ended on the server already: the open was carried out,
    /// its answer was lost, and then the lease ended or another connection closed the session. The
    /// next open is for a new session. It is sent when the old one would have been sent again, so
    /// that a server that refuses every session is not asked without a pause.
    pub(super) fn open_another(&mut self, now: Tick, server: ServerId) {
        let Some(due) = self.links.get(server).map(|link| link.due) else { return };
        let link = self.new_link(now, due);
        self.links.0.insert(server, link);
    }

    /// A session that is to be opened, at `due` or as soon as the way to the server is open again.
    /// Its lease counts from now, since the open is not sent earlier.
    fn new_link(&mut self, now: Tick, due: Tick) -> Link {
        let session = self.next_session;
        self.next_session = SessionId(session.0.wrapping_add(1));
        Link {
            session,
            is_open: false,
            until: lease_end(&self.config, now, now),
            unnamed: Unnamed::default(),
            missed_term: false,
            due,
            number: 0,
            unanswered: [(0, now)].into(),
        }
    }

    /// Sends the open again, or a keep-alive.
    pub(super) fn keep(&mut self, now: Tick, server: ServerId, out: &mut Vec<Output>) {
        let Some(link) = self.links.0.get_mut(&server) else { return };
        let again_at = now + self.config.resend;
        if !link.is_open {
            link.due = again_at;
            return self.say_open(server, out);
        }
        let third = self.config.ttl / 3;
        let begun = match link.unanswered.back() {
            Some(&(_, sent)) if now < sent + third => sent,
            _ => {
                link.number += 1;
                link.unanswered.push_back((link.number, now));
                now
            }
        };
        if link.unanswered.len() > UNANSWERED_MAX {
            link.unanswered.pop_front();
        }
        link.due = again_at.min(begun + third);
        let message = ToServer::KeepAlive { number: link.number };
        self.links.send(server, message, out);
    }

    /// Asks `server` to open the session, or to say again what it serves.
    pub(super) fn say_open(&self, server: ServerId, out: &mut Vec<Output>) {
        let message = ToServer::Open { ttl: self.config.ttl, handoff: self.config.handoff };
        self.links.send(server, message, out);
        self.say_label(server, out);
    }

    /// Names the session for people, if the node has a name.
    pub(super) fn say_label(&self, server: ServerId, out: &mut Vec<Output>) {
        if let Some(label) = &self.config.label {
            self.links.send(server, ToServer::Label { label: label.clone() }, out);
        }
    }

    /// Sends what is due to be sent to servers as such. Of one that is silent, it is asked whether
    /// it still serves what the node has there.
    pub(super) fn keep_links(&mut self, now: Tick, out: &mut Vec<Output>) {
        let third = self.config.ttl / 3;
        for server in self.links.which(|link| link.is_silent(now, third)) {
            let groups = self.records.groups();
            let groups: GroupSet =
                groups.iter().filter(|&group| self.routes.server(group) == Some(server)).collect();
            if !groups.is_empty() {
                out.push(Output::Locate { groups });
            }
        }
        for server in self.links.which(|link| link.due <= now) {
            self.keep(now, server, out);
        }
    }

    /// The session is durable, and these are the terms of its server.
    pub(super) fn opened(
        &mut self,
        now: Tick,
        server: ServerId,
        terms: &[Term],
        out: &mut Vec<Output>,
    ) {
        let Some(link) = self.links.0.get_mut(&server) else { return };
        let is_first = !link.is_open;
        let missed_term = std::mem::take(&mut link.missed_term);
        if is_first {
            link.is_open = true;
            link.answered(0, now, &self.config);
            out.push(Output::Lease { lease: LeaseId::Server(server), until: link.until });
        }
        for &term in terms {
            self.opened_term(now, server, term, is_first, out);
        }
        if missed_term {
            self.say_open(server, out);
        }
        self.advance_all(now, out);
    }

    /// The keep-alive with this number was answered: the lease is extended for what rests on it in
    /// these groups, and in no others. In groups of which a later owner is known it is not.
    pub(super) fn alive(
        &mut self,
        now: Tick,
        server: ServerId,
        number: u64,
        named: GroupSet,
        out: &mut Vec<Output>,
    ) {
        let Some(link) = self.links.0.get_mut(&server) else { return };
        let (session, before) = (link.session, link.until);
        link.answered(number, now, &self.config);
        let until = link.until;
        if until <= before {
            return;
        }
        out.push(Output::Lease { lease: LeaseId::Server(server), until });
        let extended = self.routes.not_replaced(server, named);
        link.unnamed.extended(extended, before);
        if extended != GroupSet::ALL && !self.config.bugs.has(Bug::CapForgotten) {
            let others = GroupSet::ALL.without(extended);
            self.cap(session, others, before, out);
            let unnamed = GroupSet::ALL.without(named).and(self.records.groups());
            let moved: GroupSet = unnamed
                .iter()
                .filter(|&group| {
                    self.routes.owner(group) == Some(server)
                        && !self.recovers(server, session, group)
                })
                .collect();
            self.locate(now, moved, out);
        }
        self.lift_caps((server, session), extended, out);
        self.prune_caps(server, out);
        self.extend_recoveries((server, session), extended, until);
        // It serves groups in a term of which the node has not heard, and has something of them.
        let unheard = self.routes.not_owned(server, named);
        let is_unheard = !unheard.is_empty() && !unheard.and(self.records.groups()).is_empty();
        if is_unheard || self.is_untold(server, named) {
            self.say_open(server, out);
        }
    }

    /// Everything that rests on the sessions with these servers is void. New ones are begun where
    /// something is wanted.
    pub(super) fn sessions_lost(&mut self, now: Tick, servers: &[ServerId], out: &mut Vec<Output>) {
        for &server in servers {
            self.drop_session(now, server, out);
        }
        // Only now: what rests on any lease that is over is lost before a lease is told again.
        if self.drop_unused_caps() {
            self.say_leases(out);
        }
        if !servers.is_empty() {
            self.flush(out);
            self.advance_all(now, out);
        }
    }

    /// The session with `server` is over. What rests on it is lost, but for what is in groups that
    /// another server owns by now: of that `server` says nothing any more, and it lives out the
    /// lease as it stands.
    fn drop_session(&mut self, now: Tick, server: ServerId, out: &mut Vec<Output>) {
        let Some(Link { session, until, .. }) = self.links.0.remove(&server) else { return };
        self.forget_recoveries_to(server);
        let moved = GroupSet::ALL.without(self.routes.not_replaced(server, GroupSet::ALL));
        let moved = if until > now { moved } else { GroupSet::EMPTY };
        if !moved.is_empty() {
            self.cap(session, moved, until, out);
        }
        for record in self.records.which(|_, entry| entry.rests_on(server, session)) {
            let stays = moved.contains(record.group());
            self.forget_ask(&record, (server, session), stays);
            let is_there = |held: Held| held.rest.session == session;
            if !stays && self.held(&record).is_some_and(is_there) {
                self.lose(&record, out);
            }
        }
        self.past.retain(|past| past.forget_at > now);
        self.past.truncate(PAST_MAX - 1);
        let forget_at = now.max(until) + self.config.ttl * 2;
        self.past.push_front(Past { server, session, until, forget_at });
    }

    /// Nothing is asked of `server` any more, and no place in its line is kept, unless it `stays`
    /// to be re-asserted.
    fn forget_ask(
        &mut self,
        record: &Record,
        (server, session): (ServerId, SessionId),
        stays: bool,
    ) {
        let Some(mut ask) = self.records.take_ask(record) else { return };
        if !stays && ask.rest().is_some_and(|rest| rest.session == session) {
            ask.place = None;
        }
        if ask.server != server {
            self.records.put_ask(record, ask);
        }
    }

    /// Tells all servers that the node ends, and forgets everything.
    pub(super) fn close(&mut self, out: &mut Vec<Output>) {
        for (server, _) in self.links.iter() {
            self.links.send(server, ToServer::Close, out);
        }
        *self = Self { is_closed: true, ..Self::new(self.config.clone()) };
    }
}
