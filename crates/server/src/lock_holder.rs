//! Which process has locked a file, for messages: from `/proc/locks`.

use std::fmt;
use std::fs::{self, File, Metadata};
use std::os::unix::fs::MetadataExt as _;

use rustix::fs::{major, minor};

use crate::private;

/// A process that has locked a file with `flock`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockHolder {
    /// Its number.
    pub pid: u32,
    /// The user that it acts as; none if it has ended. Then a process that inherited the open file
    /// from it still has the lock, and can't be looked at.
    pub uid: Option<u32>,
}

impl LockHolder {
    /// The process that has this file locked, if the system tells: not if it is in another
    /// container.
    pub(crate) fn of(file: &File) -> Option<Self> {
        let found = file.metadata().ok()?;
        let locks = fs::read_to_string("/proc/locks").ok()?;
        let pid = holder_in(&locks, found.dev(), found.ino())?;
        let holder = Self { pid, uid: user_of(pid) };
        if holder.uid.is_some() {
            return Some(holder);
        }
        // It has ended, and a process that it started has its open file. Only root sees which
        // files processes of other users have open.
        let heirs = processes().filter(|pid| *pid != std::process::id() && has_open(*pid, &found));
        let heir = heirs.map(|pid| Self { pid, uid: user_of(pid) }).find(|heir| heir.uid.is_some());
        Some(heir.unwrap_or(holder))
    }

    /// Whether the process may be a server of this process's user.
    pub(crate) fn is_known(self) -> bool {
        self.uid.is_some_and(private::is_trusted)
    }

    /// Whether the process can't be a server of this process's user.
    pub(crate) fn is_foreign(self) -> bool {
        self.uid.is_some_and(|uid| !private::is_trusted(uid))
    }
}

impl fmt::Display for LockHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.uid {
            Some(uid) => write!(f, "process {} of user {uid}", self.pid),
            None => write!(f, "a process that process {} has started, which has ended", self.pid),
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

fn user_of(pid: u32) -> Option<u32> {
    effective_user_in(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
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
        let uid = Some(private::own_user());
        assert_eq!(holder, Some(LockHolder { pid: std::process::id(), uid }));
        assert!(!holder.expect("found").is_foreign());
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
        let foreign = LockHolder { pid: 7, uid: Some(private::own_user() + 1) };
        assert!(foreign.is_foreign() && foreign.to_string().starts_with("process 7 of user "));
        let ended = LockHolder { pid: 7, uid: None };
        assert!(!ended.is_foreign() && ended.to_string().contains("which has ended"));
    }
}
