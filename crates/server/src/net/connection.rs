//! One connection: read what is there, carry out every whole command in it, write once.
//!
//! | state | ends when |
//! |---|---|
//! | the socket was full, [`Outbox::is_blocked`] | the client has read, and all is written |
//! | reading | some bytes have come |
//! | carrying out, [`Connection::carry_out`] | there is no whole command any more (1) |
//! | doing what is done [`Later`]: a login, a long command | it is answered |
//!
//! (1) or the turn is over, or the outbox is full, or a command comes that is done later.
//!
//! Commands are carried out one after the other, so that replies are in their order. Whatever makes
//! a connection wait in between leaves the rest of what it has read in its buffer, and meanwhile no
//! more is read. How long it may keep the thread is up to its [`Turn`].

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant as StdInstant};

use bytes::BytesMut;
use lockspan_protocol::{SessionId, Tick, ToServer};
use lockspan_wire::{
    Command, CommandError, ErrorCode, Protocol, Value, WireLimits, move_and_wipe, take_command,
    wipe,
};
use tokio::time::Instant;

use super::Shared;
use super::access::Access;
use super::admission::{Refused, Ticket};
use super::locks::no_such;
use super::login::Login;
use super::outbox::{Closed, Dirty, Outbox};
use super::peers::Peer;
use crate::clock;
use crate::service::{Chain, Seat, Work};
use crate::turn::{OUTBOXES, Turn};

/// How much is read at once.
const READ: usize = 16 << 10;

/// After so many commands the turn's time is looked at, if not before.
const COMMANDS: usize = 16;

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
    /// The protocol of nodes that was agreed.
    pub(super) speaks: u32,
    /// Whom it speaks for.
    pub(super) access: Access,
    /// What has to be done before the next command is looked at.
    pub(super) later: Option<Later>,
    /// Nobody is served here later than that.
    login_by: Instant,
    /// Its place among all connections.
    pub(super) ticket: Ticket,
    /// The sessions that were named here, and the last of them.
    pub(super) seats: HashMap<SessionId, Arc<Seat>>,
    /// Its commands that take several locks.
    pub(super) chains: Vec<Weak<Chain>>,
    pub(super) last: Option<Arc<Seat>>,
    /// With so many, those that are over are forgotten.
    seats_max: usize,
    /// The session of the last `LS.TELL`; its events come here.
    pub(super) told: Option<SessionId>,
    /// The sessions whose channels were subscribed.
    pub(super) channels: BTreeSet<SessionId>,
    channels_max: usize,
    /// The client has said goodbye, or what can't be understood.
    pub(super) quits: bool,
}

/// A command that lets others in while it is done.
#[derive(Debug)]
pub(super) enum Later {
    Login(Login),
    /// One that looks at much, or answers much.
    Long(Command),
}

/// Serves one client until it goes.
pub(super) async fn serve(shared: Arc<Shared>, peer: Arc<Peer>, ticket: Ticket) {
    let outbox = Arc::clone(&peer.outbox);
    let access = if shared.users.is_some() { Access::Nobody } else { Access::Everybody };
    let login_by = Instant::now() + shared.config.login_within;
    let mut connection = Connection {
        shared,
        peer,
        outbox: Arc::clone(&outbox),
        protocol: Protocol::Resp2,
        speaks: 1,
        access,
        later: None,
        login_by,
        ticket,
        seats: HashMap::new(),
        chains: Vec::new(),
        last: None,
        seats_max: SEATS,
        told: None,
        channels: BTreeSet::new(),
        channels_max: SEATS,
        quits: false,
    };
    let mut buf = BytesMut::with_capacity(READ);
    connection.converse(&mut buf).await;
    if connection.access.is_nobody() {
        wipe(&mut buf);
    }
    if connection.quits {
        Box::pin(connection.answer_rest()).await;
    }
    Box::pin(connection.leave()).await;
    if connection.quits && !connection.shared.service.is_halted() {
        outbox.stream().end_writing();
        // Past it, it had its time.
        let _ = tokio::time::timeout(GOODBYE, read_away(&outbox, &mut buf)).await;
    }
    outbox.stream().shut_down();
    connection.shared.peers.remove(outbox.id);
}

