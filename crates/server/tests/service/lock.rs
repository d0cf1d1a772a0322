//! `LS.LOCK`, `LS.RENEW`, `LS.UNLOCK`: the naive program is right.

use std::time::Duration;

use lockspan_server::{Config, Data, Server};
use lockspan_wire::{ErrorCode, Value};

use crate::client::{Client, fresh, number, start, until, within, word};

/// A new id, as a client draws it.
fn uuid() -> String {
    use std::collections::hash_map::RandomState;
    use std::hash::BuildHasher as _;
    let half = || RandomState::new().hash_one(0);
    format!("{:016x}{:016x}", half(), half())
}

/// What `LS.LOCK` answers: the handle and the token.
fn locked(value: &Value) -> (String, i64) {
    (word(value, "handle"), number(value, "token"))
}

fn refused(value: Value, expected: ErrorCode) -> String {
    match value {
        Value::Error { code, text } if code == expected => text,
        other => panic!("not {expected}: {other:?}"),
    }
}

async fn waiters(client: &mut Client, record: &str) -> usize {
    let seen = client.ask(&["LS.INSPECT", record]).await;
    match crate::client::field(&seen, "waiters") {
        Value::Array(waiters) => waiters.len(),
        other => panic!("{other:?}"),
    }
}

async fn until_waiters(client: &mut Client, record: &str, count: usize) {
    let look = async {
        while waiters(client, record).await != count {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    within(look).await;
}

/// So long that a lease of a second is over.
async fn longer_than_a_lease() {
    tokio::time::sleep(Duration::from_millis(1800)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f35_locks_of_one_program_exclude_each_other() {
    let server = start(fresh()).await;
    for connections in [1, 2] {
        let mut looker = Client::new(&server).await;
        let mut one = Client::new(&server).await;
        let mut two = Client::new(&server).await;
        for (first, second, shares) in
            [("W", "W", false), ("W", "R", false), ("R", "W", false), ("R", "R", true)]
        {
            let record = format!("ex:{connections}{first}{second}");
            let held = one.ask(&["LS.LOCK", &record, first]).await;
            assert_eq!((word(&held, "mode"), number(&held, "lease-ms")), (first.into(), 10_000));
            let (handle, token) = locked(&held);
            let other = if connections == 1 { &mut one } else { &mut two };
            other.send(&["LS.LOCK", &record, second, "WAIT", "60000"]).await;
            if !shares {
                until_waiters(&mut looker, &record, 1).await;
                // A command behind a wait is carried out; its reply comes after that of the wait.
                looker.ask(&["LS.UNLOCK", &record, &handle]).await;
            }
            let next = other.reply().await;
            assert_eq!(word(&next, "mode"), second);
            assert_ne!(word(&next, "handle"), handle);
            let rises = (first, second) != ("R", "R") && (first, second) != ("W", "R");
            assert!(!rises || number(&next, "token") > token, "{record}");
            let (next, _) = locked(&next);
            assert_eq!(other.ask(&["LS.UNLOCK", &record, &next]).await, Value::Int(1));
            assert_eq!(other.ask(&["LS.UNLOCK", &record, &next]).await, Value::Int(0));
            looker.ask(&["LS.UNLOCK", &record, &handle]).await;
            let seen = looker.ask(&["LS.INSPECT", &record]).await;
            assert_eq!(word(&seen, "state"), "free", "{record}");
        }
    }
    until("no session is left", || server.stats().sessions == 0).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_in_resp2_is_a_flat_list() {
    let server = start(fresh()).await;
    let mut old = Client::raw(&server.addresses()[0]).await;
    let id = uuid();
    let Value::Array(flat) = old.ask(&["LS.LOCK", "a:1", "W", "LEASE", "2000", "ID", &id]).await
    else {
        panic!("no list")
    };
    let words: Vec<_> = flat.iter().step_by(2).cloned().collect();
    assert_eq!(words, ["handle", "mode", "token", "lease-ms"].map(Value::from));
    let Value::Bulk(handle) = &flat[1] else { panic!("no handle") };
    let handle = String::from_utf8_lossy(handle).into_owned();
    assert!(handle.starts_with(&format!("{id}.W.")), "{handle}");
    assert_eq!(flat[7], Value::Int(2000));
    old.send(&["LS.LOCK", "a:1", "R", "WAIT", "0"]).await;
    assert_eq!(old.bytes_until("\r\n").await, "$-1\r\n", "null");
    assert_eq!(old.ask(&["LS.RENEW", "a:1", &handle]).await, Value::Int(2000));
    assert_eq!(old.ask(&["LS.UNLOCK", "a:1", &handle]).await, Value::Int(1));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f36_a_repeat_of_a_lock_whose_reply_was_lost_is_the_same_lock() {
    let server = start(fresh()).await;
    let (mut one, mut two) = (Client::new(&server).await, Client::new(&server).await);
    let id = uuid();
    let lock = ["LS.LOCK", "a:1", "W", "ID", &id];
    // Granted: the reply is lost with its connection, or comes late.
    let first = one.ask(&lock).await;
    assert_eq!(two.ask(&lock).await, first, "while its connection is there");
    drop(one);
    let mut three = Client::new(&server).await;
    assert_eq!(three.ask(&lock).await, first, "on a new one");
    let (handle, _) = locked(&first);
    assert_eq!(server.stats().claims, 1);
    // With dashes it is the same id. On another record it is another lock.
    let dashed =
        [&id[..8], &id[8..12], &id[12..16], &id[16..20], &id[20..]].join("-").to_uppercase();
    assert_eq!(three.ask(&["LS.LOCK", "a:1", "W", "ID", &dashed]).await, first);
    three.ask(&["LS.LOCK", "a:2", "W", "ID", &id]).await;
    assert_eq!(server.stats().claims, 2);
    assert_eq!(three.ask(&["LS.UNLOCK", "a:2", &id]).await, Value::Int(1), "by its id alone");
    // Another mode or another lease is not the same command.
    let text = refused(two.ask(&["LS.LOCK", "a:1", "R", "ID", &id]).await, ErrorCode::Already);
    assert!(text.contains("other mode"), "{text}");
    let other = ["LS.LOCK", "a:1", "W", "LEASE", "5000", "ID", &id];
    let text = refused(two.ask(&other).await, ErrorCode::Refused);
    assert!(text.contains("LEASE"), "{text}");
    // An id is for one lock, once.
    assert_eq!(two.ask(&["LS.UNLOCK", "a:1", &handle]).await, Value::Int(1));
    refused(two.ask(&lock).await, ErrorCode::Stale);
    refused(two.ask(&["LS.RENEW", "a:1", &handle]).await, ErrorCode::NoSession);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f36_a_wait_that_is_repeated_keeps_its_place_in_line() {
    let server = start(fresh()).await;
    let mut one = Client::new(&server).await;
    let (first, second) = (uuid(), uuid());
    let (held, _) = locked(&one.ask(&["LS.LOCK", "a:1", "W"]).await);
    let lock = |id| ["LS.LOCK", "a:1", "W", "LEASE", "60000", "ID", id];
    let mut two = Client::new(&server).await;
    two.send(&lock(&first)).await;
    until_waiters(&mut one, "a:1", 1).await;
    let mut three = Client::new(&server).await;
    three.send(&lock(&second)).await;
    until_waiters(&mut one, "a:1", 2).await;
    // The library gives up its connection after a time-out of its own, and tries again.
    for _ in 0..3 {
        drop(two);
        until("the server has seen that", || server.stats().connections == 2).await;
        assert_eq!(waiters(&mut one, "a:1").await, 2, "it is in line");
        two = Client::new(&server).await;
        two.send(&lock(&first)).await;
        assert_eq!(two.settle_behind(&mut one).await, 2);
    }
    one.ask(&["LS.UNLOCK", "a:1", &held]).await;
    let mut four = Client::new(&server).await;
    let mine = four.ask(&lock(&first)).await;
    assert_eq!(waiters(&mut one, "a:1").await, 1, "the one behind it waits");
    four.ask(&["LS.UNLOCK", "a:1", &locked(&mine).0]).await;
    assert!(locked(&three.reply().await).1 > locked(&mine).1);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f36_a_wait_whose_client_is_gone_is_passed_over() {
    let server = start(fresh()).await;
    let mut one = Client::new(&server).await;
    let (held, _) = locked(&one.ask(&["LS.LOCK", "a:1", "W"]).await);
    // Each has given up waiting and closed its connection.
    let ids = [uuid(), uuid(), uuid()];
    let lock = |id| ["LS.LOCK", "a:1", "W", "LEASE", "60000", "ID", id];
    for (at, id) in ids.iter().enumerate() {
        let mut gone = Client::new(&server).await;
        gone.send(&lock(id)).await;
        until_waiters(&mut one, "a:1", at + 1).await;
    }
    until("the server has seen that", || server.stats().connections == 1).await;
    let mut two = Client::new(&server).await;
    two.send(&["LS.LOCK", "a:1", "W"]).await;
    until_waiters(&mut one, "a:1", 4).await;
    one.ask(&["LS.UNLOCK", "a:1", &held]).await;
    let (second, token) = locked(&two.reply().await);
    assert_eq!(waiters(&mut one, "a:1").await, 0, "none of them holds or waits");
    // One that comes back gets in line again, and is passed over again if it goes.
    let mut back = Client::new(&server).await;
    back.send(&lock(&ids[0])).await;
    until_waiters(&mut one, "a:1", 1).await;
    drop(back);
    until("the server has seen that", || server.stats().connections == 2).await;
    one.ask(&["LS.UNLOCK", "a:1", &second]).await;
    let seen = one.ask(&["LS.INSPECT", "a:1"]).await;
    assert_eq!(word(&seen, "state"), "free");
    let mut back = Client::new(&server).await;
    let (third, last) = locked(&back.ask(&lock(&ids[0])).await);
    assert!(last > token);
    assert_eq!(locked(&back.ask(&lock(&ids[0])).await), (third.clone(), last), "the same lock");
    // A lock that somebody was told of stays, whoever is there.
    drop(back);
    until("the server has seen that", || server.stats().connections == 2).await;
    assert_eq!(one.ask(&["LS.LOCK", "a:1", "W", "WAIT", "20"]).await, Value::Null);
    assert_eq!(one.ask(&["LS.UNLOCK", "a:1", &third]).await, Value::Int(1));
    assert_eq!(one.ask(&["LS.UNLOCK", "a:1", &ids[1]]).await, Value::Int(0));
    server.stop().await;
}

impl Client {
    /// How many wait for `a:1` when the server has read what this client has sent.
    async fn settle_behind(&mut self, looker: &mut Self) -> usize {
        // Its replies wait for that of the lock, but an event does not.
        let opened = looker.open(&[]).await;
        self.send(&["LS.EVENTS", &opened, "push"]).await;
        let listens = async {
            loop {
                let sessions = looker.ask(&["LS.SESSIONS"]).await;
                if format!("{sessions:?}").contains("Bulk(b\"connections\"), Int(1)") {
                    break;
                }
            }
        };
        within(listens).await;
        looker.ask(&["LS.CLOSE", &opened]).await;
        waiters(looker, "a:1").await
    }
}

/// Takes a lock with connections that are cut at random, until one of them brings the reply.
async fn lock_somehow(server: &Server, record: &str, mode: &str, random: &mut u64) -> Value {
    let id = uuid();
    loop {
        let mut client = Client::new(server).await;
        client.send(&["LS.LOCK", record, mode, "LEASE", "60000", "ID", &id]).await;
        // Xorshift: which of the attempts are cut, and when.
        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        if random.is_multiple_of(2) {
            return client.reply().await;
        }
        tokio::time::sleep(Duration::from_micros(*random % 3000)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f36_locks_exclude_each_other_while_connections_are_cut() {
    use std::sync::atomic::{AtomicI64, Ordering};
    static WRITERS: AtomicI64 = AtomicI64::new(0);
    static READERS: AtomicI64 = AtomicI64::new(0);
    static LAST: AtomicI64 = AtomicI64::new(0);
    let server = std::sync::Arc::new(start(fresh()).await);
    let tasks = (1..=8).map(|task: u64| {
        let server = std::sync::Arc::clone(&server);
        tokio::spawn(async move {
            let mut random = task.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            for turn in 0..25 {
                let mode = if (task + turn).is_multiple_of(3) { "R" } else { "W" };
                let (handle, token) =
                    locked(&lock_somehow(&server, "a:1", mode, &mut random).await);
                if mode == "W" {
                    assert_eq!(WRITERS.fetch_add(1, Ordering::SeqCst), 0, "one writer");
                    assert_eq!(READERS.load(Ordering::SeqCst), 0, "and no reader");
                    assert!(LAST.swap(token, Ordering::SeqCst) < token, "tokens rise");
                    tokio::task::yield_now().await;
                    WRITERS.fetch_sub(1, Ordering::SeqCst);
                } else {
                    READERS.fetch_add(1, Ordering::SeqCst);
                    assert_eq!(WRITERS.load(Ordering::SeqCst), 0, "no writer beside a reader");
                    tokio::task::yield_now().await;
                    READERS.fetch_sub(1, Ordering::SeqCst);
                }
                let mut client = Client::new(&server).await;
                assert_eq!(client.ask(&["LS.UNLOCK", "a:1", &handle]).await, Value::Int(1));
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("each has all its turns");
    }
    until("nothing is left", || server.stats().claims == 0 && server.stats().sessions == 0).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f36_a_wait_that_nobody_can_repeat_is_withdrawn() {
    let server = start(fresh()).await;
    let (mut one, mut two) = (Client::new(&server).await, Client::new(&server).await);
    let (held, _) = locked(&one.ask(&["LS.LOCK", "a:1", "W"]).await);
    two.send(&["LS.LOCK", "a:1", "W"]).await;
    until_waiters(&mut one, "a:1", 1).await;
    drop(two);
    until_waiters(&mut one, "a:1", 0).await;
    until("its session is closed", || server.stats().sessions == 1).await;
    // One that has an id is withdrawn by LS.UNLOCK, from wherever.
    let (id, mut two) = (uuid(), Client::new(&server).await);
    two.send(&["LS.LOCK", "a:1", "W", "ID", &id]).await;
    until_waiters(&mut one, "a:1", 1).await;
    assert_eq!(one.ask(&["LS.UNLOCK", "a:1", &id]).await, Value::Int(1));
    let text = refused(two.reply().await, ErrorCode::NoSession);
    assert!(text.contains("unlocked"), "{text}");
    assert_eq!(one.ask(&["LS.UNLOCK", "a:1", &held]).await, Value::Int(1));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f36_a_lock_does_not_come_after_its_unlock() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = start(on(dir.path())).await;
    let mut one = Client::new(&server).await;
    // The unlock overtakes the lock, on another connection.
    let id = uuid();
    assert_eq!(one.ask(&["LS.UNLOCK", "a:1", &id]).await, Value::Int(0));
    refused(one.ask(&["LS.LOCK", "a:1", "W", "ID", &id]).await, ErrorCode::Stale);
    // It comes while the lock's session is written to the disk: one connection, so in this order.
    let mut early = 0;
    for _ in 0..20 {
        let id = uuid();
        one.send(&["LS.LOCK", "a:1", "W", "ID", &id]).await;
        one.send(&["LS.UNLOCK", "a:1", &id]).await;
        let locked = one.reply().await;
        let was_early = matches!(locked, Value::Error { code: ErrorCode::NoSession, .. });
        early += usize::from(was_early);
        let unlocked = one.reply().await;
        assert!(unlocked == Value::Int(1) || was_early, "{unlocked:?} after {locked:?}");
        assert!(matches!(unlocked, Value::Int(_)), "{unlocked:?} after {locked:?}");
        refused(one.ask(&["LS.LOCK", "a:1", "W", "ID", &id]).await, ErrorCode::Stale);
    }
    assert!(early > 0, "a write takes longer than a command");
    // And its connection is gone.
    for turn in 0..40 {
        let (id, mut gone) = (uuid(), Client::new(&server).await);
        gone.send(&["LS.LOCK", "a:1", "W", "LEASE", "60000", "ID", &id]).await;
        if turn % 2 == 0 {
            tokio::task::yield_now().await;
        }
        drop(gone);
        let answer = one.ask(&["LS.UNLOCK", "a:1", &id]).await;
        assert!(matches!(answer, Value::Int(0 | 1)), "{answer:?}");
    }
    until("nothing is left", || server.stats().claims == 0 && server.stats().sessions == 0).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f36_a_wait_that_is_over_is_over_for_its_repeats_too() {
    let server = start(fresh()).await;
    let (mut one, mut two) = (Client::new(&server).await, Client::new(&server).await);
    let (held, _) = locked(&one.ask(&["LS.LOCK", "a:1", "W"]).await);
    let id = uuid();
    let lock = ["LS.LOCK", "a:1", "W", "WAIT", "20", "ID", &id];
    assert_eq!(two.ask(&lock).await, Value::Null);
    assert_eq!(one.ask(&["LS.UNLOCK", "a:1", &held]).await, Value::Int(1));
    assert_eq!(two.ask(&lock).await, Value::Null, "the same answer, though it is free by now");
    assert_eq!(two.ask(&["LS.UNLOCK", "a:1", &id]).await, Value::Int(0));
    // Without an id nothing is left of it.
    let (held, _) = locked(&one.ask(&["LS.LOCK", "a:1", "W"]).await);
    assert_eq!(two.ask(&["LS.LOCK", "a:1", "W", "WAIT", "0"]).await, Value::Null);
    until("its session is closed", || server.stats().sessions == 1).await;
    one.ask(&["LS.UNLOCK", "a:1", &held]).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_of_a_client_that_died_is_free_after_its_lease_and_not_before() {
    let server = start(fresh()).await;
    let (mut one, mut two) = (Client::new(&server).await, Client::new(&server).await);
    let (handle, token) = locked(&one.ask(&["LS.LOCK", "a:1", "W", "LEASE", "1000"]).await);
    drop(one);
    until("the server has seen that", || server.stats().connections == 1).await;
    assert_eq!(two.ask(&["LS.LOCK", "a:1", "W", "WAIT", "0"]).await, Value::Null);
    let next = two.ask(&["LS.LOCK", "a:1", "W"]).await;
    assert!(locked(&next).1 > token);
    let text = refused(two.ask(&["LS.RENEW", "a:1", &handle]).await, ErrorCode::NoSession);
    assert!(text.contains("lease expired"), "{text}");
    assert_eq!(two.ask(&["LS.UNLOCK", "a:1", &handle]).await, Value::Int(0));
    assert_eq!(server.stats().claims, 1, "the next holder has it");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f36_the_lease_of_a_lock_begins_when_its_client_is_told() {
    let server = start(fresh()).await;
    let (mut one, mut two) = (Client::new(&server).await, Client::new(&server).await);
    let long = ["LS.LOCK", "a:1", "W", "LEASE", "60000"];
    let (held, _) = locked(&one.ask(&long).await);
    // It waits for longer than its lease; the reply to the second waits with it.
    two.send(&["LS.LOCK", "a:1", "W", "LEASE", "1000"]).await;
    two.send(&["LS.LOCK", "b:1", "W", "LEASE", "1000"]).await;
    until("both have come", || server.stats().claims == 3).await;
    longer_than_a_lease().await;
    let stolen = one.ask(&["LS.LOCK", "b:1", "W", "WAIT", "0"]).await;
    assert_eq!(stolen, Value::Null, "what its client has yet to hear of is not lost meanwhile");
    assert_eq!(waiters(&mut one, "a:1").await, 1, "it still waits");
    one.ask(&["LS.UNLOCK", "a:1", &held]).await;
    let (a, b) = (two.reply().await, two.reply().await);
    assert_eq!((number(&a, "lease-ms"), number(&b, "lease-ms")), (1000, 500), "what is left");
    assert_eq!(two.ask(&["LS.RENEW", "a:1", &locked(&a).0]).await, Value::Int(1000));
    assert_eq!(two.ask(&["LS.RENEW", "b:1", &locked(&b).0]).await, Value::Int(1000));
    // From now on it is the client's to renew.
    let freed = one.ask(&["LS.LOCK", "b:1", "W"]).await;
    assert!(locked(&freed).1 > locked(&b).1);
    server.stop().await;
}

fn on(dir: &std::path::Path) -> Config {
    Config { data: Data::Dir(dir.to_owned()), ..fresh() }
}

async fn restart(server: Server, dir: &std::path::Path) -> Server {
    drop(server);
    start(on(dir)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f37_a_lock_is_kept_over_a_restart_by_its_next_renewal() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = start(on(dir.path())).await;
    let mut one = Client::new(&server).await;
    let write = locked(&one.ask(&["LS.LOCK", "a:1", "W", "LEASE", "60000"]).await);
    let read = locked(&one.ask(&["LS.LOCK", "b:1", "R", "LEASE", "60000"]).await);
    let id = uuid();
    let wait = ["LS.LOCK", "a:1", "W", "LEASE", "60000", "ID", &id];
    let mut two = Client::new(&server).await;
    two.send(&wait).await;
    until_waiters(&mut one, "a:1", 1).await;

    let server = restart(server, dir.path()).await;
    let (mut one, mut two) = (Client::new(&server).await, Client::new(&server).await);
    let mut three = Client::new(&server).await;
    // Nobody is granted what was held before everybody has said what they had.
    assert_eq!(three.ask(&["LS.LOCK", "a:1", "W", "WAIT", "20"]).await, Value::Null);
    two.send(&wait).await;
    for (record, (handle, _)) in [("a:1", &write), ("b:1", &read)] {
        assert_eq!(one.ask(&["LS.RENEW", record, handle]).await, Value::Int(60_000));
        assert_eq!(one.ask(&["LS.RENEW", record, handle]).await, Value::Int(60_000), "again");
    }
    until("all have said so", || !server.stats().recovering).await;
    assert_eq!(three.ask(&["LS.LOCK", "b:1", "W", "WAIT", "20"]).await, Value::Null);
    let shared = three.ask(&["LS.LOCK", "b:1", "R", "WAIT", "0"]).await;
    assert_eq!(word(&shared, "mode"), "R");
    assert_eq!(waiters(&mut one, "a:1").await, 1, "the one that waited waits again");
    assert_eq!(one.ask(&["LS.UNLOCK", "a:1", &write.0]).await, Value::Int(1));
    assert!(locked(&two.reply().await).1 > write.1);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f37_after_a_restart_a_lock_may_be_unlocked_at_once_or_lost() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = start(on(dir.path())).await;
    let mut one = Client::new(&server).await;
    let (handle, token) = locked(&one.ask(&["LS.LOCK", "a:1", "W", "LEASE", "60000"]).await);
    let server = restart(server, dir.path()).await;
    let (mut one, mut two) = (Client::new(&server).await, Client::new(&server).await);
    two.send(&["LS.LOCK", "a:1", "W", "LEASE", "1000"]).await;
    // A handle of another lock, or another record, brings nothing back.
    let forged = handle.replace(&handle[..32], &uuid());
    refused(one.ask(&["LS.RENEW", "a:1", &forged]).await, ErrorCode::NoSession);
    refused(one.ask(&["LS.RENEW", "a:2", &handle]).await, ErrorCode::NoSession);
    assert_eq!(one.ask(&["LS.UNLOCK", "a:2", &handle]).await, Value::Int(0));
    assert_eq!(one.ask(&["LS.UNLOCK", "a:1", &handle]).await, Value::Int(1));
    let (next, rises) = locked(&two.reply().await);
    assert!(rises > token);
    refused(one.ask(&["LS.RENEW", "a:1", &handle]).await, ErrorCode::NoSession);

    // Nobody renews it in time: another has it, and the late renewal says so.
    let server = restart(server, dir.path()).await;
    let mut one = Client::new(&server).await;
    let after = one.ask(&["LS.LOCK", "a:1", "W"]).await;
    assert!(locked(&after).1 > rises);
    refused(one.ask(&["LS.RENEW", "a:1", &next]).await, ErrorCode::NoSession);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f37_nobody_takes_a_lock_by_a_handle_that_was_not_given() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = start(on(dir.path())).await;
    let (mut one, mut two) = (Client::new(&server).await, Client::new(&server).await);
    let (handle, token) = locked(&one.ask(&["LS.LOCK", "a:1", "W", "LEASE", "60000"]).await);
    let id = uuid();
    two.send(&["LS.LOCK", "a:1", "W", "LEASE", "60000", "ID", &id]).await;
    until_waiters(&mut one, "a:1", 1).await;
    let server = restart(server, dir.path()).await;
    let (mut one, mut two) = (Client::new(&server).await, Client::new(&server).await);
    // The one that waited makes a handle of its own: its id, and a token above the holder's.
    let seal = handle.splitn(4, '.').nth(3).map_or(String::new(), |seal| format!(".{seal}"));
    let forged = format!("{id}.W.{}{seal}", token + 1);
    refused(two.ask(&["LS.RENEW", "a:1", &forged]).await, ErrorCode::NotHeld);
    refused(two.ask(&["LS.UNLOCK", "a:1", &forged]).await, ErrorCode::NotHeld);
    // The holder neither changes what it was granted.
    let higher = handle.replace(&token.to_string(), &(token + 1).to_string());
    refused(one.ask(&["LS.RENEW", "a:1", &higher]).await, ErrorCode::NotHeld);
    assert_eq!(one.ask(&["LS.RENEW", "a:1", &handle]).await, Value::Int(60_000));
    assert_eq!(two.ask(&["LS.UNLOCK", "a:1", &id]).await, Value::Int(1), "its own wait");
    assert_eq!(one.ask(&["LS.UNLOCK", "a:1", &handle]).await, Value::Int(1));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f37_a_session_acquires_nothing_before_it_has_re_asserted() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = start(on(dir.path())).await;
    let mut one = Client::new(&server).await;
    let session = one.open(&["LEASE", "60000"]).await;
    let held = one.ask(&["LS.ACQUIRE", &session, "a:1", "W"]).await;
    let (seq, token) = (number(&held, "seq").to_string(), number(&held, "token").to_string());
    let server = restart(server, dir.path()).await;
    let mut one = Client::new(&server).await;
    // A second thread that acquires now would end the hold of the first, which is inside.
    for mode in ["R", "W"] {
        let again = one.ask(&["LS.ACQUIRE", &session, "a:1", mode]).await;
        let text = refused(again, ErrorCode::Loading);
        assert!(text.contains("LS.REASSERT"), "{text}");
    }
    let told = ["LS.REASSERT", &session, "a:1", "2", &seq, "W", "HELD", &token];
    assert_eq!(one.ask(&told).await, Value::OK);
    let told = ["LS.REASSERTED", &session, "2", "1", &seq];
    assert_eq!(one.ask(&told).await, Value::OK);
    let text = refused(one.ask(&["LS.ACQUIRE", &session, "a:1", "R"]).await, ErrorCode::Already);
    assert!(text.contains(&token), "{text}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_an_operator_has_ended_is_not_held_any_more() {
    let server = start(fresh()).await;
    let (mut one, id) = (Client::new(&server).await, uuid());
    let lock = ["LS.LOCK", "a:1", "W", "LEASE", "60000", "ID", &id];
    let (handle, _) = locked(&one.ask(&lock).await);
    let seen = one.ask(&["LS.INSPECT", "a:1"]).await;
    let Value::Array(holders) = crate::client::field(&seen, "holders") else { panic!("{seen:?}") };
    one.ask(&["LS.END", &word(&holders[0], "session")]).await;
    for again in [&["LS.RENEW", "a:1", &handle][..], &lock] {
        let text = refused(one.ask(again).await, ErrorCode::NotHeld);
        assert!(text.contains("operator"), "{text}");
    }
    assert_eq!(one.ask(&["LS.UNLOCK", "a:1", &handle]).await, Value::Int(1));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_without_an_id_that_a_new_term_has_ended_leaves_no_session() {
    let server = start(fresh()).await;
    let (mut one, mut two) = (Client::new(&server).await, Client::new(&server).await);
    locked(&one.ask(&["LS.LOCK", "a:1", "W", "LEASE", "60000"]).await);
    two.send(&["LS.LOCK", "a:1", "W", "LEASE", "60000"]).await;
    until_waiters(&mut one, "a:1", 1).await;
    // A client shows a later epoch, so the server takes the record's group again, above it.
    let session = one.open(&["LEASE", "60000"]).await;
    let token = ((9_i64 << 40) + 1).to_string();
    one.ask(&["LS.REASSERT", &session, "a:1", "9", "1", "W", "HELD", &token]).await;
    refused(two.reply().await, ErrorCode::Loading);
    until("its session is closed", || server.stats().sessions == 2).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_list_shows_the_id_of_a_lock() {
    let server = start(fresh()).await;
    let (mut one, mut two) = (Client::new(&server).await, Client::new(&server).await);
    let ids = [uuid(), uuid()];
    one.ask(&["LS.LOCK", "a:1", "W", "ID", &ids[0]]).await;
    one.send(&["LS.LOCK", "a:1", "W", "ID", &ids[1]]).await;
    until_waiters(&mut two, "a:1", 1).await;
    for look in [
        &["LS.SESSIONS"][..],
        &["LS.LOCKS"],
        &["LS.INSPECT", "a:1"],
        &["LS.HISTORY", "a:1"],
        &["LS.WAITS"],
        &["CLIENT", "LIST"],
        &["INFO"],
    ] {
        let seen = format!("{:?}", two.ask(look).await);
        assert!(ids.iter().all(|id| !seen.contains(id)), "{look:?}: {seen}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_lock_is_refused_with_words_that_help() {
    let server = start(fresh()).await;
    let mut one = Client::new(&server).await;
    let id = uuid();
    for (words, code, part) in [
        (&["LS.LOCK", "a:1"][..], ErrorCode::Err, "usage: LS.LOCK record R|W"),
        (&["LS.LOCK", "a", "W"], ErrorCode::Err, "no colon"),
        (&["LS.LOCK", "a:1", "X"], ErrorCode::Err, "one of R, W"),
        (&["LS.LOCK", "a:1", "W", "WAIT", "soon"], ErrorCode::Err, "or forever"),
        (&["LS.LOCK", "a:1", "W", "LEASE", "1"], ErrorCode::Limit, "from 1s to 60s"),
        (&["LS.LOCK", "a:1", "W", "ID", "worker-1"], ErrorCode::Err, "a random UUID"),
        (
            &["LS.LOCK", "a:1", "W", "ID", &"0".repeat(32)],
            ErrorCode::Err,
            "a new one for every lock",
        ),
        (
            &["LS.LOCK", "a:1", "W", "SEQ", "1"],
            ErrorCode::Err,
            "one of WAIT, LEASE, ID, LABEL, NOTE",
        ),
        (&["LS.RENEW", "a:1", &id], ErrorCode::Err, "a handle from the reply to LS.LOCK"),
        (&["LS.UNLOCK", "a:1", "17"], ErrorCode::Err, "nor the ID"),
        (&["LS.UNLOCK", "a:1"], ErrorCode::Err, "usage: LS.UNLOCK record handle"),
    ] {
        let text = refused(one.ask(words).await, code);
        assert!(text.contains(part), "{words:?}: {text}");
    }
    assert_eq!(server.stats().sessions, 0);
    server.stop().await;
}
