//! A record that the node has cached, acquired and released by one thread.

use std::hint::black_box;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use hashbrown::{DefaultHashBuilder, HashMap};
use lockspan::{Locks, Name, Options, Record};
use parking_lot_013::RwLock as Peer;
use rustix::time::{ClockId, clock_gettime};

use crate::args::Args;
use crate::contest::{Contest, Id, Rounds};
use crate::process::Process;
use crate::report::format::time;
use crate::report::{Report, Row, TIMES, Target};
use crate::stats::Spread;
use crate::timing::{BATCH, lone_runtime, of_batches};
use crate::{allocations, say};

pub(crate) const FAMILY: &str = "cached";

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
            // What it gave stays where it is, as a variable of its user would.
            match $cycle {
                held => black_box(&held),
            };
        }
        Ok::<(), lockspan::LockError>(())
    }};
}

pub(crate) fn run(args: &Args, report: &mut Report) -> Result<(), String> {
    report.cell("A cached record, one thread: CPU time of a cycle");
    let server = Process::lockspan()?;
    let options = Options::new().lease(Duration::from_secs(60));
    let locks = options.blocking_connect(&server.url()).map_err(say)?;
    let name = Name::new("cached", "1").map_err(say)?;
    let record = locks.named(&name);
    drop(record.blocking_write().map_err(say)?);

    let (sample, runtime, peer, map) =
        (args.time(20), lone_runtime()?, Peer::new(0_u64), Map::new(&name));
    let (runtime, record) = (&runtime, &record);
    let mut contest = Contest::new(FAMILY, "");
    let peers = Peers {
        clock: contest.enter("clock_gettime", &["ns"], || {
            of_batches(sample, || batch!(clock_gettime(ClockId::Boottime)))
        }),
        read: contest
            .enter("parking_lot read", &["ns"], || of_batches(sample, || batch!(peer.read()))),
        write: contest
            .enter("parking_lot write", &["ns"], || of_batches(sample, || batch!(peer.write()))),
        map: contest.enter("map of 64", &["ns"], || {
            of_batches(sample, || batch!(map.get(black_box(&name))))
        }),
    };
    let (locks, name) = (&locks, &name);
    let read = contest.enter("read, async", &["ns"], || {
        of_batches(sample, || runtime.block_on(async { batch!(record.read().await?) }))
    });
    let write = contest.enter("write, async", &["ns"], || {
        of_batches(sample, || runtime.block_on(async { batch!(record.write().await?) }))
    });
    let blocking_read = contest.enter("read, blocking", &["ns"], || {
        of_batches(sample, || batch!(record.blocking_read()?))
    });
    let blocking_write = contest.enter("write, blocking", &["ns"], || {
        of_batches(sample, || batch!(record.blocking_write()?))
    });
    let read_named = contest.enter("read by name", &["ns"], || {
        let batch = async || batch!(locks.named(black_box(name)).read().await?);
        of_batches(sample, || runtime.block_on(batch()))
    });
    let write_named = contest.enter("write by name", &["ns"], || {
        let batch = async || batch!(locks.named(black_box(name)).write().await?);
        of_batches(sample, || runtime.block_on(batch()))
    });
    let rounds = contest.run(args.rounds(25), report)?;
    for (what, id, peer, searches) in [
        ("read, async", read, peers.read, 0.0),
        ("write, async", write, peers.write, 0.0),
        ("read, blocking", blocking_read, peers.read, 0.0),
        ("write, blocking", blocking_write, peers.write, 0.0),
        ("read by name", read_named, peers.read, SEARCHES),
        ("write by name", write_named, peers.write, SEARCHES),
    ] {
        report.row(budget(&rounds, what, id, peer, &peers, searches));
    }
    count(report, locks, record, name)
}

/// A row that compares with the sum of what the peers take.
fn budget(rounds: &Rounds, what: &str, id: Id, peer: Id, peers: &Peers, searches: f64) -> Row {
    let allowed =
        |of: &dyn Fn(Id) -> f64| CYCLES * of(peer) + of(peers.clock) + searches * of(peers.map);
    let median = |id| time(rounds.median(id));
    let mut compared_with =
        format!("{CYCLES} x parking_lot ({}) + clock ({})", median(peer), median(peers.clock));
    if searches > 0.0 {
        compared_with += &format!(" + {searches} x map of 64 ({})", median(peers.map));
    }
    let result = rounds.of(|of| of(id) / allowed(of));
    compared_with += &format!(" = {}", time(rounds.of(allowed).median));
    Row {
        what: what.to_owned(),
        ours: median(id),
        compared_with,
        result: Some(result),
        unit: TIMES,
        target: Target::AtMost(1.0),
    }
}

/// What cached cycles allocate and say: nothing.
fn count(report: &mut Report, locks: &Locks, record: &Record, name: &Name) -> Result<(), String> {
    const CYCLES: u32 = 100_000;
    /// Of one turn.
    const ACQUIRES: u32 = 5;
    let runtime = lone_runtime()?;
    let messages = || locks.stats().told + locks.stats().heard;
    let (allocated, said) = runtime
        .block_on(async {
            let (mut allocated, mut said) = (0, 0);
            for cycle in 0..2 * CYCLES / ACQUIRES {
                // The first half is a warm-up: the runtime allocates when it first lets others run.
                if cycle == CYCLES / ACQUIRES {
                    (allocated, said) = (allocations::count(), messages());
                }
                drop(record.read().await?);
                drop(record.write().note("nightly import").await?);
                drop(record.blocking_write()?);
                drop(locks.named(name).write().await?);
                drop(locks.named(name).blocking_read()?);
            }
            Ok::<_, lockspan::LockError>((allocations::count() - allocated, messages() - said))
        })
        .map_err(say)?;
    report.once(
        FAMILY,
        format!("{CYCLES} cycles"),
        &[("allocations", allocated as f64), ("messages", said as f64)],
    );
    for (what, count) in [("allocations", allocated), ("messages", said)] {
        report.row(Row {
            what: format!("{what} in {CYCLES} cycles"),
            ours: count.to_string(),
            compared_with: String::new(),
            result: Some(Spread::one(count as f64)),
            unit: "",
            target: Target::AtMost(0.0),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cached_acquire_with_a_note_allocates_nothing() {
        let allocated = lone_runtime().unwrap().block_on(async {
            let locks = lockspan::connect("memory:").await.unwrap();
            let record = locks.record("invoice", 42).unwrap();
            let mut before = 0;
            for cycle in 0..2000 {
                // The first half brings the record here, and the runtime to its last size.
                if cycle == 1000 {
                    before = allocations::count();
                }
                drop(record.write().note("nightly import").await.unwrap());
                drop(record.read().note("report").await.unwrap());
                assert!(record.write().note("two\nlines").await.is_err(), "cached or not");
            }
            allocations::count() - before
        });
        assert_eq!(allocated, 0);
    }
}
