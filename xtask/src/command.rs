//! Running programs: each command is printed before it runs, so that a person can repeat it.

use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};

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
        Self { inner: Command::new(path) }
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

impl fmt::Display for Cmd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (key, value) in self.inner.get_envs() {
            let value = value.unwrap_or_default().to_string_lossy();
            write!(f, "{}={} ", key.to_string_lossy(), quoted(&value))?;
        }
        write!(f, "{}", self.inner.get_program().to_string_lossy())?;
        for arg in self.inner.get_args() {
            write!(f, " {}", quoted(&arg.to_string_lossy()))?;
        }
        Ok(())
    }
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
    fn a_command_that_fails_or_does_not_exist_is_an_error() {
        assert!(Cmd::new("false").run().is_err());
        assert!(Cmd::new("no-such-program-here").run().is_err());
        assert!(!Cmd::new("no-such-program-here").works());
        assert!(Cmd::new("true").works());
    }
}
