//! What people see: `LS.INSPECT`, `LS.LOCKS`, `LS.SESSIONS`.

use std::collections::BTreeSet;

use lockspan_wire::{ErrorCode, Value};

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
    // A pattern is no longer than a name can be: each byte of it is compared with each name.
    let (code, text) = client.refused(&["LS.LOCKS", "0", "MATCH", &"*".repeat(513)]).await;
    assert!(code == ErrorCode::Err && text.contains("at most 512 bytes"), "{text}");
    // Questions that look at much are answered in order, whatever else comes with them.
    let (locks, ping) = (["LS.LOCKS", "0", "COUNT", "1"], ["PING"]);
    for words in [&locks[..], &locks, &ping, &locks, &ping] {
        client.send(words).await;
    }
    for is_page in [true, true, false, true, false] {
        let reply = client.reply().await;
        assert_eq!(matches!(reply, Value::Array(_)), is_page, "{reply:?}");
    }
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
    let id = one.id_of(&a).await;
    assert_eq!(word(&holders[0], "session"), id);
    assert!(id.starts_with('s') && !format!("{seen:?}").contains(&a), "its number is a secret");
    assert_eq!(word(&holders[0], "revoked"), "R");
    let Value::Array(sessions) = two.ask(&["LS.SESSIONS"]).await else { panic!("no list") };
    let shown = sessions.iter().find(|it| word(it, "session") == id).expect("it is there");
    assert_eq!((number(shown, "lease-ms"), number(shown, "connections")), (30_000, 1));
    assert!((1..=30_000).contains(&number(shown, "left-ms")));
    let kept = two.ask(&["LS.KEEP", &b]).await;
    assert_eq!(kept, Value::Int(10_000));
    server.stop().await;
}

/// Ids that take as many bytes as an id can.
fn long_id(number: u64) -> String {
    (u64::MAX - number).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_is_bounded_however_many_wait() {
    let server = start(fresh()).await;
    let mut client = Client::new(&server).await;
    let sessions: Vec<_> = (0..2500).map(long_id).collect();
    for id in &sessions {
        // The longest lease: what follows may take long on a busy machine.
        client.send(&["LS.OPEN", "SESSION", id, "LEASE", "60000"]).await;
        client.send(&["LS.ACQUIRE", id, "hot:1", "W"]).await;
    }
    // Long names in one table, so that they come one after the other.
    let long = |id: usize| format!("{{t}}:{}{id:03}", "x".repeat(505));
    for id in 0..999 {
        client.send(&["LS.ACQUIRE", &sessions[0], &long(id), "W"]).await;
    }
    for _ in 0..5999 {
        let reply = client.reply().await;
        assert!(matches!(reply, Value::Map(_)), "{reply:?}");
    }
    let seen = client.ask(&["LS.INSPECT", "hot:1"]).await;
    let shown = |seen: &Value, name| match field(seen, name) {
        Value::Array(claims) => claims.len(),
        other => panic!("{other:?}"),
    };
    assert_eq!((shown(&seen, "holders"), shown(&seen, "waiters")), (1, 999));
    assert_eq!(number(&seen, "more-waiters"), 1500);
    assert!(bytes_of(&seen) < 256 << 10);

    let (mut cursor, mut names, mut pages) = ("0".to_owned(), BTreeSet::new(), 0);
    loop {
        let page = client.ask(&["LS.LOCKS", &cursor, "COUNT", "1000"]).await;
        assert!(bytes_of(&page) < 512 << 10, "{} bytes", bytes_of(&page));
        let Value::Array(parts) = page else { panic!("{page:?}") };
        let [Value::Bulk(next), Value::Array(records)] = &parts[..] else { panic!("{parts:?}") };
        for record in records {
            assert!(names.insert(word(record, "record")), "seen twice");
        }
        pages += 1;
        cursor = String::from_utf8_lossy(next).into_owned();
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(names.len(), 1000);
    assert!(pages > 2, "{pages} pages");
    server.stop().await;
}

fn bytes_of(value: &Value) -> usize {
    let mut bytes = bytes::BytesMut::new();
    lockspan_wire::put_value(value, lockspan_wire::Protocol::Resp3, &mut bytes);
    bytes.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_listed_a_part_at_a_time() {
    let server = start(fresh()).await;
    let mut client = Client::new(&server).await;
    let ids: BTreeSet<_> = (0..1100).map(long_id).collect();
    for id in &ids {
        client.send(&["LS.OPEN", "SESSION", id]).await;
    }
    let mut public = BTreeSet::new();
    for _ in &ids {
        public.insert(word(&client.reply().await, "id"));
    }
    assert_eq!(public.len(), ids.len());
    for (count, parts) in [("1000", 2), ("400", 3)] {
        let (mut seen, mut parts_seen, mut after) =
            (BTreeSet::new(), 0, "s000000000000".to_owned());
        loop {
            let part = client.ask(&["LS.SESSIONS", "AFTER", &after, "COUNT", count]).await;
            let Value::Array(part) = part else { panic!("{part:?}") };
            assert!(part.len() <= count.parse().expect("a number"));
            let Some(last) = part.last() else { break };
            after = word(last, "session");
            seen.extend(part.iter().map(|one| word(one, "session")));
            parts_seen += 1;
        }
        assert_eq!((seen, parts_seen), (public.clone(), parts));
    }
    let Value::Array(part) = client.ask(&["LS.SESSIONS"]).await else { panic!("no list") };
    assert_eq!(part.len(), 1000, "not more, if it is not told how many");
    server.stop().await;
}
