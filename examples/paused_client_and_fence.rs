//! A client is stopped in the middle of its work for longer than its lease, and then goes on: first
//! with a store that believes it, then with one that asks for the token.
//!
//! Run: `cargo run -p lockspan-examples --bin paused_client_and_fence`
//!
//! No lock can prevent this: between a program's last look at the lock and its write, the program
//! can be stopped for any time. The server gives the record to somebody else, as it must. What
//! helps is the store: it remembers the highest token that wrote, and refuses a lower one.
//!
//! The client is a real process of its own, stopped by a real signal.
#![forbid(unsafe_code)]

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use lockspan::{Options, OwnedWriteGuard};
use lockspan_server::{Config, Data, Server};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

const LEASE: Duration = Duration::from_secs(1);

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    if let [_, url, store, fence] = &args[..] {
        return slow_client(url, Path::new(store), fence == "fence").await;
    }
    let folder = tempfile::tempdir()?;
    let config = Config {
        listen: vec!["127.0.0.1:0".parse()?],
        data: Data::None { fresh: true },
        ..Config::default()
    };
    let server = Server::start(config).await?;
    let url = format!("lockspan://{}", server.addresses()[0]);
    for fence in [false, true] {
        println!("{}:", if fence { "with a fence" } else { "without a fence" });
        let store = folder.path().join(if fence { "fenced" } else { "plain" });
        fs::write(&store, "0 0")?;
        story(&url, &store, fence).await?;
    }
    Ok(())
}

/// One update by a client that is stopped, one by us while it is.
async fn story(url: &str, store: &Path, fence: bool) -> Result<(), Box<dyn Error>> {
    let mut child = tokio::process::Command::from({
        let mut command = Command::new(std::env::current_exe()?);
        let fence = if fence { "fence" } else { "plain" };
        command.args([url, &store.display().to_string(), fence]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    })
    .kill_on_drop(true)
    .spawn()?;
    let mut said = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
    let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed())).ok_or("it has ended")?;

    // It holds the record and has read the balance.
    let read = said.next_line().await?.ok_or("it has ended")?;
    println!("  the slow client {read}, and is stopped");
    kill_process(pid, Signal::STOP)?;

    // Its lease runs out; then the record is ours.
    let locks = Options::new().lease(LEASE).connect(url).await?;
    let account = locks.record("account", "7")?;
    let held = account.write_owned().await?;
    let balance = balance(store)?;
    println!("  we hold the record, and write {}", write(store, balance + 50, &held, fence)?);
    drop(held);
    locks.close().await?;

    // It goes on as if nothing had happened.
    kill_process(pid, Signal::CONT)?;
    child.stdin.take().ok_or("no input")?.write_all(b"go on\n").await?;
    while let Some(line) = said.next_line().await? {
        println!("  the slow client {line}");
    }
    child.wait().await?;
    let end = self::balance(store)?;
    println!("  the balance is {end}, {}", if end >= 50 { "ours is kept" } else { "ours is lost" });
    Ok(())
}

/// Adds 10 to the balance, and takes its time over it.
async fn slow_client(url: &str, store: &Path, fence: bool) -> Result<(), Box<dyn Error>> {
    let locks = Options::new().lease(LEASE).connect(url).await?;
    let held = locks.record("account", "7")?.write_owned().await?;
    let balance = balance(store)?;
    println!("holds the record, has read {balance}");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    // It does not look at the guard: a pause right after looking would be no different.
    println!("wakes up, and writes {}", write(store, balance + 10, &held, fence)?);
    println!("looks at its guard: valid {}", held.is_valid());
    Ok(())
}

fn balance(store: &Path) -> Result<u64, Box<dyn Error>> {
    let text = fs::read_to_string(store)?;
    Ok(text.split(' ').next().ok_or("an empty store")?.parse()?)
}

/// The store: a balance and the highest token that wrote it.
fn write(
    store: &Path,
    balance: u64,
    held: &OwnedWriteGuard,
    fence: bool,
) -> Result<String, Box<dyn Error>> {
    let token = held.token().number();
    let highest: i64 = fs::read_to_string(store)?.split(' ').nth(1).ok_or("no token")?.parse()?;
    if fence && token < highest {
        return Ok(format!("{balance}: refused, its token is too low"));
    }
    fs::write(store, format!("{balance} {token}"))?;
    Ok(format!("{balance}: accepted"))
}
