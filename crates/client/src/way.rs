//! The way to the server: a connection that comes and goes, a service inside this process, or a
//! peer that stands in for one.
//!
//! Messages are put while the core is held, so they leave in the order in which the cache decided
//! them. Whoever has put some flushes afterwards, with nothing held: a thread writes to the socket
//! itself, so that a lone acquire does not wait for another task; when many are under way, the
//! background task writes them together. When it has just heard much, it holds the outbox until
//! those who were woken by that have had their say.
//!
//! After a restart of the server a node re-asserts what it holds, perhaps a million records. That
//! traffic has a lane of its own: everything else overtakes it, above all keep-alives, and waits
//! for one piece of [`PIECE`] bytes at most. The protocol allows it: no message waits for another.
//! The lane is as short as the pages that the cache lets be under way.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use lockspan_protocol::{SessionId, Tick, ToServer};
use lockspan_tls::Stream;
use lockspan_wire::put_tell;

use crate::clock;
use crate::entry::lock;
use crate::memory::Seat;
use crate::node::Node;
use crate::peer::Peer;

/// For so long whoever has something to say leaves the writing to the background task. That may
/// stand behind a task that does not wait.
const HELD: Duration = Duration::from_millis(1);

/// Re-assertions are written in pieces of about so many bytes.
const PIECE: usize = 16 * 1024;

/// How messages get to the server.
#[derive(Debug)]
pub(crate) enum Way {
    Stream(Outbox),
    Memory(Seat),
    Peer(Box<dyn Peer>),
}

impl Way {
    /// A message is to be sent.
    pub(crate) fn put(&self, session: SessionId, message: ToServer) {
        match self {
            Self::Stream(outbox) => outbox.put(session, &message),
            Self::Memory(seat) => seat.put(session, message),
            Self::Peer(peer) => peer.tell(session, message),
        }
    }

    /// The bytes that end the session of the last message, if they go to a server.
    pub(crate) fn last_will(&self) -> Option<Vec<u8>> {
        let Self::Stream(outbox) = self else { return None };
        let session = lock(&outbox.waiting).session?;
        let mut bytes = BytesMut::new();
        put_tell(session, &ToServer::Close, &mut bytes);
        Some(bytes.to_vec())
    }

    /// Bytes that were written to a connection.
    pub(crate) fn sent_bytes(&self) -> u64 {
        match self {
            Self::Stream(outbox) => lock(&outbox.waiting).sent_bytes,
            Self::Memory(_) | Self::Peer(_) => 0,
        }
    }

    /// Sends what was put; true if some of it is left for the background task.
    pub(crate) fn flush(&self, node: &Node, is_urgent: bool) -> bool {
        match self {
            Self::Stream(outbox) if is_urgent => outbox.write_unless_held(),
            Self::Stream(outbox) => outbox.leave(),
            Self::Memory(seat) => {
                seat.flush(node);
                false
            }
            Self::Peer(_) => false,
        }
    }
}

/// One of a node's connections, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Connection(u64);

/// Bytes on their way to the socket.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    waiting: Mutex<Waiting>,
    /// The background task was rung for what is here, and need not be again. Cleared with the
    /// mutex held, before the bytes are taken: so whoever has put some and still finds it set
    /// knows that they will be.
    is_rung: AtomicBool,
}

#[derive(Debug, Default)]
struct Waiting {
    /// What is written next: whole messages, after the rest of one that was begun.
    bytes: BytesMut,
    /// Re-assertions, in pieces of whole messages: for when there is nothing else to write.
    pieces: VecDeque<BytesMut>,
    stream: Option<Arc<Stream>>,
    /// That the last message was in.
    session: Option<SessionId>,
    /// Written so far, to all connections.
    sent_bytes: u64,
    /// How many connections there were, and breaks between them.
    changes: u64,
    /// Somebody writes, and takes what is put meanwhile with it.
    is_written: bool,
    /// The background task was rung then, and will write.
    held_since: Option<Tick>,
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.pieces.is_empty()
    }

    /// The lane of a message.
    fn lane(&mut self, message: &ToServer) -> &mut BytesMut {
        // A note may be about something that is being re-asserted: it must not come before that.
        let is_behind = matches!(message, ToServer::Note { .. }) && !self.pieces.is_empty();
        if !is_reassertion(message) && !is_behind {
            return &mut self.bytes;
        }
        if self.pieces.back().is_none_or(|last| last.len() >= PIECE) {
            self.pieces.push_back(BytesMut::with_capacity(PIECE + PIECE / 8));
        }
        let last = self.pieces.len() - 1;
        &mut self.pieces[last]
    }
}

