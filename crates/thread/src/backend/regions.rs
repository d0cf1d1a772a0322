//! The memory that sections work on: a region for each processor, and one more.

/// How far apart the fields of two processors are, at least: two cache lines, as processors fetch
/// them in pairs.
pub(crate) const APART: usize = 128;

/// Where a stack's region has its latch, its length and its first item.
pub(crate) const LATCH: usize = 0;
pub(crate) const LENGTH: usize = 8;
pub(crate) const ITEMS: usize = 64;

/// `cpus` regions of `stride` bytes from `base` on. The region of processor n is the nth.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Regions {
    pub(crate) base: *mut u8,
    pub(crate) cpus: usize,
    pub(crate) stride: usize,
    /// How many items a region has room for.
    pub(crate) capacity: usize,
    /// What [`Area::distance`](super::Area::distance) gave: kept here, beside the rest.
    pub(crate) distance: u64,
}

/// What must hold while a revocable lock's word is changed.
#[allow(dead_code, reason = "where there are no sections, nobody looks")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    /// The lock's word, which must be `name`.
    pub(crate) owner: *const u64,
    pub(crate) name: u64,
    /// The lowest name of this thread that it has not released.
    pub(crate) floor: *const u64,
    /// The processor that the name is bound to, on which the thread must be.
    pub(crate) cpu: u32,
}

/// How a section on a stack ended.
#[allow(dead_code, reason = "where there are no sections, none ends")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// So many items were moved; fewer than asked for, if the region was full or empty then.
    Moved(usize),
    /// The region's latch is shut.
    Shut,
    /// This thread's processor has no number, or one that was not possible.
    NoCpu,
}
