//! Adding to this processor's counter.

use core::arch::asm;

use super::super::Regions;
use super::area::Area;

impl Area {
    /// Adds to the first word of this processor's region; false if it has none.
    ///
    /// # Safety
    /// Each of the regions begins with an aligned word that lives through the call, and that
    /// nobody writes but by this call.
    #[inline]
    pub(crate) unsafe fn add(self, regions: &Regions, n: i64) -> bool {
        // | interrupted after         | others see | recovery                        |
        // |---------------------------|------------|---------------------------------|
        // | 1 begin, to 5 imul        | nothing    | from 1, on the new processor    |
        // | 6 add                     | the sum    | none is needed                  |
        //
        // SAFETY:
        // - memory: writes the area's pointer and the word of this processor, which exists as its
        //   number is below `cpus`; no other processor runs line 6 on that word, and on this one
        //   the instruction is whole;
        // - ordering: a plain store, in program order for others on x86-64;
        // - registers: one is spoilt, and the flags;
        // - stack: not used;
        // - control: to `no_cpu` from line 3, else it falls through.
        unsafe {
            asm!(
                begin!(),
                "mov {cs:e}, dword ptr [{area} + 4]",
                "cmp {cs}, {cpus}",
                "jae {no_cpu}",
                "imul {cs}, {stride}",
                "add qword ptr [{base} + {cs}], {n}",
                end!(),
                area = in(reg) self.pointer(),
                cs = out(reg) _,
                cpus = in(reg) regions.cpus,
                stride = in(reg) regions.stride,
                base = in(reg) regions.base,
                n = in(reg) n,
                no_cpu = label { return false },
                options(nostack)
            );
        }
        true
    }
}
