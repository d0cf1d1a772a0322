//! A node under load: tasks that take records, work on the store behind them, and write down when
//! they held what.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use fastrand::Rng;
use lockspan::{Guard, Kind, Locks, Options, Record, Token};

use crate::clock;
use crate::journal::{Entry, Held, Journal};
use crate::store::Store;

/// What a node is to do.
#[derive(Clone, Debug)]
pub struct Job {
    /// The service.
    pub url: String,
    /// What it is called in logs.
    pub name: String,
    /// The store's folder.
    pub store: PathBuf,
    /// Where to write down what was held.
    pub journal: PathBuf,
    /// How long its lease is.
    pub lease: Duration,
    /// Between how many records it chooses.
    pub records: u32,
    /// How many tasks it has.
    pub tasks: u32,
    /// For its choices.
    pub seed: u64,
}

struct Node {
    job: Job,
    locks: Locks,
    store: Store,
    journal: Journal,
    is_over: Arc<AtomicBool>,
}

/// Works until told that it is over, then ends the session.
pub async fn work(job: Job, is_over: Arc<AtomicBool>) -> Result<()> {
    let locks = connect(&job).await?;
    let node = Arc::new(Node {
        store: Store::new(&job.store),
        journal: Journal::create(&job.journal).context("the journal")?,
        locks,
        job,
        is_over,
    });
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..node.job.tasks {
        let rng = Rng::with_seed(node.job.seed ^ u64::from(number) << 40);
        tasks.spawn(Arc::clone(&node).run(rng));
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    // Whether the server has heard it does not matter: its lease ends by itself.
    let _ = node.locks.clone().close().await;
    Ok(())
}

/// The server may be down just now.
async fn connect(job: &Job) -> Result<Locks> {
    let options =
        Options::new().lease(job.lease).name(&job.name).idle(job.lease * 2).try_for(job.lease / 10);
    loop {
        match options.clone().connect(&job.url).await {
            Ok(locks) => return Ok(locks),
            Err(lockspan::ConnectError::Unreachable { .. }) => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(why) => return Err(why).context("no connection"),
        }
    }
}

impl Node {
    async fn run(self: Arc<Self>, mut rng: Rng) -> Result<()> {
        while !self.is_over.load(Ordering::Relaxed) {
            let number = rng.u32(..self.job.records);
            let name = format!("r{number}");
            let record = self.locks.record("r", number.to_string())?;
            match rng.u32(..10) {
                0..7 => self.write(&record, &name, &mut rng).await?,
                7 => self.read_then_write(&record, &name, &mut rng).await?,
                _ => self.read(&record, &name, &mut rng).await?,
            }
            if rng.bool() {
                pause(&mut rng, 3_000).await;
            }
        }
        Ok(())
    }

    async fn write(&self, record: &Record, name: &str, rng: &mut Rng) -> Result<()> {
        let asked = clock::now();
        let guard = record.write().await?;
        let begin = clock::now();
        let mut spell = Spell::new(name, true, asked, begin);
        self.update(name, guard.token(), rng, &mut || spell.look(&guard)).await?;
        spell.look(&guard);
        self.note(spell, guard.token())?;
        if rng.u32(..4) == 0 {
            // The reader that it becomes is not alone any more.
            let asked = clock::now();
            let guard = guard.downgrade();
            let mut spell = Spell::new(name, false, asked, clock::now());
            pause(rng, 1_000).await;
            spell.look(&guard);
            self.note(spell, guard.token())?;
        }
        Ok(())
    }

    async fn read(&self, record: &Record, name: &str, rng: &mut Rng) -> Result<()> {
        let asked = clock::now();
        let guard = record.read().await?;
        let mut spell = Spell::new(name, false, asked, clock::now());
        for _ in 0..rng.u32(1..4) {
            spell.look(&guard);
            pause(rng, 1_000).await;
        }
        spell.look(&guard);
        self.note(spell, guard.token())
    }

    async fn read_then_write(&self, record: &Record, name: &str, rng: &mut Rng) -> Result<()> {
        let asked = clock::now();
        let guard = record.read().await?;
        let mut reading = Spell::new(name, false, asked, clock::now());
        pause(rng, 1_000).await;
        reading.look(&guard);
        let token = guard.token();
        let asked = clock::now();
        let upgraded = guard.upgrade().await;
        self.note(reading, token)?;
        // Refused: somebody else was first, or the lease has ended.
        let Ok(guard) = upgraded else { return Ok(()) };
        let mut writing = Spell::new(name, true, asked, clock::now());
        self.update(name, guard.token(), rng, &mut || writing.look(&guard)).await?;
        writing.look(&guard);
        self.note(writing, guard.token())
    }

    /// Adds one to what is stored, without looking whether the guard is still good: that is the
    /// fence's business.
    async fn update(
        &self,
        name: &str,
        token: Token,
        rng: &mut Rng,
        look: &mut (impl FnMut() + Send),
    ) -> Result<()> {
        look();
        let fenced = || {
            let (record, token) = (name.to_owned(), token.number());
            self.journal.write(&Entry::Fenced { record, token })
        };
        let token = token.number();
        let Ok(base) = self.store.open(name, &self.job.name, token)? else {
            return Ok(fenced()?);
        };
        // Now and then for long, so that faults find somebody inside.
        let looks = if rng.u32(..8) == 0 { rng.u32(..200) } else { rng.u32(..2) };
        for _ in 0..looks {
            pause(rng, 20_000).await;
            look();
        }
        if self.store.put(name, &self.job.name, token, base)?.is_err() {
            fenced()?;
        }
        look();
        Ok(())
    }

    fn note(&self, spell: Spell, token: Token) -> Result<()> {
        let token = token.number();
        if spell.is_lost {
            self.journal.write(&Entry::Lost { record: spell.record.clone(), token })?;
        }
        if let Some(end) = spell.end {
            let Spell { record, is_write, asked, begin, .. } = spell;
            self.journal.write(&Entry::Held(Held {
                record,
                is_write,
                token,
                asked,
                begin,
                end,
            }))?;
        }
        Ok(())
    }
}

/// A guard that is looked at now and then.
struct Spell {
    record: String,
    is_write: bool,
    asked: u64,
    begin: u64,
    end: Option<u64>,
    is_lost: bool,
}

impl Spell {
    fn new(record: &str, is_write: bool, asked: u64, begin: u64) -> Self {
        Self { record: record.to_owned(), is_write, asked, begin, end: None, is_lost: false }
    }

    /// The clock is read first: a guard that is valid later was valid then.
    fn look<K: Kind, R: std::borrow::Borrow<Record>>(&mut self, guard: &Guard<K, R>) {
        let now = clock::now();
        if guard.is_valid() {
            self.end = Some(now);
        } else {
            self.is_lost = true;
        }
    }
}

/// A while of at most so many microseconds, sometimes none; not always in the hands of a timer.
async fn pause(rng: &mut Rng, most: u64) {
    match rng.u32(..3) {
        0 => {}
        1 => tokio::task::yield_now().await,
        _ => tokio::time::sleep(Duration::from_micros(rng.u64(..most))).await,
    }
}
