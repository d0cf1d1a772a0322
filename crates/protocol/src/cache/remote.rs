//! What servers say about records.

use super::ask::Over;
use super::entry::{Ask, Drain, Entry, Held, Place, Rest, Wish};
use super::{LockCache, Output};
use crate::bugs::Bug;
use crate::ids::{Seq, ServerId};
use crate::messages::{ToNode, ToServer};
use crate::mode::Mode;
use crate::record::Record;
use crate::refusal::AcquireRefusal;
use crate::stay::Stay;
use crate::time::Tick;
use crate::token::{Epoch, Ticket, Token};

/// What a number is to this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    Held,
    Asked,
    Over,
}

/// A grant, as it travelled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    pub(super) seq: Seq,
    pub(super) mode: Mode,
    pub(super) token: Token,
    pub(super) give_back: Option<Mode>,
}

impl LockCache {
    /// An acquire is granted.
    pub(super) fn granted(
        &mut self,
        now: Tick,
        server: ServerId,
        record: &Record,
        grant: Grant,
        out: &mut Vec<Output>,
    ) {
        self.records.turn_to(record);
        let Grant { seq, mode, token, give_back } = grant;
        // Of an owner that has been replaced: whoever came after it does not know of this grant.
        let is_late = token.epoch() < self.routes.epoch(record.group());
        match self.number(record, seq) {
            Number::Held => {
                // An answer again, of an owner that was replaced since: it speaks for nobody.
                let is_old =
                    |held: Held| token.epoch() < held.rest.epoch && token.epoch() != Epoch::NONE;
                let is_told =
                    self.held(record).is_some_and(|held| held.wished_at.is_some() || is_old(held));
                if let Some(wanted) = give_back.filter(|_| !is_told) {
                    self.drain(record, wanted, Stay::begin(now, self.config.stay), out);
                }
            }
            _ if is_late => {}
            // The lease is over there. If the group is still the server's, it says this again.
            Number::Asked if self.unnamed_end(server, record).is_some_and(|end| end <= now) => {}
            Number::Asked if self.is_too_little(record, mode) => {
                self.give_back_too_little(record, mode, out);
            }
            Number::Asked => {
                let wish = self.records.take_ask(record).and_then(|ask| ask.wish);
                let wish = wish.filter(|wish| wish.at.epoch() >= token.epoch());
                let wished_at = wish.map(|wish| wish.at);
                let Some(session) = self.links.get(server).map(|link| link.session) else { return };
                let rest = Rest { server, session, epoch: token.epoch() };
                let cap = self.cap_of_unnamed(server, record, out);
                let held = Some(Held { mode, seq, granted: seq, token, rest, cap, wished_at });
                *self.records.get_or_new(record) = Entry { held, ..Entry::default() };
                self.say_opened(record, out);
                if let Some(wanted) = wish.map_or(give_back, |wish| wish.wanted) {
                    self.drain(record, wanted, Stay::over(), out);
                }
            }
            Number::Over => self.answer_over(server, record, seq, out),
        }
    }

    /// When the lease with `server` ends at this record, if no extension names its group any more.
    pub(super) fn unnamed_end(&self, server: ServerId, record: &Record) -> Option<Tick> {
        let end = self.links.get(server)?.unnamed.end(record.group());
        end.filter(|_| !self.config.bugs.has(Bug::CapForgotten))
    }

    /// Whether a grant in this mode is less than what the acquire under way asks for.
    fn is_too_little(&self, record: &Record, mode: Mode) -> bool {
        let want = self.records.get(record).and_then(|entry| entry.want.as_ref());
        want.is_some_and(|want| !mode.covers(want.mode))
    }

    /// The server is broken or hostile. Those who wait can't use what it grants, and would never
    /// get the record: they hear so, and it goes back. A read that was to be upgraded is kept.
    fn give_back_too_little(&mut self, record: &Record, granted: Mode, out: &mut Vec<Output>) {
        self.cancel(record, out);
        let want = self.records.get_mut(record).and_then(|entry| entry.want.take());
        if let Some(asked) = want.map(|want| want.mode) {
            let why = AcquireRefusal::WrongMode { asked, granted };
            out.push(Output::Refused { record: record.clone(), why });
        }
        self.records.tidy(record);
    }

