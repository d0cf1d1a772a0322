//! Links between our own papers lead somewhere.

use super::Finding;
use crate::workspace::File;

/// Looks at every `[text](target)` of a Markdown file; `exists` is asked about paths from the root.
pub(super) fn check(file: &File, exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut findings = Vec::new();
    for (number, line) in file.lines() {
        for target in targets(line) {
            if !exists(format!("{folder}/{target}").trim_start_matches('/')) {
                let wrong = format!("the link to {target} leads nowhere");
                findings.push(Finding::new(&file.path, number, wrong, "correct or remove it"));
            }
        }
    }
    findings
}

/// The targets that are files: no addresses, and without the `#part` of a page.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    let ends = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let paths = ends.map(|(target, _)| target.split('#').next().unwrap_or_default());
    paths.filter(|path| !path.is_empty() && !path.contains("://"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> usize {
        let file = File { path: "docs/a.md".to_owned(), text: text.to_owned() };
        check(&file, |path| path == "docs/b.md").len()
    }

    #[test]
    fn only_links_to_files_that_are_missing_are_found() {
        assert_eq!(findings("[b](b.md), [part](b.md#part), [here](#x), [web](https://x.org/y)"), 0);
        assert_eq!(findings("[b](b.md) and [c](c.md)"), 1);
    }
}
