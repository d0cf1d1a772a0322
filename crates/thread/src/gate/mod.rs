//! A read-write lock that a keeper opens and shuts: the fast path of a cached record.
//!
//! Threads enter and leave with one compare-and-swap each, as long as the keeper has opened the
//! gate for what they want. The keeper is code with its own mutex and queue of waiters. It is
//! called only when the gate is shut for a thread, or when a thread leaves a gate that the keeper
//! watches. The gate has no queue and no data, and never waits.
//!
//! # The word
//!
//! ```text
//!  63            32 31     28   27      26      25      24    23        0
//! ┌────────────────┬─────────┬───────┬───────┬───────┬───────┬───────────┐
//! │   generation   │    0    │WATCHED│WRITES │ READS │WRITER │  READERS  │
//! └────────────────┴─────────┴───────┴───────┴───────┴───────┴───────────┘
//! ```
//!
//! | field | meaning |
//! |---|---|
//! | `READERS`, `WRITER` | the threads inside |
//! | `READS`, `WRITES` | readers, a writer may enter without asking the keeper |
//! | `WATCHED` | a thread that leaves tells the keeper |
//! | generation | how often all threads inside were declared lost |
//!
//! # Invariants
//!
//! - **I1** `WRITER` and `READERS > 0` are never together.
//! - **I2** A thread that entered in an earlier generation is not in any more, whatever it does.
//! - **I3** Once `READS` and `WRITES` are clear, only [`Gate::admit`] and [`Gate::upgrade`] let
//!   anybody in, and only the keeper calls them. So a keeper that shuts the gate and then finds
//!   nobody in knows that nobody is.
//! - **I4** A thread that leaves after `WATCHED` was set tells the keeper; one that left before is
//!   seen to be out.
//! - **I5** A [`Pass`] is given back once: it is neither `Copy` nor `Clone`, and [`Gate::leave`]
//!   and [`Gate::downgrade`] consume it. After [`Gate::upgrade`] the owner throws the old pass away
//!   and has the new one. Even if it does not, no change takes from a field more than it has.
//!
//! Every event is one read-modify-write on the word, so each of the two in I4 comes first.
//!
//! # Transitions
//!
//! | id | from → to | call | ordering | pairs with |
//! |----|-----------|------|----------|------------|
//! | T1 | open, not excluded → in | [`Gate::enter`], [`Gate::admit`] | Acquire | T2, T3, T5 |
//! | T2 | in → out | [`Gate::leave`] | Release | T1, T4, T6 |
//! | T3 | bits → other bits | [`Gate::open`] | Release | T1 |
//! | T4 | only reader → `WRITER` | [`Gate::upgrade`] | Acquire | T2 |
//! | T5 | `WRITER` → one reader | [`Gate::downgrade`] | Release | T1 |
//! | T6 | – | [`Gate::inside`] | Acquire | T2 |
//! | T7 | → next generation, empty, shut | [`Gate::lose`] | Relaxed | – |
//!
//! T3 publishes what belongs to the opening, such as a token. T7 publishes nothing: a value that
//! must be seen only together with the new generation is stored after T7, with release, and a
//! thread that reads the value reads the generation after it.

#[cfg(all(test, lockspan_loom))]
mod loom;
mod ord;
#[cfg(all(test, not(any(lockspan_loom, lockspan_shuttle))))]
mod tests;

use crate::sync::{AtomicU64, Ordering};

const READERS: u64 = (1 << 24) - 1;
const READER: u64 = 1;
const WRITER: u64 = 1 << 24;
const READS: u64 = 1 << 25;
const WRITES: u64 = 1 << 26;
const WATCHED: u64 = 1 << 27;
const GENERATION: u32 = 32;

// The picture above, checked.
const _: () = assert!(READERS & (WRITER | READS | WRITES | WATCHED) == 0);
const _: () = assert!((WRITER | READS | WRITES | WATCHED | READERS) >> GENERATION == 0);

/// How somebody is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Use {
    /// Beside other readers.
    Read,
    /// Alone.
    Write,
}

/// A thread that is in. It is given back to [`Gate::leave`], once:
///
/// ```compile_fail,E0382
/// use lockspan_thread::gate::{Gate, Opening, Use};
/// let gate = Gate::new();
/// gate.open(Opening { reads: true, ..Opening::default() });
/// let pass = gate.enter(Use::Read).unwrap();
/// gate.leave(pass);
/// gate.leave(pass); // it is gone
/// ```
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a pass that is not given back stays in forever"]
pub struct Pass {
    how: Use,
    generation: u32,
}

impl Pass {
    /// How its owner is in.
    #[inline]
    #[must_use]
    pub fn how(&self) -> Use {
        self.how
    }

    /// Its owner, as a keeper knows it that is to upgrade it later.
    #[inline]
    #[must_use]
    pub fn reader(&self) -> Reader {
        Reader { generation: self.generation }
    }
}

/// A reader that wants to be the writer, for [`Gate::upgrade`]. It cannot be given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reader {
    generation: u32,
}

/// What a gate is open for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    /// Readers may come in.
    pub reads: bool,
    /// Writers may come in.
    pub writes: bool,
    /// Who leaves tells the keeper.
    pub watched: bool,
}

impl Opening {
    fn bits(self) -> u64 {
        let bit = |is_set: bool, bit: u64| if is_set { bit } else { 0 };
        bit(self.reads, READS) | bit(self.writes, WRITES) | bit(self.watched, WATCHED)
    }
}

