//! The `cargo` of the tour's terminals: it starts what `cargo run` would start, from the build that
//! the tests share. Cargo itself would build the dependencies of the named package once more, with
//! the features that this package alone needs.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::command::Cmd;
use crate::workspace::Workspace;

/// What `cargo run` starts, as Cargo describes the workspace: the words after `-p` and `--bin`,
/// each empty if they are not there, and the program.
type Programs = Vec<(String, String, String)>;

/// A script that takes the place of Cargo for `cargo run` and for nothing else.
pub(super) fn stand_in(workspace: &Workspace) -> Result<String> {
    let manifest = workspace.root.join("Cargo.toml");
    let json = Cmd::new("cargo metadata --no-deps --format-version 1 --manifest-path")
        .arg(manifest)
        .read_quietly()?;
    let metadata = serde_json::from_str(&json).context("`cargo metadata`")?;
    let folder = workspace.target.join("debug").display().to_string();
    Ok(script(&programs(&metadata)?, &folder))
}

fn programs(metadata: &Value) -> Result<Programs> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let defaults = list(&metadata["workspace_default_members"]);
    let mut programs = Vec::new();
    for package in list(&metadata["packages"]) {
        let (name, preferred) = (text(&package["name"]), text(&package["default_run"]));
        let is_default = defaults.contains(&package["id"]);
        let targets = list(&package["targets"]);
        let bins = targets.iter().filter(|it| it["kind"][0] == "bin").map(|it| text(&it["name"]));
        let bins: Vec<_> = bins.collect();
        for bin in &bins {
            programs.push((name.clone(), bin.clone(), bin.clone()));
            if bins.len() == 1 || *bin == preferred {
                programs.push((name.clone(), String::new(), bin.clone()));
                if is_default {
                    programs.push((String::new(), String::new(), bin.clone()));
                }
            }
            if is_default {
                programs.push((String::new(), bin.clone(), bin.clone()));
            }
        }
    }
    let plain = programs.iter().filter(|(package, bin, _)| package.is_empty() && bin.is_empty());
    ensure!(plain.count() == 1, "`cargo run` alone must have one program to start");
    Ok(programs)
}

fn script(programs: &Programs, folder: &str) -> String {
    let cases: String = programs
        .iter()
        .map(|(package, bin, program)| {
            format!("'{package}/{bin}') exec '{folder}/{program}' \"$@\" ;;\n")
        })
        .collect();
    format!(
        r#"#!/bin/sh
fail() {{ echo "the cargo of the tour: $*" >&2; exit 101; }}
[ "$1" = run ] || fail "only cargo run is known here, not: cargo $*"
shift
package= bin=
while [ $# -gt 0 ]; do
    case "$1" in
    --release | -q | --quiet) ;;
    -p | --package) package=$2; shift ;;
    --bin) bin=$2; shift ;;
    --) shift; break ;;
    -*) fail "unknown option $1" ;;
    *) break ;;
    esac
    shift
done
case "$package/$bin" in
{cases}*) fail "no program: -p '$package' --bin '$bin'" ;;
esac
"#
    )
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const METADATA: &str = r#"{"workspace_default_members": ["cli 1"], "packages": [
        {"id": "cli 1", "name": "cli", "default_run": null, "targets": [
            {"kind": ["lib"], "name": "cli"}, {"kind": ["bin"], "name": "main"}]},
        {"id": "examples 1", "name": "examples", "default_run": null, "targets": [
            {"kind": ["bin"], "name": "a"}, {"kind": ["bin"], "name": "b"}]}]}"#;

    #[test]
    fn the_program_that_cargo_would_run_is_started_with_its_arguments() {
        let folder = std::env::temp_dir().join(format!("xtask-cargo-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        };
        for name in ["main", "a", "b"] {
            write(name, &format!("#!/bin/sh\necho {name} \"$@\"\n"));
        }
        let programs = programs(&serde_json::from_str(METADATA).unwrap()).unwrap();
        write("cargo", &script(&programs, &folder.display().to_string()));
        let cargo = |args: &str| {
            let words = args.split_whitespace();
            Cmd::new("sh").arg(folder.join("cargo")).args(words).read_quietly()
        };
        assert_eq!(cargo("run --release -- serve -x").unwrap(), "main serve -x\n");
        assert_eq!(cargo("run -q -p examples --bin b 1 -- 2").unwrap(), "b 1 -- 2\n");
        assert_eq!(cargo("run -p cli").unwrap(), "main\n");
        for wrong in ["build", "run -p examples", "run --bin a", "run -p none", "run --bench"] {
            assert!(cargo(wrong).is_err(), "{wrong}");
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_workspace_without_one_default_program_is_refused() {
        let none = METADATA.replace("\"cli 1\"]", "]");
        assert!(programs(&serde_json::from_str(&none).unwrap()).is_err());
    }
}
