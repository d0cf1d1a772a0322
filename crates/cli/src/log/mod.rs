//! The log of the service: lines on stderr, for people or for machines.
//!
//! They are written by a thread of their own, so that a log which nobody reads holds up nobody:
//! `queue.rs` says what becomes of lines then.

mod queue;

use std::backtrace::Backtrace;
use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::time::Duration;

use lockspan_server::{AUDIT, AuditGate};
use tracing::Metadata;
use tracing_subscriber::fmt::MakeWriter;

use crate::exit::{Failure, SYSTEM};
use crate::options::table::{LogFormat, Settings};
use queue::{Kind, Queue};

/// How long the end of the process waits for the log to take what is left.
const LAST_LINES: Duration = Duration::from_secs(1);

/// The target of the line that says how many lines were dropped: it is not dropped too.
const DROPPED: &str = "log";

/// The log of this process. What is left is written when it is dropped, if the log takes it within
/// a moment.
#[derive(Clone, Debug)]
pub(crate) struct Log(Arc<Queue>);

/// From now on, what is logged goes to stderr.
pub(crate) fn start(settings: &Settings) -> Result<Log, Failure> {
    let log = Log(Arc::default());
    // Without the lock of the standard library: nobody else is to wait for this write.
    let write = |bytes: &[u8]| Ok(rustix::io::write(rustix::stdio::stderr(), bytes)?);
    let report = |dropped| {
        tracing::error!(
            target: DROPPED,
            "{dropped} lines dropped: the log was not read fast enough"
        );
    };
    log.0
        .start(write, report)
        .map_err(|why| Failure::new(SYSTEM, format!("can't start a thread for the log: {why}")))?;
    let lines = tracing_subscriber::fmt()
        .with_max_level(settings.log_level)
        .with_writer(log.clone())
        .with_target(false);
    match settings.log {
        LogFormat::Text => lines.with_ansi(io::stderr().is_terminal()).init(),
        LogFormat::Json => lines.json().flatten_event(true).with_current_span(false).init(),
    }
    Ok(log)
}

impl Log {
    /// Closed while lines about what operators did can't be kept any more.
    pub(crate) fn audit_gate(&self) -> AuditGate {
        self.0.gate()
    }

    /// Says something to whoever started us, and waits a moment for that.
    pub(crate) fn say_last(&self, text: &str) {
        self.0.push(format!("lockspan: {text}\n").into_bytes(), Kind::Kept);
        self.0.flush(LAST_LINES);
    }

    /// A defect that shows itself ends the process: started again, it recovers from its data. One
    /// that went on with a part of itself gone would answer nobody, and nobody would start it
    /// again. Nor would anybody if it hung because the log does not take its last words.
    pub(crate) fn die_of_panics(&self) {
        let log = self.clone();
        std::panic::set_hook(Box::new(move |panic| {
            let thread = std::thread::current();
            let name = thread.name().unwrap_or("without a name");
            let trace = Backtrace::capture();
            let text = format!("\nthread '{name}' {panic}\n{trace}\n");
            log.0.push(text.into_bytes(), Kind::Kept);
            log.0.flush(LAST_LINES);
            std::process::abort();
        }));
    }
}

/// Waits a moment for the log to take what is left, at the end of the service.
#[derive(Debug)]
pub(crate) struct LastLines(pub(crate) Log);

impl Drop for LastLines {
    fn drop(&mut self) {
        self.0.0.flush(LAST_LINES);
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line { queue: &self.0, kind: Kind::Ordinary }
    }

    fn make_writer_for(&'a self, about: &Metadata<'_>) -> Line<'a> {
        let is_kept = matches!(about.target(), AUDIT | DROPPED);
        Line { queue: &self.0, kind: if is_kept { Kind::Kept } else { Kind::Ordinary } }
    }
}

/// Takes one line: the subscriber writes a line with one call.
#[derive(Debug)]
pub(crate) struct Line<'a> {
    queue: &'a Queue,
    kind: Kind,
}

impl io::Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.queue.push(line.to_vec(), self.kind);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
