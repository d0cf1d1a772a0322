//! The misbehaviours. Each goes on until it is aborted; what it opened is closed with it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::Who;
use super::innocent::number;
use super::raw::{Raw, command, commands};
use super::target::Server;

/// A way to misuse a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Connections that send commands without a pause, 64 KiB at a time, and read every reply.
    Pipelines,
    /// Connections that ask for 9 MB of replies each and read nothing.
    SlowReaders,
    /// A user who opens connection after connection and keeps all of them.
    ManyConnections,
    /// `CLIENT LIST` again and again beside many connections with long names.
    ClientLists,
    /// A long chain of owners that wait for each other, and searches for deadlocks along it.
    OwnerChain,
    /// Readers that are offered a record again and again and never take it.
    Reservations,
    /// Patterns that fit slowly, looked for among long names.
    Patterns,
    /// `LS.INSPECT` of a record with very many waiters.
    Inspections,
    /// Sessions that are opened and closed without a pause.
    Sessions,
    /// Wrong passwords, for the user who does nothing wrong and for names that nobody has.
    Guesses,
    /// Connections that say nothing, or nonsense, and never log in.
    Strangers,
    /// Pipelined requests for `/metrics`.
    Metrics,
    /// Connections to the page that say nothing, each opened again as soon as it is closed.
    SilentPages,
    /// Live pages, as many as can be had.
    LivePages,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Pipelines,
        Self::SlowReaders,
        Self::ManyConnections,
        Self::ClientLists,
        Self::OwnerChain,
        Self::Reservations,
        Self::Patterns,
        Self::Inspections,
        Self::Sessions,
        Self::Guesses,
        Self::Strangers,
        Self::Metrics,
        Self::SilentPages,
        Self::LivePages,
    ];

    /// Its name in a table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pipelines => "pipelines",
            Self::SlowReaders => "slow-readers",
            Self::ManyConnections => "many-connections",
            Self::ClientLists => "client-lists",
            Self::OwnerChain => "owner-chain",
            Self::Reservations => "reservations",
            Self::Patterns => "patterns",
            Self::Inspections => "inspections",
            Self::Sessions => "sessions",
            Self::Guesses => "guesses",
            Self::Strangers => "strangers",
            Self::Metrics => "metrics",
            Self::SilentPages => "silent-pages",
            Self::LivePages => "live-pages",
        }
    }

    /// What the misbehaving clients do.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Pipelines => "Commands without a pause, every reply read",
            Self::SlowReaders => "9 MB of replies requested on each connection, and none read",
            Self::ManyConnections => "Connection after connection, all kept open",
            Self::ClientLists => "CLIENT LIST without a pause, beside many connections",
            Self::OwnerChain => "A long chain of waiting owners, searched for deadlocks",
            Self::Reservations => "Readers that are offered a record and never take it",
            Self::Patterns => "Patterns that match slowly, among long names",
            Self::Inspections => "LS.INSPECT of a record with very many waiters",
            Self::Sessions => "Sessions opened and closed without a pause",
            Self::Guesses => "Wrong passwords",
            Self::Strangers => "Connections that never log in",
            Self::Metrics => "Requests for /metrics without a pause",
            Self::SilentPages => "Connections to the page without a request",
            Self::LivePages => "As many live pages as possible",
        }
    }

    /// The one with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether Redis can be misused in the same way.
    #[must_use]
    pub fn exists_on_redis(self) -> bool {
        matches!(
            self,
            Self::Pipelines | Self::SlowReaders | Self::ManyConnections | Self::ClientLists
        )
    }
}

/// How large a misbehaviour is: a part of the whole, for tests.
#[derive(Clone, Copy, Debug)]
pub struct Size(pub usize);

impl Size {
    fn of(self, whole: usize) -> usize {
        (whole / self.0).max(8)
    }
}

/// What misbehaves, and where.
#[derive(Clone, Debug)]
pub struct Attack {
    /// How.
    pub kind: Kind,
    /// Which server it is.
    pub server: Server,
    /// Where it listens.
    pub address: SocketAddr,
    /// Where its page is.
    pub http: Option<SocketAddr>,
    /// How much.
    pub size: Size,
    /// Requests and connections so far.
    pub requests: Arc<AtomicU64>,
}

