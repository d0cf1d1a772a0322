//! etcd's own lock, through its JSON gateway: HTTP/1.1 with a connection that is kept.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::say;

/// A connection with a lease.
pub(crate) struct Etcd {
    stream: BufReader<TcpStream>,
    lease: Value,
}

impl Etcd {
    pub(crate) async fn connect(address: SocketAddr) -> Result<Self, String> {
        let stream = TcpStream::connect(address).await.map_err(say)?;
        stream.set_nodelay(true).map_err(say)?;
        let mut this = Self { stream: BufReader::new(stream), lease: Value::Null };
        let granted = this.post("/v3/lease/grant", &json!({ "TTL": 600 })).await?;
        this.lease = granted["ID"].clone();
        Ok(this)
    }

    /// Waits for the lock; returns the key that holds it.
    pub(crate) async fn lock(&mut self, name: &str) -> Result<Value, String> {
        let ask = json!({ "name": base64(name.as_bytes()), "lease": self.lease });
        let mut locked = self.post("/v3/lock/lock", &ask).await?;
        Ok(locked["key"].take())
    }

    pub(crate) async fn unlock(&mut self, key: Value) -> Result<(), String> {
        self.post("/v3/lock/unlock", &json!({ "key": key })).await.map(drop)
    }

    async fn post(&mut self, path: &str, body: &Value) -> Result<Value, String> {
        let body = body.to_string();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.stream.get_mut().write_all(request.as_bytes()).await.map_err(say)?;
        let status = self.line().await?;
        let (mut length, mut chunked) = (0, false);
        loop {
            let line = self.line().await?.to_ascii_lowercase();
            match line.split_once(':') {
                None => break,
                Some(("content-length", value)) => length = value.trim().parse().map_err(say)?,
                Some(("transfer-encoding", value)) => chunked = value.trim() == "chunked",
                Some(_) => {}
            }
        }
        let body = if chunked { self.chunks().await? } else { self.bytes(length).await? };
        let text = String::from_utf8_lossy(&body);
        if !status.starts_with("HTTP/1.1 200") {
            return Err(format!("etcd: {path}: {status}: {text}"));
        }
        serde_json::from_str(&text).map_err(|why| format!("etcd: {path}: {why}: {text}"))
    }

    async fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        match self.stream.read_line(&mut line).await.map_err(say)? {
            0 => Err("etcd has closed the connection".to_owned()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }

    async fn bytes(&mut self, length: usize) -> Result<Vec<u8>, String> {
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).await.map_err(say)?;
        Ok(body)
    }

    async fn chunks(&mut self) -> Result<Vec<u8>, String> {
        let mut body = Vec::new();
        loop {
            let length = usize::from_str_radix(&self.line().await?, 16).map_err(say)?;
            body.extend(self.bytes(length).await?);
            self.line().await?;
            if length == 0 {
                return Ok(body);
            }
        }
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * at)) as usize & 63];
            text.push(if at <= three.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_as_everybody_writes_it() {
        for (plain, coded) in [("", ""), ("a", "YQ=="), ("ab", "YWI="), ("abc", "YWJj")] {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
        assert_eq!(base64(&[255, 239, 190]), "/+++");
    }
}
