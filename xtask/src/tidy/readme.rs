//! README stays short, and repeats no fact that has changed elsewhere.

use std::fs;

use anyhow::{Context as _, Result};

use super::Finding;
use crate::workspace::Workspace;

const README: &str = "README.md";
const LINES_MAX: usize = 200;
/// The results that README shows: those of the thread locks.
const RESULTS: &str = "benches/results/threads";
const BEGIN: &str = "<!-- results -->";
const END: &str = "<!-- /results -->";

pub(super) fn check(workspace: &Workspace) -> Result<Vec<Finding>> {
    let readme = fs::read_to_string(workspace.root.join(README)).context(README)?;
    let manifest = fs::read_to_string(workspace.root.join("Cargo.toml")).context("Cargo.toml")?;
    let mut findings = Vec::new();
    findings.extend(check_length(&readme));
    findings.extend(check_msrv(&readme, &manifest));
    if let Some(folder) = newest_results(workspace)? {
        let summary = read_summary(workspace, &folder)?;
        findings.extend(check_results(&readme, &summary, &folder));
    }
    Ok(findings)
}

/// The newest folder of recorded results of the thread locks, from the root. Names of folders begin
/// with the date.
pub(crate) fn newest_results(workspace: &Workspace) -> Result<Option<String>> {
    let Ok(entries) = fs::read_dir(workspace.root.join(RESULTS)) else {
        return Ok(None);
    };
    let mut folders = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.join("summary.md").is_file() {
            folders.push(workspace.relative(&path));
        }
    }
    Ok(folders.into_iter().max())
}

/// README with the table of the results in `folder` between its markers.
pub(crate) fn with_results(workspace: &Workspace, folder: &str) -> Result<String> {
    let readme = fs::read_to_string(workspace.root.join(README)).context(README)?;
    let summary = read_summary(workspace, folder)?;
    let block = block(&summary, folder).with_context(|| no_markers(folder))?;
    replaced(&readme, &block).with_context(|| no_markers(README))
}

fn read_summary(workspace: &Workspace, folder: &str) -> Result<String> {
    let path = workspace.root.join(folder).join("summary.md");
    fs::read_to_string(&path).with_context(|| path.display().to_string())
}

fn no_markers(path: &str) -> String {
    format!("{path} lacks the markers `{BEGIN}` and `{END}`")
}

/// What README shows of a summary: the part between the markers, and where it is from.
fn block(summary: &str, folder: &str) -> Option<String> {
    let table = between(summary)?.trim();
    Some(format!("\n{table}\n\n[The machine, the command and all tables]({folder}/).\n"))
}

/// The text between the markers.
fn between(text: &str) -> Option<&str> {
    let start = text.find(BEGIN)? + BEGIN.len();
    let end = text[start..].find(END)?;
    Some(&text[start..start + end])
}

fn replaced(text: &str, block: &str) -> Option<String> {
    let old = between(text)?;
    let start = text.find(BEGIN)? + BEGIN.len();
    Some(format!("{}{block}{}", &text[..start], &text[start + old.len()..]))
}

fn check_results(readme: &str, summary: &str, folder: &str) -> Option<Finding> {
    let Some(block) = block(summary, folder) else {
        let path = format!("{folder}/summary.md");
        return Some(Finding::new(
            &path,
            1,
            "no marked table",
            format!("add `{BEGIN}` and `{END}`"),
        ));
    };
    let shown = between(readme).map(str::trim);
    let line = readme.lines().position(|line| line == BEGIN).map_or(1, |index| index + 1);
    (shown != Some(block.trim())).then(|| {
        let wrong = format!("the results are not those of {folder}");
        Finding::new(README, line, wrong, "run `cargo xtask bench --readme`")
    })
}

fn check_length(readme: &str) -> Option<Finding> {
    let lines = readme.lines().count();
    (lines > LINES_MAX).then(|| {
        let wrong = format!("{lines} lines, {LINES_MAX} at most");
        Finding::new(README, lines, wrong, "move a part to docs/ and link it")
    })
}

/// README's line about the MSRV names the version that Cargo.toml has.
fn check_msrv(readme: &str, manifest: &str) -> Option<Finding> {
    let version = manifest.lines().find_map(|line| line.strip_prefix("rust-version = "));
    let Some(version) = version.map(|version| version.trim().trim_matches('"')) else {
        return Some(Finding::new("Cargo.toml", 1, "there is no `rust-version`", "add it"));
    };
    let mut lines = (1..).zip(readme.lines());
    let Some((number, line)) = lines.find(|(_, line)| line.contains("MSRV")) else {
        return Some(Finding::new(README, 1, "no line names the MSRV", format!("say {version}")));
    };
    let names_it = line
        .split(|c: char| !c.is_ascii_digit() && c != '.')
        .any(|word| word.trim_matches('.') == version);
    (!names_it).then(|| {
        let wrong = format!("the MSRV is not Cargo.toml's, {version}");
        Finding::new(README, number, wrong, "write that version")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUMMARY: &str = "# All\n<!-- results -->\n| a |\n|---|\n| 1 |\n<!-- /results -->\nmore\n";
    const FOLDER: &str = "benches/results/threads/2026-01-02-host";

    #[test]
    fn results_are_copied_between_the_markers_and_then_agree() {
        let readme = "top\n<!-- results -->\nold\n<!-- /results -->\nrest\n";
        assert!(check_results(readme, SUMMARY, FOLDER).is_some());
        let readme = replaced(readme, &block(SUMMARY, FOLDER).unwrap()).unwrap();
        assert!(readme.starts_with("top\n<!-- results -->\n| a |\n"));
        assert!(readme.ends_with("<!-- /results -->\nrest\n"));
        assert_eq!(check_results(&readme, SUMMARY, FOLDER), None);
    }

    #[test]
    fn missing_markers_are_found_on_either_side() {
        assert!(check_results("top\n", SUMMARY, FOLDER).is_some());
        assert!(check_results("top\n", "no table\n", FOLDER).is_some());
    }

    #[test]
    fn the_msrv_is_compared_as_a_version_not_as_a_part_of_one() {
        let manifest = "[workspace.package]\nrust-version = \"1.95\"\n";
        assert_eq!(check_msrv("MSRV: Rust 1.95.\n", manifest), None);
        assert!(check_msrv("MSRV: Rust 1.951.\n", manifest).is_some());
        assert!(check_msrv("nothing\n", manifest).is_some());
    }

    #[test]
    fn a_long_readme_is_found() {
        assert_eq!(check_length(&"x\n".repeat(LINES_MAX)), None);
        assert!(check_length(&"x\n".repeat(LINES_MAX + 1)).is_some());
    }
}
