//! A value on cache lines of its own.

/// Keeps a value apart from its neighbours, also from the adjacent-line prefetcher.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Padded<T>(pub(crate) T);
