//! What sessions call themselves and what their acquires are for: shown everywhere, deciding
//! nothing.

use std::time::Duration;

use lockspan_protocol::{GroupSet, Mode, Seq, SessionId, ToNode, ToServer};
use lockspan_wire::{ErrorCode, Value};

use crate::client::{Client, acquire, field, fresh, number, record, release, start, word};
use crate::http::with_page;
use crate::users::{as_user, with_users};

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    let Value::Array(list) = field(value, key) else { panic!("{value:?}") };
    list
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_and_notes_are_shown_with_holders_and_waiters() {
    // Only a server with a page remembers what happened.
    let server = start(with_page(fresh())).await;
    let (mut one, mut two) = (Client::new(&server).await, Client::new(&server).await);
    let a = one.open(&["LABEL", "billing@host9[412]"]).await;
    let b = two.open(&[]).await;
    one.ask(&["LS.ACQUIRE", &a, "a:1", "W", "NOTE", "nightly import"]).await;
    let queued = two.ask(&["LS.ACQUIRE", &b, "a:1", "R", "NOTE", "report"]).await;
    assert_eq!((word(&queued, "status"), number(&queued, "ahead")), ("queued".into(), 0));
    let seen = two.ask(&["LS.INSPECT", "a:1"]).await;
    let (holder, waiter) = (&list(&seen, "holders")[0], &list(&seen, "waiters")[0]);
    assert_eq!(word(holder, "label"), "billing@host9[412]");
    assert_eq!(word(holder, "note"), "nightly import");
    assert_eq!(word(waiter, "note"), "report");
    // A client that says nothing is called after its connection.
    assert!(word(waiter, "label").starts_with("client@127.0.0.1:"), "{waiter:?}");
    // A label can be changed, and is shown in the list of sessions and in histories.
    assert_eq!(two.ask(&["LS.LABEL", &b, "reports"]).await, Value::OK);
    let Value::Array(sessions) = one.ask(&["LS.SESSIONS"]).await else { panic!("no list") };
    let mut labels: Vec<_> = sessions.iter().map(|it| word(it, "label")).collect();
    labels.sort();
    assert_eq!(labels, ["billing@host9[412]", "reports"]);
    // It stays in the history when its session is over.
    one.ask(&["LS.CLOSE", &a]).await;
    let Value::Array(history) = two.ask(&["LS.HISTORY", "a:1"]).await else { panic!("no list") };
    let first = history.last().expect("it was granted");
    assert_eq!(
        (word(first, "what"), word(first, "label")),
        ("granted".into(), "billing@host9[412]".into())
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_of_its_own_session_has_a_label_and_a_note_too() {
    let server = start(fresh()).await;
    let mut client = Client::new(&server).await;
    client.ask(&["LS.LOCK", "a:1", "W", "LABEL", "cron", "NOTE", "backup"]).await;
    let seen = client.ask(&["LS.INSPECT", "a:1"]).await;
    let holder = &list(&seen, "holders")[0];
    assert_eq!((word(holder, "label"), word(holder, "note")), ("cron".into(), "backup".into()));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_labels_and_notes_are_refused_and_change_nothing() {
    let server = start(fresh()).await;
    let mut client = Client::new(&server).await;
    let session = client.open(&["LABEL", "good"]).await;
    let long = "x".repeat(257);
    for (bad, why) in [("", "empty"), ("a\nb", "control"), (&*long, "257 bytes")] {
        for words in [
            &["LS.OPEN", "LABEL", bad][..],
            &["LS.LABEL", &session, bad],
            &["LS.ACQUIRE", &session, "a:1", "W", "NOTE", bad],
            &["LS.LOCK", "a:1", "W", "NOTE", bad],
            &["LS.LOCK", "a:1", "W", "LABEL", bad],
        ] {
            let (code, text) = client.refused(words).await;
            assert!(code == ErrorCode::Err && text.contains(why), "{words:?}: {text}");
        }
    }
    assert_eq!(word(&client.ask(&["LS.INSPECT", "a:1"]).await, "state"), "free");
    let Value::Array(sessions) = client.ask(&["LS.SESSIONS"]).await else { panic!("no list") };
    assert_eq!(sessions.iter().map(|it| word(it, "label")).collect::<Vec<_>>(), ["good"]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_is_told_who_holds_the_record_and_nobody_else_is() {
    let server = start(fresh()).await;
    let mut holder = Client::new(&server).await;
    let session = holder.open(&["LABEL", "billing"]).await;
    holder.ask(&["LS.ACQUIRE", &session, "a:1", "W", "NOTE", "import"]).await;
    let mut node = Client::new(&server).await;
    let id = node.open_native(77).await;
    let who = |seq| ToServer::WhoHolds { record: record("a:1"), seq: Seq(seq) };
    // It does not wait: no answer, and the next one is the answer to something else.
    node.tell(id, &who(1)).await;
    node.tell(id, &ToServer::KeepAlive { number: 1 }).await;
    assert_eq!(node.heard().await, ToNode::Alive { number: 1, groups: GroupSet::ALL });
    node.tell(id, &acquire("a:1", Mode::Write, 1, 1)).await;
    let queued = node.heard().await;
    assert!(matches!(queued, ToNode::Queued { ahead: 0, .. }), "{queued:?}");
    node.tell(id, &who(1)).await;
    let ToNode::HeldBy { ahead: 0, holders, .. } = node.heard().await else { panic!("no answer") };
    assert_eq!(holders[0].label.as_str(), "billing");
    assert_eq!(holders[0].note.as_ref().map(|it| it.as_str()), Some("import"));
    assert!(holders[0].held < Duration::from_secs(60));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whom_a_waiter_may_not_inspect_it_is_not_told() {
    let (server, _dir) = with_users().await;
    let mut root = as_user(&server, "root").await;
    let session = root.open(&["LABEL", "secret project"]).await;
    root.ask(&["LS.ACQUIRE", &session, "doc:1", "W"]).await;
    for (user, names) in [("ann", 0), ("bob", 1)] {
        let mut client = as_user(&server, user).await;
        let id = client.open_native(if user == "ann" { 71 } else { 72 }).await;
        client.tell(id, &acquire("doc:1", Mode::Read, 1, 1)).await;
        assert!(matches!(client.heard().await, ToNode::Queued { .. }));
        client.tell(id, &ToServer::WhoHolds { record: record("doc:1"), seq: Seq(1) }).await;
        let heard = client.heard().await;
        let ToNode::HeldBy { holders, .. } = &heard else { panic!("{heard:?}") };
        assert_eq!(holders.len(), names, "{user}: {heard:?}");
    }
    let (code, _) = as_user(&server, "bob").await.refused(&["LS.TAKEBACK", "doc:1"]).await;
    assert_eq!(code, ErrorCode::NoPerm);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_takes_a_record_back_by_a_command() {
    let server = start(fresh()).await;
    let (mut one, mut two) = (Client::new(&server).await, Client::new(&server).await);
    let (code, text) = two.refused(&["LS.TAKEBACK", "a:1"]).await;
    assert!(code == ErrorCode::Refused && text.contains("no session holds"), "{text}");
    let id = one.open_native(5).await;
    one.tell(id, &acquire("a:1", Mode::Write, 1, 1)).await;
    assert!(matches!(one.heard().await, ToNode::Granted { .. }));
    assert_eq!(two.ask(&["LS.TAKEBACK", "a:1", "WAIT", "20000"]).await, Value::Int(20_000));
    let revoke = one.heard().await;
    assert!(matches!(revoke, ToNode::Revoke { .. }), "{revoke:?}");
    let (code, text) = two.refused(&["LS.TAKEBACK", "a:1"]).await;
    assert!(code == ErrorCode::Refused && text.contains("already wait"), "{text}");
    let seen = two.ask(&["LS.INSPECT", "a:1"]).await;
    assert_eq!(word(&list(&seen, "waiters")[0], "label"), "take-back by an operator");
    one.tell(SessionId(id.0), &release("a:1", 1)).await;
    for _ in 0..500 {
        let seen = two.ask(&["LS.INSPECT", "a:1"]).await;
        if word(&seen, "state") == "free" {
            server.stop().await;
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it is not free");
}
