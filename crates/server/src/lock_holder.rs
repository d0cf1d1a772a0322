//! Which process has locked a file, for messages: from `/proc/locks`.

use std::fmt;
use std::fs::{self, File, Metadata};
use std::os::unix::fs::MetadataExt as _;

use rustix::fs::{major, minor};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::private;

/// A process that has locked a file with `flock`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockHolder {
    pid: u32,
    user: User,
}

/// The user that a process acts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum User {
    Known(u32),
    /// Not our own; the system does not tell which (`hidepid`).
    Other,
    /// The process has ended. Another one has inherited the open file from it, and can't be looked
    /// at.
    Ended,
}

impl LockHolder {
    /// The process that has this file locked, if the system tells: not if it is in another
    /// container.
    pub(crate) fn of(file: &File) -> Option<Self> {
        let found = file.metadata().ok()?;
        let locks = fs::read_to_string("/proc/locks").ok()?;
        let pid = holder_in(&locks, found.dev(), found.ino())?;
        let holder = Self { pid, user: User::of(pid) };
        if holder.user != User::Ended {
            return Some(holder);
        }
        // Only root sees which files the processes of other users have open.
        let own = std::process::id();
        let heir = processes().find(|pid| *pid != own && has_open(*pid, &found));
        Some(heir.map_or(holder, |pid| Self { pid, user: User::of(pid) }))
    }

    /// Its number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The user that it acts as, if that is known.
    #[must_use]
    pub fn uid(&self) -> Option<u32> {
        match self.user {
            User::Known(uid) => Some(uid),
            User::Other | User::Ended => None,
        }
    }

    /// Whether it may be a server of this process's user.
    pub(crate) fn may_be_server(self) -> bool {
        self.uid().is_some_and(private::is_trusted)
    }

    /// Whether it can't be a server of this process's user.
    pub(crate) fn is_foreign(self) -> bool {
        self.user != User::Ended && !self.may_be_server()
    }
}

impl User {
    fn of(pid: u32) -> Self {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        if let Some(uid) = effective_user_in(&status) {
            return Self::Known(uid);
        }
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        match pid.map(test_kill_process) {
            Some(Err(Errno::PERM)) => Self::Other,
            _ => Self::Ended,
        }
    }
}

impl fmt::Display for LockHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pid = self.pid;
        match self.user {
            User::Known(uid) => write!(f, "process {pid} of user {uid}"),
            User::Other => write!(f, "process {pid} of another user"),
            User::Ended => write!(f, "a process that was started by process {pid} (now ended)"),
        }
    }
}

fn processes() -> impl Iterator<Item = u32> {
    let all = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn has_open(pid: u32, file: &Metadata) -> bool {
    let all = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().filter_map(Result::ok);
    let mut open = all.filter_map(|entry| fs::metadata(entry.path()).ok());
    open.any(|open| (open.dev(), open.ino()) == (file.dev(), file.ino()))
}

/// `1: FLOCK  ADVISORY  WRITE 4242 fe:00:131 0 EOF`: the number of the process, then the file's
/// device and number. Some filesystems give another device there than in the file's metadata, so
/// the number of the file alone counts if no line has both.
fn holder_in(locks: &str, device: u64, inode: u64) -> Option<u32> {
    let device = format!("{:02x}:{:02x}", major(device), minor(device));
    let entries = locks.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, _, pid, file, ..] = words[..] else { return None };
        let (at, number) = file.rsplit_once(':')?;
        (number.parse() == Ok(inode)).then_some((at == device, pid.parse().ok()?))
    });
    entries.max_by_key(|(is_same_device, _)| *is_same_device).map(|(_, pid)| pid)
}

/// `Uid:` in `/proc/PID/status` has the real, the effective and two more users.
fn effective_user_in(status: &str) -> Option<u32> {
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    users.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_that_has_locked_a_file_is_found() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("lock");
        let file = File::create(&path).expect("made");
        assert_eq!(LockHolder::of(&file), None);
        file.try_lock().expect("free");
        let holder = LockHolder::of(&File::open(&path).expect("there"));
        let holder = holder.expect("it is us");
        assert_eq!((holder.pid(), holder.uid()), (std::process::id(), Some(private::own_user())));
        assert!(holder.may_be_server() && !holder.is_foreign());
    }

    #[test]
    fn lines_are_read_as_the_kernel_writes_them() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 fe:00:131 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 12 00:2a:131 0 EOF\n\
                     3: FLOCK  ADVISORY  READ  13 fe:00:131 0 EOF\n\
                     3: -> FLOCK  ADVISORY  WRITE 14 fe:00:131 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 15 fe:00:132 0 EOF\n";
        let device = rustix::fs::makedev(0xfe, 0);
        assert_eq!(holder_in(locks, device, 131), Some(13));
        assert_eq!(holder_in(locks, device, 132), Some(15));
        assert_eq!(holder_in(locks, device, 133), None);
        assert_eq!(holder_in(locks, rustix::fs::makedev(8, 1), 132), Some(15), "as on btrfs");
        let status = "Name:\tx\nUid:\t1000\t1001\t1002\t1003\nGid:\t7\t7\t7\t7\n";
        assert_eq!(effective_user_in(status), Some(1001));
    }

    #[test]
    fn a_process_of_another_user_is_no_server_of_ours() {
        let is = |user| LockHolder { pid: 7, user };
        for (holder, is_ours, is_foreign, text) in [
            (is(User::Known(private::own_user())), true, false, "process 7 of user "),
            (is(User::Known(private::own_user() + 1)), false, true, "process 7 of user "),
            (is(User::Other), false, true, "process 7 of another user"),
            (is(User::Ended), false, false, "started by process 7 (now ended)"),
        ] {
            assert_eq!((holder.may_be_server(), holder.is_foreign()), (is_ours, is_foreign));
            assert!(holder.to_string().contains(text), "{holder}");
        }
        assert_eq!(User::of(0x7fff_fffe), User::Ended, "there is no such process");
    }
}
