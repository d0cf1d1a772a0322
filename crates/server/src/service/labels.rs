//! What sessions call themselves, and who holds what: for people. Nothing here decides anything.

use std::collections::{HashMap, VecDeque};

use lockspan_protocol::server::table::ClaimView;
use lockspan_protocol::{Annotation, Holder, Record, Seq, SessionId, ToNode};
use lockspan_wire::reply::Who;

use super::desk::Desk;
use super::{Seat, Service};
use crate::clock;

/// Labels of ended sessions that are remembered, so that histories can name them.
const DEPARTED: usize = 4096;

/// Holders of a record that a waiter is told.
const HOLDERS: usize = 8;

/// The labels of sessions that ended lately.
#[derive(Debug, Default)]
pub(super) struct Departed {
    labels: HashMap<SessionId, Annotation>,
    /// The longest gone first.
    order: VecDeque<SessionId>,
}

impl Departed {
    pub(super) fn add(&mut self, session: SessionId, label: Annotation) {
        if self.labels.insert(session, label).is_none() {
            self.order.push_back(session);
        }
        if self.order.len() > DEPARTED
            && let Some(first) = self.order.pop_front()
        {
            self.labels.remove(&first);
        }
    }
}

impl Desk {
    /// What a session calls itself, or called itself before it ended.
    fn label(&self, session: SessionId) -> Option<Annotation> {
        let seat = self.seats.get(&session).and_then(|seat| seat.label());
        seat.or_else(|| self.departed.labels.get(&session).cloned())
    }
}

impl Service {
    /// What others than its owner see of a session.
    pub(crate) fn who(&self, session: SessionId) -> Who {
        self.who_at(&crate::lock(&self.desk), session)
    }

    /// The same, with the desk locked.
    pub(super) fn who_at(&self, desk: &Desk, session: SessionId) -> Who {
        Who { id: self.public(session), label: desk.label(session) }
    }

    /// The answer to a waiter that asks who holds the record: nothing, if it does not wait. Whom it
    /// may not `inspect` it is not told.
    pub(crate) fn held_by(
        &self,
        seat: &Seat,
        record: Record,
        seq: Seq,
        may_inspect: bool,
    ) -> Option<ToNode> {
        let shard = crate::lock(&self.shards[self.shard_of(record.group())]);
        let ahead = shard.table.ahead_of(seat.id, &record, seq)?;
        let view = shard.table.look(&record, HOLDERS)?;
        drop(shard);
        let now = clock::now();
        let desk = crate::lock(&self.desk);
        let holder = |claim: &ClaimView| {
            let who = self.who_at(&desk, claim.session);
            let label = who.label.or_else(|| Annotation::fitted(&who.id.to_string()))?;
            let held = now.since(claim.since);
            Some(Holder { label, note: claim.note.clone(), mode: claim.mode, held })
        };
        let others = view.holders.iter().filter(|claim| claim.session != seat.id);
        let holders = others.filter(|_| may_inspect).filter_map(holder).collect();
        Some(ToNode::HeldBy { record, seq, ahead, holders })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_ended_sessions_the_last_are_remembered() {
        let mut departed = Departed::default();
        let label: Annotation = "a".parse().unwrap();
        for session in 0..DEPARTED as u64 + 2 {
            departed.add(SessionId(session), label.clone());
            departed.add(SessionId(session), label.clone());
        }
        assert_eq!((departed.labels.len(), departed.order.len()), (DEPARTED, DEPARTED));
        assert!(!departed.labels.contains_key(&SessionId(1)));
        assert!(departed.labels.contains_key(&SessionId(2)));
    }
}
