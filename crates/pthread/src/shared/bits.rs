//! The fields of the `main` word of the process-shared lock, as its header draws them.

/// A writer is in.
pub(super) const WRITER: u64 = 1;
/// The head writer waits: new readers stay out.
pub(super) const CLOSED: u64 = 1 << 1;
/// One reader that is in.
pub(super) const READER: u64 = 1 << 2;
/// One reader that waits.
pub(super) const WAITER: u64 = 1 << 20;
/// One phase.
pub(super) const STEP: u64 = 1 << 38;

/// The most readers in and waiting together (I4).
pub(super) const MOST_READERS: u64 = (1 << 18) - 1;

const READERS: u64 = MOST_READERS * READER;
const WAITING: u64 = MOST_READERS * WAITER;
/// The count of batches of readers let in, modulo 2²⁶.
pub(super) const PHASE: u64 = !0 << 38;

// The picture in the header, checked: five fields, no overlap, no unused bit.
const _: () = assert!(WRITER & CLOSED == 0 && (WRITER | CLOSED) & READERS == 0);
const _: () = assert!(READERS & WAITING == 0 && (READERS | WAITING) & PHASE == 0);
const _: () = assert!((WRITER | CLOSED | READERS | WAITING | PHASE) == u64::MAX);
// The head sleeps on the low half, which has all it waits for; the readers on the high half.
const _: () = assert!(WRITER | CLOSED | READERS <= u32::MAX as u64);
const _: () = assert!(PHASE & u32::MAX as u64 == 0);

/// How many readers are in.
pub(super) const fn readers(word: u64) -> u64 {
    (word & READERS) / READER
}

/// How many readers wait.
pub(super) const fn waiting(word: u64) -> u64 {
    (word & WAITING) / WAITER
}

/// Whether somebody is in.
pub(super) const fn occupied(word: u64) -> bool {
    word & (WRITER | READERS) != 0
}

/// Whether one more reader would be one too many (I4).
pub(super) const fn full(word: u64) -> bool {
    readers(word) + waiting(word) == MOST_READERS
}

/// All who wait are in (I5). The phase counts round.
pub(super) const fn admit_all(word: u64) -> u64 {
    let let_in = waiting(word) * READER;
    ((word & !WAITING) + let_in).wrapping_add(STEP)
}
