//! A new term: the node tells the new owner what it holds and where it stands in line.
//!
//! What rests on an earlier term of its group is re-asserted. Until the owner has all of it, it
//! lives on the lease that it rested on before. An acquire that had no place in line yet is just
//! sent again.
//!
//! # Pages
//!
//! A node may hold a million records, and the owner may have restarted a moment ago: they are told
//! in pages. A recovery begins with a snapshot of what is to be told, ordered by seq and cut into
//! pages; a page is named by its first seq and never cut anew.
//!
//! | a page is | that is | what ends it |
//! |---|---|---|
//! | unsent | nothing of it was told | there is room in the [window](super::PageLimits::window) |
//! | under way | told, and [`ToServer::Page`] asked whether the server has it | the answer |
//! | heard | the server has all of it; it is not told again in this term | – |
//!
//! - **P1** A page is told once, and again only if the server answers that it does not have all of
//!   it, and then at most once in [`Config::resend`](super::Config::resend). If there is no answer,
//!   or after the connection was broken, the *question* is sent again.
//! - **P2** To one server, at most a window of pages is under way, or one of each recovery.
//! - **P3** [`ToServer::Reasserted`] counts the whole snapshot. It follows the last page, and is
//!   said again until the server has answered [`ToNode::Recovered`](crate::ToNode::Recovered).
//! - **P4** What was heard stays heard: in a term a server forgets nothing of what a session has
//!   re-asserted, but with that session, or with groups that it leaves.
//!
//! # For whom a node speaks
//!
//! For every session that it has or had: the new owner lists the sessions of the owner before it
//! and of owners before that, and waits for each. So a term is told in one recovery for each
//! session, most of them with nothing in it. A node that has nothing in the term at all needs no
//! session with its owner to say so: [`ToServer::Nothing`].
//!
//! - **P5** What rests on a session is told in the name of that session, until the answer has come;
//!   also if another owner may have heard it before. A later owner lists that session for as long
//!   as the node can believe in it.
//! - **P6** What a term replaces is not told to an earlier owner any more. The end that is said to
//!   that owner names only the groups that were not replaced: it has not heard all of the others.

use std::collections::BTreeMap;

use super::ask::Over;
use super::entry::{Ask, Place, Rest};
use super::pages::{Index, Reassertion, Recovery, UnderWay, Waiting, What, total};
use super::{LockCache, Output};
use crate::bugs::Bug;
use crate::ids::{Seq, ServerId, SessionId};
use crate::messages::{Term, ToServer};
use crate::record::Record;
use crate::slot::{Group, GroupSet};
use crate::time::Tick;

impl LockCache {
    /// Whether the record is being re-asserted.
    pub(super) fn is_recovering(&self, record: &Record) -> bool {
        self.recoveries.iter().any(|recovery| recovery.has(record))
    }

    /// Whether `server` may say that what is held is void: it rests there, or is re-asserted there.
    pub(super) fn may_void(&self, server: ServerId, record: &Record, rest: Rest) -> bool {
        let mut recoveries = self.recoveries.iter();
        rest.server == server
            || recoveries.any(|recovery| recovery.server == server && recovery.has(record))
    }

    /// Whether what the session with this server itself had in the group is being told to it: then
    /// extensions do not name the group.
    pub(super) fn recovers(&self, server: ServerId, session: SessionId, group: Group) -> bool {
        let mut of = self.recoveries.iter().filter(|it| it.server == server);
        of.any(|it| it.former == session && it.term.groups.contains(group))
    }

    /// A server that has a session now, perhaps for the first time, serves this term.
    pub(super) fn opened_term(
        &mut self,
        now: Tick,
        server: ServerId,
        term: Term,
        is_first: bool,
        out: &mut Vec<Output>,
    ) {
        let heard = self.routes.hear(now, server, term);
        if heard.is_late {
            return;
        }
        self.replaces(term);
        let is_told = self.recoveries.iter().any(|it| it.is_of(server, term));
        if heard.is_new || is_first || (!is_told && self.has_untold(term)) {
            self.speak_for_all(now, server, term, !is_first, out);
        }
    }

