//! A record that the node has cached: taken and left by one thread.

use std::hint::black_box;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use hashbrown::{DefaultHashBuilder, HashMap};
use lockspan::{Locks, Name, Options, Record};
use parking_lot_013::RwLock as Peer;
use rustix::time::{ClockId, clock_gettime};

use crate::args::Args;
use crate::contest::{Contest, Id, Rounds, Spread};
use crate::process::Process;
use crate::report::{Report, Row, TIMES, Target, time};
use crate::timing::{BATCH, lone_runtime, of_batches};
use crate::{allocations, say};

/// What a cached cycle may cost, in cycles of parking_lot's lock; a reading of the clock comes on
/// top.
const CYCLES: f64 = 2.5;
/// What finding it by name may cost on top of that, in searches of a map.
const SEARCHES: f64 = 2.0;

/// A node's map without a node.
struct Map {
    shards: Vec<RwLock<HashMap<Name, Arc<u64>>>>,
    hasher: DefaultHashBuilder,
}

impl Map {
    fn new(name: &Name) -> Self {
        let hasher = DefaultHashBuilder::default();
        let this = Self { shards: (0..64).map(|_| RwLock::default()).collect(), hasher };
        let mut shard = this.shard(name).write().unwrap_or_else(PoisonError::into_inner);
        shard.insert(name.clone(), Arc::new(0));
        drop(shard);
        this
    }

    fn shard(&self, name: &Name) -> &RwLock<HashMap<Name, Arc<u64>>> {
        use std::hash::BuildHasher as _;
        &self.shards[(self.hasher.hash_one(name) >> 32) as usize % self.shards.len()]
    }

    fn get(&self, name: &Name) -> Option<Arc<u64>> {
        self.shard(name).read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }
}

/// What the budget is made of.
#[derive(Clone, Copy)]
struct Peers {
    clock: Id,
    read: Id,
    write: Id,
    map: Id,
}

/// Repeats what may fail.
macro_rules! batch {
    ($cycle:expr) => {{
        for _ in 0..BATCH {
            finish($cycle);
        }
        Ok::<(), lockspan::LockError>(())
    }};
}

/// The end of a cycle: the compiler has to let it begin, and to drop what it gave.
#[inline(always)]
fn finish<T>(held: T) {
    let _ = black_box(held);
}

pub(crate) fn run(args: &Args, report: &mut Report) -> Result<(), String> {
    report.cell("A cached record, one thread");
    let server = Process::lockspan()?;
    let options = Options::new().lease(Duration::from_secs(60));
    let locks = options.blocking_connect(&server.url()).map_err(say)?;
    let name = Name::new("cached", "1").map_err(say)?;
    let record = locks.named(&name);
    drop(record.blocking_write().map_err(say)?);

    let (sample, runtime, peer, map) =
        (args.time(20), lone_runtime()?, Peer::new(0_u64), Map::new(&name));
    let (runtime, record) = (&runtime, &record);
    let mut contest = Contest::default();
    let peers = Peers {
        clock: contest.enter(|| of_batches(sample, || batch!(clock_gettime(ClockId::Boottime)))),
        read: contest.enter(|| of_batches(sample, || batch!(peer.read()))),
        write: contest.enter(|| of_batches(sample, || batch!(peer.write()))),
        map: contest.enter(|| of_batches(sample, || batch!(map.get(black_box(&name))))),
    };
    let ours = [
        (
            "read, async",
            false,
            contest.enter(|| {
                runtime.block_on(async_batches(sample, async || batch!(record.read().await?)))
            }),
        ),
        (
            "write, async",
            true,
            contest.enter(|| {
                runtime.block_on(async_batches(sample, async || batch!(record.write().await?)))
            }),
        ),
        (
            "read, blocking",
            false,
            contest.enter(|| of_batches(sample, || batch!(record.blocking_read()?))),
        ),
        (
            "write, blocking",
            true,
            contest.enter(|| of_batches(sample, || batch!(record.blocking_write()?))),
        ),
    ];
    let (locks, name) = (&locks, &name);
    let named = [
        (
            "read by name",
            false,
            contest.enter(|| {
                let cycle = async || batch!(locks.named(black_box(name)).read().await?);
                runtime.block_on(async_batches(sample, cycle))
            }),
        ),
        (
            "write by name",
            true,
            contest.enter(|| {
                let cycle = async || batch!(locks.named(black_box(name)).write().await?);
                runtime.block_on(async_batches(sample, cycle))
            }),
        ),
    ];
    let rounds = contest.run(args.rounds(25))?;
    for (what, writes, id) in ours {
        report.row(budget(&rounds, what, id, peers, writes, 0.0));
    }
    for (what, writes, id) in named {
        report.row(budget(&rounds, what, id, peers, writes, SEARCHES));
    }
    count(report, locks, record, name)
}

/// The same as [`of_batches`], for batches that are awaited.
async fn async_batches<E: std::fmt::Display>(
    sample: Duration,
    mut batch: impl AsyncFnMut() -> Result<(), E>,
) -> Result<f64, String> {
    let cycle = crate::timing::of_cycles(sample, async || batch().await);
    Ok(cycle.await? / f64::from(BATCH))
}

/// A row that compares with the sum of what the peers take.
fn budget(rounds: &Rounds, what: &str, id: Id, peers: Peers, writes: bool, searches: f64) -> Row {
    let peer = if writes { peers.write } else { peers.read };
    let allowed =
        |of: &dyn Fn(Id) -> f64| CYCLES * of(peer) + of(peers.clock) + searches * of(peers.map);
    let median = |id| time(rounds.median(id));
    let mut beside =
        format!("{CYCLES} x parking_lot ({}) + clock ({})", median(peer), median(peers.clock));
    if searches > 0.0 {
        beside += &format!(" + {searches} x map of 64 ({})", median(peers.map));
    }
    let result = rounds.of(|of| of(id) / allowed(of));
    beside += &format!(" = {}", time(rounds.of(allowed).median));
    Row {
        what: what.to_owned(),
        ours: median(id),
        beside,
        result: Some(result),
        unit: TIMES,
        target: Target::AtMost(1.0),
    }
}

/// What cached cycles allocate and say: nothing.
fn count(report: &mut Report, locks: &Locks, record: &Record, name: &Name) -> Result<(), String> {
    const CYCLES: u32 = 100_000;
    let runtime = lone_runtime()?;
    let messages = || locks.stats().told + locks.stats().heard;
    let (allocated, said) = runtime
        .block_on(async {
            let (allocated, said) = (allocations::count(), messages());
            for _ in 0..CYCLES / 4 {
                drop(record.read().await?);
                drop(record.blocking_write()?);
                drop(locks.named(name).write().await?);
                drop(locks.named(name).blocking_read()?);
            }
            Ok::<_, lockspan::LockError>((allocations::count() - allocated, messages() - said))
        })
        .map_err(say)?;
    for (what, count) in [("allocations", allocated), ("messages", said)] {
        report.row(Row {
            what: format!("{what} in {CYCLES} cycles"),
            ours: count.to_string(),
            beside: String::new(),
            result: Some(Spread::one(count as f64)),
            unit: "",
            target: Target::AtMost(0.0),
        });
    }
    Ok(())
}
