//! What the tests share: nodes, and a look at Redis from outside.
//!
//! A look blocks its thread, so each test has a runtime whose other threads look after the nodes.

use std::process::Command;
use std::time::Duration;

use lockspan_client::{Locks, Record};
use lockspan_redis::Options;
use tokio::time::{Instant, sleep, timeout};

use crate::server::Redis;

/// So long that only what never happens takes longer.
pub(crate) const SOON: Duration = Duration::from_secs(30);

pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(SOON, future).await.expect("it takes too long")
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let late = Instant::now() + SOON;
    while !is_so() {
        assert!(Instant::now() < late, "it never came to be that {what}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until there is no lock, no line and no end any more.
pub(crate) async fn emptied(redis: &Redis) {
    let late = Instant::now() + SOON;
    loop {
        let left = keys(redis);
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < late, "these are left: {left:?}");
        sleep(Duration::from_millis(10)).await;
    }
}

pub(crate) async fn node(redis: &Redis, options: Options) -> Locks {
    options.connect(&redis.url()).await.unwrap()
}

pub(crate) fn record(locks: &Locks) -> Record {
    locks.record("invoice", "42").unwrap()
}

/// What `redis-cli` prints.
pub(crate) fn cli(redis: &Redis, arguments: &[&str]) -> String {
    cli_at(redis.port, arguments)
}

/// The same, at any port.
pub(crate) fn cli_at(port: u16, arguments: &[&str]) -> String {
    let mut command = Command::new("redis-cli");
    let command = command.args(["-p", &port.to_string()]).args(arguments);
    let output = command.output().expect("these tests need redis-cli");
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

/// All keys but the counters of tokens, of which there is one a slot.
pub(crate) fn keys(redis: &Redis) -> Vec<String> {
    let all = cli(redis, &["KEYS", "*"]);
    let mut keys: Vec<String> = all
        .lines()
        .filter(|key| !key.is_empty() && !key.starts_with("lockspan:fence:"))
        .map(str::to_owned)
        .collect();
    keys.sort();
    keys
}

/// A node in a runtime of its own, with the record held for writing. Dropping the runtime without
/// closing is the death of a process, as far as Redis can see.
pub(crate) struct Doomed {
    runtime: Option<tokio::runtime::Runtime>,
    pub(crate) locks: Locks,
}

impl Doomed {
    pub(crate) async fn connect(redis: &Redis, options: Options) -> Self {
        let url = redis.url();
        let made = tokio::task::spawn_blocking(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .unwrap();
            let locks = runtime.block_on(options.connect(&url)).unwrap();
            (runtime, locks)
        });
        let (runtime, locks) = made.await.unwrap();
        Self { runtime: Some(runtime), locks }
    }

    /// Spawns in the runtime that will die.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> tokio::task::JoinHandle<T> {
        self.runtime.as_ref().unwrap().spawn(future)
    }

    pub(crate) fn die(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Doomed {
    fn drop(&mut self) {
        self.die();
    }
}
