//! What earlier runs found, in `target/weaken/results`, so that a run can be resumed.
//!
//! The file has one line per mutant and per unchanged model: a key, a name, a result, seconds of
//! processor time, and the models that decided it, with tabs between them. The key is a hash of
//! the sources that the models are built from: after a change to those no line counts any more.
//! A later line replaces an earlier one with the same key and name.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::Outcome;
use crate::models::Verdict;
use crate::workspace::{self, Workspace};

/// The file, open and locked, and what is in it.
#[derive(Debug)]
pub(super) struct Results {
    file: File,
    known: BTreeMap<(String, String), Outcome>,
}

impl Results {
    /// Opens the file in the folder `home`. Only one process at a time can have it open: two would
    /// build in the same copy of the workspace.
    pub(super) fn open(home: &Path) -> Result<Self> {
        fs::create_dir_all(home).with_context(|| home.display().to_string())?;
        let path = home.join("results");
        let file = OpenOptions::new().create(true).append(true).read(true).open(&path);
        let file = file.with_context(|| path.display().to_string())?;
        if file.try_lock().is_err() {
            bail!("another `cargo xtask weaken` is running: it has {}", path.display());
        }
        let text = fs::read_to_string(&path)?;
        if !text.is_empty() && !text.ends_with('\n') {
            (&file).write_all(b"\n")?;
        }
        Ok(Self { file, known: text.lines().filter_map(parse).collect() })
    }

    pub(super) fn get(&self, key: &str, name: &str) -> Option<&Outcome> {
        self.known.get(&(key.to_owned(), name.to_owned()))
    }

    /// Writes the outcome to the file at once: the next moment may be the last.
    pub(super) fn keep(&mut self, key: &str, name: &str, outcome: Outcome) -> Result<()> {
        self.file.write_all(format(key, name, &outcome).as_bytes())?;
        self.known.insert((key.to_owned(), name.to_owned()), outcome);
        Ok(())
    }
}

fn format(key: &str, name: &str, outcome: &Outcome) -> String {
    let (verdict, seconds) = (outcome.verdict.name(), outcome.took.as_secs_f64());
    format!("{key}\t{name}\t{verdict}\t{seconds:.2}\t{}\n", outcome.by)
}

/// A line that was cut short, or is not ours, counts for nothing: its mutant runs again.
fn parse(line: &str) -> Option<((String, String), Outcome)> {
    let cells: Vec<&str> = line.split('\t').collect();
    let [key, name, verdict, seconds, by] = cells[..] else { return None };
    let verdict = Verdict::ALL.into_iter().find(|it| it.name() == verdict)?;
    let took = Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?;
    Some(((key.to_owned(), name.to_owned()), Outcome { verdict, took, by: by.to_owned() }))
}

/// The key of the package's models: a hash of its sources, of those of the workspace's crates that
/// it stands on, of loom's version, and of how deep the models search. The hash is the standard
/// library's; should another compiler have another one, the results of the old one do not count.
pub(super) fn key(workspace: &Workspace, package: &str) -> Result<String> {
    let mut hasher = DefaultHasher::new();
    std::env::var_os("LOCKSPAN_MODEL").hash(&mut hasher);
    let lock = fs::read_to_string(workspace.root.join("Cargo.lock")).context("Cargo.lock")?;
    locked(&lock, "loom").context("loom is not in Cargo.lock")?.hash(&mut hasher);
    let folders = folders(workspace, package);
    for file in workspace.files(&["rs"])? {
        if folders.iter().any(|folder| file.path.starts_with(folder)) {
            hash_source(&file, &mut hasher);
        }
    }
    Ok(format!("{:016x}", hasher.finish()))
}

/// Comments and empty lines do not count: no model can tell the difference.
fn hash_source(file: &workspace::File, hasher: &mut DefaultHasher) {
    file.path.hash(hasher);
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
    for line in file.text.lines().filter(is_code) {
        line.hash(hasher);
    }
}

