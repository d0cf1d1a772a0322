//! A whole server for one thread: the registry, the tables and the graph, put together.
//!
//! Call [`LockServer::handle`] with every input, then do all it put in `out`, in order; call it
//! with [`Input::Tick`] no later than [`LockServer::next_deadline`]. `now` never goes back. A
//! refused input has changed nothing; [`reply_to`] says what to answer to a refused message.

use std::collections::{BTreeSet, VecDeque};

use super::graph::{SEARCH_PAUSE, Victim, WaitGraph};
use super::registry::{Recovering, Registry, RegistryOutput, SessionView, ToTables};
use super::table::{LockTable, TableInput, TableOutput};
use super::{Input, Output};
use crate::bugs::Bug;
use crate::ids::{Seq, SessionId, StoreId};
use crate::limits::Limits;
use crate::messages::{Client, Term, ToNode, ToServer};
use crate::record::Record;
use crate::refusal::{AcquireRefusal, ReassertRefusal, Refusal, SessionRefusal};
use crate::slot::{Group, GroupSet};
use crate::time::Tick;

use super::table::{RecordState, RecordView};

/// The server side of the protocol.
#[derive(Clone, Debug)]
pub struct LockServer {
    registry: Registry,
    tables: Vec<LockTable>,
    graph: WaitGraph,
    /// When to go on with the search for deadlocks.
    search_at: Option<Tick>,
    own_until: Option<Tick>,
    /// Writes that became durable while the server rested.
    stored_late: Vec<StoreId>,
    limits: Limits,
    /// It rested when it was called last.
    rests: bool,
    from_registry: VecDeque<RegistryOutput>,
    /// Sessions that had something in groups that are being left.
    concerned: BTreeSet<SessionId>,
    from_tables: Vec<TableOutput>,
    /// An empty buffer, to be used again.
    spare: Vec<TableOutput>,
}

