//! A connection with TLS whose reads and writes never wait, and need no exclusive access.
//!
//! A write that meets a full socket behaves as that of a plain one: it says so, and whoever wrote
//! comes again with the same bytes. They are encrypted already then; what is left of that goes out
//! first, and only when all of it has gone are they counted as written.

use std::io::{self, BufRead as _, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::BytesMut;
use rustls::pki_types::ServerName;
use rustls::server::Acceptor;
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, StreamOwned};
use tokio::net::TcpStream;
use tokio_rustls::{LazyConfigAcceptor, TlsConnector};

/// A connection after its handshake.
#[derive(Debug)]
pub struct TlsStream {
    tcp: TcpStream,
    state: Mutex<State>,
    /// Somebody has looked for what came along with the handshake.
    looked: AtomicBool,
}

#[derive(Debug)]
struct State {
    tls: Connection,
    /// How much of the writer's bytes is encrypted, and was not counted as written.
    owed: usize,
}

impl TlsStream {
    /// A server's side: waits for the handshake. The server's part of it takes a signature, which
    /// is computed when `turn` is done, and what that gives is dropped afterwards: while it is
    /// kept, the client is not waited for.
    pub async fn accept<T>(
        tcp: TcpStream,
        config: &Arc<ServerConfig>,
        turn: impl Future<Output = T>,
    ) -> io::Result<Self> {
        let asked = LazyConfigAcceptor::new(Acceptor::default(), tcp).await?;
        let turn = turn.await;
        let answered = asked.into_stream(Arc::clone(config));
        drop(turn);
        let stream = answered.await?;
        let (tcp, tls) = stream.into_inner();
        Ok(Self::new(tcp, tls.into()))
    }

    /// A client's side: the server has to show a certificate for `host`, a name or an address.
    pub async fn connect(
        tcp: TcpStream,
        host: &str,
        config: &Arc<ClientConfig>,
    ) -> io::Result<Self> {
        let connector = TlsConnector::from(Arc::clone(config));
        let stream = connector.connect(server_name(host)?, tcp).await?;
        let (tcp, tls) = stream.into_inner();
        Ok(Self::new(tcp, tls.into()))
    }

    fn new(tcp: TcpStream, tls: Connection) -> Self {
        let state = Mutex::new(State { tls, owed: 0 });
        Self { tcp, state, looked: AtomicBool::new(false) }
    }

    /// Moves the socket to the runtime that this is called in, from the one in which the handshake
    /// was made. Nothing that has come is lost.
    pub fn move_here(self) -> io::Result<Self> {
        let Self { tcp, state, looked } = self;
        Ok(Self { tcp: TcpStream::from_std(tcp.into_std()?)?, state, looked })
    }

    /// The socket below.
    pub fn socket(&self) -> &TcpStream {
        &self.tcp
    }

    /// Reads what is there, without waiting. 0: the other side has closed.
    pub fn try_read(&self, buf: &mut BytesMut) -> io::Result<usize> {
        let mut state = self.lock();
        loop {
            let (read, ended) = state.drain(buf)?;
            if read > 0 {
                return Ok(read);
            }
            if ended || state.tls.read_tls(&mut Socket(&self.tcp))? == 0 {
                return Ok(0);
            }
            let processed = state.tls.process_new_packets();
            // There may be an answer to it, or a word why not. If it does not fit now, it goes
            // with the next write.
            let sent = state.send(&self.tcp);
            processed.map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))?;
            if let Err(why) = sent
                && why.kind() != io::ErrorKind::WouldBlock
            {
                return Err(why);
            }
        }
    }

    /// Writes what fits, without waiting. After [`io::ErrorKind::WouldBlock`] the next write has to
    /// begin with the same bytes.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.lock();
        state.send(&self.tcp)?;
        if state.owed == 0 {
            state.owed = state.tls.writer().write(bytes)?;
            state.send(&self.tcp)?;
        }
        Ok(std::mem::take(&mut state.owed).min(bytes.len()))
    }

    /// Until there may be something to read.
    pub async fn readable(&self) -> io::Result<()> {
        // What came along with the handshake is with us, and the socket does not tell.
        if !self.looked.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        self.tcp.readable().await
    }

    /// Until something may be written.
    pub async fn writable(&self) -> io::Result<()> {
        self.tcp.writable().await
    }

    /// Tells the other side that nothing more comes, if its socket takes that now.
    pub fn say_end(&self) {
        let mut state = self.lock();
        state.tls.send_close_notify();
        let _ = state.send(&self.tcp);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread has died while it held this lock")
    }
}

impl State {
    /// Takes what is decrypted; and whether that is the end.
    fn drain(&mut self, buf: &mut BytesMut) -> io::Result<(usize, bool)> {
        let mut reader = self.tls.reader();
        let mut read = 0;
        loop {
            match reader.fill_buf() {
                Ok([]) => return Ok((read, true)),
                Ok(some) => {
                    let len = some.len();
                    buf.extend_from_slice(some);
                    reader.consume(len);
                    read += len;
                }
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => return Ok((read, false)),
                // Frames say how long they are: who is cut off has not said something else.
                Err(why) if why.kind() == io::ErrorKind::UnexpectedEof => return Ok((read, true)),
                Err(why) => return Err(why),
            }
        }
    }

