//! Tries what a package unpacks to, as somebody would who has just installed it.

use std::fmt;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use super::tree::{self, Layout};
use crate::command::Cmd;

/// Nothing here takes nearly as long; what does has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// What was looked at, and what could not be because a tool is missing.
#[derive(Debug, Default)]
pub(crate) struct Tried {
    done: Vec<&'static str>,
    missing: Vec<&'static str>,
}

impl Tried {
    /// Does `check` if `probe` runs here, and remembers whether it did.
    pub(super) fn if_there(
        &mut self,
        probe: &str,
        name: &'static str,
        check: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        if Cmd::new(probe).works() {
            check().context(name)?;
            self.done.push(name);
        } else {
            self.missing.push(name);
        }
        Ok(())
    }
}

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tried: {}", self.done.join(", "))?;
        if !self.missing.is_empty() {
            write!(f, "; not here: {}", self.missing.join(", "))?;
        }
        Ok(())
    }
}

/// Tries what was unpacked at `root`.
pub(super) fn tree(root: &Path, layout: &Layout, version: &str) -> Result<Tried> {
    let program = root.join(layout.bin).join("lockspan");
    let said = super::version(&program)?;
    ensure!(said == version, "the binary in the package says {said}, not {version}");
    serve(&program, &root.join(layout.config).join("lockspan.toml"), root)?;
    let mut tried = Tried { done: vec!["a lock on its service"], missing: Vec::new() };
    let bash = root.join(layout.bash).join("lockspan");
    tried.if_there("bash --version", "bash", || completes(&bash))?;
    tried.if_there("zsh --version", "zsh", || {
        Cmd::new("zsh -n").arg(root.join(layout.zsh).join("_lockspan")).run()
    })?;
    tried.if_there("fish --version", "fish", || {
        Cmd::new("fish --no-execute").arg(root.join(layout.fish).join("lockspan.fish")).run()
    })?;
    let pages = tree::files(&root.join(layout.man))?;
    ensure!(pages.iter().any(|page| page.ends_with("lockspan.1.gz")), "no lockspan.1.gz");
    tried.if_there("man --version", "man", || {
        pages.iter().try_for_each(|page| shows_without_warnings(page))
    })?;
    tried.if_there("mandoc -T lint -W fatal /dev/null", "mandoc", || {
        let lint = "gzip --decompress --stdout \"$0\" | mandoc -T lint -W error";
        pages.iter().try_for_each(|page| Cmd::new("sh -c").arg(lint).arg(page).run())
    })?;
    let unit = root.join(layout.units).join("lockspan.service");
    tried.if_there("systemd-analyze --version", "systemd-analyze", || {
        is_a_unit(&unit, &program, root)
    })?;
    Ok(tried)
}

/// Serves with the configuration of the package, on a free port; takes a lock; stops.
fn serve(program: &Path, config: &Path, root: &Path) -> Result<()> {
    let mut command = Command::new(program);
    command.args(["serve", "--listen", "127.0.0.1:0", "--http", "none", "--config"]).arg(config);
    command.arg("--data-dir").arg(root.join("data")).stdin(Stdio::null()).stderr(Stdio::piped());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("LOCKSPAN_") || name == "NOTIFY_SOCKET" {
            command.env_remove(name);
        }
    }
    println!("$ {} serve --config {}", program.display(), config.display());
    let mut server = Server(command.spawn().context("the service does not start")?);
    let address = server.address()?;
    let token = Cmd::program(program)
        .args(["run", "--wait", "30s", "--url", &format!("lockspan://{address}")])
        .args(["package:1", "--", "sh", "-c", "echo $LOCKSPAN_TOKEN"])
        .read()?;
    ensure!(token.trim().parse::<u128>().is_ok_and(|token| token > 0), "the token is {token:?}");
    server.stop()
}

/// A service that ends with its owner.
struct Server(Child);

