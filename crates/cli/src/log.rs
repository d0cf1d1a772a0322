//! The log of the service: lines on stderr, for people or for machines.

use std::io::IsTerminal;

use crate::options::table::{LogFormat, Settings};

/// From now on, what is logged goes to stderr.
pub(crate) fn start(settings: &Settings) {
    let lines = tracing_subscriber::fmt()
        .with_max_level(settings.log_level)
        .with_writer(std::io::stderr)
        .with_target(false);
    match settings.log {
        LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => lines.json().flatten_event(true).with_current_span(false).init(),
    }
}
