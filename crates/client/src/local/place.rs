//! Where the service of a user is: one place for each user of a machine, found by the number of the
//! user alone. No variable of the environment has a say: a cron job, a login shell and a unit of
//! systemd have different ones, and have to meet.
//!
//! 1. `/var/lib/lockspan-local/UID`, if root has made it: for users without a home of their own,
//!    for homes on a network, and for units that can't see the home.
//! 2. `.local/state/lockspan/local-MACHINE` in the home directory that the user database names for
//!    the effective user. MACHINE stands for this machine, since others may share the home.
//!
//! If neither is to be had, there is no `local:`, and the error says what to do: a second choice
//! that depends on what can be seen would be a second place. What we make is open to the user
//! alone (0700); what is there already has to belong to the user, and symbolic links in the place
//! of our own directories are refused. So nobody else can put a service there.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use lockspan_park::privilege;

use super::error;
use crate::error::ConnectError;
use crate::trust::own_user;

/// Where root makes places for users.
const PREPARED: &str = "/var/lib/lockspan-local";

/// The path of a socket has 107 bytes at most. The server makes it under another name beside its
/// place first, which is no longer than `lock.sock`.
const LONGEST: usize = 107;

/// Where the socket of this user's service is, or will be.
pub fn socket() -> Result<PathBuf, ConnectError> {
    let socket = folder()?.join("lock.sock");
    if socket.as_os_str().len() > LONGEST {
        return Err(error(format!(
            "{} is too long for the path of a socket; as root, create {PREPARED}/{}, or use \
             another service by its URL",
            socket.display(),
            own_user()
        )));
    }
    Ok(socket)
}

/// The folder of this user's service: its socket, its data, its log. It need not be there yet.
pub fn folder() -> Result<PathBuf, ConnectError> {
    let user = own_user();
    if let Some(prepared) = prepared(Path::new(PREPARED), user)? {
        return Ok(prepared);
    }
    let home = home(user)?;
    Ok(home.join(".local/state/lockspan").join(format!("local-{}", machine())))
}

/// The same, made if it is missing; refused if somebody else could change it.
pub fn prepare() -> Result<PathBuf, ConnectError> {
    let (folder, user) = (folder()?, own_user());
    if folder.parent() == Some(Path::new(PREPARED)) {
        check_own(&folder, user, 0o077)?;
        return Ok(folder);
    }
    // From the home on; that itself was checked.
    let mut ours: Vec<_> = folder.ancestors().take(4).collect();
    ours.reverse();
    for (depth, dir) in ours.iter().enumerate() {
        match fs::DirBuilder::new().mode(0o700).create(dir) {
            Err(why) if why.kind() != io::ErrorKind::AlreadyExists => {
                return Err(error(format!(
                    "{} could not be created: {why}; if the home directory is read-only or hidden \
                     here, create {PREPARED}/{user} as root, or use another service by its URL",
                    dir.display()
                )));
            }
            _ => {}
        }
        match depth {
            // .local and .local/state are the user's, who may have put them elsewhere.
            0 | 1 => check_users(dir, user)?,
            2 => check_own(dir, user, 0o022)?,
            _ => check_own(dir, user, 0o077)?,
        }
    }
    Ok(folder)
}

/// A directory of the user, perhaps by way of a symbolic link.
fn check_users(dir: &Path, user: u32) -> Result<(), ConnectError> {
    let found = fs::metadata(dir)
        .map_err(|why| error(format!("{} could not be examined: {why}", dir.display())))?;
    if found.is_dir() && found.uid() == user && found.mode() & 0o002 == 0 {
        return Ok(());
    }
    Err(error(format!(
        "{} must be a directory that belongs to user {user} and that not every user may write to",
        dir.display()
    )))
}

/// A directory of our own, not a symbolic link, without these rights for others.
fn check_own(dir: &Path, user: u32, others: u32) -> Result<(), ConnectError> {
    let found = fs::symlink_metadata(dir)
        .map_err(|why| error(format!("{} could not be examined: {why}", dir.display())))?;
    if found.is_dir() && found.uid() == user && found.mode() & others == 0 {
        return Ok(());
    }
    Err(error(format!(
        "{} must be a directory (not a symbolic link) that belongs to user {user} and has mode \
         0700; correct it, or move it away",
        dir.display()
    )))
}

/// The place that root has made for this user, if there is one.
fn prepared(all: &Path, user: u32) -> Result<Option<PathBuf>, ConnectError> {
    let look = |path: &Path| match fs::symlink_metadata(path) {
        Ok(found) => Ok(Some(found)),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(why) => Err(error(format!("{} could not be examined: {why}", path.display()))),
    };
    let Some(parent) = look(all)? else { return Ok(None) };
    let place = all.join(user.to_string());
    if look(&place)?.is_none() {
        return Ok(None);
    }
    if !parent.is_dir() || parent.uid() != 0 || parent.mode() & 0o022 != 0 {
        return Err(error(format!(
            "{} must be a directory that only root can change",
            all.display()
        )));
    }
    check_own(&place, user, 0o077)?;
    Ok(Some(place))
}

