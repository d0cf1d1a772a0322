//! Waiting for several records: the future behind [`All`](super::All).
//!
//! The future locks `records[held.len()]`, then the next. What is true between two polls:
//!
//! - **A1** `held` are the guards of the first records, in order: nothing behind them is locked.
//! - **A2** `step` is the acquire of the record after those, if it is in line.
//! - **A3** `batch` fetched records behind that one, unless the wait lasts: see `node::batch`.
//! - **A4** Dropping it, an error and the end of the time leave the line and release `held`, and
//!   give back what was fetched.
//! - **A5** When it is ready with a guard, each of `held` was valid after the last one was locked.
//!
//! By A1 whoever waits holds only records that come before the one that it waits for. So in a cycle
//! of such waits each record would come before the next, which can't be.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use lockspan_park::fork::BoundFuture;
use lockspan_protocol::{Annotation, Mode};

#[cfg(test)]
use super::bugs::{self, Bug};
use super::guard::{AllGuard, AnyGuard};
use crate::acquire::{Acquire, let_others_run};
use crate::entry::lock;
use crate::error::LockError;
use crate::guard::{Exclusive, Guard, Shared};
use crate::line::Place;
use crate::node::Node;
use crate::node::batch::BatchId;
use crate::record::Record;
use crate::timeout::lead;
use crate::{block, task};

/// The future of [`All::write`](super::All::write), [`All::read`](super::All::read) and
/// [`All::lock`](super::All::lock). It does nothing before it is polled. Dropping it releases what
/// it has and leaves the queue.
#[must_use = "a future does nothing unless it is awaited"]
pub struct AcquireAll {
    /// Each once, in the order in which they are locked.
    records: Vec<(Record, Mode)>,
    held: Vec<AnyGuard>,
    step: Option<Step>,
    batch: Option<BatchId>,
    note: Option<Annotation>,
    /// What is wrong with what was asked for.
    refused: Option<LockError>,
    /// See [`Self::unless`].
    unless: Option<Unless>,
}

/// Whether a wait for this record is refused.
type Unless = Box<dyn Fn(&Record) -> bool + Send + Sync>;

/// The acquire of one record.
#[derive(Debug)]
enum Step {
    Read(Acquire<Shared, Record>),
    Write(Acquire<Exclusive, Record>),
}

