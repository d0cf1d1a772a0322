//! What is on its way to one client: replies in the order of their commands, events between them.
//!
//! Whoever has something for a client puts it here, and calls [`Outbox::flush`] when it holds no
//! lock: the bytes go to the socket from that very thread, unless the socket is full or another
//! thread is writing. Then that thread, or the connection's task, takes them along. Nobody ever
//! waits for a client.
//!
//! | state | `buf` | who writes next |
//! |---|---|---|
//! | idle | empty | – |
//! | dirty | not empty | the thread that put the first byte |
//! | writing | perhaps not empty | the thread that writes looks again when it is done |
//! | blocked | not empty | the connection's task, when the socket takes more |
//! | closed | empty | – |
//!
//! A reply that is not known yet leaves its slot open. Replies after it wait, events don't; see
//! [`HeldBack`].
//!
//! # What bounds it
//!
//! | what waits | bound | past it |
//! |---|---|---|
//! | replies | [`REPLIES`], and one reply | [`Outbox::is_full`]: its commands have to wait |
//! | events; replies behind an open one | `max` | the connection is closed |
//! | all outboxes together | the [`Budget`] | the connection with the most is closed |

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bytes::{Buf as _, BytesMut};
use lockspan_protocol::SessionId;
use lockspan_tls::Stream;
use lockspan_wire::{Event, EventStyle, NODE_PROTOCOL, Protocol, Value, put_event, put_value};
use tokio::sync::Notify;

use super::budget::{Budget, STEP};
use super::held::HeldBack;
use crate::service::Chain;

/// Buffers that grew larger than this are not kept.
const KEPT: usize = 64 << 10;

/// While more bytes than this wait for a client, its commands are not carried out.
pub(super) const REPLIES: usize = 64 << 10;

/// Bytes that are written at once, and how often one call of [`Outbox::flush`] does so. A client
/// that reads as fast as it is written to must not keep the thread for long.
const CHUNK: usize = 128 << 10;
const CHUNKS: usize = 4;

/// The way to one client.
#[derive(Debug)]
pub(crate) struct Outbox {
    /// Number of the connection.
    pub(crate) id: u64,
    stream: Stream,
    inner: Mutex<Inner>,
    /// See [`Outbox::is_full`]; changed under the lock.
    full: AtomicBool,
    budget: Arc<Budget>,
    /// For the connection's task: it is blocked or closed.
    wake: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    /// Bytes that may wait.
    max: usize,
    protocol: Protocol,
    /// The protocol of nodes that was agreed; 0 if none was.
    speaks: u32,
    buf: BytesMut,
    /// Written before `buf`: what a full socket did not take.
    rest: BytesMut,
    /// An empty buffer, to be used again.
    spare: BytesMut,
    held: HeldBack,
    /// Bytes of a command that is not all there yet.
    unread: usize,
    /// What the budget was told of.
    counted: usize,
    dirty: bool,
    writing: bool,
    /// Bytes that the socket has taken.
    sent: u64,
    blocked: bool,
    closed: Option<Closed>,
}

/// Why nothing more is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// The connection is to go.
    Gone,
    /// The client has closed its socket. What it said before that is still carried out: the
    /// release of a lock may be among it.
    ByClient,
    /// The client does not read.
    Slow,
    /// It did not log in, and a newcomer has its place.
    Late,
    /// More waits for all clients together than may, and most of it for this one.
    Fullest,
}

/// The place of a reply that is not known yet.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    outbox: Arc<Outbox>,
    number: u64,
    /// What the client spoke when its command came: it expects the reply in that, whatever it says
    /// since.
    protocol: Protocol,
    /// The locks that are taken one after the other before this reply is known.
    chain: Option<Arc<Chain>>,
}

/// Outboxes that have something new, to be flushed when no lock is held.
#[derive(Debug, Default)]
pub(crate) struct Dirty(VecDeque<Arc<Outbox>>);

impl Dirty {
    /// Sends what is there.
    pub(crate) fn flush(&mut self) {
        self.flush_some(usize::MAX);
    }

    /// Sends what is in the first `most` outboxes. Whether there are others.
    pub(crate) fn flush_some(&mut self, most: usize) -> bool {
        let some = self.0.len().min(most);
        self.0.drain(..some).for_each(|outbox| outbox.flush());
        !self.0.is_empty()
    }

