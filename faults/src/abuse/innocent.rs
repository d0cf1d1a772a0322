//! A client that does nothing wrong while others misbehave: it locks and unlocks a record every few
//! milliseconds and writes down how long that took, and a health check beside it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use lockspan_wire::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use super::Who;
use super::raw::Raw;
use super::target::{Server, Target};

/// The pause between two turns.
const PAUSE: Duration = Duration::from_millis(2);

/// Records that it uses in turn.
const RECORDS: u32 = 64;

/// A health check that takes longer has failed.
const HEALTHY: Duration = Duration::from_secs(5);

/// What a client and a health check saw in some time.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// How long each lock with its unlock took, sorted.
    pub turns: Vec<Duration>,
    /// Health checks that were answered.
    pub healthy: u64,
    /// Health checks that were not.
    pub unhealthy: u64,
}

impl Seen {
    /// A part of all turns took no longer than this.
    #[must_use]
    pub fn quantile(&self, part: f64) -> Duration {
        let at = (part * self.turns.len() as f64) as usize;
        self.turns.get(at.min(self.turns.len().saturating_sub(1))).copied().unwrap_or_default()
    }
}

/// Watches until it `is_over`. Any turn that fails fails the whole.
pub(super) async fn watch(target: &Target, is_over: Arc<AtomicBool>) -> Result<Seen> {
    let health = tokio::spawn(check_health(target.http, Arc::clone(&is_over)));
    let raw = target.connect(Who::Alice).await?;
    let turns = match target.kind {
        Server::Lockspan => take_turns(raw, &is_over).await,
        Server::Redis => take_turns_on_redis(raw, &is_over).await,
    };
    is_over.store(true, Ordering::Relaxed);
    let (healthy, unhealthy) = health.await?;
    let mut turns = turns?;
    turns.sort_unstable();
    Ok(Seen { turns, healthy, unhealthy })
}

async fn take_turns(mut raw: Raw, is_over: &AtomicBool) -> Result<Vec<Duration>> {
    let opened = raw.ask("LS.OPEN LEASE 10000").await?;
    let Some(session) = number(&opened, "session") else { bail!("LS.OPEN: {opened:?}") };
    let (mut turns, mut kept) = (Vec::new(), Instant::now());
    while !is_over.load(Ordering::Relaxed) {
        if kept.elapsed() > Duration::from_secs(2) {
            let reply = raw.ask(&format!("LS.KEEP {session}")).await?;
            ensure!(!matches!(reply, Value::Error { .. }), "LS.KEEP: {reply:?}");
            kept = Instant::now();
        }
        let record = format!("doc:{}", turns.len() as u32 % RECORDS);
        let begin = Instant::now();
        let granted = raw.ask(&format!("LS.ACQUIRE {session} {record} W WAIT 20000")).await?;
        let Some(seq) = number(&granted, "seq") else { bail!("LS.ACQUIRE: {granted:?}") };
        let released = raw.ask(&format!("LS.RELEASE {session} {record} {seq}")).await?;
        ensure!(released == Value::Int(1), "LS.RELEASE: {released:?}");
        turns.push(begin.elapsed());
        sleep(PAUSE).await;
    }
    Ok(turns)
}

async fn take_turns_on_redis(mut raw: Raw, is_over: &AtomicBool) -> Result<Vec<Duration>> {
    let mut turns = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let key = format!("doc:{}", turns.len() as u32 % RECORDS);
        let begin = Instant::now();
        let taken = raw.ask(&format!("SET {key} me NX PX 10000")).await?;
        ensure!(!matches!(taken, Value::Error { .. } | Value::Null), "SET: {taken:?}");
        raw.ask(&format!("DEL {key}")).await?;
        turns.push(begin.elapsed());
        sleep(PAUSE).await;
    }
    Ok(turns)
}

/// How many health checks were answered, and how many were not.
async fn check_health(http: Option<SocketAddr>, is_over: Arc<AtomicBool>) -> (u64, u64) {
    let mut counts = (0, 0);
    let Some(http) = http else { return counts };
    while !is_over.load(Ordering::Relaxed) {
        match timeout(HEALTHY, ask_health(http)).await {
            Ok(Ok(())) => counts.0 += 1,
            _ => counts.1 += 1,
        }
        sleep(Duration::from_millis(100)).await;
    }
    counts
}

async fn ask_health(http: SocketAddr) -> Result<()> {
    let mut stream = TcpStream::connect(http).await?;
    let request = format!("GET /healthz HTTP/1.1\r\nHost: {http}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    ensure!(text.starts_with("HTTP/1.1 200"), "{text}");
    Ok(())
}

/// A number of a reply that is a map.
pub(super) fn number(map: &Value, name: &str) -> Option<u64> {
    let Value::Map(pairs) = map else { return None };
    let (_, value) = pairs.iter().find(|(key, _)| *key == Value::bulk(name.to_owned()))?;
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        Value::Bulk(text) => std::str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    }
}
