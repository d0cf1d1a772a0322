//! One table with its lock: a step, and what becomes of what it said.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use lockspan_protocol::server::table::{ClaimView, TableInput, TableOutput};
use lockspan_protocol::server::{Fact, Scope};
use lockspan_protocol::{LockTable, Record, Refusal, SessionId, Tick, ToNode, ToServer, WaitGraph};

use super::seat::Seat;
use super::work::{Note, Work};
use crate::stats::Counts;

/// A table, the sessions that it knows, and what it did so far.
#[derive(Debug)]
pub(super) struct Shard {
    pub(super) table: LockTable,
    pub(super) seats: Seats,
    pub(super) counts: Counts,
    /// The latest time that it has seen.
    last: Tick,
    /// An empty buffer, to be used again.
    out: Vec<TableOutput>,
}

/// Sessions by their ids, and the one that was asked for last: messages come, and are answered,
/// many of one session together.
#[derive(Debug, Default)]
pub(super) struct Seats {
    all: HashMap<SessionId, Arc<Seat>>,
    last: Option<Arc<Seat>>,
}

impl Seats {
    pub(super) fn insert(&mut self, session: SessionId, seat: Arc<Seat>) {
        self.last = None;
        self.all.insert(session, seat);
    }

    pub(super) fn remove(&mut self, session: SessionId) {
        self.last = None;
        self.all.remove(&session);
    }

    fn get(&mut self, session: SessionId) -> Option<&Arc<Seat>> {
        if self.last.as_ref().is_none_or(|last| last.id != session) {
            self.last = self.all.get(&session).cloned();
        }
        self.last.as_ref()
    }
}

impl Shard {
    pub(super) fn new(table: LockTable) -> Self {
        Self {
            table,
            seats: Seats::default(),
            counts: Counts::default(),
            last: Tick(0),
            out: Vec::new(),
        }
    }

    /// The time, for a table that never sees it go back.
    pub(super) fn at(&mut self, now: Tick) -> Tick {
        self.last = self.last.max(now);
        self.last
    }

    /// A message of a session, which has come on the connection `work.from`; that listens for the
    /// session if `listens`. If it ends a grant, every other connection that listens is told so: it
    /// may be what believes to hold it.
    pub(super) fn hear(
        &mut self,
        now: Tick,
        (seat, listens): (&Seat, bool),
        message: ToServer,
        graph: &Mutex<WaitGraph>,
        work: &mut Work,
    ) -> Result<(), Refusal> {
        let held = match &message {
            ToServer::Release { record, .. } | ToServer::Cancel { record, .. }
                if seat.others_listen(work.from, listens) =>
            {
                self.held(seat, record).map(|held| (record.clone(), held))
            }
            _ => None,
        };
        let input = TableInput::Message { session: seat.id, message };
        let result = self.step(now, input, graph, work);
        if let Some((record, held)) = held
            && !self.held(seat, &record).is_some_and(|left| left.mode.covers(held.mode))
        {
            seat.tell_over(record, held.seq, work.from, work);
        }
        result
    }

    /// What the session was granted at the record.
    fn held(&self, seat: &Seat, record: &Record) -> Option<ClaimView> {
        self.table.look_own(seat.id, record).0.filter(|claim| claim.token.is_some())
    }

    /// One step of the table. Called with its lock held, so that what it says to a session stays
    /// in order.
    pub(super) fn step(
        &mut self,
        now: Tick,
        input: TableInput,
        graph: &Mutex<WaitGraph>,
        work: &mut Work,
    ) -> Result<(), Refusal> {
        let result = self.table.handle(now, input, &mut self.out);
        for said in self.out.drain(..) {
            match said {
                TableOutput::Send { session, message } => {
                    let Some(seat) = self.seats.get(session) else { continue };
                    if let Some(later) = seat.put_off(&message) {
                        work.places.push(later);
                        continue;
                    }
                    self.counts.sent(&message);
                    seat.deliver(message, work);
                }
                // In the order in which the table said them: a wait is not over before it began.
                TableOutput::Fact(fact) => {
                    let (Fact::Waits { session, .. }
                    | Fact::Holds { session, .. }
                    | Fact::Gone { session, .. }) = &fact;
                    let scope =
                        self.seats.get(*session).map_or_else(Scope::default, |it| it.scope());
                    let mut graph = crate::lock(graph);
                    work.victims.extend(graph.handle_in(scope, fact));
                    work.is_searching |= graph.is_searching();
                }
                TableOutput::Recovered { former, by, groups } => {
                    work.notes.push(Note::Recovered { former, by, groups });
                }
                TableOutput::Progress { session } => work.notes.push(Note::Progress { session }),
                // Groups are left to be taken again by this server alone.
                TableOutput::Had { .. } => {}
                TableOutput::Behind { groups, above, by } => {
                    work.notes.push(Note::Behind { groups, above, by });
                }
            }
        }
        if result.is_err() {
            self.counts.refusals += 1;
        }
        result
    }
}

impl Counts {
    pub(super) fn sent(&mut self, message: &ToNode) {
        self.messages_out += 1;
        match message {
            ToNode::Granted { .. } => self.grants += 1,
            ToNode::Queued { .. } => self.queued += 1,
            ToNode::Retry { .. } => self.retries += 1,
            ToNode::Refused { .. } => self.refusals += 1,
            _ => {}
        }
    }
}