impl Step {
    fn new(record: Record, mode: Mode, note: Option<Annotation>) -> Self {
        match mode {
            Mode::Read => Self::Read(Acquire::with_note(record, note)),
            _ => Self::Write(Acquire::with_note(record, note)),
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<AnyGuard, LockError>> {
        match self {
            Self::Read(acquire) => Pin::new(acquire).poll(context).map_ok(AnyGuard::Read),
            Self::Write(acquire) => Pin::new(acquire).poll(context).map_ok(AnyGuard::Write),
        }
    }

    fn in_line(&self) -> Option<Place> {
        match self {
            Self::Read(acquire) => acquire.in_line(),
            Self::Write(acquire) => acquire.in_line(),
        }
    }
}

impl AcquireAll {
    pub(super) fn new(records: Vec<(Record, Mode)>, note: Option<Annotation>) -> Self {
        let held = Vec::with_capacity(records.len());
        Self { records, held, step: None, batch: None, note, refused: None, unless: None }
    }

    pub(super) fn refused(why: LockError) -> Self {
        let mut this = Self::new(Vec::new(), None);
        this.refused = Some(why);
        this
    }

    /// Refuses to wait for a record for which `refuses` returns true: instead of waiting it ends
    /// with [`LockError::Deadlock`], whose `cycle` is empty, and releases what it has. `refuses` is
    /// asked whenever it has to wait after a poll, and must not acquire or release anything.
    ///
    /// For callers that know which of their threads or tasks holds what: who reads a record may
    /// read it again in a set, until a writer waits for it.
    pub fn unless(mut self, refuses: impl Fn(&Record) -> bool + Send + Sync + 'static) -> Self {
        self.unless = Some(Box::new(refuses));
        self
    }

    /// Whether it waits for a record that [`Self::unless`] refuses.
    fn is_refused(&self) -> bool {
        let Some(refuses) = &self.unless else { return false };
        self.waits_for().is_some_and(refuses)
    }

    /// The record that it waits for: it holds those that come before. `None` before the first poll
    /// and when it does not wait.
    #[must_use]
    pub fn waits_for(&self) -> Option<&Record> {
        self.step.as_ref()?.in_line()?;
        self.next().map(|(record, _)| record)
    }

    /// How many acquires would be granted before this one, for the record that it waits for: as
    /// [`Acquire::place`](crate::Acquire::place).
    #[must_use]
    pub fn place(&self) -> Option<u32> {
        let place = self.step.as_ref()?.in_line()?;
        self.next()?.0.ahead(place)
    }

    /// The batch that fetches records behind the next one.
    #[cfg(test)]
    pub(super) fn batch(&self) -> Option<BatchId> {
        self.batch
    }

    fn next(&self) -> Option<&(Record, Mode)> {
        self.records.get(self.held.len())
    }

    /// All records are of one connection.
    fn node(&self) -> Option<&Node> {
        self.records.first().map(|(record, _)| record.node())
    }

    /// Whether somebody of this node is in the way.
    pub(super) fn is_in_use_here(&self) -> Result<bool, LockError> {
        for (record, mode) in &self.records {
            if record.is_in_use_here(*mode)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Locks the next record: at once, or in line.
    fn lock_next(&mut self, context: &mut Context<'_>) -> Poll<Result<AnyGuard, LockError>> {
        let (record, mode) = &self.records[self.held.len()];
        if self.step.is_none()
            && let Some((pass, token)) = record.enter(*mode)
        {
            let record = record.clone();
            return Poll::Ready(Ok(match mode {
                Mode::Read => AnyGuard::Read(Guard::new(record, pass, token)),
                _ => AnyGuard::Write(Guard::new(record, pass, token)),
            }));
        }
        if self.step.is_none() {
            let step = Step::new(record.clone(), *mode, self.note.clone());
            self.fetch_behind();
            self.step = Some(step);
        }
        let step = self.step.as_mut().expect("it is there now");
        if let Poll::Ready(acquired) = step.poll(context) {
            self.step = None;
            return Poll::Ready(acquired);
        }
        self.give_back_unless_asked();
        Poll::Pending
    }

    /// Asks for the records behind the next one together with it, if none of them is cached.
    fn fetch_behind(&mut self) {
        let records = &self.records[self.held.len()..];
        let Some((record, _)) = records.first() else { return };
        let node = record.node();
        if node.is_forked() || !lock(&record.entry.line).is_unused() {
            return;
        }
        if let Some(before) = self.batch.take() {
            node.give_back_fetched(before);
        }
        self.batch = node.try_together(records, self.note.as_ref());
    }

    /// A wait has begun: what was fetched stays while the server is asked for the record together
    /// with the fetched ones. Otherwise it waits for somebody of this node, or in a queue.
    fn give_back_unless_asked(&mut self) {
        let Some(batch) = self.batch else { return };
        // It only lets others run.
        let Some(place) = self.step.as_ref().and_then(Step::in_line) else { return };
        let record = &self.records[self.held.len()].0;
        let node = record.node();
        let is_asked = {
            let line = lock(&record.entry.line);
            line.batches.contains(&batch) && line.waits_for_server(place)
        };
        if is_asked {
            node.send();
        } else {
            #[cfg(test)]
            if bugs::has(Bug::KeptForLocal) {
                return;
            }
            self.batch = None;
            node.give_back_fetched(batch);
        }
    }

    /// Leaves the line, releases everything, and gives back what was fetched.
    fn let_go(&mut self) {
        #[cfg(test)]
        if bugs::has(Bug::StaysInLine) {
            std::mem::forget(self.step.take());
        }
        #[cfg(test)]
        if bugs::has(Bug::StaysFetched) {
            self.batch = None;
        }
        self.step = None;
        release(&mut self.held);
        if let Some(batch) = self.batch.take()
            && let Some(node) = self.node()
        {
            node.give_back_fetched(batch);
        }
    }

    /// All records are locked. If one of them was lost while a later one was waited for, all are
    /// released and locked again, from the first on. So there is a moment at which all are held.
    fn begins_again(&mut self) -> bool {
        let is_lost = self.held.iter().any(|guard| !guard.is_valid());
        #[cfg(test)]
        let is_lost = is_lost && !bugs::has(Bug::KeepsLost);
        if is_lost {
            self.let_go();
        }
        is_lost
    }

    /// The error of a wait that was too long.
    fn timed_out(&self, time: Duration) -> LockError {
        let (record, _) = self.next().unwrap_or_else(|| &self.records[0]);
        record.timed_out(time, self.step.as_ref().and_then(Step::in_line))
    }

    fn ask_who_holds(&self) {
        if let Some((record, _)) = self.next() {
            record.ask_who_holds();
        }
    }

    /// Waits for at most this long; then the error is [`LockError::Timeout`].
    pub async fn within(mut self, time: Duration) -> Result<AllGuard, LockError> {
        // What is there at once needs no timer.
        let first = poll_fn(|context| Poll::Ready(Pin::new(&mut self).poll(context)));
        if let Poll::Ready(acquired) = first.await {
            return acquired;
        }
        let waiting = async move {
            let lead = lead(time);
            let handle = std::sync::Arc::clone(&self.records[0].0.handle);
            tokio::select! {
                biased;
                acquired = &mut self => return acquired,
                () = task::timer(handle.node(), time - lead) => self.ask_who_holds(),
            }
            tokio::select! {
                biased;
                acquired = &mut self => acquired,
                () = task::timer(handle.node(), lead) => Err(self.timed_out(time)),
            }
        };
        // The timer is the parent's.
        BoundFuture::new(waiting, || Poll::Ready(Err(LockError::Forked))).await
    }

    pub(super) fn block(mut self, time: Option<Duration>) -> Result<AllGuard, LockError> {
        // A time that no clock can show is forever.
        let deadline = time.and_then(|time| Some((time, Instant::now().checked_add(time)?)));
        let Some((time, deadline)) = deadline else { return block::block_on(self) };
        if let Some(acquired) = block::block_until(&mut self, deadline - lead(time)) {
            return acquired;
        }
        self.ask_who_holds();
        let last = block::block_until(&mut self, deadline);
        last.unwrap_or_else(|| Err(self.timed_out(time)))
    }
}

/// The last is released first: whoever waits for the first then finds the others free.
pub(super) fn release(held: &mut Vec<AnyGuard>) {
    while held.pop().is_some() {}
}

impl Future for AcquireAll {
    type Output = Result<AllGuard, LockError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if let Some(why) = this.refused.take() {
            return Poll::Ready(Err(why));
        }
        assert!(!this.records.is_empty(), "a future is not polled after it is ready");
        ready!(let_others_run(context));
        while this.next().is_some() || this.begins_again() {
            let locked = match this.lock_next(context) {
                // It may have been granted between the poll and the question.
                Poll::Pending if this.is_refused() => match this.lock_next(context) {
                    Poll::Pending => Err(LockError::Deadlock { cycle: Vec::new() }),
                    Poll::Ready(locked) => locked,
                },
                step => ready!(step),
            };
            match locked {
                Ok(guard) => this.held.push(guard),
                Err(why) => {
                    this.let_go();
                    this.records.clear();
                    return Poll::Ready(Err(why));
                }
            }
        }
        if let Some(batch) = this.batch.take()
            && let Some(node) = this.node()
        {
            node.batch_is_over(batch);
        }
        this.records.clear();
        Poll::Ready(Ok(AllGuard::new(std::mem::take(&mut this.held))))
    }
}

impl Drop for AcquireAll {
    fn drop(&mut self) {
        self.let_go();
    }
}

impl fmt::Debug for AcquireAll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.records.iter().map(|(record, mode)| (record.name(), mode));
        f.debug_struct("AcquireAll")
            .field("records", &names.collect::<Vec<_>>())
            .field("held", &self.held.len())
            .finish_non_exhaustive()
    }
}
