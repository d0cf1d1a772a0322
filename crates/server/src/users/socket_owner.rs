//! Whose process is at the other end of a connection over loopback.
//!
//! Linux has a table of all TCP sockets, `/proc/self/net/tcp` and `tcp6`, in which each has its
//! uid. It is read on a thread that may wait, once for all who ask meanwhile, and then not for a
//! time that is four times as long as that took, up to [`PAUSE`]: the table may have tens of
//! thousands of rows, and whoever connects in a loop would keep a processor busy with it. Linux may
//! leave out rows while others come and go, so those that are not found are looked for once more.
//!
//! A row has the two ends of a socket, its own first, so that the peer's row has our address as its
//! second. An IPv4 address is 8 hexadecimal digits of a word in the machine's byte order, an IPv6
//! address four such words. An inode of 0 means that the process has closed the socket; then its
//! uid says nothing.
//!
//! Whatever can't be told is `None`: on another system, if the table can't be read, or if the peer
//! has closed its socket.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// How long one waits for an answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// The longest time for which the table is not read.
const PAUSE: Duration = Duration::from_millis(250);

const V4: &str = "/proc/self/net/tcp";
const V6: &str = "/proc/self/net/tcp6";

/// The two ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ends {
    /// The address of the client.
    pub(crate) peer: SocketAddr,
    /// Our address, as the client has called it.
    pub(crate) own: SocketAddr,
}

impl Ends {
    /// Those of a connected socket.
    pub(crate) fn of(stream: &tokio::net::TcpStream) -> Option<Self> {
        Some(Self { peer: stream.peer_addr().ok()?, own: stream.local_addr().ok()? })
    }

    fn canonical(self) -> [(IpAddr, u16); 2] {
        [self.peer, self.own].map(|end| (end.ip().to_canonical(), end.port()))
    }
}

/// Those who ask.
#[derive(Debug, Default)]
pub(super) struct SocketOwners(Mutex<Asked>);

type Question = (Ends, oneshot::Sender<Option<u32>>);

#[derive(Debug, Default)]
struct Asked {
    waiting: Vec<Question>,
    /// Somebody reads the table, again and again until nobody waits.
    is_read: bool,
}

impl SocketOwners {
    /// The uid of the process at the other end.
    pub(super) async fn uid(self: &Arc<Self>, runtime: &Handle, ends: Ends) -> Option<u32> {
        let (send, answer) = oneshot::channel();
        if self.ask(ends, send) {
            let (owners, blocking) = (Arc::clone(self), runtime.clone());
            runtime.spawn(async move { owners.answer_all(&blocking).await });
        }
        tokio::time::timeout(PATIENCE, answer).await.ok()?.ok()?
    }

    /// Whether nobody reads the table yet.
    fn ask(&self, ends: Ends, answer: oneshot::Sender<Option<u32>>) -> bool {
        let mut asked = crate::lock(&self.0);
        asked.waiting.push((ends, answer));
        !std::mem::replace(&mut asked.is_read, true)
    }

    /// All who wait; if there is nobody, the next who asks begins anew.
    fn next(&self) -> Option<Vec<Question>> {
        let mut asked = crate::lock(&self.0);
        // Those who have given up meanwhile are not looked for.
        asked.waiting.retain(|(_, answer)| !answer.is_closed());
        asked.is_read = !asked.waiting.is_empty();
        asked.is_read.then(|| std::mem::take(&mut asked.waiting))
    }

    async fn answer_all(&self, runtime: &Handle) {
        loop {
            let Some(all) = self.next() else { return };
            let began = Instant::now();
            let reading = runtime.spawn_blocking(move || {
                let ends: Vec<_> = all.iter().map(|(ends, _)| *ends).collect();
                for (uid, (_, answer)) in uids(&ends).into_iter().zip(all) {
                    // Who has gone needs no answer.
                    let _ = answer.send(uid);
                }
            });
            // If it has died, all hear that nothing is known.
            let _ = reading.await;
            tokio::time::sleep((4 * began.elapsed()).min(PAUSE)).await;
        }
    }
}

/// The uid of each, as far as it can be told.
fn uids(all: &[Ends]) -> Vec<Option<u32>> {
    let mut found: HashMap<_, _> = all.iter().map(|ends| (ends.canonical(), None)).collect();
    for path in [V4, V6, V4, V6] {
        if found.values().all(Option::is_some) {
            break;
        }
        let rows = File::open(path).and_then(|file| {
            each_row(BufReader::with_capacity(64 << 10, file), |ends, uid| {
                if let Some(one) = found.get_mut(&ends) {
                    *one = Some(uid);
                }
            })
        });
        if let Err(why) = rows {
            tracing::debug!("can't read {path}: {why}");
        }
    }
    all.iter().map(|ends| found[&ends.canonical()]).collect()
}