    /// How many outboxes have something new.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// What `put` has to say is sent before all that is here already.
    pub(crate) fn first(&mut self, put: impl FnOnce(&mut Self)) {
        let mut first = Self::default();
        put(&mut first);
        first.0.into_iter().rev().for_each(|outbox| self.0.push_front(outbox));
    }
}

impl PartialEq for Slot {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number && Arc::ptr_eq(&self.outbox, &other.outbox)
    }
}

impl Slot {
    /// The reply is known now.
    pub(crate) fn fill(self, value: &Value, dirty: &mut Dirty) {
        if let Some(chain) = &self.chain {
            chain.failed();
        }
        let value = (value, self.protocol);
        let fill = |inner: &mut Inner| inner.held.fill(self.number, value, &mut inner.buf);
        self.outbox.change(dirty, Put::Other, fill);
    }

    /// The reply is that of several locks, which end if it becomes anything else.
    pub(crate) fn with_chain(self, chain: Arc<Chain>) -> Self {
        Self { chain: Some(chain), ..self }
    }

    pub(crate) fn without_chain(self) -> Self {
        Self { chain: None, ..self }
    }

    pub(crate) fn chain(&self) -> Option<&Arc<Chain>> {
        self.chain.as_ref()
    }

    /// Whether no earlier reply is outstanding, so that this one is sent as soon as it is known.
    pub(crate) fn is_next(&self) -> bool {
        self.outbox.lock().held.first() >= self.number
    }

    /// Whether the reply is on its way.
    pub(crate) fn is_sent(&self) -> bool {
        self.outbox.lock().held.first() > self.number
    }

    /// Whether its connection has closed, so that nobody gets the reply.
    pub(crate) fn is_closed(&self) -> bool {
        self.outbox.closed().is_some()
    }

    /// The number of its connection.
    pub(crate) fn connection(&self) -> u64 {
        self.outbox.id
    }

    /// Whether it is a reply of this connection.
    pub(crate) fn is_of(&self, outbox: &Arc<Outbox>) -> bool {
        Arc::ptr_eq(&self.outbox, outbox)
    }
}

/// What is put into an outbox.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Put {
    /// The next reply. If it is not held back, only what precedes it is bounded.
    Reply,
    Other,
}

impl Outbox {
    pub(crate) fn new(id: u64, stream: Stream, max: usize, budget: &Arc<Budget>) -> Arc<Self> {
        let inner = Mutex::new(Inner { max, ..Inner::default() });
        let (full, budget) = (AtomicBool::new(false), Arc::clone(budget));
        Arc::new(Self { id, stream, inner, full, budget, wake: Notify::new() })
    }

    /// How many bytes may wait.
    pub(crate) fn max(&self) -> usize {
        self.lock().max
    }

    /// So many may wait from now on.
    pub(crate) fn allow(&self, max: usize) {
        self.lock().max = max;
    }

    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// The next reply.
    pub(crate) fn reply(self: &Arc<Self>, value: &Value, dirty: &mut Dirty) {
        self.change(dirty, Put::Reply, |inner| {
            let protocol = inner.protocol;
            inner.held.reply(&mut inner.buf, |out| put_value(value, protocol, out));
        });
    }

    /// The next reply, in the bytes that the client expects. For long ones: to write them takes
    /// time, in which nobody should wait for this outbox.
    pub(crate) fn reply_bytes(self: &Arc<Self>, bytes: BytesMut, dirty: &mut Dirty) {
        self.change(dirty, Put::Reply, |inner| {
            inner.held.reply(&mut inner.buf, |out| {
                if out.is_empty() {
                    *out = bytes;
                } else {
                    out.extend_from_slice(&bytes);
                }
            });
        });
    }

    /// The next reply comes later.
    pub(crate) fn open_slot(self: &Arc<Self>) -> Slot {
        let mut inner = self.lock();
        let (number, protocol) = (inner.held.open(), inner.protocol);
        Slot { outbox: Arc::clone(self), number, protocol, chain: None }
    }

    /// Every reply that is not known yet is this one.
    pub(crate) fn fill_open(self: &Arc<Self>, value: &Value, dirty: &mut Dirty) {
        self.change(dirty, Put::Other, |inner| {
            inner.held.fill_all((value, inner.protocol), &mut inner.buf);
        });
    }

