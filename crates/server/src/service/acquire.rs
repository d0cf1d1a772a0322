//! Commands of clients that leave numbers and epochs to the server: acquire, release, convert.
//!
//! Each is a message of the protocol. The server draws its seq while the record's table is locked,
//! and the answer finds the command by it, through the session's seat.
//!
//! **Invariant:** an acquire by a command never ends what its session has at the record. A node
//! that acquires again does not use its earlier grant any more (`docs/protocol.md`, rule 3). A
//! program with several threads and one session may: one of the threads may be inside. So
//! [`check_new`] refuses every acquire of a record that the session holds or waits for, unless it
//! repeats the same seq and mode, or upgrades a read.

use std::sync::Arc;

use lockspan_protocol::server::table::ClaimView;
use lockspan_protocol::{Annotation, Mode, Owner, Record, Refusal, Seq, Tick, ToServer};
use lockspan_wire::{CommandError, ErrorCode, Value, Wait, reply};

use super::lock::LockTag;
use super::patience::Patience;
use super::seat::{Ask, Forsaken, Seat};
use super::shard::Shard;
use super::{Service, Work};
use crate::net::outbox::{Outbox, Slot};
use crate::turn::Turn;

/// Commands of one connection that may wait for their replies.
const WAITS_MAX: usize = 10_000;

/// Of the commands of a connection that has gone, so many are withdrawn at once.
const FORSAKEN: usize = 16;

/// Commands that may wait for the same acquire: each of its answers looks at all of them.
const SAME_MAX: usize = 64;

/// What `LS.ACQUIRE` asks for.
#[derive(Debug)]
pub(crate) struct Wish {
    pub(crate) record: Record,
    pub(crate) mode: Mode,
    pub(crate) wait: Wait,
    pub(crate) seq: Option<Seq>,
    pub(crate) upgrade: bool,
    pub(crate) owners: Vec<Owner>,
    /// What it is for, shown to people.
    pub(crate) note: Option<Annotation>,
}

impl Service {
    /// `LS.ACQUIRE`: the reply comes now or later, from whoever steps the table.
    pub(crate) fn acquire(
        &self,
        seat: &Arc<Seat>,
        outbox: &Arc<Outbox>,
        wish: Wish,
        work: &mut Work,
    ) -> Result<(), CommandError> {
        self.check_seat(seat, work)?;
        let shard = self.shard_of(wish.record.group());
        self.with_shard(shard, work, |shard, now, work| {
            self.ask(shard, seat, (|| next_slot(outbox), None), wish, now, work)
        })
    }

    /// `LS.CONVERT`: the grant `seq` becomes a read, or waits to become a write.
    pub(crate) fn convert(
        &self,
        seat: &Arc<Seat>,
        outbox: &Arc<Outbox>,
        (record, seq): (Record, Seq),
        (mode, wait): (Mode, Wait),
        work: &mut Work,
    ) -> Result<(), CommandError> {
        self.check_seat(seat, work)?;
        let shard = self.shard_of(record.group());
        self.with_shard(shard, work, |shard, now, work| {
            let seq = seat.present(&record, seq);
            let (holding, _) = shard.table.look_own(seat.id, &record);
            let held = holding.filter(|claim| claim.seq == seq);
            let Some((held, token)) = held.and_then(|it| it.token.map(|token| (it, token))) else {
                let text =
                    format!("the session does not hold {} with seq {}", show(&record), seq.0);
                return Err(CommandError::new(ErrorCode::NotHeld, text));
            };
            if held.mode == mode {
                let value = reply::granted(seq, mode, token, held.revoked);
                outbox.reply(&value, &mut work.dirty);
                return Ok(());
            }
            if mode == Mode::Write {
                let (seq, upgrade, owners) = (None, true, seat.owners(&record, seq));
                let wish = Wish { record, mode, wait, seq, upgrade, owners, note: held.note };
                return self.ask(shard, seat, (|| next_slot(outbox), None), wish, now, work);
            }
            let keep = seat.next_seq();
            seat.renumber(&record, seq, keep);
            let message = ToServer::Release { record: record.clone(), seq, keep: Some(keep) };
            self.say(shard, seat, message, now, work)?;
            supersede(shard, seat, &record, work);
            outbox.reply(&reply::granted(keep, mode, token, None), &mut work.dirty);
            Ok(())
        })
    }