    /// Sends what is encrypted.
    fn send(&mut self, tcp: &TcpStream) -> io::Result<()> {
        while self.tls.wants_write() {
            if self.tls.write_tls(&mut Socket(tcp))? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        Ok(())
    }
}

/// The socket, for one call.
struct Socket<'a>(&'a TcpStream);

impl Read for Socket<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(buf)
    }
}

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, all: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(all)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn server_name(host: &str) -> io::Result<ServerName<'static>> {
    ServerName::try_from(host.to_owned())
        .map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, format!("{host:?}: {why}")))
}

/// A client's connection for a program that waits: the handshake is over when this returns.
pub fn blocking(
    mut tcp: std::net::TcpStream,
    host: &str,
    config: &Arc<ClientConfig>,
) -> io::Result<impl Read + Write + Send + use<>> {
    let tls = ClientConnection::new(Arc::clone(config), server_name(host)?);
    let mut tls = tls.map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))?;
    while tls.is_handshaking() {
        tls.complete_io(&mut tcp)?;
    }
    Ok(StreamOwned::new(tls, tcp))
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream as StdStream;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use tokio::net::TcpListener;
    use tokio::task::spawn_blocking;

    use super::*;
    use crate::testing::Certificates;
    use crate::{ClientFiles, ServerFiles};

    const PATIENCE: Duration = Duration::from_secs(20);

    /// A server's side, and what the other side does on a thread of its own.
    async fn pair<T: Send + 'static>(
        client: impl FnOnce(StdStream, ClientConnection) -> T + Send + 'static,
    ) -> (TlsStream, tokio::task::JoinHandle<T>) {
        let dir = tempfile::tempdir().expect("a directory");
        let made = Certificates::make(dir.path());
        let (cert, key) = (made.pem("server"), made.key("server"));
        let config = ServerFiles { cert, key, client_ca: None }.load().expect("good files");
        let trusted = ClientFiles { ca: Some(made.pem("ca")), ..ClientFiles::default() };
        let trusted = trusted.load().expect("good files");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let at = listener.local_addr().expect("an address");
        let other = spawn_blocking(move || {
            let tcp = StdStream::connect(at).expect("connected");
            tcp.set_read_timeout(Some(PATIENCE)).expect("set");
            let name = server_name("localhost").expect("a name");
            client(tcp, ClientConnection::new(trusted, name).expect("a client"))
        });
        let (tcp, _) = listener.accept().await.expect("accepted");
        let accepted =
            tokio::time::timeout(PATIENCE, TlsStream::accept(tcp, &config, async {})).await;
        (accepted.expect("in time").expect("a handshake"), other)
    }

    #[tokio::test]
    async fn what_comes_along_with_the_handshake_is_read() {
        let (stream, other) = pair(|mut tcp, mut tls| {
            while tls.is_handshaking() {
                while tls.wants_write() {
                    tls.write_tls(&mut tcp).expect("written");
                }
                tls.read_tls(&mut tcp).expect("read");
                tls.process_new_packets().expect("understood");
            }
            // Its last word of the handshake is not sent yet, and goes with this.
            tls.writer().write_all(b"early").expect("taken");
            let mut bytes = Vec::new();
            while tls.wants_write() {
                tls.write_tls(&mut bytes).expect("written");
            }
            tcp.write_all(&bytes).expect("sent");
            (tcp, tls)
        })
        .await;
        let mut heard = BytesMut::new();
        while heard.is_empty() {
            let ready = tokio::time::timeout(PATIENCE, stream.readable()).await;
            ready.expect("nobody says more, and something is there").expect("readable");
            match stream.try_read(&mut heard) {
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
                read => assert!(read.expect("read") > 0, "closed"),
            }
        }
        assert_eq!(&heard[..], b"early");
        other.await.expect("it ends");
    }

    #[tokio::test]
    async fn a_full_socket_loses_nothing_and_doubles_nothing() {
        let (begin, may_begin) = channel();
        let (stream, other) = pair(move |mut tcp, mut tls| {
            while tls.is_handshaking() {
                tls.complete_io(&mut tcp).expect("a handshake");
            }
            may_begin.recv_timeout(PATIENCE).expect("the socket is full");
            let mut heard = Vec::new();
            StreamOwned::new(tls, tcp).read_to_end(&mut heard).expect("read");
            heard
        })
        .await;
        let sent: Vec<u8> = (0..16_u32 << 20).map(|at| (at % 251) as u8).collect();
        let (mut written, mut full) = (0, 0);
        while written < sent.len() {
            match stream.try_write(&sent[written..]) {
                Ok(count) => written += count,
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {
                    full += 1;
                    let _ = begin.send(());
                    let ready = tokio::time::timeout(PATIENCE, stream.writable()).await;
                    ready.expect("it is read").expect("writable");
                }
                Err(why) => panic!("{why}"),
            }
        }
        stream.say_end();
        drop(stream);
        assert!(full > 0, "16 MiB fit into the socket");
        assert!(other.await.expect("it ends") == sent, "some bytes are others");
    }
}
