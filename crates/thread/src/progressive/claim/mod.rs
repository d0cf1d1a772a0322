//! Read, Join, Claim and Atomic: many threads change at once, after each has said what.
//!
//! # When to use it
//!
//! When many threads want to change different parts of a structure, and each finds out by reading
//! which part is still free. In the *claim* phase each marks what it will change, and sees what
//! others have marked; in the *atomic* phase all change what they marked, at once. Nobody reads
//! during either, and nobody has to start again because another was quicker. [`Queue`] is a queue
//! that is made of it. If changes are rare, or each needs the whole structure,
//! [`Lock`](super::Lock) is simpler.
//!
//! ```
//! use std::sync::atomic::{AtomicBool, Ordering};
//! use lockspan_thread::progressive::claim::{ClaimGuard, ClaimLock, ReadGuard};
//!
//! let seats = ClaimLock::new([const { AtomicBool::new(false) }; 3]);
//! let read = seats.read(); // is any seat free?
//! assert!(read.iter().any(|taken| !taken.load(Ordering::Relaxed)));
//! let claim = ReadGuard::claim(read); // all who want one are here, and nobody else
//! let mine = claim.iter().position(|taken| !taken.swap(true, Ordering::Relaxed));
//! let atomic = ClaimGuard::atomic(claim); // all have chosen
//! assert_eq!(mine, Some(0));
//! drop(atomic);
//! ```
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
//! | T1  | U → R: open | [`ClaimLock::read`] | Acquire | T5, 7, 8, 11, 14 |
//! | T2  | R → U | drop | Release | T4, T10, T12 |
//! | T3  | R → J: → joining | [`ReadGuard::join`] | Release | T4 |
//! | T4  | J → C: waits for claiming | [`JoinGuard::claim`] | Acquire | T2, 3, 5, 7, 9, 15 |
//! | T5  | J → U, C → U: retracts | drop | Release | T1, 4, 6, 10, 12, 14, 15 |
//! | T6  | C → A: waits for changing | [`ClaimGuard::atomic`] | Release, Acquire | T5, 6, 14 |
//! | T7  | A → U | drop | Release | T1, 4, 8, 10, 12, 15 |
//! | T8  | A → R: waits for open, joining | [`AtomicGuard::read`] | Release, Acquire | T7 to T9 |
//! | T9  | A → J | [`AtomicGuard::join`] | Release | T4, T8 |
//! | T10 | U → J alone: idle → alone | [`ClaimLock::join_alone`] | Acquire | T2, 5, 7, 11 |
//! | T11 | J alone → U, C, A, R | drop, [`AloneGuard::claim`], … | Release | T1, 10, 12, 15 |
//! | T12 | U → A: waits for changing | [`ClaimLock::atomic`] | Acquire | T2, 5, 6, 7, 11 |
//! | T13 | J → A: waits for changing | [`JoinGuard::atomic`] | as T6 | as T6 |
//! | T14 | J → R, C → R: waits as T8 | [`JoinGuard::read`] | Release, Acquire | T1, 5 to 8 |
//! | T15 | U → C: open → joining, as T4 | [`ClaimLock::claim`] | AcqRel | T2, 4, 5, 7, 11 |
//!
//! R → C is T3 and T4 ([`ReadGuard::claim`]), A → C is T9 and T4 ([`AtomicGuard::claim`]). T14 from
//! Claim is [`ClaimGuard::refuge`].
//!
//! Every transition that can wait has a form that does not (`try_`), which makes its exchange only
//! if the word then has the phase that it would wait for, and one with a limit (`_timeout`, or
//! `_until` in [`RawClaimLock`]). When the time is over, one more exchange takes the first back: it
//! can do so exactly as long as the phase has not come, so the call ends either with the new state
//! or with the old one, and no count is left of it. Three transitions can need two steps: A → C,
//! through Join, and C → R and J → R, through Atomic if others change meanwhile. When their time is
//! over after the first, the caller may be between them: [`Unfinished`].
//!
//! # How to give up
//!
//! | in    | to       | by | waits |
//! |-------|----------|----|-------|
//! | Join  | unlocked | drop | no |
//! | Join  | Read     | [`JoinGuard::read`] | not before the claim phase, for a thread from Read |
//! | Join  | Atomic   | [`JoinGuard::atomic`] | not in the atomic phase that it came from |
//! | Claim | unlocked | take the marks back, drop | no |
//! | Claim | Read     | take the marks back, [`ClaimGuard::refuge`] | for the others' changes |
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
//!
//! # Progress
//!
//! Joiners wait for the readers inside, and so do threads that come for Atomic; no reader comes in
//! meanwhile. Claimants wait for claimants, returners for atomics, and no atomic comes in beside
//! those (I5). A thread that stays in a state for ever holds up those who wait for the next, as
//! with every lock; so does one that goes round from Atomic to Join and never leaves. A thread that
//! cannot come in stands in a line, whose first may be passed for 200 µs at most; the exclusive
//! joiner stands there too. At most 524,287 may be inside.

mod guard;
mod holders;
#[cfg(all(test, lockspan_loom))]
mod loom;
mod ord;
pub mod queue;
mod raw;
#[cfg(all(test, not(any(lockspan_loom, lockspan_shuttle))))]
mod search;
#[cfg(all(test, not(any(lockspan_loom, lockspan_shuttle))))]
mod tests;
mod unfinished;
mod word;

pub use self::guard::{AloneGuard, AtomicGuard, ClaimGuard, ClaimLock, JoinGuard, ReadGuard};
pub use self::holders::{Holders, Phase};
pub use self::queue::Queue;
pub use self::raw::RawClaimLock;
pub use self::unfinished::Unfinished;
