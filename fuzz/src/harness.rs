//! What the fuzzers of the state machines offer: the trait of that name in
//! `crates/protocol/tests/fuzz/harness.rs`, whose runner works with seeds.

use std::fmt::Debug;

use lockspan_protocol::Tick;

/// A machine and what is thrown at it.
pub(crate) trait Fuzz: Sized {
    type Input: Debug + Clone + Send + 'static;
    #[expect(dead_code, reason = "for the runner with seeds")]
    const KINDS: u32;

    fn new(seed: u64) -> Self;

    /// The next input, and when.
    fn draw(&mut self) -> (Tick, Self::Input);

    /// Does it, and checks that everything is as it must be. Tells whether it was accepted.
    fn step(&mut self, now: Tick, input: Self::Input) -> bool;

    #[expect(dead_code, reason = "for the runner with seeds")]
    fn seen(&self) -> u32;

    /// Nothing more happens but time: checks that nothing is left over.
    fn finish(&mut self);
}
