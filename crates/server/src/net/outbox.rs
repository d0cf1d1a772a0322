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
//! A reply that is not known yet leaves its slot open. Replies after it wait, events don't.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};

use bytes::{Buf as _, BytesMut};
use lockspan_protocol::SessionId;
use lockspan_tls::Stream;
use lockspan_wire::{Event, EventStyle, Protocol, Value, put_event, put_value};
use tokio::sync::Notify;

/// Buffers that grew larger than this are not kept.
const KEPT: usize = 64 << 10;

/// What a reply costs that waits for an earlier one, beside its bytes: its slot and its buffer.
const SLOT: usize = 96;

/// The way to one client.
#[derive(Debug)]
pub(crate) struct Outbox {
    /// Number of the connection.
    pub(crate) id: u64,
    stream: Stream,
    inner: Mutex<Inner>,
    /// For the connection's task: it is blocked or closed.
    wake: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    /// Bytes that may wait.
    max: usize,
    protocol: Protocol,
    buf: BytesMut,
    /// Written before `buf`: what a full socket did not take.
    rest: BytesMut,
    /// An empty buffer, to be used again.
    spare: BytesMut,
    /// Replies that wait for an earlier one; none is an open slot.
    slots: VecDeque<Option<BytesMut>>,
    /// The number of the first of `slots`.
    first: u64,
    /// What `slots` that are known cost.
    held: usize,
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
    /// The connection is gone, or is to go.
    Gone,
    /// The client does not read.
    Slow,
}

/// The place of a reply that is not known yet.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    outbox: Arc<Outbox>,
    number: u64,
    /// What the client spoke when its command came: it expects the reply in that, whatever it says
    /// since.
    protocol: Protocol,
}

/// Outboxes that have something new, to be flushed when no lock is held.
#[derive(Debug, Default)]
pub(crate) struct Dirty(Vec<Arc<Outbox>>);

impl Dirty {
    /// Sends what is there.
    pub(crate) fn flush(&mut self) {
        for outbox in self.0.drain(..) {
            outbox.flush();
        }
    }

    /// What `put` has to say is sent before all that is here already.
    pub(crate) fn first(&mut self, put: impl FnOnce(&mut Self)) {
        let later = std::mem::take(&mut self.0);
        put(self);
        self.0.extend(later);
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
        self.outbox.change(dirty, |inner| inner.fill(self.number, self.protocol, value));
    }

    /// Whether no earlier reply is outstanding, so that this one is sent as soon as it is known.
    pub(crate) fn is_next(&self) -> bool {
        self.outbox.lock().first >= self.number
    }

    /// Whether the reply is on its way.
    pub(crate) fn is_sent(&self) -> bool {
        self.outbox.lock().first > self.number
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

impl Outbox {
    pub(crate) fn new(id: u64, stream: Stream, max: usize) -> Arc<Self> {
        let inner = Mutex::new(Inner { max, ..Inner::default() });
        Arc::new(Self { id, stream, inner, wake: Notify::new() })
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
        self.change(dirty, |inner| inner.reply(value));
    }

    /// The next reply comes later.
    pub(crate) fn open_slot(self: &Arc<Self>) -> Slot {
        let mut inner = self.lock();
        let number = inner.first + inner.slots.len() as u64;
        inner.slots.push_back(None);
        Slot { outbox: Arc::clone(self), number, protocol: inner.protocol }
    }

    /// Every reply that is not known yet is this one.
    pub(crate) fn fill_open(self: &Arc<Self>, value: &Value, dirty: &mut Dirty) {
        self.change(dirty, |inner| {
            let open = inner.slots.iter().zip(inner.first..).filter(|(slot, _)| slot.is_none());
            let open: Vec<_> = open.map(|(_, number)| number).collect();
            open.into_iter().for_each(|number| inner.fill(number, inner.protocol, value));
        });
    }

    /// How many replies are not known yet, or wait for one that is not.
    pub(crate) fn waiting(&self) -> usize {
        self.lock().slots.len()
    }

    /// A session has news.
    pub(crate) fn event(
        self: &Arc<Self>,
        session: SessionId,
        event: &Event,
        as_message: bool,
        dirty: &mut Dirty,
    ) {
        self.change(dirty, |inner| {
            let style = match (as_message, inner.protocol) {
                (false, Protocol::Resp3) => EventStyle::Push,
                (_, protocol) => EventStyle::Message(protocol),
            };
            put_event(session, event, style, &mut inner.buf);
        });
    }

    /// What the client speaks from its next reply on.
    pub(crate) fn set_protocol(&self, protocol: Protocol) {
        self.lock().protocol = protocol;
    }

    pub(crate) fn protocol(&self) -> Protocol {
        self.lock().protocol
    }

    fn change(self: &Arc<Self>, dirty: &mut Dirty, change: impl FnOnce(&mut Inner)) {
        let mut inner = self.lock();
        if inner.closed.is_some() {
            return;
        }
        change(&mut inner);
        if inner.buf.len() + inner.rest.len() + inner.held > inner.max {
            inner.close(Closed::Slow);
            drop(inner);
            self.wake.notify_one();
        } else if !inner.buf.is_empty() && !inner.dirty {
            inner.dirty = true;
            drop(inner);
            dirty.0.push(Arc::clone(self));
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
            inner.sent += (before - bytes.len()) as u64;
            match result {
                Ok(()) => inner.give_back(bytes),
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {
                    inner.rest = bytes;
                    inner.blocked = true;
                    self.wake.notify_one();
                }
                Err(_) => {
                    inner.close(Closed::Gone);
                    self.wake.notify_one();
                }
            }
        }
    }

    fn write(&self, bytes: &mut BytesMut) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.stream.try_write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => bytes.advance(written),
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(why) => return Err(why),
            }
        }
        Ok(())
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
        inner.closed.is_some() || (!inner.has_some() && !inner.writing && inner.slots.is_empty())
    }

    /// Nothing more is sent; the connection's task ends.
    pub(crate) fn close(&self) {
        self.lock().close(Closed::Gone);
        self.wake.notify_one();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        crate::lock(&self.inner)
    }
}

impl Inner {
    fn reply(&mut self, value: &Value) {
        if self.slots.is_empty() {
            put_value(value, self.protocol, &mut self.buf);
            self.first += 1;
        } else {
            let mut bytes = BytesMut::new();
            put_value(value, self.protocol, &mut bytes);
            self.held += SLOT + bytes.len();
            self.slots.push_back(Some(bytes));
        }
    }

    fn fill(&mut self, number: u64, protocol: Protocol, value: &Value) {
        let at = number.checked_sub(self.first).and_then(|at| usize::try_from(at).ok());
        let Some(slot) = at.and_then(|at| self.slots.get_mut(at)) else { return };
        let mut bytes = BytesMut::new();
        put_value(value, protocol, &mut bytes);
        self.held += SLOT + bytes.len();
        *slot = Some(bytes);
        while let Some(known) = self.slots.pop_front_if(|slot| slot.is_some()).flatten() {
            self.held -= SLOT + known.len();
            self.buf.extend_from_slice(&known);
            self.first += 1;
        }
    }

    fn has_some(&self) -> bool {
        !self.buf.is_empty() || !self.rest.is_empty()
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
        self.closed.get_or_insert(why);
        (self.buf, self.rest, self.spare) = Default::default();
        self.slots.clear();
        self.held = 0;
    }
}
