//! Places in line that are told when a wait lasts.
//!
//! A node that is served soon needs no word about its place: the grant says all. So `Queued` is
//! kept back for a while, and not sent if the wait is over by then, which leaves three messages to
//! a hand-over. It is the same to a node as a `Queued` that is lost. What it may miss is its place
//! if the server is killed before it was told: then it gets in line again, behind those that were.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockspan_protocol::{Record, Seq, Tick, ToNode};

use super::seat::Seat;
use super::timer::DUE_AT_ONCE;
use super::{Service, Work};

/// So long a wait has to last until its place is told.
const LASTING: Duration = Duration::from_millis(10);

/// An acquire that waits, and was not told so.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) seat: Arc<Seat>,
    pub(super) record: Record,
    pub(super) seq: Seq,
}

/// All of them, in the order in which they are told.
#[derive(Debug, Default)]
pub(super) struct Places(Mutex<VecDeque<(Tick, Place)>>);

impl Places {
    pub(super) fn next_deadline(&self) -> Option<Tick> {
        crate::lock(&self.0).front().map(|&(at, _)| at)
    }

    /// They wait since now.
    pub(super) fn add(&self, now: Tick, places: &mut Vec<Place>) {
        crate::lock(&self.0).extend(places.drain(..).map(|place| (now + LASTING, place)));
    }

    /// Those whose time has come, as many as are told at a time.
    fn due(&self, now: Tick) -> Vec<Place> {
        let mut all = crate::lock(&self.0);
        let due = all.iter().take(DUE_AT_ONCE).take_while(|(at, _)| *at <= now).count();
        all.drain(..due).map(|(_, place)| place).collect()
    }
}

impl Service {
    /// Tells those whose wait lasts, if they still wait: up to [`DUE_AT_ONCE`] of them.
    pub(super) fn tell_places(&self, now: Tick, work: &mut Work) {
        for Place { seat, record, seq } in self.places.due(now) {
            let shard = self.shard_of(record.group());
            self.with_shard(shard, work, |shard, _, work| {
                let waiting = shard.table.look_own(seat.id, &record).1;
                let ticket = waiting.filter(|claim| claim.seq == seq).and_then(|it| it.ticket);
                let ahead = shard.table.ahead_of(seat.id, &record, seq);
                if let Some((ticket, ahead)) = ticket.zip(ahead) {
                    let message = ToNode::Queued { record, seq, ticket, ahead };
                    shard.counts.sent(&message);
                    seat.deliver(message, work);
                }
            });
        }
    }
}
