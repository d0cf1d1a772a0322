//! The client side: the records that a process may use without asking the server.
//!
//! [`LockCache`] keeps sessions with any number of servers and, for each record, what it was
//! granted. It knows nothing about threads: the driver has a queue of waiters for each record,
//! tells the cache what the first of them needs, and is told what its threads may do.
//!
//! # States of a record
//!
//! | state | held | asked | drain | told the driver | meaning |
//! |---|---|---|---|---|---|
//! | Absent | – | – | – | – | not cached; perhaps wanted, with no way to its server yet |
//! | Asking | – | seq | – | – | an acquire is under way |
//! | Open | seq, mode, token | – | – | `Open` | local threads use it with no message |
//! | Draining | seq, mode, token | – | to | `Drain` | revoked; local threads leave |
//! | Upgrading | read | seq | – | `Open` | a local reader waits to write |
//! | Upgrading, draining | read | seq | to | `Drain` | and somebody wants the read back |
//!
//! # Invariants
//!
//! - **I1** An entry has something: held, asked or wanted.
//! - **I2** What is asked for is wanted, and each is asked for once.
//! - **I3** Held and asked together are an upgrade: a read, and an acquire with a later number.
//! - **I4** What drains is held, and more than what it drains to.
//! - **I5** Only what is held is to be upgraded.
//! - **I6** What is held rests on an open session or has a cap, see `caps.rs`; what is asked for is
//!   asked for in an open session.
//! - **I7** A number is given out once, and none is above the counter.
//! - **I8** What is wanted is asked for, unless it waits for a drain, a server, a session or a
//!   recovery.
//! - **I9** After `Close` there is nothing.
//!
//! # Calling contract
//!
//! Call [`LockCache::handle`] with every input, then do all it put in `out`, in order; call it with
//! [`Input::Tick`] no later than [`LockCache::next_deadline`]. `now` never goes back. An input that
//! is refused has changed nothing; but time has passed, and what was lost by that is in `out`.
//!
//! - A `Want` that is no upgrade closes the record until it is answered: a cached read may be
//!   traded.
//! - `Open` answers what was wanted, and takes back a `Drain` that was not yet answered.
//! - Guards are good as long as the last [`Output::Lease`] of the lease is that they rest on, and
//!   the record is not `Lost`.
//! - *Rule Z*: a node that knows a later owner of a group neither heeds nor answers an earlier one
//!   about it.

mod ask;
mod caps;
mod check;
mod entry;
mod link;
mod local;
mod pages;
mod records;
mod recovery;
mod refusal;
mod remote;
mod route;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use ask::Over;
use caps::Caps;
use entry::{Ask, Entry, Held, Want, Wish};
use link::{Links, Past};
pub use pages::PageLimits;
use pages::Recovery;
use records::Records;
use remote::Grant;
use route::Routes;

use crate::annotation::Annotation;
use crate::bugs::{Bug, Bugs};
use crate::ids::{Owner, Seq, ServerId, SessionId};
use crate::limits::AHEAD_UNKNOWN;
use crate::messages::{Handoff, Holder, LocalWait, Term, ToNode, ToServer};
use crate::mode::Mode;
use crate::record::Record;
use crate::refusal::AcquireRefusal;
use crate::slot::GroupSet;
use crate::stay::{Stay, StayLimits};
use crate::time::Tick;
use crate::token::{Epoch, Token};

