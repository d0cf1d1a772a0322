//! The binary.

#![forbid(unsafe_code)]

fn main() {}
