//! The features of the crate `lockspan`: each sensible set compiles without a warning, and takes
//! along no more than it needs.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context as _, Result, ensure};

use crate::command::Cmd;

/// The page whose table says what each set of features takes along.
const PAGE: &str = "docs/dependencies.md";

/// A set of features, and the dependency line in its row of the page's table.
struct Choice {
    features: &'static str,
    line: &'static str,
}

const CHOICES: [Choice; 6] = [
    Choice { features: "", line: "`lockspan`, `default-features = false`" },
    Choice { features: "client", line: "… with `features = [\"client\"]`" },
    Choice { features: "client,metrics", line: "… with `features = [\"client\", \"metrics\"]`" },
    Choice { features: "client,tls", line: "… with `features = [\"client\", \"tls\"]`" },
    Choice { features: "client,redis", line: "… with `features = [\"client\", \"redis\"]`" },
    Choice { features: "client,metrics,redis,tls", line: "`lockspan` with its default features" },
];

/// Crates that call a C compiler when they are built, or whose build needs one.
const C_CRATES: [&str; 4] = ["aws-lc-sys", "cc", "cmake", "ring"];

/// Checks them all against the page, and returns what was done.
pub(super) fn check() -> Result<String> {
    let page = fs::read_to_string(PAGE).context(PAGE)?;
    for choice in &CHOICES {
        Cmd::new("cargo clippy --quiet -p lockspan --no-default-features --features")
            .arg(choice.features)
            .args(["--", "-D", "warnings"])
            .run()?;
        let crates = crates(choice.features)?;
        let needs_c = C_CRATES.into_iter().any(|name| crates.iter().any(|it| it == name));
        compare(&page, choice.line, crates.len(), needs_c)?;
    }
    Cmd::new("cargo test --quiet -p lockspan --test missing_features --no-default-features")
        .args(["--features", "client"])
        .run()?;
    without_uuid()?;
    Ok(format!("{} sets of features of lockspan, as {PAGE} says", CHOICES.len()))
}

/// Runs the doctests of a crate without the feature `uuid`: the shared build has it. They use the
/// build of the test above, so they take two seconds.
fn without_uuid() -> Result<()> {
    let said = Cmd::new("cargo test -p lockspan --doc --no-default-features --features client")
        .args(["--", UUID_TESTS])
        .read()?;
    print!("{said}");
    all_ran(&said)
}

/// The item of `crates/lockspan/src/lib.rs` that is there only without `uuid`.
const UUID_TESTS: &str = "UuidWithoutItsFeature";

/// Fails unless both examples ran. A filter that matches nothing passes, too.
fn all_ran(said: &str) -> Result<()> {
    let ran = |end: &str| {
        said.lines()
            .any(|line| line.contains(UUID_TESTS) && line.ends_with(&format!("{end} ... ok")))
    };
    ensure!(
        ran(" - compile fail"),
        "the example of {UUID_TESTS} that must not compile did not run"
    );
    ensure!(ran(")"), "the example of {UUID_TESTS} that must compile did not run");
    Ok(())
}

/// Fails if the page's row says another number of crates, or is wrong about the C compiler. A
/// dependency that makes the number grow is looked at before the page is changed.
fn compare(page: &str, line: &str, crates: usize, needs_c: bool) -> Result<()> {
    let start = format!("| {line} | ");
    let row = page.lines().find_map(|row| row.strip_prefix(&start));
    let row = row.with_context(|| format!("{PAGE} has no row for {line}"))?;
    let (said, c) = row.split_once(" | ").with_context(|| format!("{PAGE}: {row}"))?;
    ensure!(
        said == crates.to_string(),
        "{line}: {crates} crates, and {PAGE} says {said}. If it has to grow, correct the page"
    );
    let said_c = if c.starts_with("no") { "no" } else { "a" };
    ensure!(
        c.starts_with("yes") == needs_c,
        "{line}: needs {} C compiler, and {PAGE} says that it needs {said_c}",
        if needs_c { "a" } else { "no" }
    );
    Ok(())
}

/// The names of the crates that are compiled with these features, lockspan's own among them.
fn crates(features: &str) -> Result<Vec<String>> {
    let tree = Cmd::new("cargo tree -p lockspan -e normal,build --prefix none --format {p}")
        .args(["--no-default-features", "--features"])
        .arg(features)
        .read()?;
    Ok(names(&tree))
}

/// A line is the name, the version and, behind these, where it is from or that it was there before.
fn names(tree: &str) -> Vec<String> {
    let ids = tree.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        Some((words.next()?, words.next()?))
    });
    // Two versions of one crate are two crates.
    let ids: BTreeSet<_> = ids.collect();
    ids.into_iter().map(|(name, _)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_is_counted_once_for_each_version() {
        let tree = "a v0.1.0 (/somewhere)\nb v1.0.0\n\nb v2.0.0\nb v1.0.0 (*)\n";
        assert_eq!(names(tree), ["a", "b", "b"]);
    }

    #[test]
    fn both_examples_without_uuid_have_to_run() {
        let good = "test lib.rs - UuidWithoutItsFeature (line 113) ... ok\n";
        let wrong = "test lib.rs - UuidWithoutItsFeature (line 106) - compile fail ... ok\n";
        assert!(all_ran(&format!("running 1 test\n{good}\n{wrong}")).is_ok());
        for too_few in [good, wrong, "running 0 tests\n"] {
            assert!(all_ran(too_few).is_err(), "{too_few}");
        }
    }

    #[test]
    fn the_page_has_to_be_right_about_crates_and_the_c_compiler() {
        let page = "| `a` | 5 | no |\n| `b` | 9 | yes, for ring |\n";
        assert!(compare(page, "`a`", 5, false).is_ok());
        assert!(compare(page, "`b`", 9, true).is_ok());
        for (line, crates, needs_c) in [
            ("`a`", 6, false),
            ("`a`", 4, false),
            ("`a`", 5, true),
            ("`b`", 9, false),
            ("`c`", 1, false),
        ] {
            assert!(compare(page, line, crates, needs_c).is_err(), "{line} {crates} {needs_c}");
        }
    }

    #[test]
    fn the_page_has_a_row_for_each_set() {
        let page = include_str!("../../../docs/dependencies.md");
        for Choice { line, .. } in CHOICES {
            assert!(page.contains(&format!("\n| {line} | ")), "{line}");
        }
    }
}
