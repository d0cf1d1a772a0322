//! What an operator may do to sessions and records. Neither breaks a promise: a client that was
//! granted something has it until it gives it back or its lease is over.

use std::sync::Arc;
use std::time::Duration;

use lockspan_protocol::{
    Annotation, Client, Handoff, Mode, Record, Seq, SessionId, SessionRefusal, ToServer,
};
use lockspan_wire::{CommandError, PublicId};
use tokio::time::Instant;

use super::{Service, Work};
use crate::audit::AUDIT;
use crate::net::Shared;
use crate::readable::readable;

/// How long a record is asked for, unless the operator says otherwise.
const ASKED_FOR: Duration = Duration::from_secs(30);

/// How often it is looked whether a record was given back.
const GLANCE: Duration = Duration::from_millis(20);

impl Service {
    /// The session is extended no more, and whoever listens for it is told at once that it is over.
    /// What it holds is free when its lease is. Tells how much of that is left.
    fn retire(&self, session: SessionId, work: &mut Work) -> Result<Duration, SessionRefusal> {
        self.with_desk(work, |desk, now| {
            desk.registry.retire(session, &mut desk.out)?;
            if let Some(seat) = desk.seats.get(&session) {
                seat.end_by_operator();
            }
            let end = desk.registry.lease_end(session).unwrap_or(now);
            Ok(end.since(now))
        })
    }

    /// Ends a session for an operator who may do so, and leaves a line in the log. How much of its
    /// lease is left, or why nothing was done.
    pub(crate) fn end_session(
        &self,
        user: &str,
        id: PublicId,
        work: &mut Work,
    ) -> Result<Duration, CommandError> {
        let session = self.session_of(id)?;
        let label = self.who(session).label;
        let left = self.retire(session, work).map_err(|why| CommandError::from(&why))?;
        tracing::warn!(
            target: AUDIT,
            user = %user,
            session = %id,
            label = label.as_ref().map_or("-", Annotation::as_str),
            "audit: session ended by operator; it expires in {left:.1?}"
        );
        Ok(left)
    }

    /// Asks for a record as a writer does, in a session of its own, and gives it back when it is
    /// granted. False if it was not, for so long.
    pub(crate) async fn take_back(&self, id: SessionId, record: Record, most: Duration) -> bool {
        let ttl = self.limits.ttl_max;
        let deadline = Instant::now() + most.min(ttl);
        let mut work = Work::default();
        let wish = (ttl, Handoff::Direct, Client::Stranger);
        let opened = self.open(id, wish, None, |_| (), &mut work);
        self.done(&mut work);
        let Ok(seat) = opened else { return false };
        if let Some(label) = Annotation::fitted("take-back by an operator") {
            seat.set_label(label);
        }
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

    /// Begins to take a record back, for an operator who may do so. It goes on by itself, and its
    /// end is in the log. How long the holders are asked, or why nothing was done.
    pub(crate) fn begin_taking_back(
        shared: &Arc<Shared>,
        user: &str,
        record: Record,
        wait: Option<Duration>,
    ) -> Result<Duration, String> {
        let service = &shared.service;
        let Some(view) = service.look(&record, 1) else {
            return Err("no session holds this record".to_owned());
        };
        if view.waiters.len() + view.more_waiters > 0 {
            return Err(
                "other sessions already wait for this record, so its holder has been asked to \
                 release it. If it does not, end its session"
                    .to_owned(),
            );
        }
        let drawn =
            getrandom::u64().map_err(|why| format!("the system has no random numbers: {why}"))?;
        let most = wait.unwrap_or(ASKED_FOR).min(service.limits.ttl_max);
        let name = readable(record.as_bytes());
        tracing::warn!(
            target: AUDIT,
            user = %user,
            record = %name,
            "audit: record taken back by operator; its holder is asked to release it within \
             {most:?}"
        );
        let shared = Arc::clone(shared);
        tokio::spawn(async move {
            let got = shared.service.take_back(SessionId(drawn), record, most).await;
            let end = if got { "was released" } else { "was not released in time" };
            tracing::info!(target: AUDIT, record = %name, "audit: the record {end}");
        });
        Ok(most)
    }

    fn done(&self, work: &mut Work) {
        self.finish(work);
        work.dirty.flush();
    }
}
