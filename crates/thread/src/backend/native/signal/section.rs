//! The section, and the list by which the handler knows one.
//!
//! Each copy that the compiler makes of the section has an entry: three distances from the entry to
//! the section's first instruction, to what follows its last, and to what follows the lowering of
//! the flag. Distances need no work of the loader.

use core::arch::asm;

/// Where an interrupted thread was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In a section, which can begin anew there.
    Inside { start: usize },
    /// Done with one, but with the flag still up.
    Behind,
    /// In none, as far as this frame goes.
    Outside,
}

/// An entry of the list, made by [`enlist`].
#[repr(C)]
struct Entry {
    start: i32,
    end: i32,
    lowered: i32,
}

impl Entry {
    fn place(&self, at: usize) -> Place {
        let here = std::ptr::from_ref(self).addr();
        let to = |distance: i32| here.wrapping_add_signed(distance as isize);
        match at {
            // Also at its first instruction: one that was sent back there still has its flag up.
            at if at >= to(self.start) && at < to(self.end) => {
                Place::Inside { start: to(self.start) }
            }
            at if at >= to(self.end) && at < to(self.lowered) => Place::Behind,
            _ => Place::Outside,
        }
    }
}

/// Labels: 77 the entry, 2 the first instruction, 3 what follows the last one, 4 what follows the
/// lowering of the flag. `R` keeps the entry when the linker collects garbage.
macro_rules! enlist {
    () => {
        concat!(
            ".pushsection lockspan_sections, \"aR\", @progbits\n",
            ".balign 4\n",
            "77: .long 2f - 77b, 3f - 77b, 4f - 77b\n",
            ".popsection\n",
            "2:",
        )
    };
}
pub(super) use enlist;

/// Looks an instruction up. Only reads what was linked, so a handler may call it.
pub(super) fn find(at: usize) -> Place {
    unsafe extern "C" {
        /// The list's ends, from the linker.
        #[link_name = "__start_lockspan_sections"]
        static START: Entry;
        #[link_name = "__stop_lockspan_sections"]
        static STOP: Entry;
    }
    // SAFETY:
    // - memory, ordering, registers, stack: nothing is touched: the block makes an empty entry,
    //   without which a program that stores nothing would have no list, and no linker its ends;
    // - control: falls through.
    unsafe {
        asm!(enlist!(), "3:", "4:", options(nomem, nostack, preserves_flags));
    }
    let (start, stop) = (&raw const START, &raw const STOP);
    let count = (stop.addr() - start.addr()) / size_of::<Entry>();
    // SAFETY: the linker puts all entries side by side between the two, and they never change.
    let entries = unsafe { std::slice::from_raw_parts(start, count) };
    let places = entries.iter().map(|entry| entry.place(at));
    places.into_iter().find(|place| *place != Place::Outside).unwrap_or(Place::Outside)
}

/// Stores `value` to `word` if `owner` is `name`; whether it did. `flag` is this thread's, and has
/// the address of `owner` meanwhile.
///
/// # Safety
/// The words live through the call, are aligned, and are only touched as atomics or by whole
/// instructions. Nobody but this thread writes `flag`.
#[inline]
pub(crate) unsafe fn store_if(
    flag: *mut u64,
    owner: *const u64,
    name: u64,
    word: *mut u64,
    value: u64,
) -> bool {
    // | interrupted after | others see          | the handler does        |
    // |-------------------|---------------------|-------------------------|
    // | 1 mov, to 3 jne   | the flag            | back to 1               |
    // | 4 mov             | the value, the flag | nothing                 |
    // | 5 mov             | the value           | nothing                 |
    //
    // SAFETY:
    // - memory: writes `flag` and `word`; reads `owner`;
    // - ordering: plain stores, in program order for others on x86-64; the barrier of a thief makes
    //   the flag visible before it looks;
    // - registers: none is changed but the flags, which no `mov` touches;
    // - stack: not used;
    // - control: to `lost` with nothing stored, else it falls through.
    unsafe {
        asm!(
            enlist!(),
            "mov qword ptr [{flag}], {owner}",
            "cmp qword ptr [{owner}], {name}",
            "jne 3f",
            "mov qword ptr [{word}], {value}",
            "3:",
            "mov qword ptr [{flag}], 0",
            "4:",
            "jne {lost}",
            flag = in(reg) flag,
            owner = in(reg) owner,
            name = in(reg) name,
            word = in(reg) word,
            value = in(reg) value,
            lost = label { return false },
            options(nostack)
        );
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_its_first_instruction_on_a_thread_is_inside() {
        let entry = Entry { start: 16, end: 40, lowered: 48 };
        let here = std::ptr::from_ref(&entry).addr();
        let start = here + 16;
        let inside = Place::Inside { start };
        let (outside, behind) = (Place::Outside, Place::Behind);
        for (at, place) in
            [(15, outside), (16, inside), (39, inside), (40, behind), (47, behind), (48, outside)]
        {
            assert_eq!(entry.place(here + at), place, "{at}");
        }
        let empty = Entry { start: 16, end: 16, lowered: 16 };
        let here = std::ptr::from_ref(&empty).addr();
        assert!((0..64).all(|at| empty.place(here + at) == Place::Outside));
    }
}
