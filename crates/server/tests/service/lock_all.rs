//! `LS.LOCKALL`: several locks, all or none.

use std::time::Duration;

use lockspan_server::Server;
use lockspan_wire::{ErrorCode, Value};

use crate::client::{Client, fresh, number, start, within, word};

fn refused(value: Value, expected: ErrorCode) -> String {
    match value {
        Value::Error { code, text } if code == expected => text,
        other => panic!("not {expected}: {other:?}"),
    }
}

/// Record, handle and mode of each lock.
fn locked(value: &Value) -> Vec<(String, String, String)> {
    let Value::Array(all) = value else { panic!("not granted: {value:?}") };
    let one = |it| (word(it, "record"), word(it, "handle"), word(it, "mode"));
    all.iter().map(one).collect()
}

async fn seen(client: &mut Client, record: &str, field: &str) -> usize {
    let seen = client.ask(&["LS.INSPECT", record]).await;
    match crate::client::field(&seen, field) {
        Value::Array(all) => all.len(),
        other => panic!("{other:?}"),
    }
}

async fn until(client: &mut Client, record: &str, field: &str, count: usize) {
    let look = async {
        while seen(client, record, field).await != count {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    within(look).await;
}

async fn clients(server: &Server) -> [Client; 3] {
    [Client::new(server).await, Client::new(server).await, Client::new(server).await]
}

#[tokio::test(flavor = "multi_thread")]
async fn several_locks_are_taken_in_order_renewed_and_unlocked_one_by_one() {
    let server = start(fresh()).await;
    let [mut one, mut two, _] = clients(&server).await;
    let all = ["LS.LOCKALL", "4", "b:2", "R", "a!:1", "W", "a:9", "R", "b:2", "W"];
    let held = one.ask(&all).await;
    let locks = locked(&held);
    let order: Vec<_> = locks.iter().map(|(record, _, mode)| format!("{record} {mode}")).collect();
    assert_eq!(order, ["a:9 R", "a!:1 W", "b:2 W"], "by datatype, then by id; W is stronger");
    let Value::Array(maps) = &held else { panic!("{held:?}") };
    assert!(maps.iter().all(|map| number(map, "token") > 0 && number(map, "lease-ms") == 10_000));
    assert_eq!(two.ask(&["LS.LOCK", "a:9", "W", "WAIT", "0"]).await, Value::Null);
    locked(&two.ask(&["LS.LOCKALL", "1", "a:9", "R"]).await);
    for (record, handle, _) in &locks {
        assert_eq!(two.ask(&["LS.RENEW", record, handle]).await, Value::Int(10_000));
    }
    for (record, handle, _) in &locks {
        assert_eq!(two.ask(&["LS.UNLOCK", record, handle]).await, Value::Int(1), "{record}");
    }
    locked(&two.ask(&["LS.LOCKALL", "2", "b:2", "W", "a!:1", "W", "WAIT", "0"]).await);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f121_a_command_that_waits_holds_nothing_behind_and_nothing_after_its_time() {
    let server = start(fresh()).await;
    let [mut one, mut two, mut three] = clients(&server).await;
    let held = two.ask(&["LS.LOCK", "a:2", "W"]).await;
    let all = ["LS.LOCKALL", "3", "a:3", "W", "a:2", "W", "a:1", "W"];
    one.send(&[&all[..], &["WAIT", "60000", "NOTE", "transfer", "LABEL", "cron"]].concat()).await;
    until(&mut three, "a:2", "waiters", 1).await;
    assert_eq!(seen(&mut three, "a:1", "holders").await, 1);
    assert_eq!(seen(&mut three, "a:3", "holders").await, 0);
    let view = three.ask(&["LS.INSPECT", "a:1"]).await;
    let Value::Array(holders) = crate::client::field(&view, "holders") else { panic!("{view:?}") };
    assert_eq!(
        (word(&holders[0], "label"), word(&holders[0], "note")),
        ("cron".into(), "transfer".into())
    );
    // Whoever else gives up has nothing either, however it gives up.
    let late = ["LS.LOCKALL", "2", "a:0", "W", "a:2", "W", "WAIT"];
    for wait in ["0", "20"] {
        assert_eq!(three.ask(&[&late[..], &[wait]].concat()).await, Value::Null);
        until(&mut three, "a:0", "holders", 0).await;
    }
    assert_eq!(two.ask(&["LS.UNLOCK", "a:2", &word(&held, "handle")]).await, Value::Int(1));
    assert_eq!(locked(&one.reply().await).len(), 3);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f121_a_connection_that_closes_takes_its_locks_with_it_unless_it_can_ask_again() {
    let server = start(fresh()).await;
    let [mut one, mut two, mut three] = clients(&server).await;
    let held = two.ask(&["LS.LOCK", "a:2", "W"]).await;
    let all = ["LS.LOCKALL", "2", "a:1", "W", "a:2", "W", "LEASE", "60000"];
    one.send(&all).await;
    until(&mut three, "a:2", "waiters", 1).await;
    drop(one);
    until(&mut three, "a:2", "waiters", 0).await;
    until(&mut three, "a:1", "holders", 0).await;
    // With an id the locks stay for a lease, and a repeat goes on with them.
    let all = [&all[..], &["ID", "6f9619ff-8b86-d011-b42d-00c04fc964ff"]].concat();
    let mut one = Client::new(&server).await;
    one.send(&all).await;
    until(&mut three, "a:2", "waiters", 1).await;
    drop(one);
    assert_eq!(seen(&mut three, "a:1", "holders").await, 1);
    let mut again = Client::new(&server).await;
    again.send(&all).await;
    assert_eq!(two.ask(&["LS.UNLOCK", "a:2", &word(&held, "handle")]).await, Value::Int(1));
    let first = locked(&again.reply().await);
    let mut other = Client::new(&server).await;
    assert_eq!(locked(&other.ask(&all).await), first, "the reply may have been lost");
    for (record, handle, _) in &first {
        assert_eq!(other.ask(&["LS.UNLOCK", record, handle]).await, Value::Int(1));
    }
    let text = refused(other.ask(&all).await, ErrorCode::Stale);
    assert!(text.contains("use a new random ID"), "{text}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_is_refused_ends_those_before_it() {
    let server = start(fresh()).await;
    let [mut one, mut two, mut three] = clients(&server).await;
    let id = "6f9619ff-8b86-d011-b42d-00c04fc964ff";
    // The second record is locked in the other mode with the same id.
    let other = two.ask(&["LS.LOCK", "a:2", "R", "ID", id]).await;
    let refusal = one.ask(&["LS.LOCKALL", "2", "a:1", "W", "a:2", "W", "ID", id]).await;
    refused(refusal, ErrorCode::Already);
    until(&mut three, "a:1", "holders", 0).await;
    assert_eq!(two.ask(&["LS.UNLOCK", "a:2", &word(&other, "handle")]).await, Value::Int(1));
    // An operator ends the first while the second is waited for.
    let held = two.ask(&["LS.LOCK", "a:2", "W"]).await;
    one.send(&["LS.LOCKALL", "2", "a:1", "W", "a:2", "W", "LEASE", "60000"]).await;
    until(&mut three, "a:2", "waiters", 1).await;
    let view = three.ask(&["LS.INSPECT", "a:1"]).await;
    let Value::Array(holders) = crate::client::field(&view, "holders") else { panic!("{view:?}") };
    three.ask(&["LS.END", &word(&holders[0], "session")]).await;
    assert_eq!(two.ask(&["LS.UNLOCK", "a:2", &word(&held, "handle")]).await, Value::Int(1));
    let text = refused(one.reply().await, ErrorCode::NotHeld);
    assert!(text.contains("an operator has ended this lock"), "{text}");
    until(&mut three, "a:2", "holders", 0).await;
    until(&mut three, "a:1", "holders", 0).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f121_a_late_repeat_that_fails_ends_no_lock_that_its_client_was_told_of() {
    let server = start(fresh()).await;
    let [mut one, mut two, mut three] = clients(&server).await;
    let id = "6f9619ff-8b86-d011-b42d-00c04fc964ff";
    let all = ["LS.LOCKALL", "2", "a:1", "W", "a:2", "W", "ID", id];
    let locks = locked(&one.ask(&all).await);
    let (first, second) = (&locks[0].1, &locks[1].1);
    assert_eq!(one.ask(&["LS.UNLOCK", "a:2", second]).await, Value::Int(1));
    refused(two.ask(&all).await, ErrorCode::Stale);
    assert_eq!(one.ask(&["LS.RENEW", "a:1", first]).await, Value::Int(10_000));
    assert_eq!(seen(&mut three, "a:1", "holders").await, 1);
    assert_eq!(one.ask(&["LS.UNLOCK", "a:1", first]).await, Value::Int(1));
    // The first record was locked by a command of its own.
    let id = "7f9619ff-8b86-d011-b42d-00c04fc964ff";
    let held = one.ask(&["LS.LOCK", "a:1", "W", "ID", id]).await;
    word(&three.ask(&["LS.LOCK", "a:2", "W"]).await, "handle");
    let all = ["LS.LOCKALL", "2", "a:1", "W", "a:2", "W", "ID", id, "WAIT", "0"];
    assert_eq!(two.ask(&all).await, Value::Null);
    let renewed = one.ask(&["LS.RENEW", "a:1", &word(&held, "handle")]).await;
    assert_eq!(renewed, Value::Int(10_000));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f121_a_command_that_is_answered_as_withdrawn_leaves_no_lock() {
    let server = start(fresh()).await;
    let [mut one, mut two, mut three] = clients(&server).await;
    word(&two.ask(&["LS.LOCK", "a:2", "W"]).await, "handle");
    let id = "6f9619ff-8b86-d011-b42d-00c04fc964ff";
    let all = ["LS.LOCKALL", "2", "a:1", "W", "a:2", "W", "LEASE", "60000", "ID", id];
    one.send(&all).await;
    until(&mut three, "a:2", "waiters", 1).await;
    assert_eq!(seen(&mut three, "a:1", "holders").await, 1);
    one.send(&["QUIT"]).await;
    let text = refused(one.reply().await, ErrorCode::Err);
    assert!(text.contains("withdrawn"), "{text}");
    until(&mut three, "a:1", "holders", 0).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_sets_are_refused_and_nothing_is_locked() {
    let server = start(fresh()).await;
    let [mut one, mut two, _] = clients(&server).await;
    let many: Vec<_> = (0..101).map(|id| format!("m:{id}")).collect();
    let mut too_many = vec!["LS.LOCKALL", "101"];
    too_many.extend(many.iter().flat_map(|record| [record.as_str(), "W"]));
    for (words, what) in [
        (&["LS.LOCKALL", "0", "a:1", "W"][..], "numrecords"),
        (&["LS.LOCKALL", "x", "a:1", "W"], "numrecords"),
        (&["LS.LOCKALL", "2", "a:1", "W"], "LS.LOCKALL"),
        (&["LS.LOCKALL", "2", "a:1", "W", "WAIT", "5"], "record"),
        (&["LS.LOCKALL", "1", "a:1", "X"], "mode"),
        (&["LS.LOCKALL", "1", "a:1", "W", "b:1", "W"], "option"),
        (&["LS.LOCKALL", "1", "nocolon", "W"], "colon"),
        (&too_many, "from 1 to 100"),
    ] {
        let text = refused(one.ask(words).await, ErrorCode::Err);
        assert!(text.contains(what), "{words:?}: {text}");
    }
    assert_eq!(seen(&mut two, "a:1", "holders").await, 0);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f121_commands_for_the_same_records_in_any_order_all_end() {
    let server = start(fresh()).await;
    let mut tasks = Vec::new();
    for at in 0..6 {
        let mut client = Client::new(&server).await;
        tasks.push(tokio::spawn(async move {
            let mut ids = ["a:1", "a:2", "a:3"];
            ids.rotate_left(at % 3);
            if at % 2 == 0 {
                ids.reverse();
            }
            for turn in 0..20 {
                let mode = if (turn + at) % 4 == 0 { "R" } else { "W" };
                let all = ["LS.LOCKALL", "3", ids[0], mode, ids[1], mode, ids[2], "W"];
                for (record, handle, _) in locked(&client.ask(&all).await) {
                    assert_eq!(client.ask(&["LS.UNLOCK", &record, &handle]).await, Value::Int(1));
                }
            }
        }));
    }
    for task in tasks {
        within(task).await.unwrap();
    }
    server.stop().await;
}
