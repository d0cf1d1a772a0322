//! Where the user's own service has its socket and its data.
//!
//! The socket is in a directory that only the user may enter: whoever can connect can lock, and
//! whoever can put a socket there can pose as the service.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::{env, fmt, io};

/// Why there is no place that is safe to use.
#[derive(Debug)]
pub(crate) enum NoPlace {
    /// The directory is there, and somebody else's.
    Foreign { dir: PathBuf, owner: u32 },
    /// Others may enter the directory.
    Open { dir: PathBuf, mode: u32 },
    /// Something that is no directory has its name.
    NotADirectory { dir: PathBuf },
    /// It can't be made or looked at.
    Io { dir: PathBuf, error: io::Error },
    /// Neither variable says where the user's files are.
    NoHome,
}

impl fmt::Display for NoPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign { dir, owner } => write!(
                f,
                "{} belongs to user {owner}, not to you; set XDG_RUNTIME_DIR to a directory of \
                 your own",
                dir.display()
            ),
            Self::Open { dir, mode } => write!(
                f,
                "others may enter {} (mode {mode:03o}); make it yours alone: chmod 700 {}",
                dir.display(),
                dir.display()
            ),
            Self::NotADirectory { dir } => {
                write!(f, "{} is not a directory; remove it", dir.display())
            }
            Self::Io { dir, error } => write!(f, "can't use {}: {error}", dir.display()),
            Self::NoHome => f.write_str(
                "neither XDG_STATE_HOME nor HOME is set; name a directory with --data-dir",
            ),
        }
    }
}

impl std::error::Error for NoPlace {}

/// The socket of the user's own service. Its directory is there afterwards, and the user's alone.
pub(crate) fn socket() -> Result<PathBuf, NoPlace> {
    let uid = rustix::process::geteuid().as_raw();
    let dir = match set(env::var_os("XDG_RUNTIME_DIR")) {
        Some(runtime) => runtime.join("lockspan"),
        None => PathBuf::from(format!("/tmp/lockspan-{uid}")),
    };
    private(&dir, uid)?;
    Ok(dir.join("lock.sock"))
}

/// Makes `dir` if it is not there, and checks that only `uid` may enter it.
fn private(dir: &Path, uid: u32) -> Result<(), NoPlace> {
    let io = |error| NoPlace::Io { dir: dir.to_owned(), error };
    match DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(io(error)),
        _ => {}
    }
    let meta = dir.symlink_metadata().map_err(io)?;
    let mode = meta.mode() & 0o777;
    if !meta.is_dir() {
        Err(NoPlace::NotADirectory { dir: dir.to_owned() })
    } else if meta.uid() != uid {
        Err(NoPlace::Foreign { dir: dir.to_owned(), owner: meta.uid() })
    } else if mode & 0o077 != 0 {
        Err(NoPlace::Open { dir: dir.to_owned(), mode })
    } else {
        Ok(())
    }
}

/// Where data lies that should outlive a restart: `$XDG_STATE_HOME/lockspan`, else
/// `~/.local/state/lockspan`.
pub(crate) fn state_dir() -> Result<PathBuf, NoPlace> {
    let state = set(env::var_os("XDG_STATE_HOME"));
    let home = || set(env::var_os("HOME")).map(|home| home.join(".local/state"));
    Ok(state.or_else(home).ok_or(NoPlace::NoHome)?.join("lockspan"))
}

/// A variable that names a directory; the rules of XDG ignore one that is not absolute.
fn set(value: Option<OsString>) -> Option<PathBuf> {
    value.map(PathBuf::from).filter(|path| path.is_absolute())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn uid() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    #[test]
    fn the_directory_is_made_for_the_user_alone() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("lockspan");
        private(&dir, uid()).unwrap();
        assert_eq!(dir.metadata().unwrap().mode() & 0o777, 0o700);
        private(&dir, uid()).unwrap();
    }

    #[test]
    fn a_directory_that_others_may_enter_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("lockspan");
        fs::create_dir(&dir).unwrap();
        fs::set_permissions(&dir, Permissions::from_mode(0o750)).unwrap();
        let why = private(&dir, uid()).unwrap_err();
        assert!(matches!(why, NoPlace::Open { mode: 0o750, .. }), "{why}");
        assert!(why.to_string().contains("chmod 700"), "{why}");
    }

    #[test]
    fn a_directory_of_somebody_else_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let why = private(home.path(), uid() + 1).unwrap_err();
        assert!(matches!(why, NoPlace::Foreign { .. }), "{why}");
    }

    #[test]
    fn a_link_is_not_followed() {
        let home = tempfile::tempdir().unwrap();
        let (real, link) = (home.path().join("real"), home.path().join("link"));
        private(&real, uid()).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let why = private(&link, uid()).unwrap_err();
        assert!(matches!(why, NoPlace::NotADirectory { .. }), "{why}");
    }
}
