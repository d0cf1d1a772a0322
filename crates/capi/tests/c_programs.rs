//! The library as a C program meets it: its header, its meaning, and what it does on misuse.
#![cfg(all(target_os = "linux", not(any(miri, lockspan_loom, lockspan_shuttle))))]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::{exported, imports_no_cancellation_point_but, library, program, run, run_well, text};

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
            // An old library that cargo's LD_LIBRARY_PATH names must not come before this one.
            &format!("-Wl,--disable-new-dtags,-rpath,{dir}"),
        ],
    );
    Command::new(program)
}

/// The names of all functions that the headers declare, sorted.
fn declared() -> Vec<String> {
    let mut names = Vec::new();
    for header in ["lockspan.h", "lockspan_plock.h", "lockspan_rlock.h"] {
        let text = std::fs::read_to_string(header_dir().join(header)).unwrap();
        // What follows a comment's end, up to the next one's beginning.
        let code: String = text.split("*/").map(|part| part.split("/*").next().unwrap()).collect();
        let declarations = code.split(';').filter_map(|declaration| declaration.split_once('('));
        names.extend(declarations.map(|(before, _)| last_word(before).to_owned()));
    }
    names.sort_unstable();
    names
}

fn last_word(text: &str) -> &str {
    text.rsplit([' ', '*', '\n']).next().unwrap()
}

#[test]
fn the_headers_declare_exactly_what_the_library_exports() {
    let declared = declared();
    assert_eq!(exported(&library("lockspan-capi", "liblockspan.so")), declared);
    assert!(declared.len() >= 60, "{declared:?}");
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
fn every_function_of_the_progressive_locks_keeps_its_word() {
    run_well(&mut linked("plock_codes.c"));
}

#[test]
fn plock_p9_the_limits_of_the_header_are_those_of_the_locks() {
    run_well(&mut linked("plock_limits.c"));
    let header = std::fs::read_to_string(header_dir().join("lockspan_plock.h")).unwrap();
    assert!(header.contains("524 286") && header.contains("524 287"), "plock_limits.c tries both");
}

#[test]
fn threads_on_all_ways_through_the_progressive_locks_exclude_each_other() {
    run_well(&mut linked("plock_load.c"));
}

#[test]
fn the_page_of_the_progressive_locks_has_every_transition_of_the_header() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/progressive.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, tables) = page.split_once("## All transitions").expect("the page has the tables");
    // The longest prefix first: the others begin alike.
    let locks = ["lockspan_plock_upgrade_", "lockspan_plock_claim_", "lockspan_plock_"];
    for name in declared() {
        let Some((lock, call)) =
            locks.iter().find_map(|lock| Some((lock, name.strip_prefix(lock)?)))
        else {
            continue;
        };
        if matches!(call, "new" | "free") {
            continue;
        }
        let heading = format!("`{lock}t`\n");
        let (_, table) = tables.split_once(&heading).unwrap_or_else(|| panic!("no {heading}"));
        let table = table.split("\n#").next().unwrap();
        let plain = call.trim_start_matches("try_").trim_start_matches("timed_");
        let has = |call: &str| table.contains(&format!("`{call}`"));
        assert!(has(call) || has(plain), "{name} is not in the page's table");
    }
}

