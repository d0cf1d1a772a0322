//! A connection that says commands and hears replies, one after the other.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;

use bytes::BytesMut;
use lockspan_wire::{FromServer, Value, WireLimits, put_command, take_from_server};

use super::PATIENCE;

trait Both: Read + Write {}
impl<T: Read + Write> Both for T {}

/// Each wait has an end, which fails the test.
pub(crate) struct Resp {
    stream: Box<dyn Both>,
    heard: BytesMut,
}

impl Resp {
    /// On a port of this machine.
    pub(crate) fn on_port(port: &str) -> Self {
        let stream = TcpStream::connect(format!("127.0.0.1:{port}")).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time");
        Self { stream: Box::new(stream), heard: BytesMut::new() }
    }

    /// On a socket file, if somebody listens there.
    pub(crate) fn on_socket(path: &Path) -> Option<Self> {
        let stream = UnixStream::connect(path).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).expect("a time");
        Some(Self { stream: Box::new(stream), heard: BytesMut::new() })
    }

    pub(crate) fn send(&mut self, words: &[&str]) {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let mut bytes = BytesMut::new();
        put_command(&words, &mut bytes);
        self.stream.write_all(&bytes).expect("it is taken");
    }

    /// The next reply; none at the end.
    pub(crate) fn reply(&mut self) -> Option<Value> {
        loop {
            let limits = WireLimits::default();
            match take_from_server(&mut self.heard, &limits).expect("the server speaks RESP") {
                Some(FromServer::Value(value)) => return Some(value),
                Some(FromServer::Event { .. }) => continue,
                None => {}
            }
            let mut bytes = [0; 4096];
            let read = self.stream.read(&mut bytes).expect("an answer in time");
            if read == 0 {
                return None;
            }
            self.heard.extend_from_slice(&bytes[..read]);
        }
    }

    pub(crate) fn ask(&mut self, words: &[&str]) -> Value {
        self.send(words);
        self.reply().expect("the server has not closed the connection")
    }

    /// A session: its number, and its public id.
    pub(crate) fn open(&mut self) -> (String, String) {
        let opened = self.ask(&["LS.OPEN", "LEASE", "30000"]);
        (field(&opened, "session"), field(&opened, "id"))
    }
}

/// What a reply has under this key, as text.
pub(crate) fn field(value: &Value, key: &str) -> String {
    let Value::Map(pairs) = value else { panic!("not a map: {value:?}") };
    let found = pairs.iter().find(|(name, _)| *name == Value::bulk(key.to_owned()));
    match found {
        Some((_, Value::Int(number))) => number.to_string(),
        Some((_, Value::Bulk(text))) => String::from_utf8_lossy(text).into_owned(),
        _ => panic!("no {key} in {value:?}"),
    }
}
