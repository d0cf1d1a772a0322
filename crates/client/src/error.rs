//! What can go wrong, in words for the person who has to do something about it.

use std::fmt;
use std::io;

use lockspan_protocol::cache::WantRefusal;
use lockspan_protocol::{AcquireRefusal, Owner, SessionRefusal};

pub use lockspan_tls::TlsTrouble;

use crate::url::shown_url;

/// What a child is told that uses its parent's connection.
const FORKED: &str =
    "this connection belongs to the parent process; call connect again in the child";

/// Why a record was not acquired, or is not held any more.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockError {
    /// It was not granted in the time allowed.
    Timeout,
    /// Granting it could never happen: these owners wait for each other in a circle.
    Deadlock {
        /// Each waits for the next, the last for the first.
        cycle: Vec<Owner>,
    },
    /// Somebody else already waits to upgrade the same record. The read is kept: release it, then
    /// acquire for writing.
    UpgradeConflict,
    /// The lease ended while the record was held: what was held is lost.
    Lost,
    /// The server refused the acquire.
    Refused(Box<AcquireRefusal>),
    /// The server refused the session.
    NoSession(Box<SessionRefusal>),
    /// What keeps the locks is not a lock server of ours, and is in trouble.
    Trouble(Box<Trouble>),
    /// This node has as many records as it may.
    TooManyRecords(Box<WantRefusal>),
    /// The connection was closed by [`Locks::close`](crate::Locks::close).
    Closed,
    /// This process is a child, by `fork`, of the one that connected: the connection and all that
    /// is held by it are the parent's. [Connect](crate::connect#after-a-fork) again in the child.
    Forked,
}

impl LockError {
    /// Whether trying again may succeed although neither the program nor its configuration changes.
    ///
    /// | error | | before the next attempt |
    /// |---|---|---|
    /// | `Timeout` | yes | |
    /// | `Deadlock` | yes | release what this owner holds, so that the others can go on |
    /// | `UpgradeConflict` | yes | release the read, then acquire for writing |
    /// | `Lost` | yes | what was read or written under the guard may have changed: begin anew |
    #[doc = concat!(
        " | `Refused` | mostly | a limit was reached: release something, or let others ",
        "do so. Not if the user lacks the right or the acquire names too many owners |",
    )]
    #[doc = concat!(
        " | `NoSession` | mostly | the server is full or not ready. Not if it does not ",
        "allow this lease |",
    )]
    /// | `Trouble` | mostly | [`TroubleKind::may_pass`] |
    /// | `TooManyRecords` | yes | release some; not if the acquire names too many owners |
    /// | `Closed` | no | connect again |
    /// | `Forked` | no | connect again in the child |
    ///
    /// Wait a little before each attempt, longer each time; a timeout has already waited.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Timeout | Self::Deadlock { .. } | Self::UpgradeConflict | Self::Lost => true,
            Self::Refused(why) => why.is_retryable(),
            Self::NoSession(why) => why.is_retryable(),
            Self::Trouble(why) => why.kind.may_pass(),
            Self::TooManyRecords(why) => !matches!(**why, WantRefusal::TooManyOwners { .. }),
            Self::Closed | Self::Forked => false,
        }
    }

    /// Whether the service may count the record as held by this process although the call failed,
    /// so that others have to wait: at most until the lease is over. It never means that the caller
    /// may use the record.
    ///
    /// After an upgrade ask the guard in the [`UpgradeError`](crate::UpgradeError) instead: if it
    /// [is valid](crate::Guard::is_valid) it still reads, whatever the error is.
    ///
    /// | error | | why |
    /// |---|---|---|
    #[doc = concat!(
        " | `Timeout` | yes | it may have been granted while the wait ended; the node ",
        "gives it back when another wants it |",
    )]
    /// | `Deadlock` | no | the acquire was refused; what the owner held before it still holds |
    /// | `UpgradeConflict` | yes | the read is kept until its guard is dropped |
    /// | `Lost` | yes | this node stops a little before the server's lease ends |
    /// | `Refused` | no | the server has granted nothing |
    /// | `NoSession` | no | without a session nothing is held |
    /// | `Trouble` | yes | the store may have done what was asked, and the answer was lost |
    /// | `TooManyRecords` | no | the server was not asked |
    /// | `Closed` | yes | the server may not have heard of the end: [`CloseUnknown`] |
    /// | `Forked` | no | what is held is the parent's, not this process's |
    #[must_use]
    pub fn may_still_hold(&self) -> bool {
        match self {
            Self::Timeout
            | Self::UpgradeConflict
            | Self::Lost
            | Self::Trouble(_)
            | Self::Closed => true,
            Self::Deadlock { .. }
            | Self::Refused(_)
            | Self::NoSession(_)
            | Self::TooManyRecords(_)
            | Self::Forked => false,
        }
    }

    /// The words of the protocol as an error of this crate.
    pub(crate) fn from_refusal(why: AcquireRefusal) -> Self {
        match why {
            AcquireRefusal::Deadlock { cycle } => Self::Deadlock { cycle },
            AcquireRefusal::UpgradeConflict => Self::UpgradeConflict,
            AcquireRefusal::NotHeld => Self::Lost,
            why => Self::Refused(Box::new(why)),
        }
    }
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout => f.write_str("the record was not granted in the time allowed"),
            Self::Deadlock { cycle } => {
                f.write_str("refused, for it would wait for ever: ")?;
                for owner in cycle {
                    write!(f, "{owner} waits for ")?;
                }
                match cycle.first() {
                    Some(first) => write!(f, "{first}"),
                    None => f.write_str("itself"),
                }
            }
            Self::UpgradeConflict => f.write_str(
                "somebody else already waits to upgrade this record: \
                 release the read, then acquire for writing",
            ),
            Self::Lost => f.write_str("the lease ended while the record was held"),
            Self::Refused(why) => write!(f, "the server refused: {why}"),
            Self::NoSession(why) => write!(f, "the server opens no session: {why}"),
            Self::Trouble(why) => why.fmt(f),
            Self::TooManyRecords(why) => write!(f, "{why}"),
            Self::Closed => f.write_str("the connection to the lock service was closed"),
            Self::Forked => f.write_str(FORKED),
        }
    }
}

