//! `lockspan passwd`: the hash of a password, which the file of users has in its place.

use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::process::ExitCode;

use lockspan_server::users::hash_password;
use rustix::termios::{self, LocalModes, OptionalActions, Termios};

use crate::exit::{Failure, SYSTEM, USAGE};

/// Makes one, and prints it.
pub(crate) fn main(user: Option<&str>) -> Result<ExitCode, Failure> {
    let system = |bad: io::Error| Failure::new(SYSTEM, format!("can't read a password: {bad}"));
    let password = if io::stdin().is_terminal() {
        let first = ask("Password: ").map_err(system)?;
        if ask("Again: ").map_err(system)? != first {
            return Err(Failure::new(USAGE, "the two are not the same"));
        }
        first
    } else {
        let mut all = Vec::new();
        io::stdin().read_to_end(&mut all).map_err(system)?;
        without_end(all)
    };
    let hash = hash_password(&password).map_err(|bad| Failure::new(USAGE, bad))?;
    let text = match user {
        Some(user) => {
            format!("[users.{user}]\npassword = \"{hash}\"\nread = []\nwrite = []\ninspect = []\n")
        }
        None => format!("{hash}\n"),
    };
    if let Some(user) = user {
        // What is printed would be refused.
        lockspan_server::users::Users::parse(&text)
            .map_err(|_| Failure::new(USAGE, format!("{user:?} is no name of a user")))?;
    }
    io::stdout()
        .write_all(text.as_bytes())
        .map_err(|bad| Failure::new(SYSTEM, format!("can't write to stdout: {bad}")))?;
    Ok(ExitCode::SUCCESS)
}

/// Without the end of its line.
fn without_end(mut line: Vec<u8>) -> Vec<u8> {
    while line.last().is_some_and(|byte| b"\r\n".contains(byte)) {
        line.pop();
    }
    line
}

/// A line from the terminal, which does not show it.
fn ask(prompt: &str) -> io::Result<Vec<u8>> {
    let mut stderr = io::stderr();
    write!(stderr, "{prompt}")?;
    stderr.flush()?;
    let _quiet = Quiet::begin()?;
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    writeln!(stderr)?;
    Ok(without_end(line.into_bytes()))
}

/// The terminal does not show what is typed.
struct Quiet(Termios);

impl Quiet {
    fn begin() -> io::Result<Self> {
        let before = termios::tcgetattr(io::stdin())?;
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHO);
        termios::tcsetattr(io::stdin(), OptionalActions::Flush, &quiet)?;
        Ok(Self(before))
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        // If it is gone, nobody types any more.
        let _ = termios::tcsetattr(io::stdin(), OptionalActions::Flush, &self.0);
    }
}
