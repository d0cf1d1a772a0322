//! A client for tests: commands, replies and events, each wait with a deadline.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::BytesMut;
use lockspan_protocol::{Handoff, Mode, Record, Seq, SessionId, ToNode, ToServer};
use lockspan_server::{Address, Config, Data, Server};
use lockspan_wire::{
    ErrorCode, Event, FromServer, Value, WireLimits, put_command, put_tell, take_from_server,
};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};

/// Whatever takes longer has failed.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

pub(crate) trait Both: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Both for T {}

/// A server on a free port that grants at once.
pub(crate) fn fresh() -> Config {
    Config {
        listen: vec!["127.0.0.1:0".parse().expect("an address")],
        data: Data::None { fresh: true },
        ..Config::default()
    }
}

pub(crate) async fn start(config: Config) -> Server {
    within(Server::start(config)).await.expect("the server starts")
}

/// What happens before the deadline.
pub(crate) async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, what).await.expect("it happens before the deadline")
}

pub(crate) fn record(name: &str) -> Record {
    Record::parse(name.as_bytes()).expect("a name")
}

pub(crate) struct Client {
    stream: Box<dyn Both>,
    buf: BytesMut,
    replies: VecDeque<Value>,
    events: VecDeque<(SessionId, Event)>,
}

impl Client {
    /// Connects, and speaks RESP3.
    pub(crate) async fn new(server: &Server) -> Self {
        let mut client = Self::raw(&server.addresses()[0]).await;
        let hello = client.ask(&["HELLO", "3", "LOCKSPAN", "2"]).await;
        assert_eq!(field(&hello, "proto"), &Value::Int(3), "{hello:?}");
        client
    }

    /// Connects, and says nothing.
    pub(crate) async fn raw(address: &Address) -> Self {
        let stream: Box<dyn Both> = match address {
            Address::Tcp(at) => {
                let stream = within(TcpStream::connect(at)).await.expect("connected");
                stream.set_nodelay(true).expect("set");
                Box::new(stream)
            }
            Address::Unix(path) => {
                Box::new(within(UnixStream::connect(path)).await.expect("connected"))
            }
        };
        Self::on(stream)
    }

    /// On a connection that is there.
    pub(crate) fn on(stream: Box<dyn Both>) -> Self {
        let (buf, replies, events) = (BytesMut::new(), VecDeque::new(), VecDeque::new());
        Self { stream, buf, replies, events }
    }

    pub(crate) async fn send(&mut self, words: &[&str]) {
        let words: Vec<_> = words.iter().map(|word| word.as_bytes()).collect();
        let mut bytes = BytesMut::new();
        put_command(&words, &mut bytes);
        self.send_bytes(&bytes).await;
    }

    pub(crate) async fn send_bytes(&mut self, bytes: &[u8]) {
        within(self.stream.write_all(bytes)).await.expect("sent");
        within(self.stream.flush()).await.expect("all of it");
    }

    pub(crate) async fn tell(&mut self, session: SessionId, message: &ToServer) {
        let mut bytes = BytesMut::new();
        put_tell(session, message, &mut bytes);
        self.send_bytes(&bytes).await;
    }

    /// A command and its reply.
    pub(crate) async fn ask(&mut self, words: &[&str]) -> Value {
        self.send(words).await;
        self.reply().await
    }

    /// A command that is refused.
    pub(crate) async fn refused(&mut self, words: &[&str]) -> (ErrorCode, String) {
        match self.ask(words).await {
            Value::Error { code, text } => (code, text),
            other => panic!("{words:?} was not refused: {other:?}"),
        }
    }

    pub(crate) async fn reply(&mut self) -> Value {
        while self.replies.is_empty() {
            assert!(self.read().await, "the server has closed the connection");
        }
        self.replies.pop_front().expect("there is one")
    }

    /// The next event of a session.
    pub(crate) async fn event(&mut self) -> (SessionId, Event) {
        while self.events.is_empty() {
            assert!(self.read().await, "the server has closed the connection");
        }
        self.events.pop_front().expect("there is one")
    }

    /// The next event, which is a message of the protocol.
    pub(crate) async fn heard(&mut self) -> ToNode {
        match self.event().await.1 {
            Event::Node(message) => message,
            other => panic!("not a message of the protocol: {other:?}"),
        }
    }

    /// What has come so far, without waiting: all that the server sent before this reply.
    pub(crate) async fn settle(&mut self) -> (Vec<Value>, Vec<Event>) {
        assert_eq!(self.ask_last(&["ECHO", "settled"]).await, Value::bulk("settled"));
        let events = self.events.drain(..).map(|(_, event)| event);
        (self.replies.drain(..).collect(), events.collect())
    }

    async fn ask_last(&mut self, words: &[&str]) -> Value {
        let before = self.replies.len();
        self.send(words).await;
        while self.replies.len() == before {
            assert!(self.read().await, "the server has closed the connection");
        }
        self.replies.pop_back().expect("there is one")
    }

