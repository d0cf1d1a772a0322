//! Commands that acquire, and wait for their answer.
//!
//! They are found by what they wait for, and, when a connection goes, by whose they are: so a
//! connection that goes does not look at what others wait for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockspan_protocol::server::table::ClaimView;
use lockspan_protocol::{Epoch, Mode, Owner, Record, Seq, Term, ToServer};
use lockspan_wire::{ErrorCode, Value, Wait};

use super::super::lock::LockTag;
use super::super::patience::PatienceKey;
use super::super::work::Work;
use super::{Inner, Seat};
use crate::net::outbox::{Outbox, Slot};

/// What a command waits for.
type Acquire = (Record, Seq);

/// A command that acquires, and waits for its answer.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) slot: Slot,
    pub(crate) wait: Wait,
    pub(crate) mode: Mode,
    pub(crate) epoch: Epoch,
    /// The session reads the record meanwhile.
    pub(crate) upgrade: bool,
    /// What it reads it as, if it is an upgrade.
    pub(crate) base: Option<Seq>,
    pub(crate) owners: Vec<Owner>,
    /// What ends the wait in time.
    pub(crate) timer: Option<PatienceKey>,
    /// Which lock it is, if it is an `LS.LOCK`.
    pub(crate) lock: Option<LockTag>,
}

impl Ask {
    pub(in crate::service) fn answer(self, value: &Value, work: &mut Work) {
        work.patience_over.extend(self.timer);
        self.slot.fill(value, &mut work.dirty);
    }

    /// The acquire, said again.
    pub(super) fn message(&self, record: &Record, seq: Seq) -> ToServer {
        ToServer::Acquire {
            record: record.clone(),
            mode: self.mode,
            seq,
            epoch: self.epoch,
            upgrade: self.upgrade,
            owners: self.owners.clone(),
        }
    }
}

/// An acquire that only commands of a connection which has gone waited for.
#[derive(Debug)]
pub(in crate::service) struct Forsaken {
    pub(in crate::service) record: Record,
    pub(in crate::service) seq: Seq,
    /// What the session reads meanwhile, if it is an upgrade.
    pub(in crate::service) base: Option<Seq>,
    /// Which lock it is, if it is an `LS.LOCK`.
    pub(in crate::service) lock: Option<LockTag>,
}

/// The commands of a session that wait.
#[derive(Debug, Default)]
pub(super) struct Asks {
    all: BTreeMap<Acquire, Vec<Ask>>,
    /// What the commands of each connection wait for, once it is known that they do: most acquires
    /// are answered at once.
    of_connection: BTreeMap<u64, BTreeSet<Acquire>>,
}

impl Asks {
    /// Of how many acquires.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Ask> {
        self.all.values().flatten()
    }

    /// Those that wait for this acquire.
    pub(super) fn of(&self, record: &Record, seq: Seq) -> &[Ask] {
        self.all.get(&(record.clone(), seq)).map_or(&[], Vec::as_slice)
    }

    /// The same, to be changed in place.
    pub(super) fn of_mut(&mut self, record: &Record, seq: Seq) -> &mut [Ask] {
        self.all.get_mut(&(record.clone(), seq)).map_or(&mut [], Vec::as_mut_slice)
    }

    /// Takes all that wait for this acquire.
    pub(super) fn take(&mut self, record: &Record, seq: Seq) -> Option<Vec<Ask>> {
        let key = (record.clone(), seq);
        let taken = self.all.remove(&key)?;
        self.unlist(&key, &taken);
        Some(taken)
    }

    /// Takes those of this acquire that `is_it` says.
    pub(super) fn take_if(
        &mut self,
        record: &Record,
        seq: Seq,
        is_it: impl Fn(&Ask) -> bool,
    ) -> Vec<Ask> {
        let key = (record.clone(), seq);
        let Some(asks) = self.all.get_mut(&key) else { return Vec::new() };
        let taken: Vec<_> = asks.extract_if(.., |ask| is_it(ask)).collect();
        if asks.is_empty() {
            self.all.remove(&key);
        }
        self.unlist(&key, &taken);
        taken
    }

    /// Takes those of all acquires from `first` to `last` that `is_it` says.
    fn take_all(
        &mut self,
        range: impl std::ops::RangeBounds<Acquire>,
        mut is_it: impl FnMut(&Acquire, &[Ask]) -> bool,
    ) -> Vec<(Acquire, Vec<Ask>)> {
        let taken = self.all.extract_if(range, |key, asks| is_it(key, asks));
        let taken: Vec<_> = taken.collect();
        taken.iter().for_each(|(key, asks)| self.unlist(key, asks));
        taken
    }

    /// The command does wait.
    fn list(&mut self, record: &Record, seq: Seq, slot: &Slot) {
        let key = (record.clone(), seq);
        let waits = self.all.get(&key).is_some_and(|asks| asks.iter().any(|it| it.slot == *slot));
        if waits {
            self.of_connection.entry(slot.connection()).or_default().insert(key);
        }
    }

    /// These are taken; others of the same connection may wait for the same.
    fn unlist(&mut self, key: &Acquire, taken: &[Ask]) {
        for connection in taken.iter().map(|ask| ask.slot.connection()) {
            let left = self.all.get(key).map_or(&[][..], Vec::as_slice);
            if left.iter().any(|ask| ask.slot.connection() == connection) {
                continue;
            }
            if let Some(keys) = self.of_connection.get_mut(&connection) {
                keys.remove(key);
                if keys.is_empty() {
                    self.of_connection.remove(&connection);
                }
            }
        }
    }
}

