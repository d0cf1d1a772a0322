//! The edges of what programs may do: very many, very long, without a runtime, after its end.

#![forbid(unsafe_code)]

use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use lockspan_client::{ConnectError, LockError, Locks, Options, Owner, Record, connect};
use lockspan_server::{Config, Data, Server};
use tokio::runtime::Runtime;
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(20);

async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(SOON, future).await.expect("it takes too long")
}

fn record(locks: &Locks) -> Record {
    locks.record("invoice", "42").unwrap()
}

#[tokio::test]
async fn more_owners_wait_than_one_acquire_may_name() {
    // However slow the machine is, no lease ends here.
    let options = Options::new().lease(SOON * 3);
    let (one, other) = (options.clone().connect("memory:owners"), options.connect("memory:owners"));
    let (one, other) = (one.await.unwrap(), other.await.unwrap());
    let held = record(&other).write_owned().await.unwrap();
    let waits = (1..=100).map(|owner| {
        let record = record(&one.as_owner(Owner(owner)));
        tokio::spawn(async move { record.write_owned().await.map(drop) })
    });
    let waits: Vec<_> = waits.collect();
    // One turn of the only thread brings all of them in line.
    for _ in 0..10 {
        tokio::task::yield_now().await;
        assert!(waits.iter().all(|wait| !wait.is_finished()));
    }
    drop(held);
    for wait in waits {
        soon(wait).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn records_in_a_row_make_room_for_each_other() {
    let locks = Options::new().max_cached(10).connect("memory:row").await.unwrap();
    for number in 0..3000 {
        let record = locks.record("row", number.to_string()).unwrap();
        drop(record.write().await.unwrap());
    }
}

#[tokio::test]
async fn as_many_as_a_number_can_say_are_cached() {
    // What the task behind the connection does not give back, nobody gets in this time.
    let options = Options::new().lease(SOON * 3).max_cached(usize::MAX);
    let (one, other) = (options.clone().connect("memory:all"), options.connect("memory:all"));
    let (one, other) = (one.await.unwrap(), other.await.unwrap());
    for number in 0..10 {
        let name = number.to_string();
        drop(soon(one.record("all", &name).unwrap().write()).await.unwrap());
        drop(soon(other.record("all", &name).unwrap().write()).await.unwrap());
    }
    assert_eq!(other.stats().records, 10);
}

#[test]
fn a_timeout_may_be_for_ever() {
    let locks = lockspan_client::blocking_connect("memory:ever").unwrap();
    let other = lockspan_client::blocking_connect("memory:ever").unwrap();
    drop(record(&other).blocking_write().unwrap());
    drop(record(&locks).blocking_write_timeout(Duration::MAX).unwrap());
    drop(record(&other).blocking_read_timeout(Duration::MAX).unwrap());
}

#[test]
fn without_a_runtime_there_is_an_error_to_read() {
    let mut connecting = Box::pin(connect("memory:none"));
    let polled = connecting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    let Poll::Ready(Err(why @ ConnectError::Local { .. })) = polled else { panic!("{polled:?}") };
    assert!(why.to_string().contains("runtime"), "{why}");
}

/// A thread that asks for the record, with what it is told.
fn asks(locks: &Locks) -> mpsc::Receiver<Result<(), LockError>> {
    let (send, receive) = mpsc::channel();
    let wanted = record(locks);
    thread::spawn(move || send.send(wanted.blocking_write().map(drop)));
    let late = Instant::now() + SOON;
    while locks.stats().acquires == 0 {
        assert!(Instant::now() < late);
        thread::yield_now();
    }
    receive
}

#[test]
fn threads_do_not_wait_for_a_runtime_that_has_ended() {
    let (ends, stays) = (Runtime::new().unwrap(), Runtime::new().unwrap());
    let one = ends.block_on(connect("memory:ended")).unwrap();
    let other = stays.block_on(connect("memory:ended")).unwrap();
    let held = stays.block_on(record(&other).write_owned()).unwrap();
    let told = asks(&one);
    drop(ends);
    let told = told.recv_timeout(SOON).expect("it waits forever");
    assert_eq!(told, Err(LockError::Closed));
    assert!(held.is_valid());
}

#[test]
fn threads_do_not_wait_for_a_runtime_that_ended_before_its_task_began() {
    // With one thread, and nobody who waits in it, the task of a node has no turn.
    let ends = one_thread();
    let mut connecting = Box::pin(connect("memory:began"));
    let one = {
        let _inside = ends.enter();
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(one) = connecting.as_mut().poll(&mut context) else {
            panic!("a service in this process is there at once");
        };
        one.unwrap()
    };
    let other = lockspan_client::blocking_connect("memory:began").unwrap();
    let record = record(&other);
    let held = record.blocking_write().unwrap();
    let told = asks(&one);
    drop(ends);
    let told = told.recv_timeout(SOON).expect("it waits forever");
    assert_eq!(told, Err(LockError::Closed));
    assert!(held.is_valid());
}

#[test]
fn what_a_runtime_that_has_ended_held_passes_to_others() {
    let (ends, stays) = (Runtime::new().unwrap(), Runtime::new().unwrap());
    let one = stays.block_on(connect("memory:passes")).unwrap();
    let other = ends.block_on(connect("memory:passes")).unwrap();
    let held = ends.block_on(record(&other).write_owned()).unwrap();
    let told = asks(&one);
    drop(ends);
    let told = told.recv_timeout(SOON).expect("it waits forever");
    assert_eq!(told, Ok(()));
    assert!(!held.is_valid());
}

/// A runtime with one thread: nothing in it runs unless somebody waits in it.
fn one_thread() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// A server with a runtime and a folder of its own.
fn server() -> (Runtime, tempfile::TempDir, Server, String) {
    let (serving, folder) = (Runtime::new().unwrap(), tempfile::tempdir().unwrap());
    let config = Config {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        data: Data::Dir(folder.path().join("data")),
        ..Config::default()
    };
    let server = serving.block_on(Server::start(config)).unwrap();
    let url = format!("lockspan://{}", server.addresses()[0]);
    (serving, folder, server, url)
}

#[test]
fn service_f55_waits_end_although_nobody_drives_the_runtime_of_connect() {
    let (_serving, _folder, _server, url) = server();
    for url in [&url, "memory:undriven"] {
        let options = Options::new().lease(Duration::from_secs(1));
        // Connects in one runtime, which stands still from then on, and waits in another.
        let (still, driven) = (one_thread(), one_thread());
        let locks = still.block_on(options.clone().connect(url)).unwrap();
        let held = still.block_on(record(&locks).write_owned()).unwrap();
        let neighbour = options.blocking_connect(url).unwrap();
        let other = neighbour.record("invoice", "43").unwrap();
        let theirs = other.blocking_write().unwrap();
        let other = locks.record("invoice", "43").unwrap();
        let brief = Duration::from_millis(10);
        driven.block_on(async {
            soon(held.lost()).await;
            assert!(!held.is_valid());
            assert!(matches!(
                soon(other.write_timeout(brief)).await.unwrap_err(),
                LockError::Timeout(_)
            ));
            assert!(matches!(
                soon(other.read_timeout(brief)).await.unwrap_err(),
                LockError::Timeout(_)
            ));
            assert!(soon(other.try_write()).await.unwrap().is_none());
            // Whether the server has heard it is not known in the end, which is an answer.
            let _ = soon(locks.close()).await;
            assert_eq!(soon(other.write()).await.unwrap_err(), LockError::Closed);
        });
        drop((theirs, still));
    }
}

#[tokio::test]
async fn a_reader_past_its_lease_is_not_upgraded() {
    let options = Options::new().lease(Duration::from_secs(1));
    let locks = options.connect("memory:past").await.unwrap();
    let record = record(&locks);
    drop(record.write().await.unwrap());
    let reader = record.read().await.unwrap();
    // The only thread of this runtime stops, and with it the task that would extend the lease.
    while reader.is_valid() {
        thread::sleep(Duration::from_millis(10));
    }
    let why = reader.upgrade().await.unwrap_err().source;
    assert_eq!(why, LockError::Lost);
    drop(soon(record.write()).await.unwrap());
}

#[test]
fn a_program_that_ends_as_soon_as_it_has_its_locks_leaves_none_behind() {
    let (serving, _folder, _server, url) = server();
    let options = Options::new().lease(SOON * 2);
    let alone = one_thread();
    alone.block_on(async {
        let locks = options.clone().connect(&url).await.unwrap();
        let take = |id: &str| locks.record("invoice", id).unwrap().write_owned();
        // Those that are asked for together are granted together.
        let (a, b, c) = (take("1"), take("2"), take("3"));
        let (d, e, f) = (take("4"), take("42"), take("5"));
        let held = tokio::join!(a, b, c, d, e, f);
        assert!(held.4.is_ok() && held.5.is_ok());
    });
    drop(alone);
    serving.block_on(async {
        let locks = options.connect(&url).await.unwrap();
        drop(soon(record(&locks).write()).await.unwrap());
    });
}

#[test]
fn service_f56_a_writer_that_downgrades_lets_waiting_readers_in_beside_it() {
    // The writer may come first or last; the reader waits on another node or on the same one.
    for (round, url) in ["", "memory:downgrade"].into_iter().enumerate() {
        for (story, (writer_first, same_node)) in
            [(true, false), (false, false), (true, true), (false, true)].into_iter().enumerate()
        {
            let (_serving, _folder, server, its_url) = server();
            let url = if url.is_empty() { &its_url } else { url };
            let options = Options::new().lease(SOON * 3);
            let connect = || options.clone().blocking_connect(url).unwrap();
            let (one, reader, writer) = (connect(), connect(), connect());
            let reader = if same_node { one.clone() } else { reader };
            let id = format!("{round}.{story}");
            let record = |locks: &Locks| locks.record("down", &id).unwrap();
            let mine = record(&one);
            let held = mine.blocking_write().unwrap();
            let (send, told) = mpsc::channel();
            // It is in line on its node when this returns.
            let reads = |locks: &Locks| {
                let (record, send) = (record(locks), send.clone());
                let mut reading = Box::pin(record.read_owned());
                let mut context = Context::from_waker(Waker::noop());
                assert!(reading.as_mut().poll(&mut context).is_pending());
                thread::spawn(move || {
                    let _held = one_thread().block_on(reading).unwrap();
                    send.send("reads").unwrap();
                });
            };
            let writes = |locks: &Locks| {
                let (record, send) = (record(locks), send.clone());
                thread::spawn(move || {
                    let _held = record.blocking_write().unwrap();
                    send.send("writes").unwrap();
                })
            };
            let waits = |locks: &Locks| {
                let late = Instant::now() + SOON;
                while locks.stats().acquires == 0 {
                    assert!(Instant::now() < late, "it did not get in line");
                    thread::yield_now();
                }
            };
            // Whoever comes after the downgrade waits behind the writer, and rightly so.
            let in_line = |claims: u64| {
                let late = Instant::now() + SOON;
                while *url == its_url && server.stats().claims < claims {
                    assert!(Instant::now() < late, "the server does not know of it");
                    thread::yield_now();
                }
            };
            if writer_first {
                writes(&writer);
                waits(&writer);
                reads(&reader);
            } else {
                reads(&reader);
                if !same_node {
                    waits(&reader);
                }
                writes(&writer);
                waits(&writer);
            }
            if !same_node {
                waits(&reader);
            }
            in_line(if same_node { 2 } else { 3 });
            let held = held.downgrade();
            assert_eq!(told.recv_timeout(SOON), Ok("reads"), "{writer_first} {same_node}");
            assert!(held.is_valid());
            drop(held);
            assert_eq!(told.recv_timeout(SOON), Ok("writes"), "{writer_first} {same_node}");
        }
    }
}

/// A task that reads on behalf of an owner, and reads the same again while a writer waits: behind
/// that writer, which waits for the first read.
fn reads_again(writer: Option<Owner>, url: &str, id: &str, same_node: bool) -> LockError {
    let options = Options::new().lease(SOON * 3);
    let connect = || options.clone().blocking_connect(url).unwrap();
    let (one, other) = (connect(), connect());
    let mine = one.as_owner(Owner(1)).record("again", id).unwrap();
    let held = mine.blocking_read().unwrap();
    let other = if same_node { one.clone() } else { other };
    let theirs = match writer {
        Some(owner) => other.as_owner(owner).record("again", id).unwrap(),
        None => other.record("again", id).unwrap(),
    };
    let (send, told) = mpsc::channel();
    thread::spawn(move || send.send(theirs.blocking_write().map(drop)));
    // Until the writer waits, reading again is fine.
    let late = Instant::now() + SOON;
    let why = loop {
        assert!(Instant::now() < late, "it is let in again and again");
        let again = mine.clone();
        match elsewhere(move || again.blocking_read().map(drop)) {
            Ok(()) => thread::yield_now(),
            Err(why) => break why,
        }
    };
    // It is refused, not lost: the first read goes on, and then the writer has its turn.
    assert!(held.is_valid());
    drop(held);
    assert_eq!(told.recv_timeout(SOON), Ok(Ok(())));
    why
}

/// In a thread of its own, which may not take forever.
fn elsewhere<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, done) = mpsc::channel();
    thread::spawn(move || send.send(act()));
    done.recv_timeout(SOON).expect("it waits forever")
}

