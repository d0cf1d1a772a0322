//! Pushing to and popping from this processor's stack.
//!
//! A region has a latch, a length and items. Whoever works on a region from elsewhere shuts the
//! latch, and then sends the barrier: sections that saw it open are over or aborted, later ones see
//! it shut. The sections below change only the length that others look at: items at or above it
//! mean nothing to anybody.
//!
//! | interrupted after | others see | recovery |
//! |---|---|---|
//! | `begin`, the region's address, latch, length | nothing | from `begin`, on the new processor |
//! | an item was copied | nothing: it is above the length, or the caller's | the same |
//! | the length was stored | the items are in, or out | none is needed |

use core::arch::asm;
use core::mem::offset_of;

use super::super::regions::{ITEMS, LATCH, LENGTH};
use super::super::{Outcome, Regions};
use super::area::Area;

const _: () =
    assert!(LATCH == 0 && LENGTH == 8 && ITEMS == 64, "the sections have them as numbers");

const _: () = assert!(offset_of!(Regions, base) == 0 && offset_of!(Regions, cpus) == 8);
const _: () = assert!(offset_of!(Regions, stride) == 16 && offset_of!(Regions, capacity) == 24);

const MOVED: u64 = 0;
const SHUT: u64 = 1;

fn outcome(status: u64, moved: usize) -> Outcome {
    match status {
        MOVED => Outcome::Moved(moved),
        SHUT => Outcome::Shut,
        _ => Outcome::NoCpu,
    }
}

/// From the processor's number to its region's address in `{cs}`, if it has one and that is open.
macro_rules! region {
    () => {
        concat!(
            "mov {status:e}, 2\n",
            "mov {cs:e}, dword ptr [{area} + 4]\n",
            "cmp {cs}, qword ptr [{regions} + 8]\n",
            "jae 3f\n",
            "imul {cs}, qword ptr [{regions} + 16]\n",
            "add {cs}, qword ptr [{regions}]\n",
            "mov {status:e}, 1\n",
            "cmp dword ptr [{cs}], 0\n",
            "jne 3f\n",
            "mov {length}, qword ptr [{cs} + 8]",
        )
    };
}

impl Area {
    /// Pushes an item; `Moved(0)` if the region is full.
    ///
    /// # Safety
    /// The regions are a stack's, live through the call, and are written only by these sections, or
    /// by somebody who has shut the latch and waited for the barrier.
    #[inline]
    pub(crate) unsafe fn push(self, regions: &Regions, item: u64) -> Outcome {
        // SAFETY:
        // - memory: writes the area's pointer, and of this processor's region the item at the
        //   length, which is below the capacity, and the length; nobody else does, as the latch
        //   was open;
        // - ordering: plain stores, in program order for others on x86-64: the item comes first;
        // - registers: two are spoilt, and the flags;
        // - stack: not used;
        // - control: to a label before anything was written, else it falls through.
        unsafe {
            asm!(
                begin!(),
                "mov {cs:e}, dword ptr [{area} + 4]",
                "cmp {cs}, {cpus}",
                "jae {no_cpu}",
                "imul {cs}, {stride}",
                "add {cs}, {base}",
                "cmp dword ptr [{cs}], 0",
                "jne {shut}",
                "mov {length}, qword ptr [{cs} + 8]",
                "cmp {length}, {capacity}",
                "jae {full}",
                "mov qword ptr [{cs} + {length} * 8 + 64], {item}",
                "inc {length}",
                "mov qword ptr [{cs} + 8], {length}",
                end!(),
                area = in(reg) self.pointer(),
                cs = out(reg) _,
                length = out(reg) _,
                cpus = in(reg) regions.cpus,
                stride = in(reg) regions.stride,
                base = in(reg) regions.base,
                capacity = in(reg) regions.capacity,
                item = in(reg) item,
                no_cpu = label { return Outcome::NoCpu },
                shut = label { return Outcome::Shut },
                full = label { return Outcome::Moved(0) },
                options(nostack)
            );
        }
        Outcome::Moved(1)
    }

