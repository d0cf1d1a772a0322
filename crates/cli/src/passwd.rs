//! `lockspan passwd`: the hash of a password, which the file of users has in its place.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::process::ExitCode;

use lockspan_server::users::hash_password;
use lockspan_wire::Secret;
use nix::sys::signal::{SigSet, Signal, raise};
use rustix::termios::{self, LocalModes, OptionalActions, Termios};

use crate::exit::{Failure, SYSTEM, USAGE};

/// Makes one, and prints it.
pub(crate) fn main(user: Option<&str>) -> Result<ExitCode, Failure> {
    let system = |bad: io::Error| Failure::new(SYSTEM, format!("can't read the password: {bad}"));
    let password = if io::stdin().is_terminal() {
        let _quiet = Quiet::begin().map_err(system)?;
        let first = ask("Password: ").map_err(system)?;
        if ask("Again: ").map_err(system)? != first {
            return Err(Failure::new(USAGE, "the two passwords are not the same; try again"));
        }
        first
    } else {
        read(false).map_err(system)?
    };
    let hash = hash_password(password.reveal()).map_err(|bad| Failure::new(USAGE, bad))?;
    let text = match user {
        Some(user) => section(user, &hash),
        None => format!("{hash}\n"),
    };
    if let Some(user) = user {
        // What is printed would be refused.
        lockspan_server::users::Users::parse(&text).map_err(|_| {
            Failure::new(
                USAGE,
                format!(
                    "{user:?} is not a valid user name: use letters, digits and any of - _ . @"
                ),
            )
        })?;
    }
    io::stdout()
        .write_all(text.as_bytes())
        .map_err(|bad| Failure::new(SYSTEM, format!("can't write to stdout: {bad}")))?;
    Ok(ExitCode::SUCCESS)
}

/// The section of a user. The rights are comments: to add one is to take its # away, and no key is
/// there twice then.
fn section(user: &str, hash: &str) -> String {
    format!(
        "[users.{user}]\n\
         password = \"{hash}\"\n\
         # The rights of {user}, by datatype; \"*\" means every datatype. Remove a # and edit.\n\
         #read = [\"invoice\"]     # lock for reading\n\
         #write = [\"order*\"]     # lock for writing, which includes reading\n\
         #inspect = [\"*\"]        # see holders and waiters\n\
         #admin = [\"*\"]          # end sessions, take back records\n"
    )
}

/// More than any password has.
const MOST: usize = 4096;

/// Reads stdin to its end, or a line of it: without the end of the line, and without the buffer of
/// the standard library, which would keep the password.
fn read(only_a_line: bool) -> io::Result<Secret> {
    let mut stdin = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut text = Vec::with_capacity(MOST);
    let mut byte = [0];
    while text.len() < MOST {
        match stdin.read(&mut byte) {
            Ok(0) => break,
            Ok(_) => text.push(byte[0]),
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
        if only_a_line && text.last() == Some(&b'\n') {
            break;
        }
    }
    while text.last().is_some_and(|byte| b"\r\n".contains(byte)) {
        text.pop();
    }
    Ok(Secret::new(text))
}

/// A line from the terminal, which does not show it.
fn ask(prompt: &str) -> io::Result<Secret> {
    let mut stderr = io::stderr();
    write!(stderr, "{prompt}")?;
    stderr.flush()?;
    let line = read(true)?;
    writeln!(stderr)?;
    Ok(line)
}

/// The terminal does not show what is typed. Whatever ends this, it does so again.
struct Quiet(Termios);

/// What a terminal or a person ends a program by.
const ENDS: [Signal; 4] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];

impl Quiet {
    fn begin() -> io::Result<Self> {
        let before = termios::tcgetattr(io::stdin())?;
        wait_for_the_end(before.clone())?;
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHO);
        termios::tcsetattr(io::stdin(), OptionalActions::Flush, &quiet)?;
        Ok(Self(before))
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        restore(&self.0);
        // One that has come meanwhile has its way now.
        let _ = held().thread_unblock();
    }
}

fn restore(before: &Termios) {
    // If it is gone, nobody types any more.
    let _ = termios::tcsetattr(io::stdin(), OptionalActions::Flush, before);
}

/// Signals that are held back meanwhile. Who stops us would find a terminal that shows nothing.
fn held() -> SigSet {
    ENDS.into_iter().chain([Signal::SIGTSTP]).collect()
}

/// A thread hears the signals that end us, and puts the terminal in order before they do.
fn wait_for_the_end(before: Termios) -> io::Result<()> {
    held().thread_block()?;
    let ends: SigSet = ENDS.into_iter().collect();
    std::thread::Builder::new().spawn(move || {
        if let Ok(signal) = ends.wait() {
            restore(&before);
            // The shell's prompt is to begin a line.
            let _ = writeln!(io::stderr());
            let _ = ends.thread_unblock();
            let _ = raise(signal);
        }
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use lockspan_server::users::Users;

    use super::*;

    #[test]
    fn a_section_can_be_edited_and_added_to_without_keys_that_are_there_twice() {
        let hash = hash_password(b"a").expect("hashed");
        let text = section("billing", &hash);
        assert!(Users::parse(&text).is_ok(), "{text}");
        assert!(Users::parse(&text.replace('#', "")).is_err(), "a comment stays one");
        let edited = text.replace("#read", "read").replace("#write", "write");
        let edited = edited.replace("#inspect", "inspect").replace("#admin", "admin");
        assert!(Users::parse(&edited).is_ok(), "{edited}");
        let longer = format!("{text}read = [\"*\"]\nwrite = []\ninspect = []\nadmin = []\n");
        assert!(Users::parse(&longer).is_ok(), "{longer}");
    }
}