    /// `LS.RELEASE`: whether there was something to end.
    pub(crate) fn release(
        &self,
        seat: &Arc<Seat>,
        (record, seq, keep): (Record, Seq, Option<Seq>),
        work: &mut Work,
    ) -> Result<Value, CommandError> {
        self.check_seat(seat, work)?;
        let shard = self.shard_of(record.group());
        self.with_shard(shard, work, |shard, now, work| {
            let seq = seat.present(&record, seq);
            if let Some(keep) = keep.filter(|&keep| keep <= seq) {
                let text = format!(
                    "LS.RELEASE: KEEP {} must be above seq {}; nothing was done",
                    keep.0, seq.0
                );
                return Err(CommandError::new(ErrorCode::Err, text));
            }
            seat.saw(keep.unwrap_or(seq));
            let (holding, waiting) = shard.table.look_own(seat.id, &record);
            let some = [holding, waiting].into_iter().flatten().any(|claim| claim.seq <= seq);
            let message = ToServer::Release { record: record.clone(), seq, keep };
            self.say(shard, seat, message, now, work)?;
            supersede(shard, seat, &record, work);
            Ok(reply::ended(some))
        })
    }

    /// `LS.CANCEL`: whether there was something to end. Of an upgrade the read stays, with a new
    /// number, which is the reply then.
    pub(crate) fn cancel(
        &self,
        seat: &Arc<Seat>,
        record: &Record,
        seq: Seq,
        work: &mut Work,
    ) -> Result<Value, CommandError> {
        self.check_seat(seat, work)?;
        let shard = self.shard_of(record.group());
        self.with_shard(shard, work, |shard, now, work| {
            seat.saw(seq);
            let (holding, waiting) = shard.table.look_own(seat.id, record);
            let some = [&holding, &waiting].into_iter().flatten().any(|claim| claim.seq <= seq);
            let kept = self.withdraw(shard, seat, (record, seq, false), now, work)?;
            supersede(shard, seat, record, work);
            Ok(kept.unwrap_or_else(|| reply::ended(some)))
        })
    }

    /// A connection has gone: what its commands waited for is withdrawn, some of it at a time.
    pub(crate) async fn forsake(
        &self,
        seat: &Arc<Seat>,
        outbox: &Arc<Outbox>,
        turn: &mut Turn<'_>,
    ) {
        let mut work = Work::default();
        let mut gone = seat.forsaken(outbox, &mut work).into_iter().peekable();
        loop {
            gone.by_ref().take(FORSAKEN).for_each(|one| self.forsake_one(seat, one, &mut work));
            self.finish(&mut work);
            turn.flush(std::mem::take(&mut work.dirty)).await;
            if gone.peek().is_none() {
                return;
            }
            turn.give_way().await;
        }
    }

    fn forsake_one(&self, seat: &Arc<Seat>, forsaken: Forsaken, work: &mut Work) {
        let Forsaken { record, seq, base, lock } = forsaken;
        match lock {
            // Its client may ask again, and has its place in line until its turn comes, for a
            // whole lease at most.
            Some(LockTag { brought: true, .. }) => {
                self.keep_waiting(seat, work);
                return;
            }
            Some(_) => {
                work.over.push(Arc::clone(seat));
                return;
            }
            None => {}
        }
        let shard = self.shard_of(record.group());
        self.with_shard(shard, work, |shard, now, work| {
            // If the group is not served, nothing waits there.
            let _ = self.withdraw(shard, seat, (&record, seq, base.is_some()), now, work);
            // The client has not heard of the number that its read has now.
            let (held, _) = shard.table.look_own(seat.id, &record);
            if let (Some(base), Some(held)) = (base, held)
                && held.seq > seq
            {
                seat.rename(&record, base, held.seq);
            }
        });
    }

