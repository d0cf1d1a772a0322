//! What a fuzzer that sees coverage may throw at the decoders and the state machines: functions
//! from bytes to nothing, which panic if something is wrong.
//!
//! | target | what the bytes are |
//! |---|---|
//! | `commands` | what a client sends: any stream of bytes, in any pieces |
//! | `replies` | what a server sends, likewise |
//! | `server` | choices: which inputs the lock server gets, and when |
//! | `cache` | the same for a node's cache |
//!
//! `cargo xtask fuzz --coverage` runs them under libFuzzer. The tests run them over `seeds/`, so
//! that a finding that is put there stays found.
//!
//! The targets `server` and `cache` are the seeded fuzzers of `crates/protocol/tests/fuzz`, whose
//! random numbers come from the bytes here: so libFuzzer can change one choice and keep the rest.

#![forbid(unsafe_code)]

mod choices;
mod decoders;
mod harness;
mod rng;

#[path = "../../crates/protocol/tests/fuzz/cache.rs"]
mod cache;
#[path = "../../crates/protocol/tests/fuzz/common.rs"]
mod common;
#[path = "../../crates/protocol/tests/fuzz/server.rs"]
mod server;

/// One thing to fuzz.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// What it is called, and the folder of its seeds.
    pub name: &'static str,
    /// Panics if something is wrong.
    pub run: fn(&[u8]),
}

/// All of them.
pub const TARGETS: [Target; 4] = [
    Target { name: "commands", run: decoders::commands },
    Target { name: "replies", run: decoders::replies },
    Target { name: "server", run: choices::run::<server::ServerFuzz> },
    Target { name: "cache", run: choices::run::<cache::CacheFuzz> },
];

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_seed_of_every_target_runs() {
        for target in TARGETS {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target.name);
            let seeds: Vec<_> = fs::read_dir(&folder).expect("a folder of seeds").collect();
            assert!(!seeds.is_empty(), "{} is empty", folder.display());
            for seed in seeds {
                let path = seed.expect("an entry").path();
                // It is named by the harness if the target panics.
                println!("{}", path.display());
                (target.run)(&fs::read(&path).expect("a seed"));
            }
        }
    }
}
