//! Where clients connect: TCP on this machine, and socket files.

use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};

use super::Shared;
use super::connection;
use super::outbox::Outbox;
use super::stream::Stream;
use crate::config::Address;
use crate::error::StartError;

/// An open door.
#[derive(Debug)]
pub(crate) struct Listener {
    kind: Kind,
    pub(crate) address: Address,
}

#[derive(Debug)]
enum Kind {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A socket file of this server: deleted when it is dropped.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Locked as long as it is open, so that two servers that start at once don't both take the
    /// path. It stays: deleting it could let two in.
    _lock: File,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // If it is not there, somebody else has deleted it.
        let _ = fs::remove_file(&self.path);
    }
}

/// Listens there; a socket file comes with it.
pub(crate) async fn bind(address: &Address) -> Result<(Listener, Option<SocketFile>), StartError> {
    let failed = |why| StartError::Listen { address: address.clone(), why };
    match address {
        Address::Tcp(wanted) if !wanted.ip().is_loopback() => {
            Err(StartError::NotLoopback(address.clone()))
        }
        Address::Tcp(wanted) => {
            let listener = TcpListener::bind(wanted).await.map_err(failed)?;
            let address = Address::Tcp(listener.local_addr().map_err(failed)?);
            Ok((Listener { kind: Kind::Tcp(listener), address }, None))
        }
        Address::Unix(path) => {
            let lock = lock_beside(path).map_err(failed)?;
            let lock = lock.ok_or_else(|| StartError::SocketInUse(path.clone()))?;
            check_free(path, failed)?;
            // It gets its mode before anybody can find it.
            let hidden = beside(path, ".new");
            remove_if_there(&hidden).map_err(failed)?;
            let listener = UnixListener::bind(&hidden).map_err(failed)?;
            fs::set_permissions(&hidden, Permissions::from_mode(0o600)).map_err(failed)?;
            fs::rename(&hidden, path).map_err(failed)?;
            let file = SocketFile { path: path.clone(), _lock: lock };
            Ok((Listener { kind: Kind::Unix(listener), address: address.clone() }, Some(file)))
        }
    }
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn lock_beside(path: &Path) -> io::Result<Option<File>> {
    let lock = beside(path, ".lock");
    let file = File::options().create(true).truncate(false).write(true).open(lock)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(fs::TryLockError::WouldBlock) => Ok(None),
        Err(fs::TryLockError::Error(why)) => Err(why),
    }
}

/// The path is free, or a dead server's socket is there.
fn check_free(path: &Path, failed: impl Fn(io::Error) -> StartError) -> Result<(), StartError> {
    match fs::symlink_metadata(path) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(why) => return Err(failed(why)),
        Ok(there) if !there.file_type().is_socket() => {
            return Err(StartError::NotASocket(path.to_owned()));
        }
        Ok(_) => {}
    }
    match StdUnixStream::connect(path) {
        Ok(_) => Err(StartError::SocketInUse(path.to_owned())),
        Err(why) if why.kind() == io::ErrorKind::ConnectionRefused => {
            tracing::info!("{} was left by a server that is gone; replaced", path.display());
            Ok(())
        }
        Err(why) => Err(failed(why)),
    }
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => Err(why),
        _ => Ok(()),
    }
}

impl Listener {
    /// Lets clients in, for ever.
    pub(crate) async fn run(self, shared: Arc<Shared>) {
        loop {
            match self.accept().await {
                Ok((stream, from)) => admit(&shared, stream, from),
                Err(why) => {
                    // Too many open files, most likely: others may close some.
                    tracing::error!("can't accept a connection on {}: {why}", self.address);
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    async fn accept(&self) -> io::Result<(Stream, String)> {
        match &self.kind {
            Kind::Tcp(listener) => {
                let (stream, from) = listener.accept().await?;
                // It may be gone again; then its first read says so.
                let _ = stream.set_nodelay(true);
                Ok((Stream::Tcp(stream), from.to_string()))
            }
            Kind::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                Ok((Stream::Unix(stream), self.address.to_string()))
            }
        }
    }
}

fn admit(shared: &Arc<Shared>, stream: Stream, from: String) {
    let max = shared.config.connections;
    if shared.peers.len() >= max {
        tracing::warn!("a connection from {from} is refused: there are {max} already");
        let text = format!("-LIMIT there are {max} connections, and no more are allowed\r\n");
        refuse(stream, text.as_bytes());
        return;
    }
    let outbox = Outbox::new(shared.peers.next_id(), stream, shared.config.outbox);
    if let Some(peer) = shared.peers.add(outbox, from, max) {
        shared.service.meters.connections_total.add(1);
        tokio::spawn(connection::serve(Arc::clone(shared), peer));
    }
}

/// Says why, if the client's socket takes it at once, and closes.
fn refuse(stream: Stream, text: &[u8]) {
    let _ = match stream {
        Stream::Tcp(stream) => stream.into_std().and_then(|mut stream| stream.write(text)),
        Stream::Unix(stream) => stream.into_std().and_then(|mut stream| stream.write(text)),
    };
}
