//! What the tables and the registry say to a session: as replies to the commands that wait for it,
//! and as events to those who listen.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use lockspan_protocol::{Handoff, Record, Seq, SessionRefusal, Term, ToNode, ToServer};
use lockspan_wire::{CommandError, ErrorCode, Event, Value, Wait, reply};

use super::super::lock::LockGranted;
use super::super::patience::{Patience, PatienceKey};
use super::super::places::Place;
use super::super::work::Work;
use super::{Inner, Seat};
use crate::net::outbox::Slot;

impl Seat {
    /// A command waits for the session to be open.
    pub(in crate::service) fn await_open(&self, slot: Slot) {
        self.lock().opens.push(slot);
    }

    /// What is said later, if then: that a node waits. Commands and those who are to acquire again
    /// hear it at once.
    pub(in crate::service) fn put_off(self: &Arc<Self>, message: &ToNode) -> Option<Place> {
        let ToNode::Queued { record, seq, .. } = message else { return None };
        let waits = self.handoff == Handoff::Direct && self.asked(record, *seq) == 0;
        waits.then(|| Place { seat: Arc::clone(self), record: record.clone(), seq: *seq })
    }

    /// The table or the registry says something to the session.
    pub(in crate::service) fn deliver(self: &Arc<Self>, message: ToNode, work: &mut Work) {
        let mut inner = self.lock();
        let inner = &mut *inner;
        let Some(message) = self.reply(inner, message, work) else { return };
        inner.listeners.tell(self.id, &Event::Node(message), |_| false, &mut work.dirty);
    }

    /// The session is open, and so much of its lease is left, which is less than all of it if it
    /// was open before. A command that waits for it has its reply; others hear of it as an event.
    pub(in crate::service) fn opened(
        self: &Arc<Self>,
        terms: Vec<Term>,
        left: Duration,
        work: &mut Work,
    ) {
        let mut inner = self.lock();
        let asks = std::mem::take(&mut inner.lock_opens);
        if inner.lock.is_unlocked {
            let value = lock_ended();
            asks.into_iter().for_each(|ask| ask.slot.fill(&value, &mut work.dirty));
            work.over.push(Arc::clone(self));
        } else {
            work.locks.extend(asks.into_iter().map(|ask| (Arc::clone(self), ask)));
        }
        let value = reply::opened((self.id, self.public), left.min(self.ttl), self.handoff, &terms);
        let slots = std::mem::take(&mut inner.opens);
        let answered: BTreeSet<_> = slots.iter().map(Slot::connection).collect();
        let event = Event::Node(ToNode::Opened { terms });
        let is_answered = |id| answered.contains(&id);
        inner.listeners.tell(self.id, &event, is_answered, &mut work.dirty);
        slots.into_iter().for_each(|slot| slot.fill(&value, &mut work.dirty));
    }

    /// Its commands hear that there is no such session, or no such lock.
    pub(in crate::service) fn fail(&self, work: &mut Work) {
        let is_lock = self.lock().lock.is_one();
        if is_lock {
            self.answer_all(&lock_ended(), work);
        }
        self.answer_all(&CommandError::from(&SessionRefusal::Unknown).into(), work);
    }

