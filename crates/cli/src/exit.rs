//! Exit codes: those of sysexits.h, apart from a command's own.

use std::fmt::Display;
use std::io::{Write as _, stderr};
use std::process::ExitCode;

/// The arguments are wrong.
pub(crate) const USAGE: u8 = 64;
/// The service can't be reached, or refuses.
pub(crate) const UNAVAILABLE: u8 = 69;
/// Something that can't be, such as an answer that makes no sense.
pub(crate) const INTERNAL: u8 = 70;
/// The operating system refused, for example to start a process.
pub(crate) const SYSTEM: u8 = 71;
/// The lock was not granted in time.
pub(crate) const NOT_GRANTED: u8 = 75;
/// The lock was lost while the command ran.
pub(crate) const LOST: u8 = 76;
/// The service did not let this user in, or the user may not do that.
pub(crate) const NO_PERMISSION: u8 = 77;
/// The configuration of the server is wrong.
pub(crate) const CONFIG: u8 = 78;
/// A run that this one is nested in holds the lock.
pub(crate) const NESTED: u8 = 79;
/// The command is there and can't be run.
pub(crate) const NOT_RUNNABLE: u8 = 126;
/// There is no such command.
pub(crate) const NOT_FOUND: u8 = 127;

/// The code of a process that a signal ended.
pub(crate) fn of_signal(number: i32) -> u8 {
    128u8.saturating_add(u8::try_from(number).unwrap_or(127))
}

/// Says something to whoever started us. If nobody listens any more, it is not said: that must not
/// end us in the middle of something.
pub(crate) fn say(text: impl Display) {
    let _ = writeln!(stderr(), "lockspan: {text}");
}

/// A failure that ends the program: what to say, and the code.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn new(code: u8, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    /// Says it, and gives the code.
    pub(crate) fn report(self) -> ExitCode {
        say(self.text);
        ExitCode::from(self.code)
    }
}
