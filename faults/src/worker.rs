//! A node under load: tasks that take records, work on the store behind them, and write down when
//! they held what.
//!
//! A node whose connection is in a *runtime apart* has it in a runtime of one thread that it can
//! stop driving for a while: nothing is sent, received or renewed then, while its tasks, in another
//! runtime, go on using guards. Guards must say by themselves when the lease is over.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use fastrand::Rng;
use lockspan::{Guard, Kind, Locks, Options, Record, Token};

use crate::clock;
use crate::journal::{Entry, Held, Journal};
use crate::process::PATIENCE;
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
    /// Whether the connection is in a runtime apart.
    pub is_apart: bool,
}

/// What a node is told while it works.
#[derive(Clone, Debug, Default)]
pub struct Orders {
    /// It is to end.
    pub is_over: Arc<AtomicBool>,
    /// Not to drive the runtime of its connection for so many milliseconds. It is set to 0 when
    /// that begins.
    pub undriven: Arc<AtomicU64>,
}

struct Node {
    job: Job,
    locks: Locks,
    store: Store,
    journal: Journal,
    is_over: Arc<AtomicBool>,
}

/// Works until told that it is over, then ends the session.
pub async fn work(job: Job, orders: Orders) -> Result<()> {
    let is_closed = Arc::new(AtomicBool::new(false));
    let (locks, apart) = if job.is_apart {
        let (locks, thread) = connect_apart(&job, &orders, &is_closed).await?;
        (locks, Some(thread))
    } else {
        (connect(&job).await?, None)
    };
    let is_over = orders.is_over;
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
    is_closed.store(true, Ordering::Relaxed);
    if let Some(thread) = apart {
        thread.join().map_err(|_| anyhow::anyhow!("the runtime apart has panicked"))?;
    }
    Ok(())
}

/// Connects in a runtime of one thread, which drives it until the connection is closed, apart from
/// the times when it is told not to.
async fn connect_apart(
    job: &Job,
    orders: &Orders,
    is_closed: &Arc<AtomicBool>,
) -> Result<(Locks, std::thread::JoinHandle<()>)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (tell, connected) = tokio::sync::oneshot::channel();
    let (job, undriven) = (job.clone(), Arc::clone(&orders.undriven));
    let is_closed = Arc::clone(is_closed);
    let thread = std::thread::spawn(move || {
        // Nobody hears it if the node is ending.
        let _ = tell.send(runtime.block_on(connect(&job)));
        while !is_closed.load(Ordering::Relaxed) {
            runtime.block_on(async { tokio::time::sleep(Duration::from_millis(5)).await });
            std::thread::sleep(Duration::from_millis(undriven.swap(0, Ordering::Relaxed)));
        }
    });
    Ok((connected.await??, thread))
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
        if spell.is_lost {
            let told = tokio::time::timeout(PATIENCE, guard.lost()).await;
            told.context("a guard is not valid, and nobody is told")?;
        }
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
        spell.note(&self.journal, token)
    }
}

/// A guard that is looked at now and then.
#[derive(Debug)]
pub struct Spell {
    record: String,
    is_write: bool,
    asked: u64,
    begin: u64,
    end: Option<u64>,
    is_lost: bool,
}

impl Spell {
    /// Of a guard that was asked for at one moment and held at another.
    #[must_use]
    pub fn new(record: &str, is_write: bool, asked: u64, begin: u64) -> Self {
        Self { record: record.to_owned(), is_write, asked, begin, end: None, is_lost: false }
    }

    /// The clock is read first: a guard that is valid later was valid then.
    pub fn look<K: Kind, R: std::borrow::Borrow<Record>>(&mut self, guard: &Guard<K, R>) {
        let now = clock::now();
        if guard.is_valid() {
            self.end = Some(now);
        } else {
            self.is_lost = true;
        }
    }

    /// Writes it down.
    pub fn note(self, journal: &Journal, token: Token) -> Result<()> {
        let token = token.number();
        let Self { record, is_write, asked, begin, end, is_lost } = self;
        if is_lost {
            journal.write(&Entry::Lost { record: record.clone(), token })?;
        }
        if let Some(end) = end {
            journal.write(&Entry::Held(Held { record, is_write, token, asked, begin, end }))?;
        }
        Ok(())
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