impl std::error::Error for LockError {}

/// What is wrong with the store that keeps the locks, such as a Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// For a program.
    pub kind: TroubleKind,
    /// For a person: what is wrong, what to do, and what the store said.
    pub said: String,
}

/// The kinds of trouble that a store can be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TroubleKind {
    /// The connection is lost, or there is no answer in time.
    Unreachable,
    /// Another server takes over, and is not there yet.
    FailOver,
    /// The server is a replica that takes no writes.
    ReadOnly,
    /// The server has no memory left.
    OutOfMemory,
    /// The server is busy with somebody's script, or with loading its data.
    Busy,
    /// Our script was killed.
    Killed,
    /// The user may not do what locks need.
    NoPermission,
    /// The user or the password is wrong or missing.
    NoAuthentication,
    /// The keys of one record are in different slots of a cluster.
    CrossSlot,
    /// The cluster does not serve the record's slot.
    ClusterDown,
    /// A key of the record is something else than locks need.
    WrongType,
    /// The server can't write to its disk, and takes no changes until it can.
    CantSave,
    /// Something else.
    Other,
}

impl TroubleKind {
    /// Whether it may pass by itself, so that trying again for a while makes sense.
    ///
    /// | yes | no: a person has to change something |
    /// |---|---|
    #[doc = concat!(
        " | `Unreachable`, `FailOver`, `ReadOnly`, `Busy`, `ClusterDown`, `CantSave` | ",
        "`OutOfMemory`, `Killed`, `NoPermission`, `NoAuthentication`, `CrossSlot`, ",
        "`WrongType`, `Other` |",
    )]
    #[must_use]
    pub fn may_pass(self) -> bool {
        match self {
            Self::Unreachable
            | Self::FailOver
            | Self::ReadOnly
            | Self::Busy
            | Self::ClusterDown
            | Self::CantSave => true,
            Self::OutOfMemory
            | Self::Killed
            | Self::NoPermission
            | Self::NoAuthentication
            | Self::CrossSlot
            | Self::WrongType
            | Self::Other => false,
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.said)
    }
}