/// The home directory that the user database has, if it is one of this user's own.
fn home(user: u32) -> Result<PathBuf, ConnectError> {
    let advice = format!(
        "as root, create one (install -d -m 755 {PREPARED} && install -d -m 700 -o {user} \
         {PREPARED}/{user}), or use another service by its URL"
    );
    let home = entry(user).ok_or_else(|| {
        error(format!(
            "local: has no directory, because user {user} is not in the user database; {advice}"
        ))
    })?;
    match fs::metadata(&home) {
        Ok(found) if found.is_dir() && found.uid() == user && found.mode() & 0o002 == 0 => Ok(home),
        Ok(_) => Err(error(format!(
            "local: has no directory, because the home directory of user {user}, {}, does not \
             belong to that user alone; {advice}",
            home.display()
        ))),
        Err(why) => Err(error(format!(
            "local: has no directory, because the home directory of user {user}, {}, can't be used \
             here ({why}); {advice}",
            home.display()
        ))),
    }
}

/// The home in the user database: the file, else what the system's other sources say.
fn entry(user: u32) -> Option<PathBuf> {
    let in_file = fs::read(passwd()).ok().and_then(|text| home_in(&text, user));
    in_file.or_else(|| {
        // PATH could lead a privileged program to another one.
        let mut getent = match privilege::is_privileged() {
            true => Command::new("/usr/bin/getent"),
            false => Command::new("getent"),
        };
        if privilege::is_privileged() {
            getent.env_clear();
        }
        getent.args(["passwd", &user.to_string()]).stdin(Stdio::null()).stderr(Stdio::null());
        home_in(&getent.output().ok()?.stdout, user)
    })
}

/// Tests have a user database of their own, in builds with debug assertions.
fn passwd() -> PathBuf {
    let tests = if cfg!(debug_assertions) { test_passwd() } else { None };
    tests.unwrap_or_else(|| "/etc/passwd".into())
}

/// The user database of a test, if there is one.
pub(super) fn test_passwd() -> Option<PathBuf> {
    let named = privilege::variable("LOCKSPAN_TEST_PASSWD").filter(|_| cfg!(debug_assertions));
    named.map(PathBuf::from)
}

/// `name:password:UID:GID:comment:HOME:shell`
fn home_in(text: &[u8], user: u32) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt as _;
    let number = user.to_string();
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.starts_with(b"#"));
    let mut entries = lines.map(|line| line.split(|byte| *byte == b':').collect::<Vec<_>>());
    let found = entries.find(|fields| fields.get(2) == Some(&number.as_bytes()))?;
    let home = Path::new(std::ffi::OsStr::from_bytes(found.get(5)?));
    home.is_absolute().then(|| home.to_owned())
}

/// A name of this machine for a path.
fn machine() -> String {
    let sources = ["/etc/machine-id", "/var/lib/dbus/machine-id", "/proc/sys/kernel/hostname"];
    let read = |path| fs::read_to_string(path).map(|text| text.trim().to_owned());
    let mut known = sources.into_iter().filter_map(|path| read(path).ok());
    let name = known.find(|name| !name.is_empty() && name != "uninitialized");
    format!("{:012x}", hash(name.unwrap_or_default().as_bytes()) & 0xffff_ffff_ffff)
}

/// FNV-1a: the same in every build, for names only.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn the_home_is_the_one_of_the_number() {
        let text = b"#x:x:7:7::/comment:\nann:x:70:7:,,:/home/ann:/bin/sh\nbob:x:7:7:B:/b c:\n\
                     broken:x:8\nrelative:x:9:9::home:\n";
        assert_eq!(home_in(text, 7), Some("/b c".into()));
        assert_eq!(home_in(text, 70), Some("/home/ann".into()));
        for user in [0, 8, 9, 77] {
            assert_eq!(home_in(text, user), None, "{user}");
        }
    }

    #[test]
    fn a_directory_of_our_own_is_nobody_elses() {
        let dir = std::env::temp_dir().join(format!("lockspan-place-{}", std::process::id()));
        let made = |name: &str, mode| {
            let path = dir.join(name);
            fs::create_dir_all(&path).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        let (tight, open) = (made("tight", 0o700), made("open", 0o770));
        assert!(check_own(&tight, own_user(), 0o077).is_ok());
        assert!(check_own(&open, own_user(), 0o077).is_err());
        assert!(check_own(&tight, own_user() + 1, 0o077).is_err(), "of somebody else");
        symlink(&tight, dir.join("link")).unwrap();
        assert!(check_own(&dir.join("link"), own_user(), 0o077).is_err());
        assert!(check_users(&dir.join("link"), own_user()).is_ok());
        assert!(check_users(&made("wide", 0o777), own_user()).is_err());
        assert!(check_own(&dir.join("missing"), own_user(), 0o077).is_err());
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn only_root_prepares_places() {
        let dir = std::env::temp_dir().join(format!("lockspan-prepared-{}", std::process::id()));
        assert_eq!(prepared(&dir, own_user()).unwrap(), None, "there are none");
        let place = dir.join(own_user().to_string());
        fs::create_dir_all(&dir).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(prepared(&dir, own_user()).unwrap(), None, "there is none for us");
        fs::DirBuilder::new().mode(0o700).create(&place).unwrap();
        assert!(prepared(&dir, own_user()).is_err(), "anybody could have made it");
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(prepared(&dir, own_user()).is_ok(), own_user() == 0, "root's alone");
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_machine_has_one_name() {
        assert_eq!(machine(), machine());
        assert_eq!(machine().len(), 12);
        assert_ne!(hash(b"one"), hash(b"two"));
    }
}
