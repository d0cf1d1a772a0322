//! The word of [`Lock`](super::Lock): its fields, states, invariants and transitions, as pure
//! functions. `mod.rs` has the public documentation.
//!
//! # The word
//!
//! ```text
//!  63  60  59    58     57    56        38 37       19 18        0
//! ┌──────┬─────┬───────┬──────┬────────────┬───────────┬───────────┐
//! │flags │  0  │ WRITE │ SEEK │ RETURNERS  │  ATOMICS  │  READERS  │
//! └──────┴─────┴───────┴──────┴────────────┴───────────┴───────────┘
//! ```
//!
//! The flags belong to those who wait; `turnstile.rs` explains them.
//!
//! | WRITE | SEEK | ATOMICS | READERS | RETURNERS | who may touch the data              |
//! |:-----:|:----:|:-------:|:-------:|:---------:|-------------------------------------|
//! |   0   |  0   |    0    |    n    |     0     | n readers read                      |
//! |   0   |  1   |    0    |    n    |     0     | n readers and the seeker read       |
//! |   1   |  0   |    0    |  n > 0  |     0     | n readers read; the writer waits    |
//! |   1   |  0   |    0    |    0    |     0     | the writer                          |
//! |   0   |  0   |    a    |  n > 0  |     0     | n readers read; the atomics wait    |
//! |   0   |  0   |    a    |    0    |     q     | a atomics; q wait to read           |
//!
//! # Invariants
//!
//! - **I1** SEEK and WRITE are never together, nor either with ATOMICS or RETURNERS.
//! - **I2** While WRITE or ATOMICS is set, nobody comes in to read. READERS rises only when an
//!   upgrade from Read is taken back, and that only while a reader is there: zero stays zero.
//! - **I3** RETURNERS > 0 only while atomics are inside (ATOMICS > 0, READERS = 0); the exchange
//!   that takes the last atomic away makes readers of all of them.
//! - **I4** READERS + ATOMICS + RETURNERS + SEEK is at most 524,287, so no field overflows.
//!
//! # Transitions
//!
//! | id  | from → to | call | needs | ordering | pairs with |
//! |-----|-----------|------|-------|----------|------------|
//! | T1  | U → R | `Lock::read` | no WRITE, no ATOMICS | Acquire | T7, 8, 13, 14 |
//! | T2  | U → S | `Lock::seek` | also no SEEK | Acquire | T7, T8 |
//! | T3  | U → W | `Lock::write` | as T2; then waits for READERS = 0 | Acquire | T5 to T8 |
//! | T4  | U → A | `Lock::atomic` | no SEEK, WRITE, RETURNERS; waits as T3 | Acquire | T5 to T8 |
//! | T5  | R → U | drop | – | Release | T3, 4, 10, 11 |
//! | T6  | S → U | drop | – | Release | T3, T11 |
//! | T7  | W → U | drop | – | Release | T1 to T4 |
//! | T8  | A → U | drop | – | Release | T1 to T4, T15 |
//! | T9  | R → S | `ReadGuard::try_seek` | as T2, and an open door | Relaxed | – |
//! | T10 | R → A | `ReadGuard::atomic` | no SEEK, WRITE; waits | Release, Acquire | T5, T10 |
//! | T11 | S → W | `SeekGuard::write` | waits as T3 | Acquire | T5, T6 |
//! | T12 | S → R | `SeekGuard::read` | – | Relaxed | – |
//! | T13 | W → S | `WriteGuard::seek` | – | Release | T1 |
//! | T14 | W → R | `WriteGuard::read` | – | Release | T1 |
//! | T15 | A → R | `AtomicGuard::read` | waits to be a reader (I3) | Release, Acquire | T8, T15 |
//!
//! Who waits in T3, T4, T10, T11 and T15 does so *inside*: it is counted already, so by I2 and I3
//! what it waits for stays once it is there. T9 and T12 publish nothing: the thread goes on
//! reading, and whoever wants to write waits for its T5 or T6.
//!
//! # Why R → A is refused beside a seeker
//!
//! 1. T1 reads, T2 seeks. 2. T1 wants to be an atomic and waits for the seeker to go. 3. T2 wants
//!    to write and waits for all readers to go: if T1 still counted as a reader, both would wait
//!    forever; if it counted as an atomic, the data would change after T1 had read it.
//!
//! # Progress
//!
//! A writer or an atomic waits for the readers inside, and nobody else: no reader comes in
//! meanwhile. A thread that cannot come in stands in a line, whose first may be passed for 200 µs
//! at most, whether it has a processor or not. Returners wait for the atomics inside; none comes in
//! meanwhile.

use super::super::turnstile::{FLAGS, Meaning, Step};
use super::holders::Holders;

const BITS: u32 = 19;
/// As many as a field can count; also the most that may be inside together.
pub(in super::super) const MOST: u64 = (1 << BITS) - 1;
// The numbers in the documentation here and in the headers for C.
const _: () = assert!(MOST == 524_287);

pub(super) const READER: u64 = 1;
pub(super) const ATOMIC: u64 = 1 << BITS;
pub(super) const RETURNER: u64 = 1 << (2 * BITS);
pub(super) const SEEK: u64 = 1 << (3 * BITS);
pub(in super::super) const WRITE: u64 = 1 << (3 * BITS + 1);

