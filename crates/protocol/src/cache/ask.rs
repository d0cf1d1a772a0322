//! How what is wanted is answered or asked for, and how a number ends.

use super::entry::{Ask, Entry, Held};
use super::{LockCache, Output};
use crate::annotation::Annotation;
use crate::bugs::Bug;
use crate::ids::{Seq, ServerId};
use crate::messages::ToServer;
use crate::mode::Mode;
use crate::record::Record;
use crate::refusal::AcquireRefusal;
use crate::slot::GroupSet;
use crate::time::Tick;

/// How a release or a cancel ends everything up to `seq`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Over {
    pub(super) seq: Seq,
    /// The number under which the node goes on reading.
    pub(super) keep: Option<Seq>,
    /// It was not granted, as far as the node knows.
    pub(super) is_cancel: bool,
}

impl Over {
    pub(super) fn release(seq: Seq, keep: Option<Seq>) -> Self {
        Self { seq, keep, is_cancel: false }
    }

    fn message(self, record: Record) -> ToServer {
        let Self { seq, keep, .. } = self;
        if self.is_cancel {
            ToServer::Cancel { record, seq, keep }
        } else {
            ToServer::Release { record, seq, keep }
        }
    }
}

impl LockCache {
    /// Does what can be done now about what is wanted: answers it, asks for it, opens a session or
    /// has the server located. What can't be done now is done when its hindrance has gone.
    pub(super) fn advance(&mut self, now: Tick, record: &Record, out: &mut Vec<Output>) {
        let Some(entry) = self.records.get(record) else { return };
        if !self.is_unsettled(record, entry) {
            return;
        }
        let group = record.group();
        if let Some(server) = self.routes.server(group) {
            self.reach(now, server, out);
        } else if self.routes.miss(group, now + self.config.resend) {
            out.push(Output::Locate { groups: [group].into_iter().collect() });
        }
        self.ask(now, record, out);
    }

    /// [`LockCache::advance`] for every record.
    pub(super) fn advance_all(&mut self, now: Tick, out: &mut Vec<Output>) {
        for record in self.records.which(|record, entry| self.is_unsettled(record, entry)) {
            self.advance(now, &record, out);
        }
    }

    /// [`LockCache::advance`] for every record of these groups.
    pub(super) fn advance_in(&mut self, now: Tick, groups: GroupSet, out: &mut Vec<Output>) {
        let is_unsettled = |record: &Record, entry: &Entry| self.is_unsettled(record, entry);
        for record in self.records.which_in(groups, is_unsettled) {
            self.advance(now, &record, out);
        }
    }

    /// Whether something is wanted, or rests on another lease than that with the group's server.
    fn is_unsettled(&self, record: &Record, entry: &Entry) -> bool {
        let server = self.routes.server(record.group());
        entry.want.is_some() || server.is_some_and(|server| entry.rests_elsewhere(server))
    }

    /// Sends an acquire for what is wanted, unless that is under way where it belongs.
    fn ask(&mut self, now: Tick, record: &Record, out: &mut Vec<Output>) {
        let Some(entry) = self.records.get(record) else { return };
        let is_under_way = entry.asked.is_some_and(|ask| Some(ask.server) == self.target(record));
        if !is_under_way {
            self.acquire(now, record, out);
        }
    }

    /// Answers what is wanted, or sends its acquire, perhaps again.
    pub(super) fn acquire(&mut self, now: Tick, record: &Record, out: &mut Vec<Output>) {
        let target = self.target(record);
        let Some(entry) = self.records.get_mut(record) else { return };
        let Some(want) = &entry.want else { return };
        if entry.is_open(want.mode) {
            entry.want = None;
            return self.say_opened(record, out);
        }
        if entry.must_drain() {
            return;
        }
        let again_at = now + self.config.resend;
        let Some(server) = target else {
            if let Some(ask) = entry.asked {
                self.records.put_ask(record, Ask { resend_at: again_at, ..ask });
            }
            return;
        };
        if !want.upgrade {
            entry.held = None;
        }
        let (mode, upgrade, owners) = (want.mode, want.upgrade, want.owners.clone());
        let fresh = Ask {
            seq: self.seq.next(),
            server,
            place: None,
            ahead: None,
            wish: None,
            resend_at: again_at,
        };
        let mut ask = entry.asked.map_or(fresh, |ask| Ask { server, resend_at: again_at, ..ask });
        if ask.is_placed_by(server) {
            ask.resend_at = now + self.config.resend * 4;
        }
        self.seq = self.seq.max(ask.seq);
        self.records.put_ask(record, ask);
        let epoch = self.routes.epoch(record.group());
        let record = record.clone();
        let seq = ask.seq;
        let note = self.note_of(&record, seq);
        let message = ToServer::Acquire { record, mode, seq, epoch, upgrade, owners };
        self.links.send(server, message, out);
        if let Some(note) = note {
            self.links.send(server, note, out);
        }
    }

    /// The message that says what the acquire `seq` is for, if the driver has said so.
    pub(super) fn note_of(&self, record: &Record, seq: Seq) -> Option<ToServer> {
        let note = self.records.note(record)?.clone();
        Some(ToServer::Note { record: record.clone(), seq, note })
    }

    /// The driver says what the record was acquired for. The server is told now, and again whenever
    /// the acquire is sent again or what came of it is re-asserted.
    pub(super) fn set_note(&mut self, record: &Record, note: Annotation, out: &mut Vec<Output>) {
        self.records.set_note(record, note);
        let Some(entry) = self.records.get(record) else { return };
        let asked = entry.asked.map(|ask| (ask.server, ask.seq));
        let held = entry.held.map(|held| (held.rest.server, held.seq));
        if let Some((server, seq)) = asked.or(held)
            && let Some(message) = self.note_of(record, seq)
        {
            self.links.send(server, message, out);
        }
    }

