//! Errors, with messages that tell a person what to do.

use std::fmt;
use std::io;

use lockspan_protocol::cache::WantRefusal;
use lockspan_protocol::{AcquireRefusal, BadAnnotation, Owner, SessionRefusal};

pub use lockspan_tls::TlsTrouble;

use crate::all::BadSet;
use crate::timeout::TimedOut;
use crate::url::shown_url;

/// What a child is told that uses its parent's connection.
const FORKED: &str =
    "this connection belongs to the parent process; call connect again in the child";

/// Why a record was not acquired, or is no longer held.
///
/// [`is_retryable`](Self::is_retryable) says whether the same call may succeed later;
/// [`may_still_hold`](Self::may_still_hold) whether others may have to wait for the lease of this
/// process although the call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockError {
    /// The record was not granted in the time allowed. Says who holds it, and how many are before.
    Timeout(Box<TimedOut>),
    /// A deadlock: these [owners](crate::Locks::as_owner) wait for each other in a cycle.
    Deadlock {
        /// Each waits for the next, the last for the first.
        cycle: Vec<Owner>,
    },
    /// Another reader already waits to upgrade the same record. Release the read guard, which the
    /// [`UpgradeError`](crate::UpgradeError) contains, then acquire the record for writing.
    UpgradeConflict,
    /// The lease expired while the record was held.
    Lost,
    /// The server refused the acquire.
    Refused(Box<AcquireRefusal>),
    /// The server refused the session.
    NoSession(Box<SessionRefusal>),
    /// The store behind the locks, such as a Redis, failed.
    Trouble(Box<Trouble>),
    /// This process has as many records as it may have.
    TooManyRecords(Box<WantRefusal>),
    /// The text of [`Acquire::note`](crate::Acquire::note) can't be a note.
    BadNote(BadAnnotation),
    /// The records given to [`Locks::all`](crate::Locks::all) can't be acquired together.
    BadSet(Box<BadSet>),
    /// The connection was closed by [`Locks::close`](crate::Locks::close).
    Closed,
    /// This process was forked from the one that connected. The connection and its locks belong to
    /// the parent: [connect again](crate::connect#after-a-fork) in the child.
    Forked,
}

