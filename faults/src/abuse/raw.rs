//! A connection on which any bytes can be sent, and replies can be read or left unread.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, bail, ensure};
use bytes::BytesMut;
use lockspan_wire::{FromServer, Value, WireLimits, put_command, take_from_server};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Who;
use crate::process::PATIENCE;

/// A connection that speaks RESP.
#[derive(Debug)]
pub(super) struct Raw {
    pub(super) stream: TcpStream,
    buf: BytesMut,
}

impl Raw {
    /// Connects, and says nothing.
    pub(super) async fn connect(to: SocketAddr) -> Result<Self> {
        let stream = timeout(PATIENCE, TcpStream::connect(to)).await.context("no connection")??;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buf: BytesMut::new() })
    }

    /// Connects and logs in.
    pub(super) async fn login(to: SocketAddr, who: Who) -> Result<Self> {
        let mut raw = Self::connect(to).await?;
        let hello = format!("HELLO 3 AUTH {} {}", who.name(), who.password());
        match raw.ask(&hello).await? {
            why @ Value::Error { .. } => bail!("{hello}: {why:?}"),
            _ => Ok(raw),
        }
    }

    /// Sends a command of words without spaces, and returns its reply. Events are passed over.
    pub(super) async fn ask(&mut self, line: &str) -> Result<Value> {
        self.say(&command(line)).await?;
        timeout(PATIENCE, self.reply()).await.with_context(|| format!("no reply to {line:?}"))?
    }

    /// The next reply.
    pub(super) async fn reply(&mut self) -> Result<Value> {
        let limits = WireLimits { frame: 64 << 20, ..WireLimits::default() };
        loop {
            match take_from_server(&mut self.buf, &limits) {
                Ok(Some(FromServer::Value(value))) => return Ok(value),
                Ok(Some(FromServer::Event { .. })) => {}
                Ok(None) => {
                    let read = self.stream.read_buf(&mut self.buf).await?;
                    ensure!(read > 0, "the server has closed the connection");
                }
                Err(why) => bail!("{why:?}"),
            }
        }
    }

    /// Sends these bytes.
    pub(super) async fn say(&mut self, bytes: &[u8]) -> Result<()> {
        let sent = timeout(PATIENCE, self.stream.write_all(bytes)).await;
        Ok(sent.context("the server does not read")??)
    }

    /// Sends these bytes again and again, and reads whatever comes as fast as it comes, until the
    /// server closes the connection. Returns how often they were sent.
    pub(super) async fn flood(self, bytes: &[u8], sent: impl Fn()) -> Result<()> {
        let (mut from, mut to) = self.stream.into_split();
        let read = async {
            let mut scratch = vec![0; 64 << 10];
            while from.read(&mut scratch).await? > 0 {}
            Ok(())
        };
        let write = async {
            loop {
                to.write_all(bytes).await?;
                sent();
            }
        };
        tokio::select! {
            done = read => done,
            done = write => done,
        }
    }
}

/// A command as a frame.
pub(super) fn command(line: &str) -> Vec<u8> {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    let mut bytes = BytesMut::new();
    put_command(&words, &mut bytes);
    bytes.to_vec()
}

/// So many frames of a command.
pub(super) fn commands(line: &str, count: usize) -> Vec<u8> {
    command(line).repeat(count)
}
