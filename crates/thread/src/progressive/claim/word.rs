//! The word of [`ClaimLock`](super::ClaimLock): its fields, phases, invariants and transitions, as
//! pure functions. `mod.rs` has the public documentation.
//!
//! # The word
//!
//! ```text
//!  63  60 59   57 56        38 37        19 18        0
//! ┌──────┬───────┬────────────┬────────────┬───────────┐
//! │flags │ PHASE │  ATOMICS   │  JOINERS   │  READERS  │
//! └──────┴───────┴────────────┴────────────┴───────────┘
//! ```
//!
//! The flags belong to those who wait; `turnstile.rs` explains them.
//!
//! | PHASE    | READERS             | JOINERS             | ATOMICS               |
//! |----------|---------------------|---------------------|-----------------------|
//! | open     | read                | –                   | –                     |
//! | joining  | read (at least one) | on the way          | wait to change        |
//! | claiming | wait to read        | claim (at least one) | wait to change       |
//! | changing | wait to read        | wait to claim again | change (at least one) |
//! | alone    | –                   | –                   | –                     |
//!
//! # Invariants
//!
//! - **I1** Atomics and readers are never inside together, nor claimants and readers, nor claimants
//!   and atomics; the exclusive joiner is alone. Each is the phase's: a thread acts as what its
//!   column says for the present phase.
//! - **I2** The phase follows from the counts, in the exchange that changes them: joining ends when
//!   no reader is left (→ claiming, or changing if nobody has joined) or only readers are (→ open),
//!   claiming when no joiner is left (→ changing, or open if no atomic waits), changing when no
//!   atomic is left (→ open, joining or claiming, by the threads that wait). So the last one out
//!   turns the phase over, and nobody can miss it.
//! - **I3** A joiner keeps the claim phase, an atomic the atomic phase, a reader the open or
//!   joining phase: what a thread waits for stays once it is there.
//! - **I4** The word is zero at rest.
//! - **I5** Nobody comes in beside atomics while a thread inside waits for the last of them.
//! - **I6** READERS + JOINERS + ATOMICS is at most 524,287, so no field overflows.
//!
//! # Transitions
//!
//! | id  | from → to | call | ordering | pairs with |
//! |-----|-----------|------|----------|------------|
//! | T1  | U → R: open | `ClaimLock::read` | Acquire | T5, 7, 8, 11, 14 |
//! | T2  | R → U | drop | Release | T4, T10, T12 |
//! | T3  | R → J: → joining | `ReadGuard::join` | Release | T4 |
//! | T4  | J → C: waits for claiming | `JoinGuard::claim` | Acquire | T2, 3, 5, 7, 9, 15 |
//! | T5  | J → U, C → U: retracts | drop | Release | T1, 4, 6, 10, 12, 14, 15 |
//! | T6  | C → A: waits for changing | `ClaimGuard::atomic` | Release, Acquire | T5, 6, 14 |
//! | T7  | A → U | drop | Release | T1, 4, 8, 10, 12, 15 |
//! | T8  | A → R: waits for open, joining | `AtomicGuard::read` | Release, Acquire | T7 to T9 |
//! | T9  | A → J | `AtomicGuard::join` | Release | T4, T8 |
//! | T10 | U → J alone: idle → alone | `ClaimLock::join_alone` | Acquire | T2, 5, 7, 11 |
//! | T11 | J alone → U, C, A, R | drop, `AloneGuard::claim`, … | Release | T1, 10, 12, 15 |
//! | T12 | U → A: waits for changing | `ClaimLock::atomic` | Acquire | T2, 5, 6, 7, 11 |
//! | T13 | J → A: waits for changing | `JoinGuard::atomic` | as T6 | as T6 |
//! | T14 | J → R, C → R: waits as T8 | `JoinGuard::read` | Release, Acquire | T1, 5 to 8 |
//! | T15 | U → C: open → joining, as T4 | `ClaimLock::claim` | AcqRel | T2, 4, 5, 7, 11 |
//!
//! R → C is T3 and T4 (`ReadGuard::claim`), A → C is T9 and T4 (`AtomicGuard::claim`). T14 from
//! Claim is `ClaimGuard::refuge`.
//!
//! Every transition that can wait has a form that does not (`try_`), which makes its exchange only
//! if the word then has the phase that it would wait for, and one with a limit (`_timeout`, or
//! `_until` in `RawClaimLock`). When the time is over, one more exchange takes the first back: it
//! can do so exactly as long as the phase has not come, so the call ends either with the new state
//! or with the old one, and no count is left of it. Three transitions can need two steps: A → C,
//! through Join, and C → R and J → R, through Atomic if others change meanwhile. When their time is
//! over after the first, the caller may be between them: `Unfinished`.
//!
//! # What differs from the note
//!
//! The note counts joiners as readers and writers at once, tells the claim phase by comparing the
//! two counts, and lets a reader count itself before it knows whether it may come in. Here each
//! thread is in one count, the phase is written down, and a reader that must wait is never counted.
//! An atomic that returns waits in the readers' count, and one that joins again in the joiners':
//! both mean what they say when the atomic phase ends. A claimant that takes refuge waits in the
//! readers' count too, and need not go through Atomic. The note has no U → A beside joiners, since
//! that looks like a joiner there; here such a thread waits in the atomics' count. So in the note a
//! claimant that takes refuge finds, when it reads again, only what others had claimed; here also
//! what U → A and J → A have changed without a claim.

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

// The picture above, checked: no field meets another, nor the flags.
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