/// What happens to a node's cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A server says something to a session of this node.
    Message {
        /// Which server.
        server: ServerId,
        /// Which of the node's sessions it is for; for another than the present one it changes
        /// nothing.
        session: SessionId,
        /// What it says.
        message: ToNode,
    },
    /// These groups are served there, as far as the driver knows.
    Route {
        /// Which groups.
        groups: GroupSet,
        /// Where.
        server: ServerId,
    },
    /// A server serves this term, as the driver has heard from somebody who knows. What rests on an
    /// earlier term is re-asserted to it; if nothing does, it is told so.
    Serves {
        /// Which server.
        server: ServerId,
        /// Which groups, and in which epoch.
        term: Term,
    },
    /// The way to this server is open, perhaps again: send what may have been lost.
    Connected {
        /// Which server.
        server: ServerId,
    },
    /// The head of the local line needs the record. Again with other owners: they replace the
    /// earlier.
    Want {
        /// What.
        record: Record,
        /// How. Without `upgrade` no local thread holds the record while this is wanted.
        mode: Mode,
        /// A local thread reads, keeps reading, and waits to write, whatever `mode` is.
        upgrade: bool,
        /// Who waits for it on this node.
        owners: Vec<Owner>,
    },
    /// What the record is wanted for, for people: after [`Input::Want`]. The next want of another
    /// kind forgets it.
    Note {
        /// What.
        record: Record,
        /// What for.
        note: Annotation,
    },
    /// Ask who holds a record that is wanted; answered by [`Output::HeldBy`] if an acquire of it is
    /// under way and the server can be reached.
    WhoHolds {
        /// What.
        record: Record,
    },
    /// Nobody local waits for the record any more. (Who holds it goes on.)
    Withdraw {
        /// What.
        record: Record,
    },
    /// After [`Output::Drain`]: the local threads that had to leave have left, and none enters.
    Drained {
        /// What.
        record: Record,
    },
    /// After [`Output::Drain`] of a write to nothing: the local writer has become a reader. Readers
    /// stay inside, and nobody enters to write. The server is told at once, so that readers who
    /// wait elsewhere come in beside them; the rest is wanted back anew.
    Downgraded {
        /// What.
        record: Record,
    },
    /// After [`Output::Drain`]: it can't be answered at once. Again whenever this changes.
    Busy {
        /// What.
        record: Record,
        /// Owners that hold the record on this node.
        holders: Vec<Owner>,
        /// Waits between owners on this node, as far as they lead away from the holders.
        waits: Vec<LocalWait>,
    },
    /// No local thread has used the record for a while: it may go back.
    GiveBack {
        /// What.
        record: Record,
    },
    /// Nobody holds the record on this node, and none enters: it goes back at once. As
    /// [`Input::GiveBack`] and [`Input::Drained`] in one; nothing, if the record is wanted or
    /// drains.
    Return {
        /// What.
        record: Record,
    },
    /// The node ends: close all sessions. Nothing is wanted or held after this.
    Close,
    /// Time has passed.
    Tick,
}

/// What grants rest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LeaseId {
    /// The lease with this server, as it is extended.
    Server(ServerId),
    /// The rest of a lease with some server, which is not extended any more for what rests on it.
    Ending(u32),
}

/// What a node's cache wants done, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Tell a server.
    Send {
        /// Which.
        server: ServerId,
        /// In which session.
        session: SessionId,
        /// What.
        message: ToServer,
    },
    /// Local threads may hold the record in this mode, as long as this lease stands.
    /// What was wanted is thereby answered. May come again for a record that is open, with another
    /// mode or token.
    Open {
        /// What.
        record: Record,
        /// How.
        mode: Mode,
        /// For the store behind the record.
        token: Token,
        /// The lease that it rests on.
        lease: LeaseId,
    },
    /// What is open or drains rests on this lease from now on.
    Rests {
        /// What.
        record: Record,
        /// Which lease.
        lease: LeaseId,
    },
    /// Let the local threads leave, and say [`Input::Drained`] when those that have to are gone:
    /// all if `to` is nothing, the writers if it is reading (readers go on then). Turns may begin
    /// as long as the stay lasts. A second one for the same record changes `to` alone.
    Drain {
        /// What.
        record: Record,
        /// What local threads may go on holding.
        to: Option<Mode>,
        /// How many turns may still begin.
        stay: Stay,
    },
    /// The grant is void: its guards are lost, the record is closed, a drain is off. What was
    /// wanted is still wanted.
    Lost {
        /// What.
        record: Record,
    },
    /// What was wanted is refused and not wanted any more; what is held is still held.
    Refused {
        /// What.
        record: Record,
        /// Why.
        why: AcquireRefusal,
    },
    /// The answer to [`Input::WhoHolds`]; it decides nothing.
    HeldBy {
        /// What.
        record: Record,
        /// How many acquires of other nodes would be served before this node's, if that is known.
        ahead: Option<u32>,
        /// Who holds it. Empty if this node may not know.
        holders: Vec<Holder>,
    },
    /// This lease stands until then, by this node's clock.
    Lease {
        /// Which.
        lease: LeaseId,
        /// Its end.
        until: Tick,
    },
    /// Find out who serves these groups, and say [`Input::Route`].
    Locate {
        /// Which groups.
        groups: GroupSet,
    },
}

