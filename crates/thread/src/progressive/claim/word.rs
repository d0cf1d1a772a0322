//! The word of [`ClaimLock`](super::ClaimLock): its fields, and what each transition makes of it.

use super::super::turnstile::{FLAGS, Meaning, Step};
use super::holders::{Holders, Phase};

const BITS: u32 = 19;
/// As many as a field can count; also the most that may be inside together.
const MOST: u64 = (1 << BITS) - 1;
// The numbers in the documentation here and in the headers for C.
const _: () = assert!(MOST == 524_287);

pub(super) const READER: u64 = 1;
pub(super) const JOINER: u64 = 1 << BITS;
pub(super) const ATOMIC: u64 = 1 << (2 * BITS);
const PHASE: u64 = 0b111 << (3 * BITS);

const READERS: u64 = MOST * READER;
const JOINERS: u64 = MOST * JOINER;
const ATOMICS: u64 = MOST * ATOMIC;

pub(super) const OPEN: u64 = 0;
pub(super) const JOINING: u64 = 1 << (3 * BITS);
pub(super) const CLAIMING: u64 = 2 << (3 * BITS);
pub(super) const CHANGING: u64 = 3 << (3 * BITS);
pub(super) const ALONE: u64 = 4 << (3 * BITS);

// The picture in `mod.rs`, checked: no field meets another, nor the flags.
const _: () = assert!(READERS & JOINERS == 0 && (READERS | JOINERS) & ATOMICS == 0);
const _: () = assert!((READERS | JOINERS | ATOMICS) & PHASE == 0);
const _: () = assert!((READERS | JOINERS | ATOMICS | PHASE) & FLAGS == 0);

/// The meaning of the word for those who wait.
#[derive(Debug)]
pub(super) struct Claims;

impl Meaning for Claims {
    /// All signs are phases.
    #[inline]
    fn turned(old: u64, new: u64) -> bool {
        old & PHASE != new & PHASE
    }
}

/// The sign for a joiner: the claim phase. It stays while a joiner is there.
#[inline]
pub(super) fn is_claiming(word: u64) -> bool {
    word & PHASE == CLAIMING
}

/// The sign for a thread that waits in the atomics' count: the atomic phase. It stays while an
/// atomic is there.
#[inline]
pub(super) fn is_changing(word: u64) -> bool {
    word & PHASE == CHANGING
}

/// The sign for a thread that waits in the readers' count: readers are in. It stays while a reader
/// is there.
#[inline]
pub(super) fn is_reading(word: u64) -> bool {
    matches!(word & PHASE, OPEN | JOINING)
}

/// T1
#[inline]
pub(super) fn read(word: u64) -> Step {
    if word & PHASE != OPEN {
        Step::Wait
    } else if word & READERS == READERS {
        Step::Full
    } else {
        Step::To(word + READER)
    }
}

/// T10
#[inline]
pub(super) fn be_alone(word: u64) -> Step {
    if word & !FLAGS == 0 { Step::To(word | ALONE) } else { Step::Wait }
}

/// T12: beside the atomics inside, or in their count, to wait for the atomic phase. Returners and
/// joiners wait for the last atomic, so nobody comes in beside those.
#[inline]
pub(super) fn atomic(word: u64) -> Step {
    let phase = word & PHASE;
    if phase == ALONE || phase == CHANGING && word & (READERS | JOINERS) != 0 {
        return Step::Wait;
    }
    if is_full(word) {
        return Step::Full;
    }
    let word = word + ATOMIC;
    Step::To(if phase == OPEN { turned_over(word | JOINING) } else { word })
}

/// T12, if the atomic phase is there or begins with it.
#[inline]
pub(super) fn atomic_at_once(word: u64) -> Step {
    match atomic(word) {
        Step::To(new) if !is_changing(new) => Step::Wait,
        step => step,
    }
}

/// T12 taken back, as long as it waits for the atomic phase.
#[inline]
pub(super) fn atomic_back_out(word: u64) -> Option<u64> {
    (!is_changing(word)).then(|| turned_over(word - ATOMIC))
}

/// T15: joins from outside. As for a reader, the phase must be open.
#[inline]
pub(super) fn claim(word: u64) -> Step {
    match read(word) {
        Step::To(_) => Step::To(turned_over((word + JOINER) | JOINING)),
        step => step,
    }
}

/// T15, if the claim phase begins with it.
#[inline]
pub(super) fn claim_at_once(word: u64) -> Step {
    match claim(word) {
        Step::To(new) if !is_claiming(new) => Step::Wait,
        step => step,
    }
}