#[test]
fn service_f57_an_owner_that_reads_again_behind_a_waiting_writer_is_refused() {
    let (_serving, _folder, _server, url) = server();
    for (round, url) in [&url, "memory:again"].into_iter().enumerate() {
        for (story, (writer, same_node)) in
            [(None, false), (Some(Owner(2)), false), (None, true), (Some(Owner(2)), true)]
                .into_iter()
                .enumerate()
        {
            let why = reads_again(writer, url, &format!("{round}.{story}"), same_node);
            let LockError::Deadlock { cycle } = why else { panic!("{why}") };
            assert!(cycle.contains(&Owner(1)), "{cycle:?}");
        }
    }
}

#[test]
fn service_f58_an_upgrade_that_was_dropped_does_not_refuse_the_next_one() {
    let (_serving, _folder, _server, url) = server();
    for url in [&url, "memory:dropped"] {
        let options = Options::new().lease(SOON * 3);
        let runtime = Runtime::new().unwrap();
        runtime.block_on(async {
            let one = options.clone().connect(url).await.unwrap();
            let other = options.clone().connect(url).await.unwrap();
            let (one, other) = (record(&one), record(&other));
            for _ in 0..200 {
                let (first, second) = (one.read().await.unwrap(), other.read().await.unwrap());
                let mut upgrade = Box::pin(first.upgrade());
                let waits = std::future::poll_fn(|context| {
                    Poll::Ready(upgrade.as_mut().poll(context).is_pending())
                });
                assert!(waits.await);
                // Often its acquire is with the server by now, and its cancel comes on another
                // connection than the next one's acquire.
                tokio::time::sleep(Duration::from_millis(1)).await;
                drop(upgrade);
                drop(soon(second.upgrade()).await.unwrap());
            }
        });
    }
}
