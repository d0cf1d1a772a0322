//! `redis-cli` with a pipe in the place of the person.
//!
//! Without a terminal it shows no prompt and reads one command a line; `--no-raw` makes it show
//! replies as on a terminal. It looks at its socket only while it waits for a reply, so a push
//! that comes later is shown with the next command.

use std::io::Write;
use std::process::{ChildStdin, Command, Stdio};

use crate::common::Process;

/// A connection.
#[derive(Debug)]
pub(crate) struct RedisCli {
    process: Process,
    stdin: ChildStdin,
    asked: usize,
    pushes: Vec<Vec<String>>,
}

impl RedisCli {
    pub(crate) fn connect(port: u16) -> Self {
        let mut command = Command::new("redis-cli");
        command.args(["-3", "--no-raw", "--show-pushes", "yes", "-p", &port.to_string()]);
        // Nobody's settings, and nobody's history.
        command.env("REDISCLI_RCFILE", "/dev/null").env("REDISCLI_HISTFILE", "/dev/null");
        command.env_remove("REDISCLI_AUTH");
        let mut process = Process::start(command.stdin(Stdio::piped()));
        let stdin = process.stdin();
        Self { process, stdin, asked: 0, pushes: Vec::new() }
    }

    /// A command, and what is shown as its reply.
    pub(crate) fn ask(&mut self, command: &str) -> Vec<String> {
        self.asked += 1;
        // Its answer shows that the one before it is whole.
        let mark = format!("answered-{}", self.asked);
        let sent = writeln!(self.stdin, "{command}\nECHO {mark}");
        sent.and_then(|()| self.stdin.flush()).expect("redis-cli reads");
        let end = format!("\"{mark}\"");
        let mut lines = Vec::new();
        loop {
            let line = self.process.line();
            if line == end {
                return self.set_pushes_aside(lines);
            }
            lines.push(line);
        }
    }

    /// Every push that was shown and not taken yet, in order.
    pub(crate) fn take_pushes(&mut self) -> Vec<Vec<String>> {
        std::mem::take(&mut self.pushes)
    }

    /// Pushes are shown as lists, before or after the reply; what is left is the reply.
    fn set_pushes_aside(&mut self, lines: Vec<String>) -> Vec<String> {
        let mut reply = Vec::new();
        let mut push: Vec<String> = Vec::new();
        for line in lines {
            let begins = ["1) \"lockspan\"", "1) \"message\""].contains(&line.as_str());
            let goes_on = !push.is_empty() && line.starts_with(&format!("{}) ", push.len() + 1));
            if (begins || !goes_on) && !push.is_empty() {
                self.pushes.push(std::mem::take(&mut push));
            }
            if begins || goes_on {
                push.push(line);
            } else {
                reply.push(line);
            }
        }
        if !push.is_empty() {
            self.pushes.push(push);
        }
        reply
    }
}
