//! The mutants: one for each way in which one ordering constant can be weaker.

use anyhow::{Result, bail};

use crate::workspace::{File, Workspace};

/// A file with one weaker constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mutant {
    /// The package whose models must catch it.
    pub(super) package: String,
    /// The file, from the workspace's root.
    pub(super) path: String,
    /// The lock's module as a prefix of its tests' names: `fair::`.
    pub(super) module: String,
    pub(super) constant: String,
    pub(super) from: &'static str,
    pub(super) to: &'static str,
    pub(super) original: String,
    pub(super) text: String,
}

impl Mutant {
    /// The constant's full name, which a filter is compared with.
    pub(super) fn label(&self) -> String {
        format!("{}{}", self.module, self.constant)
    }

    /// The name of its result: `fair::LOCK Acquire -> Relaxed`.
    pub(super) fn name(&self) -> String {
        format!("{} {} -> {}", self.label(), self.from, self.to)
    }

    /// Whether that model is to catch it.
    pub(super) fn is_of(&self, model: &str) -> bool {
        model.starts_with(&self.module)
    }
}

/// An ordering and what is weaker. Of `SeqCst` only fences differ from `AcqRel` under loom.
const WEAKER: [(&str, &[&str]); 4] = [
    ("Acquire", &["Relaxed"]),
    ("Release", &["Relaxed"]),
    ("AcqRel", &["Acquire", "Release", "Relaxed"]),
    ("SeqCst", &["AcqRel"]),
];

/// Every mutant of every `ord.rs` in the crates, in order of package and file.
pub(super) fn find(workspace: &Workspace) -> Result<Vec<Mutant>> {
    let mut mutants = Vec::new();
    for file in workspace.files(&["rs"])? {
        let is_table = file.path.starts_with("crates/") && file.path.ends_with("/ord.rs");
        let Some(package) = workspace.package_of(&file.path).filter(|_| is_table) else { continue };
        mutants.extend(of_file(&file, &package.name)?);
    }
    Ok(mutants)
}

/// The mutants of one file. A constant that is not understood is an error, not a gap.
fn of_file(file: &File, package: &str) -> Result<Vec<Mutant>> {
    let mut mutants = Vec::new();
    for (number, line) in file.lines() {
        let code = line.trim();
        if code.starts_with("//") || !code.contains("const ") {
            continue;
        }
        let Some((constant, ordering)) = parse(code) else {
            bail!("{}:{number}: not `const NAME: Ordering = ...;` on one line", file.path);
        };
        if ordering == "Relaxed" {
            continue;
        }
        let Some((from, weaker)) = WEAKER.iter().find(|(name, _)| *name == ordering) else {
            bail!("{}:{number}: no such ordering: {ordering}", file.path);
        };
        mutants.extend(weaker.iter().map(|to| Mutant {
            package: package.to_owned(),
            path: file.path.clone(),
            module: module(&file.path),
            constant: constant.to_owned(),
            from,
            to,
            original: file.text.clone(),
            text: with_line(
                &file.text,
                number,
                &line.replace(&format!("{from};"), &format!("{to};")),
            ),
        }));
    }
    Ok(mutants)
}

/// The name and the ordering in `pub(super) const NAME: Ordering = Ordering::Acquire;`.
fn parse(code: &str) -> Option<(&str, &str)> {
    let (_, definition) = code.split_once("const ")?;
    let (name, rest) = definition.split_once(':')?;
    let (kind, value) = rest.split_once('=')?;
    let value = value.trim().strip_suffix(';')?;
    let ordering = value.rsplit("::").next()?;
    (kind.trim().ends_with("Ordering")).then_some((name.trim(), ordering.trim()))
}

/// `crates/thread/src/fair/ord.rs` is `fair::`.
fn module(path: &str) -> String {
    let inside = path.split_once("/src/").map_or(path, |(_, inside)| inside);
    inside.trim_end_matches("ord.rs").replace('/', "::")
}

fn with_line(text: &str, number: usize, new: &str) -> String {
    let lines = (1..).zip(text.lines());
    lines.map(|(n, line)| format!("{}\n", if n == number { new } else { line })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutants(text: &str) -> Result<Vec<Mutant>> {
        let path = "crates/thread/src/fair/ord.rs".to_owned();
        of_file(&File { path, text: text.to_owned() }, "lockspan-thread")
    }

    #[test]
    fn each_constant_has_its_weaker_forms_and_relaxed_has_none() {
        let text = "//! Orderings.\n/// T1: const in prose.\n\
            pub(super) const A: Ordering = Ordering::Acquire;\n\
            const B: Ordering = AcqRel;\n\
            const C: Ordering = Relaxed;\n";
        let mutants = mutants(text).unwrap();
        let names: Vec<_> = mutants.iter().map(|m| (m.label(), m.from, m.to)).collect();
        let label = |name: &str| format!("fair::{name}");
        let expected = [
            (label("A"), "Acquire", "Relaxed"),
            (label("B"), "AcqRel", "Acquire"),
            (label("B"), "AcqRel", "Release"),
            (label("B"), "AcqRel", "Relaxed"),
        ];
        assert_eq!(names, expected);
        assert!(
            mutants[0]
                .text
                .contains("A: Ordering = Ordering::Relaxed;\nconst B: Ordering = AcqRel")
        );
        assert!(mutants[2].text.contains("Ordering::Acquire;\nconst B: Ordering = Release;\n"));
    }

    #[test]
    fn a_constant_that_is_not_understood_is_an_error() {
        assert!(mutants("const A: Ordering =\n").is_err());
        assert!(mutants("const A: Ordering = strongest();\n").is_err());
        assert!(mutants("const A: u32 = 1;\n").is_err());
    }
}
