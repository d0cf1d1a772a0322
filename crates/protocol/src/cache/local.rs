//! What the driver says about its threads.

use super::ask::Over;
use super::entry::{Report, Want};
use super::{LockCache, Output, WantRefusal};
use crate::ids::Owner;
use crate::messages::{LocalWait, ToServer};
use crate::mode::Mode;
use crate::record::Record;
use crate::stay::Stay;
use crate::time::Tick;

impl LockCache {
    /// The head of the local line needs the record.
    pub(super) fn want(
        &mut self,
        now: Tick,
        record: &Record,
        want: Want,
        out: &mut Vec<Output>,
    ) -> Result<(), WantRefusal> {
        let (owners, records) = (self.config.owners, self.config.records);
        let entry = self.records.get(record);
        if want.owners.len() > owners {
            return Err(WantRefusal::TooManyOwners { max: owners });
        }
        if want.upgrade && entry.is_none_or(|entry| entry.held.is_none()) {
            return Err(WantRefusal::NotHeld);
        }
        if entry.is_none() && self.records.len() >= records {
            return Err(WantRefusal::TooManyRecords { max: records });
        }
        let before = self.records.get_or_new(record).want.replace(want.clone());
        match before {
            Some(before) if before == want => {}
            Some(before) if before.mode == want.mode && before.upgrade == want.upgrade => {
                self.acquire(now, record, out);
            }
            _ => {
                self.records.clear_note(record);
                self.cancel(record, out);
            }
        }
        self.advance(now, record, out);
        Ok(())
    }

    /// Nobody local waits any more. The driver has shut what it would have traded, so that goes
    /// back, also if there was no server yet to send the acquire to.
    pub(super) fn withdraw(&mut self, record: &Record, out: &mut Vec<Output>) {
        let Some(entry) = self.records.get_mut(record) else { return };
        let is_trade = entry.want.take().is_some_and(|want| !want.upgrade);
        if is_trade && entry.asked.is_none() {
            self.give_back_now(record, out);
        }
        self.cancel(record, out);
        self.records.tidy(record);
    }

    /// The local threads have left as far as they had to.
    pub(super) fn drained(
        &mut self,
        now: Tick,
        record: &Record,
        out: &mut Vec<Output>,
    ) -> Result<(), WantRefusal> {
        let entry = self.records.get_mut(record).ok_or(WantRefusal::NotDraining)?;
        let (Some(drain), Some(held)) = (entry.drain.take(), entry.held.as_mut()) else {
            return Err(WantRefusal::NotDraining);
        };
        let (server, seq) = (held.rest.server, held.seq);
        if let Some(mode) = drain.to {
            held.mode = mode;
            let keep = Some(self.convert(record, seq));
            self.end(server, record, Over::release(seq, keep), out);
        } else {
            entry.held = None;
            // Of an upgrader that has left without a word, the acquire is over too.
            let seq = entry.asked.map_or(seq, |ask| ask.seq);
            self.drop_upgrade(record, out);
            self.end(server, record, Over::release(seq, None), out);
        }
        self.records.tidy(record);
        self.advance(now, record, out);
        Ok(())
    }

    /// The local writer has become a reader while the whole record is wanted back. It is as if only
    /// a read had been wanted: the server keeps the read under a new number, lets the readers in
    /// that wait, and revokes the read for the writer that waits behind them.
    pub(super) fn downgraded(
        &mut self,
        now: Tick,
        record: &Record,
        out: &mut Vec<Output>,
    ) -> Result<(), WantRefusal> {
        let entry = self.records.get_mut(record).ok_or(WantRefusal::NotDraining)?;
        let is_write = entry.held.is_some_and(|held| held.mode == Mode::Write);
        let drain = entry.drain.as_mut().filter(|drain| is_write && drain.to.is_none());
        drain.ok_or(WantRefusal::NotDraining)?.to = Some(Mode::Read);
        self.drained(now, record, out)
    }

    /// The local threads can't leave at once.
    pub(super) fn busy(
        &mut self,
        record: &Record,
        mut holders: Vec<Owner>,
        mut waits: Vec<LocalWait>,
        out: &mut Vec<Output>,
    ) -> Result<(), WantRefusal> {
        let entry = self.records.get_mut(record);
        let drain = entry.and_then(|entry| entry.drain.as_mut()).ok_or(WantRefusal::NotDraining)?;
        holders.truncate(self.config.owners);
        waits.truncate(self.config.owners);
        self.reports += 1;
        drain.report = Some(Report { number: self.reports, holders, waits });
        self.report(record, out);
        Ok(())
    }

    /// Says, perhaps again, why the record is not back yet.
    pub(super) fn report(&self, record: &Record, out: &mut Vec<Output>) {
        let Some(entry) = self.records.get(record) else { return };
        let report = entry.drain.as_ref().and_then(|drain| drain.report.clone());
        if let (Some(held), Some(Report { number, holders, waits })) = (entry.held, report)
            && !self.routes.is_replaced(held.rest.server, record.group())
        {
            let record = record.clone();
            let message = ToServer::Report { record, seq: held.seq, number, holders, waits };
            self.links.send(held.rest.server, message, out);
        }
    }

    /// No local thread uses the record.
    pub(super) fn give_back(&mut self, record: &Record, out: &mut Vec<Output>) {
        let is_idle = self.records.get(record).is_some_and(|entry| {
            entry.held.is_some() && entry.want.is_none() && entry.drain.is_none()
        });
        if is_idle {
            self.drain(record, Mode::Write, Stay::over(), out);
        }
    }

    /// The same, and none will before it is granted again.
    pub(super) fn give_back_now(&mut self, record: &Record, out: &mut Vec<Output>) {
        let Some(entry) = self.records.get_mut(record) else { return };
        if entry.want.is_some() || entry.drain.is_some() {
            return;
        }
        if let Some(held) = entry.held.take() {
            self.records.tidy(record);
            self.end(held.rest.server, record, Over::release(held.seq, None), out);
        }
    }
}
