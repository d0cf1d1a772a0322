//! A proxy on the loopback address that stands for a bad network.
//!
//! It understands frames, so that it loses, doubles and delays whole messages of the protocol: what
//! is left is still a stream that both sides can read. A frame that is delayed is overtaken by
//! those behind it. Only messages between a node and its server are touched; `HELLO` and the
//! replies to commands always pass, or else nobody would ever be connected.
//!
//! | what | by |
//! |---|---|
//! | chance, from a seed | [`Proxy::set_weather`] |
//! | a choice for each message | [`Proxy::set_rule`] |
//! | connections that end in the middle of a frame | [`Fate::Cut`], [`Proxy::cut`] |
//! | nothing gets through, and nobody is told | [`Proxy::partition`], [`Proxy::heal`] |

use std::collections::BTreeSet;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use fastrand::Rng;
use lockspan_protocol::{Seq, SessionId, ToServer};
use lockspan_wire::{Command, Event, FromServer, WireLimits, take_command, take_from_server};
use tokio::io::AsyncReadExt as _;
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::post::{Parcel, deliver};

/// What happens to messages by chance, in each direction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Weather {
    /// How many are lost: 0 is none, 1 is all.
    pub loss: f64,
    /// How many come twice.
    pub double: f64,
    /// How many are late.
    pub delay: f64,
    /// How late at most.
    pub latest: Duration,
}

/// What happens to one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It goes on as it is.
    Pass,
    /// It never arrives.
    Lose,
    /// It arrives twice.
    Double,
    /// Others overtake it.
    Delay(Duration),
    /// Half of it arrives, and the connection ends.
    Cut,
}

/// A message on its way.
#[derive(Clone, Copy, Debug)]
pub enum Message<'a> {
    /// From a node to the server.
    Up(SessionId, &'a ToServer),
    /// From the server to a node.
    Down(SessionId, &'a Event),
}

/// What was done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages that came here.
    pub messages: u64,
    /// Those that did not go on.
    pub lost: u64,
    /// Those that were sent twice.
    pub doubled: u64,
    /// Those that were overtaken, perhaps.
    pub delayed: u64,
    /// Connections that were ended in the middle of a frame.
    pub cuts: u64,
}

type Rule = Box<dyn FnMut(Message<'_>) -> Fate + Send>;

/// A running proxy; it ends, with its connections, when this is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    net: Arc<Net>,
    door: JoinHandle<()>,
}

struct Net {
    to: SocketAddr,
    seed: u64,
    state: Mutex<State>,
    is_cut_off: AtomicBool,
    /// Raised to end each connection at its next frame.
    cuts: AtomicU64,
    /// Raised when a partition is over, and at the end.
    heals: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    weather: Weather,
    rule: Option<Rule>,
    counts: Counts,
    acquires: BTreeSet<(SessionId, Seq)>,
}

impl std::fmt::Debug for Net {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Net")
            .field("to", &self.to)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

/// The tasks of a connection, which end with the proxy.
struct Ends(Vec<JoinHandle<()>>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

impl Proxy {
    /// Opens a free port, from which everything goes to the server there.
    pub async fn start(to: SocketAddr, seed: u64) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let net = Arc::new(Net {
            to,
            seed,
            state: Mutex::default(),
            is_cut_off: AtomicBool::new(false),
            cuts: AtomicU64::new(0),
            heals: watch::Sender::new(0),
        });
        let door = tokio::spawn(accept(listener, Arc::clone(&net)));
        Ok(Self { address, net, door })
    }

    /// Where to connect.
    #[must_use]
    pub fn url(&self) -> String {
        format!("lockspan://{}", self.address)
    }

    /// What chance does from now on.
    pub fn set_weather(&self, weather: Weather) {
        self.net.state().weather = weather;
    }

    /// Decides about each message from now on, before chance does; where it says
    /// [`Fate::Pass`], chance decides.
    pub fn set_rule(&self, rule: impl FnMut(Message<'_>) -> Fate + Send + 'static) {
        self.net.state().rule = Some(Box::new(rule));
    }

    /// Ends every present connection in the middle of its next message.
    pub fn cut(&self) {
        self.net.cuts.fetch_add(1, Ordering::SeqCst);
    }

    /// Swallows everything from now on, in both directions. Connections seem to stand.
    pub fn partition(&self) {
        self.net.is_cut_off.store(true, Ordering::SeqCst);
    }

    /// Lets everything through again. A connection that was begun meanwhile ends: its first words
    /// are lost.
    pub fn heal(&self) {
        self.net.is_cut_off.store(false, Ordering::SeqCst);
        self.net.heals.send_modify(|heals| *heals += 1);
    }

    /// What was done so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.net.state().counts
    }

    /// The acquires that nodes have sent, each once however often it was sent.
    #[must_use]
    pub fn acquires(&self) -> BTreeSet<(SessionId, Seq)> {
        self.net.state().acquires.clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.door.abort();
    }
}

async fn accept(listener: TcpListener, net: Arc<Net>) {
    // In order, so that a seed means the same in each run as far as it can.
    let mut number = 0;
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let Ok((node, _)) = listener.accept().await else { return };
        number += 1;
        connections.spawn(connection(node, Arc::clone(&net), number));
        while connections.try_join_next().is_some() {}
    }
}

