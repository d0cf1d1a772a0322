//! Many tasks and threads of many nodes on few records, with everything that makes it hard: waits
//! that are dropped, upgrades, nodes that close or cache nothing, connections that break. Nobody
//! may hold beside a writer, everybody is served, and in the end everything is free.
//!
//! `STRESS_SEED` chooses the run, `STRESS_ROUNDS` how many runs there are. A seed fixes what is
//! tried, not how the threads of the machine take turns.

#![forbid(unsafe_code)]

mod life;
mod proxy;
mod rng;
mod turns;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use lockspan_client::Options;
use lockspan_server::{Address, Config, Data, Server};
use tokio::time::timeout;

use life::Plan;
use proxy::Proxy;
use rng::Rng;
use watch::Watch;

/// How long a round may take.
const LONG: Duration = Duration::from_secs(180);

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// Runs the rounds, each with its own seed.
async fn rounds(what: &str, url: &str, plan: Plan) {
    let first = number("STRESS_SEED", 1);
    for seed in first..first + number("STRESS_ROUNDS", 1) {
        eprintln!("{what}: STRESS_SEED={seed}");
        let watch = Arc::new(Watch::new(plan.records));
        let mut rng = Rng::new(seed);
        let nodes = (0..plan.nodes).map(|node| {
            tokio::spawn(life::live(url.to_owned(), plan, Arc::clone(&watch), rng.split(), node))
        });
        let nodes: Vec<_> = nodes.collect();
        let all = async {
            for node in nodes {
                node.await.unwrap();
            }
        };
        let served = timeout(LONG, all).await;
        assert!(served.is_ok(), "{what}: STRESS_SEED={seed}: not everybody was served");
        let after = Options::new().connect(url).await.unwrap();
        for record in 0..plan.records {
            let record = watch::record(&after, record);
            let free = timeout(plan.free_in, record.write()).await;
            assert!(free.is_ok(), "{what}: STRESS_SEED={seed}: {record:?} is not free");
            drop(free.unwrap().unwrap());
        }
        eprintln!("{what}: STRESS_SEED={seed}: {}", watch.summary());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn everybody_is_served_by_a_service_in_this_process() {
    rounds("memory", "memory:stress", Plan::default()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn everybody_is_served_by_a_server_behind_connections_that_break() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("lock.sock");
    let config = Config {
        listen: vec![Address::Unix(socket.clone())],
        data: Data::Dir(folder.path().join("data")),
        ..Config::default()
    };
    let server = Server::start(config).await.unwrap();
    let proxy = Proxy::start(&socket, folder.path().join("proxy.sock"), Rng::new(7));
    // What a node did not get to say when it ended is over with its lease.
    let plan =
        Plan { free_in: Duration::from_secs(20), lease: Duration::from_secs(2), ..Plan::default() };
    rounds("proxy", &proxy.url(), plan).await;
    drop(proxy);
    server.stop().await;
}
