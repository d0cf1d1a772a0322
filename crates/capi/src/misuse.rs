//! The end of a program that misuses a lock: one line that says what was wrong and what to do.

use std::io::Write as _;

/// Prints the line and aborts. The line goes out in one write, without the heap.
#[cold]
pub(crate) fn misuse(call: &str, wrong: &str, instead: &str) -> ! {
    let mut line = [0; 160];
    let mut rest = &mut line[..];
    // A line that is too long is cut, which is better than none.
    let _ = writeln!(rest, "lockspan: {call}: {wrong}; {instead}");
    let left = rest.len();
    let line = &line[..line.len() - left];
    // SAFETY: the bytes are this frame's, and live during the call.
    unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
    std::process::abort()
}
