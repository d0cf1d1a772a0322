//! The background task of a node: it keeps the connection, hears the server, and is the node's
//! alarm clock.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use bytes::BytesMut;
use lockspan_park::fork::{self, BoundFuture, ProcessLocal};
use lockspan_protocol::{SessionId, Tick};
use lockspan_tls::{ClientConfig, Stream};
use lockspan_wire::{
    Attention, Event, FromServer, NODE_PROTOCOL, Secret, Value, WireLimits, put_command,
    take_from_server, wipe,
};
use tokio::net::unix::UCred;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::{Instant, Sleep, sleep, sleep_until, timeout};

use crate::clock;
use crate::error::{CloseUnknown, ConnectError};
use crate::greeting;
use crate::local;
use crate::locks::Locks;
use crate::meter;
use crate::node::Node;
use crate::stats::Counts;
use crate::stream;
use crate::trust;
use crate::url::{Address, Login, Site};
use crate::way::{Connection, Outbox, Way};

/// How long a server may take to answer when it is called.
const PATIENCE: Duration = Duration::from_secs(5);
/// The same if it has a password to compare: while others guess at it, that may take 10 s.
const LOGIN_PATIENCE: Duration = Duration::from_secs(15);
/// The task looks at the clock this often, whatever happens: timers stand still in a suspended
/// machine, leases do not.
const LOOK: Duration = Duration::from_secs(1);
/// The first and the longest pause between attempts to connect.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(2));
/// How much is read at once.
const READ: usize = 64 * 1024;

/// Room for so many messages is kept for the next that come together.
const EVENTS_KEPT: usize = 64;

/// The runtime of programs that have none: one thread. A child of a fork has not that thread, and
/// makes a runtime of its own.
struct Background {
    handle: Handle,
    runtime: Option<Runtime>,
}

