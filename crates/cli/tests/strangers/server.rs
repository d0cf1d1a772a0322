//! The service on a free port, with data that outlives it.

use std::path::Path;

use rustix::process::Signal;

use crate::common::{Process, lockspan};

/// A running server; it ends with the test.
#[derive(Debug)]
pub(crate) struct Server {
    process: Process,
    port: u16,
}

impl Server {
    /// Starts the binary with its data in `dir`.
    pub(crate) fn start(dir: &Path) -> Self {
        let mut command = lockspan();
        command.args(["serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data-dir"]);
        command.arg(dir);
        let mut process = Process::start_with_log(&mut command);
        let line = process.line_with("; data in ");
        let port = line
            .split("listening on 127.0.0.1:")
            .nth(1)
            .and_then(|rest| rest.split(';').next())
            .and_then(|port| port.parse().ok());
        let port = port.unwrap_or_else(|| panic!("no port in {line:?}"));
        Self { process, port }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Ends it without a warning, as a crash does.
    pub(crate) fn crash(mut self) {
        self.process.signal(Signal::KILL);
        self.process.end();
    }
}
