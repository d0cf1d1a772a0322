//! Who is inside the lock, for those who look from outside.

/// Who was inside at one moment; since then others may have come and gone.
///
/// A thread that has a hold sees at least its own, so a hold that is not here is nobody's. While
/// `readers` is not zero, `writer` and `atomics` are still waiting for them to leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holders {
    /// How many read; the seeker is not one of them.
    pub readers: u32,
    /// Somebody seeks.
    pub seeker: bool,
    /// Somebody writes, or waits for the readers to leave.
    pub writer: bool,
    /// How many change the data beside each other, or wait for the readers to leave.
    pub atomics: u32,
    /// How many were atomics and wait to read.
    pub returners: u32,
}
