//! The key of public ids, `lockspan.key`: 32 random bytes, for the server's user alone.
//!
//! Without the file nothing is lost: a new key gives sessions other public ids. So a file that
//! can't be read or written is a warning, not a reason not to start.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::dir::sync;

const NAME: &str = "lockspan.key";

/// The key in `dir`; `new` if there is none yet.
pub(crate) fn read_or_write(dir: &Path, new: [u8; 32]) -> [u8; 32] {
    let path = dir.join(NAME);
    match fs::read(&path).map(<[u8; 32]>::try_from) {
        Ok(Ok(key)) => return key,
        Ok(Err(bytes)) => {
            let len = bytes.len();
            tracing::warn!("{} has {len} bytes instead of 32: made anew", path.display());
        }
        Err(why) if why.kind() == io::ErrorKind::NotFound => {}
        Err(why) => tracing::warn!("can't read {}: {why}", path.display()),
    }
    if let Err(why) = write(dir, &path, &new) {
        tracing::warn!(
            "can't write {}: {why}; sessions have other public ids after a restart",
            path.display()
        );
    }
    new
}

fn write(dir: &Path, path: &Path, key: &[u8; 32]) -> io::Result<()> {
    let new = dir.join(format!("{NAME}.new"));
    let mut file =
        File::options().create(true).truncate(true).write(true).mode(0o600).open(&new)?;
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
        let nowhere = dir.path().join("nowhere");
        assert_eq!(read_or_write(&nowhere, [5; 32]), [5; 32], "it serves without a file too");
    }
}
