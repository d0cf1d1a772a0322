//! Stores that happen only while a word has a value and the thread is on a processor: the sections
//! of revocable locks.
//!
//! Each one has the same checks first: see [`Claim`].

use core::arch::asm;

use super::super::Claim;
#[cfg(test)]
use super::super::sabotage::{self, Mistake};
use super::area::Area;

/// How a conditional store with a comparison ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compared {
    /// It was stored.
    Stored,
    /// The word had another value.
    Differs,
    /// The claim does not hold.
    Lost,
}

/// Six instructions, to `{lost}` unless the claim holds. The order does not matter: an interruption
/// between them begins the section anew.
macro_rules! checks {
    () => {
        concat!(
            "cmp {name}, qword ptr [{floor}]\n",
            "jb {lost}\n",
            "cmp dword ptr [{area} + 4], {cpu:e}\n",
            "jne {lost}\n",
            "cmp qword ptr [{owner}], {name}\n",
            "jne {lost}",
        )
    };
}

impl Area {
    /// Stores `value` to `word`; false, and nothing is stored, if the claim does not hold.
    ///
    /// # Safety
    /// All the words live through the call, are aligned, and are only touched as atomics or by
    /// whole instructions.
    #[inline]
    pub(crate) unsafe fn store_if(self, claim: Claim, word: *mut u64, value: u64) -> bool {
        #[cfg(test)]
        if sabotage::is(Mistake::NoCheck) || sabotage::window() > 0 {
            // SAFETY: as the caller has promised.
            return unsafe { self.store_if_late(claim, word, value) };
        }
        // | interrupted after        | others see | recovery              |
        // |--------------------------|------------|-----------------------|
        // | 1 begin, to 7 jne        | nothing    | from 1: checked again |
        // | 8 mov                    | the value  | none is needed        |
        //
        // SAFETY:
        // - memory: writes the area's pointer and `word`; reads the claim's words;
        // - ordering: a plain store, in program order for others on x86-64;
        // - registers: one is spoilt, and the flags;
        // - stack: not used;
        // - control: to `lost` before anything was written, else it falls through.
        unsafe {
            asm!(
                begin!(),
                checks!(),
                "mov qword ptr [{word}], {value}",
                end!(),
                area = in(reg) self.pointer(),
                cs = out(reg) _,
                cpu = in(reg) claim.cpu,
                owner = in(reg) claim.owner,
                name = in(reg) claim.name,
                floor = in(reg) claim.floor,
                word = in(reg) word,
                value = in(reg) value,
                lost = label { return false },
                options(nostack)
            );
        }
        true
    }

    /// The same, with a long way from the checks to the store; or without any check.
    ///
    /// # Safety
    /// As for [`store_if`](Self::store_if).
    #[cfg(test)]
    unsafe fn store_if_late(self, claim: Claim, word: *mut u64, value: u64) -> bool {
        if sabotage::is(Mistake::NoCheck) {
            sabotage::dawdle();
            // SAFETY: an aligned word that lives, as the caller has promised; this is the mistake.
            unsafe { word.write_volatile(value) };
            return true;
        }
        // | interrupted after         | others see | recovery              |
        // |---------------------------|------------|-----------------------|
        // | 1 begin, to 10 jne        | nothing    | from 1: checked again |
        // | 11 mov                    | the value  | none is needed        |
        //
        // SAFETY: as for `store_if`, with one more register spoilt, and a loop that ends.
        unsafe {
            asm!(
                begin!(),
                checks!(),
                "mov {cs:e}, {window:e}",
                "5: dec {cs:e}",
                "jne 5b",
                "mov qword ptr [{word}], {value}",
                end!(),
                area = in(reg) self.pointer(),
                cs = out(reg) _,
                window = in(reg) sabotage::window(),
                cpu = in(reg) claim.cpu,
                owner = in(reg) claim.owner,
                name = in(reg) claim.name,
                floor = in(reg) claim.floor,
                word = in(reg) word,
                value = in(reg) value,
                lost = label { return false },
                options(nostack)
            );
        }
        true
    }

