//! One client caches a lock, another one wants it: the six steps of the hand-off, as they happen.
//!
//! Run: `cargo run -p lockspan-examples --bin cached_and_revoked`
//!
//! Two clients talk to a real server over TCP, with the commands of `docs/wire.md`. Both open their
//! sessions with the hand-off *retry*, which has six steps. With *direct*, the default, the server
//! sends the grant itself in step 5.
#![forbid(unsafe_code)]

use std::error::Error;

use lockspan_server::{Config, Data, Server};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// A connection on which commands are typed and replies are read, as `redis-cli -3` does.
struct Client {
    name: &'static str,
    stream: BufReader<TcpStream>,
    session: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let config = Config {
        listen: vec!["127.0.0.1:0".parse()?],
        data: Data::None { fresh: true },
        ..Config::default()
    };
    let server = Server::start(config).await?;
    let address = server.addresses()[0].to_string();
    let mut c1 = Client::open("c1", &address).await?;
    let mut c2 = Client::open("c2", &address).await?;

    let granted = c1.acquire(1).await?;
    println!("1  c1: acquire x      -> {}", granted[1]);
    println!("   c1 is done with x, and keeps it");
    let queued = c2.acquire(1).await?;
    println!("2  c2: acquire x      -> {}, RETRY later", queued[1]);
    let revoked = c1.frame().await?;
    println!("3  server to c1: {}", revoked[2]);
    c1.send(&format!("LS.RELEASE {} doc:x 1", c1.session)).await?;
    println!("4  c1: release x      -> {}", c1.frame().await?[0]);
    let retry = c2.frame().await?;
    println!("5  server to c2: {}", retry[2]);
    let granted = c2.acquire(1).await?;
    println!("6  c2: acquire x      -> {}", granted[1]);
    Ok(())
}

impl Client {
    async fn open(name: &'static str, address: &str) -> Result<Self, Box<dyn Error>> {
        let stream = BufReader::new(TcpStream::connect(address).await?);
        let mut client = Self { name, stream, session: String::new() };
        client.send("HELLO 3").await?;
        client.frame().await?;
        client.send("LS.OPEN LEASE 30000 HANDOFF retry EVENTS push").await?;
        let opened = client.frame().await?;
        client.session = opened[1].clone();
        println!("   {name} has opened a session");
        Ok(client)
    }

    async fn acquire(&mut self, seq: u64) -> Result<Vec<String>, Box<dyn Error>> {
        self.send(&format!("LS.ACQUIRE {} doc:x W SEQ {seq}", self.session)).await?;
        self.frame().await
    }

    async fn send(&mut self, command: &str) -> Result<(), Box<dyn Error>> {
        Ok(self.stream.get_mut().write_all(format!("{command}\r\n").as_bytes()).await?)
    }

    /// The next reply or push as a flat list of strings.
    async fn frame(&mut self) -> Result<Vec<String>, Box<dyn Error>> {
        let (mut words, mut left) = (Vec::new(), 1_usize);
        while left > 0 {
            left -= 1;
            let mut line = String::new();
            self.stream.read_line(&mut line).await?;
            let (kind, rest) = line.trim_end().split_at(1);
            match kind {
                "*" | ">" => left += rest.parse::<usize>()?,
                "%" => left += 2 * rest.parse::<usize>()?,
                "$" => {
                    let mut bytes = vec![0; rest.parse::<usize>()? + 2];
                    self.stream.read_exact(&mut bytes).await?;
                    words.push(String::from_utf8_lossy(&bytes[..bytes.len() - 2]).into_owned());
                }
                "-" => return Err(format!("{}: {rest}", self.name).into()),
                _ => words.push(rest.to_owned()),
            }
        }
        Ok(words)
    }
}
