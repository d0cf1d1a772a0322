//! `memory:`, the whole service inside this process: the same tables, with no bytes in between.
//!
//! There is one for each name, from the first connection to the last. Nothing of it is durable, and
//! nothing needs to be: it ends with everybody who could hold something. A child of a fork begins
//! with none: what its parent has is a copy there, whose nodes are lost.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use lockspan_park::fork::ProcessLocal;
use lockspan_protocol::server::table::ClaimView;
use lockspan_protocol::server::{Input, Listed, Output, reply_to};
use lockspan_protocol::{
    Annotation, Epoch, GroupSet, Holder, Limits, LockServer, Record as Name, Refusal, Seq,
    SessionId, Tick, ToNode, ToServer,
};
use lockspan_wire::Event;

use crate::clock;
use crate::entry::lock;
use crate::node::Node;

/// Holders of a record that a waiter is told.
const HOLDERS: usize = 8;

/// Tables of a service. It is one lock for all of them, so more would serve nobody.
const TABLES: usize = 1;

static SERVICES: ProcessLocal<Mutex<BTreeMap<String, Weak<Service>>>> = ProcessLocal::new();

/// A service.
#[derive(Debug)]
struct Service {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    server: LockServer,
    seats: BTreeMap<SessionId, Weak<Inbox>>,
    /// What sessions call themselves.
    labels: BTreeMap<SessionId, Annotation>,
    out: Vec<Output>,
}

/// What a node was told and has not heard yet.
#[derive(Debug, Default)]
struct Inbox {
    events: Mutex<VecDeque<(SessionId, Event)>>,
    /// Rung when there is something, with the bell of the node's background task.
    node: Mutex<Weak<Node>>,
}

/// A node's end of the way.
#[derive(Debug)]
pub(crate) struct Seat {
    service: Arc<Service>,
    inbox: Arc<Inbox>,
    waiting: Mutex<Vec<(SessionId, ToServer)>>,
}

impl Seat {
    /// Takes a seat at the service of this name; it is begun if there is none.
    pub(crate) fn take(name: &str) -> Self {
        let mut services = lock(SERVICES.get_or_init(Mutex::default));
        services.retain(|_, service| service.strong_count() > 0);
        let service = services.get(name).and_then(Weak::upgrade).unwrap_or_else(|| {
            let service = Arc::new(Service::begin());
            services.insert(name.to_owned(), Arc::downgrade(&service));
            service
        });
        Self { service, inbox: Arc::default(), waiting: Mutex::default() }
    }

    /// Whose background task is to be woken.
    pub(crate) fn belongs_to(&self, node: &Arc<Node>) {
        *lock(&self.inbox.node) = Arc::downgrade(node);
    }

    pub(crate) fn put(&self, session: SessionId, message: ToServer) {
        lock(&self.waiting).push((session, message));
    }

    /// Tells the service what was put, and the node what it answers, until neither has more to say.
    pub(crate) fn flush(&self, node: &Node) {
        loop {
            let waiting = std::mem::take(&mut *lock(&self.waiting));
            if !waiting.is_empty() {
                self.service.tell(waiting, &self.inbox);
            }
            let heard = std::mem::take(&mut *lock(&self.inbox.events));
            if heard.is_empty() && lock(&self.waiting).is_empty() {
                return;
            }
            node.hear_quietly(heard);
        }
    }

    /// Time has passed; returns when to look again.
    pub(crate) fn tick(&self) -> Option<Tick> {
        self.service.step(Vec::new(), &self.inbox)
    }
}

impl Service {
    fn begin() -> Self {
        let mut key = [0; 8];
        // Without randomness, names could be chosen that collide; in one's own process nobody does.
        let _ = getrandom::fill(&mut key);
        let server = LockServer::new(Limits::default(), TABLES, u64::from_ne_bytes(key));
        let (seats, labels) = (BTreeMap::new(), BTreeMap::new());
        let mut inner = Inner { server, seats, labels, out: Vec::new() };
        let take =
            Input::Take { groups: GroupSet::ALL, above: Epoch::default(), listed: Vec::new() };
        inner.handle(take, &mut Vec::new()).expect("a new server serves nothing yet");
        Self { inner: Mutex::new(inner) }
    }

    fn tell(&self, messages: Vec<(SessionId, ToServer)>, from: &Arc<Inbox>) {
        self.step(messages, from);
    }

    fn step(&self, messages: Vec<(SessionId, ToServer)>, from: &Arc<Inbox>) -> Option<Tick> {
        let mut bells: Vec<Arc<Inbox>> = Vec::new();
        let next = {
            let mut inner = lock(&self.inner);
            for (session, message) in messages {
                if matches!(message, ToServer::Open { .. }) {
                    inner.seats.insert(session, Arc::downgrade(from));
                }
                inner.message(session, message, &mut bells);
            }
            // Time is never refused.
            let _ = inner.handle(Input::Tick, &mut bells);
            inner.server.next_deadline()
        };
        for inbox in bells {
            // Whoever has put something hears its answers itself.
            if !Arc::ptr_eq(&inbox, from)
                && let Some(node) = lock(&inbox.node).upgrade()
            {
                node.bell.notify_one();
            }
        }
        next
    }
}