impl Drop for Background {
    fn drop(&mut self) {
        // Another thread was faster to make one; nothing runs in this one, and nobody waits for it.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The thread that looks after connections of programs without a runtime.
pub(crate) fn background() -> io::Result<Handle> {
    static RUNTIME: ProcessLocal<Background> = ProcessLocal::new();
    let background = RUNTIME.get_or_try_init(|| {
        // The first runtime of a process makes tables that all later ones wait for, in a child too.
        let runtime = fork::without_forks(|| {
            let mut builder = Builder::new_multi_thread();
            builder.worker_threads(1).thread_name("lockspan").enable_all().build()
        })?;
        io::Result::Ok(Background { handle: runtime.handle().clone(), runtime: Some(runtime) })
    })?;
    Ok(background.handle.clone())
}

/// Has a task of the runtime look after a node. In a child of a fork the task does nothing and is
/// not dropped, even if the runtime is driven or dropped there.
pub(crate) fn spawn(runtime: &Handle, task: impl Future<Output = ()> + Send + 'static) {
    runtime.spawn(BoundFuture::new(task, || Poll::Pending));
}

/// A timer for whoever waits: for a time-out, or for the end of a lease. It runs on the background
/// thread, which always runs. The runtime of `connect` may stand still while the caller waits in
/// another one, and so may the caller's own (`Handle::block_on` drives no timers).
pub(crate) fn timer(node: &Node, time: Duration) -> Sleep {
    let runtime = background().unwrap_or_else(|_| node.runtime.clone());
    let _inside = runtime.enter();
    sleep(time)
}

/// The runtime that a connection is made in, which looks after it from then on.
pub(crate) fn runtime() -> Result<Handle, ConnectError> {
    Handle::try_current().map_err(|_| ConnectError::Local {
        what:
            "there is no tokio runtime for the connection: call connect inside a runtime, or use \
             blocking_connect"
                .to_owned(),
    })
}

/// Connects on the thread for programs without a runtime.
pub(crate) fn connect_in_background(
    connecting: impl Future<Output = Result<Locks, ConnectError>> + Send + 'static,
) -> Result<Locks, ConnectError> {
    let runtime = background().map_err(|why| ConnectError::Local {
        what: format!("can't start a thread for the connection: {why}"),
    })?;
    let (send, receive) = std::sync::mpsc::sync_channel(1);
    runtime.spawn(async move {
        let _ = send.send(connecting.await);
    });
    receive.recv().unwrap_or_else(|_| {
        Err(ConnectError::Local { what: "the thread of the connection ended".to_owned() })
    })
}

/// How to call the server.
#[derive(Clone, Debug)]
pub(crate) struct Dial {
    pub(crate) address: Address,
    /// There is one if the address is one with TLS.
    pub(crate) tls: Option<Arc<ClientConfig>>,
    login: Login,
    /// A password may be sent where others read along.
    insecure: bool,
    name: String,
    /// It is this user's own service, which is started when it is not there.
    pub(crate) is_local: bool,
}

impl Dial {
    pub(crate) fn new(site: Site, name: &str) -> Result<Self, ConnectError> {
        if site.shows_password() {
            return Err(ConnectError::BadOption {
                what: format!(
                    "the password would be sent to {} unencrypted: use lockspans://, or \
                     ?insecure=yes if nobody can read the traffic",
                    site.address
                ),
            });
        }
        let Site { address, login, tls, insecure } = site;
        trust::warn_of_readers([login.password_file.as_deref(), tls.key.as_deref()]);
        let tls = match &address {
            Address::Tls(_) => {
                if tls.ca.is_none() {
                    trust::check_authorities()?;
                }
                Some(tls.load().map_err(|why| ConnectError::BadOption {
                    what: format!("certificates: {why}"),
                })?)
            }
            Address::Tcp(_) | Address::Unix(_) => None,
        };
        Ok(Self { address, tls, login, insecure, name: name.to_owned(), is_local: false })
    }

    /// To this user's own service.
    pub(crate) fn local(socket: PathBuf, name: &str) -> Self {
        let (address, name) = (Address::Unix(socket), name.to_owned());
        let login = Login::default();
        Self { address, tls: None, login, insecure: false, name, is_local: true }
    }

    /// Whoever answers at this address may be told what [`Self::hello_words`] has.
    pub(crate) fn check_address(&self, at: io::Result<SocketAddr>) -> Result<(), ConnectError> {
        if self.insecure || !self.login.has_password() {
            return Ok(());
        }
        let at = at.map_err(|why| greeting::failed(&self.address, why))?;
        trust::check_address(&self.address.to_string(), at)
    }

    /// The same for a socket file, with who serves there.
    pub(crate) fn check_server(
        &self,
        server: impl FnOnce() -> io::Result<UCred>,
    ) -> Result<(), ConnectError> {
        let Address::Unix(socket) = &self.address else { return Ok(()) };
        if !self.is_local && !self.login.has_password() {
            return Ok(());
        }
        let failed = |why| greeting::failed(&self.address, why);
        let user = server().map_err(failed)?.uid();
        match self.is_local {
            true => local::check_user(user).map_err(failed),
            false => trust::check_server(socket, user),
        }
    }

    /// Connects; to this user's own service also if it has to be started.
    pub(crate) async fn reach(&self) -> Result<Arc<Stream>, ConnectError> {
        if self.is_local { local::reach(self).await } else { self.connect().await }
    }

    /// Connects and says hello.
    pub(crate) async fn connect(&self) -> Result<Arc<Stream>, ConnectError> {
        let failed = |why| greeting::failed(&self.address, why);
        let late = || failed(io::Error::new(io::ErrorKind::TimedOut, "no reply"));
        let connecting = stream::connect(&self.address, self.tls.as_ref());
        let connected = timeout(PATIENCE, connecting).await;
        let stream = connected.map_err(|_| late())?.map_err(failed)?;
        match &stream {
            Stream::Tcp(stream) => self.check_address(stream.peer_addr())?,
            Stream::Unix(stream) => self.check_server(|| stream.peer_cred())?,
            // Its certificate was looked at.
            Stream::Tls(_) => {}
        }
        let words = self.hello_words()?;
        let patience = if self.has_password() { LOGIN_PATIENCE } else { PATIENCE };
        let hello = timeout(patience, hello(&self.address, &stream, &words)).await;
        greeting::check(&self.address, self.has_password(), hello.map_err(|_| late())??)?;
        Ok(Arc::new(stream))
    }

    /// Whether a user and a password are sent.
    pub(crate) fn has_password(&self) -> bool {
        self.login.has_password()
    }

    /// What to say first. The password is read anew each time, if it is in a file.
    pub(crate) fn hello_words(&self) -> Result<Vec<Secret>, ConnectError> {
        let mut words = vec![Secret::copy(b"HELLO"), Secret::copy(b"3")];
        if let Some((user, password)) = self.login.words()? {
            words.extend([Secret::copy(b"AUTH"), Secret::copy(user.as_bytes()), password]);
        }
        words.extend([Secret::copy(b"SETNAME"), Secret::copy(self.shown_name().as_bytes())]);
        let speaks = NODE_PROTOCOL.to_string();
        words.extend([Secret::copy(b"LOCKSPAN"), Secret::copy(speaks.as_bytes())]);
        Ok(words)
    }

    /// The name as `SETNAME` takes it: Redis, which may be here by mistake, takes no blanks.
    fn shown_name(&self) -> String {
        let shown = |letter: char| if letter.is_ascii_graphic() { letter } else { '_' };
        self.name.chars().map(shown).collect()
    }

    /// Connects, however often it takes.
    async fn connect_again(&self) -> Arc<Stream> {
        let (mut pause, longest) = BACK_OFF;
        loop {
            match self.reach().await {
                Ok(stream) => return stream,
                Err(why) => tracing::debug!(%why, "not connected; trying again"),
            }
            sleep(jittered(pause)).await;
            pause = (pause * 2).min(longest);
        }
    }
}

/// Says hello, and hears what the server says to that.
async fn hello(
    address: &Address,
    stream: &Stream,
    words: &[Secret],
) -> Result<Value, ConnectError> {
    let failed = |why| greeting::failed(address, why);
    let mut bytes = hello_bytes(words);
    let mut written = 0;
    while written < bytes.len() {
        stream.writable().await.map_err(failed)?;
        written += would_block(stream.try_write(&bytes[written..])).map_err(failed)?;
    }
    wipe(&mut bytes);
    let mut heard = BytesMut::new();
    loop {
        stream.readable().await.map_err(failed)?;
        if read(stream, &mut heard).map_err(failed)? == Read::End {
            return Err(failed(io::ErrorKind::UnexpectedEof.into()));
        }
        if let Some(answer) = greeting::take(address, &mut heard)? {
            return Ok(answer);
        }
    }
}

/// The command of a hello, to be wiped when it was sent.
pub(crate) fn hello_bytes(words: &[Secret]) -> BytesMut {
    let words: Vec<&[u8]> = words.iter().map(Secret::reveal).collect();
    // A buffer that grows would leave the password behind.
    let mut bytes = BytesMut::with_capacity(words.iter().map(|word| word.len() + 16).sum());
    put_command(&words, &mut bytes);
    bytes
}

impl Login {
    pub(crate) fn has_password(&self) -> bool {
        self.password.is_some() || self.password_file.is_some()
    }

    /// The user and the password, if there is one.
    pub(crate) fn words(&self) -> Result<Option<(&str, Secret)>, ConnectError> {
        let bad = |what| Err(ConnectError::BadOption { what });
        let password = match (&self.password, &self.password_file) {
            (Some(password), _) => password.clone(),
            (None, Some(path)) => match std::fs::read(path).map(Secret::new) {
                // Editors end a file with the end of a line.
                Ok(text) => Secret::copy(text.reveal().trim_ascii_end()),
                Err(why) => {
                    return bad(format!("can't read the password from {}: {why}", path.display()));
                }
            },
            (None, None) => match &self.user {
                Some(user) => {
                    return bad(format!(
                        "the password of user {user:?} is missing: write USER:PASSWORD@ in the \
                         URL, or give a file that contains it (?password-file=FILE)"
                    ));
                }
                None => return Ok(None),
            },
        };
        Ok(Some((self.user.as_deref().unwrap_or("default"), password)))
    }
}

/// Between half and the whole of it, so that many nodes do not come back at the same moment.
fn jittered(pause: Duration) -> Duration {
    let mut drawn = [0; 4];
    // Without randomness there is the whole pause.
    let share = match getrandom::fill(&mut drawn) {
        Ok(()) => u32::from_ne_bytes(drawn),
        Err(_) => u32::MAX,
    };
    pause / 2 + pause.mul_f64(f64::from(share) / f64::from(u32::MAX) / 2.0)
}

fn invalid(why: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

fn would_block(written: io::Result<usize>) -> io::Result<usize> {
    match written {
        Err(why) if why.kind() == io::ErrorKind::WouldBlock => Ok(0),
        other => other,
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Read {
    /// There may be more.
    Some,
    /// The other side has closed.
    End,
}

/// Reads what is there.
fn read(stream: &Stream, heard: &mut BytesMut) -> io::Result<Read> {
    heard.reserve(READ);
    match stream.try_read(heard) {
        Ok(0) => Ok(Read::End),
        Ok(_) => Ok(Read::Some),
        Err(why) if why.kind() == io::ErrorKind::WouldBlock => Ok(Read::Some),
        Err(why) => Err(why),
    }
}

fn outbox(node: &Node) -> Option<&Outbox> {
    match &node.way {
        Way::Stream(outbox) => Some(outbox),
        Way::Memory(_) | Way::Peer(_) => None,
    }
}

/// There is a connection.
pub(crate) fn begin(node: &Node, stream: &Arc<Stream>) {
    if let Some(outbox) = outbox(node) {
        outbox.set_stream(Some(Arc::clone(stream)));
    }
    Counts::one(&node.counts.connects);
    node.connected();
}

/// A node that is looked after. When its task ends, be it because the runtime does, so does the
/// node: threads that go on without the runtime would wait forever for what nobody hears. It is
/// made before the task: one that never had a turn ends too.
pub(crate) struct Attended(pub(crate) Arc<Node>);

impl Drop for Attended {
    fn drop(&mut self) {
        self.0.close();
        self.0.publish();
    }
}

/// Looks after a node whose service is in this process.
pub(crate) async fn attend(attended: Attended) {
    let Attended(node) = &attended;
    let Way::Memory(seat) = &node.way else { return };
    let mut rounds = Rounds::begin();
    while !node.is_ended.load(Ordering::Acquire) {
        let next = [node.tick(), seat.tick()].into_iter().flatten().min();
        // What time has brought this node, no bell tells.
        seat.flush(node);
        tokio::select! {
            () = node.bell.notified() => {}
            () = sleep(until(next)) => {}
        }
        rounds.make(node);
    }
    seat.flush(node);
}

/// Looks after a node whose server is played by a peer.
pub(crate) async fn attend_peer(attended: Attended) {
    let Attended(node) = &attended;
    let Way::Peer(peer) = &node.way else { return };
    let mut rounds = Rounds::begin();
    while !node.is_ended.load(Ordering::Acquire) {
        let next = node.tick();
        tokio::select! {
            () = node.bell.notified() => {}
            () = sleep(until(next)) => {}
        }
        rounds.make(node);
    }
    peer.close();
}

/// Looks after a node whose server is somewhere else.
pub(crate) async fn run(attended: Attended, dial: Dial, first: Arc<Stream>, lease: Duration) {
    let Attended(node) = &attended;
    let mut stream = first;
    let mut rounds = Rounds::begin();
    loop {
        let ended = converse(node, &stream, &mut rounds, lease).await;
        if let Some(outbox) = outbox(node) {
            outbox.set_stream(None);
        }
        if node.is_ended.load(Ordering::Acquire) {
            return;
        }
        if let Err(why) = ended {
            let address = &dial.address;
            tracing::debug!(%address, %why, "the connection is lost; connecting again");
        }
        let mut connecting = std::pin::pin!(dial.connect_again());
        stream = loop {
            let next = node.tick();
            tokio::select! {
                stream = &mut connecting => break stream,
                () = node.bell.notified() => {}
                () = sleep(until(next)) => {}
            }
            if node.is_ended.load(Ordering::Acquire) {
                return;
            }
            rounds.publish(node, Instant::now());
        };
        begin(node, &stream);
    }
}

/// Until then, but not too long.
fn until(next: Option<Tick>) -> Duration {
    next.map_or(LOOK, |next| next.since(clock::now()).min(LOOK))
}

/// What the task does now and then, whatever else happens.
struct Rounds {
    swept: Instant,
    published: Instant,
}

impl Rounds {
    fn begin() -> Self {
        let now = Instant::now();
        Self { swept: now, published: now }
    }

    /// Gives back what nobody uses, and tells the recorder of metrics what was counted.
    fn make(&mut self, node: &Node) {
        let idle = node.habits.idle / 4;
        let often = idle.clamp(Duration::from_millis(50), Duration::from_secs(15));
        let now = Instant::now();
        if now - self.swept >= often || node.is_crowded() {
            self.swept = now;
            node.sweep();
        }
        self.publish(node, now);
    }

    fn publish(&mut self, node: &Node, now: Instant) {
        if now - self.published >= meter::EVERY {
            self.published = now;
            node.publish();
        }
    }
}

/// Hears the server and does what is due, until the connection or the node ends.
async fn converse(
    node: &Node,
    stream: &Stream,
    rounds: &mut Rounds,
    lease: Duration,
) -> io::Result<()> {
    let Some(outbox) = outbox(node) else { return Ok(()) };
    let mut heard = BytesMut::with_capacity(READ);
    let mut events = Vec::new();
    let mut is_stuck = false;
    let mut last_heard = clock::now();
    let mut was_open = false;
    let attention = Attention::of_threads(node.runtime.metrics().num_workers());
    let mut looks = false;
    let mut alarm = std::pin::pin!(sleep(Duration::ZERO));
    loop {
        tokio::select! {
            ready = stream.readable() => {
                ready?;
                let before = heard.len();
                let end = read(stream, &mut heard)?;
                Counts::more(&node.counts.received_bytes, (heard.len() - before) as u64);
                last_heard = clock::now();
                looks |= attention.as_ref().is_some_and(|it| it.heard(last_heard));
                hear(node, &mut heard, &mut events)?;
                if end == Read::End {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            // Everybody else of this runtime has a turn, then the sockets are looked at.
            () = tokio::task::yield_now(), if looks => {
                looks = attention.as_ref().is_some_and(|it| it.goes_on(clock::now()));
                continue;
            }
            ready = stream.writable(), if is_stuck => {
                ready?;
                is_stuck = outbox.write();
            }
            () = node.bell.notified() => {
                // Those who were woken just now may have more to say.
                tokio::task::yield_now().await;
                is_stuck = outbox.write();
                if node.is_ended.load(Ordering::Acquire) {
                    return farewell(outbox, stream).await;
                }
                alarm.as_mut().reset(Instant::now() + until(node.armed()));
            }
            () = &mut alarm => {
                let next = node.tick();
                is_stuck |= outbox.write();
                alarm.as_mut().reset(Instant::now() + until(next));
                // Keep-alives are answered three times in a lease. Silence without a session does
                // not count: nothing is to be answered.
                let is_open = node.is_open();
                if !std::mem::replace(&mut was_open, is_open) || !is_open {
                    last_heard = clock::now();
                } else if last_heard + lease / 3 * 2 < clock::now() {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "no message from the server \
                                                                        for too long"));
                }
            }
        }
        rounds.make(node);
    }
}

/// What the server has said.
fn hear(node: &Node, heard: &mut BytesMut, events: &mut Vec<(SessionId, Event)>) -> io::Result<()> {
    let limits = WireLimits::default();
    while let Some(said) = take_from_server(heard, &limits).map_err(invalid)? {
        match said {
            FromServer::Event { session, event } => events.push((session, event)),
            FromServer::Value(_) => node.confirmed.notify_one(),
        }
    }
    if !events.is_empty() {
        node.hear(events);
        // A crowd that has come once leaves no memory behind.
        events.shrink_to(EVENTS_KEPT);
    }
    Ok(())
}

/// Sends what is left, and hears the server out until it closes too, for a moment: a socket that is
/// closed with bytes to be read forgets what it had yet to send.
async fn farewell(outbox: &Outbox, stream: &Stream) -> io::Result<()> {
    let late = Instant::now() + LOOK;
    while outbox.write() && Instant::now() < late {
        tokio::select! {
            ready = stream.writable() => ready?,
            () = sleep_until(late) => {}
        }
    }
    stream.end_writing();
    let mut unwanted = BytesMut::with_capacity(READ);
    while Instant::now() < late && read(stream, &mut unwanted)? == Read::Some {
        unwanted.clear();
        tokio::select! {
            ready = stream.readable() => ready?,
            () = sleep_until(late) => {}
        }
    }
    Ok(())
}

/// Ends the session, and waits until the server has heard it.
pub(crate) async fn close(node: &Node) -> Result<(), CloseUnknown> {
    if node.is_forked() {
        return Err(CloseUnknown);
    }
    BoundFuture::new(close_here(node), || Poll::Ready(Err(CloseUnknown))).await
}

async fn close_here(node: &Node) -> Result<(), CloseUnknown> {
    match &node.way {
        Way::Memory(_) => {
            node.close();
            return Ok(());
        }
        Way::Peer(peer) => {
            node.close();
            peer.close();
        }
        Way::Stream(outbox) => {
            // The end and the question whether it was heard go together: on one connection, or the
            // answer would say nothing.
            let connection = outbox.connection();
            node.close_quietly();
            ping(node, outbox, connection.ok_or(CloseUnknown)?)?;
        }
    }
    tokio::select! {
        () = node.confirmed.notified() => Ok(()),
        () = timer(node, PATIENCE) => Err(CloseUnknown),
    }
}

fn ping(node: &Node, outbox: &Outbox, on: Connection) -> Result<(), CloseUnknown> {
    // Commands are worked off in order: the answer to this one says that the end was heard.
    let mut ping = BytesMut::new();
    put_command(&[b"PING"], &mut ping);
    if !outbox.put_bytes(on, &ping) {
        return Err(CloseUnknown);
    }
    if outbox.write() {
        node.bell.notify_one();
    }
    Ok(())
}
