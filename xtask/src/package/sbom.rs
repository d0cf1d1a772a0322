//! The software bill of materials of the binary: CycloneDX 1.5 as JSON.
//!
//! | field | where it is from |
//! |---|---|
//! | components and their graph | `cargo tree` of lockspan-cli, normal and build dependencies |
//! | `scope` | `required` if it is linked into the binary; `excluded` if only the build needs it |
//! | licences, descriptions, addresses | `cargo metadata` |
//! | hashes | the checksums in `Cargo.lock`: SHA-256 of the package that the registry has |
//!
//! The same commit gives the same file: it has no serial number, and its time is the commit's.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Map, Value, json};

use super::date_of_change;
use crate::command::Cmd;
use crate::workspace::Workspace;

/// The package of the binary.
const ROOT: &str = "lockspan-cli";

/// A package as `name vVERSION`, which is how `cargo tree` writes it.
type Key = String;

/// Each package, and those that it depends on.
type Graph = BTreeMap<Key, BTreeSet<Key>>;

/// Writes the bill of the binary for `target`, or else for this machine, to `path`.
pub(super) fn write(workspace: &Workspace, target: Option<&str>, path: &Path) -> Result<()> {
    let all = parse_tree(&tree("normal,build", target)?)?;
    let linked = parse_tree(&tree("normal,no-proc-macro", target)?)?;
    let metadata = Cmd::new("cargo metadata --locked --format-version 1").read_quietly()?;
    let metadata: Value = serde_json::from_str(&metadata).context("`cargo metadata`")?;
    let lock = fs::read_to_string(workspace.root.join("Cargo.lock")).context("Cargo.lock")?;
    let time = Cmd::new("date --utc +%Y-%m-%dT%H:%M:%SZ --date");
    let time = time.arg(format!("@{}", date_of_change()?)).read_quietly()?;
    let bill = bill(&all, &linked, &packages(&metadata)?, &checksums(&lock), time.trim())?;
    fs::write(path, format!("{bill:#}\n")).with_context(|| path.display().to_string())
}

fn tree(edges: &str, target: Option<&str>) -> Result<String> {
    let tree = Cmd::new("cargo tree --locked --prefix depth --format |{p} --package").arg(ROOT);
    let tree = tree.args(["--edges", edges]);
    let tree = target.into_iter().fold(tree, |tree, target| tree.args(["--target", target]));
    tree.read()
}

/// Reads `DEPTH|name vVERSION …` lines. A package with `(*)` has its dependencies further up.
fn parse_tree(text: &str) -> Result<Graph> {
    let mut graph = Graph::new();
    let mut path: Vec<Key> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        let (depth, package) = line.split_once('|').with_context(|| format!("`{line}`"))?;
        let depth: usize = depth.parse().with_context(|| format!("`{line}`"))?;
        let key = package.split(" (").next().unwrap_or(package).trim().to_owned();
        ensure!(depth <= path.len(), "`cargo tree` skips a level at `{line}`");
        path.truncate(depth);
        if let Some(parent) = path.last() {
            graph.entry(parent.clone()).or_default().insert(key.clone());
        }
        graph.entry(key.clone()).or_default();
        path.push(key);
    }
    Ok(graph)
}

fn packages(metadata: &Value) -> Result<BTreeMap<Key, &Value>> {
    let packages = metadata["packages"].as_array().context("`cargo metadata` has no packages")?;
    let key = |package: &Value| {
        let text = |name: &str| package[name].as_str().unwrap_or_default().to_owned();
        format!("{} v{}", text("name"), text("version"))
    };
    Ok(packages.iter().map(|package| (key(package), package)).collect())
}

/// The checksums of a `Cargo.lock`, in which name and version stand before the checksum.
fn checksums(lock: &str) -> BTreeMap<Key, String> {
    let mut sums = BTreeMap::new();
    for entry in lock.split("[[package]]").skip(1) {
        let field = |name: &str| {
            let mut lines = entry.lines().filter_map(|line| line.split_once(" = "));
            lines.find(|(key, _)| *key == name).map(|(_, value)| value.trim_matches('"'))
        };
        if let (Some(name), Some(version), Some(sum)) =
            (field("name"), field("version"), field("checksum"))
        {
            sums.insert(format!("{name} v{version}"), sum.to_owned());
        }
    }
    sums
}

fn bill(
    all: &Graph,
    linked: &Graph,
    packages: &BTreeMap<Key, &Value>,
    sums: &BTreeMap<Key, String>,
    time: &str,
) -> Result<Value> {
    let mut components = Vec::new();
    let mut root = Value::Null;
    for key in all.keys() {
        let package = packages.get(key).with_context(|| format!("what is {key}?"))?;
        let mut component = component(key, package, sums.get(key));
        if package["name"] == ROOT {
            component.insert("type".to_owned(), json!("application"));
            root = Value::Object(component);
        } else {
            let scope = if linked.contains_key(key) { "required" } else { "excluded" };
            component.insert("scope".to_owned(), json!(scope));
            components.push(Value::Object(component));
        }
    }
    ensure!(root.is_object(), "`cargo tree` does not have {ROOT}");
    let depends = |(key, on): (&Key, &BTreeSet<Key>)| {
        let on: Vec<String> = on.iter().map(purl).collect();
        json!({ "ref": purl(key), "dependsOn": on })
    };
    Ok(json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": time,
            "lifecycles": [{ "phase": "build" }],
            "tools": { "components": [{ "type": "application", "name": "cargo xtask package" }] },
            "component": root,
        },
        "components": components,
        "dependencies": all.iter().map(depends).collect::<Vec<_>>(),
    }))
}

