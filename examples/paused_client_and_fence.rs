//! A client is stopped in the middle of a read-modify-write, for longer than its lease, and then
//! continues. Three stores show what happens: one that checks no tokens, one that checks them at
//! writes alone, and one that also checks them at the first read.
//!
//! Run: `cargo run -p lockspan-examples --bin paused_client_and_fence`
//!
//! No lock can prevent this: a program can be stopped for any time between its last look at the
//! lock and its write. When the lease expires, the server has to grant the record to another
//! client. Only the store can help. It remembers the highest token that the holder of a write lock
//! has shown it, and refuses a lower one. The holder shows its token **at its first read too**:
//! otherwise the late write can come between that read and the holder's own write, is accepted,
//! and is then overwritten.
//!
//! The client is a separate process, stopped by a signal.
#![forbid(unsafe_code)]

use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use lockspan::{Options, Token};
use lockspan_server::{Config, Data, Server};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

const LEASE: Duration = Duration::from_secs(1);

/// When the store checks the token.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fence {
    Never,
    AtWrites,
    AtFirstReadToo,
}

impl Fence {
    const ALL: [(Self, &str); 3] = [
        (Self::Never, "without a fence"),
        (Self::AtWrites, "with a fence at writes alone"),
        (Self::AtFirstReadToo, "with a fence at the first read too"),
    ];
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    if let [_, url, store, fence] = &args[..] {
        let fence = Fence::ALL.iter().find(|(_, name)| name == fence).ok_or("no such fence")?;
        return slow_client(url, &Store { path: store.into(), fence: fence.0 }).await;
    }
    let folder = tempfile::tempdir()?;
    let config = Config {
        listen: vec!["127.0.0.1:0".parse()?],
        data: Data::None { fresh: true },
        ..Config::default()
    };
    let server = Server::start(config).await?;
    let url = format!("lockspan://{}", server.addresses()[0]);
    for (at, (fence, name)) in Fence::ALL.into_iter().enumerate() {
        println!("{name}:");
        let store = Store { path: folder.path().join(at.to_string()), fence };
        fs::write(&store.path, "0 0")?;
        story(&url, &store, name).await?;
    }
    Ok(())
}

/// One update by a client that is stopped, and one by us while it is stopped.
async fn story(url: &str, store: &Store, fence: &str) -> Result<(), Box<dyn Error>> {
    let mut child = tokio::process::Command::from({
        let mut command = Command::new(std::env::current_exe()?);
        command.args([url, &store.path.display().to_string(), fence]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    })
    .kill_on_drop(true)
    .spawn()?;
    let mut said = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
    let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed())).ok_or("it has ended")?;

    // The client holds the record and has read the balance.
    let read = said.next_line().await?.ok_or("it has ended")?;
    println!("  the slow client {read}, and is stopped");
    kill_process(pid, Signal::STOP)?;

    // Its lease expires; then we get the record.
    let locks = Options::new().lease(LEASE).connect(url).await?;
    let account = locks.record("account", "7")?;
    let held = account.write_owned().await?;
    let balance = store.read(held.token())?.ok_or("refused, although we hold the record")?;
    println!("  we hold the record, and have read {balance}");

    // The client continues as if nothing had happened, between our read and our write.
    kill_process(pid, Signal::CONT)?;
    child.stdin.take().ok_or("no input")?.write_all(b"go on\n").await?;
    while let Some(line) = said.next_line().await? {
        println!("  the slow client {line}");
    }
    child.wait().await?;

    let is_lost = store.load()?.0 != balance;
    println!("  we write {}", store.write(balance + 50, held.token())?);
    let lost = if is_lost { "an accepted write is lost" } else { "no accepted write is lost" };
    println!("  the balance is {}: {lost}", store.load()?.0);
    drop(held);
    locks.close().await?;
    Ok(())
}

/// Adds 10 to the balance, with a pause between its read and its write.
async fn slow_client(url: &str, store: &Store) -> Result<(), Box<dyn Error>> {
    let locks = Options::new().lease(LEASE).connect(url).await?;
    let held = locks.record("account", "7")?.write_owned().await?;
    let balance = store.read(held.token())?.ok_or("refused, although it holds the record")?;
    println!("holds the record, has read {balance}");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    // It does not check the guard: a pause right after the check would have the same effect.
    println!("wakes up, and writes {}", store.write(balance + 10, held.token())?);
    println!("looks at its guard: valid {}", held.is_valid());
    Ok(())
}

/// A file with a balance and a mark: the highest token that the store was shown.
struct Store {
    path: PathBuf,
    fence: Fence,
}

impl Store {
    fn load(&self) -> Result<(u64, Token), Box<dyn Error>> {
        let text = fs::read_to_string(&self.path)?;
        let (balance, mark) = text.split_once(' ').ok_or("not a store")?;
        Ok((balance.parse()?, mark.parse()?))
    }

    /// The first read of a holder of the write lock. `None` if it is refused.
    fn read(&self, token: Token) -> Result<Option<u64>, Box<dyn Error>> {
        let (balance, mark) = self.load()?;
        if self.fence == Fence::AtFirstReadToo {
            if token < mark {
                return Ok(None);
            }
            fs::write(&self.path, format!("{balance} {token}"))?;
        }
        Ok(Some(balance))
    }

    fn write(&self, balance: u64, token: Token) -> Result<String, Box<dyn Error>> {
        let (before, mark) = self.load()?;
        if self.fence != Fence::Never && token < mark {
            return Ok(format!("{balance}: refused, its token is too low"));
        }
        fs::write(&self.path, format!("{balance} {token}"))?;
        Ok(format!("{balance} over {before}: accepted"))
    }
}