impl LockError {
    /// Whether a later attempt may succeed without a change of the program or its configuration.
    ///
    /// | error | retryable | before the next attempt |
    /// |---|---|---|
    /// | `Timeout` | yes | nothing |
    /// | `Deadlock` | yes | release what this owner holds, so that the others can go on |
    /// | `UpgradeConflict` | yes | release the read guard, then acquire for writing |
    /// | `Lost` | yes | read the data again: others may have changed it |
    #[doc = concat!(
        " | `Refused` | mostly | wait until records are released: a limit was reached. Not ",
        "retryable if the user lacks the right or the acquire names too many owners |",
    )]
    #[doc = concat!(
        " | `NoSession` | mostly | wait: the server is full or not ready. Not retryable if the ",
        "server does not allow this lease |",
    )]
    /// | `Trouble` | see [`TroubleKind::may_pass`] | wait |
    #[doc = concat!(
        " | `TooManyRecords` | mostly | release some records. Not retryable if the acquire names ",
        "too many owners |",
    )]
    /// | `BadNote` | no | choose another note |
    /// | `BadSet` | no | give other records to `all` |
    /// | `Closed` | no | connect again |
    /// | `Forked` | no | connect again in the child |
    ///
    /// Wait before each attempt, and longer each time. After a `Timeout` there is no need to: the
    /// call has waited.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Timeout(_) | Self::Deadlock { .. } | Self::UpgradeConflict | Self::Lost => true,
            Self::Refused(why) => why.is_retryable(),
            Self::NoSession(why) => why.is_retryable(),
            Self::Trouble(why) => why.kind.may_pass(),
            Self::TooManyRecords(why) => !matches!(**why, WantRefusal::TooManyOwners { .. }),
            Self::BadNote(_) | Self::BadSet(_) | Self::Closed | Self::Forked => false,
        }
    }

    /// Whether the server may count the record as held by this process although the call failed.
    /// Then others have to wait, at most until the lease expires. It never means that the caller
    /// may use the record.
    ///
    /// After a failed upgrade ask the guard in the [`UpgradeError`](crate::UpgradeError) instead:
    /// if it [is valid](crate::Guard::is_valid), it still reads, whatever the error is.
    ///
    /// | error | may still hold | why |
    /// |---|---|---|
    #[doc = concat!(
        " | `Timeout` | yes | the grant may have come while the wait ended. The client ",
        "gives it back when another process wants it |",
    )]
    /// | `Deadlock` | no | the acquire was refused. What the owner held before, it still holds |
    /// | `UpgradeConflict` | yes | the record is held for reading until the guard is dropped |
    /// | `Lost` | yes | guards become invalid a little before the lease expires at the server |
    /// | `Refused` | no | the server has granted nothing |
    /// | `NoSession` | no | without a session nothing is held |
    /// | `Trouble` | yes | the store may have granted the record, and the answer was lost |
    /// | `TooManyRecords`, `BadNote`, `BadSet` | no | the server was not asked |
    /// | `Closed` | yes | the server may not have received the end of the session |
    /// | `Forked` | no | the parent holds the record, not this process |
    #[must_use]
    pub fn may_still_hold(&self) -> bool {
        match self {
            Self::Timeout(_)
            | Self::UpgradeConflict
            | Self::Lost
            | Self::Trouble(_)
            | Self::Closed => true,
            Self::Deadlock { .. }
            | Self::Refused(_)
            | Self::NoSession(_)
            | Self::TooManyRecords(_)
            | Self::BadNote(_)
            | Self::BadSet(_)
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
            Self::Timeout(why) => write!(f, "timeout: {why}"),
            Self::Deadlock { cycle } => {
                f.write_str("deadlock: ")?;
                for owner in cycle {
                    write!(f, "{owner} -> ")?;
                }
                match cycle.first() {
                    Some(first) => write!(f, "{first}"),
                    None => f.write_str("the caller would wait for itself"),
                }
            }
            Self::UpgradeConflict => f.write_str(
                "another reader already waits to upgrade this record: release the read, then \
                 acquire for writing",
            ),
            Self::Lost => f.write_str("the lease expired while the record was held"),
            Self::Refused(why) => write!(f, "the server refused: {why}"),
            Self::NoSession(why) => write!(f, "the server refused to open a session: {why}"),
            Self::Trouble(why) => why.fmt(f),
            Self::TooManyRecords(why) => write!(f, "{why}"),
            Self::BadNote(why) => write!(f, "the note can't be used: {why}"),
            Self::BadSet(why) => why.fmt(f),
            Self::Closed => f.write_str("the connection to the lock service was closed"),
            Self::Forked => f.write_str(FORKED),
        }
    }
}

impl std::error::Error for LockError {}

/// A failure of the store that keeps the locks, such as a Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trouble {
    /// What kind of failure it is, for programs.
    pub kind: TroubleKind,
    /// What is wrong, what to do, and the message of the store, for people.
    pub said: String,
}

impl Trouble {
    /// For crates that connect to other services.
    #[doc(hidden)]
    #[must_use]
    pub fn new(kind: TroubleKind, said: impl Into<String>) -> Self {
        Self { kind, said: said.into() }
    }
}

impl std::error::Error for Trouble {}

/// The kinds of [`Trouble`] that a store can be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TroubleKind {
    /// The connection is lost, or the store did not answer in time.
    Unreachable,
    /// A fail-over is under way: another server takes over and is not ready yet.
    FailOver,
    /// The server is a replica that takes no writes.
    ReadOnly,
    /// The server has no memory left.
    OutOfMemory,
    /// The server is busy with a script, or loads its data.
    Busy,
    /// The server killed our script.
    Killed,
    /// The user lacks a right that the locks need.
    NoPermission,
    /// The user or the password is wrong or missing.
    NoAuthentication,
    /// The keys of one record are in different slots of a cluster.
    CrossSlot,
    /// The cluster does not serve the record's slot.
    ClusterDown,
    /// A key of the record has a type that the locks do not use.
    WrongType,
    /// The server can't write to its disk and refuses changes until it can.
    CantSave,
    /// Something else.
    Other,
}

