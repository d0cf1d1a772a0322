//! The index: an ordered tree of records that readers compare and updates change.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Records in the index.
const RECORDS: u32 = 16_384;
/// Records that a lookup reads, from its key on.
const READ: usize = 12;

/// Two words that every update changes alike: a lookup that finds them different has met one.
#[derive(Default)]
struct Record([AtomicU64; 2]);

pub(crate) struct Index(BTreeMap<u32, Record>);

impl Index {
    pub(crate) fn new() -> Self {
        Self((0..RECORDS).map(|key| (key, Record::default())).collect())
    }

    /// Keys are below this.
    pub(crate) const fn end() -> u32 {
        RECORDS
    }

    /// Reads some records, which no thread may change meanwhile.
    #[inline(never)]
    pub(crate) fn look(&self, key: u32) -> u64 {
        let mut sum = 0;
        for Record([one, two]) in self.0.range(key..).map(|(_, record)| record).take(READ) {
            let (one, two) = (one.load(Relaxed), two.load(Relaxed));
            if one != two {
                eprintln!("a lookup saw a change that was not whole: {one} and {two}");
                std::process::abort();
            }
            sum += one;
        }
        sum
    }

    /// Changes a record while other threads may change records too.
    #[inline(never)]
    pub(crate) fn change(&self, key: u32) {
        for word in &self.0[&key].0 {
            word.fetch_add(1, Relaxed);
        }
    }

    /// Changes a record alone.
    #[inline(never)]
    pub(crate) fn change_alone(&mut self, key: u32) {
        for word in self.0.get_mut(&key).into_iter().flat_map(|record| &mut record.0) {
            *word.get_mut() += 1;
        }
    }

    /// Changes so far.
    pub(crate) fn changes(self) -> u64 {
        self.0.into_values().map(|Record([one, _])| one.into_inner()).sum()
    }
}