#[test]
fn random_walks_over_all_transitions_of_the_progressive_locks_exclude_each_other_and_end() {
    let output = run(&mut linked("plock_walk.c"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let mut walked: Vec<_> = text(&output.stdout).lines().map(str::to_owned).collect();
    walked.sort_unstable();
    let is_transition = |name: &String| {
        name.starts_with("lockspan_plock") && !name.ends_with("_new") && !name.ends_with("_free")
    };
    let transitions: Vec<_> = declared().into_iter().filter(is_transition).collect();
    assert_eq!(walked, transitions, "the tables of plock_walk.c are the header's");
}

#[test]
fn every_function_of_the_revocable_locks_keeps_its_word_with_every_backend() {
    for backend in ["rseq", "membarrier", "plain"] {
        run_well(linked("rlock.c").env("LOCKSPAN_REVOCABLE_BACKEND", backend));
        run_well(linked("rlock_percpu.c").env("LOCKSPAN_REVOCABLE_BACKEND", backend));
    }
}

#[test]
fn a_ticket_that_was_got_twice_is_released_twice_and_a_walk_meets_each_part_once() {
    for backend in ["rseq", "membarrier", "plain"] {
        // glibc fills what is freed, so that a ticket there is nobody's any more.
        let mut program = linked("rlock_again.c");
        program.env("LOCKSPAN_REVOCABLE_BACKEND", backend).env("MALLOC_PERTURB_", "165");
        run_well(&mut program);
    }
}

#[test]
fn fair_s15_no_call_acts_on_a_cancellation_of_its_thread() {
    let program = linked("cancel.c");
    for part in ["fair", "progressive"] {
        run_well(Command::new(program.get_program()).arg(part));
    }
    for backend in ["rseq", "membarrier", "plain"] {
        let mut command = Command::new(program.get_program());
        run_well(command.arg("revocable").env("LOCKSPAN_REVOCABLE_BACKEND", backend));
    }
    ends_with(&program, &["misuse"], "lt_rwlock_free: the descriptor is null");
}

/// Why the library may import them, although no call acts on a cancellation.
const CANCELLATION_POINTS: &[(&str, &str)] = &[
    ("close", "what is read once about the machine is read with cancellation switched off"),
    ("open", "the same"),
    ("open64", "the same"),
    ("read", "the same"),
    ("pthread_join", "the self-tests of the revocable locks run with cancellation switched off"),
    ("pause", "the standard library's end of a process, which never returns"),
    ("write", "the standard library's message of a panic, which aborts here"),
    ("writev", "the same"),
];

#[test]
fn fair_s15_the_library_calls_no_other_cancellation_point() {
    let library = library("lockspan-capi", "liblockspan.so");
    imports_no_cancellation_point_but(&library, CANCELLATION_POINTS);
}

#[test]
fn fair_s17_handlers_of_pthread_atfork_may_hold_the_lock() {
    let program = linked("atfork.c");
    for child in ["off", "on"] {
        run_well(Command::new(program.get_program()).arg(child));
    }
}

#[test]
fn a_library_with_sections_stays_when_it_is_closed() {
    let library = library("lockspan-capi", "liblockspan.so");
    let include = format!("-I{}", header_dir().display());
    let program = program("unload.c", &[&include, "-ldl"]);
    run_well(Command::new(program).arg(library));
}

#[test]
fn misuse_of_a_revocable_lock_is_one_line_and_an_abort() {
    let program = linked("rlock_misuse.c");
    let of_tickets = [
        "store_64",
        "store_at_64",
        "add_64",
        "load_64",
        "compare_and_store_64",
        "relock",
        "limit",
        "ticket_owner",
        "release",
    ];
    for name in of_tickets {
        let name = format!("lockspan_rlock_{name}");
        ends_with(&program, &["null", &name], &format!("{name}: the ticket is null"));
    }
    let of_locks = ["free", "lock", "cancel", "owner", "owner_cancel", "peek_64"];
    let of_percpu = ["percpu_free", "percpu_lock", "percpu_next"];
    for name in of_locks.iter().chain(&of_percpu) {
        let name = format!("lockspan_rlock_{name}");
        ends_with(&program, &["null", &name], &format!("{name}: the descriptor is null"));
    }
    ends_with(&program, &["free_with_ticket"], "lockspan_rlock_free: the lock has tickets");
    ends_with(&program, &["free_with_one_of_two"], "lockspan_rlock_free: the lock has tickets");
    ends_with(
        &program,
        &["next_of_another"],
        "lockspan_rlock_percpu_next: the lock is not a part of it",
    );
    ends_with(&program, &["free_part"], "lockspan_rlock_free: the lock is a processor's part");
    ends_with(
        &program,
        &["free_percpu_with_ticket"],
        "lockspan_rlock_percpu_free: a part has tickets",
    );
}

#[test]
fn the_headers_serve_cxx() {
    run_well(&mut linked("cxx.cc"));
}

/// Fails unless the program says this, in one line, and aborts.
fn ends_with(program: &Command, case: &[&str], line: &str) {
    use std::os::unix::process::ExitStatusExt as _;

    let output = run(Command::new(program.get_program()).args(case));
    let said = text(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{case:?}: {said}");
    assert!(said.starts_with(&format!("lockspan: {line}; ")), "{case:?}: {said}");
    assert_eq!(said.lines().count(), 1, "{case:?}: {said}");
}

#[test]
fn misuse_is_one_line_and_an_abort() {
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
        ends_with(&program, &[case], line);
    }
}

#[test]
fn plock_p9_misuse_of_a_progressive_lock_is_one_line_and_an_abort() {
    let program = linked("plock_misuse.c");
    let names: Vec<_> =
        declared().into_iter().filter(|n| n.starts_with("lockspan_plock")).collect();
    for name in names.iter().filter(|name| !name.ends_with("_new")) {
        ends_with(&program, &["null", name], &format!("{name}: the descriptor is null"));
    }
    for name in names.iter().filter(|name| name.ends_with("_done") || name.contains("_to_")) {
        ends_with(&program, &["idle", name], &format!("{name}: {}", nobody(name)));
    }
    let cases = [
        ("read_done_of_seek", "read_done: nobody reads"),
        ("read_done_of_write", "read_done: nobody reads"),
        ("read_done_of_atomic", "read_done: nobody reads"),
        ("seek_done_of_write", "seek_done: nobody seeks"),
        ("write_done_of_read", "write_done: nobody writes"),
        ("write_done_too_early", "write_done: nobody writes"),
        ("atomic_done_of_write", "atomic_done: nobody is in Atomic"),
        ("free_of_read", "free: the lock is held or waited for"),
        ("free_of_seek", "free: the lock is held or waited for"),
        ("free_of_write", "free: the lock is held or waited for"),
        ("free_of_atomic", "free: the lock is held or waited for"),
        ("read_of_too_many", "read: the lock counts no more holders"),
        ("seek_of_too_many", "seek: the lock counts no more holders"),
        ("atomic_of_too_many", "atomic: the lock counts no more holders"),
        ("upgrade_read_of_too_many", "upgrade_read: the lock counts no more holders"),
        ("claim_read_of_too_many", "claim_read: the lock counts no more holders"),
        ("claim_claim_of_too_many", "claim_claim: the lock counts no more holders"),
        ("claim_atomic_of_too_many", "claim_atomic: the lock counts no more holders"),
        ("upgrade_atomic_done_of_read", "upgrade_atomic_done: nobody is in Atomic"),
        ("upgrade_free_of_read", "upgrade_free: the lock is held or waited for"),
        ("claim_join_done_of_read", "claim_join_done: nobody has joined"),
        ("claim_done_of_joined", "claim_claim_done: nobody claims"),
        ("claim_read_done_of_claim", "claim_read_done: nobody reads"),
        ("claim_atomic_done_of_claim", "claim_atomic_done: nobody is in Atomic"),
        ("claim_done_of_atomic", "claim_claim_done: nobody claims"),
        ("claim_read_done_of_alone", "claim_read_done: nobody reads"),
        ("claim_free_of_joined", "claim_free: the lock is held or waited for"),
        ("claim_free_of_alone", "claim_free: the lock is held or waited for"),
    ];
    for (case, line) in cases {
        ends_with(&program, &[case], &format!("lockspan_plock_{line}"));
    }
}

/// What a call with this name says on a lock that nobody holds: it is named after the state that
/// it leaves.
fn nobody(name: &str) -> &'static str {
    let states = [
        ("read", "nobody reads"),
        ("seek", "nobody seeks"),
        ("write", "nobody writes"),
        ("atomic", "nobody is in Atomic"),
        ("join", "nobody has joined"),
        ("claim", "nobody claims"),
        ("alone", "nobody is alone"),
    ];
    let before = name.split("_to_").next().unwrap().trim_end_matches("_done");
    let state = before.rsplit('_').next().unwrap();
    states.iter().find(|(known, _)| *known == state).unwrap_or_else(|| panic!("{name}")).1
}
