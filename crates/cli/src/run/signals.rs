//! The signals that we pass on, and those that tell of the command.

use std::fs::File;
use std::io::{self, Read};

use rustix::process::Signal;
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

/// Passed on to the command's group.
const PASSED_ON: [Signal; 8] = [
    Signal::INT,
    Signal::TERM,
    Signal::HUP,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
    Signal::WINCH,
    Signal::TSTP,
];

/// What came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// A child stopped or ended.
    Child,
    /// We were stopped, and go on.
    Continued,
    /// To be passed on.
    PassOn(Signal),
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Signals {
    child: Stream,
    continued: Stream,
    passed_on: Vec<(Signal, Stream)>,
}

impl Signals {
    /// Listens from now on, but not to signals that are ignored (nohup, background jobs of a
    /// script): the command inherits that, and would not if we listened.
    pub(crate) fn new() -> io::Result<Self> {
        let ignored = ignored();
        let listened = PASSED_ON.iter().filter(|signal| ignored & bit(**signal) == 0);
        let stream = |signal: Signal| self::signal(SignalKind::from_raw(signal.as_raw()));
        Ok(Self {
            child: stream(Signal::CHILD)?,
            continued: stream(Signal::CONT)?,
            passed_on: listened
                .map(|signal| Ok((*signal, stream(*signal)?)))
                .collect::<io::Result<_>>()?,
        })
    }

    /// The next one.
    pub(crate) async fn next(&mut self) -> Came {
        std::future::poll_fn(|context| {
            if self.continued.poll_recv(context).is_ready() {
                return Came::Continued.into();
            }
            for (signal, stream) in &mut self.passed_on {
                if stream.poll_recv(context).is_ready() {
                    return Came::PassOn(*signal).into();
                }
            }
            self.child.poll_recv(context).map(|_| Came::Child)
        })
        .await
    }

    /// The next one that asks us to end.
    pub(crate) async fn next_end(&mut self) -> Signal {
        loop {
            match self.next().await {
                Came::PassOn(signal) if ENDS.contains(&signal) => return signal,
                _ => {}
            }
        }
    }
}

const ENDS: [Signal; 4] = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT];

fn bit(signal: Signal) -> u64 {
    1 << (signal.as_raw() - 1)
}

/// The signals that we ignore, a bit each; none where the system does not tell.
fn ignored() -> u64 {
    // One read: the system writes the whole text anew for each.
    let mut text = [0; 8192];
    let read = File::open("/proc/self/status").and_then(|mut status| status.read(&mut text));
    let text = &text[..read.unwrap_or(0)];
    let lines = text.split(|byte| *byte == b'\n');
    let mut masks = lines.filter_map(|line| line.strip_prefix(b"SigIgn:"));
    let mask = masks.next().and_then(|mask| std::str::from_utf8(mask).ok());
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
