//! The library as a C program meets it: its header, its meaning, and what it does on misuse.
#![cfg(all(target_os = "linux", not(any(miri, lockspan_loom, lockspan_shuttle))))]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::{exported, library, program, run, run_well, text};

fn header_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include")
}

/// A C program linked with the library.
fn linked(source: &str) -> Command {
    let library = library("lockspan-capi", "liblockspan.so");
    let dir = library.parent().unwrap();
    let (include, dir) = (header_dir(), dir.display());
    let program = program(
        source,
        &[
            &format!("-I{}", include.display()),
            &format!("-L{dir}"),
            "-llockspan",
            &format!("-Wl,-rpath,{dir}"),
        ],
    );
    Command::new(program)
}

#[test]
fn the_header_declares_exactly_what_the_library_exports() {
    let header = std::fs::read_to_string(header_dir().join("lockspan.h")).unwrap();
    let mut declared: Vec<&str> = header
        .lines()
        .filter(|line| line.ends_with(");") && !line.starts_with(' '))
        .map(|line| line.split('(').next().unwrap())
        .map(|line| line.rsplit([' ', '*']).next().unwrap())
        .collect();
    declared.sort_unstable();
    let library = library("lockspan-capi", "liblockspan.so");
    assert_eq!(exported(&library), declared);
    assert!(declared.len() >= 6);
}

#[test]
fn the_six_functions_and_their_try_and_timed_forms_keep_their_word() {
    run_well(&mut linked("meaning.c"));
}

#[test]
fn the_last_owner_may_free_while_earlier_unlocks_return() {
    run_well(&mut linked("free.c"));
}

#[test]
fn the_header_serves_cxx() {
    run_well(&mut linked("cxx.cc"));
}

#[test]
fn misuse_is_one_line_and_an_abort() {
    use std::os::unix::process::ExitStatusExt as _;

    let cases = [
        ("null_free", "lt_rwlock_free: the descriptor is null"),
        ("null_read", "lt_rwlock_read_lock: the descriptor is null"),
        ("null_read_unlock", "lt_rwlock_read_unlock: the descriptor is null"),
        ("null_write", "lt_rwlock_write_lock: the descriptor is null"),
        ("null_write_unlock", "lt_rwlock_write_unlock: the descriptor is null"),
        ("null_read_try", "lt_rwlock_read_trylock: the descriptor is null"),
        ("null_write_try", "lt_rwlock_write_trylock: the descriptor is null"),
        ("null_read_timed", "lt_rwlock_read_timedlock: the descriptor is null"),
        ("null_write_timed", "lt_rwlock_write_timedlock: the descriptor is null"),
        ("read_unlock_of_free", "lt_rwlock_read_unlock: no reader has the lock"),
        ("read_unlock_of_written", "lt_rwlock_read_unlock: no reader has the lock"),
        ("write_unlock_of_free", "lt_rwlock_write_unlock: no writer has the lock"),
        ("write_unlock_of_read", "lt_rwlock_write_unlock: no writer has the lock"),
        ("free_of_read", "lt_rwlock_free: the lock is held or waited for"),
        ("free_of_written", "lt_rwlock_free: the lock is held or waited for"),
    ];
    let program = linked("misuse.c");
    for (case, line) in cases {
        let output = run(Command::new(program.get_program()).arg(case));
        let said = text(&output.stderr);
        assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{case}: {said}");
        assert!(said.starts_with(&format!("lockspan: {line}; ")), "{case}: {said}");
        assert_eq!(said.lines().count(), 1, "{case}: {said}");
    }
}
