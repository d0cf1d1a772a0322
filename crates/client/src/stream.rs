//! A connection to a server: TCP or a Unix socket, used by several threads at once.

use std::io;

use bytes::{BufMut as _, BytesMut};
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};

use crate::url::Address;

#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    pub(crate) async fn connect(address: &Address) -> io::Result<Self> {
        match address {
            Address::Tcp(address) => {
                let stream = TcpStream::connect(address.as_str()).await?;
                stream.set_nodelay(true)?;
                Ok(Self::Tcp(stream))
            }
            Address::Unix(path) => Ok(Self::Unix(UnixStream::connect(path).await?)),
        }
    }

    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write(bytes),
            Self::Unix(stream) => stream.try_write(bytes),
        }
    }

    /// Reads what is there, without waiting. 0: the other side has closed.
    pub(crate) fn try_read(&self, buffer: &mut BytesMut) -> io::Result<usize> {
        let room = buffer.chunk_mut().len();
        let mut part = None;
        let read = || {
            let count = match self {
                Self::Tcp(stream) => stream.try_read_buf(buffer),
                Self::Unix(stream) => stream.try_read_buf(buffer),
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

    pub(crate) async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.readable().await,
            Self::Unix(stream) => stream.readable().await,
        }
    }

    pub(crate) async fn writable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.writable().await,
            Self::Unix(stream) => stream.writable().await,
        }
    }
}
