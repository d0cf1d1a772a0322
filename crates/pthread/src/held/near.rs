//! The calling thread's holds, in static thread-local storage.
//!
//! A shared library finds its thread-local variables through a call into the dynamic linker, which
//! costs a third of an uncontended lock call. This library is loaded with the program, so its
//! variables can stand at a fixed distance from the thread pointer (the *initial-exec* model of the
//! ABI). Stable Rust cannot ask for that; a few lines of assembly can. A program that loads this
//! library later, by `dlopen`, needs a kilobyte of the static room that the C library keeps for
//! this, or is told so by `dlopen`.

use super::Holds;

#[cfg(not(any(test, miri)))]
mod initial_exec {
    use std::arch::{asm, global_asm};

    use super::Holds;

    global_asm!(
        ".pushsection .tbss.lockspan_held,\"awT\",@nobits",
        ".hidden lockspan_held",
        ".globl lockspan_held",
        ".type lockspan_held,@object",
        ".size lockspan_held,{size}",
        ".balign {align}",
        "lockspan_held:",
        ".zero {size}",
        ".popsection",
        size = const size_of::<Holds>(),
        align = const align_of::<Holds>(),
    );

    /// Does something with the calling thread's holds.
    #[inline(always)]
    pub(crate) fn with<R>(act: impl FnOnce(&Holds) -> R) -> R {
        let holds: *const Holds;
        // SAFETY:
        // - memory: reads the distance from the global offset table, which does not change, and the
        //   thread pointer;
        // - ordering: both are this thread's alone;
        // - registers and flags: one register; the addition sets flags, so `preserves_flags` is not
        //   claimed;
        // - stack: none;
        // - control: falls through.
        unsafe {
            asm!(
                "mov {holds}, qword ptr fs:[0]", // holds = thread pointer
                "add {holds}, qword ptr [rip + lockspan_held@GOTTPOFF]", // holds += distance
                holds = out(reg) holds,
                options(pure, readonly, nostack),
            );
        }
        // SAFETY: the variable has this size and alignment, is zero in a new thread, which is a
        // valid `Holds`, lives as long as the thread, and no other thread refers to it.
        act(unsafe { &*holds })
    }
}

#[cfg(not(any(test, miri)))]
pub(super) use initial_exec::with;

#[cfg(any(test, miri))]
thread_local! {
    static HOLDS: Holds = const { Holds::new() };
}

/// Does something with the calling thread's holds.
#[cfg(any(test, miri))]
pub(super) fn with<R>(act: impl FnOnce(&Holds) -> R) -> R {
    HOLDS.with(act)
}