    /// An acquire waits in line.
    pub(super) fn queued(
        &mut self,
        now: Tick,
        server: ServerId,
        record: &Record,
        (seq, ticket, ahead): (Seq, Ticket, Option<u32>),
        out: &mut Vec<Output>,
    ) {
        match (self.number(record, seq), self.asked(record)) {
            (Number::Asked, Some(ask)) if ask.server == server => {
                let epoch = self.routes.epoch(record.group());
                // A place that is known rests where it did: `Recovered` moves it to a new term.
                // Any other ticket of an earlier term was given by an owner that has been replaced:
                // whoever came after it does not know of that place. (A peer without epochs gives
                // tickets without one.)
                let known = ask.place.filter(|place| place.ticket == ticket);
                let is_late = ticket.epoch() < epoch && ticket.epoch() != Epoch::NONE;
                if is_late && known.is_none() {
                    return;
                }
                let Some(session) = self.links.get(server).map(|link| link.session) else { return };
                let rest = Rest { server, session, epoch };
                let place = known.or(Some(Place { ticket, rest }));
                let resend_at = now + self.config.resend * 4;
                self.records.put_ask(record, Ask { place, ahead, resend_at, ..ask });
            }
            (Number::Over, _) => self.answer_over(server, record, seq, out),
            _ => {}
        }
    }

    /// The record is reserved for an acquire.
    pub(super) fn retry(
        &mut self,
        now: Tick,
        server: ServerId,
        record: &Record,
        seq: Seq,
        out: &mut Vec<Output>,
    ) {
        match self.number(record, seq) {
            Number::Asked => self.acquire(now, record, out),
            Number::Held => {}
            Number::Over => self.answer_over(server, record, seq, out),
        }
    }

    /// What others want of what was granted, if anything. What was said last counts, in whichever
    /// order it comes.
    pub(super) fn wished(
        &mut self,
        now: Tick,
        server: ServerId,
        record: &Record,
        (seq, wish): (Seq, Wish),
        out: &mut Vec<Output>,
    ) {
        let bugs = self.config.bugs;
        let number = self.number(record, seq);
        let entry = self.records.get(record);
        let (held, asked) = entry.map_or((None, None), |it| (it.held, it.asked));
        // That nobody wants it any more was said of an earlier number of what is held.
        let is_of_before =
            |held: Held| wish.wanted.is_none() && (held.granted..held.seq).contains(&seq);
        match (number, held, asked) {
            (_, Some(_), _) if bugs.has(Bug::RevokeIgnoresSeq) => {
                self.heed(now, record, wish.wanted, out);
            }
            (_, Some(held), _) if number == Number::Held || is_of_before(held) => {
                self.wished_of_held(now, record, wish, out);
            }
            (Number::Asked, _, Some(_)) if bugs.has(Bug::EarlyRevokeForgotten) => {}
            (Number::Asked, held, Some(ask)) => {
                // Of an upgrade: it is said of the read too, should the upgrade be taken back.
                if held.is_some() && wish.wanted.is_none() {
                    self.wished_of_held(now, record, wish, out);
                }
                if ask.wish.is_none_or(|before| before.at <= wish.at) {
                    self.records.put_ask(record, Ask { wish: Some(wish), ..ask });
                }
                // The grant is on its way, or lost.
                self.acquire(now, record, out);
            }
            _ if wish.wanted.is_some() => self.answer_over(server, record, seq, out),
            _ => {}
        }
    }

    /// What others want of what is held, unless something was said later.
    fn wished_of_held(&mut self, now: Tick, record: &Record, wish: Wish, out: &mut Vec<Output>) {
        let held = self.records.get_mut(record).and_then(|entry| entry.held.as_mut());
        // An owner that has been replaced speaks for nobody: whoever waited with it waits with the
        // next one, which says so itself. (A peer without epochs gives tickets without one.)
        let is_late =
            |held: &Held| wish.at.epoch() < held.rest.epoch && wish.at.epoch() != Epoch::NONE;
        let held = held.filter(|held| held.wished_at <= Some(wish.at) && !is_late(held));
        if let Some(held) = held {
            held.wished_at = Some(wish.at);
            self.heed(now, record, wish.wanted, out);
        }
    }

    /// Gives up what is wanted, or goes on with what nobody wants any more.
    fn heed(&mut self, now: Tick, record: &Record, wanted: Option<Mode>, out: &mut Vec<Output>) {
        let Some(wanted) = wanted else {
            let entry = self.records.get_mut(record);
            if entry.and_then(|entry| entry.drain.take()).is_some() {
                self.reopen(now, record, out);
            }
            return;
        };
        self.drain(record, wanted, Stay::begin(now, self.config.stay), out);
    }

    /// A drain is off.
    pub(super) fn reopen(&mut self, now: Tick, record: &Record, out: &mut Vec<Output>) {
        let want = self.records.get(record).and_then(|entry| entry.want.as_ref());
        let covers = |mode: Mode| self.held(record).is_some_and(|held| held.mode.covers(mode));
        // What will be traded stays closed.
        if want.is_none_or(|want| want.upgrade || covers(want.mode)) {
            self.say_opened(record, out);
        }
        self.advance(now, record, out);
    }

