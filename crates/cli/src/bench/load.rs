//! What one client of the bench does: the only file here that knows the library.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use hdrhistogram::Histogram;
use lockspan_client::Locks;

use crate::args::BenchArgs;
use crate::exit::{Failure, UNAVAILABLE};
use crate::explain;
use crate::login;

/// What all clients count together, for the progress.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    locks: AtomicU64,
}

impl Shared {
    /// Locks so far.
    pub(crate) fn locks(&self) -> u64 {
        self.locks.load(Ordering::Relaxed)
    }
}

/// What was measured, in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Counts {
    pub(crate) read: Histogram<u64>,
    pub(crate) write: Histogram<u64>,
    /// Locks that needed no message.
    pub(crate) cached: u64,
}

impl Counts {
    pub(crate) fn new() -> Self {
        let times = || Histogram::new_with_max(600_000_000_000, 3).expect("three digits fit");
        Self { read: times(), write: times(), cached: 0 }
    }

    pub(crate) fn add(&mut self, more: &Self) {
        // They have the same bounds, so nothing is lost.
        let _ = self.read.add(&more.read);
        let _ = self.write.add(&more.write);
        self.cached += more.cached;
    }
}

/// A client with a session of its own.
pub(crate) async fn connect(args: &BenchArgs) -> Result<Locks, Failure> {
    let options = login::options().name("lockspan bench").caching(!args.uncached);
    let connected = options.connect(&args.service.url).await;
    connected.map_err(|why| explain::no_connection(&args.service.url, &why))
}

/// Locks and unlocks until the end.
pub(crate) async fn work(
    number: usize,
    locks: Locks,
    args: BenchArgs,
    end: Instant,
    shared: std::sync::Arc<Shared>,
) -> Result<Counts, Failure> {
    let failed =
        |bad: &dyn std::fmt::Display| Failure::new(UNAVAILABLE, format!("a lock failed: {bad}"));
    let mut counts = Counts::new();
    let mut random = Random(number as u64 + 1);
    let records = (0..args.records).map(|id| locks.record("bench", id.to_string()));
    let records = records.collect::<Result<Vec<_>, _>>().map_err(|bad| failed(&bad))?;
    let mut turns = 0u64;
    let mut begin = Instant::now();
    while begin < end {
        let record = &records[random.below(records.len() as u64) as usize];
        let times = if random.below(100) < args.read.into() {
            drop(record.read().await.map_err(|bad| failed(&bad))?);
            &mut counts.read
        } else {
            drop(record.write().await.map_err(|bad| failed(&bad))?);
            &mut counts.write
        };
        let now = Instant::now();
        times.saturating_record((now - begin).as_nanos() as u64);
        turns += 1;
        // A cached lock never waits, and others want the thread too.
        if turns.is_multiple_of(64) {
            shared.locks.fetch_add(64, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
        begin = Instant::now();
    }
    counts.cached = turns.saturating_sub(locks.stats().grants);
    // The measurement is done; a service that does not answer now changes nothing.
    let _ = locks.close().await;
    Ok(counts)
}

/// SplitMix64: which record is next needs no better.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % end
    }
}