/// Whether the command may have taken so long that the time should be looked at.
fn looks_at_much(command: &Command) -> bool {
    matches!(
        command,
        Command::Close { .. }
            | Command::End { .. }
            | Command::Reasserted { .. }
            | Command::Info(_)
            | Command::CommandInfo(_)
            | Command::Tell {
                message: ToServer::Close | ToServer::Page { .. } | ToServer::Reasserted { .. },
                ..
            }
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
        match outbox.stream().try_read_some(buf, READ) {
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

/// Until all is sent, and every reply is known; but not forever.
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
    pub(super) fn is_late(&self) -> bool {
        self.access.is_nobody() && Instant::now() >= self.login_by
    }

    /// There is as much time for the next login as there was for the first.
    pub(super) fn login_anew(&mut self) {
        self.login_by = Instant::now() + self.shared.config.login_within;
    }

    /// When it is too late, if nobody has logged in.
    fn deadline(&self) -> Option<Instant> {
        self.access.is_nobody().then_some(self.login_by)
    }

    /// Reads and carries out, until the connection is over.
    async fn converse(&mut self, buf: &mut BytesMut) {
        let (shared, outbox) = (Arc::clone(&self.shared), Arc::clone(&self.outbox));
        let stream = outbox.stream();
        // Until when what a client said is read that has closed its socket.
        let mut goodbye = None;
        while self.has_room().await && !self.quits {
            if outbox.closed().is_some() {
                goodbye.get_or_insert_with(|| Instant::now() + GOODBYE);
            }
            tokio::select! {
                ready = stream.readable() => {
                    if ready.is_err() {
                        return;
                    }
                }
                () = outbox.woken() => continue,
                () = late(self.deadline()) => continue,
                () = late(goodbye) => return,
            }
            if buf.is_empty() && buf.capacity() > 4 * READ {
                // A long command has made it grow.
                *buf = BytesMut::new();
            }
            if self.access.is_nobody() {
                // Half of a password may have come.
                move_and_wipe(buf, READ);
            } else {
                buf.reserve(READ);
            }
            match stream.try_read_some(buf, READ) {
                Ok(0) => return,
                Ok(count) => {
                    shared.service.meters.bytes_in.add(count as u64);
                    let now = clock::now();
                    shared.vigil.as_ref().inspect(|vigil| vigil.heard(now));
                    let was_long = buf.len() - count > READ;
                    self.carry_out_all(buf, now, &mut shared.lane.begin(now)).await;
                    if was_long || buf.len() > READ {
                        outbox.set_unread(if buf.len() > READ { buf.len() } else { 0 });
                    }
                }
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return,
            }
        }
    }

    /// Until the client has read all that its socket did not take. False if the connection is over.
    pub(super) async fn has_room(&mut self) -> bool {
        while matches!(self.outbox.closed(), None | Some(Closed::ByClient)) && !self.is_late() {
            if !self.outbox.is_blocked() {
                return true;
            }
            tokio::select! {
                ready = self.outbox.stream().writable() => {
                    if ready.is_err() {
                        return false;
                    }
                    self.outbox.unblock();
                    // A client that reads as fast as it is written to.
                    tokio::task::yield_now().await;
                }
                () = self.outbox.woken() => {}
                () = late(self.deadline()) => {}
            }
        }
        false
    }

    /// Carries out every whole command, or as many as the connection lives for.
    async fn carry_out_all(&mut self, buf: &mut BytesMut, mut now: Tick, turn: &mut Turn<'_>) {
        loop {
            let (is_all, dirty) = self.carry_out(buf, now, turn);
            turn.flush(dirty).await;
            match self.later.take() {
                // In boxes, since few connections need the room for their state.
                Some(Later::Login(login)) => Box::pin(self.log_in(login, turn)).await,
                Some(Later::Long(command)) => Box::pin(self.run_long(command, turn)).await,
                None if is_all => return,
                None => {}
            }
            if self.quits || !self.catch_up(turn).await {
                return;
            }
            turn.give_way().await;
            now = clock::now();
        }
    }

    /// Until the client has read enough for more replies. False if the connection is over.
    pub(super) async fn catch_up(&mut self, turn: &mut Turn<'_>) -> bool {
        while self.outbox.is_blocked() || self.outbox.is_full() {
            if !turn.wait_for(Box::pin(self.has_room())).await {
                return false;
            }
            // It may be that another thread has to write first.
            turn.wait_for(tokio::task::yield_now()).await;
        }
        !self.is_late()
    }

    /// Carries out whole commands while the turn lasts and there is room for replies. Whether these
    /// were all, and what they have to send.
    fn carry_out(&mut self, buf: &mut BytesMut, now: Tick, turn: &Turn<'_>) -> (bool, Dirty) {
        let shared = Arc::clone(&self.shared);
        let mut work = Work::at(now, self.outbox.id);
        let (mut commands, mut look_at) = (0, COMMANDS);
        let mut is_all = false;
        while !self.quits && self.later.is_none() && !self.outbox.is_full() {
            let limits = if self.access.is_nobody() { STRANGER } else { shared.config.wire };
            match take_command(buf, &limits) {
                Ok(None) => {
                    is_all = true;
                    break;
                }
                Ok(Some(Ok(command))) => {
                    if looks_at_much(&command) {
                        look_at = commands;
                    }
                    self.run(command, &mut work);
                }
                Ok(Some(Err(why))) => self.outbox.reply(&why.into(), &mut work.dirty),
                Err(why) => {
                    self.outbox.reply(&why.to_reply(), &mut work.dirty);
                    self.quits = true;
                }
            }
            shared.service.finish(&mut work);
            commands += 1;
            if work.dirty.len() > OUTBOXES {
                break;
            }
            if commands >= look_at {
                if turn.is_over() {
                    break;
                }
                look_at = commands + COMMANDS;
            }
        }
        shared.service.meters.commands.add(commands as u64);
        (is_all, work.dirty)
    }

    /// The client has said its last: sends what it is still to be told. A command that waits for
    /// too long is answered by an error, so that the replies after it go out too.
    async fn answer_rest(&mut self) {
        sent(&self.outbox).await;
        if !self.outbox.is_sent() {
            // What they wait for is withdrawn, whether they brought an id or not.
            for chain in self.chains.iter().filter_map(Weak::upgrade) {
                chain.failed();
            }
            self.forsake().await;
            let text = "the connection ended before this command was answered; the command is \
                        withdrawn";
            let mut dirty = Dirty::default();
            self.outbox.fill_open(&Value::error(ErrorCode::Err, text), &mut dirty);
            dirty.flush();
            sent(&self.outbox).await;
        }
    }

    /// What its commands wait for is withdrawn.
    async fn forsake(&mut self) {
        let shared = Arc::clone(&self.shared);
        let mut turn = shared.lane.begin(clock::now());
        let mut seats: Vec<_> = self.seats.drain().map(|(_, seat)| seat).collect();
        for chain in self.chains.drain(..).filter_map(|chain| chain.upgrade()) {
            chain.forsaken();
            seats.extend(chain.current());
        }
        for seat in seats {
            seat.stop_listening(&self.outbox);
            if !shared.service.is_halted() {
                shared.service.forsake(&seat, &self.outbox, &mut turn).await;
                turn.give_way().await;
            }
        }
    }

    /// The client has gone. Its sessions live on; only what its commands waited for is withdrawn.
    async fn leave(&mut self) {
        let meters = &self.shared.service.meters;
        match self.outbox.closed() {
            Some(Closed::Slow) => {
                meters.slow_readers.add(1);
                if let Some(more) = self.shared.floods.slow_readers.may_log(StdInstant::now()) {
                    tracing::warn!(
                        "{} is closed: more than {} bytes are queued for it. The client does not \
                         read, or one of its commands waits and holds back the replies to later \
                         commands{more}",
                        self.peer.title(),
                        self.outbox.max()
                    );
                }
            }
            Some(Closed::Fullest) => meters.slow_readers.add(1),
            Some(Closed::Late) => {
                let why = Refused::Late;
                // If its socket is full, it hears nothing.
                let _ = self.outbox.stream().try_write(format!("-LIMIT {why}\r\n").as_bytes());
                if let Some(more) = self.shared.floods.refused.may_log(StdInstant::now()) {
                    tracing::warn!("{} is closed: {why}{more}", self.peer.title());
                }
            }
            Some(Closed::Gone | Closed::ByClient) | None => {}
        }
        self.outbox.close();
        self.forsake().await;
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
        self.seats.insert(seat.id, Arc::clone(seat));
        // Sessions that are over are forgotten now and then.
        if self.seats.len() > self.seats_max {
            self.seats.retain(|_, seat| seat.is_alive());
            self.seats_max = SEATS.max(2 * self.seats.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use lockspan_tls::Stream;
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::UnixStream;

    use super::*;
    use crate::net::budget::Budget;

    #[tokio::test]
    async fn what_is_read_away_is_not_kept() {
        let (ours, mut theirs) = UnixStream::pair().expect("two ends");
        let outbox = Outbox::new(1, Stream::Unix(ours), 1024, &Budget::new(1 << 20));
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
