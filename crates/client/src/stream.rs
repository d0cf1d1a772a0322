//! A connection to a server: TCP, perhaps with TLS, or a Unix socket, used by several threads at
//! once.

use std::io;
use std::sync::Arc;

use bytes::{BufMut as _, BytesMut};
use lockspan_tls::{ClientConfig, TlsStream};
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};

use crate::url::Address;

#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Tls(Box<TlsStream>),
    Unix(UnixStream),
}

impl Stream {
    pub(crate) async fn connect(
        address: &Address,
        tls: Option<&Arc<ClientConfig>>,
    ) -> io::Result<Self> {
        let tcp = async |at: &str| {
            let stream = TcpStream::connect(at).await?;
            stream.set_nodelay(true)?;
            io::Result::Ok(stream)
        };
        match (address, tls) {
            (Address::Tcp(at), _) => Ok(Self::Tcp(tcp(at).await?)),
            (Address::Tls(at), Some(tls)) => {
                let stream = TlsStream::connect(tcp(at).await?, Address::host(at), tls).await?;
                Ok(Self::Tls(Box::new(stream)))
            }
            (Address::Tls(_), None) => Err(no_tls()),
            (Address::Unix(path), _) => Ok(Self::Unix(UnixStream::connect(path).await?)),
        }
    }

    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write(bytes),
            Self::Tls(stream) => stream.try_write(bytes),
            Self::Unix(stream) => stream.try_write(bytes),
        }
    }

    /// Reads what is there, without waiting. 0: the other side has closed.
    pub(crate) fn try_read(&self, buffer: &mut BytesMut) -> io::Result<usize> {
        let room = buffer.chunk_mut().len();
        let mut part = None;
        let mut all = |read| all_there_was(read, room, &mut part);
        let whole = match self {
            Self::Tls(stream) => return stream.try_read(buffer),
            Self::Tcp(stream) => {
                stream.try_io(Interest::READABLE, || all(stream.try_read_buf(buffer)))
            }
            Self::Unix(stream) => {
                stream.try_io(Interest::READABLE, || all(stream.try_read_buf(buffer)))
            }
        };
        part.map_or(whole, Ok)
    }

    pub(crate) async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.readable().await,
            Self::Tls(stream) => stream.readable().await,
            Self::Unix(stream) => stream.readable().await,
        }
    }

    pub(crate) async fn writable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.writable().await,
            Self::Tls(stream) => stream.writable().await,
            Self::Unix(stream) => stream.writable().await,
        }
    }
}

/// Where TLS is asked for, nothing else is spoken.
pub(crate) fn no_tls() -> io::Error {
    io::Error::other("TLS is asked for, and it is not said whom to trust")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn without_certificates_there_is_no_connection_in_the_clear() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("set");
        let at = listener.local_addr().expect("bound").to_string();
        let why = Stream::connect(&Address::Tls(at), None).await.expect_err("nobody to trust");
        assert!(why.to_string().contains("whom to trust"), "{why}");
        let came = listener.accept().map(|_| ()).map_err(|why| why.kind());
        assert_eq!(came, Err(io::ErrorKind::WouldBlock), "nobody has called");
    }
}
