//! The handler alone.

use std::thread;

use super::section::{self, Place};
use super::{SIGNAL, handler, prepare, store_if};
use crate::sync::machine::{AtomicU32, Ordering};

#[test]
fn signal_and_barrier_work_here() {
    assert_eq!(prepare(), Ok("SIGSTKFLT and membarrier work".to_owned()));
    assert_eq!(prepare(), Ok("SIGSTKFLT and membarrier work".to_owned()), "a second time");
}

#[test]
fn a_store_happens_if_the_name_is_right() {
    let (mut flag, owner, mut word) = (0, 7, 1);
    // SAFETY: the words are this function's own.
    assert!(unsafe { store_if(&mut flag, &owner, 7, &mut word, 2) });
    assert_eq!((flag, word), (0, 2));
    // SAFETY: the words are this function's own.
    assert!(!unsafe { store_if(&mut flag, &owner, 8, &mut word, 3) });
    assert_eq!((flag, word), (0, 2));
}

#[test]
fn ordinary_code_is_outside_of_sections() {
    let function = ordinary_code_is_outside_of_sections as fn();
    assert_eq!(section::find(function as usize), Place::Outside);
    assert_eq!(section::find(0), Place::Outside);
}

/// In a child process, because other tests of this one rely on the handler.
#[test]
fn two_threads_that_install_the_handler_at_once_both_succeed() {
    // SAFETY: the child runs `race_to_install` and leaves without destructors.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let done = std::panic::catch_unwind(race_to_install).is_ok();
        // SAFETY: this leaves the process.
        unsafe { libc::_exit(if done { 0 } else { 1 }) }
    }
    assert!(child > 0, "fork: {}", std::io::Error::last_os_error());
    let mut status = 0;
    // SAFETY: our own child, and a place for its status.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0, "a thread was told that somebody else uses the signal");
}

fn race_to_install() {
    const ROUNDS: u32 = 20_000;
    let (arrived, refused) = (AtomicU32::new(0), AtomicU32::new(0));
    // Threads that were asleep would start too far apart to overlap.
    let meet = |round: u32| {
        arrived.fetch_add(1, Ordering::AcqRel);
        while arrived.load(Ordering::Acquire) < 2 * round {
            thread::yield_now();
        }
    };
    let racer = |resets: bool| {
        for round in 0..ROUNDS {
            meet(3 * round + 1);
            if resets {
                // SAFETY: no thread sends the signal now, so its default action is not used.
                unsafe { libc::signal(SIGNAL, libc::SIG_DFL) };
            }
            meet(3 * round + 2);
            refused.fetch_add(u32::from(handler::install().is_err()), Ordering::Relaxed);
            meet(3 * round + 3);
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| racer(true));
        racer(false);
    });
    assert_eq!(refused.into_inner(), 0);
}