    /// A term has begun, or the server still waits for this session's re-assertions.
    pub(super) fn serving(
        &mut self,
        now: Tick,
        server: ServerId,
        term: Term,
        out: &mut Vec<Output>,
    ) {
        let heard = self.routes.hear(now, server, term);
        if heard.is_late {
            return;
        }
        self.replaces(term);
        let known: Vec<_> = (0..self.recoveries.len())
            .filter(|&at| self.recoveries[at].is_of(server, term))
            .collect();
        if !known.is_empty() {
            let mut groups = term.groups;
            let mut has_shrunk = false;
            for at in known {
                groups = groups.or(self.recoveries[at].term.groups);
                has_shrunk |= self.recoveries[at].shrink(term, self.config.first_session.0);
            }
            if has_shrunk {
                self.ask_about_pages(now, |recovery| recovery.is_of(server, term), out);
            }
            // Also in the groups that the server has left: upgrades there no longer wait for it.
            return self.advance_in(now, groups, out);
        }
        // The driver may have heard of the term before there was a session to tell it in.
        if heard.is_new || self.has_untold(term) {
            self.speak_for_all(now, server, term, true, out);
        } else if let Some(link) = self.links.open(server) {
            // What was said for the others was heard.
            let (former, until) = (link.session, link.until);
            self.recover(now, server, term, (former, until), false, out);
        }
        for record in self
            .records
            .which_in(term.groups, |_, entry| entry.asked.is_some_and(|ask| ask.place.is_none()))
        {
            self.acquire(now, &record, out);
        }
        self.advance_in(now, term.groups, out);
    }

    /// The driver has heard of a term.
    pub(super) fn serves(
        &mut self,
        now: Tick,
        server: ServerId,
        term: Term,
        out: &mut Vec<Output>,
    ) {
        if self.links.open(server).is_some() {
            return self.serving(now, server, term, out);
        }
        let heard = self.routes.hear(now, server, term);
        if heard.is_late {
            return;
        }
        self.replaces(term);
        if self.has_untold(term) {
            self.reach(now, server, out);
        } else if heard.is_new && self.links.get(server).is_none() {
            for (former, until) in self.own_sessions(server, None) {
                self.recover(now, server, term, (former, until), true, out);
            }
        }
        self.advance_in(now, term.groups, out);
    }

    /// Whether something in the groups of a term rests on an earlier one.
    fn has_untold(&self, term: Term) -> bool {
        if self.config.bugs.has(Bug::FormerAnsweredOnce) {
            return false;
        }
        let is_earlier = |rest: Rest| rest.epoch < term.epoch;
        self.records.iter_in(term.groups).any(|(_, entry)| entry.rests().any(is_earlier))
    }

    /// The sessions that this node has, or had not long ago, and the end of each one's lease. Those
    /// that it had with `server` itself are over there: nobody speaks for them.
    fn own_sessions(&self, server: ServerId, but: Option<SessionId>) -> Vec<(SessionId, Tick)> {
        let open = self.links.iter().filter(|(_, link)| link.is_open);
        let open = open.map(|(_, link)| (link.session, link.until));
        let past = self.past.iter().filter(|past| past.server != server);
        let past = past.map(|past| (past.session, past.until));
        open.chain(past).filter(|&(session, _)| Some(session) != but).collect()
    }

