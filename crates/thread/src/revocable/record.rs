//! What a lock's word means: names, and the records of the threads that made them.
//!
//! ```text
//!  63   62              44 43                             1    0
//! ┌────┬──────────────────┬───────────────────────────────┬─────┐
//! │mark│  record, from 1  │      number, from 1           │moved│
//! └────┴──────────────────┴───────────────────────────────┴─────┘
//! ```
//!
//! The mark is no part of the name, and set by the backend `signal` alone: see `signals.rs`. A name
//! with the bit `moved` was made by a store that bound its acquisition to another processor (T7):
//! the acquisition's first name is in the lock's `origin` then. Without that bit the name is the
//! acquisition's first.
//!
//! A record belongs to one thread at a time and goes to another one when that ends. Its numbers go
//! on from there: no name comes twice. It is never freed, as a lock may name it at any time.
//!
//! | field     | what its thread says of its names |
//! |-----------|------------------------------------|
//! | `era`     | from this number on they are bound to this processor |
//! | `settled` | up to this one, nobody named before under the same lock is still at work |
//! | `floor`   | those below this name are released |
//! | `section` | the lock that it may be storing under, where the kernel has no sections |
//! | `forks`   | if it lags behind, the thread is not in this process |
//! | `thread`  | the kernel's number of the thread, for signals |
//! | `comes_again` | the signal has come and will come again before a section goes on |
//!
//! All but `section` and the last two only grow, and what is said of a name never becomes false. So
//! it does not matter when a thief reads them, as long as its exchange on the lock's word then
//! finds the name.

use std::cell::Cell;
use std::ptr;

use crate::backend::{Chained, Spares, follow_forks, forget_forks, forks};
use crate::sync::machine::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// The number, and below it the bit `moved`.
const LOW_BITS: u32 = 44;
const NUMBER_BITS: u32 = LOW_BITS - 1;
const CPU_BITS: u32 = 16;
/// The highest number of a processor; the one above stands for none.
pub(super) const CPU_MAX: u32 = (1 << CPU_BITS) - 2;
const CPU: u64 = (1 << CPU_BITS) - 1;
const NUMBER_MAX: u64 = (1 << NUMBER_BITS) - 1;
const RECORDS_MAX: u32 = (1 << 19) - 1;
/// Beside a name in a lock's word: somebody is taking the lock from it.
pub(super) const MARK: u64 = 1 << 63;
const MOVED: u64 = 1;

const _: () = assert!(NUMBER_BITS + CPU_BITS <= 64 && RECORDS_MAX as u64 <= (MARK - 1) >> LOW_BITS);

/// An acquisition on a processor. No two have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name(u64);

impl Name {
    /// The name that a lock's word has, unless it has none.
    #[inline]
    pub(super) fn of(word: u64) -> Option<Self> {
        (word != 0).then_some(Self(word & !MARK))
    }

    #[inline]
    pub(super) fn word(self) -> u64 {
        self.0
    }

    #[inline]
    fn number(self) -> u64 {
        (self.0 >> 1) & NUMBER_MAX
    }

    /// The same number as a name of an acquisition that had another one before.
    pub(super) fn moved(self) -> Self {
        Self(self.0 | MOVED)
    }

    #[inline]
    pub(super) fn has_moved(self) -> bool {
        self.0 & MOVED != 0
    }

    /// The record of the thread that made it.
    pub(super) fn record(self) -> &'static Record {
        at((self.0 >> LOW_BITS) as u32)
    }
}

/// What a thread tells others about its names.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(super) struct Record {
    /// First, where its address takes no addition: each store of an owner reads it.
    floor: AtomicU64,
    index: AtomicU32,
    forks: AtomicU32,
    /// The number that comes next.
    next: AtomicU64,
    /// The first number of the era, and the processor.
    era: AtomicU64,
    settled: AtomicU64,
    pub(super) section: AtomicU64,
    #[cfg(feature = "signals")]
    pub(super) thread: AtomicU32,
    #[cfg(feature = "signals")]
    pub(super) comes_again: AtomicU32,
    /// The next one without a thread.
    spare: AtomicPtr<Self>,
}

impl Chained for Record {
    fn next(&self) -> &AtomicPtr<Self> {
        &self.spare
    }
}

impl Record {
    /// A new name, bound to `cpu`. Only for the record's thread.
    pub(super) fn name(&self, cpu: u32) -> Name {
        let number = self.next.load(Ordering::Relaxed);
        let cpu = u64::from(cpu);
        if self.era.load(Ordering::Relaxed) & CPU != cpu {
            // Release, as all that a thief reads after it has seen a name that comes later.
            self.era.store((number << CPU_BITS) | cpu, Ordering::Release);
        }
        self.next.store(number + 1, Ordering::Relaxed);
        self.with_index(number)
    }

    fn with_index(&self, number: u64) -> Name {
        Name((u64::from(self.index.load(Ordering::Relaxed)) << LOW_BITS) | (number << 1))
    }

    /// The name in a lock's word, if this record's thread made it, and nobody has marked it.
    #[inline]
    pub(super) fn own_name(&self, word: u64) -> Option<Name> {
        let index = u64::from(self.index.load(Ordering::Relaxed));
        (word >> LOW_BITS == index).then_some(Name(word))
    }

