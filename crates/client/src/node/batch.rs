//! Batches: records that a set wants next, fetched into the cache in one flight.
//!
//! A set ([`crate::all`]) locks its records one after the other, in order. When it comes to one
//! that is not cached, the node asks for those behind it that are not cached either, in the same
//! write to the server. They are only *fetched*: nobody of this node is inside, so if another node
//! wants one it gets it at once. Fetching locks nothing, and so it can't be a part of a deadlock.
//!
//! | state of a fetch | begins with | ends with |
//! |---|---|---|
//! | asked | [`Node::try_together`]: the line wants the record, for no waiter | the answer |
//! | here | the grant: the record is cached | the set locks it, or it is given back |
//! | over | a refusal: whoever acquires the record will hear of it | |
//!
//! **Invariant:** a set that waits has nothing fetched behind the record that it waits for. The
//! server says `Queued` of a record of the batch: everything behind that one is given back then.
//! The set has to wait for somebody of this node: it gives back everything itself
//! ([`Node::give_back_fetched`]). What was cached before is not touched.

use std::sync::Arc;
use std::task::Waker;

use lockspan_protocol::{Annotation, Mode, Record as Name};

use super::{Core, Node};
#[cfg(test)]
use crate::all::bugs::{self, Bug};
use crate::entry::{Entry, lock};
use crate::record::Record;

/// So many records are fetched at a time, at most.
const TOGETHER: usize = 64;

/// Which batch a fetch is of.
pub(crate) type BatchId = u64;

/// Why a line wants a record for which nobody waits.
#[derive(Debug)]
pub(crate) struct Fetch {
    pub(crate) batch: BatchId,
    pub(crate) mode: Mode,
    pub(crate) note: Option<Annotation>,
}

/// The records of all batches: the one that is waited for, then those that are fetched, in order.
#[derive(Debug, Default)]
pub(super) struct Batches {
    last: BatchId,
    open: std::collections::BTreeMap<BatchId, Vec<Arc<Entry>>>,
}

impl Node {
    /// The first of these records is acquired next. If it is not cached, those behind it that are
    /// not cached either are fetched with it. What is to be sent is left to the caller, who sends
    /// the first one's acquire too: [`Node::send`].
    pub(crate) fn try_together(
        &self,
        records: &[(Record, Mode)],
        note: Option<&Annotation>,
    ) -> Option<BatchId> {
        let ((first, _), behind) = records.split_first()?;
        if !self.habits.caching || behind.is_empty() || !lock(&first.entry.line).is_unused() {
            return None;
        }
        let fetch = |batch, record: &Record, mode| {
            let note = note.or(record.note.as_ref()).cloned();
            Fetch { batch, mode, note }
        };
        let (batch, _) = self.with_core_only(|node, core, wakes| {
            let batch = core.batches.last + 1;
            let mut entries = vec![Arc::clone(&first.entry)];
            for (record, mode) in behind {
                if entries.len() > TOGETHER {
                    break;
                }
                let fetch = || fetch(batch, record, *mode);
                if lock(&record.entry.line).fetch(batch, fetch) {
                    entries.push(Arc::clone(&record.entry));
                    node.settle_entry(core, &record.entry, false, wakes);
                }
            }
            if entries.len() == 1 {
                return None;
            }
            lock(&first.entry.line).batches.push(batch);
            core.batches.last = batch;
            core.batches.open.insert(batch, entries);
            Some(batch)
        });
        batch
    }

    /// Sends what was put to be sent.
    pub(crate) fn send(&self) {
        self.flush(true);
    }

    /// The set has what it wanted.
    pub(crate) fn batch_is_over(&self, batch: BatchId) {
        if self.is_forked() {
            return;
        }
        let entries = lock(&self.core).batches.open.remove(&batch);
        for entry in entries.iter().flatten() {
            lock(&entry.line).leave_batch(batch);
        }
    }

    /// The set gives up, or waits for somebody of this node: gives back what was fetched for it and
    /// is not in use.
    pub(crate) fn give_back_fetched(&self, batch: BatchId) {
        if self.is_forked() {
            return;
        }
        self.with_core(|node, core, wakes| {
            let entries = core.batches.open.remove(&batch).unwrap_or_default();
            if let Some((first, fetched)) = entries.split_first() {
                lock(&first.line).leave_batch(batch);
                node.unfetch(core, batch, fetched, wakes);
            }
        });
    }

    /// The server has put an acquire in its queue: of the batches that it is in, everything behind
    /// it is given back.
    pub(super) fn queued(&self, core: &mut Core, record: &Name, wakes: &mut Vec<Waker>) {
        // Of an acquire that is over.
        if !core.cache.is_in_line(record) {
            return;
        }
        #[cfg(test)]
        if bugs::has(Bug::KeptWhenQueued) {
            return;
        }
        let entry = self.entry(core, record);
        let batches = lock(&entry.line).batches.clone();
        for batch in batches {
            let Some(entries) = core.batches.open.get_mut(&batch) else { continue };
            let at = entries.iter().position(|other| Arc::ptr_eq(other, &entry));
            let behind = at.map_or_else(Vec::new, |at| entries.split_off(at + 1));
            self.unfetch(core, batch, &behind, wakes);
        }
    }

    /// The records of a batch: the one that is waited for, then those that are fetched.
    #[cfg(test)]
    pub(crate) fn batch(&self, batch: BatchId) -> Vec<Arc<Entry>> {
        lock(&self.core).batches.open.get(&batch).cloned().unwrap_or_default()
    }

    /// How many batches there are.
    #[cfg(test)]
    pub(crate) fn open_batches(&self) -> usize {
        lock(&self.core).batches.open.len()
    }

    fn unfetch(
        &self,
        core: &mut Core,
        batch: BatchId,
        fetched: &[Arc<Entry>],
        wakes: &mut Vec<Waker>,
    ) {
        for entry in fetched {
            lock(&entry.line).leave_batch(batch);
            self.settle_entry(core, entry, true, wakes);
        }
    }
}