    /// Tells the owner of a term what rests on each session of this node; of the session with the
    /// owner itself only if that may be listed.
    fn speak_for_all(
        &mut self,
        now: Tick,
        server: ServerId,
        term: Term,
        itself: bool,
        out: &mut Vec<Output>,
    ) {
        let present = self.links.open(server).map(|link| link.session);
        let mut sessions = self.own_sessions(server, present.filter(|_| !itself));
        if self.config.bugs.has(Bug::FormerAnsweredOnce) {
            let rests_on = |session: SessionId| {
                let there = self.records.iter_in(term.groups);
                there
                    .flat_map(|(_, entry)| entry.rests())
                    .filter(|it| it.session == session)
                    .count()
            };
            sessions.sort_by_key(|&(session, _)| std::cmp::Reverse(rests_on(session)));
            sessions.truncate(1);
        }
        for one in sessions {
            self.recover(now, server, term, one, false, out);
        }
    }

    /// P6: of the groups of a new term nothing is told to an earlier owner any more.
    fn replaces(&mut self, term: Term) {
        let key = self.config.first_session.0;
        for old in self.recoveries.iter_mut().filter(|old| old.term.epoch < term.epoch) {
            let told = old.claims.len();
            old.claims.retain(|claim| !term.groups.contains(claim.record.group()));
            if old.claims.len() != told {
                old.index = Index::of(&old.claims, key);
            }
        }
        let routes = &self.routes;
        self.recoveries.retain(|old| !routes.is_over(old.term));
    }

    /// Whether something is said to `server` as this session, although it has no session with it.
    pub(super) fn speaks_as(&self, server: ServerId, former: SessionId) -> bool {
        let mut recoveries = self.recoveries.iter();
        recoveries.any(|it| it.is_nothing && it.server == server && it.former == former)
    }

    /// A server to which it was said that there is nothing in a term has left some of its groups.
    pub(super) fn shrink_nothing(
        &mut self,
        now: Tick,
        (server, former): (ServerId, SessionId),
        term: Term,
        out: &mut Vec<Output>,
    ) {
        if let Some(at) = self.recovery(server, former, term)
            && self.recoveries[at].shrink(term, self.config.first_session.0)
        {
            self.say_end(now, at, out);
        }
    }

    /// The server of a session has extended it in these groups: it has longer to be heard there.
    pub(super) fn extend_recoveries(
        &mut self,
        (server, session): (ServerId, SessionId),
        groups: GroupSet,
        until: Tick,
    ) {
        let of = |it: &&mut Recovery| it.server == server && it.former == session;
        for recovery in self.recoveries.iter_mut().filter(of) {
            if recovery.term.groups.without(groups).is_empty() {
                recovery.until = recovery.until.max(until);
            }
        }
    }

    /// The server has a page of this session's re-assertions, or lacks some of it.
    pub(super) fn heard(
        &mut self,
        now: Tick,
        (server, former): (ServerId, SessionId),
        term: Term,
        (first, whole): (Seq, bool),
        out: &mut Vec<Output>,
    ) {
        let Some(at) = self.recovery(server, former, term) else { return };
        let recovery = &mut self.recoveries[at];
        let page = recovery.pages.binary_search_by_key(&first, |&(first, _)| first);
        let Some(page) = page.ok() else { return };
        let Some(under_way) = recovery.under_way.get_mut(&page) else { return };
        if !whole {
            if under_way.tell_from <= now {
                under_way.tell_from = now + self.config.resend;
                self.send_page(now, at, page, out);
            }
            return;
        }
        recovery.under_way.remove(&page);
        // The answer to the end is on its way, or that was lost.
        recovery.end_at = now + self.config.resend;
        self.send_pages(now, server, out);
    }

    /// The server has all re-assertions: they rest on the lease with it now.
    pub(super) fn recovered(
        &mut self,
        now: Tick,
        (server, former): (ServerId, SessionId),
        term: Term,
        out: &mut Vec<Output>,
    ) {
        let Some(at) = self.recovery(server, former, term) else { return };
        let recovery = self.recoveries.remove(at);
        self.owner_proven(server, term);
        for Reassertion { record, .. } in &recovery.claims {
            if self.is_current(record, server, term) {
                self.move_claim(now, record, &recovery, out);
                // An upgrade that has no place in line yet could not be sent before.
                let entry = self.records.get(record).filter(|entry| entry.held.is_some());
                if entry.and_then(|it| it.asked).is_some_and(|ask| ask.place.is_none()) {
                    self.acquire(now, record, out);
                }
            }
        }
        self.lift_caps_of_term(server, term, out);
        self.prune_caps(server, out);
        // What was proven may be over already.
        self.end_caps(now, out);
        self.flush(out);
        self.send_pages(now, server, out);
        self.advance_in(now, recovery.term.groups, out);
    }

