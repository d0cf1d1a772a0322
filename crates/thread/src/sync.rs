//! This crate's door to atomics and cells: the one of [`lockspan_park::sync`].

pub(crate) use lockspan_park::sync::*;

#[cfg(lockspan_loom)]
pub(crate) use loom::sync::atomic::fence;
#[cfg(all(miri, not(lockspan_loom)))]
pub(crate) use std::sync::atomic::fence;

/// Atomics that are the machine's own even in a model: for words that the kernel or a section of
/// assembly reads. No loom model looks at those; `revocable` has a checker of its own.
pub(crate) mod machine {
    pub(crate) use std::sync::atomic::{
        AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence,
    };
}