    /// Has the local threads leave, as far as `wanted` needs it.
    pub(super) fn drain(
        &mut self,
        record: &Record,
        wanted: Mode,
        stay: Stay,
        out: &mut Vec<Output>,
    ) {
        let to = Mode::left_beside(wanted);
        let Some(entry) = self.records.get_mut(record) else { return };
        let Some(held) = entry.held.filter(|held| to.is_none_or(|to| !to.covers(held.mode))) else {
            return;
        };
        let drain = match &mut entry.drain {
            None => entry.drain.insert(Drain { to, stay, report: None }),
            // The threads have been told already when the stay ends.
            Some(drain) if drain.to != to => {
                drain.to = to;
                drain
            }
            Some(_) => return self.report(record, out),
        };
        out.push(Output::Drain { record: record.clone(), to, stay: drain.stay });
        // The server may have forgotten it: a `Keep` in between is not heard if this overtakes it.
        self.report(record, out);
        if self.config.bugs.has(Bug::DowngradeEarly) && to.is_some() {
            let keep = Some(self.convert(record, held.seq));
            self.end(held.rest.server, record, Over::release(held.seq, keep), out);
        }
    }

    /// An acquire is refused.
    pub(super) fn refused(
        &mut self,
        now: Tick,
        server: ServerId,
        record: &Record,
        (seq, why): (Seq, AcquireRefusal),
        out: &mut Vec<Output>,
    ) {
        // A server that is not asked any more refuses nothing.
        if !self.asked(record).is_some_and(|ask| ask.seq == seq && ask.server == server) {
            return;
        }
        match why {
            AcquireRefusal::NotServed(_) => self.routes.forget(record.group(), server),
            AcquireRefusal::StaleSeq => {
                self.records.take_ask(record);
            }
            AcquireRefusal::NotHeld if self.held(record).is_some() => self.lose(record, out),
            why => {
                self.records.take_ask(record);
                self.records.get_or_new(record).want = None;
                out.push(Output::Refused { record: record.clone(), why });
            }
        }
        self.records.tidy(record);
        self.advance(now, record, out);
    }

    /// A grant is void, although the session lives. The server says so until it is answered.
    pub(super) fn grant_lost(
        &mut self,
        now: Tick,
        server: ServerId,
        record: &Record,
        seq: Seq,
        out: &mut Vec<Output>,
    ) {
        let Some(held) = self.held(record) else {
            // It was heard before, and the answer was lost. A later acquire is an answer too.
            if self.asked(record).is_none_or(|ask| ask.seq < seq) {
                self.end(server, record, Over::release(seq, None), out);
            }
            return;
        };
        // What the grant was converted to since then is void too.
        let is_this = (held.granted..=held.seq).contains(&seq);
        if is_this && self.may_void(server, record, held.rest) {
            self.lose(record, out);
            self.end(server, record, Over::release(held.seq, None), out);
            self.advance(now, record, out);
        }
    }

    /// The server speaks of a number that is over: says what is true instead.
    fn answer_over(&mut self, server: ServerId, record: &Record, seq: Seq, out: &mut Vec<Output>) {
        let over = match self.held(record) {
            None if self.config.bugs.has(Bug::StrayGrantKept) => return,
            None => Over::release(seq, None),
            Some(held) if held.seq > seq && !self.may_void(server, record, held.rest) => {
                Over::release(seq, None)
            }
            // The server has ended the other number itself, when it granted the present one.
            Some(held) if held.mode != Mode::Read => return,
            Some(held) if held.seq > seq => Over::release(held.seq.before(), Some(held.seq)),
            // The upgrade under way will be answered for both.
            Some(_) if self.asked(record).is_some() => return,
            // An upgrade that was taken for refused.
            Some(_) => Over::release(seq, Some(self.convert(record, seq))),
        };
        self.end(server, record, over, out);
    }

    /// A bug for the simulator: that a number is over is true, and ends it where it was not to end.
    pub(super) fn answer_replaced(
        &self,
        server: ServerId,
        message: &ToNode,
        out: &mut Vec<Output>,
    ) {
        if let ToNode::Revoke { record, seq, .. } = message
            && self.number(record, *seq) == Number::Over
        {
            let message = ToServer::Release { record: record.clone(), seq: *seq, keep: None };
            self.links.send(server, message, out);
        }
    }

    fn number(&self, record: &Record, seq: Seq) -> Number {
        match self.records.get(record) {
            Some(Entry { held: Some(held), .. }) if held.seq == seq => Number::Held,
            Some(Entry { asked: Some(ask), .. }) if ask.seq == seq => Number::Asked,
            _ => Number::Over,
        }
    }

    fn asked(&self, record: &Record) -> Option<Ask> {
        self.records.get(record)?.asked
    }
}
