//! Descriptors that a process has inherited and should not keep.
//!
//! A program that runs on after its parent keeps what it has inherited open: a pipe whose reader
//! waits for its end, or a file that is locked with `flock`. It marks all of that and runs itself
//! anew, which closes it. Marking, unlike closing, takes nothing from code that uses a descriptor.

use std::fs;
use std::io;

/// Marks all descriptors from `first` on as close-on-exec; true if one was not yet. Linux only:
/// elsewhere, or without `/proc`, it fails.
pub fn close_on_exec_from(first: i32) -> io::Result<bool> {
    let mut changed = false;
    for entry in fs::read_dir("/proc/self/fd")? {
        let name = entry?.file_name();
        let Some(number) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        if number < first {
            continue;
        }
        // SAFETY: it reads flags of a descriptor by number, and fails if there is none.
        let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
        if flags < 0 || flags & libc::FD_CLOEXEC != 0 {
            continue;
        }
        // SAFETY: it sets flags of a descriptor by number, which its owner can't tell before exec.
        if unsafe { libc::fcntl(number, libc::F_SETFD, flags | libc::FD_CLOEXEC) } < 0 {
            return Err(io::Error::last_os_error());
        }
        changed = true;
    }
    Ok(changed)
}
