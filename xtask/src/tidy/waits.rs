//! In the crates below the C libraries no lock call may end in the middle, or wait for a thread
//! that a fork has left behind:
//!
//! - `std::thread::sleep`, `eprintln!` and the like are cancellation points: a thread with a
//!   pending `pthread_cancel` ends in them and leaves its hold behind.
//! - `OnceLock`, `Once` and `LazyLock` make a thread wait until another one has found something
//!   out; in a child of a fork that is a deadlock. Atomics with 0 for *unknown* do not wait.
//!
//! Tests may use all of them.

use super::Finding;
use crate::workspace::File;

const WATCHED: [&str; 4] =
    ["crates/park/src/", "crates/thread/src/", "crates/capi/src/", "crates/pthread/src/"];

/// What is searched for, and what to use instead.
const FORBIDDEN: [(&str, &str); 7] = [
    ("thread::sleep(", "use `lockspan_park::nap`"),
    ("eprintln!", "use `lockspan_park::stop`"),
    ("println!", "use `lockspan_park::stop`"),
    ("libc::write(", "use `lockspan_park::stop`"),
    ("OnceLock", "use an atomic that is 0 until it is known"),
    ("LazyLock", "use an atomic that is 0 until it is known"),
    ("sync::Once", "use an atomic that is 0 until it is known"),
];

/// Files that are tests as a whole.
const TESTS: [&str; 8] = [
    "/tests.rs",
    "/tests/",
    "_tests.rs",
    "/stress.rs",
    "/search.rs",
    "/model/",
    "/loom",
    "/shuttle",
];

/// The portable body of `nap`, for systems where it is no cancellation point of ours.
const ALLOWED: [(&str, &str); 1] = [("crates/park/src/cancel.rs", "thread::sleep(")];

pub(super) fn check(file: &File) -> Vec<Finding> {
    let watched = WATCHED.iter().any(|dir| file.path.starts_with(dir));
    if !watched || TESTS.iter().any(|part| file.path.contains(part)) {
        return Vec::new();
    }
    let shipped =
        file.lines().take_while(|(_, line)| !line.trim_start().starts_with("mod tests {"));
    let code = shipped.filter(|(_, line)| !line.trim_start().starts_with("//"));
    code.filter_map(|(number, line)| {
        let (what, todo) = FORBIDDEN.iter().find(|(what, _)| line.contains(what))?;
        if ALLOWED.contains(&(file.path.as_str(), what)) {
            return None;
        }
        Some(Finding::new(&file.path, number, format!("`{what}` below the C libraries"), *todo))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> usize {
        check(&File { path: path.to_owned(), text: text.to_owned() }).len()
    }

    #[test]
    fn nothing_that_ships_below_the_c_libraries_sleeps_or_waits_so() {
        for line in ["std::thread::sleep(time);\n", "static A: OnceLock<u8>;\n", "eprintln!();\n"] {
            for dir in WATCHED {
                assert_eq!(findings(&format!("{dir}spin.rs"), line), 1, "{dir}: {line}");
            }
            assert_eq!(findings("crates/client/src/lib.rs", line), 0);
        }
        assert_eq!(findings("crates/park/src/cancel.rs", "std::thread::sleep(time);\n"), 0);
        assert_eq!(findings("crates/park/src/cancel.rs", "static A: OnceLock<u8>;\n"), 1);
    }

    #[test]
    fn tests_and_comments_may() {
        let line = "thread::sleep(time);\n";
        assert_eq!(findings("crates/thread/src/fair/tests.rs", line), 0);
        assert_eq!(findings("crates/thread/src/fair/loom/mod.rs", line), 0);
        let file = format!("fn a() {{}}\nmod tests {{\n    {line}}}\n");
        assert_eq!(findings("crates/thread/src/fair/clock.rs", &file), 0);
        assert_eq!(findings("crates/park/src/lib.rs", "/// thread::sleep(\n"), 0);
    }
}