impl Seat {
    /// A command waits for what becomes of this acquire.
    pub(in crate::service) fn ask(&self, record: Record, seq: Seq, ask: Ask) {
        self.lock().asks.all.entry((record, seq)).or_default().push(ask);
    }

    /// The acquire was not answered at once, if this command still waits for it.
    pub(in crate::service) fn goes_on_asking(&self, record: &Record, seq: Seq, slot: &Slot) {
        if self.is_busy() {
            self.lock().asks.list(record, seq, slot);
        }
    }

    /// How many commands wait for what becomes of this acquire.
    pub(in crate::service) fn asked(&self, record: &Record, seq: Seq) -> usize {
        if !self.is_busy() {
            return 0;
        }
        self.lock().asks.of(record, seq).len()
    }

    /// Whether it matters here what becomes of an acquire.
    pub(in crate::service) fn is_busy(&self) -> bool {
        self.busy.load(std::sync::atomic::Ordering::Relaxed) > 0
    }

    /// Who holds this grant, if a command has named them.
    pub(in crate::service) fn owners(&self, record: &Record, seq: Seq) -> Vec<Owner> {
        self.lock().owners.get(&(record.clone(), seq)).cloned().unwrap_or_default()
    }

    /// The grant goes on with another number.
    pub(in crate::service) fn renumber(&self, record: &Record, seq: Seq, new: Seq) {
        let mut inner = self.lock();
        if let Some(owners) = inner.owners.remove(&(record.clone(), seq)) {
            inner.owners.insert((record.clone(), new), owners);
        }
    }

    /// Nobody could be told that what was `old` has a new number: both mean it from now on.
    pub(in crate::service) fn rename(&self, record: &Record, old: Seq, new: Seq) {
        let renamed = &mut self.lock().renamed;
        let old = renamed.get(record).map_or(old, |&(first, _)| first.min(old));
        renamed.insert(record.clone(), (old, new));
    }

    /// The present number of what a client knows as `seq`.
    pub(in crate::service) fn present(&self, record: &Record, seq: Seq) -> Seq {
        if !self.is_busy() {
            return seq;
        }
        let inner = self.lock();
        let renamed = inner.renamed.get(record).filter(|(old, new)| (*old..*new).contains(&seq));
        renamed.map_or(seq, |&(_, new)| new)
    }

    /// This is what the session has at the record now. Commands that wait there for something
    /// else hear that a later acquire or a release has ended it.
    pub(in crate::service) fn supersede(
        &self,
        record: &Record,
        holding: Option<&ClaimView>,
        waiting: Option<&ClaimView>,
        challenging: Option<Seq>,
        work: &mut Work,
    ) {
        let mut inner = self.lock();
        let all = || (record.clone(), Seq(0))..=(record.clone(), Seq(u64::MAX));
        let held = holding.map(|claim| claim.seq);
        inner.owners.extract_if(all(), |(_, seq), _| held != Some(*seq)).for_each(drop);
        if inner.renamed.get(record).is_some_and(|&(_, new)| held != Some(new)) {
            inner.renamed.remove(record);
        }
        let reserved = holding.filter(|claim| claim.token.is_none());
        let [reserved, waiting] = [reserved, waiting].map(|claim| claim.map(|claim| claim.seq));
        let in_line = [reserved, waiting, challenging];
        let over = inner.asks.take_all(all(), |(_, seq), _| !in_line.contains(&Some(*seq)));
        let text = "this acquire has ended: the session released the record, or acquired it again";
        let value = Value::error(ErrorCode::Stale, text);
        for ask in over.into_iter().flat_map(|(_, asks)| asks) {
            ask.answer(&value, work);
        }
    }

    /// The acquire was refused: all its commands hear so.
    pub(in crate::service) fn refuse(
        &self,
        record: &Record,
        seq: Seq,
        value: &Value,
        work: &mut Work,
    ) {
        let asks = self.lock().asks.take(record, seq);
        for ask in asks.into_iter().flatten() {
            ask.answer(value, work);
        }
    }

    /// The wait of this command is over, if it still waits; and whether another waits for the same.
    pub(in crate::service) fn unask(
        &self,
        record: &Record,
        seq: Seq,
        slot: &Slot,
    ) -> Option<(Ask, bool)> {
        let mut inner = self.lock();
        let ask = inner.asks.take_if(record, seq, |ask| ask.slot == *slot).pop()?;
        let is_shared = !inner.asks.of(record, seq).is_empty();
        Some((ask, is_shared))
    }