fn is_reassertion(message: &ToServer) -> bool {
    matches!(
        message,
        ToServer::Reassert { .. } | ToServer::Page { .. } | ToServer::Reasserted { .. }
    )
}

impl Outbox {
    /// What is said while there is no connection is not kept: the cache says it again when there
    /// is.
    fn put(&self, session: SessionId, message: &ToServer) {
        let mut waiting = lock(&self.waiting);
        waiting.session = Some(session);
        if waiting.stream.is_some() {
            put_tell(session, message, waiting.lane(message));
        }
    }

    /// Leaves what is here to the background task; true if that has to be rung.
    fn leave(&self) -> bool {
        !self.is_rung.load(Ordering::Relaxed) && self.ring(&lock(&self.waiting))
    }

    fn ring(&self, waiting: &Waiting) -> bool {
        !waiting.is_empty() && !self.is_rung.swap(true, Ordering::Relaxed)
    }

    /// There is a connection, or there is none any more.
    pub(crate) fn set_stream(&self, stream: Option<Arc<Stream>>) {
        let mut waiting = lock(&self.waiting);
        waiting.bytes.clear();
        waiting.pieces.clear();
        waiting.stream = stream;
        waiting.changes += 1;
        waiting.held_since = None;
        self.is_rung.store(false, Ordering::Relaxed);
    }

    /// The present connection, if there is one.
    pub(crate) fn connection(&self) -> Option<Connection> {
        let waiting = lock(&self.waiting);
        waiting.stream.is_some().then_some(Connection(waiting.changes))
    }

    /// Bytes that are no message, for this connection; false if it is not the present one.
    pub(crate) fn put_bytes(&self, on: Connection, bytes: &[u8]) -> bool {
        let mut waiting = lock(&self.waiting);
        let is_present = waiting.changes == on.0;
        if is_present {
            waiting.bytes.extend_from_slice(bytes);
        }
        is_present
    }

    /// Only the background task writes next: it is rung by whoever says this.
    pub(crate) fn hold(&self) {
        lock(&self.waiting).held_since = Some(clock::now());
    }

    /// Writes, unless the background task will soon; true if it has to.
    fn write_unless_held(&self) -> bool {
        let waiting = lock(&self.waiting);
        if waiting.held_since.is_some_and(|since| clock::now() < since + HELD) {
            self.ring(&waiting)
        } else {
            self.write_on(waiting)
        }
    }

    /// Writes as much as the socket takes now; true if some is left. An error shows again to the
    /// background task, when it reads.
    pub(crate) fn write(&self) -> bool {
        let mut waiting = lock(&self.waiting);
        waiting.held_since = None;
        self.is_rung.store(false, Ordering::Relaxed);
        self.write_on(waiting)
    }

