//! Many clients at once, over all shards: nobody holds what another holds, and nobody is forgotten.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockspan_protocol::{Handoff, Mode, Record, Seq, SessionId, ToNode, ToServer, Token};
use lockspan_server::Config;
use lockspan_wire::Event;

use crate::client::{Client, acquire, fresh, record, start, until, within};

const NODES: u64 = 12;
const RECORDS: usize = 24;
const TURNS: u64 = 150;

/// Who holds what, as far as the nodes know.
#[derive(Default)]
struct Watch {
    held: HashMap<String, Vec<(u64, Mode)>>,
    tokens: HashMap<String, Token>,
}

impl Watch {
    fn enter(&mut self, name: &str, node: u64, mode: Mode, token: Token) {
        let held = self.held.entry(name.to_owned()).or_default();
        let clash = held.iter().any(|&(_, other)| other.conflicts(mode));
        assert!(!clash, "{name} goes to {node} for {mode:?} while {held:?} hold it");
        held.push((node, mode));
        let last = self.tokens.entry(name.to_owned()).or_insert(token);
        assert!(token >= *last, "{name}: {token:?} after {last:?}");
        assert!(mode == Mode::Read || token > *last || held.len() == 1);
        *last = token;
    }

    fn leave(&mut self, name: &str, node: u64) {
        self.held.get_mut(name).expect("it is held").retain(|&(other, _)| other != node);
    }
}

/// One turn after the other: acquire, look, release.
async fn node(mut client: Client, id: u64, watch: Arc<Mutex<Watch>>) {
    let session = SessionId(id);
    let (ttl, handoff) = (Duration::from_secs(60), handoff(id));
    client.tell(session, &ToServer::Open { ttl, handoff }).await;
    assert!(matches!(client.heard().await, ToNode::Opened { .. }));
    let mut state = id.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    for seq in 1..=TURNS {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let name = format!("stress:{}", (state >> 33) as usize % RECORDS);
        let mode = if state >> 60 < 8 { Mode::Read } else { Mode::Write };
        client.tell(session, &acquire(&name, mode, seq, 1)).await;
        let token = loop {
            match client.event().await.1 {
                Event::Node(ToNode::Granted { seq: Seq(which), token, .. }) if which == seq => {
                    break token;
                }
                Event::Node(ToNode::Retry { .. }) => {
                    client.tell(session, &acquire(&name, mode, seq, 1)).await;
                }
                Event::Node(ToNode::Queued { .. } | ToNode::Revoke { .. }) => {}
                other => panic!("{other:?}"),
            }
        };
        watch.lock().expect("whole").enter(&name, id, mode, token);
        tokio::task::yield_now().await;
        watch.lock().expect("whole").leave(&name, id);
        let over = ToServer::Release { record: record(&name), seq: Seq(seq), keep: None };
        client.tell(session, &over).await;
    }
    client.tell(session, &ToServer::Close).await;
    client.settle().await;
}

fn handoff(id: u64) -> Handoff {
    if id.is_multiple_of(3) { Handoff::Retry } else { Handoff::Direct }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nodes_exclude_each_other_over_all_shards() {
    for shards in [1, 5, 16] {
        let server = start(Config { shards, ..fresh() }).await;
        let watch = Arc::new(Mutex::new(Watch::default()));
        let mut nodes = Vec::new();
        for id in 1..=NODES {
            let client = Client::new(&server).await;
            nodes.push(tokio::spawn(node(client, id, Arc::clone(&watch))));
        }
        for node in nodes {
            within(node).await.expect("no node has failed");
        }
        until("nothing is left", || {
            let stats = server.stats();
            (stats.records, stats.claims, stats.sessions) == (0, 0, 0)
        })
        .await;
        server.stop().await;
    }
}

/// Sessions come and go while their records are wanted, by commands that wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sessions_end_while_others_wait() {
    let server = start(fresh()).await;
    let mut clients = Vec::new();
    for id in 0..8_u64 {
        let mut client = Client::new(&server).await;
        clients.push(tokio::spawn(async move {
            for turn in 0..40 {
                let session = client.open(&[]).await;
                for at in 0..3 {
                    let name = format!("brief:{}", (id + turn + at) % 5);
                    let name = Record::parse(name.as_bytes()).expect("a name");
                    let name = String::from_utf8_lossy(name.as_bytes()).into_owned();
                    let words = ["LS.ACQUIRE", &session, &name, "W", "WAIT", "20"];
                    client.ask(&words).await;
                }
                assert_eq!(client.ask(&["LS.CLOSE", &session]).await, lockspan_wire::Value::OK);
            }
        }));
    }
    for client in clients {
        within(client).await.expect("no client has failed");
    }
    until("nothing is left", || {
        let stats = server.stats();
        (stats.records, stats.claims, stats.sessions) == (0, 0, 0)
    })
    .await;
    server.stop().await;
}
