//! How long one of many takes, and how many there are in a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::{Builder, Runtime};

/// Cycles between two looks at the clock.
pub(crate) const BATCH: u32 = 5_000;

/// Nanoseconds of CPU time of one cycle; `batch` runs [`BATCH`] of them, and waits for nothing. A
/// tenth of the time is a warm-up.
pub(crate) fn of_batches<E: std::fmt::Display>(
    time: Duration,
    mut batch: impl FnMut() -> Result<(), E>,
) -> Result<f64, String> {
    let warm = thread_time();
    while thread_time() - warm < time / 10 {
        batch().map_err(crate::say)?;
    }
    let (start, mut batches) = (thread_time(), 0_u32);
    while thread_time() - start < time {
        batch().map_err(crate::say)?;
        batches += 1;
    }
    let taken = thread_time() - start;
    Ok(taken.as_nanos() as f64 / f64::from(batches) / f64::from(BATCH))
}

/// CPU time of this thread so far; the time of other threads and processes is not in it.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // Neither is negative.
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// CPU time of this process so far, in nanoseconds.
pub(crate) fn process_time() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Nanoseconds of one cycle that takes microseconds.
pub(crate) async fn of_cycles<E: std::fmt::Display>(
    time: Duration,
    mut cycle: impl AsyncFnMut() -> Result<(), E>,
) -> Result<f64, String> {
    let warm = Instant::now();
    while warm.elapsed() < time / 10 {
        cycle().await.map_err(crate::say)?;
    }
    let (start, mut cycles) = (Instant::now(), 0_u32);
    while start.elapsed() < time {
        cycle().await.map_err(crate::say)?;
        cycles += 1;
    }
    Ok(start.elapsed().as_nanos() as f64 / f64::from(cycles))
}

/// A runtime whose tasks all run in the thread that waits for them.
pub(crate) fn lone_runtime() -> Result<Runtime, String> {
    Builder::new_current_thread().enable_all().build().map_err(crate::say)
}

/// A runtime as `lockspan serve` has it; its peers have the same.
pub(crate) fn server_runtime() -> Result<Runtime, String> {
    let threads = lockspan_server::threads();
    Builder::new_multi_thread().worker_threads(threads).enable_all().build().map_err(crate::say)
}

/// A runtime with a thread for each processor.
pub(crate) fn wide_runtime() -> Result<Runtime, String> {
    Builder::new_multi_thread().enable_all().build().map_err(crate::say)
}

/// Tells workers when to end.
#[derive(Clone)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    pub(crate) fn is_over(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Runs workers for a time, and returns what each came to and how long it really took.
pub(crate) fn workers<T: Send + 'static, F>(
    runtime: &Runtime,
    time: Duration,
    count: usize,
    worker: impl Fn(usize, Stop) -> F,
) -> Result<(Vec<T>, Duration), String>
where
    F: Future<Output = Result<T, String>> + Send + 'static,
{
    let stop = Stop(Arc::default());
    let start = Instant::now();
    let tasks: Vec<_> = (0..count).map(|at| runtime.spawn(worker(at, stop.clone()))).collect();
    std::thread::sleep(time);
    stop.0.store(true, Ordering::Relaxed);
    let mut all = Vec::new();
    for task in tasks {
        all.push(runtime.block_on(task).map_err(crate::say)??);
    }
    Ok((all, start.elapsed()))
}

/// How many a second all workers did together; each returns how many it did.
pub(crate) fn throughput<F>(
    runtime: &Runtime,
    time: Duration,
    count: usize,
    worker: impl Fn(usize, Stop) -> F,
) -> Result<f64, String>
where
    F: Future<Output = Result<u64, String>> + Send + 'static,
{
    let (done, took) = workers(runtime, time, count, worker)?;
    Ok(done.iter().sum::<u64>() as f64 / took.as_secs_f64())
}