    /// What is left of a message when the commands that wait for it have been answered.
    fn reply(
        self: &Arc<Self>,
        inner: &mut Inner,
        message: ToNode,
        work: &mut Work,
    ) -> Option<ToNode> {
        match message {
            ToNode::Revoke { ref record, seq, .. } => self.report(inner, record, seq, work),
            ToNode::Granted { ref record, seq, .. }
                if inner.lock.is_one() && !inner.lock.is_told && !inner.is_asked(record, seq) =>
            {
                // The commands that waited are gone, and so are their connections.
                let asks = inner.asks.take(record, seq).unwrap_or_default();
                if asks.iter().any(|ask| ask.lock.is_some_and(|lock| !lock.brought)) {
                    work.over.push(Arc::clone(self));
                } else {
                    work.passed.push((Arc::clone(self), record.clone(), seq));
                }
                work.patience_over.extend(asks.into_iter().filter_map(|ask| ask.timer));
                return None;
            }
            _ if inner.asks.is_empty() => {}
            ToNode::Granted { ref record, seq, mode, token, give_back } => {
                if let Some(asks) = inner.asks.take(record, seq) {
                    let value = reply::granted(seq, mode, token, give_back);
                    let owners = asks.iter().find(|ask| !ask.owners.is_empty());
                    if let Some(owners) = owners.map(|ask| ask.owners.clone()) {
                        inner.owners.insert((record.clone(), seq), owners);
                        if give_back.is_some() {
                            self.report(inner, record, seq, work);
                        }
                    }
                    for ask in asks {
                        match ask.lock {
                            Some(tag) => {
                                inner.lock.is_told = true;
                                work.patience_over.extend(ask.timer);
                                let (seat, slot) = (Arc::clone(self), ask.slot);
                                let record = record.clone();
                                let granted = LockGranted { seat, slot, tag, record, mode, token };
                                work.granted.push(granted);
                            }
                            None => ask.answer(&value, work),
                        }
                    }
                    return None;
                }
            }
            ToNode::Refused { ref record, seq, ref why } => {
                if let Some(asks) = inner.asks.take(record, seq) {
                    let value = CommandError::from(why).into();
                    if asks.iter().any(|ask| ask.lock.is_some_and(|lock| !lock.brought)) {
                        work.over.push(Arc::clone(self));
                    }
                    asks.into_iter().for_each(|ask| ask.answer(&value, work));
                    return None;
                }
            }
            ToNode::Queued { ref record, seq, ticket, ahead } => {
                if inner.asks.of(record, seq).is_empty() {
                    return Some(message);
                }
                for ask in inner.asks.take_if(record, seq, |ask| ask.wait == Wait::No) {
                    let value = reply::queued(seq, ask.mode, ticket, ahead);
                    ask.answer(&value, work);
                }
                self.wait_on(inner, record, seq, work);
                return None;
            }
            ToNode::Retry { ref record, seq } => {
                if let Some(ask) = inner.asks.of(record, seq).first() {
                    work.again.push((Arc::clone(self), ask.message(record, seq)));
                    return None;
                }
            }
            ToNode::Serving(term) => self.term_began(inner, term, work),
            _ => {}
        }
        Some(message)
    }

    /// These commands wait in line: those that do so up to a moment from now on, and the lease of a
    /// lock is kept meanwhile.
    fn wait_on(self: &Arc<Self>, inner: &mut Inner, record: &Record, seq: Seq, work: &mut Work) {
        let asks = inner.asks.of_mut(record, seq);
        if asks.iter().any(|ask| ask.lock.is_some()) {
            work.vigils.push(Arc::clone(self));
        }
        for ask in asks.iter_mut().filter(|ask| ask.timer.is_none()) {
            if let Wait::Ms(span) = ask.wait {
                let (seat, record) = (Arc::clone(self), record.clone());
                let key = PatienceKey::new(crate::clock::now() + span);
                ask.timer = Some(key);
                let slot = ask.slot.clone();
                work.patience.push((key, Patience { seat, record, seq, slot }));
            }
        }
    }

    /// Somebody wants what was granted to owners that a command has named: they hold it until it
    /// is released, so the graph of waits hears of them.
    fn report(self: &Arc<Self>, inner: &Inner, record: &Record, seq: Seq, work: &mut Work) {
        if let Some(holders) = inner.owners.get(&(record.clone(), seq)) {
            let (record, holders, waits) = (record.clone(), holders.clone(), Vec::new());
            let report = ToServer::Report { record, seq, number: 1, holders, waits };
            work.again.push((Arc::clone(self), report));
        }
    }
}

impl Inner {
    /// Whether a command waits for this acquire whose connection is there.
    fn is_asked(&self, record: &Record, seq: Seq) -> bool {
        self.asks.of(record, seq).iter().any(|ask| !ask.slot.is_closed())
    }
}

/// What an `LS.LOCK` hears that waits for a lock which is over.
fn lock_ended() -> Value {
    let text = "the lock was unlocked, or its lease expired, while this command waited for it";
    Value::error(ErrorCode::NoSession, text)
}
