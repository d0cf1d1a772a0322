//! The terminal, if there is one: which process group is in its foreground.

use std::fs::{File, OpenOptions};
use std::io::{IsTerminal, stdin, stdout};
use std::os::unix::fs::OpenOptionsExt;

use nix::sys::signal::{SigSet, Signal};
use rustix::fs::{FileType, OFlags, fstat};
use rustix::process::{Pid, getpgrp, getppid, getsid};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

/// The terminal that controls us.
#[derive(Debug)]
pub(crate) struct Terminal {
    tty: File,
    own: Pid,
}

impl Terminal {
    /// The terminal, if one controls us.
    pub(crate) fn open() -> Option<Self> {
        let flags = OFlags::NOCTTY.bits().cast_signed();
        let tty = OpenOptions::new().read(true).write(true).custom_flags(flags).open("/dev/tty");
        Some(Self { tty: tty.ok()?, own: getpgrp() })
    }

    /// Whether `group` is in the foreground.
    pub(crate) fn has_front(&self, group: Pid) -> bool {
        tcgetpgrp(&self.tty) == Ok(group)
    }

    /// Whether we are.
    pub(crate) fn is_ours(&self) -> bool {
        self.has_front(self.own)
    }

    /// Whether a command should have the foreground from its start: we have it, the command's input
    /// is the terminal, and there is no neighbour in a pipeline, such as a pager, that needs it.
    pub(crate) fn for_command(&self) -> bool {
        let piped = fstat(stdout())
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo);
        stdin().is_terminal() && !piped && self.is_ours()
    }

    /// Puts `group` in the foreground.
    pub(crate) fn give(&self, group: Pid) {
        // Who is not in the foreground is stopped by SIGTTOU for this, unless it blocks it.
        let mut blocked = SigSet::empty();
        blocked.add(Signal::SIGTTOU);
        let before = blocked.thread_swap_mask(nix::sys::signal::SigmaskHow::SIG_BLOCK);
        // A group that has ended meanwhile can't have it; then it stays where it is.
        let _ = tcsetpgrp(&self.tty, group);
        if let Ok(before) = before {
            let _ = before.thread_set_mask();
        }
    }

    /// Puts us in the foreground.
    pub(crate) fn take_back(&self) {
        self.give(self.own);
    }
}

/// Whether nobody would continue us after a stop: our group is not a job of a shell, but the
/// session's first, or our parent is outside of the session.
pub(crate) fn is_orphan() -> bool {
    let session = getsid(None);
    let parents = getppid().map(|parent| getsid(Some(parent)));
    session == Ok(getpgrp()) || parents != Some(session)
}