    /// The acquires that only commands of this connection wait for: it has gone.
    pub(in crate::service) fn forsaken(
        &self,
        outbox: &Arc<Outbox>,
        work: &mut Work,
    ) -> Vec<Forsaken> {
        let mut inner = self.lock();
        inner.opens.retain(|slot| !slot.is_of(outbox));
        inner.lock_opens.retain(|ask| !ask.slot.is_of(outbox));
        let waits = inner.asks.of_connection.remove(&outbox.id).unwrap_or_default();
        let mut gone = Vec::new();
        for (record, seq) in waits {
            let asks = inner.asks.of(&record, seq);
            let base = asks.iter().find_map(|ask| ask.base);
            let lock = asks.iter().find_map(|ask| ask.lock);
            let left = inner.asks.take_if(&record, seq, |ask| ask.slot.is_of(outbox));
            work.patience_over.extend(left.into_iter().filter_map(|ask| ask.timer));
            if inner.asks.of(&record, seq).is_empty() {
                gone.push(Forsaken { record, seq, base, lock });
            }
        }
        gone
    }

    /// All commands that wait are answered by this.
    pub(in crate::service) fn answer_all(&self, value: &Value, work: &mut Work) {
        let mut inner = self.lock();
        for asks in std::mem::take(&mut inner.asks).all.into_values() {
            asks.into_iter().for_each(|ask| ask.answer(value, work));
        }
        let locks = inner.lock_opens.drain(..).map(|ask| ask.slot).collect::<Vec<_>>();
        let slots = inner.opens.drain(..).chain(locks);
        slots.for_each(|slot| slot.fill(value, &mut work.dirty));
    }

    /// Acquires of an earlier epoch wait in no line any more.
    pub(super) fn term_began(self: &Arc<Self>, inner: &mut Inner, term: Term, work: &mut Work) {
        let text = "a new term has started, and waits of the last one have ended; acquire again";
        let value = Value::error(ErrorCode::Loading, text);
        let over = inner.asks.take_all(.., |(record, _), asks| {
            term.groups.contains(record.group()) && asks.iter().any(|ask| ask.epoch < term.epoch)
        });
        for (_, asks) in over {
            // Nobody can ask for such a lock again.
            if asks.iter().any(|ask| ask.lock.is_some_and(|lock| !lock.brought)) {
                work.over.push(Arc::clone(self));
            }
            asks.into_iter().for_each(|ask| ask.answer(&value, work));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lockspan_protocol::{Handoff, SessionId};
    use lockspan_tls::Stream;
    use lockspan_wire::PublicId;
    use tokio::net::UnixStream;

    use super::*;
    use crate::net::budget::Budget;

    fn ask(slot: Slot) -> Ask {
        Ask {
            slot,
            wait: Wait::Forever,
            mode: Mode::Write,
            epoch: Epoch::NONE,
            upgrade: false,
            base: None,
            owners: Vec::new(),
            timer: None,
            lock: None,
        }
    }

    /// A connection that goes looks at what its own commands wait for, however many others wait.
    #[tokio::test]
    async fn service_f76_what_a_connection_waits_for_is_found_by_its_number() {
        let seat = Seat::new(
            (SessionId(1), PublicId::of_hash(1)),
            Duration::from_secs(1),
            Handoff::Direct,
            None,
        );
        let (one, other) = UnixStream::pair().expect("two ends");
        let [one, other] = [(1, one), (2, other)].map(|(number, stream)| {
            Outbox::new(number, Stream::Unix(stream), 1 << 20, &Budget::new(1 << 20))
        });
        let record = |number: u64| Record::new("a", number.to_string()).expect("a name");
        let wait = |outbox: &Arc<Outbox>, number: u64| {
            let slot = outbox.open_slot();
            seat.ask(record(number), Seq(number), ask(slot.clone()));
            seat.goes_on_asking(&record(number), Seq(number), &slot);
            slot
        };
        for number in 1..=1_000 {
            wait(&one, number);
        }
        // Both wait for one of them, and the other for one of its own.
        let shared = wait(&other, 1_000);
        wait(&other, 2_000);
        let of = |number: u64| seat.lock().asks.of_connection.get(&number).map_or(0, BTreeSet::len);
        assert_eq!((of(1), of(2)), (1_000, 2));

        // An answer takes it out of the list of each who waited for it.
        let mut work = Work::default();
        seat.refuse(&record(7), Seq(7), &Value::OK, &mut work);
        assert_eq!(of(1), 999);
        let (_, is_shared) = seat.unask(&record(1_000), Seq(1_000), &shared).expect("it waits");
        assert!(is_shared);
        assert_eq!((of(1), of(2)), (999, 1));
        wait(&other, 1_000);

        let gone: Vec<_> = seat.forsaken(&other, &mut work).into_iter().map(|it| it.seq).collect();
        assert_eq!(gone, [Seq(2_000)], "the other one is still waited for");
        assert_eq!((of(1), of(2), seat.lock().asks.len()), (999, 0, 999));
        assert_eq!(seat.forsaken(&one, &mut work).len(), 999);
        assert!(seat.lock().asks.is_empty() && seat.lock().asks.of_connection.is_empty());
    }
}