    /// Until the server closes the connection.
    pub(crate) async fn closed(&mut self) {
        while self.read().await {}
    }

    /// Reads something; false at the end.
    async fn read(&mut self) -> bool {
        loop {
            let limits = WireLimits { frame: 64 << 20, args: 1 << 20 };
            let taken = take_from_server(&mut self.buf, &limits).expect("the server speaks RESP");
            match taken {
                Some(FromServer::Event { session, event }) => {
                    self.events.push_back((session, event));
                    return true;
                }
                Some(FromServer::Value(value)) => {
                    self.replies.push_back(value);
                    return true;
                }
                None => match within(self.stream.read_buf(&mut self.buf)).await {
                    Ok(0) | Err(_) => return false,
                    Ok(_) => {}
                },
            }
        }
    }

    /// Reads bytes until they end so.
    pub(crate) async fn bytes_until(&mut self, ending: &str) -> String {
        while !self.buf.ends_with(ending.as_bytes()) {
            let read = within(self.stream.read_buf(&mut self.buf)).await.expect("read");
            assert!(read > 0, "closed after {:?}", self.buf);
        }
        String::from_utf8(self.buf.split().to_vec()).expect("text")
    }

    /// Opens a session by `LS.OPEN` with these options; its id.
    pub(crate) async fn open(&mut self, options: &[&str]) -> String {
        let words: Vec<_> = ["LS.OPEN"].iter().chain(options).copied().collect();
        let opened = self.ask(&words).await;
        match field(&opened, "session") {
            Value::Int(id) => id.to_string(),
            Value::Bulk(digits) => String::from_utf8_lossy(digits).into_owned(),
            other => panic!("not a session: {other:?}"),
        }
    }

    /// The public id of a session that this connection knows.
    pub(crate) async fn id_of(&mut self, session: &str) -> String {
        let Value::Array(sessions) = self.ask(&["LS.SESSIONS"]).await else { panic!("no list") };
        let leases = sessions.iter().map(|it| number(it, "lease-ms").to_string());
        let ids: Vec<_> = sessions.iter().map(|it| word(it, "session")).collect();
        for (id, lease) in ids.iter().zip(leases) {
            let words = ["LS.OPEN", "SESSION", session, "LEASE", &lease];
            let opened = self.ask(&words).await;
            if matches!(opened, Value::Map(_)) {
                return word(&opened, "id");
            }
            assert!(ids.len() > 1, "{id} is not the one: {opened:?}");
        }
        panic!("{session} is not open")
    }

    /// Opens a session as a node does.
    pub(crate) async fn open_native(&mut self, id: u64) -> SessionId {
        self.open_native_for(id, Duration::from_secs(5)).await
    }

    pub(crate) async fn open_native_for(&mut self, id: u64, ttl: Duration) -> SessionId {
        let session = SessionId(id);
        self.tell(session, &ToServer::Open { ttl, handoff: Handoff::Direct }).await;
        // The server repeats what other sessions of this connection have not answered.
        let of_session = |(to, _): &(SessionId, Event)| *to == session;
        let opened = loop {
            if let Some(at) = self.events.iter().position(of_session) {
                break self.events.remove(at).expect("it is there").1;
            }
            assert!(self.read().await, "the server has closed the connection");
        };
        assert!(matches!(opened, Event::Node(ToNode::Opened { .. })), "{opened:?}");
        session
    }
}

/// What a map has under this key.
pub(crate) fn field<'a>(value: &'a Value, key: &str) -> &'a Value {
    let Value::Map(pairs) = value else { panic!("not a map: {value:?}") };
    let found = pairs.iter().find(|(name, _)| *name == Value::bulk(key.to_owned()));
    &found.unwrap_or_else(|| panic!("no {key} in {value:?}")).1
}

/// The number that a map has under this key.
pub(crate) fn number(value: &Value, key: &str) -> i64 {
    match field(value, key) {
        Value::Int(number) => *number,
        other => panic!("{key} is not a number: {other:?}"),
    }
}

/// The word that a map has under this key.
pub(crate) fn word(value: &Value, key: &str) -> String {
    match field(value, key) {
        Value::Bulk(text) => String::from_utf8_lossy(text).into_owned(),
        other => panic!("{key} is not a word: {other:?}"),
    }
}

/// An acquire in the first epoch.
pub(crate) fn acquire(name: &str, mode: Mode, seq: u64, epoch: u32) -> ToServer {
    ToServer::Acquire {
        record: record(name),
        mode,
        seq: Seq(seq),
        epoch: lockspan_protocol::Epoch::new(epoch).expect("small"),
        upgrade: false,
        owners: Vec::new(),
    }
}

pub(crate) fn release(name: &str, seq: u64) -> ToServer {
    ToServer::Release { record: record(name), seq: Seq(seq), keep: None }
}

/// Waits until it is so.
pub(crate) async fn until(what: &str, is_so: impl Fn() -> bool) {
    let wait = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let waited = tokio::time::timeout(DEADLINE, wait).await;
    assert!(waited.is_ok(), "not before the deadline: {what}");
}
