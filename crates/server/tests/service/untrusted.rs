//! What a user can't do to others, whatever they say about epochs, owners and sessions.

use lockspan_protocol::{Claim, Epoch, GroupSet, Mode, Seq, Term, ToNode, ToServer, Token};
use lockspan_server::{Address, Config, Data};
use lockspan_wire::{ErrorCode, Value};

use crate::client::{Client, acquire, fresh, record, start, word};
use crate::users::{as_user, users, with_users};

fn token(epoch: u32, count: i64) -> Token {
    Token::from_number((i64::from(epoch) << 40) | count).expect("a token")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_of_one_datatype_begins_no_term() {
    let (server, _dir) = with_users().await;
    let mut root = as_user(&server, "root").await;
    let roots = root.open(&["LEASE", "30000"]).await;
    let held = root.ask(&["LS.ACQUIRE", &roots, "doc:1", "W"]).await;
    assert_eq!(word(&held, "status"), "granted");
    let before = root.ask(&["LS.SLOTS"]).await;
    let mut bob = as_user(&server, "bob").await;
    let bobs = bob.open(&["LEASE", "30000"]).await;
    let later = token(65_000, 1).number().to_string();
    let present = token(1, 9).number().to_string();
    for (epoch, token) in [("1", &later), ("65000", &later), ("65000", &present), ("1", &present)] {
        let words = ["LS.REASSERT", &bobs, "doc:1", epoch, "500", "R", "HELD", token];
        let (code, text) = bob.refused(&words).await;
        assert_eq!(code, ErrorCode::NoPerm, "{epoch} {token}: {text}");
    }
    let waiting = ["LS.REASSERT", &bobs, "doc:1", "2", "501", "R", "WAITING"];
    assert_eq!(bob.refused(&waiting).await.0, ErrorCode::NoPerm);
    assert_eq!(root.ask(&["LS.SLOTS"]).await, before, "bob has begun another term");
    assert!(matches!(root.ask(&["LS.KEEP", &roots]).await, Value::Int(_)), "root's lease");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nor_does_a_node_of_theirs() {
    let (server, _dir) = with_users().await;
    let mut root = as_user(&server, "root").await;
    let before = root.ask(&["LS.SLOTS"]).await;
    let mut bob = as_user(&server, "bob").await;
    let session = bob.open_native(7).await;
    let reassert = |seq, claim| ToServer::Reassert {
        record: record("doc:1"),
        epoch: Epoch::new(60_000).expect("small"),
        former: session,
        seq: Seq(seq),
        mode: Mode::Read,
        claim,
    };
    bob.tell(session, &acquire("doc:1", Mode::Read, 1, 60_000)).await;
    let waiting = Claim::Waiting { ticket: None, upgrade: false, owners: Vec::new() };
    bob.tell(session, &reassert(2, waiting)).await;
    bob.tell(session, &reassert(3, Claim::Held { token: token(1, 9) })).await;
    // Nothing is said to the first two: they are sent again until an administrator has looked.
    assert_eq!(bob.heard().await, ToNode::Lost { record: record("doc:1"), seq: Seq(3) });
    bob.tell(session, &acquire("doc:1", Mode::Read, 4, 1)).await;
    assert!(matches!(bob.heard().await, ToNode::Granted { seq: Seq(4), .. }));
    assert_eq!(root.ask(&["LS.SLOTS"]).await, before);
    server.stop().await;
}

/// After a restore from an old backup somebody has to say which epochs there were.
#[tokio::test(flavor = "multi_thread")]
async fn an_administrator_is_believed() {
    let (server, _dir) = with_users().await;
    let mut root = as_user(&server, "root").await;
    let session = root.open(&["LEASE", "30000"]).await;
    let shown = token(9, 1).number().to_string();
    let words = ["LS.REASSERT", &session, "doc:1", "9", "500", "R", "HELD", &shown];
    assert_eq!(root.ask(&words).await, Value::OK);
    // Without a data directory it is stored at once.
    let slots = format!("{:?}", root.ask(&["LS.SLOTS"]).await);
    assert!(slots.contains("Int(10)"), "{slots}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_re_asserts_what_an_earlier_epoch_has_granted() {
    let dir = tempfile::tempdir().expect("a directory");
    let config = Config {
        users: Some(users(dir.path())),
        data: Data::Dir(dir.path().join("data")),
        ..fresh()
    };
    let server = start(config.clone()).await;
    let mut ann = as_user(&server, "ann").await;
    let session = ann.open(&["LEASE", "30000"]).await;
    let held = ann.ask(&["LS.ACQUIRE", &session, "doc:1", "W"]).await;
    assert_eq!(word(&held, "status"), "granted");
    server.stop().await;
    drop(server);
    let server = start(config).await;
    let mut ann = as_user(&server, "ann").await;
    let reassert = |token: Token| {
        let number = token.number().to_string();
        ["LS.REASSERT", &session, "doc:1", "2", "1", "W", "HELD", &number].map(str::to_owned)
    };
    let forged = reassert(token(2, 1));
    let forged = forged.each_ref().map(String::as_str);
    assert_eq!(ann.refused(&forged).await.0, ErrorCode::NoPerm);
    let honest = reassert(token(1, 1));
    assert_eq!(ann.ask(&honest.each_ref().map(String::as_str)).await, Value::OK);
    assert_eq!(ann.ask(&["LS.REASSERTED", &session, "2", "1", "1"]).await, Value::OK);
    let mut root = as_user(&server, "root").await;
    let roots = root.open(&["LEASE", "30000"]).await;
    let waits = root.ask(&["LS.ACQUIRE", &roots, "doc:1", "W"]).await;
    assert_eq!(word(&waits, "status"), "queued", "ann holds it");
    server.stop().await;
}

/// It loses that record, and no other.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_may_not_re_assert_one_record_keeps_the_others() {
    let dir = tempfile::tempdir().expect("a directory");
    let config = Config {
        users: Some(users(dir.path())),
        data: Data::Dir(dir.path().join("data")),
        shards: 1,
        ..fresh()
    };
    let server = start(config.clone()).await;
    let mut ann = as_user(&server, "ann").await;
    let session = ann.open_native_for(7, std::time::Duration::from_secs(30)).await;
    ann.tell(session, &acquire("doc:1", Mode::Write, 1, 1)).await;
    assert!(matches!(ann.heard().await, ToNode::Granted { .. }));
    server.stop().await;
    drop(server);
    let server = start(config).await;
    let mut ann = as_user(&server, "ann").await;
    let (epoch, former) = (Epoch::new(2).expect("small"), session);
    for (name, seq) in [("doc:1", 1), ("secret:1", 2)] {
        let reassert = ToServer::Reassert {
            record: record(name),
            epoch,
            former,
            seq: Seq(seq),
            mode: Mode::Write,
            claim: Claim::Held { token: token(1, 1) },
        };
        ann.tell(session, &reassert).await;
    }
    assert_eq!(ann.heard().await, ToNode::Lost { record: record("secret:1"), seq: Seq(2) });
    let groups = GroupSet::ALL;
    let (first, last, count, sum) = (Seq(1), Seq(2), 2, 3);
    ann.tell(session, &ToServer::Page { groups, epoch, former, first, last, count, sum }).await;
    let term = Term { groups, epoch };
    assert_eq!(ann.heard().await, ToNode::Heard { term, former, first, whole: true });
    ann.tell(session, &ToServer::Reasserted { groups, epoch, former, count, sum }).await;
    assert_eq!(ann.heard().await, ToNode::Recovered { term, former });
    let mut root = as_user(&server, "root").await;
    let roots = root.open(&["LEASE", "30000"]).await;
    for (name, status) in [("doc:1", "queued"), ("secret:1", "granted")] {
        let answer = root.ask(&["LS.ACQUIRE", &roots, name, "W"]).await;
        assert_eq!(word(&answer, "status"), status, "{name}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_makes_no_deadlock_for_another() {
    let (server, _dir) = with_users().await;
    let mut ann = as_user(&server, "ann").await;
    let (a, b) = (ann.open(&["LEASE", "30000"]).await, ann.open(&["LEASE", "30000"]).await);
    ann.ask(&["LS.ACQUIRE", &a, "doc:9", "W", "OWNER", "1"]).await;
    ann.ask(&["LS.ACQUIRE", &b, "doc:9", "W", "OWNER", "2"]).await;
    let mut root = as_user(&server, "root").await;
    let (c, d) = (root.open(&["LEASE", "30000"]).await, root.open(&["LEASE", "30000"]).await);
    root.ask(&["LS.ACQUIRE", &c, "secret:1", "W", "OWNER", "2"]).await;
    let waits = root.ask(&["LS.ACQUIRE", &d, "secret:1", "W", "WAIT", "100", "OWNER", "1"]).await;
    assert_eq!(waits, Value::Null, "root waits until the time is over");
    server.stop().await;
}

/// Two users who wait for each other are in a deadlock, also if both chose the same number.
#[tokio::test(flavor = "multi_thread")]
async fn a_deadlock_of_two_users_is_found() {
    let (server, _dir) = with_users().await;
    let mut ann = as_user(&server, "ann").await;
    let mut root = as_user(&server, "root").await;
    let (a, r) = (ann.open(&["LEASE", "30000"]).await, root.open(&["LEASE", "30000"]).await);
    ann.ask(&["LS.ACQUIRE", &a, "doc:1", "W", "OWNER", "1"]).await;
    root.ask(&["LS.ACQUIRE", &r, "doc:2", "W", "OWNER", "1"]).await;
    let waits = ann.ask(&["LS.ACQUIRE", &a, "doc:2", "W", "OWNER", "1"]).await;
    assert_eq!(word(&waits, "status"), "queued");
    let closes = ["LS.ACQUIRE", &r, "doc:1", "W", "WAIT", "forever", "OWNER", "1"];
    assert_eq!(root.refused(&closes).await.0, ErrorCode::Deadlock);
    server.stop().await;
}

/// A session from before there were users belongs to who names it first, also after a restart.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_was_claimed_stays_whose_it_is() {
    for on_socket in [false, true] {
        let dir = tempfile::tempdir().expect("a directory");
        let mut config = Config { data: Data::Dir(dir.path().join("data")), ..fresh() };
        if on_socket {
            config.listen = vec![Address::Unix(dir.path().join("a.sock"))];
        }
        let server = start(config.clone()).await;
        let mut anybody = Client::new(&server).await;
        let session = anybody.open(&["LEASE", "30000"]).await;
        server.stop().await;
        drop(server);
        config.users = Some(users(dir.path()));
        for epoch in ["2", "3"] {
            let server = start(config.clone()).await;
            if epoch != "2" {
                let mut bob = as_user(&server, "bob").await;
                let (code, text) = bob.refused(&["LS.CLOSE", &session]).await;
                assert_eq!(code, ErrorCode::NoSession, "{text}");
            }
            let mut ann = as_user(&server, "ann").await;
            let words = ["LS.REASSERTED", &session, epoch, "0", "0"];
            assert_eq!(ann.ask(&words).await, Value::OK);
            let mut bob = as_user(&server, "bob").await;
            assert_eq!(bob.refused(&["LS.KEEP", &session]).await.0, ErrorCode::NoSession);
            server.stop().await;
        }
    }
}
