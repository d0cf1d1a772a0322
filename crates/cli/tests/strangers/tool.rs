//! Scripts for the interpreters of others.

use std::ffi::OsString;
use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::common::PATIENCE;

const INSTALL: &str =
    "run `cargo xtask test tools`, which installs it, and then `cargo xtask test tests`";

/// What a variable names, which `cargo xtask test tests` sets.
pub(crate) fn named_by(variable: &str, what: &str) -> OsString {
    std::env::var_os(variable)
        .unwrap_or_else(|| panic!("{variable} must name {what}, and is not set: {INSTALL}"))
}

/// Fails with advice unless the interpreter can load the library.
pub(crate) fn require(probe: &mut Command, what: &str) {
    match probe.stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            panic!("{what} does not work: {INSTALL}\n{said}")
        }
        Err(why) => panic!("{what} can't be started ({why}): {INSTALL}"),
    }
}

/// Runs a script that is given on stdin, and expects it to print `OK`.
pub(crate) fn passes(command: &mut Command, script: &str) {
    passes_within(PATIENCE, command, script);
}

/// The same, for a script that has to let leases and time-outs of others pass.
pub(crate) fn passes_within(patience: Duration, command: &mut Command, script: &str) {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the interpreter starts");
    let pid = Pid::from_child(&child);
    let mut stdin = child.stdin.take().expect("its stdin is a pipe");
    let written = stdin.write_all(script.as_bytes());
    drop(stdin);
    let (send, ended) = channel();
    let waiter = thread::spawn(move || {
        let _ = send.send(child.wait_with_output());
    });
    let late = match ended.recv_timeout(patience) {
        Ok(output) => {
            written.expect("it reads the script");
            return judge(&output.expect("it ends"));
        }
        Err(why) => why,
    };
    // Nobody has waited for its end yet, so the number is still its own.
    if late == RecvTimeoutError::Timeout {
        let _ = kill_process(pid, Signal::KILL);
    }
    let said = ended.recv().ok().and_then(Result::ok);
    let _ = waiter.join();
    panic!("the script did not end within {patience:?}: {said:?}");
}

fn judge(output: &Output) {
    let (printed, said) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let passed = output.status.success() && printed.trim_end().ends_with("OK");
    assert!(passed, "{}\n{printed}\n{said}", output.status);
}
