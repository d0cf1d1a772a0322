//! Files for the server's user alone: how they are made and opened so that other users of the
//! machine can neither read nor change them, nor lead the server to a file of somebody else.
//!
//! | function | what it does |
//! |---|---|
//! | [`create`] | makes a new file with mode 0600 in the place of what has its name |
//! | [`open`] | opens a file; symbolic links and files of other users are refused |
//! | [`read_secret`] | reads a file, or says why others may know what is in it |
//! | [`narrow`] | takes the rights of other users away from an open file |
//! | [`open_to_replacement`] | whether every user can replace the files in a directory |

use std::fmt;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

/// The user that this process acts as.
pub(crate) fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Makes a new file that only its owner can open, whatever the umask is. What has this name is
/// deleted first, since an earlier start may have died before it renamed its file. A symbolic link
/// is deleted, not followed.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(why),
        _ => {}
    }
    let file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    // The umask may have taken rights from the owner too.
    if file.metadata()?.mode() & 0o600 != 0o600 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

/// Opens a file. It has to be a regular one that belongs to this process's user, to root, or to
/// `also`; the error says what is wrong otherwise.
pub(crate) fn open(path: &Path, options: &mut OpenOptions, also: Option<u32>) -> io::Result<File> {
    let file = open_regular(path, options)?;
    let owner = file.metadata()?.uid();
    if !is_trusted(owner) && also != Some(owner) {
        return Err(refused(&format!("{}; delete it, or chown it", foreign(owner))));
    }
    Ok(file)
}

/// Reads a file with a secret; the inner error says why others may know what is in it.
pub(crate) fn read_secret(path: &Path) -> io::Result<Result<Vec<u8>, String>> {
    let mut file = open_regular(path, File::options().read(true))?;
    let found = file.metadata()?;
    let (owner, mode) = (found.uid(), FileMode::of(&found));
    if !is_trusted(owner) {
        return Ok(Err(foreign(owner)));
    }
    if mode.lets_others_in() {
        return Ok(Err(format!("other users could open it ({mode})")));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(Ok(bytes))
}

fn open_regular(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    // Opening a FIFO would wait for somebody who writes to it.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = options.mode(0o600).custom_flags(flags).open(path).map_err(|why| {
        let is_link = why.raw_os_error() == Some(Errno::LOOP.raw_os_error());
        if is_link { refused("it is a symbolic link, which is not allowed here") } else { why }
    })?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(refused("it is not a regular file")) }
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

/// Whether files of this user are relied on: it is this process's own user, or root.
pub(crate) fn is_trusted(owner: u32) -> bool {
    owner == own_user() || owner == 0
}

/// Says that a file belongs to a user who is not trusted.
pub(crate) fn foreign(owner: u32) -> String {
    format!("it belongs to user {owner}, and this server runs as user {}", own_user())
}

/// The mode of a file or a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileMode(u32);

impl FileMode {
    pub(crate) fn of(found: &Metadata) -> Self {
        Self(found.mode() & 0o7777)
    }

    /// Whether users other than the owner have any right.
    pub(crate) fn lets_others_in(self) -> bool {
        self.0 & 0o077 != 0
    }

    /// Whether users other than the owner may write, be it only those of the file's group.
    pub(crate) fn lets_others_write(self) -> bool {
        self.0 & 0o022 != 0
    }

    /// Whether every user may read.
    pub(crate) fn lets_all_read(self) -> bool {
        self.0 & 0o004 != 0
    }

    /// Whether every user may write.
    pub(crate) fn lets_all_write(self) -> bool {
        self.0 & 0o002 != 0
    }

    /// For a directory: whether only the owner of a file may delete or replace it.
    fn is_sticky(self) -> bool {
        self.0 & 0o1000 != 0
    }
}

impl fmt::Display for FileMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mode {:04o}", self.0)
    }
}

/// Takes the rights of other users away; returns the mode from before if they had any.
pub(crate) fn narrow(file: &File) -> io::Result<Option<FileMode>> {
    let mode = FileMode::of(&file.metadata()?);
    if !mode.lets_others_in() {
        return Ok(None);
    }
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(Some(mode))
}

/// The mode of a directory in which every user can replace the files of others: all may write to
/// it, and it has no sticky bit.
pub(crate) fn open_to_replacement(dir: &Path) -> io::Result<Option<FileMode>> {
    let mode = FileMode::of(&fs::metadata(dir)?);
    Ok((mode.lets_all_write() && !mode.is_sticky()).then_some(mode))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).expect("it is there").mode() & 0o7777
    }

    #[test]
    fn a_new_file_takes_the_place_of_a_link_and_of_a_file_that_others_can_open() {
        let dir = tempfile::tempdir().expect("a directory");
        let (new, victim) = (dir.path().join("new"), dir.path().join("victim"));
        fs::write(&victim, "kept").expect("written");
        symlink(&victim, &new).expect("linked");
        create(&new).expect("made");
        assert_eq!(fs::read_to_string(&victim).expect("there"), "kept");
        assert_eq!(mode(&new), 0o600);
        fs::set_permissions(&new, Permissions::from_mode(0o666)).expect("ours");
        let open = File::open(&new).expect("somebody has it open");
        create(&new).expect("made");
        assert_eq!(mode(&new), 0o600);
        assert_ne!(
            open.metadata().expect("open").ino(),
            fs::metadata(&new).expect("there").ino(),
            "it is another file"
        );
    }

    #[test]
    fn only_regular_files_of_trusted_users_are_opened() {
        let dir = tempfile::tempdir().expect("a directory");
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&file, "").expect("written");
        symlink(&file, &link).expect("linked");
        let why = |path: &Path| open(path, File::options().read(true), None);
        let why = |path: &Path| why(path).expect_err("refused").to_string();
        assert!(open(&file, File::options().read(true), None).is_ok());
        assert!(why(&link).contains("symbolic link"), "{}", why(&link));
        assert!(why(dir.path()).contains("not a regular file"));
        rustix::fs::mknodat(
            rustix::fs::CWD,
            dir.path().join("fifo"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .expect("made");
        assert!(why(&dir.path().join("fifo")).contains("not a regular file"), "and does not wait");
        assert!(is_trusted(own_user()) && is_trusted(0) && !is_trusted(own_user() + 1));
    }

    #[test]
    fn a_sticky_bit_keeps_others_from_replacing_files() {
        let dir = tempfile::tempdir().expect("a directory");
        for (mode, is_open) in
            [(0o700, false), (0o755, false), (0o775, false), (0o777, true), (0o1777, false)]
        {
            fs::set_permissions(dir.path(), Permissions::from_mode(mode)).expect("ours");
            let found = open_to_replacement(dir.path()).expect("looked at");
            assert_eq!(found.is_some(), is_open, "{mode:o}");
        }
        fs::set_permissions(dir.path(), Permissions::from_mode(0o700)).expect("ours");
    }
}