/// Who is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inside {
    /// How many read.
    pub readers: u32,
    /// Whether one writes.
    pub writer: bool,
}

impl Inside {
    /// Nobody is.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// How a thread has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Nobody needs to know.
    Unseen,
    /// The keeper is to be told.
    Watched,
    /// It had been declared lost and was not in any more.
    Lost,
}

/// The word; see the [module](self). A new gate is shut and empty.
#[derive(Debug)]
pub struct Gate(AtomicU64);

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Gate {
    /// A gate that is shut, with nobody in.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Goes in if the gate is open for that and nobody is in the way (T1).
    #[inline]
    pub fn enter(&self, how: Use) -> Option<Pass> {
        let opened = match how {
            Use::Read => READS,
            Use::Write => WRITES,
        };
        self.go_in(how, opened)
    }

    /// Lets somebody in through a gate that may be shut, if nobody is in the way (T1). The
    /// keeper's.
    pub fn admit(&self, how: Use) -> Option<Pass> {
        self.go_in(how, 0)
    }

    #[inline]
    fn go_in(&self, how: Use, opened: u64) -> Option<Pass> {
        let (excluded, more) = match how {
            Use::Read => (WRITER, READER),
            Use::Write => (WRITER | READERS, WRITER),
        };
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let is_full = how == Use::Read && word & READERS == READERS;
            if word & opened != opened || word & excluded != 0 || is_full {
                return None;
            }
            match self.0.compare_exchange_weak(word, word + more, ord::ENTER, Ordering::Relaxed) {
                Ok(_) => return Some(Pass { how, generation: generation(word) }),
                Err(now) => word = now,
            }
        }
    }

    /// Goes out (T2).
    #[inline]
    pub fn leave(&self, pass: Pass) -> Left {
        let (held, less) = match pass.how {
            Use::Read => (READERS, READER),
            Use::Write => (WRITER, WRITER),
        };
        let next = |word| (word & held != 0).then(|| word - less);
        self.change(pass.generation, ord::LEAVE, next).map_or(Left::Lost, |word| {
            if word & WATCHED == 0 { Left::Unseen } else { Left::Watched }
        })
    }

    /// The only reader becomes the writer, if it is one and the only one (T4). The keeper's, unless
    /// `only_if_open`: then the gate must be open for writers. The new pass takes the place of the
    /// reader's own, which its owner throws away (I5).
    pub fn upgrade(&self, reader: Reader, only_if_open: bool) -> Option<Pass> {
        let opened = if only_if_open { WRITES } else { 0 };
        self.change(reader.generation, ord::UPGRADE, |word| {
            let is_alone = word & READERS == READER && word & opened == opened;
            is_alone.then_some(word - READER + WRITER)
        })?;
        Some(Pass { how: Use::Write, generation: reader.generation })
    }

    /// The writer becomes a reader (T5).
    ///
    /// # Errors
    /// The pass, if its owner had been declared lost.
    pub fn downgrade(&self, pass: Pass) -> Result<(Pass, Left), Pass> {
        let next = |word| (word & WRITER != 0).then(|| word - WRITER + READER);
        let Some(word) = self.change(pass.generation, ord::DOWNGRADE, next) else {
            return Err(pass);
        };
        let left = if word & WATCHED == 0 { Left::Unseen } else { Left::Watched };
        Ok((Pass { how: Use::Read, ..pass }, left))
    }

    /// Changes the word for somebody who came in in `entered`; returns what it was.
    #[inline]
    fn change(
        &self,
        entered: u32,
        ordering: Ordering,
        next: impl Fn(u64) -> Option<u64>,
    ) -> Option<u64> {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if generation(word) != entered {
                return None;
            }
            let changed = next(word)?;
            match self.0.compare_exchange_weak(word, changed, ordering, Ordering::Relaxed) {
                Ok(_) => return Some(word),
                Err(now) => word = now,
            }
        }
    }

    /// Says who may come in from now on, and whether the keeper watches (T3). The keeper's.
    pub fn open(&self, opening: Opening) {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let changed = word & !(READS | WRITES | WATCHED) | opening.bits();
            if changed == word {
                return;
            }
            match self.0.compare_exchange_weak(word, changed, ord::OPEN, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }

    /// Declares lost whoever is in, and shuts the gate (T7). The keeper's.
    pub fn lose(&self) {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let next = u64::from(generation(word).wrapping_add(1)) << GENERATION;
            match self.0.compare_exchange_weak(word, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }

    /// Returns who is inside (T6). Everything done by threads that have left is visible.
    #[must_use]
    pub fn inside(&self) -> Inside {
        let word = self.0.load(ord::LOOK);
        let readers = u32::try_from(word & READERS).expect("it is a field of 24 bits");
        Inside { readers, writer: word & WRITER != 0 }
    }

    /// Whether its owner is still in.
    #[inline]
    #[must_use]
    pub fn has(&self, pass: &Pass) -> bool {
        self.has_reader(pass.reader())
    }

    /// Whether this reader is still in.
    #[inline]
    #[must_use]
    pub fn has_reader(&self, reader: Reader) -> bool {
        generation(self.0.load(Ordering::Relaxed)) == reader.generation
    }
}

#[inline]
fn generation(word: u64) -> u32 {
    (word >> GENERATION) as u32
}
