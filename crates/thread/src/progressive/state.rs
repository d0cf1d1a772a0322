//! The states that a guard can be in, as types: what has no transition does not compile.

/// Beside other readers.
#[derive(Clone, Copy, Debug)]
pub struct Read;
/// Beside readers, and sure to become the writer if it wants to.
#[derive(Clone, Copy, Debug)]
pub struct Seek;
/// Alone.
#[derive(Clone, Copy, Debug)]
pub struct Write;
/// Beside others that change the data by its own atomics; no reader is there.
#[derive(Clone, Copy, Debug)]
pub struct Atomic;
/// On the way to Claim: beside readers and others that join, and, until it asks for its own claim,
/// beside those who claim already, or who are still in the atomic phase that it came from.
#[derive(Clone, Copy, Debug)]
pub struct Join;
/// Beside others that mark what each will change; no reader and no atomic is there.
#[derive(Clone, Copy, Debug)]
pub struct Claim;
/// The exclusive Join: alone.
#[derive(Clone, Copy, Debug)]
pub struct Alone;

/// A lock that has the state `S`. No other crate can add a state to a lock.
pub trait Holds<S>: sealed::Sealed<S> {
    /// Ends a hold in that state.
    fn leave(&self);
}

/// A lock whose holder in the state `S` is alone with the data.
///
/// # Safety
/// While somebody holds the lock in the state `S`, nobody else holds it in any state: a guard in
/// this state gives out `&mut` to the data.
pub unsafe trait HoldsAlone<S>: Holds<S> {}

pub(super) mod sealed {
    /// A lock of this module that has the state `S`. The pair is sealed, not the lock alone: with a
    /// state of its own, another crate could write the implementation for a lock of ours.
    #[expect(unnameable_types, reason = "nobody else is to name it")]
    pub trait Sealed<S> {}
}