    /// The acquisition is over: whoever had the lock before makes no store any more.
    pub(super) fn settle(&self, name: Name) {
        self.settled.store(name.number(), Ordering::Release);
    }

    /// Whether the acquisition is over.
    pub(super) fn has_settled(&self, name: Name) -> bool {
        self.settled.load(Ordering::Acquire) >= name.number()
    }

    /// The processor that the name is bound to, if that can still be said.
    #[inline]
    pub(super) fn cpu_of(&self, name: Name) -> Option<u32> {
        let era = self.era.load(Ordering::Acquire);
        (name.number() >= era >> CPU_BITS).then_some((era & CPU) as u32)
    }

    /// Whether the thread has released it with all others.
    #[inline]
    pub(super) fn has_released(&self, name: Name) -> bool {
        name.word() < self.floor.load(Ordering::Acquire)
    }

    /// Where the lowest name is that was not released.
    #[inline]
    pub(super) fn floor(&self) -> &AtomicU64 {
        &self.floor
    }

    /// Whether the record's thread was left behind in the parent of this process.
    pub(super) fn is_left_behind(&self) -> bool {
        self.forks.load(Ordering::Relaxed) != forks()
    }

    /// Releases all that was named so far.
    pub(super) fn release_all(&self) {
        let next = self.with_index(self.next.load(Ordering::Relaxed));
        self.floor.store(next.word(), Ordering::Release);
    }

    fn is_used_up(&self) -> bool {
        self.next.load(Ordering::Relaxed) >= NUMBER_MAX
    }
}

/// Tables of 1, 2, 4… records. One that was made stays.
static TABLES: [AtomicPtr<Record>; 20] = [const { AtomicPtr::new(ptr::null_mut()) }; 20];
static RECORDS: AtomicU32 = AtomicU32::new(0);
/// Records whose threads have ended.
static SPARES: Spares<Record> = Spares::new();

/// The record with an index from 1 on, which exists.
fn at(index: u32) -> &'static Record {
    let table = index.ilog2();
    let start = TABLES[table as usize].load(Ordering::Acquire);
    let offset = index - (1 << table);
    debug_assert!(!start.is_null(), "no name is used before its record's table is there");
    // SAFETY: the index came from a name, and `new_record` has made the table of `1 << table`
    // records before that; the offset is below.
    let record = unsafe { start.add(offset as usize) };
    // SAFETY: tables are never freed, and records are only shared.
    unsafe { &*record }
}

/// # Panics
/// If 524,287 threads have records at once.
fn new_record() -> &'static Record {
    let index = RECORDS.fetch_add(1, Ordering::Relaxed).saturating_add(1);
    assert!(index <= RECORDS_MAX, "more than {RECORDS_MAX} threads use revocable locks");
    let table = &TABLES[index.ilog2() as usize];
    if table.load(Ordering::Acquire).is_null() {
        let records: Box<[Record]> = (0..1 << index.ilog2()).map(|_| Record::default()).collect();
        let records = Box::into_raw(records);
        let null = ptr::null_mut();
        let first = records.cast::<Record>();
        if table.compare_exchange(null, first, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: made above, and nobody else has seen it.
            drop(unsafe { Box::from_raw(records) });
        }
    }
    let record = at(index);
    record.index.store(index, Ordering::Relaxed);
    record.next.store(1, Ordering::Relaxed);
    // No processor: the first name begins an era.
    record.era.store(CPU, Ordering::Relaxed);
    record
}

/// The calling thread's record, given back when the thread ends.
#[derive(Debug)]
struct Mine(Cell<Option<&'static Record>>);

thread_local! {
    static MINE: Mine = const { Mine(Cell::new(None)) };
    /// The same record, in a cell without a destructor: each acquire reads it.
    static KNOWN: Cell<Option<&'static Record>> = const { Cell::new(None) };
}

impl Drop for Mine {
    fn drop(&mut self) {
        if let Some(record) = self.0.take() {
            // A fork in a later destructor must not speak for the record's next thread.
            forget_forks();
            KNOWN.set(None);
            record.release_all();
            #[cfg(feature = "signals")]
            crate::backend::signal::forget_thread();
            SPARES.leave(record);
        }
    }
}

/// The calling thread's record; none if the thread is about to end.
pub(super) fn mine() -> Option<&'static Record> {
    let record = |mine: &Mine| match mine.0.get() {
        Some(record) if !record.is_used_up() => record,
        used_up => {
            used_up.inspect(|record| record.release_all());
            let record = SPARES.take().unwrap_or_else(new_record);
            follow_forks(&record.forks);
            #[cfg(feature = "signals")]
            crate::backend::signal::follow_thread(
                &record.thread,
                &record.section,
                &record.comes_again,
            );
            mine.0.set(Some(record));
            KNOWN.set(Some(record));
            record
        }
    };
    MINE.try_with(record).ok()
}

/// The calling thread's record, if it has one.
#[inline]
pub(super) fn mine_already() -> Option<&'static Record> {
    KNOWN.get()
}
