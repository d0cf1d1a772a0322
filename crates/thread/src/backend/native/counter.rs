//! Adding to this processor's counter.

use core::arch::asm;

use super::super::{APART, Regions};
use super::area::Area;

const _: () = assert!(APART.is_power_of_two(), "the section shifts by it");

impl Area {
    /// Adds to the first word of this processor's region; false if it has none.
    ///
    /// # Safety
    /// The regions are `APART` from each other; each begins with an aligned word that lives through
    /// the call, and that nobody writes but by this call.
    #[inline]
    pub(crate) unsafe fn add(self, regions: &Regions, n: i64) -> bool {
        // | interrupted after | others see | recovery                             |
        // |-------------------|------------|--------------------------------------|
        // | 1 begin, to 6 add | nothing    | from 1: the processor is asked again |
        // | 7 add             | the sum    | none is needed                       |
        //
        // The address is in one register: an addition to `[register]` follows the one before it
        // sooner than one with an index does.
        //
        // SAFETY:
        // - memory: writes the area's pointer and the word of this processor, whose number is one
        //   of a region; no other processor runs line 7 on that word, and on this one the
        //   instruction is whole;
        // - ordering: a plain store, in program order for others on x86-64;
        // - registers: one is spoilt, and the flags;
        // - stack: not used;
        // - control: to `no_cpu` before anything was added, else it falls through.
        unsafe {
            asm!(
                begin!(),
                "mov {cs:e}, dword ptr [{area} + 4]",
                "cmp {cs}, {cpus}",
                "jae {no_cpu}",
                "shl {cs}, {shift}",
                "add {cs}, {base}",
                "add qword ptr [{cs}], {n}",
                end!(),
                area = in(reg) self.pointer(),
                cs = out(reg) _,
                cpus = in(reg) regions.cpus,
                base = in(reg) regions.base,
                shift = const APART.ilog2(),
                n = in(reg) n,
                no_cpu = label { return false },
                options(nostack)
            );
        }
        true
    }
}