/// Carries the frames of one connection until either side ends it.
async fn connection(node: TcpStream, net: Arc<Net>, number: u64) {
    let mut heals = net.heals.subscribe();
    heals.mark_unchanged();
    if net.is_cut_off.load(Ordering::SeqCst) {
        // Who calls now is not answered, and called here in vain.
        let _ = heals.changed().await;
        return;
    }
    let Ok(server) = TcpStream::connect(net.to).await else { return };
    for stream in [&node, &server] {
        // One that is gone already says so when it is read.
        let _ = stream.set_nodelay(true);
    }
    let ((from_node, to_node), (from_server, to_server)) = (node.into_split(), server.into_split());
    let (up, up_parcels) = mpsc::unbounded_channel();
    let (down, down_parcels) = mpsc::unbounded_channel();
    let is_cut = Arc::new(AtomicU64::new(net.cuts.load(Ordering::SeqCst)));
    let way = |is_up: bool| Way {
        net: Arc::clone(&net),
        is_up,
        rng: Rng::with_seed(net.seed ^ number << 1 ^ u64::from(is_up) << 63),
        cuts_seen: Arc::clone(&is_cut),
    };
    let mut ends = Ends(vec![
        tokio::spawn(way(true).carry(from_node, up)),
        tokio::spawn(way(false).carry(from_server, down)),
        tokio::spawn(deliver(to_server, up_parcels)),
        tokio::spawn(deliver(to_node, down_parcels)),
    ]);
    // When one way has ended, so has the connection: what was read before it is written still.
    let [_, _, up, down] = &mut ends.0[..] else { return };
    tokio::select! {
        _ = up => {}
        _ = down => {}
    }
}

/// One direction of a connection.
struct Way {
    net: Arc<Net>,
    is_up: bool,
    rng: Rng,
    cuts_seen: Arc<AtomicU64>,
}

impl Way {
    async fn carry(mut self, mut from: OwnedReadHalf, to: mpsc::UnboundedSender<Parcel>) {
        let mut buf = BytesMut::new();
        while matches!(from.read_buf(&mut buf).await, Ok(1..)) {
            if self.net.is_cut_off.load(Ordering::SeqCst) {
                // A frame that was half here is not whole later: the rest of it goes too.
                if !self.swallow(&mut buf) {
                    return;
                }
                continue;
            }
            let all = Bytes::copy_from_slice(&buf);
            loop {
                let start = all.len() - buf.len();
                let Some(fate) = self.next(&mut buf) else { return };
                let frame = all.slice(start..all.len() - buf.len());
                let Some(fate) = fate else { break };
                let now = Instant::now();
                let parcel = |due| Parcel { due, bytes: frame.clone(), is_last: false };
                let parcels = match fate {
                    Fate::Pass => vec![parcel(now)],
                    Fate::Lose => vec![],
                    Fate::Double => vec![parcel(now), parcel(now)],
                    Fate::Delay(late) => vec![parcel(now + late)],
                    Fate::Cut => {
                        let bytes = frame.slice(..frame.len() / 2);
                        vec![Parcel { due: now, bytes, is_last: true }]
                    }
                };
                if parcels.into_iter().any(|parcel| to.send(parcel).is_err()) {
                    return;
                }
            }
        }
    }

    /// Takes whole frames away and forgets them; false if they can't be read.
    fn swallow(&mut self, buf: &mut BytesMut) -> bool {
        loop {
            match self.take(buf) {
                Ok(Some(_)) => self.net.state().counts.lost += 1,
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }

    /// Takes the next frame away, and says what happens to it: nothing inside if it is not whole
    /// yet, nothing at all if it can't be read.
    fn next(&mut self, buf: &mut BytesMut) -> Option<Option<Fate>> {
        let frame = match self.take(buf) {
            Ok(Some(frame)) => frame,
            Ok(None) => return Some(None),
            Err(_) => return None,
        };
        let message = match &frame {
            Frame::Command(Command::Tell { session, message }) => Message::Up(*session, message),
            Frame::FromServer(FromServer::Event { session, event }) => {
                Message::Down(*session, event)
            }
            _ => return Some(Some(Fate::Pass)),
        };
        let cuts = self.net.cuts.load(Ordering::SeqCst);
        let is_cut = self.cuts_seen.swap(cuts, Ordering::SeqCst) < cuts;
        Some(Some(self.net.state().judge(message, is_cut, &mut self.rng)))
    }

    fn take(&self, buf: &mut BytesMut) -> Result<Option<Frame>, lockspan_wire::WireError> {
        let limits = WireLimits::default();
        if self.is_up {
            let taken = take_command(buf, &limits)?;
            Ok(taken.map(|command| command.map_or(Frame::Unclear, Frame::Command)))
        } else {
            Ok(take_from_server(buf, &limits)?.map(Frame::FromServer))
        }
    }
}

enum Frame {
    Command(Command),
    FromServer(FromServer),
    /// The server will say what is wrong with it.
    Unclear,
}

impl Net {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn judge(&mut self, message: Message<'_>, is_cut: bool, rng: &mut Rng) -> Fate {
        self.counts.messages += 1;
        if let Message::Up(session, ToServer::Acquire { seq, .. }) = message {
            self.acquires.insert((session, *seq));
        }
        let fate = match &mut self.rule {
            _ if is_cut => Fate::Cut,
            Some(rule) => rule(message),
            None => Fate::Pass,
        };
        let fate = if fate == Fate::Pass { self.weather.draw(rng) } else { fate };
        match fate {
            Fate::Pass => {}
            Fate::Lose => self.counts.lost += 1,
            Fate::Double => self.counts.doubled += 1,
            Fate::Delay(_) => self.counts.delayed += 1,
            Fate::Cut => self.counts.cuts += 1,
        }
        fate
    }
}

impl Weather {
    fn draw(&self, rng: &mut Rng) -> Fate {
        let drawn = rng.f64();
        if drawn < self.loss {
            Fate::Lose
        } else if drawn < self.loss + self.double {
            Fate::Double
        } else if drawn < self.loss + self.double + self.delay {
            Fate::Delay(self.latest.mul_f64(rng.f64()))
        } else {
            Fate::Pass
        }
    }
}