    /// A command has waited for long enough.
    pub(super) fn give_up(&self, patience: Patience, work: &mut Work) {
        let Patience { seat, record, seq, slot } = patience;
        let shard = self.shard_of(record.group());
        self.with_shard(shard, work, |shard, now, work| {
            let Some((ask, shared)) = seat.unask(&record, seq, &slot) else { return };
            match ask.lock.filter(|_| !shared) {
                Some(LockTag { brought: true, .. }) => seat.lock_is_over(),
                Some(_) => work.over.push(Arc::clone(&seat)),
                None => {}
            }
            let kept = if shared {
                None
            } else {
                self.withdraw(shard, &seat, (&record, seq, false), now, work).ok().flatten()
            };
            ask.slot.fill(&kept.unwrap_or(Value::Null), &mut work.dirty);
        });
    }

    /// Acquires, with a command that waits for the answer: in this slot, and for this lock if it is
    /// an `LS.LOCK`. An error that is returned has not used the slot.
    pub(super) fn ask(
        &self,
        shard: &mut Shard,
        seat: &Arc<Seat>,
        (slot, lock): (impl FnOnce() -> Result<Slot, CommandError>, Option<LockTag>),
        wish: Wish,
        now: Tick,
        work: &mut Work,
    ) -> Result<(), CommandError> {
        let Wish { record, mode, wait, seq, upgrade, owners, note } = wish;
        let Some(epoch) = self.epoch_of(&record) else {
            let text = format!("{} is not served now; try again", show(&record));
            return Err(CommandError::new(ErrorCode::Loading, text));
        };
        check_new(shard, seat, (&record, mode), seq, upgrade)?;
        let seq = match seq {
            Some(seq) => {
                seat.saw(seq);
                seq
            }
            None => seat.next_seq(),
        };
        if seat.asked(&record, seq) >= SAME_MAX {
            let text = format!("{SAME_MAX} commands already wait for seq {}", seq.0);
            return Err(CommandError::new(ErrorCode::Limit, text));
        }
        let slot = slot()?;
        let (asked, own) = (owners.clone(), slot.clone());
        let base = shard.table.look_own(seat.id, &record).0.filter(|_| upgrade).map(|it| it.seq);
        let ask = Ask { slot, wait, mode, epoch, upgrade, base, owners: asked, timer: None, lock };
        seat.ask(record.clone(), seq, ask);
        shard.counts.acquires += 1;
        let message =
            ToServer::Acquire { record: record.clone(), mode, seq, epoch, upgrade, owners };
        match self.say(shard, seat, message, now, work) {
            Ok(()) => {
                supersede(shard, seat, &record, work);
                seat.goes_on_asking(&record, seq, &own);
                if let Some(note) = note {
                    let message = ToServer::Note { record: record.clone(), seq, note };
                    self.say(shard, seat, message, now, work)?;
                }
            }
            // Others that wait for the same number are still in line.
            Err(why) => {
                if let Some((ask, _)) = seat.unask(&record, seq, &own) {
                    if lock.is_some_and(|lock| !lock.brought) {
                        work.over.push(Arc::clone(seat));
                    }
                    ask.answer(&why.into(), work);
                }
            }
        }
        Ok(())
    }

    /// The acquire `seq` is over; what the session reads meanwhile stays, with a new number.
    fn withdraw(
        &self,
        shard: &mut Shard,
        seat: &Arc<Seat>,
        (record, seq, upgrade): (&Record, Seq, bool),
        now: Tick,
        work: &mut Work,
    ) -> Result<Option<Value>, CommandError> {
        let own = shard.table.look_own(seat.id, record);
        let is_it = |claim: &ClaimView| claim.seq == seq;
        let read = match own {
            (Some(read), Some(waiting)) if is_it(&waiting) => Some(read),
            // The upgrade was granted meanwhile: it is a read again.
            (Some(write), None) if upgrade && is_it(&write) => Some(write),
            _ => None,
        };
        let keep = read.as_ref().map(|read| {
            let keep = seat.next_seq();
            seat.renumber(record, read.seq, keep);
            keep
        });
        let message = ToServer::Cancel { record: record.clone(), seq, keep };
        self.say(shard, seat, message, now, work)?;
        let kept = keep.zip(read.and_then(|read| read.token));
        Ok(kept.map(|(keep, token)| reply::granted(keep, Mode::Read, token, None)))
    }

