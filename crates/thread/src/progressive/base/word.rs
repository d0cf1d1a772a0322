//! The word of [`Lock`](super::Lock): its fields, and what each transition makes of it.

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

// The picture in `mod.rs`, checked: no field meets another, nor the flags.
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
