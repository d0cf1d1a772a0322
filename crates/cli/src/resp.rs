//! A plain connection to a service: one command, one reply.

use std::io::{self, Read, Write};
use std::time::Duration;

use bytes::BytesMut;
use lockspan_client::{ConnectError, Plain};
use lockspan_wire::{FromServer, Secret, Value, WireLimits, put_command, take_from_server, wipe};

use crate::exit::{Failure, INTERNAL, UNAVAILABLE, USAGE};
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
        let options = login::options().name("lockspan");
        let opened = if url == "local:" {
            Plain::open_local(&options, PATIENCE)
        } else {
            Plain::open(&options, url, PATIENCE).map(Some)
        };
        let opened = opened.map_err(|bad| {
            let usage = matches!(bad, ConnectError::BadUrl { .. } | ConnectError::BadOption { .. });
            Failure::new(if usage { USAGE } else { UNAVAILABLE }, format!("can't connect: {bad}"))
        })?;
        let Some(stream) = opened else { return Ok(None) };
        let mut connection = Self { stream, received: BytesMut::new() };
        let hello: Vec<_> =
            connection.stream.hello().iter().map(|word| Secret::copy(word)).collect();
        let hello: Vec<&[u8]> = hello.iter().map(Secret::reveal).collect();
        connection.ask(&hello)?;
        Ok(Some(connection))
    }

    /// Sends bytes that are commands without a reply.
    pub(crate) fn tell(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.stream.write_all(bytes).map_err(|bad| away(&bad))
    }

    /// Sends a command and waits for its reply; an error reply is a failure.
    pub(crate) fn ask(&mut self, command: &[&[u8]]) -> Result<Value, Failure> {
        // One of them may be a password: a buffer that grows would leave it behind.
        let mut out = BytesMut::with_capacity(command.iter().map(|word| word.len() + 16).sum());
        put_command(command, &mut out);
        let sent = self.stream.write_all(&out);
        wipe(&mut out);
        sent.map_err(|bad| away(&bad))?;
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
            match self.stream.read(&mut some).map_err(|bad| away(&bad))? {
                0 => return Err(away(&io::ErrorKind::UnexpectedEof.into())),
                len => self.received.extend_from_slice(&some[..len]),
            }
        }
    }
}

fn away(bad: &io::Error) -> Failure {
    Failure::new(UNAVAILABLE, format!("the service does not answer: {bad}"))
}
