//! The data directory: who may use it, and which files show that it was used before.
//!
//! The data file is never replaced by an empty one. It is made under another name and moved when it
//! is whole, and after that the lock file gets a mark. So a directory with a mark, or with another
//! file that only a running server makes, and without a data file has lost it: that is an error,
//! and no new directory, since tokens would begin anew and leases would be unknown.
//!
//! What is made here is open to the server's user alone: a process that can open the lock file can
//! lock it, and the other files have secrets. Rights that earlier versions, or a `mkdir` by hand,
//! gave to others are taken back at the start.

use std::fs::{self, File, Permissions};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::error::StartError;
use crate::lock_holder::LockHolder;
use crate::private::{self, FileMode};

const DATA: &str = "lockspan.data";
const NEW: &str = "lockspan.data.new";
const LOCK: &str = "lockspan.lock";

/// What the lock file has when there is a data file.
const MARK: &[u8] = b"the data file was made\n";

/// What earlier development versions kept here; it is not read any more.
const OLD: [&str; 2] = ["lockspan.redb", "lockspan.sessions"];

/// What is made when there is a data file already.
const LATER: &str = "operator.secret";

/// How the names of all files begin that may be in a directory of nobody but the server; the last
/// is made with a filesystem.
const OURS: [&str; 3] = ["lockspan.", LATER, "lost+found"];

/// Keeps other servers away from a directory until it is dropped.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

/// The directory of this server alone, as long as it has the [`Lock`].
#[derive(Debug)]
pub(super) struct Dir {
    path: PathBuf,
    /// The owner of the directory, who could replace every file in it: so files of this user are
    /// as good as the server's own.
    owner: u32,
    has_mark: bool,
}

impl Dir {
    /// Takes the directory for this server, and makes it if it is not there.
    pub(super) fn take(path: &Path) -> Result<(Self, Lock), StartError> {
        let failed = |path: &Path, why| StartError::Data { path: path.to_owned(), why };
        make_dir(path, sync).map_err(|why| failed(path, why))?;
        let owner = narrow_dir(path).map_err(|why| failed(path, why))?;
        let lock_path = path.join(LOCK);
        let mut options = File::options();
        options.create(true).truncate(false).read(true).write(true);
        let lock = private::open(&lock_path, &mut options, Some(owner));
        let mut lock = lock.map_err(|why| failed(&lock_path, why))?;
        narrow(&lock, &lock_path);
        lock.try_lock().map_err(|why| match why {
            fs::TryLockError::WouldBlock => {
                StartError::DataInUse { holder: LockHolder::of(&lock), lock: lock_path.clone() }
            }
            fs::TryLockError::Error(why) => failed(&lock_path, why),
        })?;
        let mut mark = Vec::new();
        lock.read_to_end(&mut mark).map_err(|why| failed(&lock_path, why))?;
        let dir = Self { path: path.to_owned(), owner, has_mark: !mark.is_empty() };
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
        match self.read_data(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(why) if why.kind() == io::ErrorKind::NotFound => {
                if self.has_mark || there(&self.path.join(LATER))? {
                    let why = "it is missing, but the directory was used before".to_owned();
                    return Err(StartError::Damaged { path, why });
                }
                Ok(None)
            }
            Err(why) => Err(StartError::Data { path, why }),
        }
    }