    /// Adds `value` to `word`, else as [`store_if`](Self::store_if).
    ///
    /// # Safety
    /// The same.
    #[inline]
    pub(crate) unsafe fn add_if(self, claim: Claim, word: *mut u64, value: u64) -> bool {
        // | interrupted after        | others see | recovery              |
        // |--------------------------|------------|-----------------------|
        // | 1 begin, to 7 jne        | nothing    | from 1: checked again |
        // | 8 add                    | the sum    | none is needed        |
        //
        // SAFETY:
        // - memory: writes the area's pointer and `word`; reads that and the claim's words. The
        //   addition has no lock prefix: only the owner writes `word`;
        // - ordering: a plain store, in program order for others on x86-64;
        // - registers: one is spoilt, and the flags;
        // - stack: not used;
        // - control: to `lost` before anything was written, else it falls through.
        unsafe {
            asm!(
                begin!(),
                checks!(),
                "add qword ptr [{word}], {value}",
                end!(),
                area = in(reg) self.pointer(),
                cs = out(reg) _,
                cpu = in(reg) claim.cpu,
                owner = in(reg) claim.owner,
                name = in(reg) claim.name,
                floor = in(reg) claim.floor,
                word = in(reg) word,
                value = in(reg) value,
                lost = label { return false },
                options(nostack)
            );
        }
        true
    }

    /// Stores `value` to `word` if that is `expected`, else as [`store_if`](Self::store_if).
    ///
    /// # Safety
    /// The same.
    #[inline]
    pub(crate) unsafe fn store_if_equal(
        self,
        claim: Claim,
        word: *mut u64,
        (expected, value): (u64, u64),
    ) -> Compared {
        // | interrupted after        | others see | recovery              |
        // |--------------------------|------------|-----------------------|
        // | 1 begin, to 9 jne        | nothing    | from 1: checked again |
        // | 10 mov                   | the value  | none is needed        |
        //
        // SAFETY:
        // - memory: writes the area's pointer and `word`; reads that and the claim's words;
        // - ordering: a plain store, in program order for others on x86-64;
        // - registers: one is spoilt, and the flags;
        // - stack: not used;
        // - control: to `lost` or `differs` before anything was written, else it falls through.
        unsafe {
            asm!(
                begin!(),
                checks!(),
                "cmp qword ptr [{word}], {expected}",
                "jne {differs}",
                "mov qword ptr [{word}], {value}",
                end!(),
                area = in(reg) self.pointer(),
                cs = out(reg) _,
                cpu = in(reg) claim.cpu,
                owner = in(reg) claim.owner,
                name = in(reg) claim.name,
                floor = in(reg) claim.floor,
                word = in(reg) word,
                expected = in(reg) expected,
                value = in(reg) value,
                lost = label { return Compared::Lost },
                differs = label { return Compared::Differs },
                options(nostack)
            );
        }
        Compared::Stored
    }

    /// Exchanges `seen` for `name` in `owner`, on processor `cpu` or not at all; whether it did.
    ///
    /// At that moment no other thread runs on `cpu`. One that was interrupted there in a section
    /// leaves it; so a name that is bound to `cpu` makes no store any more.
    ///
    /// # Safety
    /// The word lives through the call, is aligned and an atomic.
    pub(crate) unsafe fn exchange_on(
        self,
        cpu: u32,
        owner: *mut u64,
        seen: u64,
        name: u64,
    ) -> bool {
        // | interrupted after        | others see | recovery                          |
        // |--------------------------|------------|-----------------------------------|
        // | 1 begin, to 4 mov        | nothing    | from 1: the processor is compared |
        // | 5 lock cmpxchg           | the name   | none is needed: the flags are     |
        // |                          |            | kept, and line 6 is outside       |
        //
        // SAFETY:
        // - memory: writes the area's pointer; exchanges `owner` atomically, as threads on other
        //   processors may do so as well;
        // - ordering: an instruction with a lock prefix is a full barrier;
        // - registers: rax and one more are spoilt, and the flags;
        // - stack: not used;
        // - control: to `failed` if the processor or the word was another one, else it falls
        //   through.
        unsafe {
            asm!(
                begin!(),
                "cmp dword ptr [{area} + 4], {cpu:e}",
                "jne {failed}",
                "mov rax, {seen}",
                "lock cmpxchg qword ptr [{owner}], {name}",
                end!(),
                "jne {failed}",
                area = in(reg) self.pointer(),
                cs = out(reg) _,
                cpu = in(reg) cpu,
                owner = in(reg) owner,
                seen = in(reg) seen,
                name = in(reg) name,
                out("rax") _,
                failed = label { return false },
                options(nostack)
            );
        }
        true
    }
}
