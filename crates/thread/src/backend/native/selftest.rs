//! Does the barrier do what it promises, on this kernel?
//!
//! A thread enters a section while `asked` is 0 and stays inside until it is thrown out, or until
//! it sees `returned`. The tester sets `asked`, sends the barrier, and sets `returned`. A section
//! that was entered before `asked` must be gone when the barrier returns: if the thread sees
//! `returned` from inside, the barrier does not work. Preemption throws it out as well; then it
//! enters again.

use core::arch::asm;
use std::thread;
use std::time::{Duration, Instant};

use super::area::Area;
use super::membarrier;
use crate::sync::Arc;
use crate::sync::machine::{AtomicU32, Ordering};

/// A machine on which a new thread does not run for so long has other worries.
const LIMIT: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
struct Flags {
    inside: AtomicU32,
    asked: AtomicU32,
    returned: AtomicU32,
    /// The thread has no area, or is done.
    gone: AtomicU32,
}

pub(super) fn run() -> Result<(), String> {
    let flags = Arc::new(Flags::default());
    let theirs = Arc::clone(&flags);
    let sitter = thread::Builder::new().name("lockspan-selftest".to_owned());
    let sitter = sitter
        .spawn(move || {
            let result = Area::from_source().ok_or("a new thread has no area");
            let result = result.and_then(|area| sit(area, &theirs));
            theirs.gone.store(1, Ordering::Release);
            result
        })
        .map_err(|error| format!("the self-test cannot start a thread: {error}"))?;
    let start = Instant::now();
    let is_gone = || flags.gone.load(Ordering::Acquire) != 0;
    while flags.inside.load(Ordering::Acquire) == 0 && !is_gone() && start.elapsed() < LIMIT {
        thread::yield_now();
    }
    flags.asked.store(1, Ordering::SeqCst);
    membarrier::stop_sections();
    flags.returned.store(1, Ordering::SeqCst);
    let result = sitter.join().map_err(|_| "the self-test panicked".to_owned())?;
    result.map_err(str::to_owned)
}

/// Sits in a section until it is thrown out after `asked`.
fn sit(area: Area, flags: &Flags) -> Result<(), &'static str> {
    // SAFETY:
    // - memory: reads the flags, which outlive the call, and writes `inside`, an atomic that the
    //   tester only waits for, and the area's pointer, which is this thread's;
    // - ordering: the barrier's; no two flags are compared;
    // - registers: one is spoilt, and the flags;
    // - stack: not used;
    // - control: to `done` after `asked`; falls through when still inside after `returned`.
    //   Interrupted anywhere between labels 2 and 3, it begins anew and reads `asked` again.
    unsafe {
        asm!(
            begin!(),
            "cmp dword ptr [{asked}], 0",
            "jne {done}",
            "mov dword ptr [{inside}], 1",
            "5:",
            "pause",
            "cmp dword ptr [{returned}], 0",
            "je 5b",
            end!(),
            area = in(reg) area.pointer(),
            cs = out(reg) _,
            asked = in(reg) flags.asked.as_ptr(),
            inside = in(reg) flags.inside.as_ptr(),
            returned = in(reg) flags.returned.as_ptr(),
            done = label { return Ok(()) },
            options(nostack)
        );
    }
    Err("the barrier returned before a section was aborted")
}
