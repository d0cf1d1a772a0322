//! A proxy between a node and Redis: it keeps back what is said, or has something else said.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

/// One connection of a node, and what is done to it.
#[derive(Default)]
struct Line {
    /// What the node says is kept back.
    is_mute: bool,
    /// What the node would hear is kept back.
    is_deaf: bool,
    /// So many pieces of what was kept back go on nevertheless.
    pieces: usize,
    /// Something is kept back of what the node has said.
    keeps: bool,
    /// How many scripts the node has called.
    calls: usize,
    /// All that the node has ever said has gone on.
    is_over: bool,
}

#[derive(Default)]
struct Lines {
    all: BTreeMap<usize, Line>,
    /// What is said instead of what.
    instead: Option<(Vec<u8>, Vec<u8>)>,
}

/// A way to a Redis. Its connections have numbers, from 0 on.
#[derive(Clone)]
pub(crate) struct Proxy {
    port: u16,
    lines: Arc<Mutex<Lines>>,
}

impl Proxy {
    pub(crate) async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own = listener.local_addr().unwrap().port();
        let proxy = Self { port: own, lines: Arc::default() };
        let made = proxy.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else { return };
                let number = proxy.connections();
                proxy.lock().all.insert(number, Line::default());
                client.set_nodelay(true).unwrap();
                server.set_nodelay(true).unwrap();
                let ((said, hears), (answers, asked)) = (client.into_split(), server.into_split());
                tokio::spawn(proxy.clone().forward(number, said, asked, true));
                tokio::spawn(proxy.clone().forward(number, answers, hears, false));
            }
        });
        made
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap()
    }

    fn with<T>(&self, number: usize, what: impl FnOnce(&mut Line) -> T) -> T {
        what(self.lock().all.get_mut(&number).expect("there is such a connection"))
    }

    /// How many there were.
    pub(crate) fn connections(&self) -> usize {
        self.lock().all.len()
    }

    /// Nothing goes either way.
    pub(crate) fn hold(&self, number: usize) {
        self.with(number, |line| (line.is_mute, line.is_deaf) = (true, true));
    }

    /// Answers are kept back.
    pub(crate) fn hold_answers(&self, number: usize) {
        self.with(number, |line| line.is_deaf = true);
    }

    /// All goes on.
    pub(crate) fn let_go(&self, number: usize) {
        self.with(number, |line| (line.is_mute, line.is_deaf) = (false, false));
    }

    /// Whether something is kept back that the node has said.
    pub(crate) fn keeps(&self, number: usize) -> bool {
        self.with(number, |line| line.keeps)
    }

    /// One piece of what was kept back goes on.
    pub(crate) fn let_one_through(&self, number: usize) {
        self.with(number, |line| line.pieces = 1);
    }

    /// Whether it has.
    pub(crate) fn is_one_through(&self, number: usize) -> bool {
        self.with(number, |line| line.pieces == 0)
    }

    /// Whether Redis has all that was ever said there.
    pub(crate) fn is_over(&self, number: usize) -> bool {
        self.with(number, |line| line.is_over)
    }

    /// How many scripts were called.
    pub(crate) fn calls(&self, number: usize) -> usize {
        self.with(number, |line| line.calls)
    }

    /// Whoever says the first says the second, which has as many bytes.
    pub(crate) fn say_instead(&self, first: &str, second: &str) {
        assert_eq!(first.len(), second.len());
        self.lock().instead = Some((first.into(), second.into()));
    }

    pub(crate) fn say_as_it_is(&self) {
        self.lock().instead = None;
    }

    async fn forward(
        self,
        number: usize,
        mut from: OwnedReadHalf,
        mut to: OwnedWriteHalf,
        is_said: bool,
    ) {
        let mut room = vec![0; 1 << 16];
        loop {
            let length = from.read(&mut room).await.unwrap_or(0);
            let mut piece = room[..length].to_vec();
            if is_said {
                let calls = piece.windows(7).filter(|part| part == b"EVALSHA").count();
                self.with(number, |line| (line.calls, line.keeps) = (line.calls + calls, true));
                if let Some((first, second)) = &self.lock().instead {
                    while let Some(at) = piece.windows(first.len()).position(|part| part == first) {
                        piece[at..at + first.len()].copy_from_slice(second);
                    }
                }
            }
            while self.is_held(number, is_said) {
                sleep(Duration::from_millis(2)).await;
            }
            // The answers may have nobody any more who hears them; what was said goes on.
            let is_gone = to.write_all(&piece).await.is_err() && is_said;
            if is_said {
                self.with(number, |line| (line.keeps, line.is_over) = (false, length == 0));
            }
            if length == 0 || is_gone {
                return;
            }
        }
    }

    fn is_held(&self, number: usize, is_said: bool) -> bool {
        self.with(number, |line| {
            if is_said && line.is_mute && line.pieces > 0 {
                line.pieces -= 1;
                return false;
            }
            if is_said { line.is_mute } else { line.is_deaf }
        })
    }
}
