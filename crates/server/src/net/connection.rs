//! One connection: read what is there, carry out every whole command in it, write once.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use lockspan_protocol::SessionId;
use lockspan_wire::{Protocol, take_command};

use super::Shared;
use super::outbox::{Closed, Outbox};
use super::peers::Peer;
use crate::service::{Seat, Work};

/// How much is read at once.
const READ: usize = 16 << 10;

/// With fewer sessions than this, it does not matter if some are over.
const SEATS: usize = 64;

/// A connection's own state.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) shared: Arc<Shared>,
    pub(super) peer: Arc<Peer>,
    pub(super) outbox: Arc<Outbox>,
    pub(super) protocol: Protocol,
    /// The sessions that were named here, and the last of them.
    pub(super) seats: HashMap<SessionId, Arc<Seat>>,
    pub(super) last: Option<Arc<Seat>>,
    /// The session of the last `LS.TELL`; its events come here.
    pub(super) told: Option<SessionId>,
    /// Channels that were subscribed.
    pub(super) channels: Vec<Bytes>,
    /// The client has said goodbye, or what can't be understood.
    pub(super) quits: bool,
}

/// Serves one client until it goes.
pub(super) async fn serve(shared: Arc<Shared>, peer: Arc<Peer>) {
    let outbox = Arc::clone(&peer.outbox);
    let mut connection = Connection {
        shared,
        peer,
        outbox: Arc::clone(&outbox),
        protocol: Protocol::Resp2,
        seats: HashMap::new(),
        last: None,
        told: None,
        channels: Vec::new(),
        quits: false,
    };
    let mut buf = BytesMut::with_capacity(READ);
    while outbox.closed().is_none() {
        let stream = outbox.stream();
        if outbox.is_blocked() {
            // A client that does not read is not read from.
            tokio::select! {
                ready = stream.writable() => match ready {
                    Ok(()) => outbox.unblock(),
                    Err(_) => break,
                },
                () = outbox.woken() => {}
            }
            continue;
        }
        if connection.quits {
            break;
        }
        tokio::select! {
            ready = stream.readable() => if ready.is_err() { break },
            () = outbox.woken() => continue,
        }
        buf.reserve(READ);
        match stream.try_read(&mut buf) {
            Ok(0) => break,
            Ok(_) => {
                connection.shared.vigil.as_ref().inspect(|vigil| vigil.heard());
                connection.read(&mut buf);
            }
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => break,
        }
    }
    connection.leave();
}

impl Connection {
    /// Carries out every whole command, then sends all that came of it.
    fn read(&mut self, buf: &mut BytesMut) {
        let shared = Arc::clone(&self.shared);
        let mut work = Work::default();
        let mut commands = 0;
        while !self.quits {
            match take_command(buf, &shared.config.wire) {
                Ok(None) => break,
                Ok(Some(Ok(command))) => self.run(command, &mut work),
                Ok(Some(Err(why))) => self.outbox.reply(&why.into(), &mut work.dirty),
                Err(why) => {
                    self.outbox.reply(&why.to_reply(), &mut work.dirty);
                    self.quits = true;
                }
            }
            commands += 1;
            shared.service.finish(&mut work);
        }
        shared.service.meters.commands.add(commands);
        work.dirty.flush();
    }

    /// The client has gone. Its sessions live on; only what its commands waited for is withdrawn.
    fn leave(mut self) {
        let service = &self.shared.service;
        if self.outbox.closed() == Some(Closed::Slow) {
            service.meters.slow_readers.add(1);
            tracing::warn!(
                "connection {} is closed: more than {} bytes wait for it, and it does not read",
                self.outbox.id,
                self.shared.config.outbox
            );
        }
        self.outbox.close();
        self.outbox.stream().shut_down();
        let mut work = Work::default();
        for seat in self.seats.drain().map(|(_, seat)| seat) {
            seat.stop_listening(&self.outbox);
            if !service.is_halted() {
                service.forsake(&seat, &self.outbox, &mut work);
                service.finish(&mut work);
            }
        }
        work.dirty.flush();
        self.shared.peers.remove(self.outbox.id);
    }

    /// The seat of a session, if it has one.
    pub(super) fn seat(&mut self, session: SessionId) -> Option<Arc<Seat>> {
        if let Some(last) = &self.last
            && last.id == session
            && last.is_alive()
        {
            return Some(Arc::clone(last));
        }
        let known = self.seats.get(&session).filter(|seat| seat.is_alive()).cloned();
        let found = known.or_else(|| self.shared.service.seat(session));
        match &found {
            Some(seat) => self.remember(seat),
            None => {
                self.seats.remove(&session);
            }
        }
        found
    }

    pub(super) fn remember(&mut self, seat: &Arc<Seat>) {
        self.last = Some(Arc::clone(seat));
        // Sessions that are over are forgotten now and then.
        if self.seats.len() >= SEATS && self.seats.len() == self.seats.capacity() {
            self.seats.retain(|_, seat| seat.is_alive());
        }
        self.seats.insert(seat.id, Arc::clone(seat));
    }
}
