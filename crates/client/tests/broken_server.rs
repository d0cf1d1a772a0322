//! A server that does what none may: a program hears of it, and does not wait forever.

#![forbid(unsafe_code)]

use std::time::Duration;

use bytes::BytesMut;
use lockspan_client::{LockError, Options};
use lockspan_protocol::{
    AcquireRefusal, Epoch, GroupSet, Mode, SessionId, Term, ToNode, ToServer, Token,
};
use lockspan_wire::{
    Command, ErrorCode, Event, EventStyle, NODE_PROTOCOL, Protocol, Value, WireLimits, put_event,
    put_value, reply, take_command,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

const SOON: Duration = Duration::from_secs(20);

/// Grants everything for reading, and passes on what ends.
async fn serve(mut stream: TcpStream, ends: UnboundedSender<ToServer>) {
    let (mut heard, mut said) = (BytesMut::new(), BytesMut::new());
    while stream.read_buf(&mut heard).await.is_ok_and(|count| count > 0) {
        while let Ok(Some(Ok(command))) = take_command(&mut heard, &WireLimits::default()) {
            let Command::Tell { session, message } = command else {
                put_value(
                    &reply::hello("0", Protocol::Resp3, 1, NODE_PROTOCOL),
                    Protocol::Resp3,
                    &mut said,
                );
                continue;
            };
            let epoch = Epoch::new(1).unwrap();
            let answer = match message {
                ToServer::Open { .. } => {
                    ToNode::Opened { terms: vec![Term { groups: GroupSet::ALL, epoch }] }
                }
                ToServer::KeepAlive { number } => ToNode::Alive { number, groups: GroupSet::ALL },
                ToServer::Label { .. } => continue,
                ToServer::Acquire { record, seq, .. } => {
                    let (mode, token) = (Mode::Read, Token::new(epoch, 1).unwrap());
                    ToNode::Granted { record, seq, mode, token, give_back: None }
                }
                other => {
                    let _ = ends.send(other);
                    continue;
                }
            };
            put_event(session, &Event::Node(answer), EventStyle::Push, &mut said);
        }
        if stream.write_all_buf(&mut said).await.is_err() {
            return;
        }
    }
}

/// A server that answers every command so.
async fn start_saying(hello: Value) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("lockspan://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (mut heard, mut said) = (BytesMut::new(), BytesMut::new());
            let _ = stream.read_buf(&mut heard).await;
            put_value(&hello, Protocol::Resp3, &mut said);
            // What it pushes in its own version is not looked at any more.
            let epoch = Epoch::new(1).unwrap();
            let term = Term { groups: GroupSet::ALL, epoch };
            let recovered = Event::Node(ToNode::Recovered { term, former: SessionId(1) });
            put_event(SessionId(1), &recovered, EventStyle::OldPush, &mut said);
            let _ = stream.write_all_buf(&mut said).await;
        }
    });
    url
}

#[tokio::test]
async fn a_server_of_an_older_version_is_refused_and_the_text_says_what_to_upgrade() {
    let ours = [("server", Value::from("lockspan")), ("proto", Value::Int(3))];
    let unnamed = Value::map(ours);
    let first = reply::hello("0", Protocol::Resp3, 1, 1);
    let strict = "HELLO: option \"LOCKSPAN\" at argument 2 is not one of AUTH, SETNAME";
    for hello in [unnamed, first, Value::error(ErrorCode::Err, strict)] {
        let url = start_saying(hello.clone()).await;
        let connected = tokio::time::timeout(SOON, Options::new().connect(&url)).await;
        let why = connected.expect("it answers").map(drop).unwrap_err().to_string();
        assert!(why.ends_with("upgrade the server"), "{hello:?}: {why}");
    }
}

async fn start() -> (String, UnboundedReceiver<ToServer>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("lockspan://{}", listener.local_addr().unwrap());
    let (send, receive) = unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, send.clone()));
        }
    });
    (url, receive)
}

#[tokio::test]
async fn a_read_where_a_write_was_asked_for_is_an_error_and_nothing_is_held() {
    let (url, mut ends) = start().await;
    let locks = Options::new().connect(&url).await.unwrap();
    let record = locks.record("invoice", "42").unwrap();
    let asked = tokio::time::timeout(SOON, record.write()).await.expect("it waits forever");
    let why = asked.map(drop).unwrap_err();
    let wrong = AcquireRefusal::WrongMode { asked: Mode::Write, granted: Mode::Read };
    assert_eq!(why, LockError::Refused(Box::new(wrong)));
    assert!(why.to_string().contains("the server granted read instead of write"), "{why}");
    let end = tokio::time::timeout(SOON, ends.recv()).await.expect("it is given back");
    assert!(matches!(end, Some(ToServer::Cancel { keep: None, .. })), "{end:?}");
    // What it grants as it was asked to can be used, and kept by a writer in vain.
    let reader = tokio::time::timeout(SOON, record.read()).await.unwrap().unwrap();
    let refused = tokio::time::timeout(SOON, reader.upgrade()).await.unwrap().unwrap_err();
    let (why, reader) = (refused.cause().clone(), refused.into_guard());
    let LockError::Refused(why) = why else { panic!("{why}") };
    assert!(matches!(*why, AcquireRefusal::WrongMode { .. }), "{why}");
    assert!(reader.is_valid(), "the read is kept");
}
