//! What people see: `LS.INSPECT`, `LS.LOCKS`, `LS.SESSIONS`.

use std::collections::BTreeSet;

use lockspan_wire::Value;

use crate::client::{Client, field, fresh, number, start, word};

#[tokio::test(flavor = "multi_thread")]
async fn all_locks_are_paged_through_while_others_come_and_go() {
    let server = start(fresh()).await;
    let mut client = Client::new(&server).await;
    let session = client.open(&[]).await;
    let mut expected = BTreeSet::new();
    for id in 0..500 {
        let name = format!("page:{id}");
        client.ask(&["LS.ACQUIRE", &session, &name, "W"]).await;
        expected.insert(name);
    }
    client.ask(&["LS.ACQUIRE", &session, "other:1", "W"]).await;
    let (mut cursor, mut seen, mut pages) = ("0".to_owned(), Vec::new(), 0);
    loop {
        let page = client.ask(&["LS.LOCKS", &cursor, "MATCH", "page:*", "COUNT", "7"]).await;
        let Value::Array(parts) = page else { panic!("{page:?}") };
        let [Value::Bulk(next), Value::Array(records)] = &parts[..] else { panic!("{parts:?}") };
        seen.extend(records.iter().map(|record| word(record, "record")));
        cursor = String::from_utf8_lossy(next).into_owned();
        pages += 1;
        client.ask(&["LS.ACQUIRE", &session, &format!("late:{pages}"), "W"]).await;
        if cursor == "0" {
            break;
        }
    }
    let found: BTreeSet<_> = seen.iter().cloned().collect();
    assert_eq!(found, expected);
    assert_eq!(seen.len(), expected.len(), "each is seen once");
    assert!(pages > 20, "{pages} pages");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_and_the_sessions_are_shown() {
    let server = start(fresh()).await;
    let (mut one, mut two) = (Client::new(&server).await, Client::new(&server).await);
    let a = one.open(&["EVENTS", "push", "LEASE", "30000"]).await;
    let b = two.open(&[]).await;
    one.ask(&["LS.ACQUIRE", &a, "a:1", "W"]).await;
    two.ask(&["LS.ACQUIRE", &b, "a:1", "R"]).await;
    let seen = two.ask(&["LS.INSPECT", "a:1"]).await;
    assert_eq!(word(&seen, "state"), "alone-wanted");
    let Value::Array(holders) = field(&seen, "holders") else { panic!("{seen:?}") };
    assert_eq!(number(&holders[0], "session").to_string(), a);
    assert_eq!(word(&holders[0], "revoked"), "R");
    let Value::Array(sessions) = two.ask(&["LS.SESSIONS"]).await else { panic!("no list") };
    let shown =
        sessions.iter().find(|it| number(it, "session").to_string() == a).expect("it is there");
    assert_eq!((number(shown, "lease-ms"), number(shown, "connections")), (30_000, 1));
    assert!((1..=30_000).contains(&number(shown, "left-ms")));
    let kept = two.ask(&["LS.KEEP", &b]).await;
    assert_eq!(kept, Value::Int(10_000));
    server.stop().await;
}
