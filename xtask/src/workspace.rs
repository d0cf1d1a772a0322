//! The workspace as Cargo and the file system show it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::command::Cmd;

/// Where things are.
#[derive(Debug)]
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    /// Cargo's target directory, wherever the environment puts it.
    pub(crate) target: PathBuf,
    pub(crate) packages: Vec<Package>,
}

/// One member of the workspace.
#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    /// Whether it may go to a registry.
    pub(crate) is_published: bool,
    /// Its folder.
    pub(crate) dir: PathBuf,
    pub(crate) targets: Vec<Target>,
    pub(crate) dependencies: Vec<Dependency>,
}

/// Something that Cargo builds: a library, a program, a test.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) name: String,
    /// `lib`, `bin`, `test`, `custom-build` and so on.
    pub(crate) kind: String,
    pub(crate) root_file: PathBuf,
}

/// A dependency on another member of the workspace.
#[derive(Debug)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) dev: bool,
}

/// A text file of the repository.
#[derive(Debug)]
pub(crate) struct File {
    /// From the root, with `/` between the parts.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Workspace {
    /// The interpreter with the Python packages of the tests.
    pub(crate) fn python(&self) -> PathBuf {
        self.target.join("tools/python/bin/python")
    }

    /// The folder with the Node.js packages of the tests.
    pub(crate) fn node(&self) -> PathBuf {
        self.target.join("tools/node")
    }

    /// Prometheus' checker, where the tests have one of their own.
    pub(crate) fn promtool(&self) -> PathBuf {
        self.target.join("tools/promtool")
    }

    /// Asks Cargo about the workspace that this program was built from.
    pub(crate) fn find() -> Result<Self> {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
        let json = Cmd::new("cargo metadata --no-deps --format-version 1 --manifest-path")
            .arg(manifest)
            .read_quietly()?;
        let metadata: Value = serde_json::from_str(&json).context("`cargo metadata`")?;
        let packages = list(&metadata["packages"]);
        let names: Vec<String> = packages.iter().map(|package| text(&package["name"])).collect();
        Ok(Self {
            root: path(&metadata["workspace_root"]),
            target: path(&metadata["target_directory"]),
            packages: packages.iter().map(|package| Package::new(package, &names)).collect(),
        })
    }

    /// All text files whose name ends in `.` and one of `extensions`, in order of their paths.
    pub(crate) fn files(&self, extensions: &[&str]) -> Result<Vec<File>> {
        let mut paths = Vec::new();
        walk(&self.root, &mut paths)?;
        paths.sort();
        paths
            .iter()
            .filter(|path| path.extension().is_some_and(|ext| extensions.iter().any(|e| ext == *e)))
            .map(|path| File::read(&self.root, path))
            .collect()
    }

    /// The package whose folder holds the file at `path` (from the root).
    pub(crate) fn package_of(&self, path: &str) -> Option<&Package> {
        let path = self.root.join(path);
        let owners = self.packages.iter().filter(|package| path.starts_with(&package.dir));
        owners.max_by_key(|package| package.dir.as_os_str().len())
    }

    /// `path` from the root, with `/` between the parts.
    pub(crate) fn relative(&self, path: &Path) -> String {
        relative(&self.root, path)
    }
}

impl Package {
    fn new(package: &Value, members: &[String]) -> Self {
        let mut dir = path(&package["manifest_path"]);
        dir.pop();
        let targets = list(&package["targets"]).iter().map(|target| Target {
            name: text(&target["name"]),
            kind: text(&target["kind"][0]),
            root_file: path(&target["src_path"]),
        });
        let dependencies = list(&package["dependencies"])
            .iter()
            .map(|dependency| Dependency {
                name: text(&dependency["name"]),
                dev: dependency["kind"] == "dev",
            })
            .filter(|dependency| members.contains(&dependency.name));
        Self {
            name: text(&package["name"]),
            version: text(&package["version"]),
            // `publish = false` is a list of no registries.
            is_published: package["publish"].is_null(),
            dir,
            targets: targets.collect(),
            dependencies: dependencies.collect(),
        }
    }
}

impl File {
    fn read(root: &Path, path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        Ok(Self { path: relative(root, path), text })
    }

    /// The lines with their numbers, which start at 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }
}

/// Every file below `dir` except hidden and built ones.
pub(crate) fn walk(dir: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let kind = entry.file_type()?;
        if kind.is_dir() && !name.starts_with('.') && !name.starts_with("target") {
            walk(&entry.path(), found)?;
        } else if kind.is_file() {
            found.push(entry.path());
        }
    }
    Ok(())
}

fn relative(root: &Path, path: &Path) -> String {
    let path = path.strip_prefix(root).unwrap_or(path);
    path.to_string_lossy().replace(std::path::MAIN_SEPARATOR, "/")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn path(value: &Value) -> PathBuf {
    PathBuf::from(text(value))
}
