//! Whose process is at the other end of a connection over loopback.
//!
//! Linux tells that of a single socket, by its two ends: one message to the kernel over a netlink
//! socket (`NETLINK_SOCK_DIAG`, see sock_diag(7)), and its answer, which is there when the message
//! was sent. Both take some microseconds, however many sockets there are.
//!
//! | message | bytes |
//! |---|---|
//! | header of both | length 4, type 2, flags 2, number 4, port 4 |
//! | question | family 1, protocol 1, 2 unused, states 4, ends 48 |
//! | ends | port 2, port 2, address 16, address 16, interface 4, cookie 8 |
//! | answer | family 1, state 1, 2 unused, ends 48, 12 unused, **uid** 4, **inode** 4, ... |
//!
//! The first of the ends is the socket's own: that of the client. Ports and addresses are in the
//! order of the network, other numbers in the machine's. An inode of 0 means that the process has
//! closed the socket; then its uid says nothing.
//!
//! What can't be told is `None`: on another system, where the kernel does not answer such
//! questions, or if the peer has closed its socket.

use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;

use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

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
}

/// The kernel, which knows whose each socket is.
#[derive(Debug, Default)]
pub(super) struct SocketOwners(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    #[default]
    NotAsked,
    Open {
        kernel: OwnedFd,
        number: u32,
    },
    /// It does not answer such questions.
    Closed,
}

/// `SOCK_DIAG_BY_FAMILY`.
const BY_FAMILY: u16 = 20;

/// `NLM_F_REQUEST`.
const REQUEST: u16 = 1;

const TCP: u8 = 6;
const HEADER: usize = 16;
const UID: usize = HEADER + 64;
const INODE: usize = HEADER + 68;

impl SocketOwners {
    /// The uid of the process at the other end.
    pub(super) fn uid(&self, ends: Ends) -> Option<u32> {
        let mut state = crate::lock(&self.0);
        if let State::NotAsked = *state {
            *state = open().unwrap_or_else(|why| {
                tracing::info!("can't find out which users local connections belong to: {why}");
                State::Closed
            });
        }
        let State::Open { kernel, number } = &mut *state else { return None };
        *number = number.wrapping_add(1);
        rustix::net::send(&*kernel, &question(ends, *number), SendFlags::DONTWAIT).ok()?;
        let mut buf = [0; 512];
        // An answer that was not waited for may precede it.
        for _ in 0..4 {
            let received = rustix::net::recv(&*kernel, &mut buf[..], RecvFlags::DONTWAIT);
            let (_, length) = received.ok()?;
            if let Some(uid) = answer(buf.get(..length)?, *number) {
                return uid;
            }
        }
        None
    }
}

fn open() -> rustix::io::Result<State> {
    let protocol = Some(netlink::SOCK_DIAG);
    let (family, kind, flags) = (AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC);
    let kernel = rustix::net::socket_with(family, kind, flags, protocol)?;
    Ok(State::Open { kernel, number: 0 })
}

/// Asks whose the socket is that the client has.
fn question(ends: Ends, number: u32) -> Vec<u8> {
    let mut body = Vec::with_capacity(72);
    let (from, to) = (ends.peer.ip().to_canonical(), ends.own.ip().to_canonical());
    let family = if from.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    body.extend([family.as_raw() as u8, TCP, 0, 0]);
    body.extend(u32::MAX.to_ne_bytes());
    body.extend(ends.peer.port().to_be_bytes());
    body.extend(ends.own.port().to_be_bytes());
    for address in [from, to] {
        let mut octets = [0; 16];
        match address {
            IpAddr::V4(address) => octets[..4].copy_from_slice(&address.octets()),
            IpAddr::V6(address) => octets = address.octets(),
        }
        body.extend(octets);
    }
    // Any interface, and any cookie.
    body.extend(0_u32.to_ne_bytes());
    body.extend([0xff; 8]);
    let mut message = Vec::with_capacity(HEADER + body.len());
    message.extend(((HEADER + body.len()) as u32).to_ne_bytes());
    message.extend(BY_FAMILY.to_ne_bytes());
    message.extend(REQUEST.to_ne_bytes());
    message.extend(number.to_ne_bytes());
    message.extend(0_u32.to_ne_bytes());
    message.extend(body);
    message
}

/// What the answer to this question says; `None` if it is another's.
fn answer(bytes: &[u8], number: u32) -> Option<Option<u32>> {
    let word = |at: usize| {
        let bytes = bytes.get(at..at + 4)?;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?))
    };
    if word(8)? != number {
        return None;
    }
    let is_found = bytes.get(4..6) == Some(&BY_FAMILY.to_ne_bytes());
    let inode = word(INODE).filter(|&inode| is_found && inode != 0);
    Some(inode.and_then(|_| word(UID)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
        let owners = SocketOwners::default();
        let us = rustix::process::getuid().as_raw();
        let mut calls = vec![("127.0.0.1:0", "127.0.0.1"), ("127.0.0.1:0", "::ffff:127.0.0.1")];
        // A machine without IPv6 has no such addresses to look for.
        if TcpListener::bind("[::1]:0").await.is_ok() {
            calls.extend([("[::1]:0", "::1"), ("[::]:0", "127.0.0.1"), ("[::]:0", "::1")]);
        }
        for (listen, call) in calls {
            let (ours, theirs) = connected(listen, call).await;
            let ends = Ends::of(&ours).expect("connected");
            let uid = owners.uid(ends);
            assert_eq!(uid, Some(us), "{listen} called by {call}: {ends:?}");
            drop(theirs);
            tokio::time::timeout(Duration::from_secs(5), ours.readable())
                .await
                .expect("it hears of the end")
                .expect("no error");
            let uid = owners.uid(ends);
            assert_eq!(uid, None, "a closed socket is nobody's");
        }
    }

    #[tokio::test]
    async fn service_f91_any_address_of_loopback_is_found() {
        let owners = SocketOwners::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let at = listener.local_addr().expect("bound");
        let us = rustix::process::getuid().as_raw();
        for last in 1..=40 {
            let socket = TcpSocket::new_v4().expect("a socket");
            socket.bind(SocketAddr::from(([127, 9, 8, last], 0))).expect("an address of loopback");
            let (ours, theirs) = tokio::join!(listener.accept(), socket.connect(at));
            let ends = Ends::of(&ours.expect("accepted").0).expect("connected");
            assert_eq!(owners.uid(ends), Some(us));
            drop(theirs.expect("connected"));
        }
    }

    #[test]
    fn only_an_answer_to_the_question_with_a_process_counts() {
        let message = |kind: u16, number: u32, uid: u32, inode: u32| {
            let mut bytes = vec![0; 124];
            bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
            bytes[8..12].copy_from_slice(&number.to_ne_bytes());
            bytes[UID..UID + 4].copy_from_slice(&uid.to_ne_bytes());
            bytes[INODE..INODE + 4].copy_from_slice(&inode.to_ne_bytes());
            bytes
        };
        assert_eq!(answer(&message(BY_FAMILY, 7, 1000, 5), 7), Some(Some(1000)));
        assert_eq!(answer(&message(BY_FAMILY, 7, 0, 0), 7), Some(None), "closed");
        assert_eq!(answer(&message(2, 7, 1000, 5), 7), Some(None), "an error");
        assert_eq!(answer(&message(BY_FAMILY, 6, 1000, 5), 7), None, "an earlier one");
        for length in 0..124 {
            let short = &message(BY_FAMILY, 7, 1000, 5)[..length];
            let whole = (length >= INODE + 4).then_some(1000);
            assert_eq!(answer(short, 7).flatten(), whole, "{length} bytes");
        }
    }
}
