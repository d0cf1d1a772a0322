//! A connected socket of any kind: TCP, perhaps with TLS, or a socket file.

use std::io;
use std::os::fd::AsFd;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{BufMut as _, BytesMut};
use rustix::net::{Shutdown, shutdown, sockopt};
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};

use crate::TlsStream;

/// How long nothing comes from the other side before it is asked whether it is still there, unless
/// told otherwise.
pub const KEEPALIVE: Duration = Duration::from_secs(60);

/// The time between two such questions, and how many are asked.
const PROBE: Duration = Duration::from_secs(10);
const PROBES: u32 = 3;

/// Prepares a TCP socket for messages. Each goes out at once. A peer that vanished without a word
/// is noticed: when nothing came for `keepalive`, the system sends three probes, 10 s apart, and
/// closes the connection if none is answered; or if bytes that were sent are not taken for
/// `keepalive` and 30 s.
pub fn prepare(socket: impl AsFd, keepalive: Duration) -> io::Result<()> {
    let socket = socket.as_fd();
    sockopt::set_tcp_nodelay(socket, true)?;
    sockopt::set_tcp_keepidle(socket, keepalive)?;
    sockopt::set_tcp_keepintvl(socket, PROBE)?;
    sockopt::set_tcp_keepcnt(socket, PROBES)?;
    sockopt::set_socket_keepalive(socket, true)?;
    let stuck = keepalive + PROBE * PROBES;
    sockopt::set_tcp_user_timeout(socket, u32::try_from(stuck.as_millis()).unwrap_or(u32::MAX))?;
    Ok(())
}

/// A connected socket. Reading and writing need no exclusive access.
#[derive(Debug)]
pub enum Stream {
    /// A TCP connection.
    Tcp(TcpStream),
    /// A TCP connection with TLS.
    Tls(Box<TlsStream>),
    /// A connection through a socket file.
    Unix(UnixStream),
}

impl Stream {
    /// Reads what is there, without waiting, as far as `buf` has room for it. 0: the other side has
    /// closed.
    pub fn try_read(&self, buf: &mut BytesMut) -> io::Result<usize> {
        self.try_read_some(buf, usize::MAX)
    }

    /// The same, of up to `most` bytes, however much room there is. With TLS it may be one record
    /// more.
    pub fn try_read_some(&self, buf: &mut BytesMut, most: usize) -> io::Result<usize> {
        let room = buf.chunk_mut().len().min(most);
        let mut part = None;
        let mut all = |read| all_there_was(read, room, &mut part);
        let whole =
            match self {
                Self::Tls(stream) => return stream.try_read(buf),
                Self::Tcp(stream) => stream
                    .try_io(Interest::READABLE, || all(stream.try_read_buf(&mut buf.limit(most)))),
                Self::Unix(stream) => stream
                    .try_io(Interest::READABLE, || all(stream.try_read_buf(&mut buf.limit(most)))),
            };
        part.map_or(whole, Ok)
    }

    /// Writes what fits, without waiting. If that is nothing, the next write has to begin with the
    /// same bytes.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write(bytes),
            Self::Tls(stream) => stream.try_write(bytes),
            Self::Unix(stream) => stream.try_write(bytes),
        }
    }

    /// Until there may be something to read.
    pub async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.readable().await,
            Self::Tls(stream) => stream.readable().await,
            Self::Unix(stream) => stream.readable().await,
        }
    }

    /// Whether the other side is known to send nothing more.
    pub fn is_gone(&self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        let ready = match self {
            Self::Tcp(stream) => pin!(stream.ready(Interest::READABLE)).poll(&mut context),
            Self::Tls(stream) => pin!(stream.socket().ready(Interest::READABLE)).poll(&mut context),
            Self::Unix(stream) => pin!(stream.ready(Interest::READABLE)).poll(&mut context),
        };
        match ready {
            Poll::Ready(ready) => ready.map_or(true, |ready| ready.is_read_closed()),
            Poll::Pending => false,
        }
    }

    /// Until something may be written.
    pub async fn writable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.writable().await,
            Self::Tls(stream) => stream.writable().await,
            Self::Unix(stream) => stream.writable().await,
        }
    }

    /// Nothing more is read or written, by nobody.
    pub fn shut_down(&self) {
        self.end(Shutdown::Both);
    }

    /// Nothing more is written; the other side hears so when it has read what was.
    pub fn end_writing(&self) {
        self.end(Shutdown::Write);
    }

    fn end(&self, how: Shutdown) {
        // It fails only if the other side has gone already.
        let _ = match self {
            Self::Tcp(stream) => shutdown(stream, how),
            Self::Tls(stream) => {
                stream.say_end();
                shutdown(stream.socket(), how)
            }
            Self::Unix(stream) => shutdown(stream, how),
        };
    }
}

/// If it was less than there is room for, the socket counts as empty, so that nobody asks it once
/// more.
fn all_there_was(
    read: io::Result<usize>,
    room: usize,
    part: &mut Option<usize>,
) -> io::Result<usize> {
    let count = read?;
    if count == 0 || count == room {
        return Ok(count);
    }
    *part = Some(count);
    Err(io::ErrorKind::WouldBlock.into())
}
