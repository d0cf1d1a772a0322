//! The end of a program that misuses a lock: one line that says what was wrong and what to do.

/// Prints the line and aborts.
#[cold]
pub(crate) fn misuse(call: &str, wrong: &str, instead: &str) -> ! {
    lockspan_park::stop(format_args!("{call}: {wrong}; {instead}"))
}
