//! The frame of every section: how it begins, how it ends, where it goes when it is interrupted.
//!
//! | interrupted | the kernel finds | the thread goes on |
//! |---|---|---|
//! | before `mov [area + 8]` | no section, or an older one that it is not in | where it was |
//! | after it, before label 2 | this section, not inside | where it was |
//! | from label 2 to the last instruction | this section, inside | at label 4, then at 6 |
//! | after the last instruction | this section, not inside | where it was |
//!
//! The last instruction, and no other, writes what others read. So in each row either nothing has
//! happened and everything is done again, or everything has happened.
//!
//! Labels: 6 arms the section, 77 is its description, 2 its first instruction, 3 what follows its
//! last one, 4 where the kernel sends the thread. The description has absolute addresses, which the
//! loader fills in, so it lies in a writable part; `R` keeps it when the linker collects garbage.

/// What the kernel demands in front of label 4, as a proof that it is meant as such.
pub(super) const SIGNATURE: u32 = 0x5305_3053;

/// Arms the section; `{area}` is the thread's area, `{cs}` a register to spoil.
macro_rules! begin {
    () => {
        concat!(
            "6:\n",
            ".pushsection __rseq_cs, \"awR\", @progbits\n",
            ".balign 32\n",
            "77: .long 0, 0\n",
            ".quad 2f, (3f - 2f), 4f\n",
            ".popsection\n",
            "lea {cs}, [rip + 77b]\n",
            "mov qword ptr [{area} + 8], {cs}\n",
            "2:",
        )
    };
}

/// Stands after the last instruction. The bytes are an invalid instruction with the signature.
macro_rules! end {
    () => {
        concat!(
            "3:\n",
            ".pushsection __rseq_failure, \"ax\", @progbits\n",
            ".byte 0x0f, 0xb9, 0x3d\n",
            ".long 0x53053053\n",
            "4: jmp 6b\n",
            ".popsection",
        )
    };
}
