//! The guardian: a second process that kills the command's group when the first can't.
//!
//! It is this binary, started as `lockspan __guard` while the lock is asked for, in a process group
//! of its own so that nothing meant for the command or for us reaches it. Its stdin is a pipe from
//! us, and it follows what it reads, a line a message:
//!
//! | line           | meaning                                                                 |
//! |----------------|-------------------------------------------------------------------------|
//! | `mark TEXT`    | a command is about to start; `LOCKSPAN_RUN` in its environment is TEXT    |
//! | `group PGID`   | it has started, in this group                                           |
//! | `until MICROS` | the lease ends then, by `CLOCK_BOOTTIME`: kill the group if it passes    |
//! | `bye`          | all is well; end                                                        |
//!
//! The end of the pipe without `bye` means that we died: it kills the group. If it has to kill
//! before the group's number has arrived, it looks for the mark.

use std::fs;
use std::io::{self, PipeWriter, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};
use rustix::time::{ClockId, clock_gettime};

/// The first argument of a guardian.
pub(crate) const GUARD: &str = "__guard";

/// The variable that marks a command.
pub(crate) const MARK: &str = "LOCKSPAN_RUN";

/// Our end of the guardian.
#[derive(Debug)]
pub(crate) struct Guardian {
    process: Child,
    pipe: PipeWriter,
    mark: String,
    /// The last that it was told.
    until: Duration,
}

impl Guardian {
    /// Starts one.
    pub(crate) fn start() -> io::Result<Self> {
        let (read, pipe) = io::pipe()?;
        let process = Command::new(program())
            .arg(GUARD)
            .process_group(0)
            .stdin(read)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .current_dir("/")
            .spawn()?;
        // A guardian that was stopped must not stop us: then a message is left out.
        rustix::io::ioctl_fionbio(&pipe, true)?;
        let mark = format!("{}-{}", std::process::id(), now().as_nanos());
        Ok(Self { process, pipe, mark, until: Duration::ZERO })
    }

    /// What `LOCKSPAN_RUN` is to be.
    pub(crate) fn mark(&self) -> &str {
        &self.mark
    }

    /// To be said before the command is started.
    pub(crate) fn about_to_start(&mut self, left: Duration) {
        let mark = format!("mark {}\n", self.mark);
        self.say(&mark);
        self.renewed(left);
    }

    /// The command has started.
    pub(crate) fn started(&mut self, group: Pid) {
        self.say(&format!("group {}\n", group.as_raw_pid()));
    }

    /// The lease stands for so long.
    pub(crate) fn renewed(&mut self, left: Duration) {
        let until = now() + left;
        // The same end, but for what the clock moved between two looks at it.
        if until.abs_diff(self.until) > Duration::from_millis(1) {
            self.until = until;
            self.say(&format!("until {}\n", until.as_micros()));
        }
    }

    /// The command has ended. Nobody is left to act, so that it need not come to an end by itself;
    /// [`Dismissed::wait`] is for later, when it had the time.
    pub(crate) fn dismiss(mut self) -> Dismissed {
        self.say("bye\n");
        let _ = self.process.kill();
        Dismissed(self.process)
    }

    fn say(&mut self, line: &str) {
        // The guardian is the second line of defence: if it is gone we go on without it.
        let _ = self.pipe.write_all(line.as_bytes());
    }
}

/// A guardian that was told to end.
#[derive(Debug)]
pub(crate) struct Dismissed(Child);

impl Dismissed {
    /// Until it has, so that nothing of it is left over.
    pub(crate) fn wait(mut self) {
        let _ = self.0.wait();
    }
}

/// This binary, also if it has been replaced on disk since.
fn program() -> std::path::PathBuf {
    let link = std::path::PathBuf::from("/proc/self/exe");
    if cfg!(target_os = "linux") { link } else { std::env::current_exe().unwrap_or(link) }
}

/// Time that goes on while the machine sleeps, as the lease does.
fn now() -> Duration {
    #[cfg(target_os = "linux")]
    let clock = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = ClockId::Monotonic;
    Duration::try_from(clock_gettime(clock)).unwrap_or_default()
}

/// What a guardian knows.
#[derive(Debug, Default, PartialEq, Eq)]
struct Watch {
    mark: Option<String>,
    group: Option<Pid>,
    until: Option<Duration>,
    bye: bool,
}

impl Watch {
    fn hear(&mut self, line: &str) {
        match line.split_once(' ') {
            Some(("mark", mark)) => self.mark = Some(mark.to_owned()),
            Some(("group", number)) => {
                // Never 1 or less: that would be everybody.
                let number = number.parse().ok().filter(|number| *number > 1);
                self.group = number.and_then(Pid::from_raw);
            }
            Some(("until", micros)) => {
                self.until = micros.parse().ok().map(Duration::from_micros);
            }
            _ => self.bye |= line == "bye",
        }
    }

