//! Clients that speak plain RESP: they open a session, take a record for writing, hold it, and
//! leave.
//!
//! They do not know which groups an extension is for, and not rule Z. When the record's group has a
//! new owner, some re-assert there, and go on with that session when they hear that it has all;
//! some of these close the old session then, at a server that has nothing to say any more. Some
//! live out their lease, and some end what they hold when they hear of the change.

use fastrand::Rng;
use lockspan_protocol::cache::LeaseId;
use lockspan_protocol::server::Input;
use lockspan_protocol::{
    Claim, Handoff, Mode, Seq, SessionId, Term, Tick, ToNode, ToServer, Token, margin,
};
use std::time::Duration;

use super::finish::Stage;
use super::{Event, SESSIONS_OF_NODE, World};
use crate::clock::Clock;
use crate::coverage::Hit;
use crate::log::Fate;
use crate::oracle::guards::Guard;
use crate::plan::Plan;
use crate::stream;
use crate::words::{self, Machine};

/// How often a stranger looks what it has to do, at most.
const LOOK: u64 = 40_000;

/// What a stranger does when the group of its record has a new owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Temper {
    /// Re-asserts, and closes the old session when that was heard.
    Closes,
    /// Re-asserts, and forgets the old session.
    Forgets,
    /// Goes on with the old session for as long as that is extended.
    LivesOut,
    /// Ends what it holds, at the old server.
    Ends,
}

/// A session of a stranger.
#[derive(Clone, Copy, Debug)]
struct Session {
    id: SessionId,
    server: u8,
    is_open: bool,
    /// The end of the lease, by the stranger's clock.
    until: Tick,
    /// The last keep-alive, and when it was sent first.
    kept: (u64, Tick),
    /// The term of the record's group, as far as the server has said.
    term: Option<Term>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle {
        until: u64,
    },
    /// Opens a session, or waits for the record.
    Asks {
        since: u64,
    },
    Holds {
        until: u64,
        token: Token,
    },
}

/// A client that is no node.
#[derive(Debug)]
pub(super) struct Stranger {
    clock: Clock,
    rng: Rng,
    state: State,
    temper: Temper,
    record: u8,
    seq: Seq,
    /// The session that it uses, and one that is to take its place.
    session: Option<Session>,
    next: Option<Session>,
    sessions: u64,
    /// When it looks again.
    looks_at: u64,
}

impl Stranger {
    pub(super) fn new(plan: &Plan, number: u8, clock: Clock) -> Self {
        let mut rng = stream::Thread { node: 200 + number, thread: 0 }.rng(plan.seed);
        let temper =
            [Temper::Closes, Temper::Forgets, Temper::LivesOut, Temper::Ends][rng.usize(..4)];
        let state = State::Idle { until: rng.u64(..plan.ttl) };
        let (seq, session, next) = (Seq::NONE, None, None);
        Self { clock, rng, state, temper, record: 0, seq, session, next, sessions: 0, looks_at: 0 }
    }

    fn is_holding(&self) -> bool {
        matches!(self.state, State::Holds { .. })
    }

    /// Its session with this id.
    fn of(&mut self, id: SessionId) -> Option<&mut Session> {
        let both = self.session.iter_mut().chain(&mut self.next);
        both.into_iter().find(|session| session.id == id)
    }
}

fn lease(id: SessionId) -> LeaseId {
    LeaseId::Ending((id.0 % 1_000_000) as u32)
}

impl World {
    /// The number of a stranger among all that have guards: they come after the nodes.
    fn guard_of(&self, number: u8) -> u8 {
        self.nodes.len() as u8 + number
    }

    /// The stranger whose session it is, if it is one's.
    pub(super) fn stranger_of(&self, session: SessionId) -> Option<u8> {
        let number = super::node_of(session);
        number.checked_sub(self.nodes.len() as u8)
    }

