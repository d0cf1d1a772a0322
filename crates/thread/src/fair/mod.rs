//! A fair read-write lock: any number of readers or one writer, and a bound on being passed.
//!
//! # When to use it
//!
//! When no thread may starve, and the lock is still to be as fast as one that lets threads starve.
//! [`RwLock`] (policy [`Bounded`]) is the one to begin with. [`StrictRwLock`] serves in order
//! always; once threads outnumber processors that costs a context switch per turn, whatever the
//! lock. [`Together`] lets all readers that wait in at once, for sections that wait for input or
//! output. If waits without a bound do no harm, `std` and `parking_lot` have smaller locks.
//!
//! ```
//! use lockspan_thread::fair::RwLock;
//!
//! let lock = RwLock::new(5);
//! {
//!     let (one, two) = (lock.read(), lock.read());
//!     assert_eq!(*one + *two, 10);
//! }
//! *lock.write() += 1;
//! assert_eq!(*lock.read(), 6);
//! ```
//!
//! Guards, mapped guards and `Arc` guards are those of [`lock_api`]; [`RwLockExt`] adds futures and
//! recursive reads. Guards are `Send`. A panic under a guard releases the lock; there is no
//! poisoning. With the feature `serde` a lock is (de)serialised as its data.
//!
//! # How it works
//!
//! One word decides everything; its picture is in `word.rs`. A thread that cannot have the lock
//! pushes a node of its own stack into an inbox (a task, of the heap), sets Q and P in the word,
//! and sleeps. Whoever comes or goes while Q is set tries to become the *scheduler* by setting S;
//! the one that does works for all: it takes the nodes from the inbox into two lists, lets in
//! whose turn it is, and leaves. Nobody waits for S: every event changes the word before its maker
//! looks at S, so the scheduler's exit, a compare-and-swap on the word, fails and it looks again.
//!
//! | W | U | readers | name       | who may touch the data                |
//! |:-:|:-:|:-------:|------------|---------------------------------------|
//! | 0 | 0 |    0    | Free       | nobody                                |
//! | 0 | 0 |    n    | Shared     | n readers read                        |
//! | 0 | 1 |    n    | Upgradable | n readers read; one of them may upgrade |
//! | 1 | 0 |    0    | Written    | the writer                            |
//!
//! Q, S, P, D, H, A and T speak of the waiters only; at rest they are clear.
//!
//! ## Invariants
//!
//! - **I1** `W ⇒ readers = 0 ∧ ¬U`; `U ⇒ readers ≥ 1`. At rest the word is 0.
//! - **I2** A node in the inbox or in a list is alive: its owner leaves only after the status says
//!   `GRANTED`, `PROMOTED`, `REMOVED` or `OFFICE` (a thread), or gives up its share of the node (a
//!   task). No panic unwinds through a thread in line.
//! - **I3** Only the thread that set S, or was handed it, touches the lists and a node's links.
//! - **I4** Whoever makes an event changes the word first and looks at S second. S leaves the word
//!   only by an exchange that compares all of it, so no event is overlooked.
//! - **I5** If Q is set and S is not, then the lock is held and a release will schedule, or A is
//!   set and the summoned waiter will call, or somebody between two steps of its own will.
//! - **I6** While arrivals may pass, `due` is at most the oldest waiter's beginning plus the bound.
//!
//! ## Transitions
//!
//! | id  | from → to                        | by                   | ordering        | pairs with |
//! |-----|----------------------------------|----------------------|-----------------|------------|
//! | T1  | ¬W → readers + 1                 | `read`               | Acquire         | T4, T6     |
//! | T2  | Free → W                         | `write`              | Acquire         | T3, T4     |
//! | T3  | readers − 1                      | `read_done`          | Release         | T2,5,11    |
//! | T4  | W → Free                         | `write_done`         | Release         | T1,2,11    |
//! | T5  | U, readers = 1 → W               | `upgrade`            | Acquire         | T3         |
//! | T6  | W → readers = 1                  | `downgrade`          | Release         | T1, T11    |
//! | T7  | node → inbox → lists             | `push`, `drain`      | Release/Acquire | each other |
//! | T8  | Q, P (an errand is in the inbox) | `get_in_line`, …     | Release         | T9         |
//! | T9  | ¬P                               | `serve`              | Acquire         | T8         |
//! | T10 | S                                | `schedule`           | Acquire         | T13        |
//! | T11 | the waiter's hold                | `grant`              | Acquire         | T3, T4     |
//! | T12 | status → `GRANTED`, …            | `deliver`, `status`  | AcqRel/Acquire  | T12, T14   |
//! | T13 | ¬S                               | `leave_office`       | Release         | T10        |
//! | T14 | status → `ASLEEP`                | `step`               | Release         | T12        |
//! | T15 | status → `REMOVED`, `OFFICE`     | `remove`, `status`   | Release/Acquire | each other |
//! | T16 | owners − 1                       | `let_go`             | AcqRel          | each other |
//!
//! Every event is a read-modify-write on one word, so *the releaser saw Q* or *the arrival saw the
//! lock free* is decided by that word's order alone: there is no pair of store and load that
//! needs `SeqCst`. The orderings stand in `ord.rs`, each with its reason.
//!
//! ## A race that a reviewer would ask about
//!
//! A writer leaves while a reader gets in line.
//! 1. The reader pushes its node. 2. The writer clears W; Q is not set, so it goes. 3. The reader
//!    sets Q and P, and the exchange shows it a word without W: it schedules itself.
//!    Or 2 and 3 the other way round: the writer sees Q and schedules for the reader.
//!
//! # Whose turn it is
//!
//! Readers and writers alternate (*phase-fair*): T says that the present or last turn was a
//! writer's, so that the readers that wait come next, together. Writers go in the order in which
//! they entered the inbox. An upgradable read stands with the writers; an upgrade goes before all.
//!
//! **[`Strict`]**, counted from T8: at most one writer's turn begins before a reader that waits
//! (besides the one that runs); once a writer waits no reader joins the running read phase; between
//! two writers' turns at most one read phase runs, of readers that waited; writers go in order. A
//! writer that downgrades, and an upgradable reader, begin such a phase themselves: the readers
//! that wait, or come before it ends, are let in beside it once. The next in line is woken a turn
//! ahead.
//!
//! **[`Bounded`]**: an arrival may pass those who wait until the lock is *due*: [`QUANTUM_MICROS`]
//! after the last waiter's turn (less if the line is long), and never later than the bound after
//! the oldest waiter began to wait. From then on the door is closed (H) until a waiter had its
//! turn. Arrivals ask the clock at every [`Policy::ASKING`]th pass, so `ASKING - 1` may pass after
//! that moment, and as many again for each arrival that races with another just then; with
//! `ASKING = 1` none does. Before it is due, the first in line is *summoned* (A): it wakes, naps
//! while the lock is busy, and then closes the door itself, so that it is on a processor when the
//! lock comes to it. Readers come in by as many as there are processors while a writer waits, and
//! all together once one of them has waited for the bound, or always with [`Together`]. What
//! remains beyond the bound is the holders' time and the operating system's.
//!
//! A scheduler that the operating system stops in the middle delays those who wait by as long as
//! it stands still; the fast path stays open to others where the policy lets them pass. Its work is
//! bounded: after [`Policy::LOOKS`] looks into the inbox it leaves the rest to a writer's release,
//! or hands its office to a thread that it lets in or that leaves the line. Only a stream of tasks,
//! to whom an office cannot be handed, could keep it longer.
//!
//! # Limits
//!
//! READERS has 55 bits (23 on 32-bit targets); the lock refuses the reader that would fill more
//! than half of them: `try_read` returns `None`, a timed call waits for room until its time, `read`
//! panics, a future waits, and nothing has changed. [`RwLockExt::read_recursive`] passes everybody,
//! and may starve writers.
//!
//! A task's waker runs in whichever thread lets the task in, after that thread has left the office:
//! it may use the lock, but a waker that waits for what this thread holds waits for ever. A panic
//! of a waker ends there; a panic of a policy's clock in the middle of a hand-over ends the
//! process.
//!
//! # Fork
//!
//! A child of a fork has of its parent's threads only the one that forked. For a lock in the child
//! this means:
//!
//! - What the thread that forked holds, it still holds, and may release.
//! - What another thread held stays held for ever, as with any lock.
//! - Threads that waited for the lock, or were scheduling it, are forgotten: nobody waits for them,
//!   and nothing that they left on their stacks is touched. `fork.rs` tells how.
//!
//! So the usual handlers of `pthread_atfork` work: lock for writing before the fork, unlock in the
//! parent and in the child, and the child has a free lock, whoever wanted it meanwhile. Handlers
//! that lock for *reading* leave the child a lock that other readers may hold for ever.
//!
//! A future that was in line gets in line again when the child polls it. A thread must not fork in
//! a signal handler that interrupted a call of this lock, unless the child then calls `exec` or
//! `_exit`. Forks are noticed on Linux; elsewhere a child must not touch a lock that another thread
//! waited for.
//!
//! # Source, and what differs
//!
//! The idea of waiting threads that sleep and schedule each other is that of an old library for C
//! whose design note gives pseudo-code; `docs/failures.md` lists what goes wrong in it, and the
//! tests that show that it does not happen here. Five things differ on purpose. The measurements
//! are those of `benches/results`, `benches/results-gathered` and
//! `docs/decisions/0001-turns-not-barging.md`, on two processors.
//!
//! 1. *The note calls its lock lock-free.* This one is not: the bit S is a lock on the line. If its
//!    owner stops (it has no processor, or a debugger holds it), threads in line are not served
//!    until it goes on; arrivals still come in where the policy lets them pass. Releases of the C
//!    functions wait for the owner of S, because the next owner of the lock may free it. *Why:*
//!    lists that several threads change at once, whose nodes are on the waiters' stacks, could
//!    only be had with memory reclamation. Instead the owner's work is bounded
//!    ([`Policy::LOOKS`]), and a thread that finds S set leaves its work to the owner and goes.
//! 2. *In the note a leaving writer wakes all readers that gathered.* [`Bounded`] lets in as many
//!    as there are processors while a writer waits, the others at the next read turn, and all once
//!    one of them has waited for the bound. *Why:* a reader that has the lock but no processor
//!    keeps the writers out. With 32 threads and reads of 1 ms, a writer's p99 is 13 ms with
//!    [`Bounded`] and 31 ms with [`Together`], which lets in all, and has 1.3 times the throughput
//!    then. For short sections no difference was seen. [`Strict`] lets in all too.
//! 3. *In the note a thread sleeps until the lock is its own.* Here the first in line wakes a
//!    little before its turn. *Why:* else the lock is idle while a thread wakes up. A lock that
//!    hands over to sleeping threads was 50 to 200 times slower than one that lets running threads
//!    pass; with 8 threads and 10 % writes, [`Bounded`] has 1.57 times the throughput of
//!    `parking_lot`, and [`Strict`], which wakes the next waiter a turn ahead, 0.006 times.
//! 4. *In the note a thread that locks and one that unlocks for writing may schedule at the same
//!    time.* Here one thread schedules at a time. *Why:* the two of the note meet between each
//!    other's steps, and a reader comes in beside a writer (the models `fair_s4_…`). The bit S is
//!    in the word that every release changes anyway, so it costs nothing without contention: a
//!    write takes 4.8 ns, `std`'s 5.2 ns.
//! 5. *The note has two queues and two lists, through which every thread goes.* Here there are an
//!    inbox and two lists for threads that must wait, and the readers inside are a count in the
//!    word. *Why:* a thread that finds the lock free is in after one atomic instruction; a read
//!    takes 5.7 ns with its release.