const READERS: u64 = MOST * READER;
const ATOMICS: u64 = MOST * ATOMIC;
const RETURNERS: u64 = MOST * RETURNER;

// The picture above, checked: no field meets another, nor the flags.
const _: () = assert!(READERS & ATOMICS == 0 && (READERS | ATOMICS) & RETURNERS == 0);
const _: () = assert!((READERS | ATOMICS | RETURNERS) & (SEEK | WRITE) == 0);
const _: () = assert!((READERS | ATOMICS | RETURNERS | SEEK | WRITE) & FLAGS == 0);

/// The meaning of the word for those who wait.
#[derive(Debug)]
pub(in super::super) struct Base;

impl Meaning for Base {
    /// Writers and atomics wait for the last reader to leave; returners for being readers.
    #[inline]
    fn turned(old: u64, new: u64) -> bool {
        no_reader(old) != no_reader(new)
    }
}

/// The sign for a writer, and for atomics: the last reader has left.
#[inline]
pub(super) fn no_reader(word: u64) -> bool {
    word & READERS == 0
}

/// The sign for a returner, who is counted there: the last atomic has made readers of them.
#[inline]
pub(super) fn some_reader(word: u64) -> bool {
    !no_reader(word)
}

/// T1
#[inline]
pub(super) fn read(word: u64) -> Step {
    if word & (WRITE | ATOMICS) != 0 {
        Step::Wait
    } else if word & READERS >= MOST - 1 {
        // One is left for a seeker that becomes a reader.
        Step::Full
    } else {
        Step::To(word + READER)
    }
}

/// T2
#[inline]
pub(super) fn seek(word: u64) -> Step {
    if word & (SEEK | WRITE | ATOMICS) != 0 {
        Step::Wait
    } else if word & READERS == READERS {
        // It could not become a reader.
        Step::Full
    } else {
        Step::To(word + SEEK)
    }
}

/// T3: readers may still be there.
#[inline]
pub(in super::super) fn write(word: u64) -> Step {
    if word & (SEEK | WRITE | ATOMICS) != 0 { Step::Wait } else { Step::To(word + WRITE) }
}

/// T3, if no reader is there.
#[inline]
pub(super) fn write_at_once(word: u64) -> Step {
    if no_reader(word) { write(word) } else { Step::Wait }
}

/// T4: readers may still be there. Returners wait for the last atomic, so nobody joins any more.
#[inline]
pub(super) fn atomic(word: u64) -> Step {
    if word & (SEEK | WRITE | RETURNERS) != 0 {
        Step::Wait
    } else if (word & READERS) + (word & ATOMICS) / ATOMIC >= MOST {
        Step::Full
    } else {
        Step::To(word + ATOMIC)
    }
}

/// T4, if no reader is there.
#[inline]
pub(super) fn atomic_at_once(word: u64) -> Step {
    if no_reader(word) { atomic(word) } else { Step::Wait }
}

/// T8. The last atomic makes readers of those who wait for that.
#[inline]
pub(super) fn atomic_done(word: u64) -> u64 {
    latched(word - ATOMIC)
}

/// T9, if the door is open, which the caller checks: the first in line may want to seek.
#[inline]
pub(super) fn read_to_seek(word: u64) -> Option<u64> {
    (word & (SEEK | WRITE | ATOMICS) == 0).then(|| word - READER + SEEK)
}

/// T10. With a seeker there, which may be about to write, it would wait for that one, and that
/// one for us.
#[inline]
pub(super) fn read_to_atomic(word: u64) -> Option<u64> {
    (word & (SEEK | WRITE) == 0).then(|| word - READER + ATOMIC)
}

/// T10 taken back, as long as a reader is there: until then no atomic is inside.
#[inline]
pub(super) fn atomic_back_to_read(word: u64) -> Option<u64> {
    some_reader(word).then(|| word - ATOMIC + READER)
}

/// T4 taken back, as long as a reader is there.
#[inline]
pub(super) fn atomic_back_out(word: u64) -> Option<u64> {
    some_reader(word).then(|| word - ATOMIC)
}

/// T3 taken back, as long as a reader is there.
#[inline]
pub(super) fn write_back_out(word: u64) -> Option<u64> {
    some_reader(word).then(|| word - WRITE)
}

/// T11 taken back, as long as a reader is there.
#[inline]
pub(super) fn write_back_to_seek(word: u64) -> Option<u64> {
    some_reader(word).then(|| word - WRITE + SEEK)
}

/// T15
#[inline]
pub(super) fn atomic_to_read(word: u64) -> u64 {
    latched(word - ATOMIC + RETURNER)
}

/// T15 taken back, as long as an atomic is there.
#[inline]
pub(super) fn returner_back_to_atomic(word: u64) -> Option<u64> {
    no_reader(word).then(|| word - RETURNER + ATOMIC)
}

/// With the last atomic gone, returners are readers.
#[inline]
fn latched(word: u64) -> u64 {
    if word & ATOMICS != 0 {
        return word;
    }
    let returners = (word & RETURNERS) / RETURNER;
    word - returners * RETURNER + returners * READER
}

/// The holders in a word.
pub(super) fn holders(word: u64) -> Holders {
    let count = |one| ((word / one) & MOST) as u32;
    Holders {
        readers: count(READER),
        seeker: word & SEEK != 0,
        writer: word & WRITE != 0,
        atomics: count(ATOMIC),
        returners: count(RETURNER),
    }
}