    pub(super) fn stranger_looks(&mut self, number: u8) {
        let at = usize::from(number);
        if self.strangers[at].looks_at > self.now {
            return;
        }
        let is_over = self.stage != Stage::Running;
        let now = self.strangers[at].clock.at(self.now);
        let lapsed = self.strangers[at].session.is_some_and(|session| session.until <= now);
        match self.strangers[at].state {
            State::Idle { until } if self.now >= until && !is_over => self.stranger_begins(number),
            State::Idle { .. } => {}
            State::Asks { since } => {
                if is_over || lapsed || self.now > since + 2 * self.plan.ttl {
                    self.stranger_gives_up(number);
                } else {
                    self.stranger_asks(number);
                }
            }
            State::Holds { .. } if lapsed => {
                self.coverage.hit(Hit::StrangerLost);
                self.stranger_leaves(number, false);
            }
            State::Holds { until, .. } if is_over || self.now >= until => {
                self.stranger_leaves(number, true);
            }
            State::Holds { .. } => self.stranger_holds(number),
        }
        self.stranger_looks_again(number);
    }

    /// Soon, or exactly when a lease ends: a guard past its lease counts no more.
    fn stranger_looks_again(&mut self, number: u8) {
        let stranger = &mut self.strangers[usize::from(number)];
        let soon = self.now + 1 + stranger.rng.u64(..LOOK);
        let end = stranger.session.map(|session| stranger.clock.when(session.until));
        let at = end.filter(|&end| end > self.now).map_or(soon, |end| soon.min(end));
        stranger.looks_at = at;
        if self.stage != Stage::Over {
            self.queue.push(at, Event::Stranger { number });
        }
    }

    fn stranger_begins(&mut self, number: u8) {
        let records = self.records.len() as u8;
        let stranger = &mut self.strangers[usize::from(number)];
        stranger.record = stranger.rng.u8(..records);
        stranger.state = State::Asks { since: self.now };
        if let Some(owner) = self.owner_for(number) {
            let session = self.stranger_opens(number, owner);
            self.strangers[usize::from(number)].session = Some(session);
        }
    }

    /// Who owns the group of a stranger's record, as the store says.
    fn owner_for(&self, number: u8) -> Option<u8> {
        let record = self.strangers[usize::from(number)].record;
        let groups = [self.records[usize::from(record)].group()].into_iter().collect();
        self.cluster.as_ref()?.owners(groups).first().map(|&(server, _)| server)
    }

    fn stranger_opens(&mut self, number: u8, server: u8) -> Session {
        let guard = u64::from(self.guard_of(number));
        let ttl = Duration::from_micros(self.plan.ttl);
        let stranger = &mut self.strangers[usize::from(number)];
        stranger.sessions += 1;
        let id = SessionId((guard + 1) * SESSIONS_OF_NODE + stranger.sessions);
        let now = stranger.clock.at(self.now);
        let (until, kept) = (now + (ttl - margin(ttl)), (0, now));
        let session = Session { id, server, is_open: false, until, kept, term: None };
        self.stranger_says_open(number, session);
        session
    }

    fn stranger_says_open(&mut self, number: u8, Session { id: session, server, .. }: Session) {
        let link = (Machine::Stranger(number), Machine::Server(server));
        let event = || Event::Admit { server, session };
        self.send(link, || format!("open {session}"), event);
    }

    pub(super) fn server_admits(&mut self, server: u8, session: SessionId) {
        let (ttl, handoff) = (Duration::from_micros(self.plan.ttl), Handoff::Direct);
        self.server_knows(server, session);
        self.server_input(server, Input::Admit { session, ttl, handoff });
    }

    fn stranger_says(&mut self, number: u8, session: Session, message: ToServer) {
        let (server, id) = (session.server, session.id);
        self.books.sent(self.now, id, &message);
        let link = (Machine::Stranger(number), Machine::Server(server));
        let (node, words) = (self.guard_of(number), message.clone());
        let event = || Event::ToServer { server, node, session: id, message: message.clone() };
        self.send(link, || words::to_server(&words), event);
    }

    /// Has no answer yet.
    fn stranger_asks(&mut self, number: u8) {
        let stranger = &mut self.strangers[usize::from(number)];
        let Some(session) = stranger.session else {
            stranger.state = State::Idle { until: self.now + self.plan.ttl / 4 };
            return;
        };
        if !session.is_open {
            self.stranger_says_open(number, session);
        } else if let Some(term) = session.term {
            let record = self.records[usize::from(stranger.record)].clone();
            if stranger.seq == Seq::NONE {
                stranger.seq = Seq(stranger.sessions);
            }
            let (seq, epoch) = (stranger.seq, term.epoch);
            let (mode, upgrade, owners) = (Mode::Write, false, Vec::new());
            let message = ToServer::Acquire { record, mode, seq, epoch, upgrade, owners };
            self.stranger_says(number, session, message);
            self.stranger_keeps(number);
        } else {
            // The group is not there, or not yet.
            self.stranger_says_open(number, session);
        }
    }

