//! All records of a node by name, and when which acquire is to be sent again.
//!
//! A slab, and a hash table of indices into it. Nothing ever walks the hash table, so its order
//! decides nothing; it is keyed, so that nobody who chooses names can make them collide. A step
//! looks for one record again and again: where that is, is remembered. The records of each group
//! are in a list, so that a term of a few groups does not look at the records of all.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::hash::BuildHasher as _;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use slab::Slab;

use super::entry::{Ask, Entry};
use crate::annotation::Annotation;
use crate::record::Record;
use crate::slot::{GROUPS, Group, GroupSet};
use crate::time::Tick;

/// No entry.
const NONE: u32 = u32::MAX;

/// All records, and when which acquire is to be sent again.
#[derive(Clone)]
pub(super) struct Records {
    entries: Slab<Named>,
    index: HashTable<u32>,
    hasher: FixedState,
    /// Where the record was that was looked for last.
    last: usize,
    resends: Resends,
    /// The first and the last record of each group, or [`NONE`].
    ends: Box<[(u32, u32); GROUPS]>,
    /// What records were acquired for, as far as that was said.
    notes: BTreeMap<Record, Annotation>,
}

/// When acquires are to be sent again, in order. What is over stays until it comes to the front, or
/// until most are; the front is never over.
#[derive(Clone, Default)]
struct Resends {
    all: VecDeque<(Tick, u32)>,
    /// How many are not over.
    live: usize,
}

impl Resends {
    /// An acquire is begun. Nearly always it is the last to be sent again.
    fn put(&mut self, at: Tick, ix: u32) {
        self.live += 1;
        if self.all.back().is_none_or(|last| *last < (at, ix)) {
            self.all.push_back((at, ix));
        } else if let Err(place) = self.all.binary_search(&(at, ix)) {
            self.all.insert(place, (at, ix));
        }
    }

    /// An acquire is over.
    fn over(&mut self, entries: &Slab<Named>) {
        self.live -= 1;
        while self.all.pop_front_if(|timer| !is_live(entries, timer)).is_some() {}
        if self.all.len() > 2 * self.live + 64 {
            self.all.retain(|timer| is_live(entries, timer));
        }
    }
}

/// Whether there is an acquire for this timer.
fn is_live(entries: &Slab<Named>, &(at, ix): &(Tick, u32)) -> bool {
    let asked = entries.get(ix as usize).and_then(|named| named.entry.asked);
    asked.is_some_and(|ask| ask.resend_at == at)
}

#[derive(Clone, Debug)]
struct Named {
    name: Record,
    hash: u64,
    entry: Entry,
    /// Its neighbours in the list of its group, or [`NONE`].
    before: u32,
    after: u32,
}

