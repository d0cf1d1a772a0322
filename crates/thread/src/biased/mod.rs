//! A mutex that costs the thread that used it last about a plain store.
//!
//! # When to use it
//!
//! When nearly every use of some data is by one thread, which must lock it nonetheless, as others
//! come now and then: the state of a worker that is seldom inspected, a cache that moves from
//! thread to thread. That thread gets `&mut T` for no interlocked instruction. Another thread that
//! comes takes the bias back, which costs it some microseconds; if that happens again and again,
//! the lock is an ordinary [`fair`](crate::fair) one. Data that many threads use at once is better
//! split ([`percpu`](crate::percpu)), or behind the fair lock from the start.
//!
//! ```
//! use lockspan_thread::biased::Mutex;
//!
//! static SEEN: Mutex<Vec<u32>> = Mutex::new(Vec::new());
//! for n in 0..100 {
//!     SEEN.lock().push(n);
//! }
//! // Others may come at any time.
//! let count = std::thread::spawn(|| SEEN.lock().len()).join().unwrap();
//! assert_eq!(count, 100);
//! ```
//!
//! The mutex and its guards are [`lock_api`]'s. A guard stays on its thread, and guards may be
//! dropped in any order. A panic under a guard releases the lock; there is no poisoning. A thread
//! that locks what it holds panics where that can be seen, and waits for ever where it cannot; a
//! `try_` call returns `None` once its time is over, and at once where it is seen that it would
//! never be. A guard that is forgotten leaves the lock held, wherever it is moved.
//!
//! # The words
//!
//! Each thread that uses such locks has a record with a few *slots*; it alone writes them. A lock
//! has an ordinary fair lock inside, and beside it a word, `owner`: the record of the thread that
//! has the bias, and whether that is being taken back. In a slot stands the *mark* of a lock: a
//! number that it gets with its first bias and keeps, and no other lock ever has.
//!
//! | `owner`      | the mark is in a slot of R | name     | who holds the lock    |
//! |--------------|:--------------------------:|----------|-----------------------|
//! | 0            | –                          | Fair     | who has the fair lock |
//! | R            | no                         | Biased   | nobody                |
//! | R            | yes                        | Used     | R's thread            |
//! | R, revoking  | yes                        | Revoking | R's thread, or nobody |
//! | R, revoking  | no                         | Revoked  | who has the fair lock |
//!
//! Nobody, while *revoking*: R's thread is about to see that it came too late.
//!
//! The slots are the thread's and not the lock's. A word in the lock would not do: a thread that
//! has lost the bias can be stopped just before it writes "I am in", for as long as it likes, and
//! would then write over what the next owner says. And the mark is not the lock's address: a guard
//! that was forgotten would then speak for whatever lock is moved there.
//!
//! # Invariants
//!
//! - **I1** `owner` is changed only by who holds the fair lock.
//! - **I2** A record's slots are written only by its thread, and a slot in use keeps its mark.
//! - **I3** A thread is in by its bias if a slot of its record has the mark, and `owner` was that
//!   record, not revoking, when the thread looked *after* it had written the slot.
//! - **I4** After the barrier that follows *revoking*, a thread that is in by its bias is seen to
//!   be (its mark is visible), and one that is not will not get in.
//! - **I5** Who holds the fair lock touches the data after it has found `owner` to be 0, or has
//!   made it 0, which it may once no slot of the record has the mark.
//! - **I6** Records are never freed; one goes to another thread only with all its slots empty. A
//!   lock that still names it is then biased to that other thread, which is as good.
//! - **I7** A bias is given by its new owner to itself, after the lock has its mark, which never
//!   changes. So a thread that finds the bias to be its own has read the mark that counts, even if
//!   it read it before; what another thread reads then, 0 at worst, it takes out of the slot again.
//!
//! # Transitions
//!
//! | id | from → to | by | ordering | pairs with |
//! |----|-----------|----|----------|------------|
//! | T1 | Biased → Used | `enter`: slot := mark, *light* fence, look at `owner` | – | T4 |
//! | T2 | Used → Biased, Revoking → Revoked | `empty_first`, `empty_other` | Release | T5 |
//! | T3 | Fair → Biased | `leave_fair`, as the policy says | the fair lock's | T4 |
//! | T4 | Biased, Used → Revoked, Revoking | the holder of the fair lock; *heavy* fence | – | T1 |
//! | T5 | Revoked → Fair | the same, as it sees the mark in no slot | Acquire | T2 |
//!
//! *Light* and *heavy* are the two halves of an asymmetric fence. The light one keeps the compiler
//! from moving things and costs nothing; the heavy one is the kernel's barrier in every thread of
//! the process. Between two fences of which one is heavy, a store before and a load after on both
//! sides cannot both miss each other: that is I4. In the models and under Miri both are `SeqCst`
//! fences. Where the kernel has no such barrier (see [`backend`]) no lock is ever biased: it is the
//! fair lock from the start, with a look more.
//!
//! # Two races that a reviewer would ask about
//!
//! The owner enters while a thief comes. 1. The owner writes its slot. 2. The thief writes
//! *revoking* and sends the barrier. 3. The owner looks at `owner`. If it still sees itself there,
//! its look came before the barrier, and so did its slot: the thief sees the mark and waits.
//! Otherwise it empties the slot and takes the fair lock, behind the thief.
//!
//! A thief gives up, as its time is over, while the owner is in. The lock stays *revoking*: whoever
//! has the fair lock next waits for the same mark, and needs no barrier for that, as what the first
//! one promised (I4) still holds.
//!
//! # The policy
//!
//! A thread gets the bias when it has had the fair lock so many times in a row that nobody else had
//! in between, and nobody waits: at first 8 times. Each time that the bias is taken back makes
//! that eight times as many, up to 4096: about as many uses as it takes to earn what taking it back
//! costs. So a lock that threads pass to each other becomes an ordinary one, and stays one unless a
//! thread has it for itself for long; and whatever threads do, the lock is never much slower than
//! twice the better one of the two kinds.
//!
//! A thief waits for one section of the owner at most, since `owner` changes first; those behind it
//! stand in the fair lock's line. It spins a little and then naps, for 20 µs to 1 ms: an owner that
//! had to look for thieves when it leaves would pay for it each time. `try_lock` does not wait, but
//! it may send the barrier.
//!
//! # Limits
//!
//! A thread holds up to eight locks by their biases at once; further ones it takes as fair locks. A
//! guard that is forgotten counts for good. Handlers of signals must not use any of this. The first
//! use of such a lock in the process asks for the [`backend`], see there.
//!
//! In the child of a fork a lock that nobody was about to lock or held is as good as new, whoever
//! has its bias. One that another thread held stays held, as with any mutex. Threads that stood in
//! the fair lock's line are forgotten, as [`fair`](crate::fair#fork) says. But a thread that was
//! about to take the bias from its owner has the fair lock meanwhile, and is not in the child to
//! give it back. So holding such a lock across a fork, as handlers of `pthread_atfork` do, is safe
//! only if no other thread wants it then.

#[cfg(not(lockspan_loom))]
mod api;
mod core;
mod fences;
mod history;
#[cfg(all(test, lockspan_loom))]
mod loom;
mod ord;
mod record;
#[cfg(all(test, not(any(lockspan_loom, lockspan_shuttle))))]
mod tests;
#[cfg(not(lockspan_loom))]
mod thread;

#[cfg(not(lockspan_loom))]
pub use self::api::{Hold, MutexExt, RawMutex};
pub use crate::backend::{Backend, Choice, backend};

/// The biased mutex around its data.
#[cfg(not(lockspan_loom))]
pub type Mutex<T> = lock_api::Mutex<RawMutex, T>;

/// The hold on a [`Mutex`].
#[cfg(not(lockspan_loom))]
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;

/// The hold on a [`Mutex`], narrowed to a part of its data.
#[cfg(not(lockspan_loom))]
pub type MappedMutexGuard<'a, T> = lock_api::MappedMutexGuard<'a, RawMutex, T>;