    /// Asks who holds the record for which an acquire is under way.
    pub(super) fn who_holds(&self, record: &Record, out: &mut Vec<Output>) {
        if let Some(ask) = self.records.get(record).and_then(|entry| entry.asked) {
            let message = ToServer::WhoHolds { record: record.clone(), seq: ask.seq };
            self.links.send(ask.server, message, out);
        }
    }

    /// No answer has come in time.
    pub(super) fn acquire_again(&mut self, now: Tick, record: &Record, out: &mut Vec<Output>) {
        if self.config.bugs.has(Bug::AcquireOnce) {
            if let Some(ask) = self.records.take_ask(record) {
                self.records.put_ask(record, Ask { resend_at: now + self.config.resend, ..ask });
            }
            return;
        }
        self.acquire(now, record, out);
    }

    /// To whom an acquire for what is wanted can be sent now: the server of the group, or for an
    /// upgrade the one that knows the read. While a record is re-asserted, its new owner may not
    /// know yet of the read or of the place in line, so nothing is asked that rests on either.
    fn target(&self, record: &Record) -> Option<ServerId> {
        let entry = self.records.get(record)?;
        let group = record.group();
        let is_upgrade = entry.want.as_ref()?.upgrade;
        let is_placed = entry.asked.is_some_and(|ask| ask.place.is_some());
        if (is_upgrade || is_placed) && self.is_recovering(record) {
            return None;
        }
        let server = if is_upgrade {
            let server = entry.held?.rest.server;
            // The next owner has to hear of the read first.
            if self.routes.is_replaced(server, group) {
                return None;
            }
            server
        } else {
            self.routes.server(group)?
        };
        self.links.open(server).map(|_| server)
    }

    /// Takes back the acquire under way, if there is one; a read that is held goes on with a new
    /// number.
    pub(super) fn cancel(&mut self, record: &Record, out: &mut Vec<Output>) {
        let Some(ask) = self.records.take_ask(record) else { return };
        let keep = self.held(record).map(|_| self.convert(record, ask.seq));
        self.end(ask.server, record, Over { seq: ask.seq, keep, is_cancel: true }, out);
    }

    /// What is held goes on with a new number.
    pub(super) fn convert(&mut self, record: &Record, old: Seq) -> Seq {
        let new = if self.config.bugs.has(Bug::SeqNotRaised) { old } else { self.seq.next() };
        self.seq = self.seq.max(new);
        if let Some(held) = self.records.get_mut(record).and_then(|entry| entry.held.as_mut()) {
            held.seq = new;
        }
        new
    }

    /// Tells `server` that a number is over; later, if the record is being re-asserted. Rule Z: if
    /// another server owns the group now, that one is told.
    pub(super) fn end(
        &mut self,
        server: ServerId,
        record: &Record,
        over: Over,
        out: &mut Vec<Output>,
    ) {
        if self.is_recovering(record) {
            let last = self.deferred.entry(record.clone()).or_insert(over);
            if last.seq <= over.seq {
                *last = over;
            }
        } else if let Some(server) = self.present(server, record) {
            self.links.send(server, over.message(record.clone()), out);
        }
    }

    /// Whom to tell about a record that was in the hands of `server`: that one, unless a later
    /// owner of its group is known. That one knows of the record only if there is a session with
    /// it.
    fn present(&self, server: ServerId, record: &Record) -> Option<ServerId> {
        let owner = self.routes.owner(record.group()).filter(|&owner| owner != server);
        match owner {
            Some(owner) if !self.config.bugs.has(Bug::AnswersReplaced) => {
                self.links.open(owner).map(|_| owner)
            }
            _ => Some(server),
        }
    }

    /// Sends what was put off, for the records that are not re-asserted any more.
    pub(super) fn flush(&mut self, out: &mut Vec<Output>) {
        for (record, over) in std::mem::take(&mut self.deferred) {
            if self.is_recovering(&record) {
                self.deferred.insert(record, over);
            } else if let Some(server) = self.routes.server(record.group())
                && let Some(server) = self.present(server, &record)
            {
                // What is true now: a read that goes on must not be given away with what was before
                // it.
                let over = match self.held(&record) {
                    Some(held) if held.mode == Mode::Read && over.keep != Some(held.seq) => {
                        Over { seq: held.seq.before(), keep: Some(held.seq), ..over }
                    }
                    _ => over,
                };
                self.links.send(server, over.message(record), out);
            }
        }
    }

    /// The grant is void.
    pub(super) fn lose(&mut self, record: &Record, out: &mut Vec<Output>) {
        let Some(entry) = self.records.get_mut(record) else { return };
        entry.held = None;
        entry.drain = None;
        out.push(Output::Lost { record: record.clone() });
        self.drop_upgrade(record, out);
        self.records.tidy(record);
    }

    /// An upgrade of what is held no more is refused.
    pub(super) fn drop_upgrade(&mut self, record: &Record, out: &mut Vec<Output>) {
        let Some(entry) = self.records.get_mut(record) else { return };
        if entry.want.take_if(|want| want.upgrade).is_some() {
            self.records.take_ask(record);
            out.push(Output::Refused { record: record.clone(), why: AcquireRefusal::NotHeld });
        }
    }

    /// What is held, if anything.
    pub(super) fn held(&self, record: &Record) -> Option<Held> {
        self.records.get(record)?.held
    }

    /// Tells the driver what its threads may hold.
    pub(super) fn say_opened(&self, record: &Record, out: &mut Vec<Output>) {
        if let Some(held) = self.held(record) {
            let Held { mode, token, .. } = held;
            let lease = Self::lease_of(held);
            out.push(Output::Open { record: record.clone(), mode, token, lease });
        }
    }
}
