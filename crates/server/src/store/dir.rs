//! The data directory: who may use it, and which files show that it was used before.
//!
//! The data file is never replaced by an empty one. It is made under another name and moved when it
//! is whole, and after that the lock file gets a mark. So a directory with a mark, or with another
//! file that only a running server makes, and without a data file has lost it: that is an error,
//! and no new directory, since tokens would begin anew and leases would be unknown.
//!
//! What is made here is open to the server's user alone: who can open the lock file can lock it.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::{
    DirBuilderExt as _, FileExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

use crate::error::StartError;

const DATA: &str = "lockspan.data";
const NEW: &str = "lockspan.data.new";
const LOCK: &str = "lockspan.lock";

/// What the lock file has when there is a data file.
const MARK: &[u8] = b"the data file was made\n";

/// What earlier development versions kept here; it is not read any more.
const OLD: [&str; 2] = ["lockspan.redb", "lockspan.sessions"];

/// What is made when there is a data file already.
const LATER: &str = "operator.secret";

/// Keeps other servers away from a directory until it is dropped.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

/// The directory of this server alone, as long as it has the [`Lock`].
#[derive(Debug)]
pub(super) struct Dir {
    path: PathBuf,
    has_mark: bool,
}

impl Dir {
    /// Takes the directory for this server, and makes it if it is not there.
    pub(super) fn take(path: &Path) -> Result<(Self, Lock), StartError> {
        let failed = |path: &Path, why| StartError::Data { path: path.to_owned(), why };
        make_dir(path, sync).map_err(|why| failed(path, why))?;
        let lock_path = path.join(LOCK);
        let mut options = File::options();
        let options = options.create(true).truncate(false).read(true).write(true).mode(0o600);
        let mut lock = options.open(&lock_path).map_err(|why| failed(&lock_path, why))?;
        for path in [&lock_path, &path.join(DATA)] {
            keep_private(path);
        }
        lock.try_lock().map_err(|why| match why {
            fs::TryLockError::WouldBlock => StartError::DataInUse(path.to_owned()),
            fs::TryLockError::Error(why) => failed(&lock_path, why),
        })?;
        let mut mark = Vec::new();
        lock.read_to_end(&mut mark).map_err(|why| failed(&lock_path, why))?;
        let dir = Self { path: path.to_owned(), has_mark: !mark.is_empty() };
        Ok((dir, Lock { _file: lock }))
    }

    /// What the data file has; none if the directory was never used.
    pub(super) fn read(&self) -> Result<Option<Vec<u8>>, StartError> {
        for name in OLD {
            let old = self.path.join(name);
            if there(&old)? {
                return Err(StartError::OldData(old));
            }
        }
        let path = self.data();
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(why) if why.kind() == io::ErrorKind::NotFound => {
                if self.has_mark || there(&self.path.join(LATER))? {
                    let why = "it is gone, and the directory was used before".to_owned();
                    return Err(StartError::Damaged { path, why });
                }
                Ok(None)
            }
            Err(why) => Err(StartError::Data { path, why }),
        }
    }

    /// The path of the data file.
    pub(super) fn data(&self) -> PathBuf {
        self.path.join(DATA)
    }

    /// Makes a data file with this content and puts it in the place of the old one. `replaced` is
    /// called when it is there, but perhaps not durable yet.
    pub(super) fn replace(&mut self, content: &[u8], replaced: impl FnOnce()) -> io::Result<File> {
        let new = self.path.join(NEW);
        let file =
            File::options().create(true).truncate(true).write(true).mode(0o600).open(&new)?;
        let written = file.write_all_at(content, 0).and_then(|()| file.sync_all());
        if let Err(why) = written {
            // A full disk has more room without it.
            let _ = fs::remove_file(&new);
            return Err(why);
        }
        fs::rename(&new, self.data())?;
        replaced();
        sync(&self.path)?;
        self.mark()?;
        Ok(file)
    }

    /// Notes that there is a data file.
    fn mark(&mut self) -> io::Result<()> {
        if self.has_mark {
            return Ok(());
        }
        // A start that died may have made the directory, and not come to this.
        match sync(&parent(&self.path)) {
            // Then somebody else has made it.
            Err(why) if why.kind() == io::ErrorKind::PermissionDenied => {}
            result => result?,
        }
        let lock = self.path.join(LOCK);
        let marked = File::options().write(true).open(&lock).and_then(|file| {
            file.write_all_at(MARK, 0)?;
            file.sync_all()
        });
        match marked {
            Ok(()) => self.has_mark = true,
            // Nothing depends on it as long as nobody deletes the data file.
            Err(why) => tracing::warn!("can't write {}: {why}", lock.display()),
        }
        Ok(())
    }
}

