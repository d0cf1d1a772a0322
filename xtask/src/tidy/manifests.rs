//! What a registry shows of a crate: each published one has a description, keywords, categories, a
//! README and settings for docs.rs.
//!
//! Links of such a README are whole addresses: on the page of a registry a path leads nowhere.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::{Finding, links};
use crate::command::Cmd;
use crate::workspace::{File, Workspace};

/// What crates.io takes.
const KEYWORDS_MAX: usize = 5;
const KEYWORD_LENGTH_MAX: usize = 20;
/// A longer one is cut off in lists.
const DESCRIPTION_LENGTH_MAX: usize = 110;

pub(super) fn check(workspace: &Workspace) -> Result<Vec<Finding>> {
    let json = Cmd::new("cargo metadata --no-deps --format-version 1 --manifest-path")
        .arg(workspace.root.join("Cargo.toml"))
        .read_quietly()?;
    let metadata: Value = serde_json::from_str(&json).context("`cargo metadata`")?;
    let packages = metadata["packages"].as_array().context("`cargo metadata` has no packages")?;
    let mut findings = Vec::new();
    for package in packages.iter().filter(|package| package["publish"].is_null()) {
        let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
        let path = workspace.relative(manifest);
        findings.extend(
            problems(package).into_iter().map(|wrong| Finding::new(&path, 1, wrong, "correct it")),
        );
        let readme = manifest.with_file_name("README.md");
        if let Ok(text) = fs::read_to_string(&readme) {
            let file = File { path: workspace.relative(&readme), text };
            findings.extend(relative_links(&file));
        }
    }
    Ok(findings)
}

/// What is wrong with a package of `cargo metadata`.
fn problems(package: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut demand = |holds: bool, what: &str| {
        if !holds {
            wrong.push(what.to_owned());
        }
    };
    let length = package["description"].as_str().unwrap_or_default().chars().count();
    demand(length > 0, "no `description`");
    demand(length <= DESCRIPTION_LENGTH_MAX, "a `description` of more than 110 characters");
    demand(package["readme"] == "README.md", "no `readme = \"README.md\"`");
    demand(package["rust_version"].is_string(), "no `rust-version`");
    demand(package["license"].is_string(), "no `license`");
    let list = |name: &str| package[name].as_array().map_or(&[][..], Vec::as_slice);
    demand((1..=KEYWORDS_MAX).contains(&list("keywords").len()), "not 1 to 5 `keywords`");
    demand(list("keywords").iter().all(is_keyword), "a keyword that crates.io refuses");
    demand((1..=5).contains(&list("categories").len()), "not 1 to 5 `categories`");
    let is_program = list("targets").iter().all(|target| target["kind"][0] != "lib");
    let docs = &package["metadata"]["docs"]["rs"];
    demand(is_program || docs.is_object(), "no [package.metadata.docs.rs]");
    wrong
}

/// As crates.io defines it: ASCII, with a letter or digit first.
fn is_keyword(keyword: &Value) -> bool {
    let word = keyword.as_str().unwrap_or_default();
    word.len() <= KEYWORD_LENGTH_MAX
        && word.starts_with(|c: char| c.is_ascii_alphanumeric())
        && word.chars().all(|c| c.is_ascii_alphanumeric() || "_-+".contains(c))
}

fn relative_links(file: &File) -> Vec<Finding> {
    // Every path leads nowhere there.
    let found = links::check(file, |_| false).into_iter();
    found
        .map(|finding| Finding { todo: "a registry has only this page".into(), ..finding })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn sound() -> Value {
        json!({
            "description": "What it is.", "readme": "README.md", "rust_version": "1.95",
            "license": "MIT", "keywords": ["lock", "c++"], "categories": ["concurrency"],
            "targets": [{ "kind": ["lib"] }],
            "metadata": { "docs": { "rs": { "all-features": true } } },
        })
    }

    #[test]
    fn a_whole_manifest_passes_and_each_gap_is_found() {
        assert_eq!(problems(&sound()), [""; 0]);
        for (field, value) in [
            ("description", json!(null)),
            ("description", json!("x".repeat(111))),
            ("readme", json!("../README.md")),
            ("rust_version", json!(null)),
            ("license", json!(null)),
            ("keywords", json!([])),
            ("keywords", json!(["a", "b", "c", "d", "e", "f"])),
            ("keywords", json!(["with space"])),
            ("categories", json!([])),
            ("metadata", json!(null)),
        ] {
            let mut package = sound();
            package[field] = value;
            assert_eq!(problems(&package).len(), 1, "{field}: {:?}", problems(&package));
        }
    }

    #[test]
    fn a_program_has_no_page_on_docs_rs() {
        let mut package = sound();
        package["targets"] = json!([{ "kind": ["bin"] }, { "kind": ["test"] }]);
        package["metadata"] = json!(null);
        assert_eq!(problems(&package), [""; 0]);
    }

    #[test]
    fn a_path_in_a_readme_is_found() {
        let file = |text: &str| File { path: "crates/a/README.md".into(), text: text.to_owned() };
        assert_eq!(relative_links(&file("[a](https://docs.rs/a), [b](#part)\n")), []);
        assert_eq!(relative_links(&file("[a](../../docs/wire.md)\n")).len(), 1);
    }
}