    fn write_on<'a>(&'a self, mut waiting: MutexGuard<'a, Waiting>) -> bool {
        if waiting.is_written {
            return false;
        }
        waiting.is_written = true;
        loop {
            if waiting.bytes.is_empty() {
                waiting.bytes = waiting.pieces.pop_front().unwrap_or_default();
            }
            let Some(stream) = waiting.stream.clone().filter(|_| !waiting.bytes.is_empty()) else {
                waiting.is_written = false;
                return false;
            };
            let mut bytes = std::mem::take(&mut waiting.bytes);
            drop(waiting);
            let written = stream.try_write(&bytes);
            waiting = lock(&self.waiting);
            let is_same =
                waiting.stream.as_ref().is_some_and(|present| Arc::ptr_eq(present, &stream));
            match written {
                Ok(count) => {
                    waiting.sent_bytes += count as u64;
                    bytes.advance(count);
                }
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => bytes.clear(),
            }
            if !is_same {
                bytes.clear();
            }
            let is_stuck = !bytes.is_empty();
            if waiting.bytes.is_empty() {
                std::mem::swap(&mut waiting.bytes, &mut bytes);
            } else {
                bytes.extend_from_slice(&waiting.bytes);
                waiting.bytes = bytes;
            }
            if is_stuck {
                waiting.is_written = false;
                return true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixStream;

    use super::*;

    fn stream() -> (Arc<Stream>, UnixStream) {
        let (here, there) = UnixStream::pair().expect("a pair of sockets");
        (Arc::new(Stream::Unix(here)), there)
    }

    #[tokio::test]
    async fn what_is_for_one_connection_is_not_sent_on_the_next() {
        let outbox = Outbox::default();
        assert_eq!(outbox.connection(), None);
        let (one, _there) = stream();
        outbox.set_stream(Some(one));
        let first = outbox.connection().unwrap();
        assert!(outbox.put_bytes(first, b"?"));
        outbox.set_stream(None);
        assert!(!outbox.put_bytes(first, b"?"));
        let (other, _there) = stream();
        outbox.set_stream(Some(other));
        assert!(!outbox.put_bytes(first, b"?"));
        assert!(lock(&outbox.waiting).bytes.is_empty());
        assert!(outbox.put_bytes(outbox.connection().unwrap(), b"?"));
    }

    #[tokio::test]
    async fn the_task_is_rung_once_for_all_that_is_left_to_it() {
        let outbox = Outbox::default();
        let (here, _there) = stream();
        here.writable().await.expect("it is new");
        for _ in 0..2 {
            outbox.set_stream(Some(Arc::clone(&here)));
            let on = outbox.connection().expect("it was set");
            assert!(!outbox.leave(), "nothing is here");
            assert!(outbox.put_bytes(on, b"one"));
            assert!(outbox.leave());
            assert!(outbox.put_bytes(on, b"two"));
            assert!(!outbox.leave(), "it was rung for the first, and takes both");
            assert!(!outbox.write(), "the socket takes all");
            assert!(outbox.put_bytes(on, b"three"));
            assert!(outbox.leave(), "this came after the writing");
        }
    }

    #[tokio::test]
    async fn a_keep_alive_overtakes_re_assertions() {
        use lockspan_protocol::{Claim, Epoch, Mode, Record, Seq, Token};

        let outbox = Outbox::default();
        let (here, there) = stream();
        here.writable().await.expect("it is new");
        outbox.set_stream(Some(here));
        let session = SessionId(7);
        let epoch = Epoch::new(1).expect("small");
        for number in 1..=1000 {
            let reassert = ToServer::Reassert {
                record: Record::new("doc", number.to_string()).expect("a name"),
                epoch,
                former: session,
                seq: Seq(number),
                mode: Mode::Write,
                claim: Claim::Held { token: Token::new(epoch, number).expect("small") },
            };
            outbox.put(session, &reassert);
        }
        outbox.put(session, &ToServer::KeepAlive { number: 1 });
        let mut heard = Vec::new();
        loop {
            let is_left = outbox.write();
            there.readable().await.expect("something was written");
            while there.try_read_buf(&mut heard).is_ok_and(|count| count > 0) {}
            if !is_left {
                break;
            }
        }
        let text = String::from_utf8(heard).expect("digits and names");
        let at = text.find("keep-alive").expect("it was sent");
        assert!(at < 2 * PIECE, "{at} bytes were before it, of {}", text.len());
        assert_eq!(text.matches("reassert").count(), 1000);
        assert!(
            text.find("doc:1\r").expect("the first") < text.find("doc:999\r").expect("a late one")
        );
    }
}
