//! Whether something of a process group is left.

use std::fs;
use std::io::ErrorKind;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process_group};

/// Whether no process of this group runs any more. Those that have ended and that nobody has asked
/// about do not run; a parent that never asks must not keep a lock. If it can't be known, it is
/// taken for not so.
pub(super) fn is_gone(group: Pid) -> bool {
    match test_kill_process_group(group) {
        Err(Errno::SRCH) => true,
        // Somebody is there; it may have ended.
        _ => all_ended(group).unwrap_or(false),
    }
}

/// `None`: processes of others can't be seen here, or there is no `/proc`.
fn all_ended(group: Pid) -> Option<bool> {
    // Where processes of others are hidden, the first one is.
    fs::read("/proc/1/stat").ok()?;
    let numbers = fs::read_dir("/proc").ok()?.filter_map(Result::ok);
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    for number in numbers {
        match fs::read(format!("/proc/{number}/stat")) {
            Ok(stat) => {
                let (state, of) = state_and_group(&stat)?;
                if of == group.as_raw_pid() && !matches!(state, b'Z' | b'X') {
                    return Some(false);
                }
            }
            // It has ended meanwhile.
            Err(bad) if bad.kind() == ErrorKind::NotFound => {}
            Err(bad) if bad.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => {}
            Err(_) => return None,
        }
    }
    Some(true)
}

/// From a line `PID (NAME) STATE PARENT GROUP ...`; the name may have anything in it.
fn state_and_group(stat: &[u8]) -> Option<(u8, i32)> {
    let after = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(&stat[after + 1..]).ok()?;
    let mut words = rest.split_whitespace();
    let state = *words.next()?.as_bytes().first()?;
    Some((state, words.nth(1)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_line_about_a_process_is_read_whatever_its_name_is() {
        assert_eq!(state_and_group(b"7 (a) Z 1 2) S 1 42 9 0"), Some((b'S', 42)));
        assert_eq!(state_and_group(b"7 (sh) Z 1 42 9"), Some((b'Z', 42)));
        assert_eq!(state_and_group(b"7 (sh"), None);
    }

    #[test]
    fn who_has_ended_and_is_not_asked_about_counts_as_gone() {
        let mut child = Command::new("sleep").arg("1000").process_group(0).spawn().unwrap();
        let group = Pid::from_child(&child);
        assert!(!is_gone(group));
        child.kill().unwrap();
        let end = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while !is_gone(group) {
            assert!(std::time::Instant::now() < end, "it has ended, though nobody has asked");
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(is_gone(group));
    }
}
