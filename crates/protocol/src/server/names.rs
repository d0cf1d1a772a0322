//! The records of a table by name: a slab, and a hash table of indices into it.
//!
//! The hash is keyed by a number that the driver draws, so that nobody who chooses names can make
//! them collide. Nothing ever walks the hash table, so its order decides nothing.

use std::hash::{DefaultHasher, Hasher as _};

use hashbrown::HashTable;
use slab::Slab;

use super::claims::{ClaimIx, List, RecordIx};
use crate::mode::Mode;
use crate::record::Record;
use crate::slot::Group;
use crate::time::Tick;

/// A record with at least one claim. Two neighbouring cache lines.
#[derive(Clone, Debug)]
#[repr(align(128))]
pub(super) struct Entry {
    pub(super) name: Record,
    /// Of its name.
    hash: u64,
    pub(super) holders: List,
    pub(super) readers: List,
    pub(super) writers: List,
    pub(super) upgrader: ClaimIx,
    pub(super) group: Group,
    /// Where its datatype is counted.
    pub(super) counted: u8,
    /// A writer has left: the readers that wait now go before the next writer.
    pub(super) readers_due: bool,
    /// What every holder was told that others want and that is in their way; nothing if some were
    /// told otherwise.
    pub(super) told: Option<Option<Mode>>,
    /// It is looked at again then, because somebody waits.
    pub(super) alarm: Option<Tick>,
    /// How often in a row that was in vain.
    pub(super) repeats: u8,
    /// It has so many claims that they are indexed.
    pub(super) is_crowded: bool,
    /// Holders that have a retry and have not acquired again.
    pub(super) reserved: u32,
}

const _: () = assert!(size_of::<Entry>() == 128);

impl Entry {
    pub(super) fn waiters(&self) -> u32 {
        self.readers.len + self.writers.len + u32::from(self.upgrader.some().is_some())
    }

    /// Number of holders and waiters.
    pub(super) fn claims(&self) -> u32 {
        self.holders.len + self.waiters()
    }

    pub(super) fn is_unused(&self) -> bool {
        self.claims() == 0
    }

    /// The writer whose turn it is, if the record is free.
    pub(super) fn next_writer(&self) -> Option<ClaimIx> {
        self.writers.head.some().filter(|_| self.holders.is_empty())
    }

    /// The strongest wish of those who wait.
    pub(super) fn wanted(&self) -> Option<Mode> {
        if !self.writers.is_empty() || self.upgrader.some().is_some() {
            Some(Mode::Write)
        } else if !self.readers.is_empty() {
            Some(Mode::Read)
        } else {
            None
        }
    }
}

/// The hash of a name in one table.
#[derive(Clone, Copy, Debug)]
pub(super) struct NameHash(u64);

/// All records of a table.
#[derive(Clone, Debug)]
pub(super) struct Names {
    entries: Slab<Entry>,
    index: HashTable<u32>,
    key: u64,
}

impl Names {
    pub(super) fn new(key: u64) -> Self {
        Self { entries: Slab::new(), index: HashTable::new(), key }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn get(&self, ix: RecordIx) -> &Entry {
        &self.entries[ix.key()]
    }

    pub(super) fn get_mut(&mut self, ix: RecordIx) -> &mut Entry {
        &mut self.entries[ix.key()]
    }

    /// The entry, if the index is one; timers may outlive their record.
    pub(super) fn try_get_mut(&mut self, ix: RecordIx) -> Option<&mut Entry> {
        self.entries.get_mut(ix.key())
    }

    pub(super) fn find(&self, name: &Record) -> Option<RecordIx> {
        self.find_by(self.hash_of(name), name)
    }

    /// The same, for who has its hash.
    pub(super) fn find_by(&self, NameHash(hash): NameHash, name: &Record) -> Option<RecordIx> {
        let found = self.index.find(hash, |&ix| self.entries[ix as usize].name == *name)?;
        Some(RecordIx::new(*found as usize))
    }

    /// What a name is found by. Who looks for it and may insert it afterwards asks once.
    pub(super) fn hash_of(&self, name: &Record) -> NameHash {
        NameHash(hash_of(self.key, name))
    }

    /// Adds a name that is not there, with its hash.
    pub(super) fn insert(
        &mut self,
        NameHash(hash): NameHash,
        name: Record,
        group: Group,
        counted: u8,
    ) -> RecordIx {
        let key = self.entries.insert(Entry {
            name,
            hash,
            holders: List::EMPTY,
            readers: List::EMPTY,
            writers: List::EMPTY,
            upgrader: ClaimIx::NONE,
            group,
            counted,
            readers_due: false,
            told: Some(None),
            alarm: None,
            repeats: 0,
            is_crowded: false,
            reserved: 0,
        });
        let ix = RecordIx::new(key);
        let entries = &self.entries;
        let rehash = |&ix: &u32| entries[ix as usize].hash;
        self.index.insert_unique(hash, key as u32, rehash);
        ix
    }

    pub(super) fn remove(&mut self, ix: RecordIx) -> Entry {
        let entry = self.entries.remove(ix.key());
        let found = self.index.find_entry(entry.hash, |&other| other as usize == ix.key());
        found.expect("a record in the slab is in the index").remove();
        entry
    }

    /// Every entry is at a place below this.
    pub(super) fn places(&self) -> usize {
        self.entries.capacity()
    }

    /// The entry at a place, where it stays.
    pub(super) fn at(&self, place: usize) -> Option<&Entry> {
        self.entries.get(place)
    }

    /// All of them, in an order that only depends on what happened before.
    pub(super) fn iter(&self) -> impl Iterator<Item = (RecordIx, &Entry)> {
        self.entries.iter().map(|(key, entry)| (RecordIx::new(key), entry))
    }
}

/// SipHash of the key and the name.
fn hash_of(key: u64, name: &Record) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write_u64(key);
    hasher.write(name.as_bytes());
    hasher.finish()
}