/// Why the cache refuses an input of the driver. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WantRefusal {
    /// The cache has as many records as it may have: give some back.
    TooManyRecords {
        /// The limit.
        max: usize,
    },
    /// The acquire names more owners than allowed.
    TooManyOwners {
        /// The limit.
        max: usize,
    },
    /// An upgrade of a record that is not held for reading.
    NotHeld,
    /// Another thread of this process already waits to upgrade the record.
    UpgradeConflict,
    /// The record is not draining.
    NotDraining,
    /// The cache is closed.
    Closed,
}

/// A node's choices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Drawn at random for each start of the process: the node's sessions are numbered from here.
    pub first_session: SessionId,
    /// The lease to ask for.
    pub ttl: Duration,
    /// How waits end.
    pub handoff: Handoff,
    /// How servers are to call the node's sessions when they show them to people.
    pub label: Option<Annotation>,
    /// After how long an unanswered message is sent again.
    pub resend: Duration,
    /// How long local threads may keep what others wait for.
    pub stay: StayLimits,
    /// How many records the cache may have.
    pub records: usize,
    /// How many owners an acquire or a report may name.
    pub owners: usize,
    /// How much is re-asserted at a time.
    pub pages: PageLimits,
    /// For the tests of the simulator.
    pub bugs: Bugs,
}

/// A node's cache of locks; see the [module](self).
#[derive(Clone, Debug)]
pub struct LockCache {
    config: Config,
    is_closed: bool,
    /// The last number that was given out.
    seq: Seq,
    /// The last report's.
    reports: u64,
    next_session: SessionId,
    links: Links,
    routes: Routes,
    records: Records,
    recoveries: Vec<Recovery>,
    caps: Caps,
    /// Sessions that are over, or were given up, not long ago: servers may still wait for them.
    past: VecDeque<Past>,
    /// Releases and cancels that wait for the end of a recovery.
    deferred: BTreeMap<Record, Over>,
}

