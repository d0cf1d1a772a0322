//! Connecting to a Unix socket without waiting in the kernel.
//!
//! An ordinary `connect` waits while the line of those who were not accepted yet is full, for as
//! long as whoever listens likes: another user could stop us so with a socket that is never
//! accepted from. This one tries again for a bounded time.

use std::io;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(2);

/// Connects; fails with [`io::ErrorKind::WouldBlock`] if there is no room in the line for
/// `patience`. Reads and writes of the stream wait, as usual.
pub(crate) fn connect_within(to: &SocketAddrUnix, patience: Duration) -> io::Result<UnixStream> {
    let late = Instant::now() + patience;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    loop {
        match connect(&socket, to) {
            Ok(()) => break,
            Err(Errno::AGAIN) if Instant::now() < late => thread::sleep(PAUSE),
            Err(Errno::INTR) => {}
            Err(why) => return Err(why.into()),
        }
    }
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_line_is_not_waited_for() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("full.sock");
        let address = SocketAddrUnix::new(&path).expect("a short path");
        let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None);
        let socket = socket.expect("a socket");
        rustix::net::bind(&socket, &address).expect("it is free");
        rustix::net::listen(&socket, 0).expect("it listens");
        let mut kept = Vec::new();
        let why = loop {
            match connect_within(&address, Duration::ZERO) {
                Ok(stream) => kept.push(stream),
                Err(why) => break why,
            }
            assert!(kept.len() < 10, "the line is never full");
        };
        assert_eq!(why.kind(), io::ErrorKind::WouldBlock);
        let missing = SocketAddrUnix::new(dir.path().join("none")).expect("a short path");
        let why = connect_within(&missing, Duration::ZERO).expect_err("nobody is there");
        assert_eq!(why.kind(), io::ErrorKind::NotFound);
    }
}
