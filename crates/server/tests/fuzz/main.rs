//! Bytes that nobody should send: to the decoder alone, to a server over its sockets, and to its
//! page.
//!
//! Everything follows from a seed; a failure names it. `LOCKSPAN_FUZZ_SEEDS` says how many, and
//! `LOCKSPAN_FUZZ_FIRST` from which on: `cargo xtask fuzz` runs many.

#![forbid(unsafe_code)]

mod bytes_of;
mod decoder;
mod http;
mod live;
mod panics;
mod requests;
mod rng;

use std::ops::Range;

/// The seeds of this run.
fn seeds(usually: u64) -> Range<u64> {
    let number = |name: &str| {
        let text = std::env::var(name).ok()?;
        Some(text.parse::<u64>().unwrap_or_else(|_| panic!("{name}={text} is no number")))
    };
    let first = number("LOCKSPAN_FUZZ_FIRST").unwrap_or(0);
    first..first + number("LOCKSPAN_FUZZ_SEEDS").unwrap_or(usually)
}