impl LockCache {
    /// A cache with nothing in it.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            is_closed: false,
            seq: Seq::NONE,
            reports: 0,
            next_session: config.first_session,
            links: Links::default(),
            routes: Routes::default(),
            records: Records::new(config.first_session.0),
            recoveries: Vec::new(),
            caps: Caps::default(),
            past: VecDeque::new(),
            deferred: BTreeMap::new(),
            config,
        }
    }

    /// The one way in; see the [module](self) for how it is to be called.
    pub fn handle(
        &mut self,
        now: Tick,
        input: Input,
        out: &mut Vec<Output>,
    ) -> Result<(), WantRefusal> {
        // A node that was paused must know that first.
        self.end_leases(now, out);
        self.end_caps(now, out);
        self.end_recoveries(now, out);
        if self.is_closed && input != Input::Tick {
            return Err(WantRefusal::Closed);
        }
        match input {
            Input::Message { server, session, message } => {
                self.message(now, server, session, message, out);
            }
            Input::Route { groups, server } => self.route(now, groups, server, out),
            Input::Serves { server, term } => self.serves(now, server, term, out),
            Input::Connected { server } => self.connected(now, server, out),
            Input::Want { record, mode, upgrade, owners } => {
                // An upgrade is a write, whatever mode it names.
                let mode = if upgrade { Mode::Write } else { mode };
                self.want(now, &record, Want { mode, upgrade, owners }, out)?;
            }
            Input::Note { record, note } => self.set_note(&record, note, out),
            Input::WhoHolds { record } => self.who_holds(&record, out),
            Input::Withdraw { record } => self.withdraw(&record, out),
            Input::Drained { record } => self.drained(now, &record, out)?,
            Input::Downgraded { record } => self.downgraded(now, &record, out)?,
            Input::Busy { record, holders, waits } => self.busy(&record, holders, waits, out)?,
            Input::GiveBack { record } => self.give_back(&record, out),
            Input::Return { record } => self.give_back_now(&record, out),
            Input::Close => self.close(out),
            Input::Tick => self.send_again(now, out),
        }
        Ok(())
    }

    /// When [`Input::Tick`] is due.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Tick> {
        let never = Tick(u64::MAX);
        let first = |a: Tick, b: Option<Tick>| b.map_or(a, |b| a.min(b));
        let mut next = first(never, self.links.next_deadline());
        next = first(next, self.records.next_resend());
        next = first(next, self.routes.locate_at());
        next = first(next, self.caps.next_end());
        next = self.recoveries.iter().map(Recovery::next_deadline).fold(next, Tick::min);
        (next != never).then_some(next)
    }

    /// Whether a local thread may begin to use the record in this mode without a message.
    #[must_use]
    pub fn is_usable(&self, now: Tick, record: &Record, mode: Mode) -> bool {
        let entry = self.records.get(record).filter(|entry| entry.is_open(mode));
        let held = entry.and_then(|entry| entry.held);
        held.and_then(|held| self.end_of(held)).is_some_and(|until| now < until)
    }

    /// What this node calls itself where people see it.
    #[must_use]
    pub fn label(&self) -> Option<&Annotation> {
        self.config.label.as_ref()
    }

    /// Whether an acquire of the record waits in its server's line, as far as the node knows.
    #[must_use]
    pub fn is_in_line(&self, record: &Record) -> bool {
        let ask = self.records.get(record).and_then(|entry| entry.asked);
        ask.is_some_and(|ask| ask.place.is_some())
    }

    /// How many acquires of other nodes would be served before this node's, as the server last
    /// said. `None` if it has not said so, or does not know.
    #[must_use]
    pub fn ahead(&self, record: &Record) -> Option<u32> {
        self.records.get(record).and_then(|entry| entry.asked)?.ahead
    }

    /// Whether something at the record is wanted from the server that it has not granted yet.
    #[must_use]
    pub fn is_wanted(&self, record: &Record) -> bool {
        self.records.get(record).is_some_and(|entry| entry.want.is_some() || entry.asked.is_some())
    }

    /// The end of the lease with this server, if there is one.
    #[must_use]
    pub fn lease_until(&self, server: ServerId) -> Option<Tick> {
        self.links.open(server).map(|link| link.until)
    }

    /// The end of this lease, if there is one.
    #[must_use]
    pub fn lease_end(&self, lease: LeaseId) -> Option<Tick> {
        match lease {
            LeaseId::Server(server) => self.lease_until(server),
            LeaseId::Ending(number) => self.caps.end_of(number),
        }
    }

    /// Until when all that this node holds stands: the end of the lease with this server, or, if
    /// that is earlier, of what is left of a lease. For drivers that keep one end for all records.
    #[must_use]
    pub fn all_until(&self, server: ServerId) -> Option<Tick> {
        let until = self.lease_until(server)?;
        Some(self.caps.next_end().map_or(until, |end| end.min(until)))
    }

    /// Whether the record is held, open or draining.
    #[must_use]
    pub fn holds(&self, record: &Record) -> bool {
        self.held(record).is_some()
    }

    /// The latest epoch of the record's group that this node has heard of.
    #[must_use]
    pub fn known_epoch(&self, record: &Record) -> Epoch {
        self.routes.epoch(record.group())
    }

    /// The server that owns the record's group, by the latest epoch that the node has heard of.
    #[must_use]
    pub fn known_owner(&self, record: &Record) -> Option<ServerId> {
        self.routes.owner(record.group())
    }

    /// How many records are held, wanted or asked for.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether nothing is held, wanted or asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The sessions with servers, those included that are not open yet.
    pub fn sessions(&self) -> impl Iterator<Item = (ServerId, SessionId)> {
        self.links.iter().map(|(server, link)| (server, link.session))
    }

    fn message(
        &mut self,
        now: Tick,
        server: ServerId,
        session: SessionId,
        message: ToNode,
        out: &mut Vec<Output>,
    ) {
        let Some(link) = self.links.get(server).filter(|link| link.session == session) else {
            return self.message_to_former(now, server, session, &message, out);
        };
        if !link.is_open && !matches!(message, ToNode::Opened { .. } | ToNode::NoSession) {
            if matches!(message, ToNode::Serving(_)) {
                self.links.missed_term(server);
            }
            return;
        }
        if self.is_of_replaced(server, &message) && !self.config.bugs.has(Bug::HeedsReplaced) {
            if self.config.bugs.has(Bug::AnswersReplaced) {
                self.answer_replaced(server, &message, out);
            }
            return;
        }
        match message {
            ToNode::NoSession if !link.is_open => self.open_another(now, server),
            ToNode::Opened { terms } => self.opened(now, server, &terms, out),
            ToNode::Alive { number, groups } => self.alive(now, server, number, groups, out),
            ToNode::NoSession => self.sessions_lost(now, &[server], out),
            ToNode::Moved { groups } => self.moved(now, server, groups, out),
            ToNode::Serving(term) => self.serving(now, server, term, out),
            ToNode::Heard { term, former, first, whole } => {
                self.heard(now, (server, former), term, (first, whole), out);
            }
            ToNode::Recovered { term, former } => {
                self.recovered(now, (server, former), term, out);
            }
            ToNode::Unlisted { term, former } => self.unlisted(now, (server, former), term, out),
            ToNode::Granted { record, seq, mode, token, give_back } => {
                let grant = Grant { seq, mode, token, give_back };
                self.granted(now, server, &record, grant, out);
            }
            ToNode::Queued { record, seq, ticket, ahead } => {
                self.queued(now, server, &record, (seq, ticket, known(ahead)), out);
            }
            ToNode::HeldBy { record, seq, ahead, holders } => {
                let asked = self.records.get(&record).and_then(|entry| entry.asked);
                if let Some(ask) = asked.filter(|ask| ask.seq == seq && ask.server == server) {
                    let ahead = known(ahead);
                    self.records.put_ask(&record, Ask { ahead, ..ask });
                    out.push(Output::HeldBy { record, ahead, holders });
                }
            }
            ToNode::Retry { record, seq } => self.retry(now, server, &record, seq, out),
            ToNode::Revoke { record, seq, wanted, at } => {
                let wish = Wish { wanted: Some(wanted), at };
                self.wished(now, server, &record, (seq, wish), out);
            }
            ToNode::Keep { record, seq, at } => {
                self.wished(now, server, &record, (seq, Wish { wanted: None, at }), out);
            }
            ToNode::Refused { record, seq, why } => {
                self.refused(now, server, &record, (seq, why), out);
            }
            ToNode::Lost { record, seq } => self.grant_lost(now, server, &record, seq, out),
        }
    }

    /// Rule Z: whether a server speaks of a record although a later owner of its group is known.
    /// That it does not serve it is true all the same.
    fn is_of_replaced(&self, server: ServerId, message: &ToNode) -> bool {
        let record = match message {
            ToNode::Refused { why: AcquireRefusal::NotServed(_), .. } => return false,
            ToNode::Granted { record, .. }
            | ToNode::Queued { record, .. }
            | ToNode::Retry { record, .. }
            | ToNode::Revoke { record, .. }
            | ToNode::Keep { record, .. }
            | ToNode::Refused { record, .. }
            | ToNode::Lost { record, .. } => record,
            _ => return false,
        };
        self.routes.is_replaced(server, record.group())
    }

    /// A server answers what was said as a former session, to a node that may have no session with
    /// it.
    fn message_to_former(
        &mut self,
        now: Tick,
        server: ServerId,
        session: SessionId,
        message: &ToNode,
        out: &mut Vec<Output>,
    ) {
        if !self.speaks_as(server, session) {
            return;
        }
        match *message {
            ToNode::Recovered { term, former } if former == session => {
                self.recovered(now, (server, former), term, out);
            }
            ToNode::Serving(term) => self.shrink_nothing(now, (server, session), term, out),
            _ => {}
        }
    }

    /// The server gives these groups up. Where they are now is not known.
    fn moved(&mut self, now: Tick, server: ServerId, groups: GroupSet, out: &mut Vec<Output>) {
        let groups = self.routes.not_replaced(server, groups);
        self.routes.leave(groups, server, now + self.config.ttl);
        self.locate(now, groups.and(self.records.groups()), out);
        self.advance_in(now, groups, out);
    }

    /// Has the driver find these groups, unless it is looking for them, until it knows.
    fn locate(&mut self, now: Tick, groups: GroupSet, out: &mut Vec<Output>) {
        let again_at = now + self.config.resend;
        let sought: GroupSet =
            groups.iter().filter(|&group| self.routes.miss(group, again_at)).collect();
        if !sought.is_empty() {
            out.push(Output::Locate { groups: sought });
        }
    }

    /// The driver knows who serves these groups.
    fn route(&mut self, now: Tick, groups: GroupSet, server: ServerId, out: &mut Vec<Output>) {
        self.routes.set(now, groups, server);
        // Where records change their owner, it is asked for its terms if there is a session
        // already.
        let moves = self.records.which(|record, entry| {
            groups.contains(record.group()) && entry.rests_elsewhere(server)
        });
        if !moves.is_empty() && self.links.open(server).is_some() {
            self.say_open(server, out);
        }
        self.advance_all(now, out);
    }

    /// The way to a server is open again: whatever it may have missed is sent now.
    fn connected(&mut self, now: Tick, server: ServerId, out: &mut Vec<Output>) {
        self.keep(now, server, out);
        if self.links.open(server).is_some() {
            self.say_label(server, out);
        }
        self.ask_about_pages(now, |recovery| recovery.server == server, out);
        for record in
            self.records.which(|_, entry| entry.asked.is_some_and(|ask| ask.server == server))
        {
            self.acquire_again(now, &record, out);
        }
        self.ask_about_drains(server, out);
    }

    /// Names what the threads are to leave to the server, which says what is wanted of it now: that
    /// nobody wants it any more is said once.
    fn ask_about_drains(&mut self, server: ServerId, out: &mut Vec<Output>) {
        let drains = |entry: &Entry| {
            entry.drain.is_some() && entry.held.is_some_and(|held| held.rest.server == server)
        };
        for record in self.records.which(|_, entry| drains(entry)) {
            if let Some(Held { seq, .. }) = self.held(&record) {
                self.end(server, &record, Over::release(seq.before(), Some(seq)), out);
            }
        }
    }

    /// Sends again what was not answered in time.
    fn send_again(&mut self, now: Tick, out: &mut Vec<Output>) {
        self.keep_links(now, out);
        self.ask_about_late_pages(now, out);
        for record in self.records.due(now) {
            self.acquire_again(now, &record, out);
        }
        if self.routes.locate_at().is_some_and(|at| at <= now) {
            // What is held, too: its owner has to hear of it.
            let sought = |entry: &Entry| entry.want.is_some() || entry.held.is_some();
            let sought = self.records.iter().filter(|(_, entry)| sought(entry));
            let groups = sought.map(|(record, _)| record.group());
            let missing = groups.filter(|&group| self.routes.server(group).is_none()).collect();
            self.routes.miss_again(missing, now + self.config.resend);
            if !missing.is_empty() {
                out.push(Output::Locate { groups: missing });
            }
        }
    }
}

/// What a server says about the waiters before an acquire.
fn known(ahead: u32) -> Option<u32> {
    (ahead != AHEAD_UNKNOWN).then_some(ahead)
}
