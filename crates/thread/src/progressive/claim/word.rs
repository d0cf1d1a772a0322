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

/// The sign for a claimant that has moved on: the atomic phase. It stays while an atomic is there.
#[inline]
pub(super) fn is_changing(word: u64) -> bool {
    word & PHASE == CHANGING
}

/// The sign for an atomic that became a reader: readers are in. It stays while a reader is there.
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

/// T5, from Join and from Claim.
#[inline]
pub(super) fn join_done(word: u64) -> u64 {
    turned_over(word - JOINER)
}

/// T6
#[inline]
pub(super) fn on_to_atomic(word: u64) -> u64 {
    turned_over(word - JOINER + ATOMIC)
}

/// T6 taken back, as long as somebody still claims.
#[inline]
pub(super) fn back_to_claim(word: u64) -> Option<u64> {
    is_claiming(word).then(|| word - ATOMIC + JOINER)
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
pub(super) fn back_to_atomic(word: u64) -> Option<u64> {
    is_changing(word).then(|| word - READER + ATOMIC)
}

/// T9
#[inline]
pub(super) fn atomic_to_join(word: u64) -> u64 {
    turned_over(word - ATOMIC + JOINER)
}

/// The phase that follows from who is there, in the same exchange as the change before: so the
/// last one out always turns the phase over, and nobody can miss it.
#[inline]
fn turned_over(word: u64) -> u64 {
    let (readers, joiners, atomics) = (word & READERS, word & JOINERS, word & ATOMICS);
    let phase = match word & PHASE {
        JOINING | CHANGING if atomics == 0 => match (readers, joiners) {
            (_, 0) => OPEN,
            (0, _) => CLAIMING,
            _ => JOINING,
        },
        CLAIMING if joiners == 0 => {
            if atomics == 0 {
                OPEN
            } else {
                CHANGING
            }
        }
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
