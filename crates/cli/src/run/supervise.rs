//! From the word that lets the command begin to its end: signals, stops, the lease.

use std::time::{Duration, Instant};

use lockspan_protocol::margin;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, kill_current_process_group, kill_process_group, waitpid,
};
use tokio::time::sleep;

use super::gate::{Gate, Stage};
use super::guardian::Guardian;
use super::lock::Held;
use super::signals::{Came, Signals};
use super::terminal::{Terminal, is_orphan};
use crate::exit;

/// What is watched.
#[derive(Debug)]
pub(crate) struct Watch<'a> {
    /// The command, which leads a group of the same number; before that the gate.
    pub(crate) group: Pid,
    pub(crate) gate: &'a mut Gate,
    /// When the guardian was told to let it begin.
    pub(crate) since: Instant,
    pub(crate) held: &'a Held,
    pub(crate) lease: Duration,
    pub(crate) guardian: &'a mut Guardian,
    pub(crate) signals: &'a mut Signals,
    pub(crate) terminal: Option<Terminal>,
    pub(crate) asked_to_end: bool,
}

/// How it came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The command ended, with this code.
    Ended(u8),
    /// The lock was lost, or all but.
    Lost,
    /// The lease was over before the command began, and it did not.
    Late,
    /// The command could not be run: the error of the system.
    Failed(i32),
    /// There is no guardian that could let the command begin.
    Unguarded,
}

/// How long a guardian may take to let the command begin; it takes a moment unless it is stopped.
const BEGIN: Duration = Duration::from_secs(10);

impl Watch<'_> {
    /// Until the command has ended.
    pub(crate) async fn run(mut self) -> Outcome {
        if self.terminal.as_ref().is_some_and(Terminal::for_command) {
            self.give_terminal();
        }
        let mut lost = false;
        loop {
            // First of all, also after we were stopped: is the lock still ours?
            lost = lost || !self.held.is_valid();
            let next_look = self.look_at_lease(lost);
            if let Some(code) = self.look_at_command() {
                break self.end(code);
            }
            if self.is_unguarded() {
                self.tell(Signal::KILL);
                break Outcome::Unguarded;
            }
            tokio::select! {
                came = self.signals.next() => match came {
                    Came::Child => {}
                    Came::Continued => self.go_on(),
                    Came::PassOn(signal) => self.tell(signal),
                },
                () = self.held.lost(), if !lost => lost = true,
                () = sleep(next_look) => {}
            }
        }
    }

    /// Whether nobody will ever let the command begin.
    fn is_unguarded(&mut self) -> bool {
        let is_waiting = self.gate.stage() == Stage::Waits;
        is_waiting && (self.guardian.is_gone() || self.since.elapsed() > BEGIN.max(self.lease))
    }

    /// Acts on what is left of the lease, and says when to look again.
    ///
    /// `Held::left` ends a margin before the lease does on the server: SIGKILL is due then, and
    /// SIGTERM a margin earlier.
    fn look_at_lease(&mut self, lost: bool) -> Duration {
        let (until, left) = self.held.until();
        let margin = margin(self.lease);
        if lost || left.is_zero() {
            // First the deed, then the word: that may have to wait for somebody to read it.
            self.tell(Signal::KILL);
            let was_asked = std::mem::replace(&mut self.asked_to_end, true);
            if !was_asked && self.gate.stage() != Stage::Waits {
                exit::say(match self.held.was_ended_by_operator() {
                    true => "an operator ended this session; killing the command",
                    false => "the lock is lost; killing the command",
                });
            }
            return self.lease;
        }
        self.guardian.renewed(until);
        if left > margin {
            return (left - margin).min(self.lease / 4);
        }
        if !std::mem::replace(&mut self.asked_to_end, true) {
            self.tell(Signal::TERM);
            exit::say("the lease can't be renewed; terminating the command");
        }
        left
    }

    /// The command's exit code, if it has ended.
    fn look_at_command(&mut self) -> Option<u8> {
        loop {
            let options = WaitOptions::NOHANG | WaitOptions::UNTRACED;
            let status: WaitStatus = match waitpid(Some(self.group), options) {
                Ok(Some((_, status))) => status,
                Ok(None) => return None,
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => return Some(exit::INTERNAL),
            };
            if let Some(code) = status.exit_status() {
                return Some(u8::try_from(code).unwrap_or(u8::MAX));
            }
            if let Some(signal) = status.terminating_signal() {
                return Some(exit::of_signal(signal));
            }
            if let Some(signal) = status.stopping_signal() {
                self.stopped(signal);
            }
        }
    }

    fn end(&mut self, code: u8) -> Outcome {
        if let Some(terminal) = &self.terminal
            && terminal.has_front(self.group)
        {
            terminal.take_back();
        }
        match self.gate.stage() {
            Stage::Begun => {}
            Stage::Failed(number) => return Outcome::Failed(number),
            Stage::Late => return Outcome::Late,
            // A signal that was passed on has ended it, or the guardian: its lease was over.
            Stage::Waits if self.held.is_valid() => {}
            Stage::Waits => return Outcome::Late,
        }
        // The guardian may have acted for us while we were stopped.
        if !self.asked_to_end && self.held.is_valid() {
            return Outcome::Ended(code);
        }
        // Whoever of the group did not heed SIGTERM must not go on without the lock.
        self.tell(Signal::KILL);
        Outcome::Lost
    }

    /// The command was stopped: by the terminal's keys, or because it wants the terminal.
    fn stopped(&self, signal: i32) {
        let Some(terminal) = &self.terminal else {
            return;
        };
        let wants_it = signal == Signal::TTIN.as_raw() || signal == Signal::TTOU.as_raw();
        let had_it = terminal.has_front(self.group);
        // It may have asked just before it was given the terminal at its start.
        if wants_it && (had_it || terminal.is_ours()) {
            self.go_on();
            return;
        }
        if is_orphan() {
            // Nobody could continue us. A key of the terminal stops nothing then.
            if had_it {
                self.tell(Signal::CONT);
            }
            return;
        }
        if had_it {
            terminal.take_back();
        }
        // The shell takes notice when its whole job is stopped.
        let _ = kill_current_process_group(Signal::STOP);
    }

    /// The command goes on, with the terminal if we have it.
    fn go_on(&self) {
        self.give_terminal();
        self.tell(Signal::CONT);
    }

    fn give_terminal(&self) {
        if let Some(terminal) = &self.terminal
            && terminal.is_ours()
        {
            terminal.give(self.group);
        }
    }

    fn tell(&self, signal: Signal) {
        // A group that has ended hears nothing.
        let _ = kill_process_group(self.group, signal);
    }
}