    fn stranger_gives_up(&mut self, number: u8) {
        let stranger = &mut self.strangers[usize::from(number)];
        let session = stranger.session.take();
        stranger.seq = Seq::NONE;
        stranger.state = State::Idle { until: self.now + stranger.rng.u64(..self.plan.ttl) };
        if let Some(session) = session {
            self.stranger_says(number, session, ToServer::Close);
        }
    }

    /// Ends what it holds; says so, if its lease stands.
    fn stranger_leaves(&mut self, number: u8, says: bool) {
        let guard = self.guard_of(number);
        let stranger = &mut self.strangers[usize::from(number)];
        let (record, seq) = (stranger.record, stranger.seq);
        let (session, next) = (stranger.session.take(), stranger.next.take());
        stranger.seq = Seq::NONE;
        stranger.state = State::Idle { until: self.now + stranger.rng.u64(..self.plan.ttl) };
        let closes = stranger.rng.bool();
        self.guards.lose(record, guard);
        let name = self.records[usize::from(record)].clone();
        for session in session.into_iter().chain(next).filter(|_| says) {
            let message = ToServer::Release { record: name.clone(), seq, keep: None };
            self.stranger_says(number, session, message);
            if closes || self.stage != Stage::Running {
                self.stranger_says(number, session, ToServer::Close);
            }
        }
    }

    fn stranger_keeps(&mut self, number: u8) {
        let third = self.plan.ttl / 3;
        let stranger = &mut self.strangers[usize::from(number)];
        let now = stranger.clock.at(self.now);
        let mut says = Vec::new();
        for session in stranger.session.iter_mut().chain(&mut stranger.next) {
            if session.is_open && now >= session.kept.1 + Duration::from_micros(third) {
                session.kept = (session.kept.0 + 1, now);
                says.push(*session);
            }
        }
        for session in says {
            self.stranger_says(number, session, ToServer::KeepAlive { number: session.kept.0 });
        }
    }

    /// Holds the record: keeps its session, and follows the record to a new owner.
    fn stranger_holds(&mut self, number: u8) {
        self.stranger_keeps(number);
        let owner = self.owner_for(number);
        let stranger = &mut self.strangers[usize::from(number)];
        let Some(session) = stranger.session else { return };
        if let Some(next) = stranger.next {
            if !next.is_open {
                self.stranger_says_open(number, next);
            }
            return self.stranger_reasserts(number, next, session.id);
        }
        let Some(owner) = owner.filter(|&owner| owner != session.server) else { return };
        match stranger.temper {
            Temper::LivesOut => {}
            Temper::Ends => {
                self.coverage.hit(Hit::StrangerEnded);
                self.stranger_leaves(number, true);
            }
            Temper::Closes | Temper::Forgets => {
                let next = self.stranger_opens(number, owner);
                self.strangers[usize::from(number)].next = Some(next);
            }
        }
    }

    /// Says in a session what it holds in the name of another, or of the same.
    fn stranger_reasserts(&mut self, number: u8, by: Session, former: SessionId) {
        let stranger = &self.strangers[usize::from(number)];
        let State::Holds { token, .. } = stranger.state else { return };
        let Some(Term { groups, epoch }) = by.term.filter(|_| by.is_open) else { return };
        let (record, seq) = (self.records[usize::from(stranger.record)].clone(), stranger.seq);
        let is_there = groups.contains(record.group());
        if is_there {
            let (mode, claim) = (Mode::Write, Claim::Held { token });
            let message = ToServer::Reassert { record, epoch, former, seq, mode, claim };
            self.stranger_says(number, by, message);
        }
        let (count, sum) = if is_there { (1, seq.0) } else { (0, 0) };
        let message = ToServer::Reasserted { groups, epoch, former, count, sum };
        self.stranger_says(number, by, message);
    }