impl Records {
    /// None yet. The key should be drawn at random.
    pub(super) fn new(key: u64) -> Self {
        Self {
            entries: Slab::new(),
            index: HashTable::new(),
            hasher: FixedState::with_seed(key),
            last: 0,
            resends: Resends::default(),
            ends: Box::new([(NONE, NONE); GROUPS]),
            notes: BTreeMap::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    #[inline]
    fn find(&self, record: &Record) -> Option<usize> {
        if self.entries.get(self.last).is_some_and(|named| named.name == *record) {
            return Some(self.last);
        }
        self.find_by(self.hash_of(record), record)
    }

    fn find_by(&self, hash: u64, record: &Record) -> Option<usize> {
        let is_it = |&ix: &u32| self.entries[ix as usize].name == *record;
        self.index.find(hash, is_it).map(|&ix| ix as usize)
    }

    fn hash_of(&self, record: &Record) -> u64 {
        self.hasher.hash_one(record.as_bytes())
    }

    pub(super) fn get(&self, record: &Record) -> Option<&Entry> {
        self.find(record).map(|ix| &self.entries[ix].entry)
    }

    /// A step is about this record: it looks for it again and again.
    #[inline]
    pub(super) fn turn_to(&mut self, record: &Record) {
        self.last = self.find(record).unwrap_or(self.last);
    }

    /// To change what is held, wanted or drained; acquires are changed by the methods below.
    pub(super) fn get_mut(&mut self, record: &Record) -> Option<&mut Entry> {
        self.last = self.find(record)?;
        Some(&mut self.entries[self.last].entry)
    }

    pub(super) fn get_or_new(&mut self, record: &Record) -> &mut Entry {
        if self.entries.get(self.last).is_none_or(|named| named.name != *record) {
            let hash = self.hash_of(record);
            self.last = match self.find_by(hash, record) {
                Some(ix) => ix,
                None => self.insert(hash, record.clone()),
            };
        }
        &mut self.entries[self.last].entry
    }

    fn insert(&mut self, hash: u64, name: Record) -> usize {
        let group = usize::from(name.group().0);
        let before = self.ends[group].1;
        let named = Named { name, hash, entry: Entry::default(), before, after: NONE };
        let ix = self.entries.insert(named);
        let place = u32::try_from(ix).ok().filter(|&place| place != NONE);
        let place = place.expect("the limits keep the slab below 2^32 - 1 entries");
        match self.entries.get_mut(before as usize) {
            Some(before) => before.after = place,
            None => self.ends[group].0 = place,
        }
        self.ends[group].1 = place;
        let entries = &self.entries;
        let rehash = |&ix: &u32| entries[ix as usize].hash;
        self.index.insert_unique(hash, place, rehash);
        ix
    }

    /// All of them, in an order that only depends on what happened before.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Record, &Entry)> {
        self.entries.iter().map(|(_, named)| (&named.name, &named.entry))
    }

    /// The records for which this is true, in the same order.
    pub(super) fn which(&self, is_so: impl Fn(&Record, &Entry) -> bool) -> Vec<Record> {
        let chosen = self.iter().filter(|&(record, entry)| is_so(record, entry));
        chosen.map(|(record, _)| record.clone()).collect()
    }

    /// The records of these groups, in an order that only depends on what happened before.
    pub(super) fn iter_in(&self, groups: GroupSet) -> impl Iterator<Item = (&Record, &Entry)> {
        let first = move |group: Group| self.ends[usize::from(group.0)].0;
        let at = |place: u32| self.entries.get(place as usize);
        groups.iter().flat_map(move |group| {
            std::iter::successors(at(first(group)), move |named| at(named.after))
                .map(|named| (&named.name, &named.entry))
        })
    }

    /// The records of these groups for which this is true, in the same order.
    pub(super) fn which_in(
        &self,
        groups: GroupSet,
        is_so: impl Fn(&Record, &Entry) -> bool,
    ) -> Vec<Record> {
        let chosen = self.iter_in(groups).filter(|&(record, entry)| is_so(record, entry));
        chosen.map(|(record, _)| record.clone()).collect()
    }

    /// The groups of which there are records.
    pub(super) fn groups(&self) -> GroupSet {
        let groups = (0..=u8::MAX).map(Group);
        groups.filter(|group| self.ends[usize::from(group.0)].0 != NONE).collect()
    }

    /// An acquire has been sent, or must be later; it replaces the one before.
    pub(super) fn put_ask(&mut self, record: &Record, ask: Ask) {
        self.take_ask(record);
        if let Some(entry) = self.get_mut(record) {
            entry.asked = Some(ask);
            self.resends.put(ask.resend_at, self.last as u32);
        }
    }

    /// The acquire is over.
    pub(super) fn take_ask(&mut self, record: &Record) -> Option<Ask> {
        let ask = self.get_mut(record)?.asked.take()?;
        self.resends.over(&self.entries);
        Some(ask)
    }

    /// What the record was acquired for, if that was said.
    pub(super) fn note(&self, record: &Record) -> Option<&Annotation> {
        if self.notes.is_empty() { None } else { self.notes.get(record) }
    }

    /// Says what a record of this node was acquired for.
    pub(super) fn set_note(&mut self, record: &Record, note: Annotation) {
        if self.get(record).is_some() {
            self.notes.insert(record.clone(), note);
        }
    }

    /// The record is acquired for something else.
    pub(super) fn clear_note(&mut self, record: &Record) {
        if !self.notes.is_empty() {
            self.notes.remove(record);
        }
    }

    /// Forgets the record if nothing is known about it any more.
    pub(super) fn tidy(&mut self, record: &Record) {
        if self.get_mut(record).is_some_and(|entry| entry.is_absent()) {
            self.clear_note(record);
            let ix = self.last;
            let Named { hash, name, before, after, .. } = self.entries.remove(ix);
            let ends = &mut self.ends[usize::from(name.group().0)];
            match self.entries.get_mut(before as usize) {
                Some(named) => named.after = after,
                None => ends.0 = after,
            }
            match self.entries.get_mut(after as usize) {
                Some(named) => named.before = before,
                None => ends.1 = before,
            }
            let found = self.index.find_entry(hash, |&other| other as usize == ix);
            found.expect("a record in the slab is in the index").remove();
        }
    }

    /// When the next acquire is to be sent again.
    pub(super) fn next_resend(&self) -> Option<Tick> {
        self.resends.all.front().map(|&(at, _)| at)
    }

    /// The records whose acquire is to be sent again by `now`.
    pub(super) fn due(&self, now: Tick) -> Vec<Record> {
        let due = self.resends.all.iter().take_while(|&&(at, _)| at <= now);
        let due = due.filter(|timer| is_live(&self.entries, timer));
        due.map(|&(_, ix)| self.entries[ix as usize].name.clone()).collect()
    }

    /// Whether the timers are those of the acquires, and every record is found.
    pub(super) fn fits(&self) -> bool {
        let asks = self.entries.iter().filter_map(|(ix, named)| {
            named.entry.asked.map(|ask| (ask.resend_at, u32::try_from(ix).unwrap_or(u32::MAX)))
        });
        let asks: BTreeSet<_> = asks.collect();
        let timers = self.resends.all.iter().filter(|timer| is_live(&self.entries, timer));
        let is_live = |front| is_live(&self.entries, front);
        asks == timers.copied().collect()
            && asks.len() == self.resends.live
            && self.resends.all.iter().is_sorted()
            && self.resends.all.front().is_none_or(is_live)
            && self.index.len() == self.entries.len()
            && self.iter_in(GroupSet::ALL).count() == self.entries.len()
            && self.entries.iter().all(|(ix, named)| self.find(&named.name) == Some(ix))
            && self.notes.keys().all(|record| self.find(record).is_some())
    }
}

/// What is known, by name: where it lies does not matter.
impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by_name: BTreeMap<_, _> = self.iter().collect();
        f.debug_tuple("Records").field(&by_name).finish()
    }
}