    /// The server does not believe the former session: what rested on it is lost.
    pub(super) fn unlisted(
        &mut self,
        now: Tick,
        (server, former): (ServerId, SessionId),
        term: Term,
        out: &mut Vec<Output>,
    ) {
        if let Some(at) = self.recovery(server, former, term) {
            self.give_up(now, at, out);
            self.flush(out);
            self.advance_all(now, out);
        }
    }

    /// Asks again whether the server has what is under way to it, and says the end again.
    pub(super) fn ask_about_pages(
        &mut self,
        now: Tick,
        is_so: impl Fn(&Recovery) -> bool,
        out: &mut Vec<Output>,
    ) {
        for at in 0..self.recoveries.len() {
            let recovery = &self.recoveries[at];
            if is_so(recovery) {
                let pages: Vec<_> = recovery.under_way.keys().copied().collect();
                pages.into_iter().for_each(|page| self.ask_about(now, at, page, out));
                self.say_end(now, at, out);
            }
        }
    }

    /// The same, where there was no answer in time.
    pub(super) fn ask_about_late_pages(&mut self, now: Tick, out: &mut Vec<Output>) {
        for at in 0..self.recoveries.len() {
            let under_way = self.recoveries[at].under_way.iter();
            let late: Vec<_> =
                under_way.filter(|(_, it)| it.ask_at <= now).map(|(&page, _)| page).collect();
            let is_late = !late.is_empty();
            late.into_iter().for_each(|page| self.ask_about(now, at, page, out));
            // Where a page was not heard the end may not have been heard either. A server that has
            // it does not wait for it behind the last page.
            let recovery = &self.recoveries[at];
            if is_late || (recovery.under_way.is_empty() && recovery.end_at <= now) {
                self.say_end(now, at, out);
            }
        }
    }

    /// Gives up what has taken longer than the lease that it rests on.
    pub(super) fn end_recoveries(&mut self, now: Tick, out: &mut Vec<Output>) {
        while let Some(at) = self.recoveries.iter().position(|recovery| recovery.until <= now) {
            self.give_up(now, at, out);
            self.flush(out);
            self.advance_all(now, out);
        }
    }

    /// Nothing is told to `server` any more: the session with it is over.
    pub(super) fn forget_recoveries_to(&mut self, server: ServerId) {
        self.recoveries.retain(|recovery| recovery.server != server || recovery.is_nothing);
    }

    /// What was to be re-asserted is void, and the new owner is told so: it may have heard of it.
    fn give_up(&mut self, now: Tick, at: usize, out: &mut Vec<Output>) {
        let recovery = self.recoveries.remove(at);
        for Reassertion { record, .. } in &recovery.claims {
            if let Some(held) = self.held(record).filter(|held| recovery.is_about(held.rest)) {
                self.lose(record, out);
                self.end(recovery.server, record, Over::release(held.seq, None), out);
            }
            let ask = self.records.get(record).and_then(|entry| entry.asked);
            if let Some(ask) = ask.filter(|ask| ask.rest().is_some_and(|at| recovery.is_about(at)))
            {
                self.records.put_ask(record, Ask { place: None, ahead: None, ..ask });
                self.acquire(now, record, out);
            }
        }
    }

    fn recovery(&self, server: ServerId, former: SessionId, term: Term) -> Option<usize> {
        let is_it = |it: &Recovery| it.former == former && it.is_of(server, term);
        self.recoveries.iter().position(is_it)
    }