impl TroubleKind {
    /// Whether the failure may pass by itself, so that a later attempt makes sense.
    ///
    /// | may pass | a person has to change something |
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

/// Why [`connect`](crate::connect) failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConnectError {
    /// The URL does not name a lock service.
    BadUrl {
        /// The URL as given, without the password.
        url: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// An option is out of its bounds.
    BadOption {
        /// Which option, and what is allowed.
        what: String,
    },
    /// The server did not answer.
    Unreachable {
        /// The address of the server.
        address: String,
        /// The error of the system.
        source: io::Error,
    },
    /// What answered is not a Lockspan server.
    NotLockspan {
        /// The address that was called.
        address: String,
        /// What it seems to be, and what to do.
        found: String,
    },
    /// A TLS connection could not be made.
    Tls {
        /// The address of the server.
        address: String,
        /// What kind of failure it is, for programs.
        trouble: TlsTrouble,
        /// The message of the TLS library.
        said: String,
    },
    /// The user or the password is wrong or missing.
    Login {
        /// The address of the server.
        address: String,
        /// Whether a user and a password were sent.
        given: bool,
        /// The message of the server.
        said: String,
    },
    /// The service refused the connection for another reason.
    Refused {
        /// The address of the server.
        address: String,
        /// The message of the server.
        said: String,
    },
    /// Something on this machine prevents it: for example, the service of `local:` could not be
    /// found or started.
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

/// What a Lockspan server replies to a wrong login.
const WRONG_LOGIN: &str = "wrong user or password";

/// What URLs look like.
const FORMS: &str = "memory:  local:  unix:///PATH  lockspan://HOST:PORT  \
                     lockspans://USER:PASSWORD@HOST:PORT?ca=FILE  redis://HOST:PORT";

impl ConnectError {
    /// [`BadUrl`](Self::BadUrl) without the password. For crates that connect to other services.
    #[doc(hidden)]
    #[must_use]
    pub fn bad_url(url: &str, why: &'static str) -> Self {
        Self::BadUrl { url: shown_url(url), why }
    }

    /// The process was forked while it connected, and this is the child. For crates that connect
    /// to other services.
    #[doc(hidden)]
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
                        "; the server sets who may connect with --socket-mode and --socket-group",
                    ),
                    None => Ok(()),
                }
            }
            Self::Unreachable { address, source } => {
                write!(f, "no Lockspan server answers at {address}: {source}; is it running?")
            }
            Self::NotLockspan { address, found } => {
                write!(f, "{address} is not a Lockspan server: {found}")
            }
            Self::Tls { address, trouble, said } => match trouble {
                TlsTrouble::NotTls => {
                    write!(f, "{address} does not use TLS; use lockspan://{address}")
                }
                TlsTrouble::UnknownIssuer => write!(
                    f,
                    "the certificate of {address} is not signed by a trusted authority. Give the \
                     file with the certificate of its authority: ?ca=FILE"
                ),
                TlsTrouble::AuthorityCertificate => write!(
                    f,
                    "the certificate of {address} is one of a certificate authority, which can't \
                     be used by a server. Create one with basicConstraints=CA:FALSE"
                ),
                TlsTrouble::WrongName => write!(
                    f,
                    "the certificate of {address} is for another name ({said}). Use a host name \
                     that is in the certificate"
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
                    "{address} requires a client certificate. Give it and its key: \
                     ?cert=FILE&key=FILE"
                ),
                TlsTrouble::RefusedCertificate => {
                    write!(f, "{address} refused the certificate of this client: {said}")
                }
                _ => write!(f, "the TLS connection to {address} failed: {said}"),
            },
            Self::Login { address, given: true, said } => {
                write!(f, "wrong user or password at {address}")?;
                // A Lockspan server says just that; a Redis says more.
                if said == WRONG_LOGIN { Ok(()) } else { write!(f, " ({said})") }
            }
            Self::Login { address, given: false, .. } => {
                write!(f, "{address} requires a user and a password, and none was given")?;
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

/// Why [`Locks::close`](crate::Locks::close) failed: the server has not confirmed the end of the
/// session. What was held is free when the lease expires, at the latest.
///
/// A child of a fork always gets this error and ends nothing: the session is its parent's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CloseUnknown;

impl fmt::Display for CloseUnknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the server did not confirm the end of the session: its locks are free when the lease \
             expires, or earlier",
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
            LockError::Timeout(_) => (true, true),
            LockError::BadNote(_) | LockError::BadSet(_) => (false, false),
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
        let record = lockspan_protocol::Record::new("a", "1").unwrap();
        let (holders, place, waited) = (Vec::new(), None, lease);
        let late = TimedOut { record, waited, holders, place, connected: true };
        let all = [
            LockError::Timeout(Box::new(late)),
            LockError::BadNote(BadAnnotation::Empty),
            LockError::BadSet(Box::new(BadSet::Empty)),
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
        assert_eq!(kinds.len(), 12, "every variant is here");
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
        assert_eq!(gone, "no Lockspan server answers at /s: connection refused; is it running?");
    }
}
