//! This crate's door to atomics and cells: the one of [`lockspan_park::sync`].

pub(crate) use lockspan_park::sync::*;
