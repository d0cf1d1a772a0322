//! Another connection that uses a node's session: it knows the session's secret number.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use bytes::BytesMut;
use lockspan_protocol::SessionId;
use lockspan_wire::{FromServer, Value, WireLimits, put_command, take_from_server};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::process::PATIENCE;

/// A connection that speaks RESP3.
#[derive(Debug)]
pub struct Foreign {
    stream: TcpStream,
    buf: BytesMut,
}

impl Foreign {
    /// Connects to a server.
    pub async fn connect(server: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(server).await?;
        let mut foreign = Self { stream, buf: BytesMut::new() };
        foreign.ask("HELLO 3").await?;
        Ok(foreign)
    }

    /// Sends a command and returns its reply. Events in between are ignored.
    pub async fn ask(&mut self, line: &str) -> Result<Value> {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let mut bytes = BytesMut::new();
        put_command(&words, &mut bytes);
        self.stream.write_all(&bytes).await?;
        let reply = async {
            loop {
                match take_from_server(&mut self.buf, &WireLimits::default()) {
                    Ok(Some(FromServer::Value(value))) => return Ok(value),
                    Ok(Some(FromServer::Event { .. })) => {}
                    Ok(None) => {
                        let read = self.stream.read_buf(&mut self.buf).await?;
                        ensure!(read > 0, "the server has closed the connection");
                    }
                    Err(why) => return Err(anyhow::anyhow!("{why:?}")),
                }
            }
        };
        timeout(PATIENCE, reply).await.with_context(|| format!("no reply to {line:?}"))?
    }

    /// Closes the session. False if there is none, or if the server does not do it now.
    pub async fn close(&mut self, SessionId(secret): SessionId) -> Result<bool> {
        Ok(self.ask(&format!("LS.CLOSE {secret}")).await? == Value::OK)
    }

    /// The number of a present grant of the record: that of the first holder.
    pub async fn grant(&mut self, record: &str) -> Result<Option<i64>> {
        let shown = self.ask(&format!("LS.INSPECT {record}")).await?;
        let Some(Value::Array(holders)) = field(&shown, "holders") else { return Ok(None) };
        Ok(match holders.first().and_then(|holder| field(holder, "seq")) {
            Some(Value::Int(number)) => Some(*number),
            _ => None,
        })
    }

    /// Releases a grant of the session. False if it has no such grant.
    pub async fn release(&mut self, session: SessionId, record: &str, seq: i64) -> Result<bool> {
        let SessionId(secret) = session;
        Ok(self.ask(&format!("LS.RELEASE {secret} {record} {seq}")).await? == Value::Int(1))
    }
}

fn field<'a>(map: &'a Value, name: &str) -> Option<&'a Value> {
    let Value::Map(pairs) = map else { return None };
    let name = Value::bulk(name.to_owned());
    pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value)
}