impl LockServer {
    /// A server that serves nothing yet, with this many tables. `key` should be drawn at random,
    /// see [`LockTable::new`].
    #[must_use]
    pub fn new(limits: Limits, tables: usize, key: u64) -> Self {
        assert!((1..=256).contains(&tables), "a server has 1 to 256 tables");
        let shard = |table: usize| -> GroupSet {
            (0..=u8::MAX)
                .map(Group)
                .filter(|group| usize::from(group.0) % tables == table)
                .collect()
        };
        Self {
            registry: Registry::new(limits.clone(), (0..tables).map(shard).collect()),
            tables: (0..tables).map(|_| LockTable::new(limits.clone(), key)).collect(),
            graph: WaitGraph::new(limits.search_steps),
            search_at: None,
            own_until: None,
            stored_late: Vec::new(),
            limits,
            rests: false,
            from_registry: VecDeque::new(),
            concerned: BTreeSet::new(),
            from_tables: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// One step.
    pub fn handle(
        &mut self,
        now: Tick,
        input: Input,
        out: &mut Vec<Output>,
    ) -> Result<(), Refusal> {
        if let Input::Own { until } = input {
            self.own_until = until;
        }
        self.rests = self.is_resting(now);
        if self.rests {
            return self.handle_resting(now, input, out);
        }
        self.registry.expire(now, &mut self.from_registry);
        for store in std::mem::take(&mut self.stored_late) {
            // It was under way when it came; if it is not any more, its groups were left.
            let _ = self.registry.stored(now, store, &mut self.from_registry);
        }
        for table in &mut self.tables {
            if table.next_deadline().is_some_and(|tick| tick <= now) {
                table.handle(now, TableInput::Tick, &mut self.from_tables)?;
            }
        }
        if self.search_at.is_some_and(|at| at <= now) {
            let victims = self.graph.search_on();
            self.refuse(now, victims);
            self.search_at = self.graph.is_searching().then(|| now + SEARCH_PAUSE);
        }
        self.settle(now, out);
        let result = self.step(now, input, out);
        self.settle(now, out);
        result
    }

    /// Past its own lease the server decides nothing; it only remembers what became durable.
    fn handle_resting(
        &mut self,
        now: Tick,
        input: Input,
        out: &mut Vec<Output>,
    ) -> Result<(), Refusal> {
        match input {
            Input::Own { .. } | Input::Tick => {}
            Input::Leave { groups } => self.leave(now, groups, out),
            Input::Stored { store } => self.stored_late.push(store),
            // A term begins when its epoch is durable, and the server rests no more.
            Input::Take { groups, above, listed } => {
                let out = &mut self.from_registry;
                self.registry.take(now, groups, above, listed, out).map_err(Refusal::Term)?;
            }
            Input::Message { .. } | Input::Admit { .. } | Input::Retire { .. } => {
                return Err(Refusal::Session(SessionRefusal::Resting));
            }
        }
        self.settle(now, out);
        Ok(())
    }

    /// When to call again with [`Input::Tick`] at the latest.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Tick> {
        let tables = self.tables.iter().filter_map(LockTable::next_deadline);
        let next = tables.chain(self.registry.next_deadline()).chain(self.search_at).min()?;
        let over = self.own_until.is_some_and(|until| next >= until);
        (!over && !self.rests).then_some(next)
    }

    /// Whether the server's own lease is over.
    #[must_use]
    pub fn is_resting(&self, now: Tick) -> bool {
        self.own_until.is_some_and(|until| now >= until) && !self.limits.bugs.has(Bug::ZombieServes)
    }

    fn step(&mut self, now: Tick, input: Input, sent: &mut Vec<Output>) -> Result<(), Refusal> {
        let out = &mut self.from_registry;
        match input {
            Input::Message { session, message } => match message {
                ToServer::Open { ttl, handoff } => {
                    let wish = (ttl, handoff, Client::Node);
                    self.registry.open(now, session, wish, out).map_err(Refusal::Session)
                }
                ToServer::KeepAlive { number } => {
                    self.registry.keep_alive(now, session, number, out).map_err(Refusal::Session)
                }
                ToServer::Close => self.registry.close(session, out).map_err(Refusal::Session),
                message => self.pass_on(now, session, message),
            },
            Input::Admit { session, ttl, handoff } => {
                let wish = (ttl, handoff, Client::Stranger);
                self.registry.open(now, session, wish, out).map_err(Refusal::Session)
            }
            Input::Take { groups, above, listed } => {
                self.registry.take(now, groups, above, listed, out).map_err(Refusal::Term)
            }
            Input::Stored { store } => self.registry.stored(now, store, out).map_err(Refusal::Term),
            Input::Retire { session } => {
                self.registry.retire(session, out).map_err(Refusal::Session)
            }
            Input::Leave { groups } => {
                self.leave(now, groups, sent);
                Ok(())
            }
            Input::Own { .. } | Input::Tick => Ok(()),
        }
    }

    /// A message about a record, or about the groups of one table.
    fn pass_on(&mut self, now: Tick, session: SessionId, message: ToServer) -> Result<(), Refusal> {
        // The one thing that is said as a session of another server.
        if !matches!(message, ToServer::Nothing { .. }) {
            self.registry.check_open(session).map_err(Refusal::Session)?;
        }
        match &message {
            ToServer::Reasserted { groups, .. } => {
                self.registry.check_reasserted(now, session, *groups).map_err(Refusal::Reassert)?;
            }
            ToServer::Nothing { groups, .. } => {
                self.registry.check_nothing(now, session, *groups).map_err(Refusal::Reassert)?;
            }
            _ => {}
        }
        let Some(group) = group_of(&message) else { return Ok(()) };
        let table = self.table_of(group);
        let input = TableInput::Message { session, message };
        self.tables[table].handle(now, input, &mut self.from_tables)
    }

    fn table_of(&self, group: Group) -> usize {
        usize::from(group.0) % self.tables.len()
    }

    /// Passes what the parts have to say to each other, until they have nothing more to say. What
    /// the tables said goes out before what the registry says next.
    fn settle(&mut self, now: Tick, out: &mut Vec<Output>) {
        loop {
            while !self.from_tables.is_empty() {
                let mut said =
                    std::mem::replace(&mut self.from_tables, std::mem::take(&mut self.spare));
                for said in said.drain(..) {
                    self.table_said(now, said, out);
                }
                self.spare = said;
            }
            match self.from_registry.pop_front() {
                None => return,
                Some(RegistryOutput::Out(output)) => out.push(output),
                Some(RegistryOutput::Tables(said)) => self.tell_tables(now, said),
            }
        }
    }

    fn table_said(&mut self, now: Tick, said: TableOutput, out: &mut Vec<Output>) {
        match said {
            TableOutput::Send { session, message } => out.push(Output::Send { session, message }),
            TableOutput::Recovered { former, by, groups } => {
                self.registry.recovered(former, by, groups, &mut self.from_registry);
            }
            TableOutput::Progress { session } => self.registry.progressed(session),
            TableOutput::Had { session } => {
                self.concerned.insert(session);
            }
            TableOutput::Fact(fact) => {
                let victims = self.graph.handle(fact);
                self.refuse(now, victims);
                if self.graph.is_searching() {
                    self.search_at.get_or_insert(now + SEARCH_PAUSE);
                }
            }
            TableOutput::Behind { groups, above, .. } => {
                self.registry.leave(groups);
                self.tell_all(now, &TableInput::Leave { groups });
                out.push(Output::Behind { groups, above });
            }
        }
    }

    /// The graph has found deadlocks.
    fn refuse(&mut self, now: Tick, victims: Vec<Victim>) {
        for Victim { session, seq, record, cycle } in victims {
            let table = self.table_of(record.group());
            self.tell(now, table, TableInput::Refuse { session, record, seq, cycle });
        }
    }

    fn tell_tables(&mut self, now: Tick, said: ToTables) {
        match said {
            ToTables::Began { session, handoff } => {
                self.tell_all(now, &TableInput::Began { session, handoff, user: None });
            }
            ToTables::Ended { session } => self.tell_all(now, &TableInput::Ended { session }),
            ToTables::FormerOver { former, groups } => {
                self.tell_all(now, &TableInput::FormerOver { former, groups });
            }
            ToTables::Begin { term, listed, formers } => {
                let group = term.groups.iter().next().expect("a term has groups");
                self.tell(now, self.table_of(group), TableInput::Begin { term, listed, formers });
            }
        }
    }

    fn tell_all(&mut self, now: Tick, input: &TableInput) {
        for table in 0..self.tables.len() {
            self.tell(now, table, input.clone());
        }
    }

    fn tell(&mut self, now: Tick, table: usize, input: TableInput) {
        let told = self.tables[table].handle(now, input, &mut self.from_tables);
        told.expect("a table refuses nothing but messages");
    }

    fn leave(&mut self, now: Tick, groups: GroupSet, out: &mut Vec<Output>) {
        let unheard = self.registry.leave(groups);
        self.concerned = unheard;
        self.tell_all(now, &TableInput::Leave { groups });
        // Whom the tables name, before anything else is told.
        self.settle(now, out);
        let concerned = std::mem::take(&mut self.concerned);
        self.registry.hand_on(groups, &concerned, &mut self.from_registry);
        self.settle(now, out);
    }

    /// Number of sessions, in whatever state.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.registry.len()
    }

