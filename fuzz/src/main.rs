//! The program that libFuzzer drives: `cargo xtask fuzz --coverage` builds it and calls it once for
//! each target, whose name is in `LOCKSPAN_FUZZ_TARGET`.

#![no_main]
#![forbid(unsafe_code)]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use lockspan_fuzz::{TARGETS, Target};

fn target() -> &'static Target {
    static TARGET: OnceLock<&Target> = OnceLock::new();
    TARGET.get_or_init(|| {
        let name = std::env::var("LOCKSPAN_FUZZ_TARGET").unwrap_or_default();
        let target = TARGETS.iter().find(|target| target.name == name);
        target.unwrap_or_else(|| panic!("LOCKSPAN_FUZZ_TARGET={name} names no target"))
    })
}

fuzz_target!(|bytes: &[u8]| (target().run)(bytes));
