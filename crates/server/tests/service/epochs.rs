//! Data directories that are older than what clients know, and clients that only say so.

use std::path::Path;

use lockspan_protocol::{Epoch, Mode, Seq, SessionId, ToNode, ToServer, Token};
use lockspan_server::{Config, Data, Server};
use lockspan_wire::{ErrorCode, Value};

use crate::client::{Client, acquire, fresh, number, start, until};
use crate::users::{as_user, users};

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("made");
    for file in std::fs::read_dir(from).expect("read") {
        let file = file.expect("a file");
        std::fs::copy(file.path(), to.join(file.file_name())).expect("copied");
    }
}

fn token(epoch: u32, count: i64) -> Token {
    Token::from_number((i64::from(epoch) << 40) | count).expect("a token")
}

/// Starts and stops a server so many times.
async fn start_often(config: &Config, times: u32) -> u32 {
    let mut epoch = 0;
    for _ in 0..times {
        let server = start(config.clone()).await;
        epoch = server.epoch();
        server.stop().await;
    }
    epoch
}

/// The node has nothing to re-assert in the terms that begin; then it acquires a record. Its token.
async fn acquire_anew(node: &mut Client, session: SessionId, epoch: u32, shards: usize) -> Token {
    let mut terms = Vec::new();
    while terms.len() < shards {
        if let ToNode::Serving(term) = node.heard().await {
            assert_eq!(term.epoch.number(), epoch);
            terms.push(term);
        }
    }
    for term in terms {
        let (groups, epoch, former, count, sum) = (term.groups, term.epoch, session, 0, 0);
        node.tell(session, &ToServer::Reasserted { groups, epoch, former, count, sum }).await;
        assert_eq!(node.heard().await, ToNode::Recovered { term, former });
    }
    node.tell(session, &acquire("doc:1", Mode::Write, 9, epoch)).await;
    let ToNode::Granted { seq: Seq(9), token, .. } = node.heard().await else { panic!("granted") };
    token
}

/// The server has been started three times since the backup. A client that knows the last epoch
/// shows it, and tokens go on above it.
#[tokio::test(flavor = "multi_thread")]
async fn service_f75_a_data_directory_from_a_backup_goes_above_what_clients_know() {
    let dir = tempfile::tempdir().expect("a directory");
    let (data, backup) = (dir.path().join("data"), dir.path().join("backup"));
    let config = Config { data: Data::Dir(data.clone()), shards: 2, ..fresh() };
    assert_eq!(start_often(&config, 1).await, 1);
    copy(&data, &backup);
    assert_eq!(start_often(&config, 3).await, 4);
    std::fs::remove_dir_all(&data).expect("removed");
    copy(&backup, &data);
    let server = start(config.clone()).await;
    assert_eq!(server.epoch(), 2, "the backup is behind");
    let mut node = Client::new(&server).await;
    let session = node.open_native(7).await;
    node.tell(session, &acquire("doc:1", Mode::Write, 1, 4)).await;
    let given = acquire_anew(&mut node, session, 5, 2).await;
    assert!(given > token(4, 1 << 39), "{given} is above every token of epoch 4");
    server.stop().await;
    drop(server);
    assert_eq!(start_often(&config, 1).await, 6, "that is kept");
}

/// Where there are users, one who may administer everything shows it, for all records at once.
#[tokio::test(flavor = "multi_thread")]
async fn service_f75_with_users_an_operator_shows_the_epoch_and_nobody_else_does() {
    let dir = tempfile::tempdir().expect("a directory");
    let (data, backup) = (dir.path().join("data"), dir.path().join("backup"));
    let users = Some(users(dir.path()));
    let config = Config { users, data: Data::Dir(data.clone()), shards: 2, ..fresh() };
    assert_eq!(start_often(&config, 1).await, 1);
    copy(&data, &backup);
    assert_eq!(start_often(&config, 70).await, 71, "more starts than a client is believed");
    std::fs::remove_dir_all(&data).expect("removed");
    copy(&backup, &data);
    let server = start(config).await;
    let shown = token(71, 5).number().to_string();
    let mut ann = as_user(&server, "ann").await;
    let node = ann.open_native(7).await;
    let session = ann.open(&["LEASE", "30000"]).await;
    let words = ["LS.REASSERT", &session, "doc:1", "71", "500", "R", "HELD", &shown];
    assert_eq!(ann.refused(&words).await.0, ErrorCode::NoPerm);
    assert_eq!(server.epoch(), 2);
    let mut root = as_user(&server, "root").await;
    let session = root.open(&["LEASE", "30000"]).await;
    let words = ["LS.REASSERT", &session, "doc:1", "71", "500", "R", "HELD", &shown];
    assert_eq!(root.ask(&words).await, Value::OK);
    // All sessions have to re-assert; root has nothing to say.
    let mut left = 2;
    while left > 0 {
        left -= usize::from(matches!(ann.heard().await, ToNode::Serving(_)));
    }
    assert_eq!(server.epoch(), 72, "one word is enough for all records");
    let Value::Array(slots) = root.ask(&["LS.SLOTS"]).await else { panic!("a list") };
    assert!(slots.iter().all(|term| number(term, "epoch") == 72), "{slots:?}");
    ann.tell(node, &ToServer::Close).await;
    server.stop().await;
}

/// A client with a bug, or one that means harm, shows epochs that never were.
#[tokio::test(flavor = "multi_thread")]
async fn service_f75_a_client_does_not_use_up_the_epochs_of_a_data_directory() {
    let dir = tempfile::tempdir().expect("a directory");
    let config = Config { data: Data::Dir(dir.path().join("data")), shards: 2, ..fresh() };
    let server = start(config.clone()).await;
    let mut client = Client::new(&server).await;
    let session = client.open_native_for(7, std::time::Duration::from_secs(60)).await;
    let show = async |client: &mut Client, server: &Server| {
        for seq in 1..=500 {
            for ahead in [0x10000, 65, 64, 1] {
                let shown = (server.epoch() + ahead).min(Epoch::MAX.number());
                client.tell(session, &acquire("a:1", Mode::Read, seq, shown)).await;
            }
        }
        client.settle().await;
    };
    show(&mut client, &server).await;
    until("the new term has begun", || server.epoch() > 0).await;
    let epoch = server.epoch();
    assert!(epoch <= 66, "{epoch}: one term has begun, and no other within a minute");
    server.stop().await;
    drop(server);
    assert_eq!(start_often(&config, 1).await, epoch + 1, "the directory is as good as before");
}