impl Attack {
    fn count(&self, more: usize) {
        self.requests.fetch_add(more as u64, Ordering::Relaxed);
    }

    async fn connect(&self, who: Who) -> Result<Raw> {
        self.count(1);
        match self.server {
            Server::Lockspan => Raw::login(self.address, who).await,
            Server::Redis => Raw::connect(self.address).await,
        }
    }

    /// Misbehaves forever. An error says that the attack itself could not be made; that the server
    /// refuses or closes something is none.
    pub(super) async fn run(self) -> Result<()> {
        match self.kind {
            Kind::Pipelines => self.flood(20, &commands("PING", 4600), 4600).await,
            Kind::SlowReaders => self.slow_readers().await,
            Kind::ManyConnections => self.many_connections().await,
            Kind::ClientLists => self.client_lists().await,
            Kind::OwnerChain => self.owner_chain().await,
            Kind::Reservations => self.reservations().await,
            Kind::Patterns => self.patterns().await,
            Kind::Inspections => self.inspections().await,
            Kind::Sessions => self.sessions().await,
            Kind::Guesses => self.guesses().await,
            Kind::Strangers => self.strangers().await,
            Kind::Metrics => self.metrics().await,
            Kind::SilentPages => self.silent_pages().await,
            Kind::LivePages => self.live_pages().await,
        }
    }

    /// So many connections of a user without rights that send these bytes without end, and connect
    /// again if they are closed.
    async fn flood(&self, connections: usize, bytes: &[u8], each: usize) -> Result<()> {
        self.flood_as(Who::Carol, connections, bytes, each).await
    }

    async fn flood_as(
        &self,
        who: Who,
        connections: usize,
        bytes: &[u8],
        each: usize,
    ) -> Result<()> {
        let mut all = JoinSet::new();
        for _ in 0..connections {
            let (attack, bytes) = (self.clone(), bytes.to_vec());
            all.spawn(async move {
                loop {
                    if let Ok(raw) = attack.connect(who).await {
                        // It ends when the server closes the connection.
                        let _ = raw.flood(&bytes, || attack.count(each)).await;
                    }
                    sleep(Duration::from_millis(20)).await;
                }
            });
        }
        forever(all).await
    }

    async fn slow_readers(&self) -> Result<()> {
        let line = match self.server {
            Server::Lockspan => "COMMAND DOCS".to_owned(),
            // A reply of about the same size.
            Server::Redis => {
                let mut raw = self.connect(Who::Carol).await?;
                raw.ask(&format!("SET large {}", "x".repeat(4 << 10))).await?;
                "GET large".to_owned()
            }
        };
        let bytes = format!("{line}\r\n").repeat(2300);
        let mut all = JoinSet::new();
        for _ in 0..self.size.of(60) {
            let (attack, bytes) = (self.clone(), bytes.clone());
            all.spawn(async move {
                loop {
                    if let Ok(mut raw) = attack.connect(Who::Carol).await {
                        // The server need not take all of it.
                        let _ = raw.stream.try_write(bytes.as_bytes());
                        attack.count(2300);
                        // Nothing is read until the server closes the connection.
                        let closed = raw.stream.ready(tokio::io::Interest::ERROR);
                        let _ = tokio::time::timeout(Duration::from_secs(600), closed).await;
                        let _ = raw.stream.shutdown().await;
                    }
                    sleep(Duration::from_millis(50)).await;
                }
            });
        }
        forever(all).await
    }

    async fn many_connections(&self) -> Result<()> {
        let mut kept = Vec::new();
        for _ in 0..self.size.of(3000) {
            match self.connect(Who::Carol).await {
                Ok(raw) => kept.push(raw),
                Err(_) => sleep(Duration::from_millis(20)).await,
            }
        }
        std::future::pending::<()>().await;
        drop(kept);
        Ok(())
    }

    async fn client_lists(&self) -> Result<()> {
        let mut kept = Vec::new();
        let name = format!("CLIENT SETNAME {}", "n".repeat(250));
        for _ in 0..self.size.of(1000) {
            let mut raw = self.connect(Who::Carol).await?;
            raw.ask(&name).await?;
            kept.push(raw);
        }
        self.flood(4, &commands("CLIENT LIST", 50), 50).await?;
        drop(kept);
        Ok(())
    }

