//! The key of public ids, `lockspan.key`: 32 random bytes, for the server's user alone.
//!
//! Without the file nothing is lost: a new key gives sessions other public ids. So a file that
//! can't be read or written is a warning, not a reason not to start. A key that others could have
//! read is drawn anew: with it they could make handles of locks.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use super::dir::sync;
use crate::private;

const NAME: &str = "lockspan.key";

/// The key in `dir`; `new` if there is none yet.
pub(crate) fn read_or_write(dir: &Path, new: [u8; 32]) -> [u8; 32] {
    let path = dir.join(NAME);
    match read(&path) {
        Ok(key) => return key,
        Err(why) if why.kind() == io::ErrorKind::NotFound => {}
        Err(why) => tracing::warn!("{}: {why}; creating a new one", path.display()),
    }
    if let Err(why) = write(dir, &path, &new) {
        tracing::warn!(
            "can't write {}: {why}; sessions have other public ids after a restart",
            path.display()
        );
    }
    new
}

fn read(path: &Path) -> io::Result<[u8; 32]> {
    let bytes = private::read_secret(path)?.map_err(io::Error::other)?;
    let len = bytes.len();
    bytes.try_into().map_err(|_| io::Error::other(format!("it has {len} bytes instead of 32")))
}

fn write(dir: &Path, path: &Path, key: &[u8; 32]) -> io::Result<()> {
    let new = dir.join(format!("{NAME}.new"));
    let mut file = private::create(&new)?;
    file.write_all(key)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    sync(dir)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_key_is_made_once_and_again_if_it_is_damaged() {
        let dir = tempfile::tempdir().expect("a directory");
        assert_eq!(read_or_write(dir.path(), [1; 32]), [1; 32]);
        assert_eq!(read_or_write(dir.path(), [2; 32]), [1; 32], "it stays");
        let path = dir.path().join(NAME);
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        fs::write(&path, b"short").expect("written");
        assert_eq!(read_or_write(dir.path(), [3; 32]), [3; 32]);
        assert_eq!(read_or_write(dir.path(), [4; 32]), [3; 32]);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("ours");
        assert_eq!(read_or_write(dir.path(), [6; 32]), [6; 32], "others could have read it");
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        let nowhere = dir.path().join("nowhere");
        assert_eq!(read_or_write(&nowhere, [5; 32]), [5; 32], "it serves without a file too");
    }
}