impl Server {
    /// Where it listens, by its first line.
    fn address(&mut self) -> Result<String> {
        let lines = lines_of(self.0.stderr.take().context("its stderr is a pipe")?);
        let end = Instant::now() + PATIENCE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let line = lines.recv_timeout(left).context("the service did not say where it is")?;
            println!("{line}");
            if let Some((_, rest)) = line.split_once("listening on ") {
                let address = rest.split(';').next().unwrap_or_default();
                return Ok(address.to_owned());
            }
        }
    }

    /// Asks it to end, and demands that it does so by itself.
    fn stop(&mut self) -> Result<()> {
        Cmd::new("kill -TERM").arg(self.0.id().to_string()).run()?;
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.0.try_wait()? {
                ensure!(status.success(), "the service ended with {status}");
                return Ok(());
            }
            if Instant::now() > end {
                bail!("the service did not stop within {PATIENCE:?}");
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The lines that come, until the end. A thread reads them, so that one can wait with a limit.
fn lines_of(from: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (send, lines) = channel();
    thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            // Whoever has seen enough has gone; the service must be able to write all the same.
            let _ = send.send(line);
        }
    });
    lines
}

/// Bash can read the file, and offers `serve` for `lockspan se`.
fn completes(file: &Path) -> Result<()> {
    Cmd::new("bash -n").arg(file).run()?;
    let script = "source \"$0\"; COMP_WORDS=(lockspan se); COMP_CWORD=1; \
                  _lockspan lockspan se lockspan; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let offered = Cmd::new("bash --norc -c").arg(script).arg(file).read()?;
    ensure!(offered.lines().any(|word| word == "serve"), "bash offers {offered:?}, not `serve`");
    Ok(())
}

/// `man` says nothing about a page but the page.
fn shows_without_warnings(page: &Path) -> Result<()> {
    let output = Command::new("man")
        .args(["--warnings", "--encoding=UTF-8", "--local-file"])
        .arg(page)
        .env("LC_ALL", "C.UTF-8")
        .env("MANWIDTH", "100")
        .stdin(Stdio::null())
        .output()?;
    let complaints = String::from_utf8_lossy(&output.stderr);
    let text = String::from_utf8_lossy(&output.stdout);
    let fine = output.status.success() && complaints.is_empty() && text.contains("SYNOPSIS");
    ensure!(fine, "`man {}`: {}\n{complaints}{text}", page.display(), output.status);
    Ok(())
}

/// What the unit has to say: how much the service may take, and that it never stays down.
const BOUNDS: [&str; 5] =
    ["LimitNOFILE=", "LimitCORE=0", "MemoryMax=", "TasksMax=", "StartLimitIntervalSec=0"];

fn has_key(unit: &str, key: &str) -> bool {
    unit.lines().any(|line| line.starts_with(key))
}

/// systemd understands the unit. Its program is not installed, so it is named where it is.
fn is_a_unit(unit: &Path, program: &Path, root: &Path) -> Result<()> {
    let text = fs::read_to_string(unit)?;
    let (_, rest) = text.split_once("ExecStart=").context("the unit starts nothing")?;
    let installed = rest.split_whitespace().next().unwrap_or_default();
    ensure!(installed.ends_with("/bin/lockspan"), "the unit starts {installed}");
    for key in BOUNDS {
        ensure!(has_key(&text, key), "the unit does not say {key}");
    }
    let copy = root.join("lockspan.service");
    fs::write(&copy, text.replace(installed, &program.display().to_string()))?;
    let verify = Cmd::new("systemd-analyze verify --man=no").arg(&copy);
    verify.run()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_bounds_the_service_and_never_leaves_it_down() {
        let unit = include_str!("../../../packaging/systemd/lockspan.service");
        for key in BOUNDS {
            assert!(has_key(unit, key), "{key}");
        }
        let (first, _) = unit.split_once("[Service]").expect("a service");
        assert!(has_key(first, "StartLimitIntervalSec=0"), "it is a key of [Unit]");
    }
}