/// What is known of a package, without its scope.
fn component(key: &Key, package: &Value, sum: Option<&String>) -> Map<String, Value> {
    let text = |name: &str| package[name].as_str().filter(|text| !text.trim().is_empty());
    let mut fields = Map::new();
    let mut put = |name: &str, value: Value| fields.insert(name.to_owned(), value);
    put("type", json!("library"));
    put("bom-ref", json!(purl(key)));
    put("name", package["name"].clone());
    put("version", package["version"].clone());
    put("purl", json!(purl(key)));
    if let Some(description) = text("description") {
        put("description", json!(description.split_whitespace().collect::<Vec<_>>().join(" ")));
    }
    if let Some(licence) = text("license") {
        // The older way to write OR.
        put("licenses", json!([{ "expression": licence.replace('/', " OR ") }]));
    }
    if let Some(sum) = sum {
        put("hashes", json!([{ "alg": "SHA-256", "content": sum }]));
    }
    if let Some(address) = text("repository") {
        put("externalReferences", json!([{ "type": "vcs", "url": address }]));
    }
    fields
}

/// The name of a package for tools that look up holes: `pkg:cargo/name@version`.
fn purl(key: &Key) -> String {
    // A version may have a `+`, which an address may not.
    format!("pkg:cargo/{}", key.replacen(" v", "@", 1).replace('+', "%2B"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &str = "0|lockspan-cli v0.1.0 (/src/cli)\n1|bytes v1.2.3\n\
                       1|derive v2.0.0+x (proc-macro)\n2|bytes v1.2.3 (*)\n2|deep v0.1.0\n";
    const LINKED: &str = "0|lockspan-cli v0.1.0 (/src/cli)\n1|bytes v1.2.3\n";
    const LOCK: &str = "version = 4\n\n[[package]]\nname = \"bytes\"\nversion = \"1.2.3\"\n\
                        source = \"registry+x\"\nchecksum = \"abcd\"\n\n\
                        [[package]]\nname = \"lockspan-cli\"\nversion = \"0.1.0\"\n";

    fn sample() -> Value {
        let package = |name: &str, version: &str, license: &str| {
            let address = Value::Null;
            json!({ "name": name, "version": version, "license": license, "repository": address })
        };
        let metadata = json!({ "packages": [
            package("lockspan-cli", "0.1.0", "MIT OR Apache-2.0"),
            package("bytes", "1.2.3", "MIT/Apache-2.0"),
            package("derive", "2.0.0+x", "MIT"),
            package("deep", "0.1.0", ""),
        ] });
        let (all, linked) = (parse_tree(ALL).unwrap(), parse_tree(LINKED).unwrap());
        let packages = packages(&metadata).unwrap();
        bill(&all, &linked, &packages, &checksums(LOCK), "2026-01-02T03:04:05Z").unwrap()
    }

    fn of<'a>(list: &'a Value, field: &str, value: &str) -> &'a Value {
        let mut items = list.as_array().unwrap().iter();
        items.find(|item| item[field] == value).unwrap_or_else(|| panic!("no {value} in {list:#}"))
    }

    #[test]
    fn the_binary_is_the_subject_and_everything_else_a_component() {
        let bill = sample();
        assert_eq!(bill["metadata"]["component"]["purl"], "pkg:cargo/lockspan-cli@0.1.0");
        assert_eq!(bill["metadata"]["component"]["type"], "application");
        let names: Vec<_> = bill["components"].as_array().unwrap().iter().collect();
        assert_eq!(names.len(), 3, "{names:?}");
    }

    #[test]
    fn a_component_has_its_licence_its_checksum_and_its_scope() {
        let bill = sample();
        let bytes = of(&bill["components"], "name", "bytes");
        assert_eq!(bytes["purl"], "pkg:cargo/bytes@1.2.3");
        assert_eq!(bytes["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(bytes["hashes"][0], json!({ "alg": "SHA-256", "content": "abcd" }));
        assert_eq!(bytes["scope"], "required");
        let derive = of(&bill["components"], "name", "derive");
        assert_eq!(derive["scope"], "excluded");
        assert_eq!(derive["purl"], "pkg:cargo/derive@2.0.0%2Bx");
        assert!(of(&bill["components"], "name", "deep").get("licenses").is_none());
    }

    #[test]
    fn the_graph_has_every_edge_once_and_no_dangling_reference() {
        let bill = sample();
        let on = |name| of(&bill["dependencies"], "ref", name)["dependsOn"].clone();
        let (bytes, derive) = ("pkg:cargo/bytes@1.2.3", "pkg:cargo/derive@2.0.0%2Bx");
        assert_eq!(on("pkg:cargo/lockspan-cli@0.1.0"), json!([bytes, derive]));
        assert_eq!(on(derive), json!([bytes, "pkg:cargo/deep@0.1.0"]));
        assert_eq!(on(bytes), json!([]));
    }

    #[test]
    fn a_tree_that_cannot_be_read_is_refused() {
        assert!(parse_tree("bytes v1.2.3\n").is_err());
        assert!(parse_tree("0|a v1\n2|b v1\n").is_err());
    }
}
