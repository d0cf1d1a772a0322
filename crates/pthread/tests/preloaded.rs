//! Programs that know nothing of Lockspan, run under the preload library.
//!
//! The C programs of `tests/c` first; then `openssl` as it is installed, whose libcrypto guards its
//! tables with `pthread_rwlock_t`.
#![cfg(all(
    target_os = "linux",
    target_env = "gnu",
    target_arch = "x86_64",
    not(any(miri, lockspan_loom, lockspan_shuttle))
))]

#[path = "../../capi/tests/support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::{exported, imports_no_cancellation_point_but, library, program, run_well, text};

fn preload() -> PathBuf {
    library("lockspan-pthread", "liblockspan_pthread.so")
}

/// `program` under the preload library.
fn preloaded(program: impl AsRef<Path>) -> Command {
    let mut command = Command::new(program.as_ref());
    command.env("LD_PRELOAD", preload());
    command
}

/// The C program under the preload library, once with private and once with shared locks.
fn check_both_sorts(source: &str) {
    let program = program(source, &[]);
    for sort in ["private", "shared"] {
        run_well(preloaded(&program).arg(sort));
    }
}

#[test]
fn every_rwlock_function_of_the_c_library_is_served() {
    let ours = exported(&preload());
    let mut theirs = exported(&c_library());
    theirs.retain(|name| name.trim_start_matches('_').starts_with("pthread_rwlock"));
    assert!(theirs.len() >= 17, "{theirs:?}");
    let unserved: Vec<_> = theirs.iter().filter(|name| !ours.contains(name)).collect();
    assert!(unserved.is_empty(), "not served: {unserved:?}");
    let foreign: Vec<_> = ours.iter().filter(|name| !name.contains("pthread_rwlock")).collect();
    assert!(foreign.is_empty(), "exported besides: {foreign:?}");
}

#[test]
fn every_return_code_is_the_one_of_posix() {
    check_both_sorts("codes.c");
}

#[test]
fn initialisers_attributes_and_many_locks_at_once() {
    run_well(&mut preloaded(program("statics.c", &[])));
}

#[test]
fn threads_exclude_each_other_and_a_reader_may_read_again() {
    check_both_sorts("threads.c");
}

#[test]
fn the_last_owner_may_destroy_while_earlier_unlocks_return() {
    check_both_sorts("destroy.c");
}

#[test]
fn fair_s15_no_rwlock_call_acts_on_a_cancellation_of_its_thread() {
    check_both_sorts("cancelled.c");
}

/// Why the library may import them, although no call acts on a cancellation.
const CANCELLATION_POINTS: &[(&str, &str)] = &[
    ("close", "what is read once about the machine is read when the library is loaded"),
    ("open", "the same"),
    ("open64", "the same"),
    ("read", "the same"),
    ("write", "the standard library's message of a panic, which aborts here"),
    ("writev", "the same"),
];

#[test]
fn fair_s15_the_preload_library_calls_no_other_cancellation_point() {
    imports_no_cancellation_point_but(&preload(), CANCELLATION_POINTS);
}

#[test]
fn fair_s17_handlers_of_pthread_atfork_may_hold_a_preloaded_lock() {
    let program = program("handlers.c", &[]);
    for child in ["off", "on"] {
        run_well(preloaded(&program).arg(child));
    }
}

#[test]
fn pthread_p1_the_memory_of_a_held_lock_may_be_used_for_another() {
    run_well(&mut preloaded(program("reused.c", &[])));
}

#[test]
fn processes_share_a_lock() {
    run_well(&mut preloaded(program("processes.c", &[])));
}

#[test]
fn no_call_uses_the_heap() {
    check_both_sorts("heap.c");
}

#[test]
fn the_mutexes_of_cxx_work_on_top() {
    run_well(&mut preloaded(program("cxx.cc", &[])));
}

#[test]
fn a_shared_mutex_may_go_without_destroy_while_earlier_unlocks_return() {
    run_well(&mut preloaded(program("cxx_free.cc", &[])));
}

#[test]
fn an_unchanged_openssl_does_the_same_with_our_locks() {
    let args =
        ["dgst", "-sha256", "-hmac", "key", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")];
    let plain = run_well(Command::new("openssl").args(args));
    let ours = run_well(preloaded("openssl").args(args));
    assert_eq!(text(&plain.stdout), text(&ours.stdout));
    assert_eq!(text(&plain.stderr), text(&ours.stderr));

    // Once more with a counter before our library, which says how often it was called and whose
    // functions it called on.
    let counter = program("count.c", &["-shared", "-fPIC"]);
    let both = format!("{}:{}", counter.display(), preload().display());
    let counted = run_well(Command::new("openssl").args(args).env("LD_PRELOAD", both));
    assert_eq!(text(&plain.stdout), text(&counted.stdout));
    let said = text(&counted.stderr);
    let calls: Vec<u64> = said
        .lines()
        .map(|line| line.strip_suffix("liblockspan_pthread.so").expect(&said))
        .map(|line| line.split_whitespace().nth(1).unwrap().parse().unwrap())
        .collect();
    let [inits, reads, writes, unlocks, destroys] = calls[..] else { panic!("{said}") };
    assert!(inits > 0 && reads > 0 && writes > 0 && destroys > 0, "{said}");
    assert_eq!(reads + writes, unlocks, "{said}");
}

/// The C library that programs here are linked with.
fn c_library() -> PathBuf {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let path = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
    let mut path = path.filter(|path| path.contains("/libc.so") || path.contains("/libc-2"));
    path.next().expect("this program has a C library").into()
}
