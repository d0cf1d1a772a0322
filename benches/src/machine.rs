//! The machine that a run was made on, and the versions of what was measured.

use std::fs;
use std::path::Path;
use std::process::Command;

/// What `command` prints, or a note that it failed.
pub(crate) fn output(command: &str, args: &[&str]) -> String {
    let folder = env!("CARGO_MANIFEST_DIR");
    match Command::new(command).args(args).current_dir(folder).output() {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
        }
        _ => format!("({command} failed)"),
    }
}

/// The first line of a file, or `unknown`.
pub(crate) fn first_line(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().next().unwrap_or("unknown").to_owned()
}

/// The first line that a program prints about its version.
pub(crate) fn version(program: &str, flag: &str) -> String {
    let output = Command::new(program).arg(flag).output();
    let Ok(output) = output else { return format!("{program} is not installed") };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().next().unwrap_or(program).to_owned()
}

/// The text of `machine.txt`; `busy` has the lines about other processes.
pub(crate) fn describe(busy: &str) -> String {
    format!(
        "kernel: {}\n{busy}load averages at the end: {}\ngovernor: {}\n\
         clock: {:.4} ticks/ns\n\n{}\n",
        output("uname", &["-sr"]),
        first_line("/proc/loadavg"),
        first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        crate::clock::ticks_per_ns(),
        output("lscpu", &[]),
    )
}

/// `name version` of each package of the lock file whose name is one of `names`.
pub(crate) fn versions(names: &[&str]) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    let text = root.and_then(|root| fs::read_to_string(root.join("Cargo.lock")).ok());
    packages(&text.unwrap_or_default(), names)
}

fn packages(lock_file: &str, names: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    let mut name = None;
    for line in lock_file.lines() {
        let value = |key: &str| Some(line.strip_prefix(key)?.trim_matches('"').to_owned());
        if let Some(value) = value("name = ") {
            name = names.contains(&value.as_str()).then_some(value);
        } else if let (Some(version), Some(name)) = (value("version = "), name.take()) {
            found.push(format!("{name} {version}"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_of_a_package_is_found() {
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.0\"\n\n[[package]]\nname = \"b\"\n\
                    version = \"2.0\"\n\n[[package]]\nname = \"a\"\nversion = \"3.0\"\n";
        assert_eq!(packages(lock, &["a"]), ["a 1.0", "a 3.0"]);
        assert!(!versions(&["parking_lot"]).is_empty());
    }
}
