//! The three progressive locks: `lockspan_plock_*` of `include/lockspan_plock.h`.
//!
//! Each file is one lock: what a caller must have for a call, and the table of the calls. A line
//! of the table is the kind of the function, its name, the method of the raw lock that it stands
//! for, and the state that it leaves. [`calls`] makes the functions of it.

mod base;
mod calls;
mod claim;
mod upgrade;