    /// Whether this term of `server` is the last known of the record's group.
    fn is_current(&self, record: &Record, server: ServerId, term: Term) -> bool {
        let group = record.group();
        term.groups.contains(group) && self.routes.is_owner(server, group, term.epoch)
    }

    /// Begins to re-assert what rests on a session, be it nothing: then the owner need not wait for
    /// it. `until` is the end of its lease.
    fn recover(
        &mut self,
        now: Tick,
        server: ServerId,
        term: Term,
        (former, until): (SessionId, Tick),
        is_nothing: bool,
        out: &mut Vec<Output>,
    ) {
        self.recoveries.retain(|old| {
            old.server != server
                || old.former != former
                || old.term.epoch > term.epoch
                || !old.term.groups.without(term.groups).is_empty()
        });
        let key = self.config.first_session.0;
        let mut recovery = Recovery {
            server,
            term,
            former,
            is_nothing,
            claims: Vec::new(),
            index: Index::of(&[], key),
            pages: Vec::new(),
            sent: 0,
            under_way: BTreeMap::new(),
            end_at: now,
            until,
        };
        self.collect(&mut recovery);
        recovery.cut(self.config.pages, key);
        let is_empty = recovery.pages.is_empty();
        if is_empty {
            // Whoever has nothing may say so for longer: it is all the same to the node.
            recovery.until = until.max(now + self.config.ttl);
        }
        self.recoveries.push(recovery);
        if is_empty {
            self.say_end(now, self.recoveries.len() - 1, out);
        }
        // Those that were replaced leave room.
        self.send_pages(now, server, out);
    }

    fn collect(&self, recovery: &mut Recovery) {
        for (record, entry) in self.records.iter_in(recovery.term.groups) {
            if !self.is_current(record, recovery.server, recovery.term) {
                continue;
            }
            if let Some(held) = entry.held.filter(|held| recovery.is_about(held.rest)) {
                let (record, what) = (record.clone(), What::Held(held.token));
                recovery.claims.push(Reassertion { record, seq: held.seq, mode: held.mode, what });
            }
            let (Some(ask), Some(want)) = (entry.asked, &entry.want) else { continue };
            let place = ask.place.filter(|place| recovery.is_about(place.rest));
            if let Some(Place { ticket, .. }) = place
                && !self.config.bugs.has(Bug::WaitsNotReasserted)
            {
                let (upgrade, owners) = (want.upgrade, want.owners.clone());
                let what = What::Waiting(Box::new(Waiting { ticket, upgrade, owners }));
                let (record, seq, mode) = (record.clone(), ask.seq, want.mode);
                recovery.claims.push(Reassertion { record, seq, mode, what });
            }
        }
    }

    /// Sends further pages to the server, as far as there is room.
    fn send_pages(&mut self, now: Tick, server: ServerId, out: &mut Vec<Output>) {
        let to_it = self.recoveries.iter().filter(|recovery| recovery.server == server);
        let mut under_way: usize = to_it.map(|recovery| recovery.under_way.len()).sum();
        for at in 0..self.recoveries.len() {
            let recovery = &self.recoveries[at];
            if recovery.server != server || recovery.is_sent() {
                continue;
            }
            let (mut next, end) = (recovery.sent, recovery.pages.len());
            let mut is_first = recovery.under_way.is_empty();
            while next < end && (is_first || under_way < self.config.pages.window) {
                self.send_page(now, at, next, out);
                next += 1;
                self.recoveries[at].sent = next;
                under_way += 1;
                is_first = false;
            }
            let is_early = self.config.bugs.has(Bug::EndBeforePages);
            if next == end || is_early {
                self.say_end(now, at, out);
            }
        }
    }