/// `crates/thread/src/` of the package and of all members that it depends on.
fn folders(workspace: &Workspace, package: &str) -> BTreeSet<String> {
    let mut folders = BTreeSet::new();
    let mut names = vec![package];
    while let Some(name) = names.pop() {
        let Some(package) = workspace.packages.iter().find(|it| it.name == name) else { continue };
        if folders.insert(format!("{}/src/", workspace.relative(&package.dir))) {
            let dependencies = package.dependencies.iter().filter(|it| !it.dev);
            names.extend(dependencies.map(|it| it.name.as_str()));
        }
    }
    folders
}

/// What `Cargo.lock` says about a package: its version and checksum.
fn locked<'a>(lock: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = lock.split_once(&format!("name = \"{name}\"\n"))?;
    rest.split("\n\n").next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::{Dependency, Package};

    fn outcome(verdict: Verdict) -> Outcome {
        Outcome { verdict, took: Duration::from_millis(1500), by: "fair::loom::a".to_owned() }
    }

    /// A folder that goes away with the test.
    struct Home(std::path::PathBuf);

    impl Home {
        fn new(name: &str) -> Self {
            let home = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
            fs::create_dir_all(&home).unwrap();
            Self(home)
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    impl Drop for Home {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_was_kept_is_there_in_the_next_run_and_a_cut_line_is_not() {
        let home = Home::new("results");
        let mut results = Results::open(&home.0).unwrap();
        results.keep("k", "fair::A Acquire -> Relaxed", outcome(Verdict::TimedOut)).unwrap();
        results.keep("k", "fair::A Acquire -> Relaxed", outcome(Verdict::Failed)).unwrap();
        results.file.write_all(b"k\tfair::B Acquire -> Rel").unwrap();
        assert!(Results::open(&home.0).is_err(), "it is open already");
        drop(results);

        let mut results = Results::open(&home.0).unwrap();
        let kept = results.get("k", "fair::A Acquire -> Relaxed").unwrap();
        assert_eq!(*kept, outcome(Verdict::Failed));
        assert_eq!(results.get("other sources", "fair::A Acquire -> Relaxed"), None);
        assert_eq!(results.known.len(), 1);
        results.keep("k", "fair::B Acquire -> Relaxed", outcome(Verdict::Passed)).unwrap();
        drop(results);
        let results = Results::open(&home.0).unwrap();
        assert_eq!(results.known.len(), 2, "the line after one that was cut short");
    }

    #[test]
    fn the_key_changes_with_code_that_the_models_are_built_from_and_with_nothing_else() {
        let home = Home::new("key");
        let package = |name: &str, dependencies: &[&str]| Package {
            name: name.to_owned(),
            version: String::new(),
            is_published: false,
            dir: home.0.join(name),
            targets: Vec::new(),
            dependencies: dependencies
                .iter()
                .map(|name| Dependency { name: (*name).to_owned(), dev: false })
                .collect(),
        };
        let packages =
            vec![package("thread", &["park"]), package("park", &[]), package("cli", &[])];
        let workspace = Workspace { root: home.0.clone(), target: home.0.join("target"), packages };
        let lock = |version| format!("name = \"loom\"\nversion = \"{version}\"\n\nname = \"z\"\n");
        home.write("Cargo.lock", &lock("0.7.2"));
        home.write("thread/src/a.rs", "fn a() {}\n");
        home.write("park/src/b.rs", "fn b() {}\n");
        home.write("cli/src/c.rs", "fn c() {}\n");
        let key = || key(&workspace, "thread").unwrap();
        let first = key();

        home.write("cli/src/c.rs", "fn c() { 1 }\n");
        home.write("thread/tests/d.rs", "fn d() {}\n");
        home.write("thread/src/a.rs", "//! About.\n\n/// It does.\nfn a() {}\n");
        assert_eq!(key(), first, "other crates, other tests and comments");

        home.write("thread/src/a.rs", "fn a() { 1 }\n");
        let second = key();
        assert_ne!(second, first, "its own code");
        home.write("park/src/b.rs", "fn b() { 1 }\n");
        let third = key();
        assert_ne!(third, second, "a crate below it");
        home.write("Cargo.lock", &lock("0.7.3"));
        assert_ne!(key(), third, "loom");
    }
}