    /// Number of sessions of other servers that are listed here, those included that were heard.
    #[must_use]
    pub fn formers(&self) -> usize {
        self.registry.formers()
    }

    /// The sessions that are open with this server.
    pub fn open_sessions(&self) -> impl Iterator<Item = SessionView> {
        self.registry.open_sessions()
    }

    /// Number of records that somebody holds or waits for.
    #[must_use]
    pub fn records(&self) -> usize {
        self.tables.iter().map(LockTable::records).sum()
    }

    /// Number of grants and waits.
    #[must_use]
    pub fn claims(&self) -> usize {
        self.tables.iter().map(LockTable::claims).sum()
    }

    /// What is served.
    #[must_use]
    pub fn terms(&self) -> &[Term] {
        self.registry.terms()
    }

    /// Whether some term still waits for re-assertions.
    #[must_use]
    pub fn is_recovering(&self) -> bool {
        self.tables.iter().any(LockTable::is_recovering)
    }

    /// For which sessions it waits, and until when; none if it does not recover.
    #[must_use]
    pub fn recovering(&self) -> Option<Recovering> {
        self.registry.recovering()
    }

    /// Whether nobody waits for or is reported to hold anything, as far as owners are named.
    #[must_use]
    pub fn graph_is_empty(&self) -> bool {
        self.graph.is_empty()
    }

