//! Blocking acquires: replies in order, withdrawal, time-outs.

use lockspan_wire::{ErrorCode, Value};

use crate::client::{Client, field, fresh, number, start, until, word};

#[tokio::test(flavor = "multi_thread")]
async fn commands_behind_a_wait_run_at_once_and_their_replies_wait() {
    let server = start(fresh()).await;
    let (mut one, mut two) = (Client::new(&server).await, Client::new(&server).await);
    let a = one.open(&["EVENTS", "push"]).await;
    let b = two.open(&["EVENTS", "push"]).await;
    let held = one.ask(&["LS.ACQUIRE", &a, "a:1", "W"]).await;
    two.ask(&["LS.ACQUIRE", &b, "b:1", "W"]).await;

    two.send(&["LS.ACQUIRE", &b, "a:1", "W", "WAIT", "forever"]).await;
    two.send(&["LS.ACQUIRE", &b, "c:1", "W"]).await;
    two.send(&["ECHO", "last"]).await;
    // The later commands have run: c:1 is taken.
    until("both have reached their tables", || server.stats().claims == 4).await;
    // A push is not held up by the reply that is outstanding.
    let queued = one.ask(&["LS.ACQUIRE", &a, "b:1", "W"]).await;
    assert_eq!(word(&queued, "status"), "queued");
    let event = format!("{:?}", two.event().await);
    assert!(event.contains("Revoke"), "{event}");

    let seq = number(&held, "seq").to_string();
    assert_eq!(one.ask(&["LS.RELEASE", &a, "a:1", &seq]).await, Value::Int(1));
    let granted = two.reply().await;
    assert_eq!(word(&granted, "status"), "granted");
    assert!(number(&granted, "token") > number(&held, "token"));
    assert_eq!(word(&two.reply().await, "status"), "granted", "c:1");
    assert_eq!(two.reply().await, Value::bulk("last"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_connection_withdraws_what_it_waits_for_and_frees_nothing() {
    let server = start(fresh()).await;
    let mut one = Client::new(&server).await;
    let a = one.open(&[]).await;
    let held = one.ask(&["LS.ACQUIRE", &a, "a:1", "W"]).await;
    let mut two = Client::new(&server).await;
    let b = two.open(&[]).await;
    two.ask(&["LS.ACQUIRE", &b, "b:1", "W"]).await;
    two.send(&["LS.ACQUIRE", &b, "a:1", "W", "WAIT", "60000"]).await;
    until("it waits", || server.stats().claims == 3).await;
    drop(two);
    until("the wait is withdrawn", || server.stats().claims == 2).await;
    let inspected = one.ask(&["LS.INSPECT", "b:1"]).await;
    assert_eq!(word(&inspected, "state"), "alone", "its grant stays");
    let seq = number(&held, "seq").to_string();
    one.ask(&["LS.RELEASE", &a, "a:1", &seq]).await;
    let inspected = one.ask(&["LS.INSPECT", "a:1"]).await;
    assert_eq!(word(&inspected, "state"), "free");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_ends_in_time_and_is_withdrawn() {
    let server = start(fresh()).await;
    let (mut one, mut two) = (Client::new(&server).await, Client::new(&server).await);
    let (a, b) = (one.open(&[]).await, two.open(&[]).await);
    one.ask(&["LS.ACQUIRE", &a, "a:1", "W"]).await;
    assert_eq!(two.ask(&["LS.ACQUIRE", &b, "a:1", "W", "WAIT", "30"]).await, Value::Null);
    let inspected = one.ask(&["LS.INSPECT", "a:1"]).await;
    assert_eq!(field(&inspected, "waiters"), &Value::Array(vec![]));
    // The next one gets a number of its own and waits again.
    two.send(&["LS.ACQUIRE", &b, "a:1", "W", "WAIT", "60000"]).await;
    until("it waits", || server.stats().claims == 2).await;
    one.ask(&["LS.CLOSE", &a]).await;
    assert_eq!(word(&two.reply().await, "status"), "granted");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_with_retries_is_served_by_the_server_itself() {
    let server = start(fresh()).await;
    let (mut one, mut two) = (Client::new(&server).await, Client::new(&server).await);
    let (a, b) = (one.open(&[]).await, two.open(&["HANDOFF", "retry"]).await);
    let held = one.ask(&["LS.ACQUIRE", &a, "a:1", "W"]).await;
    two.send(&["LS.ACQUIRE", &b, "a:1", "R", "WAIT", "forever"]).await;
    until("it waits", || server.stats().claims == 2).await;
    let seq = number(&held, "seq").to_string();
    one.ask(&["LS.RELEASE", &a, "a:1", &seq]).await;
    assert_eq!(word(&two.reply().await, "status"), "granted");
    assert_eq!(server.stats().retries, 1);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_command_of_the_session_may_end_a_wait() {
    let server = start(fresh()).await;
    let (mut one, mut two) = (Client::new(&server).await, Client::new(&server).await);
    let mut three = Client::new(&server).await;
    let (a, b) = (one.open(&[]).await, two.open(&[]).await);
    one.ask(&["LS.ACQUIRE", &a, "a:1", "W"]).await;
    let stale = |value: Value| match value {
        Value::Error { code: ErrorCode::Stale, text } => text,
        other => panic!("{other:?}"),
    };
    two.send(&["LS.ACQUIRE", &b, "a:1", "W", "WAIT", "forever", "SEQ", "5"]).await;
    until("it waits", || server.stats().claims == 2).await;
    assert_eq!(three.ask(&["LS.CANCEL", &b, "a:1", "5"]).await, Value::Int(1));
    stale(two.reply().await);
    two.send(&["LS.ACQUIRE", &b, "a:1", "W", "WAIT", "forever"]).await;
    until("it waits", || server.stats().claims == 2).await;
    let (code, text) = three.refused(&["LS.ACQUIRE", &b, "a:1", "R"]).await;
    assert_eq!(code, ErrorCode::Already, "an acquire does not: {text}");
    assert_eq!(three.ask(&["LS.CANCEL", &b, "a:1", "6"]).await, Value::Int(1));
    stale(two.reply().await);
    // The end of the session ends them all.
    two.send(&["LS.ACQUIRE", &b, "a:1", "W", "WAIT", "forever"]).await;
    until("it waits", || server.stats().claims == 2).await;
    three.ask(&["LS.CLOSE", &b]).await;
    let Value::Error { code, .. } = two.reply().await else { panic!("not an error") };
    assert_eq!(code, ErrorCode::NoSession);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_becomes_a_write_and_back() {
    let server = start(fresh()).await;
    let (mut one, mut two) = (Client::new(&server).await, Client::new(&server).await);
    let (a, b) = (one.open(&[]).await, two.open(&[]).await);
    let seq = |value: &Value| number(value, "seq").to_string();
    let mine = one.ask(&["LS.ACQUIRE", &a, "a:1", "R"]).await;
    let theirs = two.ask(&["LS.ACQUIRE", &b, "a:1", "R"]).await;
    // The other reads too: the upgrade waits, gives up, and the read stays under a new number.
    let kept = one.ask(&["LS.CONVERT", &a, "a:1", &seq(&mine), "W", "WAIT", "30"]).await;
    assert_eq!((word(&kept, "status"), word(&kept, "mode")), ("granted".into(), "R".into()));
    assert!(number(&kept, "seq") > number(&mine, "seq"));
    let (code, text) = one.refused(&["LS.CONVERT", &a, "a:1", &seq(&mine), "W"]).await;
    assert!(code == ErrorCode::NotHeld && text.contains("a:1"), "{text}");

    one.send(&["LS.CONVERT", &a, "a:1", &seq(&kept), "W", "WAIT", "forever"]).await;
    until("it waits", || server.stats().claims == 3).await;
    let (code, _) = two.refused(&["LS.CONVERT", &b, "a:1", &seq(&theirs), "W"]).await;
    assert_eq!(code, ErrorCode::Refused, "a second upgrader");
    two.ask(&["LS.RELEASE", &b, "a:1", &seq(&theirs)]).await;
    let write = one.reply().await;
    assert_eq!(word(&write, "mode"), "W");
    let read = one.ask(&["LS.CONVERT", &a, "a:1", &seq(&write), "R"]).await;
    assert_eq!(
        (word(&read, "mode"), number(&read, "token")),
        ("R".into(), number(&write, "token"))
    );
    let again = two.ask(&["LS.ACQUIRE", &b, "a:1", "R"]).await;
    assert_eq!(word(&again, "status"), "granted");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_that_wait_for_each_other_are_refused() {
    let server = start(fresh()).await;
    let (mut one, mut two) = (Client::new(&server).await, Client::new(&server).await);
    let (a, b) = (one.open(&[]).await, two.open(&[]).await);
    let held = one.ask(&["LS.ACQUIRE", &a, "a:1", "R", "OWNER", "10"]).await;
    two.ask(&["LS.ACQUIRE", &b, "a:2", "W", "OWNER", "20"]).await;
    // What is converted keeps its owners.
    let seq = number(&held, "seq").to_string();
    let held = one.ask(&["LS.CONVERT", &a, "a:1", &seq, "W"]).await;
    assert_eq!(word(&held, "status"), "granted");
    one.send(&["LS.ACQUIRE", &a, "a:2", "W", "OWNER", "10", "WAIT", "forever"]).await;
    until("it waits", || server.stats().claims == 3).await;
    let wait = ["LS.ACQUIRE", &b, "a:1", "W", "OWNER", "20", "WAIT", "forever"];
    let (code, text) = two.refused(&wait).await;
    assert_eq!(code, ErrorCode::Deadlock, "{text}");
    assert!(text.contains("owner 10") && text.contains("owner 20"), "{text}");
    two.ask(&["LS.CLOSE", &b]).await;
    assert_eq!(word(&one.reply().await, "status"), "granted");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_is_refused_leaves_others_of_its_number_in_line() {
    let server = start(fresh()).await;
    let (mut one, mut two) = (Client::new(&server).await, Client::new(&server).await);
    let mut three = Client::new(&server).await;
    let (a, b) = (one.open(&[]).await, two.open(&[]).await);
    let held = one.ask(&["LS.ACQUIRE", &a, "a:1", "W"]).await;
    let wait = ["LS.ACQUIRE", &b, "a:1", "W", "SEQ", "5", "WAIT", "forever"];
    two.send(&wait).await;
    until("it waits", || server.stats().claims == 2).await;
    let owners: Vec<_> = (1..=65).map(|owner| owner.to_string()).collect();
    let many = wait[..6].iter().copied();
    let many: Vec<_> = many.chain(owners.iter().flat_map(|owner| ["OWNER", owner])).collect();
    assert_eq!(three.refused(&many).await.0, ErrorCode::Limit);
    // As many as wait for the same number are bounded too.
    for _ in 1..64 {
        three.send(&wait).await;
    }
    three.send(&wait).await;
    three.send(&["LS.ACQUIRE", &b, "c:1", "W"]).await;
    until("all have come", || server.stats().claims == 3).await;
    let seq = number(&held, "seq").to_string();
    one.ask(&["LS.RELEASE", &a, "a:1", &seq]).await;
    assert_eq!(word(&two.reply().await, "status"), "granted");
    for _ in 1..64 {
        assert_eq!(word(&three.reply().await, "status"), "granted");
    }
    let Value::Error { code, .. } = three.reply().await else { panic!("one too many") };
    assert_eq!(code, ErrorCode::Limit);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_kept_has_a_higher_number() {
    let server = start(fresh()).await;
    let mut one = Client::new(&server).await;
    let a = one.open(&[]).await;
    one.ask(&["LS.ACQUIRE", &a, "a:1", "W", "SEQ", "100"]).await;
    for keep in ["50", "100"] {
        let (code, text) = one.refused(&["LS.RELEASE", &a, "a:1", "100", "KEEP", keep]).await;
        assert!(code == ErrorCode::Err && text.contains(keep), "{text}");
    }
    let seen = one.ask(&["LS.INSPECT", "a:1"]).await;
    assert_eq!(word(&seen, "state"), "alone", "nothing was done");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_whose_upgrade_was_left_is_known_by_its_old_number() {
    let server = start(fresh()).await;
    let (mut one, mut two) = (Client::new(&server).await, Client::new(&server).await);
    let (a, b) = (one.open(&[]).await, two.open(&[]).await);
    let mine = one.ask(&["LS.ACQUIRE", &a, "a:1", "R"]).await;
    two.ask(&["LS.ACQUIRE", &b, "a:1", "R"]).await;
    let seq = number(&mine, "seq").to_string();
    one.send(&["LS.CONVERT", &a, "a:1", &seq, "W", "WAIT", "forever"]).await;
    until("it waits", || server.stats().claims == 3).await;
    drop(one);
    until("the upgrade is withdrawn", || server.stats().claims == 2).await;
    let mut one = Client::new(&server).await;
    assert_eq!(one.ask(&["LS.RELEASE", &a, "a:1", &seq]).await, Value::Int(1));
    assert_eq!(one.ask(&["LS.RELEASE", &a, "a:1", &seq]).await, Value::Int(0));
    until("the read is gone", || server.stats().claims == 1).await;
    server.stop().await;
}
