//! F5 to F7: servers that die, alone or together with a node, and servers that are stopped.

use std::time::Duration;

use lockspan::{Locks, Options};
use lockspan_faults::process::{ServerProcess, info};
use lockspan_faults::stage::{Stage, soon, until};

use crate::{held, program, puppet, record, waits, write};

/// Waits until a number that the server tells is so.
async fn until_told(server: &ServerProcess, name: &str, number: u64) {
    let wait = async {
        while info(server.address).await.unwrap().get(name) != Some(&number) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(name, wait).await;
}

async fn node(server: &ServerProcess, options: Options) -> Locks {
    soon("connected", options.connect(&server.url())).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f05_a_killed_server_comes_back_to_the_same_holders_and_the_same_line() {
    let data = tempfile::tempdir().unwrap();
    let free = "127.0.0.1:0".parse().unwrap();
    let server = ServerProcess::start(program(), data.path(), free).await.unwrap();
    let options = || Options::new().lease(Duration::from_secs(40));
    let [a, b, c] = [
        node(&server, options()).await,
        node(&server, options()).await,
        node(&server, options()).await,
    ];
    let x = write(&a, "x:1").await;
    let reading = soon("y", record(&b, "y:1").read_owned()).await.unwrap();
    let cached = write(&a, "z:1").await.token();
    let first = waits(&b, "x:1");
    until_told(&server, "queued", 1).await;
    let second = waits(&c, "x:1");
    until_told(&server, "queued", 2).await;
    let (x_token, y_token, acquires) = (x.token(), reading.token(), a.stats().acquires);

    let server = server.kill_and_restart(program(), data.path()).await.unwrap();
    let late = node(&server, options()).await;
    let late_x = waits(&late, "x:1");
    let late_y = waits(&late, "y:1");
    until_told(&server, "recovering", 0).await;
    assert!(x.is_valid() && x.token() == x_token);
    assert!(reading.is_valid() && reading.token() == y_token);
    let again = write(&a, "z:1").await;
    assert_eq!((again.token(), a.stats().acquires), (cached, acquires), "it was cached all along");
    let fresh = write(&late, "w:1").await.token();
    assert!(fresh.epoch() > x_token.epoch(), "{fresh:?} after {x_token:?}");

    assert!(!late_y.is_finished() && !first.is_finished(), "nothing conflicting is granted");
    drop(x);
    let first = soon("first in line", first).await.unwrap();
    assert!(!second.is_finished() && !late_x.is_finished());
    assert!(first.token() > x_token && first.token().epoch() > x_token.epoch());
    let token = first.token();
    drop(first);
    let second = soon("second in line", second).await.unwrap();
    assert!(!late_x.is_finished() && second.token() > token);
    let token = second.token();
    drop(second);
    assert!(soon("last in line", late_x).await.unwrap().token() > token);
    drop(reading);
    assert!(soon("y", late_y).await.unwrap().token() > y_token);
    let lost: u64 = [&a, &b, &c].iter().map(|node| node.stats().lost).sum();
    assert_eq!(lost, 0);
    server.process.finish().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f06_with_a_server_dies_a_node_and_only_its_lease_is_waited_for() {
    let (mut stage, folder) = (Stage::new().await, tempfile::tempdir().unwrap());
    let mut dead = puppet(&stage.url(), folder.path(), Duration::from_secs(2));
    let old = held(&mut dead, "write a:1").await;
    // If its lease were waited for, the test would be over before.
    let other = stage.node(Options::new().lease(Duration::from_secs(60))).await;
    let kept = write(&other, "b:1").await;
    let waiting = waits(&other, "a:1");
    until("it waits", || stage.stats().queued == 1).await;

    stage.kill();
    dead.kill().await.unwrap();
    stage.restart().await;
    let stranger = stage.node(Options::new()).await;
    let free = waits(&stranger, "c:1");
    until("all who live are here", || stage.stats().claims >= 3).await;
    let got = soon("the dead node's lease ends", waiting).await.unwrap();
    assert_eq!(stage.stats().sessions, 2, "the dead node's session is over");
    assert!(got.token().number() > old);
    assert!(kept.is_valid());
    drop(soon("a free record", free).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f07_while_a_server_is_stopped_leases_end_and_then_nothing_is_held_twice() {
    let data = tempfile::tempdir().unwrap();
    let free = "127.0.0.1:0".parse().unwrap();
    let server = ServerProcess::start(program(), data.path(), free).await.unwrap();
    let a = node(&server, Options::new().lease(Duration::from_secs(1))).await;
    let b = node(&server, Options::new().lease(Duration::from_secs(1))).await;
    let held = write(&a, "x:1").await;
    let waiting = waits(&b, "x:1");
    until_told(&server, "queued", 1).await;

    server.process.stop().unwrap();
    soon("the lease ends", held.lost()).await;
    assert!(!held.is_valid() && !waiting.is_finished());
    server.process.resume().unwrap();
    let next = soon("granted to the next", waiting).await.unwrap();
    assert!(next.token() > held.token() && next.is_valid() && !held.is_valid());
    server.process.finish().await.unwrap();
}
