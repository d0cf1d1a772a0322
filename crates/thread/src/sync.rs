//! This crate's door to atomics and cells: the one of [`lockspan_park::sync`].

pub(crate) use lockspan_park::sync::*;

#[cfg(lockspan_loom)]
pub(crate) use loom::sync::atomic::fence;
#[cfg(all(miri, not(lockspan_loom)))]
pub(crate) use std::sync::atomic::fence;
