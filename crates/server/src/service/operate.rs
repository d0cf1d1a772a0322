//! What an operator may do to sessions and records. Neither breaks a promise: a client that was
//! granted something has it until it gives it back or its lease is over.

use std::time::Duration;

use lockspan_protocol::{Handoff, Mode, Record, Seq, SessionId, SessionRefusal, ToServer};
use tokio::time::Instant;

use super::{Service, Work};

/// How often it is looked whether a record was given back.
const GLANCE: Duration = Duration::from_millis(20);

impl Service {
    /// The session is extended no more, and whoever listens for it is told at once that it is over.
    /// What it holds is free when its lease is. Tells how much of that is left.
    pub(crate) fn retire(
        &self,
        session: SessionId,
        work: &mut Work,
    ) -> Result<Duration, SessionRefusal> {
        self.with_desk(work, |desk, now| {
            desk.registry.retire(session, &mut desk.out)?;
            if let Some(seat) = desk.seats.get(&session) {
                seat.end_by_operator();
            }
            let end = desk.registry.lease_end(session).unwrap_or(now);
            Ok(end.since(now))
        })
    }

    /// Asks for a record as a writer does, in a session of its own, and gives it back when it is
    /// granted. False if it was not, for so long.
    pub(crate) async fn take_back(&self, id: SessionId, record: Record, most: Duration) -> bool {
        let ttl = self.limits.ttl_max;
        let deadline = Instant::now() + most.min(ttl);
        let mut work = Work::default();
        let opened = self.open(id, ttl, Handoff::Direct, None, |_| (), &mut work);
        self.done(&mut work);
        let Ok(seat) = opened else { return false };
        let mut asked = false;
        let mut got = false;
        while !got && Instant::now() < deadline && !self.is_halted() {
            if !asked
                && seat.is_open()
                && let Some(epoch) = self.epoch_of(&record)
            {
                let message = ToServer::Acquire {
                    record: record.clone(),
                    mode: Mode::Write,
                    seq: Seq(1),
                    epoch,
                    upgrade: false,
                    owners: Vec::new(),
                };
                asked = self.tell_table(&seat, message, &mut work).is_ok();
                self.done(&mut work);
            }
            let shard = &self.shards[self.shard_of(record.group())];
            let (holding, _) = crate::lock(shard).table.look_own(id, &record);
            got = holding.is_some_and(|claim| claim.token.is_some());
            if !got {
                tokio::time::sleep(GLANCE).await;
            }
        }
        // It ends with all that is in it; if it can't be closed, it is over.
        let _ = self.close(id, &mut work);
        self.done(&mut work);
        got
    }

    fn done(&self, work: &mut Work) {
        self.finish(work);
        work.dirty.flush();
    }
}
