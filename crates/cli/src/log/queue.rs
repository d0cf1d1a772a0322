//! Lines on their way to the log, and the thread that writes them.
//!
//! Whoever logs puts a line here and goes on: a log that nobody reads (a pipe that is full, a
//! journal that hangs, a full disk) holds up this thread alone.
//!
//! | line | when its room is used up |
//! |---|---|
//! | ordinary | it is dropped; how many were is logged as soon as there is room |
//! | about what an operator did | it is kept; the [`AuditGate`] closes, so that there are no more |
//!
//! A log that is closed, so that nobody will ever read it, takes no lines and holds up nobody.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use lockspan_server::AuditGate;

/// Bytes of ordinary lines that may wait.
const ROOM: usize = 1 << 20;

/// Bytes of lines that are kept; with more of them the gate closes until half are written.
const AUDIT_ROOM: usize = 1 << 20;

/// Bytes that are written at once, or a longer line.
const CHUNK: usize = 16 << 10;

/// The pause before a write that failed for now is tried again.
const AGAIN: Duration = Duration::from_millis(100);

/// How often it is logged that lines were dropped.
const REPORT: Duration = Duration::from_secs(1);

/// What becomes of a line when there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Ordinary,
    Kept,
}

/// The lines that are not written yet.
#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    /// There is something to write.
    more: Condvar,
    /// Everything is written.
    done: Condvar,
    gate: AuditGate,
}

#[derive(Debug, Default)]
struct State {
    lines: VecDeque<(Vec<u8>, Kind)>,
    /// The bytes of each kind, with those that are being written.
    ordinary: usize,
    kept: usize,
    /// Lines that were dropped, and not reported yet.
    dropped: u64,
}

impl State {
    fn is_done(&self) -> bool {
        self.lines.is_empty() && self.ordinary + self.kept == 0 && self.dropped == 0
    }
}

impl Queue {
    /// Closed while kept lines have used up their room.
    pub(super) fn gate(&self) -> AuditGate {
        self.gate.clone()
    }

    /// Takes a line, or drops it. Never waits for the log.
    pub(super) fn push(&self, line: Vec<u8>, kind: Kind) {
        let mut state = self.lock();
        match kind {
            Kind::Ordinary if state.ordinary + line.len() > ROOM => {
                state.dropped += 1;
                return;
            }
            Kind::Ordinary => state.ordinary += line.len(),
            Kind::Kept => state.kept += line.len(),
        }
        if state.kept > AUDIT_ROOM {
            self.gate.close();
        }
        state.lines.push_back((line, kind));
        drop(state);
        self.more.notify_one();
    }

    /// Until everything is written, but not for longer than that.
    pub(super) fn flush(&self, patience: Duration) {
        let end = Instant::now() + patience;
        let mut state = self.lock();
        while !state.is_done() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.done.wait_timeout(state, left);
            state = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
    }

    /// Starts the thread that writes. `report` logs how many lines were dropped.
    pub(super) fn start(
        self: &Arc<Self>,
        write: impl FnMut(&[u8]) -> io::Result<usize> + Send + 'static,
        report: impl FnMut(u64) + Send + 'static,
    ) -> io::Result<()> {
        let queue = Arc::clone(self);
        let thread = thread::Builder::new().name("lockspan-log".to_owned());
        thread.spawn(move || queue.run(write, report)).map(drop)
    }

    fn run(&self, mut write: impl FnMut(&[u8]) -> io::Result<usize>, mut report: impl FnMut(u64)) {
        let mut chunk = Vec::with_capacity(CHUNK);
        let mut reported: Option<Instant> = None;
        loop {
            let taken = self.take(&mut chunk);
            write_all(&chunk, &mut write);
            if let Some(dropped) = self.written(taken, reported) {
                reported = Some(Instant::now());
                report(dropped);
            }
            if self.lock().is_done() {
                self.done.notify_all();
            }
        }
    }

