//! A fail-over by sentinels: what replication had not carried over is lost, a lock is granted
//! twice, and the token catches it at the store.

use std::process::Command;
use std::time::Duration;

use lockspan_client::Token;
use lockspan_redis::Options;

use tokio::time::Instant;

use crate::server::{Redis, free_port};
use crate::world::{SOON, cli, cli_at, record, soon, until};

/// A master, its replica, and a sentinel that watches them.
pub(crate) struct Watched {
    master: Option<Redis>,
    replica: Redis,
    sentinel: Redis,
}

impl Watched {
    pub(crate) async fn start() -> Self {
        let master = Redis::start(&[]).await;
        let port = master.port.to_string();
        let replica = Redis::start(&["--replicaof", "127.0.0.1", &port]).await;
        until("the replica follows", || {
            cli(&replica, &["INFO", "replication"]).contains("master_link_status:up")
        })
        .await;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sentinel.conf");
        let text = format!(
            "sentinel monitor locks 127.0.0.1 {port} 1\n\
             sentinel down-after-milliseconds locks 300\n\
             sentinel failover-timeout locks 2000\n"
        );
        std::fs::write(&file, text).unwrap();
        let port = free_port();
        let mut command = Command::new("redis-server");
        command.arg(&file).args(["--port", &port.to_string(), "--sentinel"]);
        let late = Instant::now() + SOON;
        let sentinel = Redis::run(command, port, folder, late).await;
        let sentinel = sentinel.expect("nobody has taken the port meanwhile");
        until("the sentinel knows the replica", || {
            cli(&sentinel, &["SENTINEL", "REPLICAS", "locks"]).contains(&replica.port.to_string())
        })
        .await;
        Self { master: Some(master), replica, sentinel }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis-sentinel://127.0.0.1:{}?master=locks", self.sentinel.port)
    }

    /// From now on the replica hears nothing of its master.
    async fn cut_replication(&self) {
        let master = self.master.as_ref().unwrap();
        // A user that the master does not know: the replica is not let in again.
        for (name, value) in [("masteruser", "nobody"), ("masterauth", "wrong")] {
            assert_eq!(cli(&self.replica, &["CONFIG", "SET", name, value]), "OK");
        }
        cli(master, &["CLIENT", "KILL", "TYPE", "replica"]);
        until("the replica is cut off", || {
            cli(&self.replica, &["INFO", "replication"]).contains("master_link_status:down")
        })
        .await;
    }

    async fn fail_over(&mut self) {
        self.master = None;
        let port = self.replica.port.to_string();
        let sentinel = self.sentinel.port;
        until("the replica is the master", || {
            cli_at(sentinel, &["SENTINEL", "MASTER", "locks"]).contains(&format!("port\n{port}\n"))
                && cli(&self.replica, &["ROLE"]).starts_with("master")
        })
        .await;
    }
}

/// A store that refuses what comes late.
#[derive(Default)]
struct Store {
    highest: Token,
}

impl Store {
    fn write(&mut self, token: Token) -> bool {
        let is_late = token < self.highest;
        self.highest = self.highest.max(token);
        !is_late
    }
}

#[test]
fn a_lock_is_granted_twice_after_a_fail_over_and_the_token_catches_it() {
    // Each has a runtime of its own, which runs only when it is told to: a process that is paused.
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (paused, running) = (runtime(), runtime());
    let mut store = Store::default();
    let mut watched = running.block_on(Watched::start());
    running.block_on(watched.cut_replication());
    let (first, _locks) = paused.block_on(async {
        let options = Options::new().lease(Duration::from_secs(120));
        let locks = options.connect(&watched.url()).await.unwrap();
        (soon(record(&locks).write_owned()).await.unwrap(), locks)
    });
    assert!(store.write(first.token()));
    let second = running.block_on(async {
        watched.fail_over().await;
        let locks = Options::new().connect(&watched.url()).await.unwrap();
        soon(record(&locks).write_owned()).await.unwrap()
    });
    assert!(first.is_valid() && second.is_valid(), "two writers: this is what Redis can do");
    assert!(second.token() > first.token(), "although the counter was lost");
    assert!(store.write(second.token()));
    assert!(!store.write(first.token()), "the store has refused the late one");
    // As soon as it runs again, the first sees that the new master does not have its lock.
    paused.block_on(async { soon(first.lost()).await });
    assert!(second.is_valid());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_goes_on_at_the_new_master() {
    let mut watched = Watched::start().await;
    let options = || Options::new().patience(Duration::from_secs(60));
    let one = options().connect(&watched.url()).await.unwrap();
    let other = options().connect(&watched.url()).await.unwrap();
    let held = soon(record(&one).write_owned()).await.unwrap();
    let waiting = tokio::spawn(record(&other).write_owned());
    until("the replica knows both", || {
        cli(&watched.replica, &["ZCARD", "lockspan:writers:invoice:42"]) == "1"
    })
    .await;
    watched.fail_over().await;
    // What was carried over is still there: nobody has lost anything.
    drop(soon(one.record("x", "1").unwrap().write_owned()).await.unwrap());
    assert!(held.is_valid());
    drop(held);
    drop(soon(waiting).await.unwrap().unwrap());
}