    pub(super) fn say(
        &self,
        shard: &mut Shard,
        seat: &Arc<Seat>,
        message: ToServer,
        now: Tick,
        work: &mut Work,
    ) -> Result<(), CommandError> {
        shard.counts.messages_in += 1;
        if !matches!(message, ToServer::Acquire { .. }) {
            shard.counts.releases += 1;
        }
        let told = shard.hear(now, (seat, false), message, &self.graph, work);
        told.map_err(|why| CommandError::from(&why))
    }

    /// What a client hears if its session is not open.
    pub(super) fn check_seat(&self, seat: &Seat, work: &mut Work) -> Result<(), CommandError> {
        if seat.is_open() {
            return Ok(());
        }
        let refused = self.check_open(seat.id, work).map_err(Refusal::Session);
        refused.map_err(|why| CommandError::from(&why))
    }
}

/// Whether a command may acquire the record: the session has nothing there, or this repeats what
/// it has, or upgrades its read.
fn check_new(
    shard: &Shard,
    seat: &Seat,
    (record, mode): (&Record, Mode),
    seq: Option<Seq>,
    upgrade: bool,
) -> Result<(), CommandError> {
    if shard.table.awaits(seat.id, record.group()) {
        // A hold that is re-asserted after a new acquire would be dropped, as a node's is.
        let text = "the server was restarted, and the session must re-assert its locks before it \
                    acquires: LS.REASSERT, then LS.REASSERTED";
        return Err(CommandError::new(ErrorCode::Loading, text));
    }
    let (holding, waiting) = shard.table.look_own(seat.id, record);
    // A wait is named rather than the read that is kept meanwhile: it is what is in the way.
    let Some(known) = waiting.as_ref().or(holding.as_ref()) else { return Ok(()) };
    let own = || [&holding, &waiting].into_iter().flatten();
    let mode = if upgrade { Mode::Write } else { mode };
    if let Some(seq) = seq {
        let is_repeat = own().any(|claim| claim.seq == seq && claim.mode == mode);
        // The table says of an earlier number that it is over.
        if is_repeat || own().all(|claim| seq < claim.seq) {
            return Ok(());
        }
    }
    let is_read = holding.as_ref().is_some_and(|claim| claim.mode == Mode::Read);
    if upgrade && is_read && waiting.is_none() {
        return Ok(());
    }
    Err(reply::already(record, known))
}

/// Whether one more command of this connection may wait for its reply.
pub(crate) fn check_waits(outbox: &Outbox) -> Result<(), CommandError> {
    if outbox.waiting() < WAITS_MAX {
        return Ok(());
    }
    let text = format!(
        "{WAITS_MAX} commands of this connection already wait for a reply; use another connection"
    );
    Err(CommandError::new(ErrorCode::Limit, text))
}

/// Commands that wait for what the session has just ended hear so.
pub(super) fn supersede(shard: &Shard, seat: &Seat, record: &Record, work: &mut Work) {
    if !seat.is_busy() {
        return;
    }
    let (holding, waiting) = shard.table.look_own(seat.id, record);
    let challenging = shard.table.challenging(seat.id, record);
    seat.supersede(record, holding.as_ref(), waiting.as_ref(), challenging, work);
}

/// The place of the connection's next reply, if one more may wait.
fn next_slot(outbox: &Arc<Outbox>) -> Result<Slot, CommandError> {
    check_waits(outbox)?;
    Ok(outbox.open_slot())
}

/// A record's name, for people.
pub(super) fn show(record: &Record) -> String {
    record.as_bytes().escape_ascii().to_string()
}