mod alarms;
#[cfg(not(lockspan_loom))]
mod api;
mod bomb;
#[cfg(not(lockspan_loom))]
mod checked;
mod clock;
mod fork;
mod lists;
mod node;
mod ord;
mod policy;
mod probe;
mod raw;
mod schedule;
mod task;
mod wait;
mod word;

#[cfg(not(lockspan_loom))]
pub use self::api::{ReadAsync, RwLockExt, WriteAsync};
#[cfg(not(lockspan_loom))]
pub use self::checked::{OnThisThread, RawCheckedRwLock};
pub use self::policy::{Bounded, Policy, QUANTUM_MICROS, Strict, Together};
pub use self::raw::RawRwLock;

/// The fair read-write lock around its data, with the policy [`Bounded`].
#[cfg(not(lockspan_loom))]
pub type RwLock<T> = PolicyRwLock<T, Bounded>;

/// The fair read-write lock that nobody passes: [`Strict`].
#[cfg(not(lockspan_loom))]
pub type StrictRwLock<T> = PolicyRwLock<T, Strict>;

/// The fair read-write lock with a policy of your choice.
#[cfg(not(lockspan_loom))]
pub type PolicyRwLock<T, P> = lock_api::RwLock<RawRwLock<P>, T>;

/// [`RwLock`] whose guards stay on their thread, and which panics where a thread would wait for
/// itself.
#[cfg(not(lockspan_loom))]
pub type CheckedRwLock<T> = lock_api::RwLock<RawCheckedRwLock<Bounded>, T>;

/// A read hold.
#[cfg(not(lockspan_loom))]
pub type RwLockReadGuard<'a, T, P = Bounded> = lock_api::RwLockReadGuard<'a, RawRwLock<P>, T>;

/// The write hold.
#[cfg(not(lockspan_loom))]
pub type RwLockWriteGuard<'a, T, P = Bounded> = lock_api::RwLockWriteGuard<'a, RawRwLock<P>, T>;

/// The upgradable read hold.
#[cfg(not(lockspan_loom))]
pub type RwLockUpgradableReadGuard<'a, T, P = Bounded> =
    lock_api::RwLockUpgradableReadGuard<'a, RawRwLock<P>, T>;

#[cfg(all(test, lockspan_loom))]
mod loom;

#[cfg(all(test, lockspan_shuttle))]
mod shuttle;

#[cfg(all(test, not(any(lockspan_loom, lockspan_shuttle))))]
mod tests;

#[cfg(all(test, target_os = "linux", not(any(miri, lockspan_loom, lockspan_shuttle))))]
mod fork_tests;
