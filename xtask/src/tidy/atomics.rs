//! In park and thread, atomics come through `crate::sync` alone: in a model they are the model's,
//! and one that came from elsewhere would be invisible to it.

use super::Finding;
use crate::workspace::File;

const WATCHED: [&str; 2] = ["crates/park/src/", "crates/thread/src/"];
const FORBIDDEN: [&str; 2] = ["std::sync::atomic", "core::sync::atomic"];

pub(super) fn check(file: &File) -> Vec<Finding> {
    let watched = WATCHED.iter().any(|dir| file.path.starts_with(dir));
    if !watched || file.path.ends_with("/sync.rs") {
        return Vec::new();
    }
    let code = file.lines().filter(|(_, line)| !line.trim_start().starts_with("//"));
    code.filter_map(|(number, line)| {
        let path = FORBIDDEN.iter().find(|path| line.contains(**path))?;
        let wrong = format!("`{path}`, which no model sees");
        Some(Finding::new(&file.path, number, wrong, "take it from `crate::sync`"))
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
    fn only_the_door_itself_may_name_the_standard_atomics() {
        let line = "use std::sync::atomic::AtomicU32;\n";
        assert_eq!(findings("crates/thread/src/fair/raw.rs", line), 1);
        assert_eq!(findings("crates/park/src/linux.rs", line), 1);
        assert_eq!(findings("crates/park/src/sync.rs", line), 0);
        assert_eq!(findings("crates/capi/src/lib.rs", line), 0);
    }

    #[test]
    fn documentation_may_show_them() {
        assert_eq!(findings("crates/park/src/lib.rs", "//! use core::sync::atomic::Ordering;"), 0);
    }
}
