//! Revocable locks by signals, as the article that proposed them had it: the feature `signals`.
//!
//! A store under a lock is a section of five instructions: raise a flag, compare the lock's word,
//! store, lower the flag, report. Who takes the lock away marks its word as being revoked, and
//! sends a signal to an owner whose flag is up; the handler moves the owner back to the section's
//! first instruction, so that it compares again, and fails. `revocable/signals.rs` has the steps.
//!
//! It is chosen by name only, `LOCKSPAN_REVOCABLE_BACKEND=signal`, and worth it where the kernel
//! has membarrier but no restartable sequences: a thief waits for nobody, not even for an owner
//! that was taken off its processor in the middle of a section. With the backend `membarrier` it
//! would wait for that one's next turn.
//!
//! # Why a cancel is strict
//!
//! 1. The word is marked. Sections that compare it from now on fail.
//! 2. A barrier runs in all threads. An owner that compared before has its flag up for all to see.
//! 3. If it is up: a signal. The kernel calls the handler before the owner's next instruction,
//!    unless the owner is running at this moment and has not heard of it;
//! 4. so a second barrier interrupts all that run, and on the way back the handler is called.
//!
//! Then the marked word is exchanged for the thief's. Another thief that finds the mark does all
//! steps itself: nobody waits for somebody else's signal, and nobody trusts it.
//!
//! Step 4 relies on how the kernel returns from an interrupt: it looks for signals. That is how it
//! is built, but not what its manual promises; [`prepare`] tests it on each start.
//!
//! # The article's flaws
//!
//! The numbers are those of our notes on the article's code, on a kernel of today.
//!
//! - **F2**: a running owner is never evicted: it locks again before the thief has. *Here* the
//!   lock's word is marked first. The owner cannot win it back without joining in the steal.
//! - **F3**: another signal's handler interrupts a section, ours interrupts that one, sees no
//!   section, and the section goes on later. *Here* the handler knows by the flag that a section
//!   lies below. It blocks the signal for the rest of the foreign handler and sends it again: the
//!   kernel delivers it when that returns, to the section, or to the next handler below, and so on.
//!   It says so (`comes_again`), and a thief need not wait.
//!   *For the user*: a handler must return. One that jumps out leaves the flag up and our signal
//!   blocked: a thief may wait until the thread stores again, and the next store takes the promise
//!   back before it raises the flag.
//! - **F4**: a thread has blocked the signal. *Here* a thief looks for that in `/proc`, after the
//!   signal, and waits for the flag if so. The same if somebody has put another handler in place of
//!   ours. Nothing is lost, but the promise that thieves do not wait is. *For the user*: leave
//!   `SIGSTKFLT` alone; fill a mask with `sigfillset` only in threads that own no lock; and let no
//!   handler allow what its thread has blocked: the thief would trust it.
//! - **F5**: a second thief took the first one's word that the signal was sent, before it was.
//!   *Here* there is no such word; each one sends its own.
//! - **F6**: sequence numbers of 22 bits come again after seconds. *Here* they have 43 bits and a
//!   record that has used them up is not used again.
//! - **F7**: addresses in 42 bits. *Here* names have the index of a record in a table.
//! - **F8**: after a fork the surviving thread has another number, and signals go nowhere. *Here*
//!   a handler of `pthread_atfork` stores the new one; locks of threads that are not in the child
//!   are free. *For the user*: a child made by a bare `clone` has no such handlers, and must not
//!   use these locks.
//! - **F9**: `/proc` cannot be read, for want of descriptors or because it is not there. *Here* it
//!   decides nothing that stores depend on: a thread of which nothing can be read counts as running
//!   (so `Steal::Local` is refused) and as one that blocks the signal (so the thief waits for the
//!   flag). That it has ended only the kernel says, when it is asked to send it nothing.
//! - **F10**: a state of "sleeping" in `/proc` is no barrier. *Here* barriers are barriers, and
//!   the check whether the owner runs only answers `Steal::Local`, before anything was changed.
//! - **F11**: a signal makes waiting calls return early, with `EINTR`, even with `SA_RESTART`; and
//!   a queue of signals may be full. *Here* only an owner whose flag is up is sent one: about one
//!   eviction in three, by our measurement. It may have left the section and begun to wait by then;
//!   *the user* must expect `EINTR` as with any signal. `SIGSTKFLT` is of the old kind, which has
//!   no queue, and no kernel sends it. An error of `tgkill` ends the process, unless it says that
//!   the thread has ended.
//! - **F12**: a record is freed or used again while somebody reads it. *Here* records stay, and
//!   what their thread has named counts as released when it ends, before another one has the
//!   record: a ticket that outlives it says so before it touches the flag. The handler reads a cell
//!   of the thread that needs no making and no end. A library that contains the handler stays in
//!   memory, whatever `dlclose` is told. *For the user*: as each copy of this code has its own
//!   handler, the second one in a process is told that the signal is taken.
//!
//! The handler runs on the alternate stack, if its thread has one, with all signals blocked: no
//! other handler is called on that stack because of it.
//!
//! Two limits remain. The handler knows the sections of the program or library that it is linked
//! into: do not use this backend where this crate is a Rust `dylib` of its own, since sections are
//! inlined into its callers. And it reads a thread-local: in a library that is opened late, the C
//! library may allocate for the first such read of a thread, which `follow_thread` does before any
//! signal; a later `dlopen` elsewhere can make it do so again. Link it into the program.

mod handler;
mod section;
mod selftest;
#[cfg(test)]
mod tests;
mod victim;

pub(crate) use self::handler::{follow_thread, forget_thread};
pub(crate) use self::section::store_if;
pub(crate) use self::victim::{Sent, interrupt, is_running};

use super::membarrier;

/// The signal: a classic one that no kernel sends and hardly a program uses.
const SIGNAL: libc::c_int = libc::SIGSTKFLT;

/// Makes all ready and tries it, or says why not.
pub(super) fn prepare() -> Result<String, String> {
    membarrier::register()?;
    handler::install()?;
    selftest::run()?;
    Ok("SIGSTKFLT and membarrier work".to_owned())
}
