//! The calling thread's table, in static thread-local storage.
//!
//! A shared library finds its thread-local variables through a call into the dynamic linker, which
//! costs a third of an uncontended lock call. This library is loaded with the program, so its
//! variables can stand at a fixed distance from the thread pointer (the *initial-exec* model of the
//! ABI). Stable Rust cannot ask for that; a few lines of assembly can. A program that loads this
//! library later, by `dlopen`, needs a kilobyte of the static room that the C library keeps for
//! this, or is told so by `dlopen`.

use super::Table;

#[cfg(not(any(test, miri)))]
mod initial_exec {
    use std::arch::{asm, global_asm};

    use super::Table;

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
        size = const size_of::<Table>(),
        align = const align_of::<Table>(),
    );

    /// Does something with the calling thread's table.
    #[inline(always)]
    pub(crate) fn with<R>(act: impl FnOnce(&Table) -> R) -> R {
        let table: *const Table;
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
                "mov {table}, qword ptr fs:[0]", // table = thread pointer
                "add {table}, qword ptr [rip + lockspan_held@GOTTPOFF]", // table += distance
                table = out(reg) table,
                options(pure, readonly, nostack),
            );
        }
        // SAFETY: the variable has this size and alignment, is zero in a new thread, which is a
        // valid `Table`, lives as long as the thread, and no other thread refers to it.
        act(unsafe { &*table })
    }
}

#[cfg(not(any(test, miri)))]
pub(super) use initial_exec::with;

#[cfg(any(test, miri))]
thread_local! {
    static TABLE: Table = const { Table::new() };
}

/// Does something with the calling thread's table.
#[cfg(any(test, miri))]
pub(super) fn with<R>(act: impl FnOnce(&Table) -> R) -> R {
    TABLE.with(act)
}