    /// Pops an item. The error is `Moved(0)` if the region is empty, and `Shut` if something else
    /// is wrong: [`pop_many`](Self::pop_many) tells what.
    ///
    /// # Safety
    /// As for [`push`](Self::push).
    #[inline]
    pub(crate) unsafe fn pop(self, regions: &Regions) -> Result<u64, Outcome> {
        // A section with outputs can have no labels of Rust's, so the length tells how it ended.
        let (item, length): (u64, i64);
        // SAFETY:
        // - memory: writes the area's pointer and the length of this processor's region, and reads
        //   an item below the length; nobody else does, as the latch was open;
        // - ordering: the item is read before the length is stored, which x86-64 keeps;
        // - registers: three outputs, and the flags; an interruption sets all of them anew;
        // - stack: not used;
        // - control: from each jump to label 3, which is outside, at last, else it falls through
        //   to it. The item means something only if the length is not negative.
        unsafe {
            asm!(
                begin!(),
                "mov {cs:e}, dword ptr [{area} + 4]",
                "cmp {cs}, {cpus}",
                "jae 5f",
                "imul {cs}, {stride}",
                "add {cs}, {base}",
                "cmp dword ptr [{cs}], 0",
                "jne 5f",
                "mov {length}, qword ptr [{cs} + 8]",
                "sub {length}, 1",
                "jb 3f",
                "mov {item}, qword ptr [{cs} + {length} * 8 + 64]",
                "mov qword ptr [{cs} + 8], {length}",
                end!(),
                ".pushsection __rseq_failure, \"ax\", @progbits",
                "5: mov {length}, -2",
                "jmp 3b",
                ".popsection",
                area = in(reg) self.pointer(),
                cs = out(reg) _,
                length = out(reg) length,
                cpus = in(reg) regions.cpus,
                stride = in(reg) regions.stride,
                base = in(reg) regions.base,
                item = out(reg) item,
                options(nostack)
            );
        }
        match length {
            0.. => Ok(item),
            -1 => Err(Outcome::Moved(0)),
            _ => Err(Outcome::Shut),
        }
    }

    /// Pushes as many of `items` as there is room for, all at once, the first one first.
    ///
    /// # Safety
    /// As for [`push`](Self::push).
    pub(crate) unsafe fn push_many(self, regions: &Regions, items: &[u64]) -> Outcome {
        let (status, moved): (u64, usize);
        // SAFETY:
        // - memory: writes the area's pointer, and of this processor's region the items from the
        //   length on, below the capacity, and the length; reads at most `count` items; nobody
        //   else writes there, as the latch was open;
        // - ordering: plain stores, in program order for others on x86-64: the items come first;
        // - registers: five outputs, and the flags; an interruption sets all of them anew;
        // - stack: not used;
        // - control: from each jump to label 3, which is outside, else it falls through to it; the
        //   loop at 5 ends after `moved` rounds, and `moved` is not 0 there.
        unsafe {
            asm!(
                begin!(),
                region!(),
                "xor {status:e}, {status:e}",
                "mov {moved}, qword ptr [{regions} + 24]",
                "sub {moved}, {length}",
                "cmp {moved}, {count}",
                "cmova {moved}, {count}",
                "test {moved}, {moved}",
                "je 3f",
                "lea {to}, [{cs} + {length} * 8 + 64]",
                "add {length}, {moved}",
                "mov {at:e}, 0",
                "5:",
                "mov {item}, qword ptr [{items} + {at} * 8]",
                "mov qword ptr [{to} + {at} * 8], {item}",
                "inc {at}",
                "cmp {at}, {moved}",
                "jb 5b",
                "mov qword ptr [{cs} + 8], {length}",
                end!(),
                area = in(reg) self.pointer(),
                cs = out(reg) _,
                length = out(reg) _,
                to = out(reg) _,
                at = out(reg) _,
                item = out(reg) _,
                regions = in(reg) &raw const *regions,
                count = in(reg) items.len(),
                items = in(reg) items.as_ptr(),
                status = out(reg) status,
                moved = out(reg) moved,
                options(nostack)
            );
        }
        outcome(status, moved)
    }

    /// Pops as many items as there are, at most as many as `items` has places, all at once. The
    /// one on top becomes the first.
    ///
    /// # Safety
    /// As for [`push`](Self::push).
    pub(crate) unsafe fn pop_many(self, regions: &Regions, items: &mut [u64]) -> Outcome {
        let (status, moved): (u64, usize);
        // SAFETY:
        // - memory: writes the area's pointer, at most `count` of the caller's places, and the
        //   length of this processor's region; reads items below the length; nobody else writes
        //   there, as the latch was open;
        // - ordering: the items are read before the length is stored, which x86-64 keeps;
        // - registers: five outputs, and the flags; an interruption sets all of them anew;
        // - stack: not used;
        // - control: from each jump to label 3, which is outside, else it falls through to it; the
        //   loop at 5 ends after `moved` rounds, and `moved` is not 0 there.
        unsafe {
            asm!(
                begin!(),
                region!(),
                "xor {status:e}, {status:e}",
                "mov {moved}, {length}",
                "cmp {moved}, {count}",
                "cmova {moved}, {count}",
                "test {moved}, {moved}",
                "je 3f",
                "mov {at:e}, 0",
                "5:",
                "dec {length}",
                "mov {item}, qword ptr [{cs} + {length} * 8 + 64]",
                "mov qword ptr [{items} + {at} * 8], {item}",
                "inc {at}",
                "cmp {at}, {moved}",
                "jb 5b",
                "mov qword ptr [{cs} + 8], {length}",
                end!(),
                area = in(reg) self.pointer(),
                cs = out(reg) _,
                length = out(reg) _,
                at = out(reg) _,
                item = out(reg) _,
                regions = in(reg) &raw const *regions,
                count = in(reg) items.len(),
                items = in(reg) items.as_mut_ptr(),
                status = out(reg) status,
                moved = out(reg) moved,
                options(nostack)
            );
        }
        outcome(status, moved)
    }
}
