//! Where clients connect: TCP, perhaps with TLS, and socket files.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockspan_tls::{KEEPALIVE, ServerConfig, Stream, TlsStream};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::Shared;
use super::admission::{Refused, Ticket};
use super::connection::{self, STRANGER_OUTBOX};
use super::outbox::Outbox;
use super::socket_file::{self, SocketFile};
use super::spare::{self, Spare};
use crate::config::{Address, SocketRights};
use crate::error::StartError;
use crate::seldom::Seldom;
use crate::users::{Ends, Place};

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
///
/// A handshake is made on a runtime of its own, since it takes a signature: 0.16 ms with a P-256
/// key, and 4 ms with RSA of 4096 bits. The socket moves there, and back when it is done.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    config: Arc<ServerConfig>,
    /// One for each whose handshake the server computes.
    turns: Arc<Semaphore>,
    /// Where handshakes are made.
    handshakes: Handle,
}

impl Tls {
    pub(crate) fn new(config: Arc<ServerConfig>, handshakes: Handle) -> Self {
        Self { config, turns: Arc::new(Semaphore::new(HANDSHAKES)), handshakes }
    }
}

/// Handshakes that the server computes its part of at a time. Few, so that those of one place are
/// not long before those of another.
pub(crate) const HANDSHAKES: usize = 64;

/// How long a handshake may take, with the wait for its turn.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The pause after a connection that could not be accepted.
const PAUSE: Duration = Duration::from_millis(50);

/// The first byte of a client that speaks TLS.
const TLS: u8 = 0x16;

/// Listens there; a socket file comes with it.
pub(crate) async fn bind(
    address: &Address,
    tls: Option<&Tls>,
    rights: SocketRights,
) -> Result<(Listener, Option<SocketFile>), StartError> {
    let failed = |why| StartError::Listen { address: address.clone(), why };
    match address {
        Address::Tcp(wanted) => {
            let listener = TcpListener::bind(wanted).await.map_err(failed)?;
            let address = Address::Tcp(listener.local_addr().map_err(failed)?);
            Ok((Listener { kind: Kind::Tcp(listener), tls: tls.cloned(), address }, None))
        }
        Address::Unix(path) => {
            let (listener, file) = socket_file::bind(path, rights)?;
            let (kind, address) = (Kind::Unix(listener), address.clone());
            Ok((Listener { kind, tls: None, address }, Some(file)))
        }
    }
}

impl Listener {
    /// Lets clients in, forever. Who is in a handshake goes when this is dropped.
    pub(crate) async fn run(self, shared: Arc<Shared>) {
        let mut greeted = JoinSet::new();
        let failures = Seldom::default();
        let mut spare = Spare::default();
        loop {
            spare.fill();
            match self.accept(shared.config.keepalive).await {
                Ok((stream, from)) => self.let_in(&shared, stream, from, &mut greeted),
                Err(why) => {
                    if let Some(more) = failures.may_log(Instant::now()) {
                        let at = &self.address;
                        tracing::error!("can't accept a connection on {at}: {why}{more}");
                    }
                    if !(spare::is_lacking(&why) && self.refuse_with(&mut spare).await) {
                        // Others may close some files meanwhile.
                        tokio::time::sleep(PAUSE).await;
                    }
                }
            }
            while greeted.try_join_next().is_some() {}
        }
    }

    /// Lets a client in, or refuses it.
    fn let_in(
        &self,
        shared: &Arc<Shared>,
        stream: Stream,
        (title, from): From,
        greeted: &mut JoinSet<()>,
    ) {
        let place = match (&shared.users, &stream) {
            (Some(users), Stream::Tcp(tcp)) => users.place_of(from, || Ends::of(tcp)),
            _ => from.network(),
        };
        let from = (title, place);
        match (shared.admission.enter(place, Instant::now()), stream, &self.tls) {
            (Ok(ticket), Stream::Tcp(stream), Some(tls)) => {
                greeted.spawn(tls.clone().greet(Arc::clone(shared), stream, from, ticket));
            }
            (Ok(ticket), stream, _) => admit(shared, stream, from, ticket),
            (Err(why), stream, tls) => {
                if let Some(more) = shared.floods.refused.may_log(Instant::now()) {
                    tracing::warn!("a connection from {} is refused: {why}{more}", from.0);
                }
                self.refuse(stream, tls.is_some(), &why.to_string());
            }
        }
    }