    /// Kills the group; if its number has not arrived, it is looked for.
    fn kill(&self) {
        match (self.group, &self.mark) {
            (Some(group), _) => {
                let _ = kill_process_group(group, Signal::KILL);
            }
            (None, Some(mark)) => kill_marked(mark, Duration::from_secs(1)),
            (None, None) => {}
        }
    }
}

/// The guardian's whole life.
pub(crate) fn main() -> ExitCode {
    let mut watch = Watch::default();
    let mut lines = Lines::default();
    loop {
        let left = watch.until.map(|until| until.saturating_sub(now()));
        if left == Some(Duration::ZERO) {
            watch.kill();
            watch.until = None;
            continue;
        }
        match readable(left) {
            Ok(false) => {}
            Ok(true) => match lines.read(&mut io::stdin().lock(), |line| watch.hear(line)) {
                Ok(0) => break,
                Ok(_) => {}
                Err(bad) if bad.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            },
            Err(_) => break,
        }
        if watch.bye {
            return ExitCode::SUCCESS;
        }
    }
    watch.kill();
    ExitCode::SUCCESS
}

/// Waits for something to read, for so long at most; a second at a time, since this clock stands
/// still while the machine sleeps.
fn readable(left: Option<Duration>) -> io::Result<bool> {
    let timeout = left.map(|left| left.min(Duration::from_secs(1)) + Duration::from_millis(1));
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    let stdin = io::stdin();
    match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], timeout.as_ref()) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(bad) => Err(bad.into()),
    }
}

/// Cuts what is read into lines.
#[derive(Default)]
struct Lines(Vec<u8>);

impl Lines {
    fn read(&mut self, from: &mut impl Read, mut each: impl FnMut(&str)) -> io::Result<usize> {
        let mut some = [0; 512];
        let len = from.read(&mut some)?;
        self.0.extend_from_slice(&some[..len]);
        while let Some(end) = self.0.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.0.drain(..=end).collect();
            each(&String::from_utf8_lossy(&line[..end]));
        }
        Ok(len)
    }
}

/// Kills the group of the process that has the mark in its environment. It may be between its birth
/// and its first instruction, where it still looks like us: so look again for a while.
fn kill_marked(mark: &str, patience: Duration) {
    let end = Instant::now() + patience;
    loop {
        let marked = marked(mark);
        for group in &marked {
            let _ = kill_process_group(*group, Signal::KILL);
        }
        if !marked.is_empty() || Instant::now() >= end {
            return;
        }
        sleep(Duration::from_millis(10));
    }
}

/// The groups that a process with the mark leads.
fn marked(mark: &str) -> Vec<Pid> {
    let variable = format!("{MARK}={mark}").into_bytes();
    let Ok(processes) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let numbers = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let marked = numbers.filter(|number: &i32| {
        let environment = fs::read(format!("/proc/{number}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|one| one == variable)
    });
    let leaders = marked.filter_map(Pid::from_raw);
    leaders.filter(|pid| rustix::process::getpgid(Some(*pid)) == Ok(*pid)).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn it_understands_its_lines() {
        let mut watch = Watch::default();
        for line in ["mark 1-2", "group 77", "until 5000", "what?"] {
            watch.hear(line);
        }
        assert_eq!(watch.mark.as_deref(), Some("1-2"));
        assert_eq!(watch.group, Pid::from_raw(77));
        assert_eq!(watch.until, Some(Duration::from_millis(5)));
        assert!(!watch.bye);
        watch.hear("bye");
        assert!(watch.bye);
    }

    #[test]
    fn it_never_takes_everybody_for_a_group() {
        for line in ["group 1", "group 0", "group -5", "group x", "group "] {
            let mut watch = Watch::default();
            watch.hear(line);
            assert_eq!(watch.group, None, "{line}");
        }
    }

    #[test]
    fn lines_may_come_in_pieces() {
        let (mut lines, mut heard) = (Lines::default(), Vec::new());
        for mut piece in [&b"gro"[..], b"up 7\nunt", b"il 9\n"] {
            lines.read(&mut piece, |line| heard.push(line.to_owned())).unwrap();
        }
        assert_eq!(heard, ["group 7", "until 9"]);
    }

    #[test]
    fn a_command_is_found_by_its_mark() {
        let mark = format!("{}-test", std::process::id());
        let mut command = Command::new("sleep");
        let mut child = command.arg("60").env(MARK, &mark).process_group(0).spawn().unwrap();
        kill_marked(&mark, Duration::from_secs(10));
        let status = child.wait().unwrap();
        assert_eq!(status.signal(), Some(9));
    }
}
