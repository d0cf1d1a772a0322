//! A plain connection to a service: one command, one reply.

use std::io::{self, Read, Write};
use std::time::Duration;

use bytes::BytesMut;
use lockspan_client::{Plain, local};
use lockspan_wire::{ErrorCode, FromServer, Value, WireLimits, put_command, take_from_server};

use crate::exit::{Failure, INTERNAL, NO_PERMISSION, UNAVAILABLE};
use crate::explain;
use crate::login;

/// A connection that speaks RESP3.
pub(crate) struct Connection {
    stream: Plain,
    received: BytesMut,
}

/// How long a service may take for an answer. To a login that may be 10 s, while others guess.
const PATIENCE: Duration = Duration::from_secs(15);

/// We asked, so we trust the service further than it trusts us.
const LIMITS: WireLimits = WireLimits { frame: 256 << 20, args: 16 << 20 };

impl Connection {
    /// Connects to the service at `url`. `None`: it is the user's own, and does not run.
    pub(crate) fn open(url: &str) -> Result<Option<Self>, Failure> {
        let options = login::server_options().name("lockspan");
        let opened = if url == local::URL {
            Plain::open_local(&options, PATIENCE)
        } else {
            Plain::open(&options, url, PATIENCE).map(Some)
        };
        let opened = opened.map_err(|why| explain::no_connection(url, &why))?;
        Ok(opened.map(Self::new))
    }

    pub(crate) fn new(stream: Plain) -> Self {
        Self { stream, received: BytesMut::new() }
    }

    /// Sends bytes that are commands without a reply.
    pub(crate) fn tell(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.stream.write_all(bytes).map_err(|bad| away(&bad))
    }

    /// Sends a command and waits for its reply; an error reply is a failure.
    pub(crate) fn ask(&mut self, command: &[&[u8]]) -> Result<Value, Failure> {
        match self.reply(command)? {
            Value::Error { code, text } => Err(refused(code, &text)),
            value => Ok(value),
        }
    }

    /// Sends a command and waits for its reply, which may be an error.
    pub(crate) fn reply(&mut self, command: &[&[u8]]) -> Result<Value, Failure> {
        let mut out = BytesMut::new();
        put_command(command, &mut out);
        self.stream.write_all(&out).map_err(|bad| away(&bad))?;
        let mut some = vec![0; 64 << 10];
        loop {
            match take_from_server(&mut self.received, &LIMITS) {
                Ok(Some(FromServer::Value(Value::Push(_)) | FromServer::Event { .. })) => continue,
                Ok(Some(FromServer::Value(value))) => return Ok(value),
                Ok(None) => {}
                Err(bad) => {
                    let text = format!("the service sent a reply that can't be parsed: {bad}");
                    return Err(Failure::new(INTERNAL, text));
                }
            }
            match self.stream.read(&mut some).map_err(|bad| away(&bad))? {
                0 => return Err(away(&io::ErrorKind::UnexpectedEof.into())),
                len => self.received.extend_from_slice(&some[..len]),
            }
        }
    }
}

/// What the service does not do, as a failure of the command.
pub(crate) fn refused(code: ErrorCode, text: &str) -> Failure {
    let text = format!("the service refused: {} {text}", code.as_str());
    let is_denied = matches!(code, ErrorCode::NoPerm | ErrorCode::NoAuth);
    Failure::new(if is_denied { NO_PERMISSION } else { UNAVAILABLE }, text)
}

/// A reply that is not what the command's replies are.
pub(crate) fn odd(command: &str, reply: &Value) -> Failure {
    Failure::new(INTERNAL, format!("{command} has an unknown answer: {reply:?}"))
}

fn away(bad: &io::Error) -> Failure {
    let why = match bad.kind() {
        io::ErrorKind::UnexpectedEof => "it closed the connection".to_owned(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            format!("no reply within {} s", PATIENCE.as_secs())
        }
        _ => bad.to_string(),
    };
    Failure::new(UNAVAILABLE, format!("the service does not answer: {why}"))
}
