//! A node that does what it is told, line by line: for tests that stop or kill it at a moment of
//! their choice. `strings` is the other end.
//!
//! | line | answer |
//! |---|---|
//! | `write RECORD`, `read RECORD` | `held TOKEN`, when it is |
//! | `try RECORD` | `held TOKEN` for writing, or `none` |
//! | `drop RECORD` | `dropped` |
//! | `valid RECORD` | `valid` or `lost` |
//! | `lost RECORD` | `lost`, when it is |
//! | `open RECORD`, `put RECORD BASE` | `value N` or `fenced MARK`, of the store |
//! | `stats` | `lost N acquires N connects N` |
//! | `spin HELD CACHED` | `spinning`: threads look at one and take the other without pause |
//! | `spun` | `valid` or `lost`, `TOKEN` or `none`: what they saw first after the clock jumped |
//!
//! A record is named as a whole, `a:1`. What can't be done is answered `error`, and why.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use lockspan::{Locks, Options, OwnedReadGuard, OwnedWriteGuard, Record};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, stdin, stdout};
use tokio::sync::mpsc::{self, Sender};

use crate::clock;
use crate::store::Store;

/// What a puppet is started with.
#[derive(Clone, Debug)]
pub struct Strings {
    /// The service.
    pub url: String,
    /// The store's folder.
    pub store: PathBuf,
    /// How long its lease is.
    pub lease: Duration,
}

enum Held {
    Write(OwnedWriteGuard),
    Read(OwnedReadGuard),
}

impl Held {
    fn token(&self) -> i64 {
        match self {
            Self::Write(guard) => guard.token().number(),
            Self::Read(guard) => guard.token().number(),
        }
    }

    fn is_valid(&self) -> bool {
        match self {
            Self::Write(guard) => guard.is_valid(),
            Self::Read(guard) => guard.is_valid(),
        }
    }

    async fn lost(&self) {
        match self {
            Self::Write(guard) => guard.lost().await,
            Self::Read(guard) => guard.lost().await,
        }
    }
}

struct Puppet {
    locks: Locks,
    store: Store,
    held: BTreeMap<String, Held>,
    lease: Duration,
    spinning: Option<Spinning>,
}

/// Threads that are in the middle of something when the process is stopped, and go on with it when
/// it is continued.
struct Spinning {
    name: String,
    looks: JoinHandle<(Held, bool)>,
    takes: JoinHandle<Option<i64>>,
}

/// Does what it reads, until there is no more to read.
pub async fn dance(strings: Strings) -> Result<()> {
    let options = Options::new().lease(strings.lease).name("puppet");
    let locks = options.connect(&strings.url).await?;
    let store = Store::new(strings.store);
    let lease = strings.lease;
    let mut puppet = Puppet { locks, store, held: BTreeMap::new(), lease, spinning: None };
    let mut lines = BufReader::new(stdin()).lines();
    let mut out = stdout();
    while let Some(line) = lines.next_line().await? {
        let answer = match puppet.obey(&line).await {
            Ok(answer) => answer,
            Err(why) => format!("error {why:#}"),
        };
        out.write_all(format!("{answer}\n").as_bytes()).await?;
        out.flush().await?;
    }
    Ok(())
}

impl Puppet {
    async fn obey(&mut self, line: &str) -> Result<String> {
        let words: Vec<_> = line.split_whitespace().collect();
        Ok(match words[..] {
            ["write", name] => {
                let guard = self.locks.parse(name)?.write_owned().await?;
                self.hold(name, Held::Write(guard))
            }
            ["read", name] => {
                let guard = self.locks.parse(name)?.read_owned().await?;
                self.hold(name, Held::Read(guard))
            }
            ["try", name] => {
                let time = Duration::from_millis(100);
                match self.locks.parse(name)?.write_owned_timeout(time).await {
                    Ok(guard) => self.hold(name, Held::Write(guard)),
                    Err(lockspan::LockError::Timeout(_)) => "none".to_owned(),
                    Err(why) => return Err(why.into()),
                }
            }
            ["drop", name] => {
                self.held.remove(name).context("it is not held")?;
                "dropped".to_owned()
            }
            ["valid", name] if self.guard(name)?.is_valid() => "valid".to_owned(),
            ["valid", _] => "lost".to_owned(),
            ["lost", name] => {
                self.guard(name)?.lost().await;
                "lost".to_owned()
            }
            ["open", name] => {
                let token = self.guard(name)?.token();
                said(self.store.open(&file(name), "puppet", token)?)
            }
            ["put", name, base] => {
                let token = self.guard(name)?.token();
                said(self.store.put(&file(name), "puppet", token, base.parse()?)?)
            }
            ["stats"] => {
                let stats = self.locks.stats();
                let (lost, acquires, connects) = (stats.lost, stats.acquires, stats.connects);
                format!("lost {lost} acquires {acquires} connects {connects}")
            }
            ["spin", name, cached] => {
                let held = self.held.remove(name).context("it is not held")?;
                let (record, lease) = (self.locks.parse(cached)?, self.lease);
                let (here, mut begun) = mpsc::channel(2);
                let there = here.clone();
                let looks = spawn(move || look(held, lease, here));
                let takes = spawn(move || take(&record, lease, there));
                for _ in 0..2 {
                    begun.recv().await.context("a thread died")?;
                }
                self.spinning = Some(Spinning { name: name.to_owned(), looks, takes });
                "spinning".to_owned()
            }
            ["spun"] => {
                let Spinning { name, looks, takes } =
                    self.spinning.take().context("nobody spins")?;
                let joined = tokio::task::spawn_blocking(|| (looks.join(), takes.join())).await?;
                let (Ok((held, is_valid)), Ok(token)) = joined else { bail!("a thread died") };
                self.held.insert(name, held);
                let token = token.map_or_else(|| "none".to_owned(), |token| token.to_string());
                format!("{} {token}", if is_valid { "valid" } else { "lost" })
            }
            _ => bail!("{line:?} is nothing that a puppet can do"),
        })
    }

    fn hold(&mut self, name: &str, held: Held) -> String {
        let token = held.token();
        self.held.insert(name.to_owned(), held);
        format!("held {token}")
    }

    fn guard(&self, name: &str) -> Result<&Held> {
        self.held.get(name).context("it is not held")
    }
}

/// Runs something again and again, and returns what came of it when the clock had jumped by a lease
/// just before. Says when it has begun.
fn after_a_jump<T>(lease: Duration, begun: Sender<()>, mut run: impl FnMut() -> T) -> T {
    let mut last = clock::now();
    // There is room for it, and if nobody listens, it does not matter.
    let _ = begun.try_send(());
    loop {
        let now = clock::now();
        let done = run();
        if u128::from(now - last) > lease.as_nanos() {
            return done;
        }
        last = now;
    }
}

fn look(held: Held, lease: Duration, begun: Sender<()>) -> (Held, bool) {
    let is_valid = after_a_jump(lease, begun, || held.is_valid());
    (held, is_valid)
}

fn take(record: &Record, lease: Duration, begun: Sender<()>) -> Option<i64> {
    after_a_jump(lease, begun, || {
        let taken = record.blocking_write_timeout(Duration::from_millis(1));
        taken.ok().map(|guard| guard.token().number())
    })
}

fn said(answer: Result<u64, crate::store::Fenced>) -> String {
    match answer {
        Ok(value) => format!("value {value}"),
        Err(fenced) => format!("fenced {}", fenced.mark),
    }
}

/// A record's name as that of a file.
#[must_use]
pub fn file(record: &str) -> String {
    record.replace([':', '/'], "_")
}