/// Why there is no connection.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConnectError {
    /// The URL is not one of ours.
    BadUrl {
        /// As given, without what may be a password.
        url: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// An option is out of its bounds.
    BadOption {
        /// Which, and what is allowed.
        what: String,
    },
    /// Nobody answered there.
    Unreachable {
        /// Where.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// Something answers there that is not a Lockspan server.
    NotLockspan {
        /// Where.
        address: String,
        /// What it is, and what to do.
        found: String,
    },
    /// A TLS connection could not be made.
    Tls {
        /// Where.
        address: String,
        /// For a program.
        trouble: TlsTrouble,
        /// What the TLS library said.
        said: String,
    },
    /// The user or the password is wrong or missing.
    Login {
        /// Where.
        address: String,
        /// Whether a user and a password were sent.
        given: bool,
        /// What the service said.
        said: String,
    },
    /// The service refused the connection for another reason.
    Refused {
        /// Where.
        address: String,
        /// What it said.
        said: String,
    },
    /// The service of this user could not be found or started.
    Local {
        /// What is wrong, and what to do.
        what: String,
    },
}

/// What URLs begin with.
const SCHEMES: [&str; 11] = [
    "memory",
    "local",
    "unix",
    "lockspan",
    "lockspans",
    "redis",
    "rediss",
    "redis-sentinel",
    "rediss-sentinel",
    "redis-cluster",
    "rediss-cluster",
];

/// What URLs look like.
const FORMS: &str = "memory:  local:  unix:///PATH  lockspan://HOST:PORT  \
                     lockspans://USER:PASSWORD@HOST:PORT?ca=FILE  redis://HOST:PORT";

impl ConnectError {
    /// [`BadUrl`](Self::BadUrl), which does not tell the password.
    #[must_use]
    pub fn bad_url(url: &str, why: &'static str) -> Self {
        Self::BadUrl { url: shown_url(url), why }
    }

    /// The process was forked while it connected, and this is the child.
    #[must_use]
    pub fn forked() -> Self {
        Self::Local { what: FORKED.to_owned() }
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadUrl { url, why } => {
                write!(f, "\"{url}\" is not the URL of a lock service: {why}")?;
                // With a scheme of ours the reason says all that is needed.
                let scheme = url.split(':').next().filter(|scheme| scheme.len() < url.len());
                match scheme.is_some_and(|scheme| SCHEMES.contains(&scheme)) {
                    true => Ok(()),
                    false => write!(f, ". Use one of: {FORMS}"),
                }
            }
            Self::BadOption { what } | Self::Local { what } => f.write_str(what),
            // It is there, so it runs.
            Self::Unreachable { address, source }
                if source.kind() == io::ErrorKind::PermissionDenied =>
            {
                write!(f, "{address} can't be used: {source}")?;
                // The system itself says no, because of the rights of the socket file.
                match source.raw_os_error() {
                    Some(_) => f.write_str(
                        "; its server gives the right to connect with --socket-mode and \
                         --socket-group",
                    ),
                    None => Ok(()),
                }
            }
            Self::Unreachable { address, source } => {
                write!(f, "no lock server answers at {address}: {source}; is it running?")
            }
            Self::NotLockspan { address, found } => {
                write!(f, "what listens at {address} is not a Lockspan server: {found}")
            }
            Self::Tls { address, trouble, said } => match trouble {
                TlsTrouble::NotTls => {
                    write!(f, "{address} does not speak TLS; use lockspan://{address}")
                }
                TlsTrouble::UnknownIssuer => write!(
                    f,
                    "no authority that is trusted here has signed the certificate of {address}. \
                     Name the file with its authority's certificate: ?ca=FILE"
                ),
                TlsTrouble::WrongName => write!(
                    f,
                    "the certificate of {address} is for another name ({said}). Use a name that \
                     the certificate has"
                ),
                TlsTrouble::Expired => {
                    write!(f, "the certificate of {address} has expired ({said})")
                }
                TlsTrouble::NotYetValid => write!(
                    f,
                    "the certificate of {address} is not valid yet ({said}). Is the clock of this \
                     machine right?"
                ),
                TlsTrouble::NeedsCertificate => write!(
                    f,
                    "{address} wants a certificate of the client: name it and its key, \
                     ?cert=FILE&key=FILE"
                ),
                TlsTrouble::RefusedCertificate => {
                    write!(f, "{address} refused the certificate of this client: {said}")
                }
                _ => write!(f, "no TLS connection to {address}: {said}"),
            },
            Self::Login { address, given: true, said } => {
                write!(f, "the user or the password is wrong at {address} ({said})")
            }
            Self::Login { address, given: false, .. } => {
                write!(f, "{address} lets in only users with a password, and none was given")?;
                // The URL of a socket file has no place for them.
                let has_host = !address.starts_with('/');
                let how = ": write USER:PASSWORD@ before the host of the URL";
                if has_host { f.write_str(how) } else { Ok(()) }
            }
            Self::Refused { address, said } => {
                write!(f, "the service at {address} refused the connection: {said}")
            }
        }
    }
}