    fn read_data(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut file = private::open(path, File::options().read(true), Some(self.owner))?;
        narrow(&file, path);
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// The path of the data file.
    pub(super) fn data(&self) -> PathBuf {
        self.path.join(DATA)
    }

    /// Makes a data file with this content and puts it in the place of the old one. `replaced` is
    /// called when it is there, but perhaps not durable yet.
    pub(super) fn replace(&mut self, content: &[u8], replaced: impl FnOnce()) -> io::Result<File> {
        let new = self.path.join(NEW);
        let file = private::create(&new)?;
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
        let opened = private::open(&lock, File::options().write(true), Some(self.owner));
        let marked = opened.and_then(|file| {
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

/// Takes a file away from other users.
fn narrow(file: &File, path: &Path) {
    match private::narrow(file) {
        Ok(None) => {}
        Ok(Some(mode)) => {
            tracing::warn!("{} had {mode}; now only its owner can open it", path.display());
        }
        Err(why) => tracing::warn!(
            "other users can open {0}, and that could not be changed: {why}; chmod 600 {0}",
            path.display()
        ),
    }
}

/// Takes the directory away from other users if it is the server's alone; otherwise the log says
/// what they can do there. Returns its owner.
fn narrow_dir(path: &Path) -> io::Result<u32> {
    let found = fs::metadata(path)?;
    let (owner, mode) = (found.uid(), FileMode::of(&found));
    if !mode.lets_others_in() {
        return Ok(owner);
    }
    let shown = path.display();
    // A directory with other things in it, such as /tmp, is used by others too.
    let is_narrowed = owner == private::own_user()
        && is_ours_alone(path).unwrap_or(false)
        // Some filesystems have no modes.
        && fs::set_permissions(path, Permissions::from_mode(0o700)).is_ok();
    if is_narrowed {
        tracing::warn!("{shown} had {mode}; now only its owner can enter it");
    } else if private::open_to_replacement(path)?.is_some() {
        tracing::warn!(
            "every user may write to {shown} ({mode}), and can replace the data: chmod 700 {shown} \
             or use a directory of the server's own"
        );
    } else {
        tracing::warn!(
            "other users can enter {shown} ({mode}), though not open the files of the server: \
             chmod 700 {shown}, unless they need something else that is in it"
        );
    }
    Ok(owner)
}

/// Whether nothing is in the directory but what a server makes.
fn is_ours_alone(dir: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        let name = name.as_encoded_bytes();
        if !OURS.iter().any(|ours| name.starts_with(ours.as_bytes())) {
            return Ok(false);
        }
    }
    Ok(true)
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

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).expect("it is there").mode() & 0o777
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("it is ours");
    }

    #[test]
    fn service_f105_what_others_could_open_is_taken_away_from_them() {
        let above = tempfile::tempdir().expect("a directory");
        let dir = above.path().join("data");
        let used = || Dir::take(&dir).expect("it is free").0;
        used().replace(b"content", || ()).expect("written");
        let (lock, data) = (dir.join(LOCK), dir.join(DATA));
        let all = [(&dir, 0o700), (&lock, 0o600), (&data, 0o600)];
        let modes = all.map(|(path, mode)| (path, mode));
        for round in ["new", "as an earlier version left them"] {
            used().read().expect("readable");
            for (path, wanted) in modes {
                assert_eq!(mode(path), wanted, "{}, {round}", path.display());
                set_mode(path, wanted | 0o044);
            }
        }
        // A directory that is used for more than this is left as it is.
        set_mode(&dir, 0o755);
        fs::write(dir.join("notes"), "").expect("written");
        used().read().expect("readable");
        assert_eq!((mode(&dir), mode(&lock), mode(&data)), (0o755, 0o600, 0o600));
    }

    #[test]
    fn service_f105_no_link_leads_out_of_the_directory() {
        let above = tempfile::tempdir().expect("a directory");
        let (dir, victim) = (above.path().join("data"), above.path().join("victim"));
        fs::write(&victim, "kept").expect("written");
        set_mode(&victim, 0o644);
        let link = |name: &str| {
            std::os::unix::fs::symlink(&victim, dir.join(name)).expect("linked");
        };
        fs::create_dir(&dir).expect("made");
        link(NEW);
        let (mut ours, _lock) = Dir::take(&dir).expect("it is free");
        ours.replace(b"content", || ()).expect("written");
        drop(_lock);
        for name in [LOCK, DATA] {
            fs::remove_file(dir.join(name)).expect("there");
            link(name);
            let why = Dir::take(&dir).and_then(|(dir, _lock)| dir.read()).expect_err("a link");
            assert!(why.to_string().contains("it is a symbolic link"), "{name}: {why}");
            fs::remove_file(dir.join(name)).expect("there");
        }
        assert_eq!(fs::read_to_string(&victim).expect("there"), "kept");
        assert_eq!(mode(&victim), 0o644);
    }

    #[test]
    fn a_directory_has_one_server() {
        let dir = tempfile::tempdir().expect("a directory");
        let _first = Dir::take(dir.path()).expect("it is free");
        let why = Dir::take(dir.path()).expect_err("it is in use");
        let StartError::DataInUse { holder: Some(holder), .. } = &why else { panic!("{why}") };
        assert_eq!(holder.pid(), std::process::id());
        assert!(why.to_string().contains("choose another directory for this server"), "{why}");
    }
}