    /// Sends what is in a page, and asks whether the server has it.
    fn send_page(&mut self, now: Tick, at: usize, page: usize, out: &mut Vec<Output>) {
        let recovery = &self.recoveries[at];
        let &Recovery { server, former, term: Term { epoch, .. }, .. } = recovery;
        for claim in recovery.page(page) {
            let (record, seq, mode) = (claim.record.clone(), claim.seq, claim.mode);
            let claim = claim.claim();
            let note = self.note_of(&record, seq);
            let message = ToServer::Reassert { record, epoch, former, seq, mode, claim };
            self.links.send(server, message, out);
            if let Some(note) = note {
                self.links.send(server, note, out);
            }
        }
        self.ask_about(now, at, page, out);
    }

    fn ask_about(&mut self, now: Tick, at: usize, page: usize, out: &mut Vec<Output>) {
        let recovery = &mut self.recoveries[at];
        let ask_at = now + self.config.resend;
        recovery.under_way.entry(page).or_insert(UnderWay { ask_at, tell_from: now }).ask_at =
            ask_at;
        let &mut Recovery { server, former, term: Term { groups, epoch }, .. } = recovery;
        let (first, last) = recovery.pages[page];
        let (count, sum) = total(recovery.page(page));
        let message = ToServer::Page { groups, epoch, former, first, last, count, sum };
        self.links.send(server, message, out);
    }

    /// Says how much it was, if all of it was sent.
    fn say_end(&mut self, now: Tick, at: usize, out: &mut Vec<Output>) {
        let resend = self.config.resend;
        let is_early = self.config.bugs.has(Bug::EndBeforePages);
        let recovery = &mut self.recoveries[at];
        if !recovery.is_sent() && !is_early {
            return;
        }
        recovery.end_at = now + resend;
        let &mut Recovery { server, former, term: Term { epoch, .. }, .. } = recovery;
        let groups = self.routes.present(recovery.term);
        if groups.is_empty() {
            return;
        }
        if recovery.is_nothing {
            let message = ToServer::Nothing { groups, epoch };
            out.push(Output::Send { server, session: former, message });
            return;
        }
        let (count, sum) = if is_early {
            let last = recovery.sent.checked_sub(1).map(|page| recovery.pages[page].1);
            let to = recovery.claims.partition_point(|claim| Some(claim.seq) <= last);
            total(&recovery.claims[..to])
        } else {
            total(&recovery.claims)
        };
        self.links.send(server, ToServer::Reasserted { groups, epoch, former, count, sum }, out);
    }

    /// What was re-asserted rests on the lease with the new owner.
    fn move_claim(
        &mut self,
        now: Tick,
        record: &Record,
        recovery: &Recovery,
        out: &mut Vec<Output>,
    ) {
        let Some(session) = self.links.open(recovery.server).map(|link| link.session) else {
            return;
        };
        let rest = Rest { server: recovery.server, session, epoch: recovery.term.epoch };
        if self.held(record).is_some_and(|held| recovery.is_about(held.rest)) {
            let cap = self.cap_of_unnamed(recovery.server, record, out);
            let Some(entry) = self.records.get_mut(record) else { return };
            let Some(held) = entry.held.as_mut() else { return };
            let (was_cap, was_at) = (std::mem::replace(&mut held.cap, cap), held.rest.server);
            held.rest = rest;
            let lease = Self::lease_of(*held);
            // The new owner will say whether somebody wants it.
            let is_old = held.wished_at.is_none_or(|at| at.epoch() < rest.epoch);
            let drained = is_old && entry.drain.take().is_some();
            if was_cap != cap || was_at != recovery.server {
                out.push(Output::Rests { record: record.clone(), lease });
            }
            if drained {
                self.reopen(now, record, out);
            }
        }
        let Some(ask) = self.records.get(record).and_then(|entry| entry.asked) else { return };
        if let Some(place) = ask.place.filter(|place| recovery.is_about(place.rest)) {
            let (place, server) = (Some(Place { rest, ..place }), rest.server);
            self.records.put_ask(record, Ask { place, server, ..ask });
        }
    }
}
