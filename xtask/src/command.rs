//! Running programs: each command is printed before it runs, so that a person can repeat it.

use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};

/// A program, its arguments and the variables set for it.
#[derive(Debug)]
pub(crate) struct Cmd {
    inner: Command,
}

impl Cmd {
    /// `line` is cut at white space; add what holds spaces with [`Cmd::arg`].
    pub(crate) fn new(line: &str) -> Self {
        let mut words = line.split_whitespace();
        Self::program(words.next().expect("a command has a first word")).args(words)
    }

    /// The program at `path`, with no arguments yet.
    pub(crate) fn program(path: impl AsRef<std::ffi::OsStr>) -> Self {
        let mut inner = Command::new(path);
        // `cargo xtask` sets what describes the package xtask. Build scripts that read such
        // variables would run again, and everything above them be built again, each time that a
        // person uses Cargo directly between two runs of xtask.
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_of_our_package(name)) {
            inner.env_remove(name);
        }
        Self { inner }
    }

    pub(crate) fn arg(mut self, arg: impl AsRef<std::ffi::OsStr>) -> Self {
        self.inner.arg(arg);
        self
    }

    pub(crate) fn args<S: AsRef<std::ffi::OsStr>>(
        mut self,
        args: impl IntoIterator<Item = S>,
    ) -> Self {
        self.inner.args(args);
        self
    }

    pub(crate) fn env(mut self, key: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.inner.env(key, value);
        self
    }

    /// Adds `--cfg name` to the flags of the compiler, after those that are set already.
    pub(crate) fn rustc_cfg(self, name: &str) -> Self {
        let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
        self.env("RUSTFLAGS", format!("{flags} --cfg {name}").trim_start())
    }

    pub(crate) fn dir(mut self, dir: &Path) -> Self {
        self.inner.current_dir(dir);
        self
    }

    /// Prints and runs the command; its output goes where ours goes.
    pub(crate) fn run(mut self) -> Result<()> {
        println!("$ {self}");
        let status = self.inner.stdin(Stdio::null()).status();
        let status = status.with_context(|| format!("could not start `{self}`"))?;
        ensure!(status.success(), "`{self}`: {status}");
        Ok(())
    }

    /// Prints and starts the command; what it writes goes to the file `log` until it has ended.
    pub(crate) fn start(mut self, log: &Path) -> Result<Started> {
        println!("$ {self} &");
        let output = File::create(log).with_context(|| log.display().to_string())?;
        self.inner.stdin(Stdio::null()).stderr(output.try_clone()?).stdout(output);
        let child = self.inner.spawn().with_context(|| format!("could not start `{self}`"))?;
        Ok(Started { command: self.to_string(), child, log: log.to_owned() })
    }

    /// Prints and runs the command and returns what it wrote to stdout.
    pub(crate) fn read(self) -> Result<String> {
        println!("$ {self}");
        self.read_quietly()
    }

    /// As [`Cmd::read`], for questions of our own that nobody wants to repeat.
    pub(crate) fn read_quietly(mut self) -> Result<String> {
        let output = self.inner.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
        let output = output.with_context(|| format!("could not start `{self}`"))?;
        ensure!(output.status.success(), "`{self}`: {}", output.status);
        String::from_utf8(output.stdout).with_context(|| format!("`{self}` wrote no UTF-8"))
    }

    /// True if the command can be started and succeeds. Says nothing.
    pub(crate) fn works(mut self) -> bool {
        let quiet = self.inner.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        quiet.status().is_ok_and(|status| status.success())
    }
}

/// A command that runs beside others. It ends with its owner.
#[derive(Debug)]
pub(crate) struct Started {
    command: String,
    child: Child,
    log: PathBuf,
}

impl Started {
    /// Waits for its end, prints what it wrote, and fails if it has.
    pub(crate) fn finish(mut self) -> Result<()> {
        let status = self.child.wait()?;
        let written = fs::read(&self.log).with_context(|| self.log.display().to_string())?;
        println!("`{}` wrote:\n{}", self.command, String::from_utf8_lossy(&written));
        ensure!(status.success(), "`{}`: {status}", self.command);
        Ok(())
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl fmt::Display for Cmd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (key, value) in self.inner.get_envs() {
            let Some(value) = value else { continue };
            let value = value.to_string_lossy();
            write!(f, "{}={} ", key.to_string_lossy(), quoted(&value))?;
        }
        write!(f, "{}", self.inner.get_program().to_string_lossy())?;
        for arg in self.inner.get_args() {
            write!(f, " {}", quoted(&arg.to_string_lossy()))?;
        }
        Ok(())
    }
}

/// Whether Cargo sets this variable for the package that it runs.
fn is_of_our_package(name: &std::ffi::OsStr) -> bool {
    let name = name.to_string_lossy();
    ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| name.starts_with(prefix))
}

/// `word` as a shell would have to be given it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_=+./,:@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_command_can_be_pasted_into_a_shell() {
        let command = Cmd::new("cargo test").arg("a b").env("KEY", "it's");
        assert_eq!(command.to_string(), r"KEY='it'\''s' cargo test 'a b'");
    }

    #[test]
    fn a_command_does_not_see_which_package_started_it() {
        // Cargo and nextest both set it for this test.
        assert!(std::env::var_os("CARGO_PKG_NAME").is_some());
        let printed = Cmd::new("env").read_quietly().unwrap();
        assert!(!printed.lines().any(|line| line.starts_with("CARGO_PKG_NAME=")));
        assert!(!printed.lines().any(|line| line.starts_with("CARGO_MANIFEST_DIR=")));
        assert!(!Cmd::new("env").to_string().contains("CARGO_"));
    }

    #[test]
    fn a_command_that_fails_or_does_not_exist_is_an_error() {
        assert!(Cmd::new("false").run().is_err());
        assert!(Cmd::new("no-such-program-here").run().is_err());
        assert!(!Cmd::new("no-such-program-here").works());
        assert!(Cmd::new("true").works());
    }

    #[test]
    fn a_command_that_was_started_is_waited_for_or_ends_with_its_owner() {
        let log = std::env::temp_dir().join(format!("xtask-command-{}", std::process::id()));
        Cmd::new("echo said").start(&log).unwrap().finish().unwrap();
        assert_eq!(fs::read_to_string(&log).unwrap(), "said\n");
        assert!(Cmd::new("false").start(&log).unwrap().finish().is_err());
        let started = Cmd::new("sleep 3600").start(&log).unwrap();
        let process = format!("/proc/{}", started.child.id());
        drop(started);
        assert!(!Path::new(&process).exists());
        fs::remove_file(&log).unwrap();
    }
}