    /// How many replies are not known yet.
    pub(crate) fn waiting(&self) -> usize {
        self.lock().held.open_count()
    }

    /// Whether so much waits for a reply that is not known yet that nothing long should be added.
    pub(crate) fn holds_much_back(&self) -> bool {
        self.lock().held.bytes() > REPLIES
    }

    /// Whether no reply should be added: enough wait for the client to read them, or it is closed.
    pub(crate) fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// So many bytes of a command have come that is not all there yet.
    pub(crate) fn set_unread(&self, bytes: usize) {
        let mut inner = self.lock();
        if inner.closed.is_none() {
            inner.unread = bytes;
            self.settle(&mut inner);
        }
    }

    /// A session has news.
    pub(crate) fn event(
        self: &Arc<Self>,
        session: SessionId,
        event: &Event,
        as_message: bool,
        dirty: &mut Dirty,
    ) {
        self.change(dirty, Put::Other, |inner| {
            let style = match (as_message, inner.protocol) {
                (false, Protocol::Resp3) if inner.speaks < NODE_PROTOCOL => EventStyle::OldPush,
                (false, Protocol::Resp3) => EventStyle::Push,
                (_, protocol) => EventStyle::Message(protocol),
            };
            put_event(session, event, style, &mut inner.buf);
        });
    }

    /// The protocol of nodes that was agreed.
    pub(crate) fn set_speaks(&self, speaks: u32) {
        self.lock().speaks = speaks;
    }

    /// What the client speaks from its next reply on.
    pub(crate) fn set_protocol(&self, protocol: Protocol) {
        self.lock().protocol = protocol;
    }

    pub(crate) fn protocol(&self) -> Protocol {
        self.lock().protocol
    }

    fn change(self: &Arc<Self>, dirty: &mut Dirty, what: Put, change: impl FnOnce(&mut Inner)) {
        let mut inner = self.lock();
        if inner.closed.is_some() {
            return;
        }
        let is_bounded = what == Put::Other || !inner.held.is_empty();
        change(&mut inner);
        let is_slow = is_bounded && inner.unsent() + inner.held.bytes() > inner.max;
        if is_slow {
            inner.close(Closed::Slow);
        }
        let is_new = !inner.buf.is_empty() && !inner.dirty;
        inner.dirty |= is_new;
        self.settle(&mut inner);
        drop(inner);
        if is_slow {
            self.wake.notify_one();
        } else if is_new {
            dirty.0.push_back(Arc::clone(self));
        }
    }

    /// Something has changed: tells the connection's task and the budget, as far as it matters to
    /// them.
    fn settle(&self, inner: &mut Inner) {
        let unsent = inner.unsent();
        let is_over = inner.closed.is_some_and(|why| why != Closed::ByClient);
        let full = unsent > REPLIES.min(inner.max / 2) || is_over;
        if full != self.full.load(Ordering::Relaxed) {
            self.full.store(full, Ordering::Relaxed);
        }
        // What is written in a moment does not wait.
        let blocked = if inner.blocked { unsent } else { 0 };
        let waits = blocked + inner.held.bytes() + inner.unread;
        // A client that does not read is always seen, however little it is that waits for it: its
        // commands are not carried out, so that more may never be added.
        let is_first = inner.blocked && inner.counted == 0;
        let is_new = waits.abs_diff(inner.counted) >= STEP || waits == 0 || is_first;
        if is_new && waits != inner.counted {
            self.budget.change(self.id, inner.counted, waits);
            inner.counted = waits;
        }
    }

    /// Sends what is there, as far as the socket takes it now.
    pub(crate) fn flush(&self) {
        let mut inner = self.lock();
        inner.dirty = false;
        while !inner.writing && !inner.blocked && inner.closed.is_none() && inner.has_some() {
            let mut bytes = inner.take();
            let before = bytes.len();
            inner.writing = true;
            drop(inner);
            let result = self.write(&mut bytes);
            inner = self.lock();
            inner.writing = false;
            let written = before - bytes.len();
            inner.sent += written as u64;
            match result {
                Ok(()) => inner.give_back(bytes),
                // It may have been closed meanwhile.
                Err(_) if inner.closed.is_some() => {}
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {
                    // What was written takes as much room as what was not.
                    let is_small = bytes.len() < written;
                    inner.rest = if is_small { BytesMut::from(&bytes[..]) } else { bytes };
                    inner.blocked = true;
                    self.wake.notify_one();
                }
                Err(_) => {
                    inner.close(Closed::ByClient);
                    self.wake.notify_one();
                }
            }
        }
        self.settle(&mut inner);
    }