impl std::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreachable { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// The server has not confirmed that it heard of the end: whether the records are free already is
/// not known. They are when the lease is over.
///
/// A child of a fork is always told so, and has ended nothing: the session is its parent's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloseUnknown;

impl fmt::Display for CloseUnknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the server did not confirm the end of the session: \
             what was held is free when its lease is over, perhaps before",
        )
    }
}

impl std::error::Error for CloseUnknown {}

#[cfg(test)]
mod tests {
    use lockspan_protocol::Mode;

    use super::*;

    /// What is promised of an error: whether it is retryable, and whether the record may still be
    /// held. A new variant does not compile until it is here; and below, where it is tested.
    fn promised(error: &LockError) -> (bool, bool) {
        match error {
            LockError::Timeout => (true, true),
            LockError::Deadlock { .. } => (true, false),
            LockError::UpgradeConflict => (true, true),
            LockError::Lost => (true, true),
            LockError::Refused(why) => (!matches!(**why, AcquireRefusal::Denied { .. }), false),
            LockError::NoSession(why) => (!matches!(**why, SessionRefusal::Lease { .. }), false),
            LockError::Trouble(why) => (why.kind == TroubleKind::Unreachable, true),
            LockError::TooManyRecords(why) => {
                (matches!(**why, WantRefusal::TooManyRecords { .. }), false)
            }
            LockError::Closed => (false, true),
            LockError::Forked => (false, false),
        }
    }

    #[test]
    fn every_error_says_whether_to_try_again_and_whether_the_record_may_be_held() {
        let trouble = |kind| LockError::Trouble(Box::new(Trouble { kind, said: String::new() }));
        let lease = std::time::Duration::from_secs(1);
        let all = [
            LockError::Timeout,
            LockError::Deadlock { cycle: vec![Owner(1)] },
            LockError::UpgradeConflict,
            LockError::Lost,
            LockError::Refused(Box::new(AcquireRefusal::TooManyWaiters { max: 1 })),
            LockError::Refused(Box::new(AcquireRefusal::Denied { mode: Mode::Read })),
            LockError::NoSession(Box::new(SessionRefusal::TooMany { max: 1 })),
            LockError::NoSession(Box::new(SessionRefusal::Lease { min: lease, max: lease })),
            trouble(TroubleKind::Unreachable),
            trouble(TroubleKind::WrongType),
            LockError::TooManyRecords(Box::new(WantRefusal::TooManyRecords { max: 1 })),
            LockError::TooManyRecords(Box::new(WantRefusal::TooManyOwners { max: 1 })),
            LockError::Closed,
            LockError::Forked,
        ];
        let kinds: std::collections::HashSet<_> = all.iter().map(std::mem::discriminant).collect();
        assert_eq!(kinds.len(), 10, "every variant is here");
        for error in all {
            let said = (error.is_retryable(), error.may_still_hold());
            assert_eq!(said, promised(&error), "{error:?}");
        }
    }

    #[test]
    fn a_socket_that_may_not_be_used_is_not_asked_whether_it_runs() {
        let of =
            |source| ConnectError::Unreachable { address: "/s".to_owned(), source }.to_string();
        let denied = of(io::Error::from_raw_os_error(13));
        assert!(denied.contains("/s can't be used: Permission denied"), "{denied}");
        assert!(denied.contains("--socket-mode") && !denied.contains("running"), "{denied}");
        let gone = of(io::ErrorKind::ConnectionRefused.into());
        assert_eq!(gone, "no lock server answers at /s: connection refused; is it running?");
    }
}
