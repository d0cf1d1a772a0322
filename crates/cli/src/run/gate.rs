//! The gate: a process that becomes the command when the guardian says so, and not before.
//!
//! It is this binary, started as `lockspan __gate COMMAND ...` while the lock is asked for, as a
//! child of ours and the first of the command's process group. **Invariant**: the command begins
//! only if its lease stands at that moment by a clock that was read after the last wait: the
//! guardian reads it before it says `go`, and the gate once more before it becomes the command. So
//! a supervisor that is stopped between the grant and the start does no harm: it is not the one
//! who lets the command begin.
//!
//! The gate's stdin is one end of a pair of sockets. We and the guardian have the other end.
//!
//! | to the gate       | by        | meaning                                                      |
//! |-------------------|-----------|--------------------------------------------------------------|
//! | `input`, a file   | us        | the stdin that the command is to have                        |
//! | `go UNTIL TOKENS` | guardian  | begin, if `CLOCK_BOOTTIME` is below UNTIL (microseconds)     |
//!
//! | from the gate     | meaning                                                                  |
//! |-------------------|--------------------------------------------------------------------------|
//! | `begin`           | it is about to become the command                                        |
//! | `late`            | it does not: the lease was over                                          |
//! | `failed ERRNO`    | it could not                                                             |

use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, waitpid};

use super::guardian::{Lines, now, ourselves};
use super::nested::escaped;
use super::records::Records;

/// The first argument of a gate.
pub(crate) const GATE: &str = "__gate";

/// The variable with the fencing token, if it is one.
const TOKEN: &str = "LOCKSPAN_TOKEN";

/// The variable with all tokens and their records. For the gate it has the names alone, each in a
/// line: it is started before the tokens are known.
pub(crate) const TOKENS: &str = "LOCKSPAN_TOKENS";

/// The names of records for the gate.
pub(crate) fn names(records: &Records) -> String {
    let names: Vec<_> = records.iter().map(|(record, _)| escaped(record.as_bytes())).collect();
    names.join("\n")
}

