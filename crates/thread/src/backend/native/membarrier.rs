//! The call `membarrier`: registered early, and never without a look at its result.
//!
//! Two errors are possible once it has worked. ENOMEM: the kernel needs a little memory for a
//! barrier on all processors, and has none at this moment. The call is made again. Everything else:
//! the process has forbidden itself the call, by seccomp. Then it is stopped with a message, since
//! nobody knows which stores are still to come.

use std::io::Error;

use crate::spin::Patience;

#[cfg(test)]
use super::super::sabotage::{self, Mistake};

const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;
const PRIVATE_EXPEDITED_RSEQ: libc::c_int = 1 << 7;
const REGISTER_PRIVATE_EXPEDITED_RSEQ: libc::c_int = 1 << 8;
/// The barrier is for one processor.
const FLAG_CPU: libc::c_int = 1;

/// How often a call that fails for lack of memory is made. With the pauses between them that is
/// some seconds: a kernel that has no page for so long has ended processes before.
const TRIES: u32 = 50_000;

fn call(command: libc::c_int, flags: libc::c_int, cpu: libc::c_int) -> Result<(), Error> {
    until_there_is_memory(|| {
        // SAFETY: the call takes three numbers and touches no memory of ours.
        let result = unsafe { libc::syscall(libc::SYS_membarrier, command, flags, cpu) };
        if result == 0 { Ok(()) } else { Err(Error::last_os_error()) }
    })
}

/// Calls again, after a pause, as long as the error is ENOMEM.
fn until_there_is_memory(mut call: impl FnMut() -> Result<(), Error>) -> Result<(), Error> {
    let mut patience = Patience::new();
    let mut result = call();
    for _ in 1..TRIES {
        let lacks_memory = |error: &Error| error.raw_os_error() == Some(libc::ENOMEM);
        if !result.as_ref().is_err_and(lacks_memory) {
            break;
        }
        patience.wait();
        result = call();
    }
    result
}

/// Registers for the plain barrier.
pub(super) fn register() -> Result<(), String> {
    call(REGISTER_PRIVATE_EXPEDITED, 0, 0)
        .and_then(|()| call(PRIVATE_EXPEDITED, 0, 0))
        .map_err(|error| format!("membarrier does not work: {error}"))
}

/// Registers for the barrier that aborts sections, for all processors and for one.
pub(super) fn register_for_sections() -> Result<(), String> {
    call(REGISTER_PRIVATE_EXPEDITED_RSEQ, 0, 0)
        .and_then(|()| call(PRIVATE_EXPEDITED_RSEQ, 0, 0))
        .and_then(|()| call(PRIVATE_EXPEDITED_RSEQ, FLAG_CPU, 0))
        .map_err(|error| format!("membarrier for sections does not work: {error}"))
}

/// After this no section that began before runs on, on any processor, and those that begin later
/// see what this thread wrote before.
pub(crate) fn stop_sections() {
    #[cfg(test)]
    if sabotaged() {
        return;
    }
    must(call(PRIVATE_EXPEDITED_RSEQ, 0, 0));
}

/// The same for the sections on one processor, which need not be online.
pub(crate) fn stop_sections_on(cpu: usize) {
    #[cfg(test)]
    if sabotaged() {
        return;
    }
    match libc::c_int::try_from(cpu) {
        Ok(cpu) => must(call(PRIVATE_EXPEDITED_RSEQ, FLAG_CPU, cpu)),
        Err(_) => stop_sections(),
    }
}

/// A full barrier in every thread of the process, at some moment during the call.
pub(crate) fn barrier() {
    #[cfg(test)]
    if sabotage::is(Mistake::NoFence) {
        return;
    }
    must(call(PRIVATE_EXPEDITED, 0, 0));
}

/// Nobody knows which stores are still to come once a barrier has failed: to go on would lose
/// some, and to unwind would let others believe that all is well.
fn must(result: Result<(), Error>) {
    if let Err(error) = result {
        let why = "membarrier worked before and now fails";
        lockspan_park::stop(format_args!("{why}: {error}; aborting"));
    }
}

/// Whether there is no barrier for sections, or only one that aborts none.
#[cfg(test)]
fn sabotaged() -> bool {
    if sabotage::is(Mistake::WrongFence) {
        must(call(PRIVATE_EXPEDITED, 0, 0));
        return true;
    }
    sabotage::is(Mistake::NoFence)
}

#[cfg(all(test, not(any(lockspan_loom, lockspan_shuttle))))]
mod tests {
    use super::*;

    fn error(code: i32) -> Result<(), Error> {
        Err(Error::from_raw_os_error(code))
    }

    #[test]
    fn rlock_r9_a_barrier_that_lacks_memory_is_tried_again() {
        let mut calls = 0;
        let done = until_there_is_memory(|| {
            calls += 1;
            if calls <= 150 { error(libc::ENOMEM) } else { Ok(()) }
        });
        assert!(done.is_ok(), "{done:?}");
        assert_eq!(calls, 151);
    }

    #[test]
    fn an_error_that_will_not_go_away_is_returned_at_once() {
        for code in [libc::EPERM, libc::ENOSYS, libc::EINVAL] {
            let mut calls = 0;
            let done = until_there_is_memory(|| {
                calls += 1;
                error(code)
            });
            assert_eq!(done.unwrap_err().raw_os_error(), Some(code));
            assert_eq!(calls, 1);
        }
    }
}