    /// The state of one record.
    #[must_use]
    pub fn state(&self, record: &Record) -> RecordState {
        self.tables[self.table_of(record.group())].state(record)
    }

    /// One record with at most so many of its claims, if somebody holds it or waits for it.
    #[must_use]
    pub fn look(&self, record: &Record, claims: usize) -> Option<RecordView> {
        self.tables[self.table_of(record.group())].look(record, claims)
    }

    /// How many are in line before a waiter; `None` if the session does not wait with this seq.
    #[must_use]
    pub fn ahead_of(&self, session: SessionId, record: &Record, seq: Seq) -> Option<u32> {
        self.tables[self.table_of(record.group())].ahead_of(session, record, seq)
    }

    /// All records of all tables, by name within each.
    #[must_use]
    pub fn views(&self) -> Vec<RecordView> {
        self.tables.iter().flat_map(LockTable::views).collect()
    }

    /// Panics if an invariant of a table does not hold. For tests: it looks at everything.
    pub fn check(&self) {
        self.tables.iter().for_each(LockTable::check);
    }
}

/// The group by which a message finds its table.
fn group_of(message: &ToServer) -> Option<Group> {
    match message {
        ToServer::Acquire { record, .. }
        | ToServer::Release { record, .. }
        | ToServer::Cancel { record, .. }
        | ToServer::Report { record, .. }
        | ToServer::Note { record, .. }
        | ToServer::Reassert { record, .. } => Some(record.group()),
        ToServer::Page { groups, .. }
        | ToServer::Nothing { groups, .. }
        | ToServer::Reasserted { groups, .. } => groups.iter().next(),
        // Labels, and who holds what, are for people: a driver that has any answers these itself.
        ToServer::Open { .. }
        | ToServer::KeepAlive { .. }
        | ToServer::Close
        | ToServer::Label { .. }
        | ToServer::WhoHolds { .. } => None,
    }
}

/// What to tell the node whose message was refused.
#[must_use]
pub fn reply_to(message: &ToServer, refusal: &Refusal) -> Option<ToNode> {
    match (message, refusal) {
        (_, Refusal::Session(SessionRefusal::Unknown)) => Some(ToNode::NoSession),
        (ToServer::Acquire { record, seq, .. }, Refusal::Acquire(why)) => {
            Some(ToNode::Refused { record: record.clone(), seq: *seq, why: why.clone() })
        }
        (
            ToServer::Reassert { record, former, epoch, .. },
            Refusal::Reassert(ReassertRefusal::NotListed | ReassertRefusal::Claimed),
        ) => {
            let groups = GroupSet::from_iter([record.group()]);
            Some(ToNode::Unlisted { term: Term { groups, epoch: *epoch }, former: *former })
        }
        (
            ToServer::Page { groups, epoch, former, .. }
            | ToServer::Reasserted { groups, epoch, former, .. },
            Refusal::Reassert(ReassertRefusal::NotListed | ReassertRefusal::Claimed),
        ) => {
            let term = Term { groups: *groups, epoch: *epoch };
            Some(ToNode::Unlisted { term, former: *former })
        }
        (
            ToServer::Reassert { record, seq, .. },
            Refusal::Reassert(ReassertRefusal::NotServed(why)),
        ) => {
            let why = AcquireRefusal::NotServed(*why);
            Some(ToNode::Refused { record: record.clone(), seq: *seq, why })
        }
        // It had told nothing yet when they were left, so it was not told that they were.
        (
            ToServer::Page { groups, .. } | ToServer::Reasserted { groups, .. },
            Refusal::Reassert(ReassertRefusal::Left(_)),
        ) => Some(ToNode::Moved { groups: *groups }),
        _ => None,
    }
}
