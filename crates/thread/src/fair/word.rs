//! The state word: its fields and the questions that the lock asks of it.
//!
//! ```text
//!  63              9   8    7    6    5    4    3    2    1    0
//! ┌─────────────────┬────┬────┬────┬────┬────┬────┬────┬────┬────┐
//! │     READERS     │ T  │ A  │ H  │ D  │ P  │ S  │ Q  │ U  │ W  │
//! └─────────────────┴────┴────┴────┴────┴────┴────┴────┴────┴────┘
//! ```
//!
//! On a 32-bit target READERS has 23 bits. A word of zero is an unlocked lock that nobody waits
//! for; the word is zero at rest.

/// W: a writer holds the lock.
pub(super) const WRITER: usize = 1;
/// U: one of the readers may become the writer (upgradable read).
pub(super) const UPGRADABLE: usize = 1 << 1;
/// Q: somebody waits, or left an errand in the inbox.
pub(super) const QUEUED: usize = 1 << 2;
/// S: some thread is the scheduler and owns the lists.
pub(super) const SCHEDULER: usize = 1 << 3;
/// P: something new for the scheduler to look at, most often in the inbox.
pub(super) const PENDING: usize = 1 << 4;
/// D: somebody relies on the look that P asks for: a thread that gave up and waits to be taken out
/// of the line, or the summoned waiter, who will not call again.
pub(super) const DEMAND: usize = 1 << 5;
/// H: the door is closed: nobody passes until a waiter has had its turn.
pub(super) const HANDOVER: usize = 1 << 6;
/// A: a summoned waiter is awake and looks after the others; a release may leave without waking.
pub(super) const AWAKE: usize = 1 << 7;
/// T: the turn after this one belongs to the readers, as the present or last one was a writer's.
pub(super) const READERS_NEXT: usize = 1 << 8;
/// One reader.
pub(super) const READER: usize = 1 << 9;
/// The reader count.
pub(super) const READERS: usize = !(READER - 1);
/// Set once the count is at half its range: no further reader is let in, so that it cannot wrap.
pub(super) const CROWDED: usize = 1 << (usize::BITS - 1);

/// What a release may leave behind only together with waiters.
pub(super) const WAITING_ONLY: usize =
    SCHEDULER | PENDING | DEMAND | HANDOVER | AWAKE | READERS_NEXT;

// The picture above, checked: nine bits and a count, no overlap, no unused bit.
const _: () = assert!(WRITER + UPGRADABLE + QUEUED + WAITING_ONLY == READER - 1);
const _: () = assert!((READER - 1) | READERS == usize::MAX && CROWDED & READERS != 0);

/// The number of readers, the upgradable one among them.
#[inline]
pub(super) fn readers(word: usize) -> usize {
    word / READER
}

/// True if nobody holds the lock.
#[inline]
pub(super) fn is_free(word: usize) -> bool {
    word & (WRITER | READERS) == 0
}

/// True if all bits of `mask` are clear.
#[inline]
pub(super) fn lacks(word: usize, mask: usize) -> bool {
    word & mask == 0
}

/// True if some bit of `mask` is set.
#[inline]
pub(super) fn has(word: usize, mask: usize) -> bool {
    word & mask != 0
}
