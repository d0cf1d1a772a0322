//! Where clients connect: TCP, perhaps with TLS, and socket files.

use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockspan_tls::{ServerConfig, Stream, TlsStream};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::Shared;
use super::connection::{self, STRANGER_OUTBOX};
use super::outbox::Outbox;
use super::strangers::Stranger;
use crate::config::{Address, SocketRights};
use crate::error::StartError;
use crate::seldom::Seldom;
use crate::users::Place;

/// An open door.
#[derive(Debug)]
pub(crate) struct Listener {
    kind: Kind,
    tls: Option<Tls>,
    pub(crate) address: Address,
}

#[derive(Debug)]
enum Kind {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// How clients are met that speak TLS.
#[derive(Clone, Debug)]
struct Tls {
    config: Arc<ServerConfig>,
    /// One for each that may be in its handshake.
    turns: Arc<Semaphore>,
}

/// Handshakes at a time.
pub(crate) const HANDSHAKES: usize = 512;

/// How long a handshake may take, with the wait for its turn.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The first byte of a client that speaks TLS.
const TLS: u8 = 0x16;

/// A socket file of this server: deleted when it is dropped.
#[derive(Debug)]
pub(crate) struct SocketFile {
    pub(crate) path: PathBuf,
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
pub(crate) async fn bind(
    address: &Address,
    tls: Option<&Arc<ServerConfig>>,
    rights: SocketRights,
) -> Result<(Listener, Option<SocketFile>), StartError> {
    let failed = |why| StartError::Listen { address: address.clone(), why };
    match address {
        Address::Tcp(wanted) => {
            let listener = TcpListener::bind(wanted).await.map_err(failed)?;
            let address = Address::Tcp(listener.local_addr().map_err(failed)?);
            let tls = tls.map(|config| Tls {
                config: Arc::clone(config),
                turns: Arc::new(Semaphore::new(HANDSHAKES)),
            });
            Ok((Listener { kind: Kind::Tcp(listener), tls, address }, None))
        }
        Address::Unix(path) => {
            let lock = lock_beside(path).map_err(failed)?;
            let lock = lock.ok_or_else(|| StartError::SocketInUse(path.clone()))?;
            check_free(path, failed)?;
            let listener = bind_hidden(path, rights).map_err(failed)?;
            let file = SocketFile { path: path.clone(), _lock: lock };
            let (kind, address) = (Kind::Unix(listener), address.clone());
            Ok((Listener { kind, tls: None, address }, Some(file)))
        }
    }
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// The socket gets its mode in a directory that nobody else can enter, and only then its name: the
/// mode that it is made with is up to the umask.
fn bind_hidden(path: &Path, rights: SocketRights) -> io::Result<UnixListener> {
    let dir = beside(path, ".d");
    let hidden = dir.join("s");
    // A start that died may have left it.
    match remove_if_there(&hidden).and_then(|()| fs::remove_dir(&dir)) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(why),
        _ => {}
    }
    fs::DirBuilder::new().mode(0o700).create(&dir)?;
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
        // Why it is so is told already.
        let _ = fs::remove_file(&hidden);
    }
    fs::remove_dir(&dir)?;
    bound
}

fn lock_beside(path: &Path) -> io::Result<Option<File>> {
    let lock = beside(path, ".lock");
    let file = File::options().create(true).truncate(false).write(true).mode(0o600).open(lock)?;
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
    /// Lets clients in, for ever. Who is in a handshake goes when this is dropped.
    pub(crate) async fn run(self, shared: Arc<Shared>) {
        let mut greeted = JoinSet::new();
        let failures = Seldom::default();
        loop {
            match self.accept(shared.config.keepalive).await {
                Ok((stream, from)) => match (shared.strangers.enter(from.1), stream, &self.tls) {
                    (Ok(stranger), Stream::Tcp(stream), Some(tls)) => {
                        greeted.spawn(tls.clone().greet(
                            Arc::clone(&shared),
                            stream,
                            from,
                            stranger,
                        ));
                    }
                    (Ok(stranger), stream, _) => admit(&shared, stream, from, stranger),
                    (Err(why), stream, tls) => {
                        if let Some(more) = shared.refusals.may_log(Instant::now()) {
                            tracing::warn!("a connection from {} is refused: {why}{more}", from.0);
                        }
                        // Who expects TLS does not understand it.
                        if tls.is_none() {
                            refuse(stream, format!("-LIMIT {why}\r\n").as_bytes());
                        }
                    }
                },
                Err(why) => {
                    // Too many open files, most likely: others may close some.
                    if let Some(more) = failures.may_log(Instant::now()) {
                        let at = &self.address;
                        tracing::error!("can't accept a connection on {at}: {why}{more}");
                    }
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
            while greeted.try_join_next().is_some() {}
        }
    }

    async fn accept(&self, keepalive: Duration) -> io::Result<(Stream, From)> {
        match &self.kind {
            Kind::Tcp(listener) => {
                let (stream, from) = listener.accept().await?;
                // It may be gone again; then its first read says so.
                let _ = lockspan_tls::prepare(&stream, keepalive);
                Ok((Stream::Tcp(stream), (from.to_string(), Place::Ip(from.ip()))))
            }
            Kind::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                let uid = stream.peer_cred().ok().map(|who| who.uid());
                Ok((Stream::Unix(stream), (self.address.to_string(), Place::Unix(uid))))
            }
        }
    }
}

/// Where a client comes from, for people and for counting.
type From = (String, Place);

impl Tls {
    /// A client is let in after its handshake, which others don't wait for.
    async fn greet(self, shared: Arc<Shared>, stream: TcpStream, from: From, stranger: Stranger) {
        let greeted = tokio::time::timeout(HANDSHAKE, self.handshake(stream, &stranger)).await;
        match greeted.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Ok(stream) => admit(&shared, Stream::Tls(Box::new(stream)), from, stranger),
            Err(why) => tracing::info!("no TLS with {}: {why}", from.0),
        }
    }

    async fn handshake(&self, stream: TcpStream, stranger: &Stranger) -> io::Result<TlsStream> {
        let mut first = [0];
        // Whoever says nothing takes no turn from others.
        if stream.peek(&mut first).await? == 1 && first != [TLS] {
            let text = "-ERR TLS is spoken here, and this is not TLS: use lockspans://, rediss:// \
                        or redis-cli --tls\r\n";
            refuse(Stream::Tcp(stream), text.as_bytes());
            return Err(io::Error::other("the client does not speak it"));
        }
        // First among its own: those of one network don't stand in the line of all.
        let _own = stranger.turns.acquire().await.map_err(io::Error::other)?;
        let _turn = self.turns.acquire().await.map_err(io::Error::other)?;
        TlsStream::accept(stream, &self.config).await
    }
}

fn admit(shared: &Arc<Shared>, stream: Stream, from: From, stranger: Stranger) {
    let max = shared.config.connections;
    if shared.peers.len() >= max {
        let (from, _) = from;
        if let Some(more) = shared.refusals.may_log(Instant::now()) {
            tracing::warn!("a connection from {from} is refused: there are {max} already{more}");
        }
        let text = format!("-LIMIT there are {max} connections, and no more are allowed\r\n");
        refuse(stream, text.as_bytes());
        return;
    }
    let (stranger, room) = match &shared.users {
        Some(_) => (Some(stranger), STRANGER_OUTBOX.min(shared.config.outbox)),
        None => (None, shared.config.outbox),
    };
    let outbox = Outbox::new(shared.peers.next_id(), stream, room, &shared.budget);
    if let Some(peer) = shared.peers.add(outbox, from, max) {
        shared.service.meters.connections_total.add(1);
        // A server that stops closes those whom it finds here; who comes later is not found.
        if shared.service.is_halted() {
            peer.outbox.close();
        }
        tokio::spawn(connection::serve(Arc::clone(shared), peer, stranger));
    }
}

/// Says why, if the client's socket takes it at once, and closes.
fn refuse(stream: Stream, text: &[u8]) {
    let _ = match stream {
        Stream::Tcp(stream) => stream.into_std().and_then(|mut stream| stream.write(text)),
        Stream::Unix(stream) => stream.into_std().and_then(|mut stream| stream.write(text)),
        Stream::Tls(stream) => stream.try_write(text),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::sockopt;

    #[tokio::test]
    async fn service_f49_who_is_let_in_is_asked_whether_it_is_still_there() {
        let address = "127.0.0.1:0".parse().expect("an address");
        let (listener, _) =
            bind(&address, None, SocketRights::default()).await.expect("a free port");
        let Address::Tcp(at) = listener.address else { panic!("no TCP") };
        let _client = TcpStream::connect(at).await.expect("it listens");
        let keepalive = Duration::from_secs(7);
        let (stream, _) = listener.accept(keepalive).await.expect("a client");
        let Stream::Tcp(stream) = stream else { panic!("no TCP") };
        assert!(sockopt::socket_keepalive(&stream).expect("read"));
        assert!(sockopt::tcp_nodelay(&stream).expect("read"));
        assert_eq!(sockopt::tcp_keepidle(&stream).expect("read"), keepalive);
        assert_eq!(sockopt::tcp_keepintvl(&stream).expect("read"), Duration::from_secs(10));
        assert_eq!(sockopt::tcp_keepcnt(&stream).expect("read"), 3);
        assert_eq!(sockopt::tcp_user_timeout(&stream).expect("read"), 37_000);
    }
}
