//! What takes the place of TLS in a build without the feature `rustls`: the same names, for types
//! that have no values. Code that handles a TLS connection compiles, and there never is one.

use std::io;
use std::sync::Arc;

use bytes::BytesMut;
use tokio::net::TcpStream;

use crate::files::{BadFile, ClientFiles, ServerFiles};

/// A client's settings. Without TLS there are none.
#[derive(Debug)]
pub enum ClientConfig {}

/// A server's settings. Without TLS there are none.
#[derive(Debug)]
pub enum ServerConfig {}

/// A connection after its handshake. Without TLS there is none.
#[derive(Debug)]
pub enum TlsStream {}

fn left_out() -> BadFile {
    let why = "this program was built without TLS: the feature `tls` is off".to_owned();
    BadFile { path: None, why }
}

impl ClientFiles {
    /// Fails: this build has no TLS.
    pub fn load(&self) -> Result<Arc<ClientConfig>, BadFile> {
        Err(left_out())
    }
}

impl ServerFiles {
    /// Fails: this build has no TLS.
    pub fn load(&self) -> Result<Arc<ServerConfig>, BadFile> {
        Err(left_out())
    }

    /// Fails: this build has no TLS.
    pub fn present_concerns(&self) -> Result<Vec<String>, BadFile> {
        Err(left_out())
    }
}

impl TlsStream {
    /// Never called: there is no such configuration.
    pub async fn accept<T>(
        _: TcpStream,
        config: &Arc<ServerConfig>,
        _: impl Future<Output = T>,
    ) -> io::Result<Self> {
        match **config {}
    }

    /// Never called: there is no such configuration.
    pub async fn connect(_: TcpStream, _: &str, config: &Arc<ClientConfig>) -> io::Result<Self> {
        match **config {}
    }

    /// Never called, as all below.
    pub fn move_here(self) -> io::Result<Self> {
        match self {}
    }

    /// The socket below.
    pub fn socket(&self) -> &TcpStream {
        match *self {}
    }

    /// Reads what is there.
    pub fn try_read(&self, _: &mut BytesMut) -> io::Result<usize> {
        match *self {}
    }

    /// Writes what fits.
    pub fn try_write(&self, _: &[u8]) -> io::Result<usize> {
        match *self {}
    }

    /// Until there may be something to read.
    pub async fn readable(&self) -> io::Result<()> {
        match *self {}
    }

    /// Until something may be written.
    pub async fn writable(&self) -> io::Result<()> {
        match *self {}
    }

    /// Tells the other side that nothing more comes.
    pub fn say_end(&self) {
        match *self {}
    }
}

/// Never called: there is no such configuration.
pub fn blocking(
    _: std::net::TcpStream,
    _: &str,
    config: &Arc<ClientConfig>,
) -> io::Result<std::net::TcpStream> {
    match **config {}
}