    /// Writes some of it. If more is left than one call may write, it is as if the socket were
    /// full: the connection's task goes on.
    fn write(&self, bytes: &mut BytesMut) -> io::Result<()> {
        for _ in 0..CHUNKS {
            if bytes.is_empty() {
                return Ok(());
            }
            // After a full socket the next write begins with the same bytes, and has as many.
            match self.stream.try_write(&bytes[..bytes.len().min(CHUNK)]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => bytes.advance(written),
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(why) => return Err(why),
            }
        }
        if bytes.is_empty() { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
    }

    /// How many bytes the socket has taken so far.
    pub(crate) fn sent_bytes(&self) -> u64 {
        self.lock().sent
    }

    /// Whether the socket was full.
    pub(crate) fn is_blocked(&self) -> bool {
        self.lock().blocked
    }

    /// The socket takes more.
    pub(crate) fn unblock(&self) {
        self.lock().blocked = false;
        self.flush();
    }

    /// Until it may be blocked or closed.
    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Why nothing is sent any more, if so.
    pub(crate) fn closed(&self) -> Option<Closed> {
        self.lock().closed
    }

    /// Whether all that was put here has been sent, and every reply is known.
    pub(crate) fn is_sent(&self) -> bool {
        let inner = self.lock();
        inner.closed.is_some() || (!inner.has_some() && !inner.writing && inner.held.is_empty())
    }

    /// Nothing more is sent; the connection's task ends.
    pub(crate) fn close(&self) {
        self.close_as(Closed::Gone);
    }

    /// The same, for this reason, unless there was another.
    pub(super) fn close_as(&self, why: Closed) {
        let mut inner = self.lock();
        inner.close(why);
        self.settle(&mut inner);
        drop(inner);
        self.wake.notify_one();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        crate::lock(&self.inner)
    }
}

impl Inner {
    fn has_some(&self) -> bool {
        !self.buf.is_empty() || !self.rest.is_empty()
    }

    /// Bytes that could be written.
    fn unsent(&self) -> usize {
        self.buf.len() + self.rest.len()
    }

    /// What is to be written next.
    fn take(&mut self) -> BytesMut {
        if self.rest.is_empty() {
            std::mem::replace(&mut self.buf, std::mem::take(&mut self.spare))
        } else {
            std::mem::take(&mut self.rest)
        }
    }

    /// A buffer has been written.
    fn give_back(&mut self, mut bytes: BytesMut) {
        bytes.clear();
        // What was consumed at the front comes back only by a new allocation or when it is empty.
        if self.spare.capacity() == 0 && bytes.try_reclaim(KEPT / 16) && bytes.capacity() <= KEPT {
            self.spare = bytes;
        }
    }

    fn close(&mut self, why: Closed) {
        if matches!(self.closed, None | Some(Closed::ByClient)) {
            self.closed = Some(why);
        }
        (self.buf, self.rest, self.spare) = Default::default();
        self.held.clear();
        self.unread = 0;
        self.blocked = false;
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixStream;

    use super::*;

    #[tokio::test]
    async fn service_f62_a_full_socket_is_counted_however_little_waits_for_it() {
        let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
        let budget = Budget::new(1 << 20);
        let outbox = Outbox::new(1, Stream::Unix(ours), 1 << 20, &budget);
        while outbox.stream().try_write(&[b'x'; 4096]).is_ok() {}
        let mut dirty = Dirty::default();
        outbox.reply(&Value::status("PONG"), &mut dirty);
        dirty.flush();
        assert!(outbox.is_blocked());
        assert_eq!(budget.sum(), "+PONG\r\n".len());
        let mut heard = vec![0; 1 << 20];
        while !outbox.is_sent() {
            theirs.readable().await.expect("the other end is open");
            // It may be that the socket is empty, and the reply has yet to be written.
            let _ = theirs.try_read(&mut heard);
            outbox.stream().writable().await.expect("the other end is open");
            outbox.unblock();
        }
        assert_eq!(budget.sum(), 0);
    }
}