    /// Accepts a connection with the descriptor that was kept for that, and refuses it, so that its
    /// client does not wait for an answer. Whether there was one.
    async fn refuse_with(&self, spare: &mut Spare) -> bool {
        if !spare.free() {
            return false;
        }
        let accepted = tokio::time::timeout(PAUSE, self.accept(KEEPALIVE)).await;
        let Ok(Ok((stream, _))) = accepted else { return false };
        let why = "the server has no file descriptor left (ulimit -n); try again later";
        self.refuse(stream, self.tls.is_some(), why);
        true
    }

    /// Says why, unless the client expects TLS, and closes.
    fn refuse(&self, stream: Stream, is_tls: bool, why: &str) {
        if !is_tls {
            refuse(stream, format!("-LIMIT {why}\r\n").as_bytes());
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
    async fn greet(self, shared: Arc<Shared>, stream: TcpStream, from: From, ticket: Ticket) {
        let greeted = tokio::select! {
            greeted = tokio::time::timeout(HANDSHAKE, self.handshake(stream, &ticket)) =>
                greeted.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())),
            () = ticket.closed() => Err(io::Error::other(Refused::Late.to_string())),
        };
        match greeted {
            Ok(stream) => admit(&shared, Stream::Tls(Box::new(stream)), from, ticket),
            Err(why) => {
                if let Some(more) = shared.floods.no_tls.may_log(Instant::now()) {
                    tracing::info!("TLS handshake with {} failed: {why}{more}", from.0);
                }
            }
        }
    }

    async fn handshake(&self, stream: TcpStream, ticket: &Ticket) -> io::Result<TlsStream> {
        let mut first = [0];
        // Whoever says nothing takes no turn from others.
        if stream.peek(&mut first).await? == 1 && first != [TLS] {
            let text = "-ERR this port requires TLS: use lockspans://, rediss:// or redis-cli \
                        --tls\r\n";
            refuse(Stream::Tcp(stream), text.as_bytes());
            return Err(io::Error::other("the client does not use TLS"));
        }
        // The turn is for our part alone, so that no client can keep it. First among its own: those
        // of one place don't stand in the line of all.
        let (own, all) = (Arc::clone(&ticket.turns), Arc::clone(&self.turns));
        let when_busy = ticket.when_busy();
        let turn = async move {
            let busy = when_busy();
            (own.acquire_owned().await, all.acquire_owned().await, busy)
        };
        let (config, stream) = (Arc::clone(&self.config), stream.into_std()?);
        // Aborted when this is dropped: after its time, or with the listener.
        let mut handshake = JoinSet::new();
        let accept =
            async move { TlsStream::accept(TcpStream::from_std(stream)?, &config, turn).await };
        handshake.spawn_on(accept, &self.handshakes);
        let over = || io::Error::other("the server is stopping");
        handshake.join_next().await.ok_or_else(over)?.map_err(|_| over())??.move_here()
    }
}

