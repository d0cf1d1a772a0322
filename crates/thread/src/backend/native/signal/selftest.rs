//! Does a signal with a barrier do what is said of it, on this kernel?
//!
//! A thread enters a section while `asked` is 0 and stays inside until it is sent back, or until it
//! sees `returned`. The tester sets `asked`, sends signal and barrier, and sets `returned`. If the
//! thread sees that from inside, they do not work.

use core::arch::asm;
use std::thread;
use std::time::{Duration, Instant};

use super::section::enlist;
use super::{handler, membarrier};
use crate::spin::Patience;
use crate::sync::Arc;
use crate::sync::machine::{AtomicU32, Ordering};

/// A machine on which a new thread does not run for so long has other worries.
const LIMIT: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
struct Words {
    thread: AtomicU32,
    inside: AtomicU32,
    asked: AtomicU32,
    returned: AtomicU32,
}

pub(super) fn run() -> Result<(), String> {
    let words = Arc::new(Words::default());
    let theirs = Arc::clone(&words);
    let sitter = thread::Builder::new().name("lockspan-selftest".to_owned());
    let sitter = sitter
        .spawn(move || {
            super::super::selftest::calm_down();
            // SAFETY: a query without side effects.
            let number = unsafe { libc::gettid() };
            theirs.thread.store(number.cast_unsigned(), Ordering::Release);
            sit(&theirs)
        })
        .map_err(|error| format!("the self-test cannot start a thread: {error}"))?;
    let (start, mut patience) = (Instant::now(), Patience::new());
    while words.inside.load(Ordering::Acquire) == 0 && start.elapsed() < LIMIT {
        patience.wait();
    }
    words.asked.store(1, Ordering::SeqCst);
    let sent = handler::send(words.thread.load(Ordering::Acquire));
    membarrier::barrier();
    words.returned.store(1, Ordering::SeqCst);
    let result = sitter.join().map_err(|_| "the self-test panicked".to_owned())?;
    sent.map_err(|error| format!("a signal cannot be sent: {error}"))?;
    result.map_err(str::to_owned)
}

/// Sits in a section until it is sent back after `asked`.
fn sit(words: &Words) -> Result<(), &'static str> {
    // SAFETY:
    // - memory: reads two words, which outlive the call, and writes `inside`, an atomic that the
    //   tester only waits for;
    // - ordering: the barrier's; no two words are compared;
    // - registers: only the flags are spoilt;
    // - stack: not used;
    // - control: to `done` after `asked`; falls through when still inside after `returned`. Sent
    //   back from anywhere between labels 2 and 3, it begins anew and reads `asked` again.
    unsafe {
        asm!(
            enlist!(),
            "cmp dword ptr [{asked}], 0",
            "jne {done}",
            "mov dword ptr [{inside}], 1",
            "5:",
            "pause",
            "cmp dword ptr [{returned}], 0",
            "je 5b",
            "3:",
            "4:",
            asked = in(reg) words.asked.as_ptr(),
            inside = in(reg) words.inside.as_ptr(),
            returned = in(reg) words.returned.as_ptr(),
            done = label { return Ok(()) },
            options(nostack)
        );
    }
    Err("the barrier returned before the signal had come")
}
