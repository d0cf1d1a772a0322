//! Stdout, where a command's results go.

use std::io::{self, Write};
use std::process::ExitCode;

use serde_json::Value as Json;

use crate::exit::{Failure, SYSTEM};

/// Prints it. A reader that has seen enough, such as `head`, is no failure.
pub(crate) fn print(text: &[u8]) -> Result<ExitCode, Failure> {
    match io::stdout().write_all(text) {
        Err(bad) if bad.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(SYSTEM, format!("can't write to stdout: {bad}")))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Prints JSON, one value a line.
pub(crate) fn lines(values: impl Iterator<Item = Json>) -> Result<ExitCode, Failure> {
    print(values.map(|value| format!("{value}\n")).collect::<String>().as_bytes())
}
