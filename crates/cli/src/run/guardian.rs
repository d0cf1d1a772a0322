//! The guardian: a second process, which lets the command begin, kills its group when we can't, and
//! ends the session for us when we were killed.
//!
//! It is this binary, started as `lockspan __guard` while the lock is asked for, in a process group
//! of its own so that nothing meant for the command or for us reaches it. Its stdin is a pipe from
//! us, and it follows what it reads, a line a message. Secrets go this way and not by arguments or
//! variables, which others can see:
//!
//! | line           | meaning                                                                 |
//! |----------------|-------------------------------------------------------------------------|
//! | `group PGID`   | the command's process group; its first process is the gate               |
//! | `service URL`  | where the session is                                                    |
//! | `will HEX`     | the bytes that end the session there                                    |
//! | `until MICROS` | the lease ends then, by `CLOCK_BOOTTIME`: kill the group if it passes    |
//! | `go TOKEN`     | let the command begin, if the lease stands                              |
//! | `bye`          | all is well; end                                                        |
//!
//! Its stdout is the socket of the gate. The end of the pipe without `bye` means that we died: it
//! kills the group and, **when nothing of the group is left and not before**, ends the session, so
//! that the next in line need not wait for the lease.
//!
//! Whatever is in the pipe is read before the clock is looked at: after a stop a guardian hears of
//! renewals first. Its alarm is a timer that is due at a moment, not after a while, so a guardian
//! that was stopped past it acts as soon as it goes on.

use std::fmt::Write as _;
use std::io::{self, PipeWriter, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::Duration;

use nix::sys::signal::SigSet;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};

use super::gate::Gate;
use super::group::is_gone;
use crate::hook;
use crate::resp::Connection;

/// The first argument of a guardian.
pub(crate) const GUARD: &str = "__guard";

/// How long a guardian tries to end a session at least, if no lease says for how long.
const PATIENCE: Duration = Duration::from_secs(10);

/// Our end of the guardian.
#[derive(Debug)]
pub(crate) struct Guardian {
    process: Child,
    pipe: PipeWriter,
    /// The last that it was told.
    until: Duration,
    will: Option<Vec<u8>>,
}

impl Guardian {
    /// Starts one, for the command behind this gate.
    pub(crate) fn start(gate: &Gate, url: &str) -> io::Result<Self> {
        let (read, pipe) = io::pipe()?;
        let process = ourselves()
            .arg(GUARD)
            .process_group(0)
            .stdin(read)
            .stdout(gate.control()?)
            .stderr(Stdio::null())
            .spawn()?;
        // A guardian that was stopped must not stop us: then a message is left out.
        rustix::io::ioctl_fionbio(&pipe, true)?;
        let mut guardian = Self { process, pipe, until: Duration::ZERO, will: None };
        let group = gate.group().as_raw_pid();
        guardian.say(&format!("group {group}\nservice {url}\n"));
        Ok(guardian)
    }

    /// How the session can be ended, if that is known and was not said.
    pub(crate) fn will(&mut self, will: Option<Vec<u8>>) {
        if will.is_some() && will != self.will {
            let bytes = will.as_deref().unwrap_or_default();
            let hex = bytes.iter().fold(String::new(), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            });
            self.say(&format!("will {hex}\n"));
            self.will = will;
        }
    }

    /// The lease stands until then.
    pub(crate) fn renewed(&mut self, until: Duration) {
        // The same end, but for what the clock moved between two looks at it.
        if until.abs_diff(self.until) > Duration::from_millis(1) {
            self.until = until;
            self.say(&format!("until {}\n", until.as_micros()));
        }
    }

    /// The command may begin, if the guardian finds that the lease stands.
    pub(crate) fn go(&mut self, tokens: &str) {
        self.say(&format!("go {tokens}\n"));
    }

    /// Whether it has ended, which it does not do before we do.
    pub(crate) fn is_gone(&mut self) -> bool {
        !matches!(self.process.try_wait(), Ok(None))
    }

    /// The command has ended. Nobody is left to act, so that it need not come to an end by itself;
    /// [`Dismissed::wait`] is for later, when it had the time.
    pub(crate) fn dismiss(mut self) -> Dismissed {
        self.say("bye\n");
        let _ = self.process.kill();
        Dismissed(self.process)
    }

    fn say(&mut self, line: &str) {
        // If it is gone, a command that runs goes on without it, and one that waits does not begin.
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
pub(super) fn ourselves() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("lockspan");
    command
}

/// Time that goes on while the machine sleeps, as the lease does.
pub(super) fn now() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default()
}

/// What a guardian knows.
#[derive(Debug, Default, PartialEq, Eq)]
struct Watch {
    group: Option<Pid>,
    until: Option<Duration>,
    /// The tokens that the command is given.
    go: Option<String>,
    url: Option<String>,
    will: Option<Vec<u8>>,
    bye: bool,
}

impl Watch {
    fn hear(&mut self, line: &str) {
        match line.split_once(' ') {
            Some(("group", number)) => {
                // Never 1 or less: that would be everybody.
                let number = number.parse().ok().filter(|number| *number > 1);
                self.group = number.and_then(Pid::from_raw);
            }
            Some(("until", micros)) => {
                self.until = micros.parse().ok().map(Duration::from_micros);
            }
            Some(("service", url)) => self.url = Some(url.to_owned()),
            Some(("will", hex)) => self.will = from_hex(hex),
            Some(("go", tokens)) => self.go = Some(tokens.to_owned()),
            _ => self.bye |= line == "bye",
        }
    }