impl Inner {
    fn message(&mut self, session: SessionId, message: ToServer, bells: &mut Vec<Arc<Inbox>>) {
        match message {
            ToServer::Label { label } => {
                self.labels.insert(session, label);
                return;
            }
            ToServer::WhoHolds { record, seq } => {
                if let Some(answer) = self.held_by(session, record, seq) {
                    self.send(session, Event::Node(answer), bells);
                }
                return;
            }
            _ => {}
        }
        let said = message.clone();
        let input = Input::Message { session, message };
        let Err(refusal) = self.handle(input, bells) else { return };
        if let Some(reply) = reply_to(&said, &refusal) {
            self.send(session, Event::Node(reply), bells);
        } else if let (ToServer::Open { .. }, Refusal::Session(why)) = (&said, &refusal) {
            self.send(session, Event::NotOpened(*why), bells);
        }
    }

    /// The answer to a waiter that asks who holds the record.
    fn held_by(&self, session: SessionId, record: Name, seq: Seq) -> Option<ToNode> {
        let ahead = self.server.ahead_of(session, &record, seq)?;
        let view = self.server.look(&record, HOLDERS)?;
        let now = clock::now();
        let others = view.holders.iter().filter(|claim| claim.session != session);
        let holder = |claim: &ClaimView| {
            let (label, held) = (self.labels.get(&claim.session)?.clone(), now.since(claim.since));
            Some(Holder { label, note: claim.note.clone(), mode: claim.mode, held })
        };
        let holders = others.filter_map(holder).collect();
        Some(ToNode::HeldBy { record, seq, ahead, holders })
    }

    fn handle(&mut self, input: Input, bells: &mut Vec<Arc<Inbox>>) -> Result<(), Refusal> {
        let mut out = std::mem::take(&mut self.out);
        let handled = self.server.handle(clock::now(), input, &mut out);
        let mut later = Vec::new();
        for output in out.drain(..) {
            match output {
                Output::Send { session, message } => {
                    self.send(session, Event::Node(message), bells);
                }
                // Nothing is stored, so it is as durable as it will be.
                Output::Store { store, .. } => later.push(Input::Stored { store }),
                Output::Ended { session } => {
                    self.seats.remove(&session);
                    self.labels.remove(&session);
                }
                Output::Left { .. } | Output::Settled { .. } => {}
                // Those who are here have what they hold in these groups: they may re-assert it.
                Output::Behind { groups, above } => {
                    later.push(Input::Take { groups, above, listed: self.listed() });
                }
            }
        }
        self.out = out;
        for input in later {
            // It was the server that asked for it.
            let _ = self.handle(input, bells);
        }
        handled
    }

    /// The sessions that are open.
    fn listed(&self) -> Vec<Listed> {
        let open = self.server.open_sessions();
        let listed = open.map(|it| Listed {
            session: it.session,
            ttl: it.ttl,
            handoff: it.handoff,
            here: true,
            last: it.last,
            client: it.client,
            acts: Duration::ZERO,
        });
        listed.collect()
    }

    fn send(&mut self, session: SessionId, event: Event, bells: &mut Vec<Arc<Inbox>>) {
        let is_end = matches!(event, Event::Node(ToNode::NoSession));
        let Some(inbox) = self.seats.get(&session).and_then(Weak::upgrade) else { return };
        lock(&inbox.events).push_back((session, event));
        if !bells.iter().any(|other| Arc::ptr_eq(other, &inbox)) {
            bells.push(inbox);
        }
        if is_end {
            self.seats.remove(&session);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lockspan_protocol::{Handoff, Mode, Record};

    use super::*;

    #[test]
    fn after_a_new_term_begins_present_holders_are_not_forgotten() {
        let service = Service::begin();
        let mut inner = lock(&service.inner);
        let (holder, other) = (SessionId(1), SessionId(2));
        let record = Record::new("doc", "1").expect("a name");
        let open = ToServer::Open { ttl: Duration::from_secs(10), handoff: Handoff::Direct };
        let acquire = |epoch| ToServer::Acquire {
            record: record.clone(),
            mode: Mode::Write,
            seq: Seq(1),
            epoch: Epoch::new(epoch).expect("small"),
            upgrade: false,
            owners: Vec::new(),
        };
        for session in [holder, other] {
            inner.message(session, open.clone(), &mut Vec::new());
        }
        inner.message(holder, acquire(1), &mut Vec::new());
        assert_eq!(inner.server.claims(), 1);
        // A later epoch than the service's: it takes everything again, above.
        inner.message(other, acquire(5), &mut Vec::new());
        let waits = inner.server.recovering().map(|it| it.waiting_for);
        assert_eq!(waits, Some(vec![holder, other]), "nothing is granted before these have spoken");
    }
}