/// T15 taken back, as long as it waits for the claim phase.
#[inline]
pub(super) fn claim_back_out(word: u64) -> Option<u64> {
    (!is_claiming(word)).then(|| join_done(word))
}

/// T2
#[inline]
pub(super) fn read_done(word: u64) -> u64 {
    turned_over(word - READER)
}

/// T3
#[inline]
pub(super) fn join(word: u64) -> u64 {
    turned_over((word - READER + JOINER) & !PHASE | JOINING)
}

/// T3 taken back, as long as it waits for the claim phase: until then readers are in.
#[inline]
pub(super) fn join_back_to_read(word: u64) -> Option<u64> {
    (!is_claiming(word)).then(|| to_read(word))
}

/// T5, from Join and from Claim.
#[inline]
pub(super) fn join_done(word: u64) -> u64 {
    turned_over(word - JOINER)
}

/// T6 from Claim, T13 from Join.
#[inline]
pub(super) fn to_atomic(word: u64) -> u64 {
    turned_over(word - JOINER + ATOMIC)
}

/// T6 and T13 taken back, as long as it waits for the atomic phase.
#[inline]
pub(super) fn atomic_back_to_join(word: u64) -> Option<u64> {
    (!is_changing(word)).then(|| word - ATOMIC + JOINER)
}

/// T7
#[inline]
pub(super) fn atomic_done(word: u64) -> u64 {
    turned_over(word - ATOMIC)
}

/// T8
#[inline]
pub(super) fn atomic_to_read(word: u64) -> u64 {
    turned_over(word - ATOMIC + READER)
}

/// T8 taken back, as long as the phase is the same.
#[inline]
pub(super) fn read_back_to_atomic(word: u64) -> Option<u64> {
    is_changing(word).then(|| word - READER + ATOMIC)
}

/// T9
#[inline]
pub(super) fn atomic_to_join(word: u64) -> u64 {
    turned_over(word - ATOMIC + JOINER)
}

/// T9 taken back, as long as the phase is the same.
#[inline]
pub(super) fn join_back_to_atomic(word: u64) -> Option<u64> {
    is_changing(word).then(|| word - JOINER + ATOMIC)
}

/// T14, from Join and from Claim.
#[inline]
pub(super) fn to_read(word: u64) -> u64 {
    turned_over(word - JOINER + READER)
}

/// T14 that began in the atomic phase taken back, as long as the phase is the same: to Join.
#[inline]
pub(super) fn read_back_to_join(word: u64) -> Option<u64> {
    is_changing(word).then(|| word - READER + JOINER)
}

/// T14 that began in the claim phase taken back, as long as it waits to read: to Join or Claim
/// while others claim. Once they change, only Atomic is left: a joiner from before the changes
/// would claim, in the next round, by what it read before them.
#[inline]
pub(super) fn refuge_back(word: u64) -> Option<u64> {
    if is_claiming(word) { Some(word - READER + JOINER) } else { read_back_to_atomic(word) }
}

/// Whether as many are inside as a field can count.
#[inline]
fn is_full(word: u64) -> bool {
    let joiners = (word & JOINERS) / JOINER;
    let atomics = (word & ATOMICS) / ATOMIC;
    (word & READERS) + joiners + atomics >= MOST
}

/// The phase that follows from the counts, in the same exchange as the change before: so the last
/// one out always turns the phase over, and nobody can miss it.
#[inline]
fn turned_over(word: u64) -> u64 {
    let (readers, joiners, atomics) = (word & READERS, word & JOINERS, word & ATOMICS);
    let phase = match word & PHASE {
        // Readers that wait here must not see marks: first come the changes.
        CLAIMING if joiners == 0 => {
            if atomics == 0 {
                OPEN
            } else {
                CHANGING
            }
        }
        CHANGING if atomics != 0 => CHANGING,
        JOINING | CHANGING => match (readers, joiners, atomics) {
            (_, 0, 0) => OPEN,
            (0, 0, _) => CHANGING,
            (0, ..) => CLAIMING,
            _ => JOINING,
        },
        phase => phase,
    };
    word & !PHASE | phase
}

/// The holders in a word.
pub(super) fn holders(word: u64) -> Holders {
    let count = |one| ((word / one) & MOST) as u32;
    let phase = match word & PHASE {
        OPEN => Phase::Open,
        JOINING => Phase::Joining,
        CLAIMING => Phase::Claiming,
        CHANGING => Phase::Changing,
        _ => Phase::Alone,
    };
    Holders { phase, readers: count(READER), joiners: count(JOINER), atomics: count(ATOMIC) }
}
