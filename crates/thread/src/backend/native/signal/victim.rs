//! What a thief asks and does about the thread that owns the lock.

use super::super::barrier;
use super::{SIGNAL, handler};

/// What became of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// The thread leaves the section that it is in before its next instruction, or has ended.
    Arrives,
    /// It may not come before the thread lets it: only the flag tells when the section is over.
    MayBeHeld,
}

/// Sends the signal, and makes sure that a running thread hears of it.
pub(crate) fn interrupt(thread: u32) -> Sent {
    if !handler::is_ours() {
        return Sent::MayBeHeld;
    }
    match handler::send(thread) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Sent::Arrives,
        Err(error) => handler::stop("a signal that worked before now fails", &error),
    }
    barrier();
    if is_blocked(thread) { Sent::MayBeHeld } else { Sent::Arrives }
}

/// A file of a thread of this process. None if there is no such thread any more.
fn read(thread: u32, name: &str) -> Result<Option<String>, std::io::Error> {
    let path = format!("/proc/self/task/{thread}/{name}");
    // Reading a file is a cancellation point.
    match lockspan_park::uncancelled(|| std::fs::read_to_string(path)) {
        Ok(text) => Ok(Some(text)),
        // No such file is no proof: there may be no `/proc`, or another world's.
        Err(_) if handler::has_ended(thread) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the thread blocks the signal, or may.
fn is_blocked(thread: u32) -> bool {
    match read(thread, "status") {
        Ok(Some(status)) => blocks(&status).unwrap_or(true),
        Ok(None) => false,
        Err(_) => true,
    }
}

/// Whether a `status` has the signal among the blocked ones, if that can be read.
fn blocks(status: &str) -> Option<bool> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:"))?;
    let mask = u64::from_str_radix(mask.trim(), 16).ok()?;
    Some(mask & 1 << (SIGNAL - 1) != 0)
}

/// Whether the thread runs on another processor, or may.
pub(crate) fn is_running(thread: u32) -> bool {
    // SAFETY: a query without side effects.
    let here = unsafe { libc::sched_getcpu() };
    match read(thread, "stat") {
        Ok(Some(stat)) => runs_elsewhere(&stat, here).unwrap_or(true),
        Ok(None) => false,
        Err(_) => true,
    }
}

/// Whether a `stat` tells of a thread that can run and was last on another processor than `here`,
/// if that can be read.
fn runs_elsewhere(stat: &str, here: libc::c_int) -> Option<bool> {
    // The name before may have any letters. The state is the third field, the processor the 39th.
    let mut fields = stat.rsplit_once(") ")?.1.split_ascii_whitespace();
    let state = fields.next()?;
    let cpu: libc::c_int = fields.nth(35)?.parse().ok()?;
    Some(state == "R" && cpu != here)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_status_says_of_the_signal() {
        assert_eq!(blocks("Name:\tx\nSigBlk:\t0000000000000000\n"), Some(false));
        assert_eq!(blocks("Name:\tx\nSigBlk:\t0000000000008000\n"), Some(true));
        assert_eq!(blocks("Name:\tx\n"), None);
        assert_eq!(blocks("SigBlk:\tnothing\n"), None);
    }

    #[test]
    fn what_a_stat_says_of_a_thread() {
        let stat = |state: &str, cpu: &str| {
            let middle = vec!["0"; 35].join(" ");
            format!("17 (a) R 5 (b) {state} {middle} {cpu} 0 0")
        };
        assert_eq!(runs_elsewhere(&stat("R", "1"), 0), Some(true));
        assert_eq!(runs_elsewhere(&stat("R", "0"), 0), Some(false));
        assert_eq!(runs_elsewhere(&stat("S", "1"), 0), Some(false));
        assert_eq!(runs_elsewhere("17 (a) R", 0), None);
    }

    #[test]
    fn of_no_thread_and_of_this_one() {
        assert!(!is_running(u32::MAX / 2) && !is_blocked(u32::MAX / 2));
        // SAFETY: a query without side effects.
        let me = unsafe { libc::gettid() };
        assert!(!is_blocked(me.cast_unsigned()));
    }
}