/// The lines `TOKEN RECORD` for the command.
fn token_lines(names: &str, tokens: &[i64]) -> String {
    let lines = names.lines().zip(tokens).map(|(name, token)| format!("{token} {name}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// How far a gate has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It waits.
    Waits,
    /// It is the command.
    Begun,
    /// It found that the lease was over, and did not begin.
    Late,
    /// It could not become the command.
    Failed(i32),
}

/// Our end of a gate.
#[derive(Debug)]
pub(crate) struct Gate {
    group: Pid,
    control: UnixStream,
    lines: Lines,
    stage: Stage,
}

impl Gate {
    /// Starts one. `prepare` completes the environment of the command.
    pub(crate) fn start(
        command: &[OsString],
        prepare: impl FnOnce(&mut Command),
    ) -> io::Result<Self> {
        let (control, theirs) = UnixStream::pair()?;
        let mut gate = ourselves();
        gate.arg(GATE).args(command).process_group(0).stdin(OwnedFd::from(theirs));
        prepare(&mut gate);
        let group = Pid::from_child(&gate.spawn()?);
        let gate = Self { group, control, lines: Lines::default(), stage: Stage::Waits };
        if let Err(bad) = gate.give_input() {
            gate.dismiss();
            return Err(bad);
        }
        Ok(gate)
    }

    fn give_input(&self) -> io::Result<()> {
        let input = [rustix::stdio::stdin()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut rights = SendAncillaryBuffer::new(&mut space);
        rights.push(SendAncillaryMessage::ScmRights(&input));
        sendmsg(&self.control, &[IoSlice::new(b"input\n")], &mut rights, SendFlags::NOSIGNAL)?;
        // From now on we only look whether it has said something.
        self.control.set_nonblocking(true)
    }

    /// The process group that the command will have, or has.
    pub(crate) fn group(&self) -> Pid {
        self.group
    }

    /// A copy of our end, for the guardian.
    pub(crate) fn control(&self) -> io::Result<OwnedFd> {
        Ok(self.control.try_clone()?.into())
    }

    /// How far it has come.
    pub(crate) fn stage(&mut self) -> Stage {
        let stage = &mut self.stage;
        // Nothing to read, or the end: it has said what it had to say.
        while let Ok(1..) = self.lines.read(&mut self.control, |line| match line.split_once(' ') {
            Some(("failed", number)) => *stage = Stage::Failed(number.parse().unwrap_or(0)),
            None if line == "begin" => *stage = Stage::Begun,
            None if line == "late" => *stage = Stage::Late,
            _ => {}
        }) {}
        *stage
    }

    /// The command is not wanted any more: nothing of it is left after this.
    pub(crate) fn dismiss(&self) {
        let _ = kill_process_group(self.group, Signal::KILL);
        while let Err(Errno::INTR) = waitpid(Some(self.group), WaitOptions::empty()) {}
    }
}

/// The gate's whole life, up to the command's.
pub(crate) fn main() -> ExitCode {
    let _ = rustix::thread::set_name(c"lockspan-gate");
    match pass() {
        // Whoever might hear it is gone, or has it on the socket.
        Ok(()) | Err(_) => ExitCode::FAILURE,
    }
}

fn pass() -> io::Result<()> {
    // The command does not inherit this copy, and stdin is replaced.
    let control = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let mut lines = Lines::default();
    let (mut input, mut go) = (None, None);
    while go.is_none() {
        let mut from = Receiver { control: &control, input: &mut input };
        let len = lines.read(&mut from, |line| go = go.take().or_else(|| Go::read(line)))?;
        if len == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let (Some(go), Some(input)) = (go, input) else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    rustix::stdio::dup2_stdin(input)?;
    let mut control = UnixStream::from(control);
    let mut words = std::env::args_os().skip(2);
    let mut command = Command::new(words.next().unwrap_or_default());
    let names = std::env::var(TOKENS).unwrap_or_default();
    command.args(words).env(TOKENS, token_lines(&names, &go.tokens)).env_remove(TOKEN);
    if let [token] = go.tokens[..] {
        command.env(TOKEN, token.to_string());
    }
    // The last look. Whoever stops us after it gets us killed by the guardian, at the lease's end.
    if now() >= go.until {
        return control.write_all(b"late\n");
    }
    control.write_all(b"begin\n")?;
    let bad = command.exec();
    let number = bad.raw_os_error().unwrap_or(0);
    control.write_all(format!("failed {number}\n").as_bytes())
}

#[derive(Debug, PartialEq, Eq)]
struct Go {
    until: Duration,
    /// In the order of the records.
    tokens: Vec<i64>,
}

impl Go {
    fn read(line: &str) -> Option<Self> {
        let (until, tokens) = line.strip_prefix("go ")?.split_once(' ')?;
        let tokens = tokens.split(' ').map(|token| token.parse().ok()).collect::<Option<_>>()?;
        Some(Self { until: Duration::from_micros(until.parse().ok()?), tokens })
    }
}

/// Reads the socket, and takes a file that comes with the bytes.
struct Receiver<'a> {
    control: &'a OwnedFd,
    input: &'a mut Option<OwnedFd>,
}

impl Read for Receiver<'_> {
    fn read(&mut self, some: &mut [u8]) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut rights = RecvAncillaryBuffer::new(&mut space);
        let mut places = [IoSliceMut::new(some)];
        let received = loop {
            match recvmsg(self.control.as_fd(), &mut places, &mut rights, RecvFlags::CMSG_CLOEXEC) {
                Err(Errno::INTR) => {}
                other => break other?,
            }
        };
        for message in rights.drain() {
            if let RecvAncillaryMessage::ScmRights(mut files) = message {
                *self.input = files.next().or_else(|| self.input.take());
            }
        }
        Ok(received.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_gets_a_line_for_each_record() {
        assert_eq!(token_lines("a:1\nb:%202", &[7, -8]), "7 a:1\n-8 b:%202");
    }

    #[test]
    fn only_a_whole_word_lets_a_command_begin() {
        let until = Duration::from_micros(5);
        assert_eq!(Go::read("go 5 7"), Some(Go { until, tokens: vec![7] }));
        assert_eq!(Go::read("go 5 7 8"), Some(Go { until, tokens: vec![7, 8] }));
        for line in ["go", "go 5", "go x 7", "go 5 x", "go 5 7 x", "input", "bye"] {
            assert_eq!(Go::read(line), None, "{line}");
        }
    }
}
