//! A connection to a server, used by several threads at once.

use std::io;
use std::sync::Arc;

use lockspan_tls::{ClientConfig, Stream, TlsStream};
use tokio::net::{TcpStream, UnixStream};

use crate::url::Address;

pub(crate) async fn connect(
    address: &Address,
    tls: Option<&Arc<ClientConfig>>,
) -> io::Result<Stream> {
    let tcp = async |at: &str| {
        let stream = TcpStream::connect(at).await?;
        lockspan_tls::prepare(&stream, lockspan_tls::KEEPALIVE)?;
        io::Result::Ok(stream)
    };
    match (address, tls) {
        (Address::Tcp(at), _) => Ok(Stream::Tcp(tcp(at).await?)),
        (Address::Tls(at), Some(tls)) => {
            let stream = TlsStream::connect(tcp(at).await?, Address::host(at), tls).await?;
            Ok(Stream::Tls(Box::new(stream)))
        }
        (Address::Tls(_), None) => Err(no_tls()),
        (Address::Unix(path), _) => Ok(Stream::Unix(UnixStream::connect(path).await?)),
    }
}

/// Where TLS is asked for, nothing else is spoken.
pub(crate) fn no_tls() -> io::Error {
    io::Error::other("TLS is used, but no certificate authorities are given")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn without_certificates_there_is_no_connection_in_the_clear() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("set");
        let at = listener.local_addr().expect("bound").to_string();
        let why = connect(&Address::Tls(at), None).await.expect_err("nobody to trust");
        assert!(why.to_string().contains("certificate authorities"), "{why}");
        let came = listener.accept().map(|_| ()).map_err(|why| why.kind());
        assert_eq!(came, Err(io::ErrorKind::WouldBlock), "nobody has called");
    }
}