    fn kill(&self) {
        if let Some(group) = self.group {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }

    /// Acts on the time: lets the command begin, or kills it.
    fn look(&mut self, gate: &mut impl Write) {
        let Some(until) = self.until else { return };
        if now() >= until {
            self.kill();
            (self.until, self.go) = (None, None);
        } else if let Some(tokens) = self.go.take() {
            // A gate that is gone has no use for it.
            let _ = writeln!(gate, "go {} {tokens}", until.as_micros()).and_then(|()| gate.flush());
        }
    }

    /// The supervisor is dead.
    fn succeed(&self, parent: Option<Pid>) {
        hook::stop_without_parent_at("guardian-before-kill", parent);
        self.kill();
        let (Some(group), Some(url), Some(will)) = (self.group, &self.url, &self.will) else {
            return;
        };
        // When the lease is over, there is nothing to end any more.
        let late = self.until.unwrap_or_default().max(now() + PATIENCE);
        let mut pause = Duration::from_micros(200);
        while !is_gone(group) {
            if now() >= late {
                return;
            }
            sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(50));
        }
        // If the service is away, the lease ends by itself.
        if let Ok(Some(mut service)) = Connection::open(url) {
            let _ = service.tell(will).and_then(|()| service.ask(&[b"PING"]));
        }
    }
}

fn from_hex(hex: &str) -> Option<Vec<u8>> {
    let pairs = hex.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// The guardian's whole life.
pub(crate) fn main() -> ExitCode {
    let _ = rustix::thread::set_name(c"lockspan-guard");
    // Only SIGKILL ends it before its time. The system itself sends SIGHUP to one that is stopped
    // when the supervisor dies, which is when it is needed.
    let _ = SigSet::all().thread_block();
    let (mut watch, parent) = (Watch::default(), rustix::process::getppid());
    // Without an alarm it can't do its work: the gate stays shut then.
    match Alarm::new() {
        Ok(alarm) if watch_over(&mut watch, &alarm).is_ok() && watch.bye => {}
        _ => watch.succeed(parent),
    }
    ExitCode::SUCCESS
}

/// Until the pipe ends, or `bye`.
fn watch_over(watch: &mut Watch, alarm: &Alarm) -> io::Result<()> {
    let (mut stdin, mut gate) = (io::stdin().lock(), io::stdout().lock());
    rustix::io::ioctl_fionbio(&stdin, true)?;
    let mut lines = Lines::default();
    loop {
        alarm.set(watch.until)?;
        let mut both = [PollFd::new(&stdin, PollFlags::IN), PollFd::new(alarm, PollFlags::IN)];
        match poll(&mut both, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(bad) => return Err(bad.into()),
        }
        let ended = loop {
            match lines.read(&mut stdin, |line| watch.hear(line)) {
                Ok(0) => break true,
                Ok(_) => {}
                Err(bad) if bad.kind() == io::ErrorKind::Interrupted => {}
                Err(bad) if bad.kind() == io::ErrorKind::WouldBlock => break false,
                Err(bad) => return Err(bad),
            }
        };
        if ended || watch.bye {
            return Ok(());
        }
        watch.look(&mut gate);
    }
}

/// A timer that is due at a moment of the clock that goes on while the machine sleeps.
#[derive(Debug)]
struct Alarm(OwnedFd);

impl std::os::fd::AsFd for Alarm {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Alarm {
    fn new() -> io::Result<Self> {
        Ok(Self(timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC)?))
    }

    /// `None`: never.
    fn set(&self, due: Option<Duration>) -> io::Result<()> {
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        // A moment of zero would mean never, and is long past.
        let due = due.map(|due| due.max(Duration::from_nanos(1)));
        let due = due.and_then(|due| Timespec::try_from(due).ok()).unwrap_or(never);
        let when = Itimerspec { it_interval: never, it_value: due };
        timerfd_settime(&self.0, TimerfdTimerFlags::ABSTIME, &when)?;
        Ok(())
    }
}

/// Cuts what is read into lines.
#[derive(Debug, Default)]
pub(super) struct Lines(Vec<u8>);

impl Lines {
    pub(super) fn read(
        &mut self,
        from: &mut impl Read,
        mut each: impl FnMut(&str),
    ) -> io::Result<usize> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_understands_its_lines() {
        let mut watch = Watch::default();
        for line in ["group 77", "until 5000", "service local:", "will 0aff", "go 9", "what?"] {
            watch.hear(line);
        }
        assert_eq!(watch.group, Pid::from_raw(77));
        assert_eq!(watch.until, Some(Duration::from_millis(5)));
        assert_eq!(watch.url.as_deref(), Some("local:"));
        assert_eq!((watch.will.as_deref(), watch.go.as_deref()), (Some(&[10, 255][..]), Some("9")));
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
    fn a_command_begins_only_under_a_lease() {
        let said = |until: Option<Duration>| {
            let mut watch = Watch { until, go: Some("7".to_owned()), ..Watch::default() };
            let mut gate = Vec::new();
            watch.look(&mut gate);
            String::from_utf8(gate).unwrap()
        };
        assert_eq!(said(None), "", "nothing was granted");
        assert_eq!(said(Some(now())), "", "the lease is over");
        let until = now() + Duration::from_secs(1000);
        assert_eq!(said(Some(until)), format!("go {} 7\n", until.as_micros()));
    }

    #[test]
    fn lines_may_come_in_pieces() {
        let (mut lines, mut heard) = (Lines::default(), Vec::new());
        for mut piece in [&b"gro"[..], b"up 7\nunt", b"il 9\n"] {
            lines.read(&mut piece, |line| heard.push(line.to_owned())).unwrap();
        }
        assert_eq!(heard, ["group 7", "until 9"]);
    }
}
