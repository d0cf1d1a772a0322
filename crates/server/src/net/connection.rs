//! One connection: read what is there, carry out every whole command in it, write once.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use lockspan_protocol::SessionId;
use lockspan_wire::{Command, CommandError, ErrorCode, Protocol, Value, WireLimits, take_command};
use tokio::time::Instant;

use super::Shared;
use super::access::Access;
use super::locks::no_such;
use super::login::Login;
use super::outbox::{Closed, Outbox};
use super::peers::Peer;
use super::strangers::Stranger;
use crate::clock;
use crate::service::{Seat, Work};

/// How much is read at once.
const READ: usize = 16 << 10;

/// How long a client that has said goodbye is waited for: until all its commands are answered, and
/// once more until it has read that.
const GOODBYE: Duration = Duration::from_secs(2);

/// How often it is looked whether they are.
const GLANCE: Duration = Duration::from_millis(5);

/// What is kept of a client that has yet to log in: it needs no more for that.
const STRANGER: WireLimits = WireLimits { frame: 8 << 10, args: 16 };

/// What may wait for such a client, in bytes.
pub(super) const STRANGER_OUTBOX: usize = 16 << 10;

/// With fewer sessions than this, it does not matter if some are over.
const SEATS: usize = 64;

/// A connection's own state.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) shared: Arc<Shared>,
    pub(super) peer: Arc<Peer>,
    pub(super) outbox: Arc<Outbox>,
    pub(super) protocol: Protocol,
    /// Whom it speaks for.
    pub(super) access: Access,
    /// Somebody wants to log in; no command is looked at before that is decided.
    pub(super) login: Option<Login>,
    /// Nobody is served here later than that.
    login_by: Instant,
    /// Its place among those who have yet to log in.
    pub(super) stranger: Option<Stranger>,
    /// The sessions that were named here, and the last of them.
    pub(super) seats: HashMap<SessionId, Arc<Seat>>,
    pub(super) last: Option<Arc<Seat>>,
    /// The session of the last `LS.TELL`; its events come here.
    pub(super) told: Option<SessionId>,
    /// The sessions whose channels were subscribed.
    pub(super) channels: BTreeSet<SessionId>,
    /// With so many, those that are over are forgotten.
    pub(super) channels_max: usize,
    /// The client has said goodbye, or what can't be understood.
    pub(super) quits: bool,
}

/// Serves one client until it goes.
pub(super) async fn serve(shared: Arc<Shared>, peer: Arc<Peer>, stranger: Option<Stranger>) {
    let outbox = Arc::clone(&peer.outbox);
    let access = if shared.users.is_some() { Access::Nobody } else { Access::Everybody };
    let login_by = Instant::now() + shared.config.login_within;
    let mut connection = Connection {
        shared,
        peer,
        outbox: Arc::clone(&outbox),
        protocol: Protocol::Resp2,
        access,
        login: None,
        login_by,
        stranger,
        seats: HashMap::new(),
        last: None,
        told: None,
        channels: BTreeSet::new(),
        channels_max: SEATS,
        quits: false,
    };
    let mut buf = BytesMut::with_capacity(READ);
    while outbox.closed().is_none() && !connection.is_late() {
        let login_by = connection.access.is_nobody().then_some(connection.login_by);
        let stream = outbox.stream();
        if outbox.is_blocked() {
            // A client that does not read is not read from.
            tokio::select! {
                ready = stream.writable() => match ready {
                    Ok(()) => outbox.unblock(),
                    Err(_) => break,
                },
                () = outbox.woken() => {}
                () = late(login_by) => {}
            }
            continue;
        }
        if connection.quits {
            break;
        }
        tokio::select! {
            ready = stream.readable() => {
                if ready.is_err() {
                    break;
                }
            }
            () = outbox.woken() => continue,
            () = late(login_by) => continue,
        }
        buf.reserve(READ);
        match stream.try_read(&mut buf) {
            Ok(0) => break,
            Ok(count) => {
                connection.shared.service.meters.bytes_in.add(count as u64);
                connection.shared.vigil.as_ref().inspect(|vigil| vigil.heard());
                connection.read_all(&mut buf).await;
                while let Some(login) = connection.login.take() {
                    connection.log_in(login).await;
                    if connection.is_late() {
                        break;
                    }
                    connection.read_all(&mut buf).await;
                }
            }
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => break,
        }
    }
    if connection.quits {
        connection.answer_rest().await;
    }
    connection.leave();
    if connection.quits && !connection.shared.service.is_halted() {
        outbox.stream().end_writing();
        // Past it, it had its time.
        let _ = tokio::time::timeout(GOODBYE, read_away(&outbox, &mut buf)).await;
    }
    outbox.stream().shut_down();
    connection.shared.peers.remove(outbox.id);
}

/// Whether it may keep a thread busy for longer than a lock does.
fn looks_at_much(command: &Command) -> bool {
    matches!(
        command,
        Command::Locks { .. } | Command::Sessions { .. } | Command::History { .. } | Command::Waits
    )
}

/// Until it is too late, if it ever is.
async fn late(by: Option<Instant>) {
    match by {
        Some(by) => tokio::time::sleep_until(by).await,
        None => std::future::pending().await,
    }
}

/// Reads what nobody wants until the client closes too: a socket that is closed with bytes to be
/// read forgets what it had yet to send.
async fn read_away(outbox: &Outbox, buf: &mut BytesMut) {
    loop {
        buf.clear();
        buf.reserve(READ);
        match outbox.stream().try_read(buf) {
            Ok(0) => return,
            // Who sends without end does not keep others from their turn.
            Ok(_) => tokio::task::coop::consume_budget().await,
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => {
                if outbox.stream().readable().await.is_err() {
                    return;
                }
            }
            Err(_) => return,
        }
    }
}

