//! A connection's two ends of a pipe, whichever kind of socket it is.

use std::io;

use bytes::{BufMut as _, BytesMut};
use rustix::net::{Shutdown, shutdown};
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};

/// A connected socket. Reading and writing need no exclusive access.
#[derive(Debug)]
pub(crate) enum Stream {
    /// A TCP connection.
    Tcp(TcpStream),
    /// A connection through a socket file.
    Unix(UnixStream),
}

impl Stream {
    /// Reads what is there, without waiting. 0: the other side has closed.
    pub(crate) fn try_read(&self, buf: &mut BytesMut) -> io::Result<usize> {
        let room = buf.chunk_mut().len();
        let mut part = None;
        let read = || {
            let count = match self {
                Self::Tcp(stream) => stream.try_read_buf(buf),
                Self::Unix(stream) => stream.try_read_buf(buf),
            }?;
            if count == 0 || count == room {
                return Ok(count);
            }
            // All there was: the socket counts as empty, so that nobody asks it once more.
            part = Some(count);
            Err(io::ErrorKind::WouldBlock.into())
        };
        let whole = match self {
            Self::Tcp(stream) => stream.try_io(Interest::READABLE, read),
            Self::Unix(stream) => stream.try_io(Interest::READABLE, read),
        };
        part.map_or(whole, Ok)
    }

    /// Writes what fits, without waiting.
    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write(bytes),
            Self::Unix(stream) => stream.try_write(bytes),
        }
    }

    /// Until there may be something to read.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.readable().await,
            Self::Unix(stream) => stream.readable().await,
        }
    }

    /// Until something may be written.
    pub(crate) async fn writable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.writable().await,
            Self::Unix(stream) => stream.writable().await,
        }
    }

    /// Nothing more is read or written, by nobody.
    pub(crate) fn shut_down(&self) {
        self.end(Shutdown::Both);
    }

    /// Nothing more is written; the other side hears so when it has read what was.
    pub(crate) fn end_writing(&self) {
        self.end(Shutdown::Write);
    }

    fn end(&self, how: Shutdown) {
        // It fails only if the other side has gone already.
        let _ = match self {
            Self::Tcp(stream) => shutdown(stream, how),
            Self::Unix(stream) => shutdown(stream, how),
        };
    }
}
