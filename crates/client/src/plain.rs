//! A connection for tools, which send commands and read replies themselves.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use lockspan_wire::wipe;
use rustix::net::SocketAddrUnix;

use crate::error::ConnectError;
use crate::greeting;
use crate::local;
use crate::options::Options;
use crate::stream::no_tls;
use crate::task::{self, Dial};
use crate::unix::connect_within;
use crate::url::{Address, shown_url};

/// A connection that nobody looks after: bytes in, bytes out, each wait bounded. It speaks RESP3,
/// and is logged in.
pub struct Plain {
    stream: Box<dyn Both>,
    /// What came along with the answer to the hello.
    heard: BytesMut,
}

trait Both: Read + Write + Send {}
impl<T: Read + Write + Send> Both for T {}

impl std::fmt::Debug for Plain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plain").finish_non_exhaustive()
    }
}

impl Plain {
    /// Connects to a server, with the login and the certificates of these options; `patience` is
    /// for connecting to a Unix socket and for each read and write. Nothing is started for
    /// `local:`.
    pub fn open(options: &Options, url: &str, patience: Duration) -> Result<Self, ConnectError> {
        let Some(dial) = options.dial(url)? else {
            let what = format!(
                "{} is a service inside one process, which no other process can reach",
                shown_url(url)
            );
            return Err(ConnectError::BadOption { what });
        };
        let mut plain = Self { stream: connect(&dial, patience)?, heard: BytesMut::new() };
        plain.greet(&dial)?;
        Ok(plain)
    }

    /// Says hello, logs in, and looks whether the other side is a Lockspan server.
    fn greet(&mut self, dial: &Dial) -> Result<(), ConnectError> {
        let failed = |why| greeting::failed(&dial.address, why);
        let mut hello = task::hello_bytes(&dial.hello_words()?);
        let sent = self.stream.write_all(&hello);
        wipe(&mut hello);
        sent.map_err(failed)?;
        let mut some = [0; 4096];
        loop {
            match self.stream.read(&mut some).map_err(|why| failed(silent(why)))? {
                0 => return Err(failed(io::ErrorKind::UnexpectedEof.into())),
                len => self.heard.extend_from_slice(&some[..len]),
            }
            if let Some(answer) = greeting::take(&dial.address, &mut self.heard)? {
                return greeting::check(&dial.address, dial.has_password(), answer);
            }
        }
    }

    /// Connects to the service of this user, if it runs.
    pub fn open_local(options: &Options, patience: Duration) -> Result<Option<Self>, ConnectError> {
        match Self::open(options, "local:", patience) {
            Err(why) if local::is_absent(&why) => Ok(None),
            opened => opened.map(Some),
        }
    }
}

/// A read that took too long, in words.
fn silent(why: io::Error) -> io::Error {
    match why.kind() {
        io::ErrorKind::WouldBlock => io::Error::new(io::ErrorKind::TimedOut, "no reply"),
        _ => why,
    }
}

/// Connects to somebody who may be told what is said first.
fn connect(dial: &Dial, patience: Duration) -> Result<Box<dyn Both>, ConnectError> {
    let failed = |why| greeting::failed(&dial.address, why);
    match (&dial.address, &dial.tls) {
        (Address::Tls(at), Some(config)) => {
            let stream = tcp(at, patience)
                .and_then(|stream| lockspan_tls::blocking(stream, Address::host(at), config));
            Ok(Box::new(stream.map_err(failed)?))
        }
        (Address::Tls(_), None) => Err(failed(no_tls())),
        (Address::Tcp(at), _) => {
            let stream = tcp(at, patience).map_err(failed)?;
            dial.check_address(stream.peer_addr())?;
            Ok(Box::new(stream))
        }
        (Address::Unix(path), _) => {
            let stream = unix(path, patience).map_err(failed)?;
            dial.check_server(|| local::peer(&stream))?;
            Ok(Box::new(stream))
        }
    }
}

fn tcp(at: &str, patience: Duration) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(at)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    lockspan_tls::prepare(&stream, lockspan_tls::KEEPALIVE)?;
    Ok(stream)
}

fn unix(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    let stream = connect_within(&SocketAddrUnix::new(path)?, patience)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    Ok(stream)
}

impl Read for Plain {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.heard.is_empty() {
            return self.stream.read(buf);
        }
        let len = buf.len().min(self.heard.len());
        self.heard.copy_to_slice(&mut buf[..len]);
        Ok(len)
    }
}

impl Write for Plain {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
