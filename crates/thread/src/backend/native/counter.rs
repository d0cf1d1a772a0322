//! Adding to this processor's counter.

use core::arch::asm;

use super::super::{APART, Regions};
use super::area::Area;

impl Area {
    /// Adds to the first word of this processor's region; false if it has none.
    ///
    /// # Safety
    /// The regions are `APART` from each other; each begins with an aligned word that lives through
    /// the call, and that nobody writes but by this call.
    #[inline]
    pub(crate) unsafe fn add(self, regions: &Regions, n: i64) -> bool {
        let cpu = self.cpu();
        if cpu >= regions.cpus {
            return false;
        }
        // SAFETY: the processor's region lies in the memory that the regions describe.
        let word = unsafe { regions.base.add(cpu * APART) };
        // The address is made outside: the shorter the section, the fewer the interruptions in it.
        //
        // | interrupted after         | others see | recovery                           |
        // |---------------------------|------------|------------------------------------|
        // | 1 begin, to 3 jne         | nothing    | from 1: the processor is compared  |
        // | 4 add                     | the sum    | none is needed                     |
        //
        // SAFETY:
        // - memory: writes the area's pointer and the word of processor `cpu`; no other processor
        //   runs line 4 on that word, and on this one the instruction is whole;
        // - ordering: a plain store, in program order for others on x86-64;
        // - registers: one is spoilt, and the flags;
        // - stack: not used;
        // - control: to `moved` from line 3, before anything was added, else it falls through.
        unsafe {
            asm!(
                begin!(),
                "cmp dword ptr [{area} + 4], {cpu:e}",
                "jne {moved}",
                "add qword ptr [{word}], {n}",
                end!(),
                area = in(reg) self.pointer(),
                cs = out(reg) _,
                cpu = in(reg) cpu,
                word = in(reg) word,
                n = in(reg) n,
                moved = label { return self.add_again(regions, n) },
                options(nostack)
            );
        }
        true
    }

    /// The thread has moved in between: as often as it does, as it runs in between.
    #[cold]
    fn add_again(self, regions: &Regions, n: i64) -> bool {
        // SAFETY: only called by `add`, whose caller has promised the same.
        unsafe { self.add(regions, n) }
    }
}