    pub(super) fn stranger_hears(
        &mut self,
        number: u8,
        server: u8,
        id: SessionId,
        message: &ToNode,
    ) {
        let link = (Machine::Server(server), Machine::Stranger(number));
        self.log.message(self.now, link, Fate::Arrived, || words::to_node(message));
        self.books.heard(self.now, id, message);
        let at = usize::from(number);
        let record = self.records[usize::from(self.strangers[at].record)].clone();
        let ttl = Duration::from_micros(self.plan.ttl);
        let stranger = &mut self.strangers[at];
        let now = stranger.clock.at(self.now);
        let (seq, is_holding) = (stranger.seq, stranger.is_holding());
        let asks = matches!(stranger.state, State::Asks { .. });
        let is_new = stranger.next.is_some_and(|next| next.id == id);
        let Some(session) = stranger.of(id) else { return };
        match message {
            ToNode::Opened { terms } => {
                session.is_open = true;
                let of_record = |term: &&Term| term.groups.contains(record.group());
                let later = terms.iter().find(of_record).copied();
                session.term = later.or(session.term);
            }
            ToNode::Alive { number: kept, .. } if *kept == session.kept.0 => {
                session.until = session.until.max(session.kept.1 + (ttl - margin(ttl)));
                let (until, lease) = (session.until, lease(id));
                let guard = self.guard_of(number);
                self.guards.lease(guard, lease, until);
            }
            ToNode::Serving(term) => {
                let is_there = term.groups.contains(record.group());
                if is_there {
                    session.term = Some(*term);
                }
                // Its server was restarted, or has taken groups again.
                if !is_new && is_holding {
                    let by =
                        stranger.of(id).map(|session| Session { term: Some(*term), ..*session });
                    by.into_iter().for_each(|by| self.stranger_reasserts(number, by, id));
                }
            }
            ToNode::Granted { seq: granted, token, .. } if *granted == seq && asks && !is_new => {
                self.stranger_enters(number, *token);
            }
            ToNode::Refused { seq: refused, .. } if *refused == seq => {
                session.term = None;
                if asks {
                    self.stranger_gives_up(number);
                }
            }
            ToNode::Recovered { former, .. } if is_new && *former != id => {
                self.stranger_moves(number, *former);
            }
            ToNode::Unlisted { former, .. } if is_new && *former != id => {
                self.stranger_leaves(number, true);
            }
            ToNode::Lost { seq: lost, .. } if *lost == seq && is_holding => {
                self.stranger_leaves(number, true);
            }
            ToNode::NoSession if !is_new => {
                session.until = now;
                if is_holding {
                    self.stranger_leaves(number, false);
                } else {
                    self.stranger_gives_up(number);
                }
            }
            _ => {}
        }
    }

    fn stranger_enters(&mut self, number: u8, token: Token) {
        let guard = self.guard_of(number);
        let hold = self.plan.hold_max + 4 * self.plan.ttl;
        let stranger = &mut self.strangers[usize::from(number)];
        let Some(session) = stranger.session else { return };
        if session.until <= stranger.clock.at(self.now) {
            return;
        }
        let until = self.now + stranger.rng.u64(..hold);
        stranger.state = State::Holds { until, token };
        let record = stranger.record;
        let lease = lease(session.id);
        let grant = (guard, 1, stranger.seq);
        self.coverage.hit(Hit::StrangerHolds);
        self.guards.lease(guard, lease, session.until);
        let granted = self.guards.granted(record, grant, token);
        self.check(granted);
        let opened = self.guards.opened(self.now, record, guard, Mode::Write, lease);
        self.check(opened);
        let mode = Mode::Write;
        let one = Guard { node: guard, life: 1, thread: 0, mode, grant: mode, token, lease };
        let begun = self.guards.begin(self.now, record, one);
        self.check(begun);
    }

    /// The new owner has what was re-asserted: it rests on the new session.
    fn stranger_moves(&mut self, number: u8, former: SessionId) {
        let guard = self.guard_of(number);
        let stranger = &mut self.strangers[usize::from(number)];
        if !stranger.is_holding() || stranger.session.is_none_or(|old| old.id != former) {
            return;
        }
        let (Some(old), Some(new)) = (stranger.session, stranger.next.take()) else { return };
        stranger.session = Some(new);
        let (record, closes) = (stranger.record, stranger.temper == Temper::Closes);
        self.coverage.hit(Hit::StrangerMoved);
        self.guards.lease(guard, lease(new.id), new.until);
        self.guards.rests_on(record, guard, lease(new.id));
        if closes {
            self.coverage.hit(Hit::StrangerClosedOld);
            self.stranger_says(number, old, ToServer::Close);
        }
    }
}