    /// Waits for lines, and takes some: how many bytes of each kind.
    fn take(&self, chunk: &mut Vec<u8>) -> (usize, usize) {
        chunk.clear();
        let mut state = self.lock();
        while state.lines.is_empty() {
            let waited = self.more.wait(state);
            state = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        let (mut ordinary, mut kept) = (0, 0);
        while chunk.len() < CHUNK
            && let Some((line, kind)) = state.lines.pop_front()
        {
            match kind {
                Kind::Ordinary => ordinary += line.len(),
                Kind::Kept => kept += line.len(),
            }
            chunk.extend_from_slice(&line);
        }
        (ordinary, kept)
    }

    /// These are written; how many lines were dropped, if it is time to say so.
    fn written(&self, (ordinary, kept): (usize, usize), reported: Option<Instant>) -> Option<u64> {
        let mut state = self.lock();
        state.ordinary -= ordinary;
        state.kept -= kept;
        if state.kept <= AUDIT_ROOM / 2 {
            self.gate.open();
        }
        let is_due = state.lines.is_empty() || reported.is_none_or(|at| at.elapsed() >= REPORT);
        let dropped = if is_due { std::mem::take(&mut state.dropped) } else { 0 };
        (dropped > 0).then_some(dropped)
    }

    /// A thread that panicked here has left whole lines behind, which are to be written too.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Writes all of it, however long that takes, unless the log is closed.
fn write_all(mut bytes: &[u8], write: &mut impl FnMut(&[u8]) -> io::Result<usize>) {
    use io::ErrorKind::{Interrupted, QuotaExceeded, StorageFull, WouldBlock};
    while !bytes.is_empty() {
        match write(bytes) {
            Ok(written) => bytes = &bytes[written.min(bytes.len())..],
            Err(why) => match why.kind() {
                Interrupted => {}
                // Others have made the descriptor non-blocking, or the disk is full.
                WouldBlock | StorageFull | QuotaExceeded => thread::sleep(AGAIN),
                _ => return,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// A log whose reader takes a chunk for each word that it is sent.
    fn with_slow_reader() -> (Arc<Queue>, Sender<()>, Receiver<String>) {
        let queue = Arc::new(Queue::default());
        let (go, goes) = channel::<()>();
        let (say, said) = channel();
        let write = move |bytes: &[u8]| {
            goes.recv().map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
            let _ = say.send(String::from_utf8_lossy(bytes).into_owned());
            Ok(bytes.len())
        };
        let reports = Arc::clone(&queue);
        let report = move |dropped: u64| {
            reports.push(format!("{dropped} dropped\n").into(), Kind::Kept);
        };
        queue.start(write, report).expect("a thread");
        (queue, go, said)
    }

    #[test]
    fn service_f83_lines_that_find_no_room_are_dropped_and_counted() {
        let (queue, go, said) = with_slow_reader();
        let line = |number: usize| format!("{number:099}\n").into_bytes();
        let room = ROOM / 100;
        for number in 0..room + 500 {
            queue.push(line(number), Kind::Ordinary);
        }
        queue.push(b"audit\n".to_vec(), Kind::Kept);
        for _ in 0..=ROOM / CHUNK + 2 {
            go.send(()).expect("it is read");
        }
        queue.flush(Duration::from_secs(20));
        let text: String = said.try_iter().collect();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), room + 2, "all that there was room for, and two more");
        assert!(
            lines.iter().take(room).enumerate().all(|(at, line)| line.ends_with(&at.to_string()))
        );
        assert!(lines.contains(&"audit"), "it came last, and was kept");
        assert!(lines.contains(&"500 dropped"), "{:?}", lines.last());
    }

    #[test]
    fn service_f84_kept_lines_close_the_gate_and_are_all_written() {
        let (queue, go, said) = with_slow_reader();
        let gate = queue.gate();
        let line = vec![b'x'; 1024];
        for _ in 0..AUDIT_ROOM / 1024 {
            queue.push(line.clone(), Kind::Kept);
        }
        assert!(!gate.is_closed());
        for _ in 0..16 {
            queue.push(line.clone(), Kind::Kept);
        }
        assert!(gate.is_closed(), "no more may be caused");
        for _ in 0..=AUDIT_ROOM / CHUNK + 2 {
            go.send(()).expect("it is read");
        }
        queue.flush(Duration::from_secs(20));
        let written: usize = said.try_iter().map(|chunk| chunk.len()).sum();
        assert_eq!((written, gate.is_closed()), (AUDIT_ROOM + 16 * 1024, false));
    }

    #[test]
    fn a_log_that_is_closed_holds_up_nobody() {
        let (queue, go, _said) = with_slow_reader();
        drop(go);
        for _ in 0..2 * AUDIT_ROOM / 1024 {
            queue.push(vec![b'x'; 1024], Kind::Kept);
        }
        queue.flush(Duration::from_secs(20));
        assert!(!queue.gate().is_closed());
    }

    #[test]
    fn a_flush_of_a_log_that_nobody_reads_ends() {
        let (queue, _go, _said) = with_slow_reader();
        queue.push(b"line\n".to_vec(), Kind::Ordinary);
        queue.flush(Duration::from_millis(20));
    }

    #[test]
    fn a_write_that_fails_for_now_is_tried_again() {
        let mut answers = vec![
            Ok(2),
            Err(io::ErrorKind::WouldBlock.into()),
            Err(io::ErrorKind::Interrupted.into()),
            Err(io::ErrorKind::StorageFull.into()),
            Ok(4),
        ];
        answers.reverse();
        let mut written = Vec::new();
        write_all(b"abcdef", &mut |bytes| {
            let answer: io::Result<usize> = answers.pop().expect("not more often");
            if let Ok(count) = &answer {
                written.extend_from_slice(&bytes[..*count]);
            }
            answer
        });
        assert_eq!((written, answers.len()), (b"abcdef".to_vec(), 0));
    }
}
