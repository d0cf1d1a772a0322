//! The claim to be the service of a user, which lives and dies with the process that has it.
//!
//! It is a name in the abstract namespace of Unix sockets: it is not a file, so nobody can delete
//! it while its owner runs. The lock beside the socket file is what usually keeps a second service
//! away; this is for the case that somebody has deleted the folder, or that a process sees another
//! directory in its place.
//!
//! Anybody can take such a name. One that another user has is passed over for the next of a few, so
//! nobody can keep us from starting; if all are taken by others, we start without a claim.
//! Whether it is one of ours is told by the kernel, not by the name. Processes in another network
//! namespace see other names. Whoever has a name may never accept from it: that is passed over too,
//! after a moment. Our own service accepts at once, from a thread of its own.

use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::Duration;

use rustix::net::SocketAddrUnix;

use super::Process;
use super::place::{hash, test_passwd};
use crate::trust::own_user;
use crate::unix::connect_within;

/// How many names there are for one user.
const NAMES: usize = 8;

/// How long the holder of a name may take to accept, where many ask at once.
const MOMENT: Duration = Duration::from_millis(200);

/// Held by the service of this user as long as it runs.
#[derive(Debug)]
pub struct Claim {
    name: Option<UnixListener>,
}

/// Another process of this user has the claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Which.
    pub process: Process,
}

impl Claim {
    /// Takes it.
    pub fn take() -> Result<Self, Taken> {
        let mut mine = None;
        for number in 0..NAMES {
            match address(number).and_then(|name| UnixListener::bind_addr(&name)) {
                Ok(listener) => {
                    mine = Some((number, listener));
                    break;
                }
                // Its owner may have ended since, or is somebody else: on to the next.
                Err(_) => {
                    if let Some(process) = holder(number) {
                        return Err(Taken { process });
                    }
                }
            }
        }
        // One that came when an earlier name was taken by another user has a later one.
        let after = mine.as_ref().map_or(NAMES, |(number, _)| number + 1);
        if let Some(process) = (after..NAMES).find_map(holder) {
            return Err(Taken { process });
        }
        Ok(Self { name: mine.map(|(_, listener)| listener) })
    }

    /// The process that has it.
    pub(crate) fn holder() -> Option<Process> {
        (0..NAMES).find_map(holder)
    }

    /// Lets those go who have looked whether somebody is here, forever. To be called in a thread
    /// or a task of its own.
    pub fn keep(&self) -> io::Result<()> {
        let Some(name) = &self.name else { return Ok(()) };
        loop {
            // Who is accepted is let go at once: the system has told it who we are.
            name.accept()?;
        }
    }
}

/// The process of this user that has this name.
fn holder(number: usize) -> Option<Process> {
    let name = SocketAddrUnix::new_abstract_name(name(number).as_bytes()).ok()?;
    let stream = connect_within(&name, MOMENT).ok()?;
    let peer = super::peer(&stream).ok()?;
    (peer.uid() == own_user()).then(|| Process::of(&peer))
}

fn address(number: usize) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(name(number))
}

fn name(number: usize) -> String {
    let user = own_user();
    // Tests are side by side on one machine.
    let test = test_passwd().map_or_else(String::new, |path| {
        format!("-test-{:x}", hash(path.as_os_str().as_encoded_bytes()))
    });
    format!("lockspan-local-{user}-{number}{test}")
}