    /// Session `n` holds record `n` and waits for record `n + 1`, each with an owner of its own.
    async fn owner_chain(&self) -> Result<()> {
        let length = self.size.of(3000);
        let mut raw = self.connect(Who::Bob).await?;
        let mut sessions = Vec::new();
        for at in 0..length {
            let session = self.open(&mut raw, "").await?;
            let line = format!("LS.ACQUIRE {session} bob:{at} W OWNER {}", at + 1);
            raw.ask(&line).await?;
            self.count(2);
            sessions.push(session);
        }
        // The waits are answered much later, or never: their replies are not waited for.
        for (at, session) in sessions.iter().enumerate().take(length - 1) {
            let line = format!("LS.ACQUIRE {session} bob:{} W OWNER {}", at + 1, at + 1);
            let line = format!("{line} WAIT 600000");
            raw.say(&command(&line)).await?;
            self.count(1);
        }
        // One more waiter at the head of the chain, again and again: each is searched for a cycle.
        let head = self.connect(Who::Bob).await;
        let mut head = head.context("one more connection")?;
        let session = self.open(&mut head, "").await?;
        let bytes: Vec<u8> = (1..=160)
            .flat_map(|seq| {
                let ask = format!("LS.ACQUIRE {session} bob:0 W OWNER 0 SEQ {seq} WAIT 1");
                command(&ask)
            })
            .collect();
        loop {
            head.say(&bytes).await?;
            self.count(160);
            for _ in 0..160 {
                head.reply().await?;
            }
        }
    }

    /// A writer releases a record for which readers wait that never answer what they are offered.
    async fn reservations(&self) -> Result<()> {
        let mut raw = self.connect(Who::Bob).await?;
        let writer = self.open(&mut raw, "").await?;
        let granted = raw.ask(&format!("LS.ACQUIRE {writer} bob:r W")).await?;
        let seq = number(&granted, "seq").with_context(|| format!("{granted:?}"))?;
        let mut sessions = Vec::new();
        for _ in 0..self.size.of(8000) {
            let session = self.open(&mut raw, " HANDOFF retry").await?;
            raw.ask(&format!("LS.ACQUIRE {session} bob:r R")).await?;
            self.count(2);
            sessions.push(session);
        }
        raw.ask(&format!("LS.RELEASE {writer} bob:r {seq}")).await?;
        loop {
            for session in &sessions {
                raw.ask(&format!("LS.KEEP {session}")).await?;
                self.count(1);
            }
        }
    }

    async fn patterns(&self) -> Result<()> {
        let mut raw = self.connect(Who::Bob).await?;
        let session = self.open(&mut raw, "").await?;
        let names = self.size.of(6000);
        for at in 0..names {
            let name = format!("bob:{}{at}", "a".repeat(490));
            raw.ask(&format!("LS.ACQUIRE {session} {name} R")).await?;
            self.count(1);
        }
        let line = format!("LS.LOCKS 0 MATCH *{}b COUNT 1000", "a".repeat(250));
        self.flood_as(Who::Bob, 8, &commands(&line, 12), 12).await?;
        drop(raw);
        Ok(())
    }

    async fn inspections(&self) -> Result<()> {
        let mut raw = self.connect(Who::Bob).await?;
        let session = self.open(&mut raw, "").await?;
        raw.ask(&format!("LS.ACQUIRE {session} bob:i W")).await?;
        for _ in 0..self.size.of(3000) {
            let session = self.open(&mut raw, "").await?;
            raw.ask(&format!("LS.ACQUIRE {session} bob:i R")).await?;
            self.count(2);
        }
        self.flood_as(Who::Bob, 4, &commands("LS.INSPECT bob:i", 100), 100).await?;
        drop(raw);
        Ok(())
    }

    async fn sessions(&self) -> Result<()> {
        let mut all = JoinSet::new();
        for _ in 0..8 {
            let attack = self.clone();
            all.spawn(async move {
                let Ok(mut raw) = attack.connect(Who::Carol).await else { return };
                while let Ok(session) = attack.open(&mut raw, "").await {
                    if raw.ask(&format!("LS.CLOSE {session}")).await.is_err() {
                        return;
                    }
                    attack.count(2);
                }
            });
        }
        forever(all).await
    }

