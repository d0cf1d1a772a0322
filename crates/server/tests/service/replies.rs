//! Replies: in the version of their command, before a connection ends, and never more than is true.

use lockspan_wire::{ErrorCode, Value};

use crate::client::{Client, fresh, number, start, until, word};

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_that_waits_is_in_the_version_of_its_command() {
    let server = start(fresh()).await;
    let (mut one, mut two) = (Client::new(&server).await, Client::new(&server).await);
    let (a, b) = (one.open(&[]).await, two.open(&[]).await);
    one.ask(&["LS.ACQUIRE", &a, "a:1", "W", "SEQ", "1"]).await;
    let mut old = Client::raw(&server.addresses()[0]).await;
    old.send(&["LS.ACQUIRE", &b, "a:1", "W", "WAIT", "forever"]).await;
    old.send(&["HELLO", "3"]).await;
    old.send(&["LS.ACQUIRE", &b, "a:2", "W", "WAIT", "forever"]).await;
    until("both are there", || server.stats().claims == 3).await;
    one.ask(&["LS.RELEASE", &a, "a:1", "1"]).await;
    let Value::Array(flat) = old.reply().await else { panic!("RESP2 has no maps") };
    assert_eq!(flat[..2], [Value::bulk("status"), Value::bulk("granted")]);
    assert_eq!(number(&old.reply().await, "proto"), 3, "HELLO itself is in the new version");
    assert_eq!(word(&old.reply().await, "status"), "granted");
    server.stop().await;
}
