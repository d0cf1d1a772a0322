//! Socket files: one server at a path, and nobody else's file touched on the way.
//!
//! Three files are made beside each other. `PATH` is the socket. `PATH.lock` is locked as long as
//! the server runs, so that two that start at once don't both take the path. `.XXXXXX`, a directory
//! with a name that is drawn at random, is there for the moment in which the socket gets its mode:
//! a socket is made with the mode that the umask gives, and must not be reached before it has its
//! own.
//!
//! Other users may be able to write to the directory that these are in, such as `/tmp`. So no
//! symbolic link is followed, a lock file of another user is refused, and so is a directory whose
//! files every user could replace: `/tmp` has a sticky bit.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tokio::net::UnixListener;

use crate::config::{Address, SocketRights};
use crate::error::StartError;
use crate::lock_holder::LockHolder;
use crate::private;

/// How many names are drawn before it is an error that each is taken.
const DRAWS: usize = 16;

/// A socket file of this server: deleted when it is dropped.
#[derive(Debug)]
pub(crate) struct SocketFile {
    pub(crate) path: PathBuf,
    /// Locked as long as it is open. The file stays: deleting it could let two servers in.
    _lock: File,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // If it is not there, somebody else has deleted it.
        let _ = fs::remove_file(&self.path);
    }
}

/// Listens there, in the place of a server that is gone.
pub(crate) fn bind(
    path: &Path,
    rights: SocketRights,
) -> Result<(UnixListener, SocketFile), StartError> {
    let failed = |why| StartError::Listen { address: Address::Unix(path.to_owned()), why };
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    if let Some(mode) = private::open_to_replacement(dir).map_err(failed)? {
        let (dir, mode) = (dir.to_owned(), mode.to_string());
        return Err(StartError::SocketReplaceable { dir, mode });
    }
    SocketAddrUnix::new(path).map_err(|why| failed(why.into()))?;
    // A start that can't succeed leaves no lock file behind. If there is one, its lock tells which
    // process listens.
    if !lock_path(path).exists() {
        look(path, failed)?;
    }
    let lock = open_lock(path).map_err(failed)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => {
            let holder = LockHolder::of(&lock);
            return Err(StartError::SocketInUse { path: path.to_owned(), holder });
        }
        Err(fs::TryLockError::Error(why)) => return Err(failed(why)),
    }
    if look(path, failed)? == Found::Left {
        tracing::info!("{} was left by a server that no longer runs; replaced", path.display());
    }
    let listener = bind_hidden(path, dir, rights).map_err(failed)?;
    Ok((listener, SocketFile { path: path.to_owned(), _lock: lock }))
}

/// The file beside the socket.
fn lock_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}

fn open_lock(path: &Path) -> io::Result<File> {
    let name = lock_path(path);
    let mut options = File::options();
    options.create(true).truncate(false).write(true);
    let file = private::open(&name, &mut options, None);
    // The file beside the socket is wrong, not the socket: say so.
    file.and_then(|file| private::narrow(&file).map(|_| file)).map_err(|why| {
        io::Error::new(why.kind(), format!("{}: {why}; delete that file", name.display()))
    })
}

/// The socket gets its mode in a directory that nobody else can enter, and only then its name.
fn bind_hidden(path: &Path, above: &Path, rights: SocketRights) -> io::Result<UnixListener> {
    let dir = make_hidden(above)?;
    let hidden = dir.join("s");
    let bound = UnixListener::bind(&hidden).and_then(|listener| {
        // The group first: nobody of another one gets in between.
        fs::set_permissions(&hidden, Permissions::from_mode(0o600))?;
        if rights.group.is_some() {
            std::os::unix::fs::chown(&hidden, None, rights.group)?;
        }
        fs::set_permissions(&hidden, Permissions::from_mode(rights.mode))?;
        fs::rename(&hidden, path)?;
        Ok(listener)
    });
    if bound.is_err() {
        // Why it failed is told already.
        let _ = fs::remove_file(&hidden);
    }
    fs::remove_dir(&dir)?;
    bound
}

