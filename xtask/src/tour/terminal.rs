//! A terminal of the tour: blocks run in it one after the other, each in a shell of its own, with
//! the directory and the variables that the one before has left.

use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::page::Key;

/// No step takes nearly as long; one that does has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// What all terminals of a page have in common.
#[derive(Debug)]
pub(super) struct Desk {
    /// Where a terminal is when it is opened.
    pub(super) root: PathBuf,
    /// A directory of the page alone: home, data, scripts.
    pub(super) scratch: PathBuf,
    /// Where a server listens that is not told, and where it shows itself.
    pub(super) ports: [String; 2],
}

#[derive(Debug)]
pub(super) struct Terminal {
    number: u8,
    blocks: usize,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    stdin: ChildStdin,
    printed: Arc<Mutex<Vec<u8>>>,
    /// How much of it was told already.
    told: usize,
}

impl Terminal {
    pub(super) fn new(number: u8) -> Self {
        Self { number, blocks: 0, running: None }
    }

    /// Starts a block.
    pub(super) fn start(&mut self, desk: &Desk, script: &str, tty: bool) -> Result<()> {
        if self.running.is_some() {
            bail!("terminal {} is still busy with the block before", self.number);
        }
        self.blocks += 1;
        let name = format!("terminal-{}", self.number);
        let left = desk.scratch.join(format!("{name}.sh"));
        let file = desk.scratch.join(format!("{name}-{}.sh", self.blocks));
        let left = left.display();
        let text = format!(
            "exec 2>&1\n[ -e {left} ] && . {left}\nset -e -o pipefail\n\
             trap '{{ export -p; printf \"cd %q\\n\" \"$PWD\"; }} > {left}' EXIT\n{script}"
        );
        std::fs::write(&file, text).with_context(|| file.display().to_string())?;
        let mut command = if tty {
            let mut command = Command::new("script");
            let sized = format!("stty cols 100 rows 30; bash {}", file.display());
            command.args(["-qefc", &sized, "/dev/null"]);
            command
        } else {
            let mut command = Command::new("bash");
            command.arg(&file);
            command
        };
        environment(&mut command, desk);
        command.current_dir(&desk.root).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().context("can't start a shell")?;
        let stdin = child.stdin.take().context("its stdin is a pipe")?;
        let mut stdout = child.stdout.take().context("its stdout is a pipe")?;
        let printed = Arc::new(Mutex::new(Vec::new()));
        let reader = Arc::clone(&printed);
        thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(length @ 1..) = stdout.read(&mut part) {
                let mut all = reader.lock().unwrap_or_else(PoisonError::into_inner);
                all.extend_from_slice(&part[..length]);
            }
        });
        self.running = Some(Running { child, stdin, printed, told: 0 });
        Ok(())
    }

    /// What the block has printed since it was asked last, as soon as `enough` says so.
    pub(super) fn until(&mut self, enough: impl Fn(&str) -> bool) -> Result<String> {
        let number = self.number;
        let running = self.running()?;
        let end = Instant::now() + PATIENCE;
        loop {
            // Asked for first: then what it printed before its end is there.
            let ended = running.child.try_wait()?;
            let (new, all) = running.since(running.told);
            if enough(&new) {
                running.told = all;
                return Ok(new);
            }
            if ended.is_some() || Instant::now() > end {
                let why = ended.map_or_else(|| format!("{PATIENCE:?} passed"), |e| e.to_string());
                bail!("terminal {number}: {why}, and it had printed only\n{new}");
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for the end of the block; what it has printed since it was asked last.
    pub(super) fn end(&mut self) -> Result<(ExitStatus, String)> {
        let number = self.number;
        let running = self.running()?;
        let end = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = running.child.try_wait()? {
                break status;
            }
            if Instant::now() > end {
                bail!("terminal {number} goes on after {PATIENCE:?}:\n{}", running.since(0).0);
            }
            thread::sleep(Duration::from_millis(5));
        };
        // The reader's end of the pipe is shut when the last writer is gone.
        while Arc::strong_count(&running.printed) > 1 {
            if Instant::now() > end {
                bail!("terminal {number}: something that the block started holds its output");
            }
            thread::sleep(Duration::from_millis(5));
        }
        let (new, _) = running.since(running.told);
        self.running = None;
        Ok((status, new))
    }

    pub(super) fn press(&mut self, key: Key) -> Result<()> {
        let running = self.running()?;
        match key {
            Key::Enter => running.stdin.write_all(b"\n")?,
            Key::Quit => running.stdin.write_all(b"q")?,
            Key::Interrupt => running.signal("INT"),
            Key::Nothing => {}
        }
        Ok(running.stdin.flush()?)
    }

    pub(super) fn is_busy(&self) -> bool {
        self.running.is_some()
    }

    fn running(&mut self) -> Result<&mut Running> {
        let number = self.number;
        self.running.as_mut().with_context(|| format!("nothing runs in terminal {number}"))
    }
}

impl Drop for Terminal {
    /// Ends what still runs, as a person does who leaves: Ctrl-C, then the hard way.
    fn drop(&mut self) {
        if self.running.is_none() {
            return;
        }
        let _ = self.press(Key::Interrupt);
        if self.end().is_err()
            && let Some(running) = &mut self.running
        {
            running.signal("KILL");
            let _ = running.child.wait();
        }
    }
}

impl Running {
    /// What was printed after so many bytes, and how many there are in all.
    fn since(&self, from: usize) -> (String, usize) {
        let bytes = self.printed.lock().unwrap_or_else(PoisonError::into_inner);
        (String::from_utf8_lossy(&bytes[from..]).into_owned(), bytes.len())
    }

    /// To the group that this block is, and to no other process.
    fn signal(&self, name: &str) {
        let command = format!("kill -s {name} -- -{}", self.child.id());
        let _ = Command::new("sh").args(["-c", &command]).stderr(Stdio::null()).status();
    }
}

/// A home of its own, none of our variables, and a `cargo` that starts what is built already.
fn environment(command: &mut Command, desk: &Desk) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("LOCKSPAN_") || text.starts_with("XDG_") {
            command.env_remove(&name);
        }
    }
    let mut path = desk.scratch.join("bin").into_os_string();
    if let Some(rest) = std::env::var_os("PATH") {
        path.push(":");
        path.push(rest);
    }
    command.env("PATH", path);
    for (name, folder) in [
        ("HOME", "home"),
        ("TMPDIR", "tmp"),
        ("XDG_STATE_HOME", "state"),
        ("XDG_RUNTIME_DIR", "run"),
    ] {
        command.env(name, desk.scratch.join(folder));
    }
    let [service, http] = &desk.ports;
    command.env("LOCKSPAN_LISTEN", format!("127.0.0.1:{service}"));
    command.env("LOCKSPAN_HTTP", format!("127.0.0.1:{http}"));
    command.env("TERM", "xterm").env("LC_ALL", "C.UTF-8");
}
