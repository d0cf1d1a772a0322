//! Restarts: what a data directory brings back, and what a start without one waits for.

use std::path::Path;
use std::time::Duration;

use lockspan_protocol::{
    Claim, Epoch, GroupSet, Handoff, Limits, Mode, Record, Seq, SessionId, Term, Ticket, ToNode,
    ToServer, Token,
};
use lockspan_server::{Address, Config, Data, Server, StartError};
use lockspan_wire::Value;

use crate::client::{Client, acquire, fresh, number, record, start, within, word};

fn on(dir: &Path) -> Config {
    Config { data: Data::Dir(dir.to_owned()), ..fresh() }
}

/// A server that only processes of this machine reach: its sessions are not synced.
fn on_socket(dir: &Path) -> Config {
    Config { listen: vec![Address::Unix(dir.join("lock.sock"))], ..on(dir) }
}

fn epoch(number: u32) -> Epoch {
    Epoch::new(number).expect("small")
}

/// What a node knows of one grant or wait.
struct Had {
    record: Record,
    seq: u64,
    claim: Claim,
}

/// Tells a new server all that a session had.
async fn reassert(node: &mut Client, session: SessionId, terms: &[Term], had: &[Had]) {
    for term in terms {
        let here = had.iter().filter(|it| term.groups.contains(it.record.group()));
        let (mut count, mut sum) = (0, 0);
        for Had { record, seq, claim } in here {
            let message = ToServer::Reassert {
                record: record.clone(),
                epoch: term.epoch,
                former: session,
                seq: Seq(*seq),
                mode: Mode::Write,
                claim: claim.clone(),
            };
            node.tell(session, &message).await;
            count += 1;
            sum += seq;
        }
        let (groups, epoch) = (term.groups, term.epoch);
        let done = ToServer::Reasserted { groups, epoch, former: session, count, sum };
        node.tell(session, &done).await;
    }
    let mut left = terms.len();
    while left > 0 {
        match node.heard().await {
            ToNode::Recovered { .. } => left -= 1,
            // The grace of its record may be over before that of the others.
            ToNode::Queued { .. } | ToNode::Revoke { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

/// What a restarted server serves, as a session that it lists hears by its keep-alive.
async fn served(node: &mut Client, session: SessionId) -> Vec<Term> {
    node.tell(session, &ToServer::KeepAlive { number: 1 }).await;
    let (mut terms, mut groups) = (Vec::new(), GroupSet::EMPTY);
    while groups != GroupSet::ALL {
        let ToNode::Serving(term) = node.heard().await else { panic!("not in a grace") };
        groups = groups.or(term.groups);
        terms.push(term);
    }
    terms
}

async fn hold(node: &mut Client, session: SessionId, name: &str, seq: u64) -> Token {
    node.tell(session, &acquire(name, Mode::Write, seq, 1)).await;
    match node.heard().await {
        ToNode::Granted { token, .. } => token,
        other => panic!("{other:?}"),
    }
}

async fn stand_in_line(node: &mut Client, session: SessionId, name: &str, seq: u64) -> Ticket {
    node.tell(session, &acquire(name, Mode::Write, seq, 1)).await;
    match node.heard().await {
        ToNode::Queued { ticket, .. } => ticket,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_comes_back_with_tokens_that_rise_and_the_order_of_its_line() {
    comes_back_with_tokens_and_order(on).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn so_does_a_server_whose_sessions_are_not_synced() {
    comes_back_with_tokens_and_order(on_socket).await;
}

async fn comes_back_with_tokens_and_order(on: fn(&Path) -> Config) {
    let dir = tempfile::tempdir().expect("a directory");
    let server = start(on(dir.path())).await;
    let mut nodes = Vec::new();
    for id in 1..=3 {
        let mut node = Client::new(&server).await;
        // A long lease: the grace ends because all have come back.
        let session = node.open_native_for(id, Duration::from_secs(60)).await;
        nodes.push((node, session));
    }
    let (ids, name) = ([nodes[0].1, nodes[1].1, nodes[2].1], "a:1");
    let token = hold(&mut nodes[0].0, ids[0], name, 1).await;
    let first = stand_in_line(&mut nodes[1].0, ids[1], name, 1).await;
    let second = stand_in_line(&mut nodes[2].0, ids[2], name, 1).await;
    drop(server);
    for (mut node, _) in nodes {
        node.closed().await;
    }

    let server = start(on(dir.path())).await;
    let mut stranger = Client::new(&server).await;
    stranger.tell(SessionId(99), &ToServer::KeepAlive { number: 1 }).await;
    assert_eq!(stranger.heard().await, ToNode::NoSession);
    let fourth = stranger.open_native(4).await;
    stranger.tell(fourth, &acquire(name, Mode::Write, 1, 2)).await;
    let late = stranger.heard().await;
    assert!(matches!(late, ToNode::Queued { .. }), "nothing is granted in the grace: {late:?}");

    // They come back in another order than that of the line.
    let claims = [
        Claim::Held { token },
        Claim::Waiting { ticket: Some(first), upgrade: false, owners: Vec::new() },
        Claim::Waiting { ticket: Some(second), upgrade: false, owners: Vec::new() },
    ];
    let mut nodes = Vec::new();
    for at in [2, 1, 0] {
        assert!(server.stats().recovering, "{at} is missing");
        let mut node = Client::new(&server).await;
        let terms = served(&mut node, ids[at]).await;
        assert!(terms.iter().all(|term| term.epoch == epoch(2)), "{terms:?}");
        let had = [Had { record: record(name), seq: 1, claim: claims[at].clone() }];
        reassert(&mut node, ids[at], &terms, &had).await;
        nodes.push((node, ids[at]));
    }
    let stats = server.stats();
    assert!(!stats.recovering, "all are here");
    nodes.reverse();
    let mut last = token;
    for (at, (node, session)) in nodes.iter_mut().enumerate() {
        if at > 0 {
            let granted = loop {
                match node.heard().await {
                    ToNode::Granted { token, .. } => break token,
                    ToNode::Queued { .. } => {}
                    other => panic!("{other:?}"),
                }
            };
            assert!(granted > last && granted.epoch() == epoch(2), "{granted:?} after {last:?}");
            last = granted;
        }
        let over = ToServer::Release { record: record(name), seq: Seq(1), keep: None };
        node.tell(*session, &over).await;
    }
    let granted = stranger.heard().await;
    assert!(matches!(granted, ToNode::Granted { token, .. } if token > last), "{granted:?}");
    let (mut node, session) = nodes.swap_remove(0);
    node.tell(session, &ToServer::KeepAlive { number: 5 }).await;
    let alive = loop {
        match node.heard().await {
            ToNode::Revoke { .. } => {}
            other => break other,
        }
    };
    assert_eq!(alive, ToNode::Alive { number: 5, groups: GroupSet::ALL }, "it is extended again");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_stays_away_is_waited_for_and_then_forgotten() {
    waits_for_who_stays_away(on).await;
    waits_for_who_stays_away(on_socket).await;
}

async fn waits_for_who_stays_away(on: fn(&Path) -> Config) {
    let dir = tempfile::tempdir().expect("a directory");
    let server = start(on(dir.path())).await;
    let mut node = Client::new(&server).await;
    let gone = node.open_native_for(1, Duration::from_secs(1)).await;
    hold(&mut node, gone, "a:1", 1).await;
    drop(server);

    let server = start(on(dir.path())).await;
    let mut node = Client::new(&server).await;
    let session = node.open_native(2).await;
    node.tell(session, &acquire("a:1", Mode::Write, 1, 2)).await;
    assert!(matches!(node.heard().await, ToNode::Queued { .. }));
    assert!(matches!(node.heard().await, ToNode::Granted { .. }), "when its lease is over");
    node.tell(gone, &ToServer::KeepAlive { number: 1 }).await;
    let answer = node.heard().await;
    assert_eq!(answer, ToNode::NoSession);
    server.stop().await;

    // And it is not in the data file any more, but the living one is.
    let server = start(on(dir.path())).await;
    let mut node = Client::new(&server).await;
    let terms = served(&mut node, session).await;
    assert!(terms.iter().all(|term| term.epoch == epoch(3)), "{terms:?}");
    node.tell(gone, &ToServer::KeepAlive { number: 1 }).await;
    assert_eq!(node.heard().await, ToNode::NoSession);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn generic_clients_reassert_too() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = start(on(dir.path())).await;
    let mut client = Client::new(&server).await;
    let session = client.open(&["LEASE", "60000"]).await;
    let mut held = Vec::new();
    for name in ["a:1", "b:2", "c:3"] {
        let granted = client.ask(&["LS.ACQUIRE", &session, name, "W"]).await;
        let number = |key| crate::client::number(&granted, key);
        held.push((name, number("seq"), number("token")));
    }
    drop(server);

    let server = start(on(dir.path())).await;
    let mut client = Client::new(&server).await;
    let (code, text) = client.refused(&["LS.KEEP", &session]).await;
    assert!(code == lockspan_wire::ErrorCode::Loading && text.contains("LS.REASSERT"), "{text}");
    for (name, seq, token) in &held[..2] {
        let (seq, token) = (seq.to_string(), token.to_string());
        let words = ["LS.REASSERT", &session, name, "2", &seq, "W", "HELD", &token];
        assert_eq!(client.ask(&words).await, lockspan_wire::Value::OK);
    }
    let sum: i64 = held.iter().map(|(_, seq, _)| seq).sum();
    let done = ["LS.REASSERTED", &session, "2", "3", &sum.to_string()].map(str::to_owned);
    let done: Vec<_> = done.iter().map(String::as_str).collect();
    let (code, text) = client.refused(&done).await;
    assert!(code == lockspan_wire::ErrorCode::Stale && text.contains('2'), "one missing: {text}");
    let (name, seq, token) = &held[2];
    let (seq, token) = (seq.to_string(), token.to_string());
    let words = ["LS.REASSERT", &session, name, "2", &seq, "W", "HELD", &token];
    client.ask(&words).await;
    assert_eq!(client.ask(&done).await, lockspan_wire::Value::OK);
    assert_eq!(client.ask(&["LS.KEEP", &session]).await, lockspan_wire::Value::Int(60_000));
    assert!(!server.stats().recovering);
    assert_eq!(server.stats().claims, 3);
    let more = client.ask(&["LS.ACQUIRE", &session, "d:4", "W"]).await;
    assert_eq!(crate::client::word(&more, "status"), "granted");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_data_directory_a_start_waits_for_the_longest_lease() {
    let protocol = Limits { ttl_max: Duration::from_secs(1), ..Limits::default() };
    let config = Config { data: Data::None { fresh: false }, protocol, ..fresh() };
    let server = start(config).await;
    let mut node = Client::new(&server).await;
    let session = node.open_native_for(1, Duration::from_secs(1)).await;
    node.tell(session, &acquire("a:1", Mode::Write, 1, 1)).await;
    assert!(matches!(node.heard().await, ToNode::Queued { .. }));
    let claim = Claim::Held { token: Token::new(Epoch::NONE, 5).expect("small") };
    let (record, former) = (record("b:1"), SessionId(2));
    let (epoch, seq, mode) = (epoch(1), Seq(2), Mode::Write);
    let message = ToServer::Reassert { record, epoch, former, seq, mode, claim };
    node.tell(session, &message).await;
    assert!(matches!(node.heard().await, ToNode::Unlisted { .. }), "nobody may re-assert");
    let granted = within(async {
        loop {
            node.tell(session, &ToServer::KeepAlive { number: 1 }).await;
            match node.heard().await {
                ToNode::Alive { .. } => tokio::time::sleep(Duration::from_millis(50)).await,
                other => break other,
            }
        }
    });
    let granted = granted.await;
    assert!(matches!(granted, ToNode::Granted { .. }), "{granted:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f46_after_damage_nobody_re_asserts_and_tokens_still_rise() {
    let dir = tempfile::tempdir().expect("a directory");
    let protocol = Limits { ttl_max: Duration::from_secs(1), ..Limits::default() };
    let on = || Config { protocol: protocol.clone(), ..on_socket(dir.path()) };
    let server = start(on()).await;
    let mut node = Client::new(&server).await;
    let gone = node.open_native_for(1, Duration::from_secs(1)).await;
    let token = hold(&mut node, gone, "a:1", 1).await;
    server.stop().await;
    // The line of the session is damaged in both copies.
    let file = dir.path().join("lockspan.data");
    let mut bytes = std::fs::read(&file).expect("there");
    let half = bytes.len() / 2;
    for copy in bytes.chunks_mut(half) {
        let open = copy.windows(5).position(|part| part == b" open").expect("a session");
        copy[open + 3] ^= 1;
    }
    std::fs::write(&file, bytes).expect("written");

    let server = start(on()).await;
    let mut node = Client::new(&server).await;
    node.tell(gone, &ToServer::KeepAlive { number: 1 }).await;
    assert_eq!(node.heard().await, ToNode::NoSession);
    let session = node.open_native_for(2, Duration::from_secs(1)).await;
    let (seq, mode, claim) = (Seq(1), Mode::Write, Claim::Held { token });
    let (record, epoch, former) = (record("a:1"), epoch(2), gone);
    let message = ToServer::Reassert { record, epoch, former, seq, mode, claim };
    node.tell(session, &message).await;
    assert!(matches!(node.heard().await, ToNode::Unlisted { .. }), "nobody may re-assert");
    node.tell(session, &acquire("a:1", Mode::Write, 2, 2)).await;
    assert!(matches!(node.heard().await, ToNode::Queued { .. }), "it may still be held");
    let granted = within(async {
        loop {
            node.tell(session, &ToServer::KeepAlive { number: 1 }).await;
            match node.heard().await {
                ToNode::Alive { .. } => tokio::time::sleep(Duration::from_millis(50)).await,
                other => break other,
            }
        }
    });
    let granted = granted.await;
    assert!(matches!(granted, ToNode::Granted { token: new, .. } if new > token), "{granted:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_do_not_share_a_data_directory() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = start(on(dir.path())).await;
    let why = within(Server::start(on(dir.path()))).await.expect_err("it is in use");
    assert!(matches!(why, StartError::DataInUse { .. }) && why.to_string().contains("data-dir"));
    server.stop().await;
    start(on(dir.path())).await.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_data_file_that_is_not_ours_is_an_error() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("lockspan.data"), b"not a data file").expect("written");
    let why = within(Server::start(on(dir.path()))).await.expect_err("it is foreign");
    assert!(matches!(why, StartError::Damaged { .. }), "{why}");
    assert!(why.to_string().contains("lockspan.data"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_opened_again_under_the_same_id_while_it_is_open() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = start(on(dir.path())).await;
    let mut node = Client::new(&server).await;
    let session = node.open_native(1).await;
    let open = ToServer::Open { ttl: Duration::from_secs(5), handoff: Handoff::Direct };
    node.tell(session, &open).await;
    assert!(matches!(node.heard().await, ToNode::Opened { .. }));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_from_before_a_restart_ends_nothing_that_was_granted_since() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = start(on(dir.path())).await;
    let mut client = Client::new(&server).await;
    let session = client.open(&["LEASE", "60000"]).await;
    client.ask(&["LS.ACQUIRE", &session, "a:2", "W"]).await;
    let held = client.ask(&["LS.ACQUIRE", &session, "a:1", "W"]).await;
    let seq = number(&held, "seq").to_string();
    drop(server);
    client.closed().await;

    let server = start(on(dir.path())).await;
    let mut client = Client::new(&server).await;
    // Its release was on the way when the server died, so it has nothing to tell of.
    assert_eq!(client.ask(&["LS.REASSERTED", &session, "2", "0", "0"]).await, Value::OK);
    let held = client.ask(&["LS.ACQUIRE", &session, "a:1", "W", "WAIT", "10000"]).await;
    assert_eq!(word(&held, "status"), "granted");
    // The answer to it never came: it is said again.
    assert_eq!(client.ask(&["LS.RELEASE", &session, "a:1", &seq]).await, Value::Int(0));
    let seen = client.ask(&["LS.INSPECT", "a:1"]).await;
    assert_eq!(word(&seen, "state"), "alone", "{seen:?}");
    server.stop().await;
}