/// Until all is sent, and every reply is known; but not for ever.
async fn sent(outbox: &Outbox) {
    let deadline = Instant::now() + GOODBYE;
    while !outbox.is_sent() && Instant::now() < deadline {
        if outbox.is_blocked() {
            let ready = tokio::time::timeout_at(deadline, outbox.stream().writable());
            if let Ok(Ok(())) = ready.await {
                outbox.unblock();
            }
        } else {
            tokio::time::sleep(GLANCE).await;
        }
    }
}

impl Connection {
    /// Nobody has logged in, and the time for that is over. Whoever keeps us busy does not have
    /// more of it.
    fn is_late(&self) -> bool {
        self.access.is_nobody() && Instant::now() >= self.login_by
    }

    /// There is as much time for the next login as there was for the first.
    pub(super) fn login_anew(&mut self) {
        self.login_by = Instant::now() + self.shared.config.login_within;
    }

    /// Carries out every whole command. Others have their turn after each that looks at much.
    async fn read_all(&mut self, buf: &mut BytesMut) {
        while self.read(buf) && self.outbox.closed().is_none() {
            tokio::task::yield_now().await;
        }
    }

    /// Carries out whole commands, then sends all that came of them; true if it may go on.
    fn read(&mut self, buf: &mut BytesMut) -> bool {
        let shared = Arc::clone(&self.shared);
        let mut work = Work::at(clock::now(), self.outbox.id);
        let mut commands = 0;
        let mut is_tired = false;
        while !is_tired && !self.quits && self.login.is_none() {
            let limits = if self.access.is_nobody() { STRANGER } else { shared.config.wire };
            match take_command(buf, &limits) {
                Ok(None) => break,
                Ok(Some(Ok(command))) => {
                    is_tired = looks_at_much(&command);
                    self.run(command, &mut work);
                }
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
        is_tired
    }

    /// The client has said its last: sends what it is still to be told. A command that waits for
    /// too long is answered by an error, so that the replies after it go out too.
    async fn answer_rest(&mut self) {
        sent(&self.outbox).await;
        if !self.outbox.is_sent() {
            let mut work = Work::default();
            self.forsake(&mut work);
            let text = "the connection ends before this was answered; it is withdrawn";
            self.outbox.fill_open(&Value::error(ErrorCode::Err, text), &mut work.dirty);
            work.dirty.flush();
            sent(&self.outbox).await;
        }
    }

    /// What its commands wait for is withdrawn.
    fn forsake(&mut self, work: &mut Work) {
        let service = &self.shared.service;
        for seat in self.seats.drain().map(|(_, seat)| seat) {
            seat.stop_listening(&self.outbox);
            if !service.is_halted() {
                service.forsake(&seat, &self.outbox, work);
                service.finish(work);
            }
        }
    }

    /// The client has gone. Its sessions live on; only what its commands waited for is withdrawn.
    fn leave(&mut self) {
        let service = &self.shared.service;
        if self.outbox.closed() == Some(Closed::Slow) {
            service.meters.slow_readers.add(1);
            tracing::warn!(
                "connection {} is closed: more than {} bytes wait for it, and it does not read",
                self.outbox.id,
                self.outbox.max()
            );
        }
        self.outbox.close();
        let mut work = Work::default();
        self.forsake(&mut work);
        work.dirty.flush();
    }

    /// The seat of a session, if it has one and this connection may speak for it.
    pub(super) fn seat(&mut self, session: SessionId) -> Result<Arc<Seat>, CommandError> {
        if let Some(last) = &self.last
            && last.id == session
            && last.is_alive()
        {
            return Ok(Arc::clone(last));
        }
        let known = self.seats.get(&session).filter(|seat| seat.is_alive()).cloned();
        let found = known.or_else(|| self.shared.service.seat(session));
        let Some(seat) = found else {
            self.seats.remove(&session);
            return Err(no_such(session));
        };
        // One of another user is as good as none; what commands of this connection wait for there
        // is withdrawn when it closes.
        if !self.access.owns(&seat) {
            return Err(no_such(session));
        }
        self.remember(&seat);
        Ok(seat)
    }

    /// The channel of a session is subscribed.
    pub(super) fn add_channel(&mut self, session: SessionId) {
        self.channels.insert(session);
        if self.channels.len() > self.channels_max {
            let seats = &self.seats;
            self.channels.retain(|id| seats.get(id).is_some_and(|seat| seat.is_alive()));
            self.channels_max = SEATS.max(2 * self.channels.len());
        }
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

#[cfg(test)]
mod tests {
    use lockspan_tls::Stream;
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::UnixStream;

    use super::*;

    #[tokio::test]
    async fn what_is_read_away_is_not_kept() {
        let (ours, mut theirs) = UnixStream::pair().expect("two ends");
        let outbox = Outbox::new(1, Stream::Unix(ours), 1024);
        let flood = tokio::spawn(async move {
            let more = vec![b'x'; 1 << 20];
            for _ in 0..64 {
                theirs.write_all(&more).await.expect("it is read");
            }
        });
        let mut buf = BytesMut::with_capacity(READ);
        let deadline = Duration::from_secs(20);
        let read = tokio::time::timeout(deadline, read_away(&outbox, &mut buf));
        read.await.expect("until the client closes");
        flood.await.expect("all of it was read");
        assert!(buf.capacity() <= 4 * READ, "{} bytes are kept", buf.capacity());
    }
}