/// Takes a file away from other users: who can open the lock file can lock it, and so keep the
/// server from starting. Files of earlier versions were open to all.
fn keep_private(path: &Path) {
    let Ok(found) = fs::metadata(path) else { return };
    let mode = found.permissions().mode();
    if mode & 0o077 != 0
        && let Err(why) = fs::set_permissions(path, fs::Permissions::from_mode(0o600))
    {
        tracing::warn!("other users can open {}: {why}", path.display());
    }
}

fn there(path: &Path) -> Result<bool, StartError> {
    path.try_exists().map_err(|why| StartError::Data { path: path.to_owned(), why })
}

/// Whether there is no room for now: others may make some.
pub(super) fn is_full(why: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(why.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// Makes the directory, and those above it that are not there. A crash must not take them back with
/// all that is in them, so each directory in which one was made is synced.
fn make_dir(dir: &Path, mut sync: impl FnMut(&Path) -> io::Result<()>) -> io::Result<()> {
    let mut new = Vec::new();
    let mut above = dir.to_owned();
    while !above.try_exists()? {
        let next = parent(&above);
        new.push(next.clone());
        above = next;
    }
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    new.iter().rev().try_for_each(|above| sync(above))
}

/// The directory that this one is in.
fn parent(dir: &Path) -> PathBuf {
    match dir.parent() {
        Some(above) if above.as_os_str().is_empty() => PathBuf::from("."),
        Some(above) => above.to_owned(),
        None => dir.to_owned(),
    }
}

/// What was made in the directory is durable.
pub(super) fn sync(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_directory_that_is_made_is_durable_in_the_one_above() {
        let dir = tempfile::tempdir().expect("a directory");
        let (one, two) = (dir.path().join("one"), dir.path().join("one/two"));
        let made = |dir: &Path| {
            let mut synced = Vec::new();
            let sync = |above: &Path| {
                synced.push(above.to_owned());
                Ok(())
            };
            make_dir(dir, sync).expect("it is made");
            assert!(dir.is_dir());
            synced
        };
        assert_eq!(made(&two.join("three")), [dir.path().to_owned(), one, two.clone()]);
        assert_eq!(made(&two.join("three")), [] as [PathBuf; 0], "nothing is new");
        assert_eq!(made(&two.join("four")), [two]);
        assert_eq!(parent(Path::new("data")), Path::new("."));
        assert_eq!(parent(Path::new("/")), Path::new("/"));
        let why = make_dir(&dir.path().join("five"), |_| Err(io::ErrorKind::Other.into()));
        why.expect_err("a directory that may not survive is no place for data");
    }

    #[test]
    fn other_users_can_not_open_what_is_made_here() {
        let above = tempfile::tempdir().expect("a directory");
        let dir = above.path().join("data");
        let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode();
        drop(Dir::take(&dir).expect("it is free"));
        assert_eq!(mode(&dir) & 0o777, 0o700);
        let lock = dir.join(LOCK);
        assert_eq!(mode(&lock) & 0o777, 0o600);
        fs::set_permissions(&lock, fs::Permissions::from_mode(0o644)).expect("it is ours");
        drop(Dir::take(&dir).expect("it is free"));
        assert_eq!(mode(&lock) & 0o777, 0o600, "one of an earlier version");
    }

    #[test]
    fn a_directory_has_one_server() {
        let dir = tempfile::tempdir().expect("a directory");
        let _first = Dir::take(dir.path()).expect("it is free");
        let why = Dir::take(dir.path()).expect_err("it is in use");
        assert!(matches!(why, StartError::DataInUse(_)), "{why}");
    }
}
