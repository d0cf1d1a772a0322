//! Nodes: `LS.TELL` and pushes.

use std::time::Duration;

use lockspan_protocol::{
    Epoch, GroupSet, Handoff, Mode, Owner, Seq, SessionId, SessionRefusal, ToNode, ToServer,
};
use lockspan_server::{Config, Server};
use lockspan_wire::{Event, Value};

use crate::client::{Client, acquire, field, fresh, record, release, start, within};

#[tokio::test(flavor = "multi_thread")]
async fn a_record_is_granted_queued_revoked_and_handed_over() {
    let server = start(fresh()).await;
    let (mut one, mut two) = (Client::new(&server).await, Client::new(&server).await);
    let (a, b) = (one.open_native(1).await, two.open_native(u64::MAX).await);

    one.tell(a, &acquire("order:1", Mode::Write, 1, 1)).await;
    let ToNode::Granted { record: name, seq, mode, token: first, give_back } = one.heard().await
    else {
        panic!("not granted")
    };
    assert_eq!((name, seq, mode, give_back), (record("order:1"), Seq(1), Mode::Write, None));

    two.tell(b, &acquire("order:1", Mode::Write, 1, 1)).await;
    assert!(matches!(two.heard().await, ToNode::Queued { .. }));
    let revoke = one.heard().await;
    assert!(matches!(revoke, ToNode::Revoke { wanted: Mode::Write, .. }), "{revoke:?}");
    one.tell(a, &release("order:1", 1)).await;
    let ToNode::Granted { token: second, .. } = two.heard().await else { panic!("not granted") };
    assert!(second > first, "{second:?} after {first:?}");

    one.tell(a, &ToServer::KeepAlive { number: 7 }).await;
    assert_eq!(one.heard().await, ToNode::Alive { number: 7, groups: GroupSet::ALL });
    two.tell(b, &ToServer::Close).await;
    two.settle().await;
    one.tell(a, &acquire("order:1", Mode::Read, 2, 1)).await;
    assert!(matches!(one.heard().await, ToNode::Granted { seq: Seq(2), .. }));
    let stats = server.stats();
    assert_eq!((stats.records, stats.claims, stats.connections), (1, 1, 2), "{stats:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_is_said() {
    let server = start(fresh()).await;
    let mut node = Client::new(&server).await;
    let stranger = SessionId(99);
    for message in [
        acquire("a:1", Mode::Read, 1, 1),
        release("a:1", 1),
        ToServer::KeepAlive { number: 1 },
        ToServer::Close,
    ] {
        node.tell(stranger, &message).await;
        assert_eq!(node.event().await, (stranger, Event::Node(ToNode::NoSession)), "{message:?}");
    }
    let ttl = Duration::from_secs(3600);
    node.tell(stranger, &ToServer::Open { ttl, handoff: Handoff::Direct }).await;
    let refused = node.event().await.1;
    assert!(matches!(refused, Event::NotOpened(SessionRefusal::Lease { .. })), "{refused:?}");

    let session = node.open_native(5).await;
    node.tell(session, &acquire("a:1", Mode::Write, 0, 1)).await;
    let refused = node.heard().await;
    assert!(matches!(refused, ToNode::Refused { seq: Seq(0), .. }), "{refused:?}");
    node.tell(session, &ToServer::Close).await;
    node.tell(session, &ToServer::Open { ttl: Duration::from_secs(5), handoff: Handoff::Direct })
        .await;
    let refused = node.event().await.1;
    assert_eq!(refused, Event::NotOpened(SessionRefusal::Unknown), "an id is not used twice");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_session_loses_its_records_and_hears_so() {
    let server = start(fresh()).await;
    let (mut one, mut two) = (Client::new(&server).await, Client::new(&server).await);
    let a = one.open_native_for(1, Duration::from_secs(1)).await;
    let b = two.open_native(2).await;
    one.tell(a, &acquire("a:1", Mode::Write, 1, 1)).await;
    assert!(matches!(one.heard().await, ToNode::Granted { .. }));
    two.tell(b, &acquire("a:1", Mode::Write, 1, 1)).await;
    assert!(matches!(two.heard().await, ToNode::Queued { .. }));
    assert!(matches!(two.heard().await, ToNode::Granted { .. }), "when the lease is over");
    let over = within(async {
        loop {
            match one.heard().await {
                ToNode::Revoke { .. } => {}
                other => break other,
            }
        }
    });
    assert_eq!(over.await, ToNode::NoSession);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_outlives_its_connection_and_may_have_several() {
    let server = start(fresh()).await;
    let (mut first, mut other) = (Client::new(&server).await, Client::new(&server).await);
    let session = first.open_native(1).await;
    first.tell(session, &acquire("a:1", Mode::Write, 1, 1)).await;
    assert!(matches!(first.heard().await, ToNode::Granted { .. }));
    let mut second = Client::new(&server).await;
    second.tell(session, &ToServer::KeepAlive { number: 1 }).await;
    assert_eq!(second.heard().await, ToNode::Alive { number: 1, groups: GroupSet::ALL });
    assert_eq!(
        first.heard().await,
        ToNode::Alive { number: 1, groups: GroupSet::ALL },
        "both hear of the session"
    );
    drop(first);

    let stranger = other.open_native(2).await;
    other.tell(stranger, &acquire("a:1", Mode::Write, 1, 1)).await;
    assert!(matches!(other.heard().await, ToNode::Queued { .. }), "nothing was freed");
    assert!(matches!(second.heard().await, ToNode::Revoke { .. }));
    second.tell(session, &release("a:1", 1)).await;
    assert!(matches!(other.heard().await, ToNode::Granted { .. }));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadlock_over_two_shards_is_refused() {
    let server = start(fresh()).await;
    let (mut one, mut two) = (Client::new(&server).await, Client::new(&server).await);
    let (a, b) = (one.open_native(1).await, two.open_native(2).await);
    let names = ["a:1", "a:2"];
    let shards = names.map(|name| record(name).group().0 / 16);
    assert_ne!(shards[0], shards[1], "the names are to be in two tables");
    let by = |name, seq, owner| match acquire(name, Mode::Write, seq, 1) {
        ToServer::Acquire { record, mode, seq, epoch, upgrade, .. } => {
            ToServer::Acquire { record, mode, seq, epoch, upgrade, owners: vec![Owner(owner)] }
        }
        other => other,
    };
    one.tell(a, &by(names[0], 1, 10)).await;
    two.tell(b, &by(names[1], 1, 20)).await;
    assert!(matches!(one.heard().await, ToNode::Granted { .. }));
    assert!(matches!(two.heard().await, ToNode::Granted { .. }));
    one.tell(a, &by(names[1], 2, 10)).await;
    assert!(matches!(one.heard().await, ToNode::Queued { .. }));
    two.tell(b, &by(names[0], 2, 20)).await;
    let report = |name, owner| ToServer::Report {
        record: record(name),
        seq: Seq(1),
        number: 1,
        holders: vec![Owner(owner)],
        waits: Vec::new(),
    };
    assert!(matches!(one.heard().await, ToNode::Revoke { .. }));
    one.tell(a, &report(names[0], 10)).await;
    let mut heard = Vec::new();
    while heard.len() < 2 {
        heard.push(two.heard().await);
    }
    two.tell(b, &report(names[1], 20)).await;
    let refused = within(async {
        loop {
            if let ToNode::Refused { seq, why, .. } = two.heard().await {
                return (seq, why.to_string());
            }
        }
    })
    .await;
    assert_eq!(refused.0, Seq(2), "the youngest");
    assert!(refused.1.contains("owner 10") && refused.1.contains("owner 20"), "{}", refused.1);
    assert_eq!(server.stats().deadlocks, 1);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_epoch_ends_all_terms_and_others_begin_above() {
    let server = start(Config { shards: 2, ..fresh() }).await;
    let mut node = Client::new(&server).await;
    let session = node.open_native(1).await;
    node.tell(session, &acquire("a:1", Mode::Write, 1, 9)).await;
    let epoch = Epoch::new(10).expect("small");
    let mut terms = Vec::new();
    for _ in 0..2 {
        let ToNode::Serving(term) = node.heard().await else { panic!("no new term") };
        assert_eq!(term.epoch, epoch, "the storage of all groups went back");
        terms.push(term);
    }
    for term in terms {
        let (groups, former, count, sum) = (term.groups, session, 0, 0);
        let told = ToServer::Reasserted { groups, epoch, former, count, sum };
        node.tell(session, &told).await;
        assert_eq!(node.heard().await, ToNode::Recovered { term, former });
    }
    node.tell(session, &acquire("a:1", Mode::Write, 2, 10)).await;
    let ToNode::Granted { token, .. } = node.heard().await else { panic!("not granted") };
    assert_eq!(token.epoch(), epoch);
    // Late doubles of what has shown the later epoch change nothing.
    node.tell(session, &acquire("a:1", Mode::Write, 1, 9)).await;
    let ToNode::Serving(term) = node.heard().await else { panic!("not told the epoch") };
    assert_eq!(term.epoch, epoch);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tell_needs_pushes() {
    let server = start(fresh()).await;
    let mut client = Client::raw(&server.addresses()[0]).await;
    client.tell(SessionId(1), &ToServer::Close).await;
    let Value::Error { text, .. } = client.reply().await else { panic!("not an error") };
    assert!(text.contains("HELLO 3"), "{text}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_version_of_the_protocol_of_nodes_is_the_lower_of_both_sides() {
    let server = start(fresh()).await;
    for (said, agreed) in [(Some("3"), 2), (Some("2"), 2), (Some("1"), 1), (None, 1)] {
        let mut node = Client::raw(&server.addresses()[0]).await;
        let words: Vec<_> = match said {
            Some(version) => vec!["HELLO", "3", "LOCKSPAN", version],
            None => vec!["HELLO", "3"],
        };
        let hello = node.ask(&words).await;
        assert_eq!(field(&hello, "lockspan"), &Value::Int(agreed), "{said:?}");
    }
    server.stop().await;
}

/// Has a node of this version re-assert nothing in a new term; the words that it is told then.
async fn told_when_recovered(server: &Server, hello: &[&str]) -> String {
    let mut node = Client::raw(&server.addresses()[0]).await;
    node.ask(hello).await;
    let session = node.open_native(1).await;
    // The storage went back in time, as far as the server can know.
    node.tell(session, &acquire("a:1", Mode::Write, 1, 9)).await;
    let ToNode::Serving(term) = node.heard().await else { panic!("no new term") };
    let (groups, epoch, former) = (term.groups, term.epoch, session);
    node.tell(session, &ToServer::Reasserted { groups, epoch, former, count: 0, sum: 0 }).await;
    node.send(&["PING"]).await;
    let told = node.bytes_until("+PONG\r\n").await;
    told.replace("\r\n", " ")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_names_no_version_is_told_what_version_1_knows() {
    let server = start(Config { shards: 1, ..fresh() }).await;
    let old = told_when_recovered(&server, &["HELLO", "3"]).await;
    assert_eq!(old, ">5 $8 lockspan $1 1 $9 recovered $5 0-255 $2 10 +PONG ");
    server.stop().await;
    let server = start(Config { shards: 1, ..fresh() }).await;
    let new = told_when_recovered(&server, &["HELLO", "3", "LOCKSPAN", "2"]).await;
    assert_eq!(new, ">6 $8 lockspan $1 1 $9 recovered $5 0-255 $2 10 $1 1 +PONG ");
    server.stop().await;
}