/// A new directory for this user alone. Its name is short, since the path of a socket may not have
/// more than 107 bytes: with `/s` it is as long as `lock.sock`.
fn make_hidden(above: &Path) -> io::Result<PathBuf> {
    for _ in 0..DRAWS {
        let drawn = getrandom::u32().map_err(io::Error::other)?;
        let dir = above.join(format!(".{:06x}", drawn >> 8));
        match fs::DirBuilder::new().mode(0o700).create(&dir) {
            Ok(()) => return Ok(dir),
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {}
            Err(why) => return Err(why),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// What may be at the path of a socket that is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Nothing,
    /// The socket of a server that is gone.
    Left,
}

/// What is there; an error if it is in use, or is not a socket.
fn look(path: &Path, failed: impl Fn(io::Error) -> StartError) -> Result<Found, StartError> {
    match fs::symlink_metadata(path) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(why) => return Err(failed(why)),
        Ok(there) if !there.file_type().is_socket() => {
            return Err(StartError::NotASocket(path.to_owned()));
        }
        Ok(_) => {}
    }
    match try_connect(path) {
        Err(Errno::CONNREFUSED) => Ok(Found::Left),
        // Somebody listens, and perhaps too many are waiting for an answer already.
        Ok(()) | Err(Errno::AGAIN) => {
            Err(StartError::SocketInUse { path: path.to_owned(), holder: None })
        }
        Err(why) => Err(failed(why.into())),
    }
}

/// Connects without waiting: a process that listens and never accepts could make us wait forever.
fn try_connect(path: &Path) -> Result<(), Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, symlink};
    use std::time::Duration;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).expect("it is there").mode() & 0o7777
    }

    fn names(dir: &Path) -> Vec<String> {
        let all = fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry"));
        let mut names: Vec<_> =
            all.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[tokio::test]
    async fn service_f107_no_link_beside_a_socket_is_followed() {
        let dir = tempfile::tempdir().expect("a directory");
        let (path, victim) = (dir.path().join("s"), dir.path().join("victim"));
        fs::create_dir(&victim).expect("made");
        fs::write(victim.join("s"), "kept").expect("written");
        symlink(&victim, dir.path().join("s.d")).expect("linked");
        let (_, file) = bind(&path, SocketRights::default()).expect("it is free");
        assert_eq!(fs::read_to_string(victim.join("s")).expect("there"), "kept");
        assert_eq!(mode(&path), 0o600);
        assert_eq!(names(dir.path()), ["s", "s.d", "s.lock", "victim"], "nothing is left behind");
        drop(file);

        fs::remove_file(dir.path().join("s.lock")).expect("there");
        symlink(victim.join("new"), dir.path().join("s.lock")).expect("linked");
        let why = bind(&path, SocketRights::default()).expect_err("a link").to_string();
        assert!(why.contains("s.lock: it is a symbolic link"), "{why}");
        assert_eq!(names(&victim), ["s"]);

        fs::remove_file(dir.path().join("s.lock")).expect("there");
        symlink(victim.join("s"), &path).expect("linked");
        let why = bind(&path, SocketRights::default()).expect_err("a link");
        assert!(matches!(why, StartError::NotASocket(_)), "{why}");
        assert_eq!(fs::read_to_string(victim.join("s")).expect("there"), "kept");
    }

    #[tokio::test]
    async fn service_f107_a_directory_whose_files_all_may_replace_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("s");
        for (mode, is_good) in [(0o777, false), (0o1777, true), (0o755, true)] {
            fs::set_permissions(dir.path(), Permissions::from_mode(mode)).expect("ours");
            match bind(&path, SocketRights::default()) {
                Ok(_) => assert!(is_good, "{mode:o}"),
                Err(StartError::SocketReplaceable { mode: said, .. }) => {
                    assert!(!is_good && said == format!("mode {mode:04o}"), "{mode:o}: {said}");
                }
                Err(why) => panic!("{mode:o}: {why}"),
            }
        }
    }

    #[tokio::test]
    async fn service_f107_a_lock_file_that_others_could_open_is_taken_away_from_them() {
        let dir = tempfile::tempdir().expect("a directory");
        let (path, lock) = (dir.path().join("s"), dir.path().join("s.lock"));
        fs::write(&lock, "").expect("written");
        fs::set_permissions(&lock, Permissions::from_mode(0o644)).expect("ours");
        let _first = bind(&path, SocketRights::default()).expect("it is free");
        assert_eq!(mode(&lock), 0o600);
        let why = bind(&path, SocketRights::default()).expect_err("it is in use");
        let StartError::SocketInUse { holder: Some(holder), .. } = &why else { panic!("{why}") };
        assert_eq!(holder.pid(), std::process::id());
    }

    #[tokio::test]
    async fn service_f115_a_start_does_not_wait_for_a_socket_that_nobody_accepts_from() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("s");
        let address = SocketAddrUnix::new(&path).expect("a short path");
        let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None);
        let socket = socket.expect("a socket");
        rustix::net::bind(&socket, &address).expect("it is free");
        rustix::net::listen(&socket, 0).expect("it listens");
        let mut waiting = Vec::new();
        let flags = SocketFlags::NONBLOCK;
        loop {
            let one =
                rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
            let one = one.expect("a socket");
            if rustix::net::connect(&one, &address).is_err() {
                break;
            }
            waiting.push(one);
            assert!(waiting.len() < 10, "the queue of the socket is never full");
        }
        // If it waits, it does so in a thread that ends with this process.
        let (send, receive) = std::sync::mpsc::channel();
        let runtime = tokio::runtime::Handle::current();
        std::thread::spawn(move || {
            let _inside = runtime.enter();
            send.send(bind(&path, SocketRights::default()).map(|_| ()))
        });
        let bound = receive.recv_timeout(Duration::from_secs(20)).expect("it does not wait");
        let why = bound.expect_err("it is in use");
        assert!(matches!(why, StartError::SocketInUse { holder: None, .. }), "{why}");
    }

    #[tokio::test]
    async fn a_start_that_fails_leaves_no_file_behind() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("file");
        fs::write(&file, "kept").expect("written");
        let why = bind(&file, SocketRights::default()).expect_err("it is no socket");
        assert!(matches!(why, StartError::NotASocket(_)), "{why}");
        let taken = dir.path().join("taken");
        let _listener = UnixListener::bind(&taken).expect("it is free");
        let why = bind(&taken, SocketRights::default()).expect_err("another program listens");
        assert!(matches!(why, StartError::SocketInUse { holder: None, .. }), "{why}");
        let long = dir.path().join("l".repeat(108));
        let why = bind(&long, SocketRights::default()).expect_err("it is too long").to_string();
        assert!(why.contains("and the maximum is 107"), "{why}");
        let why = bind(&dir.path().join("none/s"), SocketRights::default()).expect_err("no place");
        assert!(why.to_string().contains("does not exist. Create it"), "{why}");
        assert_eq!(names(dir.path()), ["file", "taken"]);
    }

    #[tokio::test]
    async fn a_path_may_be_as_long_as_the_system_takes() {
        let dir = tempfile::tempdir().expect("a directory");
        let long = 107 - dir.path().as_os_str().len() - "//lock.sock".len();
        let dir = dir.path().join("d".repeat(long));
        fs::create_dir(&dir).expect("made");
        let path = dir.join("lock.sock");
        assert_eq!(path.as_os_str().len(), 107);
        bind(&path, SocketRights::default()).expect("it is free");
    }
}
