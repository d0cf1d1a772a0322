//! The parts of a measurement that are processes of their own: this program, started again with
//! [`CHILD`]. Each prints where it listens when it is ready, and ends when its input is closed.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lockspan::{Locks, Options};
use lockspan_server::{Address, Config, Data, Server};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::process::memory;
use crate::{protocol, say, timing};

/// The first word of a process that is a part of a measurement.
pub(crate) const CHILD: &str = "--child";

pub(crate) const SERVE: &str = "serve";
pub(crate) const SERVE_SOCKET: &str = "serve-socket";
pub(crate) const SERVE_AGAIN: &str = "serve-again";
pub(crate) const KEEP: &str = "keep";
pub(crate) const ECHO: &str = "echo";
pub(crate) const HOLD: &str = "hold";
/// Steps of a state machine, for valgrind to count.
pub(crate) const STEPS: &str = "steps";
/// The same without the steps.
pub(crate) const SKIPS: &str = "skips";

/// Acquires that a holder has under way.
const UNDER_WAY: usize = 256;

/// The socket file of a server.
pub(crate) fn socket(folder: &Path) -> PathBuf {
    folder.join("lock.sock")
}

pub(crate) fn run(words: &[String]) -> Result<(), String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let number = |word: &str| word.parse::<usize>().map_err(say);
    if let [mode @ (STEPS | SKIPS), case, records, steps] = words[..] {
        let (records, steps) = (number(records)?, number(steps)?);
        return protocol::instructions::child(mode == STEPS, case, records, steps);
    }
    let runtime = match words.first() {
        Some(&HOLD | &KEEP) => timing::wide_runtime()?,
        _ => timing::server_runtime()?,
    };
    match words[..] {
        [SERVE, folder] => runtime.block_on(serve(Path::new(folder), Some(nowhere()))),
        [SERVE_SOCKET, folder] => runtime.block_on(serve(Path::new(folder), None)),
        [SERVE_AGAIN, folder, address] => {
            let address = address.parse().map_err(say)?;
            runtime.block_on(serve(Path::new(folder), Some(address)))
        }
        [ECHO, request, reply] => runtime.block_on(echo(number(request)?, number(reply)?)),
        [HOLD, url, records] => runtime.block_on(hold(url, number(records)?)),
        [KEEP, url, datatype, records] => runtime.block_on(keep(url, datatype, number(records)?)),
        _ => Err(format!("{CHILD} is for this program itself")),
    }
}

/// Says that it is ready, and waits for its end.
async fn until_the_end(address: SocketAddr, more: &str) -> Result<(), String> {
    let mut out = std::io::stdout();
    writeln!(out, "{address} {more}").and_then(|()| out.flush()).map_err(say)?;
    let wait = || std::io::stdin().read_to_end(&mut Vec::new());
    tokio::task::spawn_blocking(wait).await.map_err(say)?.map(drop).map_err(say)
}

/// Any free port.
fn nowhere() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}

async fn serve(folder: &Path, port: Option<SocketAddr>) -> Result<(), String> {
    let config = Config {
        listen: port.map(Address::Tcp).into_iter().chain([Address::Unix(socket(folder))]).collect(),
        data: Data::Dir(folder.join("data")),
        ..Config::default()
    };
    let server = Server::start(config).await.map_err(say)?;
    match server.addresses() {
        [Address::Tcp(address), ..] => until_the_end(*address, "").await,
        _ => until_the_end(nowhere(), "").await,
    }
}

async fn echo(request: usize, reply: usize) -> Result<(), String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(say)?;
    let address = listener.local_addr().map_err(say)?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, request, reply));
        }
    });
    until_the_end(address, "").await
}

async fn answer(mut stream: TcpStream, request: usize, reply: usize) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut asked, answer) = (vec![0; request], vec![b'x'; reply]);
    loop {
        stream.read_exact(&mut asked).await?;
        stream.write_all(&answer).await?;
    }
}

/// Caches records with the default lease, and says what it has sent and lost, once for each line
/// that it reads.
async fn keep(url: &str, datatype: &str, records: usize) -> Result<(), String> {
    let hour = Duration::from_secs(3600);
    let options = Options::new().idle(hour).max_cached(records.max(100_000));
    let locks = options.connect(url).await.map_err(say)?;
    fill(&locks, datatype, records).await?;
    let tell = |text: String| {
        let mut out = std::io::stdout();
        writeln!(out, "{text}").and_then(|()| out.flush()).map_err(say)
    };
    tell("ready".to_owned())?;
    loop {
        let read = || std::io::stdin().read_line(&mut String::new());
        if tokio::task::spawn_blocking(read).await.map_err(say)?.map_err(say)? == 0 {
            return locks.close().await.map_err(say);
        }
        let stats = locks.stats();
        tell(format!("{} {} {}", stats.told, stats.sent_bytes, stats.lost))?;
    }
}

/// Takes and leaves so many records, so that they are cached.
async fn fill(locks: &Locks, datatype: &str, records: usize) -> Result<(), String> {
    let next = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let mut tasks = Vec::new();
    for _ in 0..UNDER_WAY {
        let (locks, next) = (locks.clone(), Arc::clone(&next));
        let datatype = datatype.to_owned();
        tasks.push(tokio::spawn(async move {
            loop {
                let number = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                if number >= records {
                    return Ok::<(), String>(());
                }
                let record = locks.record(&datatype, format!("{number:08}")).map_err(say)?;
                drop(record.write().await.map_err(say)?);
            }
        }));
    }
    for task in tasks {
        task.await.map_err(say)??;
    }
    Ok(())
}

/// Caches records, and says how many bytes that took here.
async fn hold(url: &str, records: usize) -> Result<(), String> {
    let hour = Duration::from_secs(3600);
    let options = Options::new().lease(Duration::from_secs(60)).idle(hour).max_cached(records);
    let locks = options.connect(url).await.map_err(say)?;
    // The connection and its buffers are not part of the records.
    drop(locks.record("held", "first").map_err(say)?.write().await.map_err(say)?);
    let before = memory::resident("self")?;
    fill(&locks, "held", records).await?;
    let bytes = (memory::resident("self")? - before) / records as f64;
    let cached = locks.stats().records;
    if cached < records {
        return Err(format!("{cached} records are cached, not {records}"));
    }
    // It listens nowhere.
    until_the_end(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), &bytes.to_string()).await?;
    locks.close().await.map_err(say)
}
