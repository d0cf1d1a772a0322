//! Random numbers that are taken from the fuzzer's bytes, with the methods of the seeded generator
//! in `crates/protocol/tests/fuzz/rng.rs`. When the bytes are used up, all numbers are 0.

use std::cell::RefCell;

thread_local! {
    static BYTES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The bytes from which all numbers of this thread come from now on.
pub(crate) fn set(bytes: &[u8]) {
    BYTES.with_borrow_mut(|all| {
        all.clear();
        all.extend(bytes.iter().rev());
    });
}

/// Whether all bytes are used up.
pub(crate) fn is_over() -> bool {
    BYTES.with_borrow(Vec::is_empty)
}

fn take(bytes: u32) -> u64 {
    BYTES.with_borrow_mut(|all| {
        (0..bytes).fold(0, |number, _| number << 8 | u64::from(all.pop().unwrap_or(0)))
    })
}

/// The generator; it has no state of its own.
#[derive(Clone, Debug)]
pub(crate) struct Rng(());

impl Rng {
    pub(crate) fn new(_: u64) -> Self {
        Self(())
    }

    pub(crate) fn next(&mut self) -> u64 {
        take(8)
    }

    /// Below `end`, which is not 0. Takes as few bytes as it can, so that a changed byte changes
    /// one choice.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        let bits = u64::BITS - (end - 1).leading_zeros();
        take(bits.div_ceil(8)) % end
    }

    /// True this often in a hundred.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<T: Clone>(&mut self, among: &[T]) -> T {
        among[self.below(among.len() as u64) as usize].clone()
    }

    /// Up to `max` of them, made one by one.
    pub(crate) fn some<T>(&mut self, max: u64, mut one: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.below(max + 1)).map(|_| one(self)).collect()
    }
}
