//! A Redis Cluster of three.

use std::process::Command;
use std::time::Duration;

use lockspan_client::{LockError, TroubleKind};
use lockspan_redis::Options;

use crate::line::calm;
use crate::server::Redis;
use crate::world::{cli, soon, until};

async fn cluster(more: &[&str]) -> Vec<Redis> {
    let mut nodes = Vec::new();
    for _ in 0..3 {
        // The bus of a cluster has a port of its own, 10000 above unless told.
        let bus = crate::server::free_port().to_string();
        let arguments = ["--cluster-enabled", "yes", "--cluster-port", &bus];
        nodes.push(Redis::start(&[&arguments[..], more].concat()).await);
    }
    let addresses = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port));
    let mut command = Command::new("redis-cli");
    command.args(["--cluster", "create"]).args(addresses).arg("--cluster-yes");
    let output = command.output().expect("these tests need redis-cli");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    for node in &nodes {
        until("the cluster is in order", || {
            cli(node, &["CLUSTER", "INFO"]).contains("cluster_state:ok")
        })
        .await;
    }
    nodes
}

fn left(nodes: &[Redis]) -> Vec<String> {
    nodes.iter().flat_map(crate::world::keys).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_hash_tags_every_record_of_a_cluster_can_be_locked() {
    let nodes = cluster(&[]).await;
    let url = format!("redis-cluster://127.0.0.1:{},127.0.0.1:{}", nodes[0].port, nodes[1].port);
    let (one, other) = (calm().connect(&url).await.unwrap(), calm().connect(&url).await.unwrap());
    for id in 0..20 {
        let (here, there) = (
            one.record("invoice", id.to_string()).unwrap(),
            other.record("invoice", id.to_string()).unwrap(),
        );
        let held = soon(here.write()).await.unwrap();
        let waiting = tokio::spawn(there.clone().write_owned());
        let line = format!("lockspan:writers:{{invoice:{id}}}");
        until("it waits", || left(&nodes).contains(&line)).await;
        let token = held.token();
        drop(held);
        let next = soon(waiting).await.unwrap().unwrap();
        assert!(next.token() > token);
        if id == 0 {
            let keys = left(&nodes);
            assert!(keys.contains(&"writelock:{invoice:0}".to_owned()), "{keys:?}");
        }
    }
    until("nothing is left", || left(&nodes).is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_hash_tags_a_cluster_refuses_and_says_what_to_do() {
    let nodes = cluster(&[]).await;
    let url = format!("redis-cluster://127.0.0.1:{}?hash_tag=no", nodes[0].port);
    let locks = Options::new().connect(&url).await.unwrap();
    let why = soon(locks.record("invoice", "42").unwrap().write_owned()).await.unwrap_err();
    let LockError::Trouble(why) = why else { panic!("{why}") };
    assert_eq!(why.kind, TroubleKind::CrossSlot, "{why}");
    assert!(why.said.contains("hash_tag"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_has_lost_a_node_says_so() {
    let mut nodes = cluster(&[]).await;
    let url = format!("redis-cluster://127.0.0.1:{}", nodes[0].port);
    let options = Options::new().patience(Duration::from_millis(500));
    let locks = options.connect(&url).await.unwrap();
    // `x:1` is in slot 15749, which is the last node's.
    let gone = locks.record("x", "1").unwrap();
    drop(soon(gone.write()).await.unwrap());
    drop(nodes.pop());
    let why = soon(gone.write()).await.unwrap_err();
    let LockError::Trouble(why) = why else { panic!("{why}") };
    let expected = [TroubleKind::Unreachable, TroubleKind::ClusterDown];
    assert!(expected.contains(&why.kind), "{why:?}");
}

/// Somebody keeps asking for what is gone; that costs nothing of what is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_part_of_a_cluster_that_is_gone_loses_its_locks() {
    let mut nodes = cluster(&["--cluster-require-full-coverage", "no"]).await;
    let url = format!("redis-cluster://127.0.0.1:{},127.0.0.1:{}", nodes[0].port, nodes[1].port);
    let options = Options::new().lease(Duration::from_secs(4)).patience(Duration::from_millis(500));
    let locks = options.connect(&url).await.unwrap();
    // `x:1` and `x:5` are in slots of the last node, `x:2` of the first.
    let (gone, here) = (locks.record("x", "1").unwrap(), locks.record("x", "2").unwrap());
    let beside = locks.record("x", "5").unwrap();
    let (gone, here) = (soon(gone.write()).await.unwrap(), soon(here.write()).await.unwrap());
    drop(nodes.pop());
    let asking = tokio::spawn(async move {
        loop {
            assert!(beside.write().await.is_err(), "it is gone");
        }
    });
    soon(gone.lost()).await;
    let end = || {
        let all = cli(&nodes[0], &["ZRANGE", "lockspan:ends:{x:2}", "0", "-1", "WITHSCORES"]);
        all.lines().last().map_or(0, |end| end.parse::<u64>().unwrap())
    };
    let first = end();
    assert!(first > 0, "it is here: {:?}", crate::world::keys(&nodes[0]));
    until("two leases have passed", || end() > first + 8_000_000).await;
    assert!(here.is_valid() && !gone.is_valid());
    asking.abort();
}
