//! A plain connection to a service: one command, one reply.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use bytes::BytesMut;
use lockspan_client::local;
use lockspan_wire::{FromServer, Value, WireLimits, put_command, take_from_server};

use crate::exit::{Failure, INTERNAL, UNAVAILABLE, USAGE};

/// A connection that speaks RESP3.
pub(crate) struct Connection {
    stream: Box<dyn Stream>,
    received: BytesMut,
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// How long a service may take for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// We asked, so we trust the service further than it trusts us.
const LIMITS: WireLimits = WireLimits { frame: 256 << 20, args: 16 << 20 };

impl Connection {
    /// Connects to the service at `url`. `None`: it is the user's own, and does not run.
    pub(crate) fn open(url: &str) -> Result<Option<Self>, Failure> {
        let away =
            |bad: io::Error| Failure::new(UNAVAILABLE, format!("can't connect to {url}: {bad}"));
        let stream: Box<dyn Stream> = if url == "local:" {
            let path = local::socket().map_err(|bad| Failure::new(UNAVAILABLE, bad.to_string()))?;
            match unix(&path) {
                Err(bad) if is_nobody(&bad) => return Ok(None),
                stream => Box::new(stream.map_err(away)?),
            }
        } else if let Some(path) = url.strip_prefix("unix://") {
            Box::new(unix(Path::new(path)).map_err(away)?)
        } else if let Some(address) = url.strip_prefix("lockspan://") {
            Box::new(tcp(address.trim_end_matches('/')).map_err(away)?)
        } else {
            return Err(Failure::new(
                USAGE,
                format!(
                    "{url:?} is no URL of a service: local:, lockspan://HOST:PORT or unix:///path"
                ),
            ));
        };
        let mut connection = Self { stream, received: BytesMut::new() };
        connection.ask(&[b"HELLO", b"3"])?;
        Ok(Some(connection))
    }

    /// Sends a command and waits for its reply; an error reply is a failure.
    pub(crate) fn ask(&mut self, command: &[&[u8]]) -> Result<Value, Failure> {
        let away = |bad: io::Error| {
            Failure::new(UNAVAILABLE, format!("the service does not answer: {bad}"))
        };
        let mut out = BytesMut::new();
        put_command(command, &mut out);
        self.stream.write_all(&out).map_err(away)?;
        let mut some = vec![0; 64 << 10];
        loop {
            match take_from_server(&mut self.received, &LIMITS) {
                Ok(Some(FromServer::Value(Value::Error { code, text }))) => {
                    let text = format!("the service refused: {} {text}", code.as_str());
                    return Err(Failure::new(UNAVAILABLE, text));
                }
                Ok(Some(FromServer::Value(Value::Push(_)) | FromServer::Event { .. })) => continue,
                Ok(Some(FromServer::Value(value))) => return Ok(value),
                Ok(None) => {}
                Err(bad) => {
                    let text = format!("this is no lock service: {bad}");
                    return Err(Failure::new(INTERNAL, text));
                }
            }
            match self.stream.read(&mut some).map_err(away)? {
                0 => return Err(away(io::ErrorKind::UnexpectedEof.into())),
                len => self.received.extend_from_slice(&some[..len]),
            }
        }
    }
}

/// Whether the socket is not there, or nobody listens on it.
fn is_nobody(bad: &io::Error) -> bool {
    matches!(bad.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

fn unix(path: &Path) -> io::Result<UnixStream> {
    let stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

fn tcp(address: &str) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