/// Calls `see` with the ends and the uid of each socket that a process has.
fn each_row(
    mut table: impl BufRead,
    mut see: impl FnMut([(IpAddr, u16); 2], u32),
) -> io::Result<()> {
    let mut line = String::new();
    while table.read_line(&mut line)? > 0 {
        if let Some((ends, uid)) = row(&line) {
            see(ends, uid);
        }
        line.clear();
    }
    Ok(())
}

/// `sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode ...`.
fn row(line: &str) -> Option<([(IpAddr, u16); 2], u32)> {
    let mut words = line.split_ascii_whitespace().skip(1);
    let ends = [end(words.next()?)?, end(words.next()?)?];
    let uid = words.nth(4)?.parse().ok()?;
    let inode: u64 = words.nth(1)?.parse().ok()?;
    (inode != 0).then_some((ends, uid))
}

fn end(text: &str) -> Option<(IpAddr, u16)> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| {
        let digits = address.get(at * 8..at * 8 + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    let address = match address.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?];
            let mut octets = [0; 16];
            octets.iter_mut().zip(words.as_flattened()).for_each(|(to, from)| *to = *from);
            IpAddr::V6(Ipv6Addr::from(octets)).to_canonical()
        }
        _ => return None,
    };
    Some((address, port))
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpSocket, TcpStream};

    use super::*;

    async fn connected(listen: &str, call: &str) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(listen).await.expect("a free port");
        let at = SocketAddr::new(
            call.parse().expect("an address"),
            listener.local_addr().expect("bound").port(),
        );
        let (ours, theirs) = tokio::join!(listener.accept(), TcpStream::connect(at));
        (ours.expect("accepted").0, theirs.expect("connected"))
    }

    #[tokio::test]
    async fn service_f91_the_uid_of_a_peer_over_loopback_is_told() {
        let owners = Arc::new(SocketOwners::default());
        let us = rustix::process::getuid().as_raw();
        let mut calls = vec![("127.0.0.1:0", "127.0.0.1"), ("127.0.0.1:0", "::ffff:127.0.0.1")];
        // A machine without IPv6 has no such addresses to look for.
        if TcpListener::bind("[::1]:0").await.is_ok() {
            calls.extend([("[::1]:0", "::1"), ("[::]:0", "127.0.0.1"), ("[::]:0", "::1")]);
        }
        for (listen, call) in calls {
            let (ours, theirs) = connected(listen, call).await;
            let ends = Ends::of(&ours).expect("connected");
            let uid = owners.uid(&Handle::current(), ends).await;
            assert_eq!(uid, Some(us), "{listen} called by {call}: {ends:?}");
            drop(theirs);
            tokio::time::timeout(Duration::from_secs(5), ours.readable())
                .await
                .expect("it hears of the end")
                .expect("no error");
            let uid = owners.uid(&Handle::current(), ends).await;
            assert_eq!(uid, None, "a closed socket is nobody's");
        }
    }

    #[tokio::test]
    async fn service_f91_any_address_of_loopback_is_found_and_many_ask_at_once() {
        let owners = Arc::new(SocketOwners::default());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let at = listener.local_addr().expect("bound");
        let mut asked = Vec::new();
        let mut kept = Vec::new();
        for last in 1..=40 {
            let socket = TcpSocket::new_v4().expect("a socket");
            socket.bind(SocketAddr::from(([127, 9, 8, last], 0))).expect("an address of loopback");
            let (ours, theirs) = tokio::join!(listener.accept(), socket.connect(at));
            let ours = ours.expect("accepted").0;
            let ends = Ends::of(&ours).expect("connected");
            kept.push((ours, theirs.expect("connected")));
            let owners = Arc::clone(&owners);
            asked.push(tokio::spawn(async move { owners.uid(&Handle::current(), ends).await }));
        }
        let us = rustix::process::getuid().as_raw();
        for one in asked {
            assert_eq!(one.await.expect("it ends"), Some(us));
        }
    }

    #[test]
    fn rows_are_read_as_linux_writes_them() {
        // Of a machine with its lowest byte first.
        let word = |bytes: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(bytes));
        let v4 = word([127, 0, 0, 1]);
        let mapped = format!("{0}{0}{1}{2}", word([0; 4]), word([0, 0, 255, 255]), v4);
        let rest = "00000000:00000000 00:00000000 00000000";
        let good = format!("  12: {v4}:1F90 {mapped}:ABCD 01 {rest}  1000        0 34567 1 x");
        let local = IpAddr::from([127, 0, 0, 1]);
        assert_eq!(row(&good), Some(([(local, 0x1f90), (local, 0xabcd)], 1000)));
        let closed = format!("  12: {v4}:1F90 {v4}:ABCD 06 {rest}  0        0 0 1 x");
        assert_eq!(row(&closed), None);
        for bad in ["", "  sl  local_address rem_address   st", "1: :1 :2", "1: 0100007é:1 x:2"] {
            assert_eq!(row(bad), None, "{bad}");
        }
    }
}