fn admit(shared: &Arc<Shared>, stream: Stream, from: From, mut ticket: Ticket) {
    if let Err(why) = ticket.admit(shared.users.is_some(), Instant::now()) {
        if let Some(more) = shared.floods.refused.may_log(Instant::now()) {
            tracing::warn!("a connection from {} is refused: {why}{more}", from.0);
        }
        refuse(stream, format!("-LIMIT {why}\r\n").as_bytes());
        return;
    }
    let room = match &shared.users {
        Some(_) => STRANGER_OUTBOX.min(shared.config.outbox),
        None => shared.config.outbox,
    };
    let outbox = Outbox::new(shared.peers.next_id(), stream, room, &shared.budget);
    let peer = shared.peers.add(outbox, from);
    ticket.connect(&peer.outbox);
    shared.service.meters.connections_total.add(1);
    // A server that stops closes those whom it finds here; who comes later is not found.
    if shared.service.is_halted() {
        peer.outbox.close();
    }
    tokio::spawn(connection::serve(Arc::clone(shared), peer, ticket));
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
    use crate::net::admission::Admission;
    use crate::own_runtime::OwnRuntime;
    use bytes::BytesMut;
    use lockspan_tls::testing::Certificates;
    use lockspan_tls::{ClientFiles, ServerFiles};
    use rustix::net::sockopt;
    use std::sync::Mutex;
    use tokio::io::AsyncWriteExt as _;
    use tokio_rustls::TlsConnector;
    use tokio_rustls::rustls::pki_types::ServerName;
    use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
    use tokio_rustls::rustls::sign::CertifiedKey;

    /// Remembers on which threads it was asked for the certificate: those that sign with it.
    #[derive(Debug)]
    struct Watched {
        inner: Arc<dyn ResolvesServerCert>,
        threads: Mutex<Vec<Option<String>>>,
    }

    impl ResolvesServerCert for Watched {
        fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
            let name = std::thread::current().name().map(str::to_owned);
            crate::lock(&self.threads).push(name);
            self.inner.resolve(hello)
        }
    }

    #[tokio::test]
    async fn service_f103_handshakes_are_made_on_threads_of_their_own() {
        let dir = tempfile::tempdir().expect("a directory");
        let made = Certificates::make(dir.path());
        let (cert, key) = (made.pem("server"), made.key("server"));
        let config = ServerFiles { cert, key, client_ca: None }.load().expect("good files");
        let mut config = ServerConfig::clone(&config);
        let inner = Arc::clone(&config.cert_resolver);
        let watched = Arc::new(Watched { inner, threads: Mutex::default() });
        config.cert_resolver = watched.clone();
        let own = OwnRuntime::start("handshakes", 2).expect("started");
        let tls = Tls::new(Arc::new(config), own.handle().clone());
        let address = "127.0.0.1:0".parse().expect("an address");
        let rights = SocketRights::default();
        let (listener, _) = bind(&address, Some(&tls), rights).await.expect("a free port");
        let Address::Tcp(at) = listener.address else { panic!("no TCP") };
        let trusted = ClientFiles { ca: Some(made.pem("ca")), ..ClientFiles::default() };
        let connector = TlsConnector::from(trusted.load().expect("good files"));
        let admission = Admission::new(80, None, 8);
        let mut greeted = Vec::new();
        for _ in 0..3 {
            let connector = connector.clone();
            let client = tokio::spawn(async move {
                let name = ServerName::try_from("localhost").expect("a name");
                let stream = TcpStream::connect(at).await.expect("it listens");
                let mut stream = connector.connect(name, stream).await.expect("a handshake");
                stream.write_all(b"said").await.expect("sent");
                stream
            });
            let (stream, from) = listener.accept(Duration::from_secs(60)).await.expect("a client");
            let Stream::Tcp(stream) = stream else { panic!("no TCP") };
            let ticket = admission.enter(from.1.network(), Instant::now()).expect("room");
            let stream = tls.handshake(stream, &ticket).await.expect("a handshake");
            greeted.push((stream, client.await.expect("connected")));
        }
        assert_eq!(*crate::lock(&watched.threads), vec![Some("handshakes".to_owned()); 3]);
        // The sockets have moved to this runtime: they are read although the other one is gone.
        drop(own);
        for (stream, _client) in greeted {
            let mut heard = BytesMut::new();
            while heard.is_empty() {
                stream.readable().await.expect("open");
                match stream.try_read(&mut heard) {
                    Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
                    read => assert!(read.expect("read") > 0, "closed"),
                }
            }
            assert_eq!(&heard[..], b"said");
        }
    }

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