    async fn guesses(&self) -> Result<()> {
        let mut all = JoinSet::new();
        for at in 0..8 {
            let attack = self.clone();
            all.spawn(async move {
                let mut guess = 0;
                loop {
                    guess += 1;
                    let name = if at % 2 == 0 { "alice".to_owned() } else { format!("n{guess}") };
                    if let Ok(mut raw) = Raw::connect(attack.address).await {
                        let _ = raw.ask(&format!("AUTH {name} wrong-{guess}")).await;
                    }
                    attack.count(1);
                    sleep(Duration::from_millis(20)).await;
                }
            });
        }
        forever(all).await
    }

    async fn strangers(&self) -> Result<()> {
        let mut all = JoinSet::new();
        for at in 0..self.size.of(600) {
            let attack = self.clone();
            all.spawn(async move {
                let mut nothing = [0; 512];
                loop {
                    if let Ok(mut raw) = Raw::connect(attack.address).await {
                        attack.count(1);
                        match at % 4 {
                            0 => drop(raw.say(b"*3\r\n$100000000\r\n").await),
                            1 => drop(raw.say(b"\x16\x03\x01 GET / HTTP/1.1\r\n\r\n").await),
                            2 => drop(raw.say(&commands("LS.LOCKS 0", 400)).await),
                            _ => {}
                        }
                        while raw.stream.read(&mut nothing).await.is_ok_and(|count| count > 0) {}
                    }
                    sleep(Duration::from_millis(20)).await;
                }
            });
        }
        forever(all).await
    }

    async fn metrics(&self) -> Result<()> {
        let http = self.http.context("there is no page")?;
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {http}\r\n\r\n").repeat(60);
        let mut all = JoinSet::new();
        for _ in 0..self.size.of(100) {
            let (attack, request) = (self.clone(), request.clone());
            all.spawn(async move {
                loop {
                    if let Ok(stream) = TcpStream::connect(http).await {
                        let (mut from, mut to) = stream.into_split();
                        let read = async {
                            let mut scratch = vec![0; 64 << 10];
                            while from.read(&mut scratch).await.is_ok_and(|count| count > 0) {}
                        };
                        let write = async {
                            while to.write_all(request.as_bytes()).await.is_ok() {
                                attack.count(60);
                            }
                        };
                        tokio::select! { () = read => {}, () = write => {} }
                    }
                    sleep(Duration::from_millis(20)).await;
                }
            });
        }
        forever(all).await
    }

    async fn silent_pages(&self) -> Result<()> {
        self.pages(self.size.of(700), None).await
    }

    async fn live_pages(&self) -> Result<()> {
        self.pages(self.size.of(200), Some("/api/live")).await
    }

    /// Connections to the page that ask for this, if anything, and read whatever comes.
    async fn pages(&self, connections: usize, path: Option<&str>) -> Result<()> {
        let http = self.http.context("there is no page")?;
        let request = path.map(|path| format!("GET {path} HTTP/1.1\r\nHost: {http}\r\n\r\n"));
        let mut all = JoinSet::new();
        for _ in 0..connections {
            let (attack, request) = (self.clone(), request.clone());
            all.spawn(async move {
                let mut nothing = [0; 4096];
                loop {
                    if let Ok(mut stream) = TcpStream::connect(http).await {
                        attack.count(1);
                        if let Some(request) = &request {
                            let _ = stream.write_all(request.as_bytes()).await;
                        }
                        while stream.read(&mut nothing).await.is_ok_and(|count| count > 0) {}
                    }
                    sleep(Duration::from_millis(20)).await;
                }
            });
        }
        forever(all).await
    }

    async fn open(&self, raw: &mut Raw, more: &str) -> Result<u64> {
        let opened = raw.ask(&format!("LS.OPEN LEASE 60000{more}")).await?;
        match number(&opened, "session") {
            Some(session) => Ok(session),
            None => bail!("LS.OPEN: {opened:?}"),
        }
    }
}

/// Until it is aborted; fails if all of them give up.
async fn forever(mut all: JoinSet<()>) -> Result<()> {
    while let Some(ended) = all.join_next().await {
        ended?;
    }
    bail!("every connection of the attack has given up")
}
