//! What a recorder of the `metrics` façade hears of nodes and a real server: every number is true.

#![forbid(unsafe_code)]

mod read;

use std::path::Path;
use std::time::{Duration, Instant};

use lockspan_client::{Handoff, Locks, Options, Record};
use lockspan_server::{Address, Config, Data, Server};
use tokio::time::timeout;

use read::{promtool, recorder, value};

const SOON: Duration = Duration::from_secs(20);

async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(SOON, future).await.expect("it takes too long")
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let late = Instant::now() + SOON;
    while !is_so() {
        assert!(Instant::now() < late, "not in time: {what}\n{}", recorder().render());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn serve(folder: &Path) -> Server {
    serve_data(folder, "data").await
}

/// A server whose data directory has this name. With another name it knows no earlier session.
async fn serve_data(folder: &Path, data: &str) -> Server {
    let mut config = Config {
        listen: vec![Address::Unix(folder.join("lock.sock"))],
        data: Data::Dir(folder.join(data)),
        ..Config::default()
    };
    config.protocol.ttl_min = Duration::from_millis(100);
    Server::start(config).await.unwrap()
}

/// A node. However slow the machine is, no lease ends unless it is to.
async fn node(folder: &Path, options: Options) -> Locks {
    recorder();
    options.connect(&format!("unix://{}", folder.join("lock.sock").display())).await.unwrap()
}

fn options() -> Options {
    Options::new().lease(SOON * 3)
}

/// A sample of one datatype.
fn of(record: &Record, name: &str) -> f64 {
    let datatype = String::from_utf8_lossy(record.name().datatype()).into_owned();
    value(&format!("lockspan_client_{name}{{datatype=\"{datatype}\"}}")).unwrap_or(0.0)
}

/// A sample of one datatype and mode.
fn of_mode(record: &Record, name: &str, mode: &str) -> f64 {
    let datatype = String::from_utf8_lossy(record.name().datatype()).into_owned();
    let labels = format!("{{datatype=\"{datatype}\",mode=\"{mode}\"}}");
    value(&format!("lockspan_client_{name}{labels}")).unwrap_or(0.0)
}

#[tokio::test(flavor = "multi_thread")]
async fn cached_acquires_are_counted_by_mode_and_nothing_is_sent_for_them() {
    let folder = tempfile::tempdir().unwrap();
    let _server = serve(folder.path()).await;
    let locks = node(folder.path(), options()).await;
    let record = locks.record("cached", "1").unwrap();
    drop(soon(record.write()).await.unwrap());
    for _ in 0..5 {
        drop(soon(record.read()).await.unwrap());
    }
    let threads = (0..4).map(|_| {
        let record = record.clone();
        std::thread::spawn(move || {
            for _ in 0..1000 {
                drop(record.blocking_read().unwrap());
            }
        })
    });
    threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
    for _ in 0..7 {
        drop(record.blocking_write().unwrap());
    }
    locks.publish_metrics();
    assert_eq!(of_mode(&record, "cached_acquires_total", "read"), 4005.0);
    assert_eq!(of_mode(&record, "cached_acquires_total", "write"), 7.0);
    assert_eq!(of_mode(&record, "sent_acquires_total", "read"), 0.0);
    let sent = locks.stats().acquires as f64;
    assert_eq!(of_mode(&record, "sent_acquires_total", "write"), sent);
    assert_eq!(of(&record, "wait_seconds_count"), 1.0);
    assert_eq!(of(&record, "waiting_acquires"), 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_goes_from_node_to_node_is_counted_on_both_ends() {
    let folder = tempfile::tempdir().unwrap();
    let _server = serve(folder.path()).await;
    let one = node(folder.path(), options()).await;
    let other = node(folder.path(), options().handoff(Handoff::Retry)).await;
    let (ours, theirs) = (one.record("moved", "1").unwrap(), other.record("moved", "1").unwrap());
    let held = soon(ours.write()).await.unwrap();
    let waiting = tokio::spawn({
        let theirs = theirs.clone();
        async move { theirs.read_owned().await.map(drop) }
    });
    until("it is wanted back", || one.stats().revokes > 0).await;
    one.publish_metrics();
    assert_eq!(of(&ours, "waiting_acquires"), 1.0);
    drop(held);
    soon(waiting).await.unwrap().unwrap();
    one.publish_metrics();
    let (mine, their) = (one.stats(), other.stats());
    let both = |of: fn(&lockspan_client::Stats) -> u64| (of(&mine) + of(&their)) as f64;
    assert!(their.retries > 0, "{their:?}");
    assert_eq!(of(&ours, "revokes_total"), both(|it| it.revokes));
    assert_eq!(of(&ours, "retries_total"), both(|it| it.retries));
    assert_eq!(of(&ours, "handovers_total"), 1.0);
    assert_eq!(of_mode(&ours, "grants_total", "write"), mine.grants as f64);
    assert_eq!(of_mode(&ours, "grants_total", "read"), their.grants as f64);
    assert_eq!(of_mode(&ours, "sent_acquires_total", "read"), their.acquires as f64);
    assert_eq!(of(&ours, "waiting_acquires"), 0.0);
    assert_eq!(of(&ours, "wait_seconds_count"), 2.0);
    assert!(of(&ours, "wait_seconds_sum") > 0.0);
    assert_eq!(of(&ours, "lost_grants_total"), 0.0);
    // The writer had to go; what the reader has is still there.
    let done = of(&ours, "hold_seconds_count");
    other.give_back_idle();
    until("it is given back", || of(&ours, "hold_seconds_count") > done).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_gives_up_waits_no_more_and_is_no_wait_that_ended() {
    let folder = tempfile::tempdir().unwrap();
    let _server = serve(folder.path()).await;
    let (one, other) = (node(folder.path(), options()).await, node(folder.path(), options()).await);
    let (ours, theirs) = (one.record("left", "1").unwrap(), other.record("left", "1").unwrap());
    let held = soon(ours.read()).await.unwrap();
    let before = of(&ours, "wait_seconds_count");
    let short = Duration::from_millis(20);
    assert!(theirs.write_timeout(short).await.is_err());
    assert!(theirs.blocking_write_timeout(short).is_err());
    let mut upgrading = Box::pin(held.upgrade());
    assert!(timeout(SOON, upgrading.as_mut()).await.unwrap().is_ok());
    other.publish_metrics();
    assert_eq!(of(&ours, "waiting_acquires"), 0.0);
    // The upgrade is the only one.
    assert_eq!(of(&ours, "wait_seconds_count"), before + 1.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_lost_and_a_connection_that_is_made_anew_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path()).await;
    let locks = node(folder.path(), options()).await;
    let record = locks.record("lost", "1").unwrap();
    let held = soon(record.write()).await.unwrap();
    assert_eq!(locks.stats().lost_leases, 0);
    server.stop().await;
    drop(server);
    // The next server does not know the session, so the lease is lost however long it is. The
    // lease of the next session is long too: nothing but the restart ends one.
    let _server = serve_data(folder.path(), "other data").await;
    soon(held.lost()).await;
    until("the loss is seen", || locks.stats().lost_leases == 1).await;
    drop(held);
    drop(soon(record.write()).await.unwrap());
    locks.publish_metrics();
    assert_eq!(of(&record, "lost_grants_total"), 1.0);
    assert_eq!(value("lockspan_client_lost_leases_total"), Some(1.0));
    assert_eq!(value("lockspan_client_reconnects_total"), Some(1.0));
    assert_eq!(of(&record, "hold_seconds_count"), 1.0);
    let stats = locks.stats();
    for (name, at_least) in [
        ("sent_bytes_total", stats.sent_bytes),
        ("received_bytes_total", stats.received_bytes),
        ("sent_messages_total", stats.told),
        ("received_messages_total", stats.heard),
    ] {
        assert!(at_least > 2, "{name}: {stats:?}");
        locks.publish_metrics();
        let value = value(&format!("lockspan_client_{name}")).unwrap();
        // Other tests of this process have a part in it.
        assert!(value >= at_least as f64, "{name}: {value} of {at_least}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_background_task_tells_the_recorder_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let _server = serve(folder.path()).await;
    let locks = node(folder.path(), options()).await;
    let record = locks.record("itself", "1").unwrap();
    for _ in 0..3 {
        drop(soon(record.write()).await.unwrap());
    }
    until("a second passes", || of_mode(&record, "cached_acquires_total", "write") == 2.0).await;
    let name = record.name().clone();
    drop(locks.named(&name).blocking_write().unwrap());
    drop((locks, record));
    // And once more when the connection ends.
    let other = node(folder.path(), options()).await;
    let record = other.named(&name);
    until("it ends", || of_mode(&record, "cached_acquires_total", "write") == 3.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_told_not_to_count_counts_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let _server = serve(folder.path()).await;
    let locks = node(folder.path(), options().counting(false)).await;
    let record = locks.record("silent", "1").unwrap();
    drop(soon(record.write()).await.unwrap());
    drop(soon(record.write()).await.unwrap());
    locks.publish_metrics();
    assert!(!recorder().render().contains("silent"));
}

#[tokio::test(flavor = "multi_thread")]
async fn promtool_has_nothing_to_complain_about() {
    let folder = tempfile::tempdir().unwrap();
    let _server = serve(folder.path()).await;
    let locks = node(folder.path(), options()).await;
    let record = locks.record("odd \"\\\nname", "1").unwrap();
    drop(soon(record.write()).await.unwrap());
    drop(soon(record.write()).await.unwrap());
    locks.give_back_idle();
    locks.publish_metrics();
    let text = recorder().render();
    let families = text.lines().filter(|line| line.starts_with("# TYPE lockspan_client_"));
    let described = text.lines().filter(|line| line.starts_with("# HELP lockspan_client_"));
    assert_eq!((families.count(), described.count()), (17, 17), "{text}");
    if let Some(said) = promtool() {
        assert_eq!(said, "");
    }
}
