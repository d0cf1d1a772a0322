//! Why an input is refused: data to act upon, and the words for a person.
//!
//! A refused input has changed nothing.

use std::fmt;
use std::time::Duration;

use crate::ids::Owner;
use crate::mode::Mode;
use crate::slot::Group;
use crate::token::Epoch;

/// A refused input of a [`LockServer`](crate::LockServer).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// To do with the session: it can't be opened, or there is none.
    Session(SessionRefusal),
    /// An acquire.
    Acquire(AcquireRefusal),
    /// A release or a cancel.
    Group(NotServed),
    /// A report.
    Report(ReportRefusal),
    /// A re-assertion.
    Reassert(ReassertRefusal),
    /// A group could not be taken or given up.
    Term(TermRefusal),
}

/// Why the server refuses a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SessionRefusal {
    /// The session was never opened here, was closed, or its lease has expired.
    Unknown,
    /// The lease asked for is not within the limits.
    Lease {
        /// The shortest allowed.
        min: Duration,
        /// The longest allowed.
        max: Duration,
    },
    /// The server has as many sessions as it allows.
    TooMany {
        /// The limit.
        max: usize,
    },
    /// The user has as many sessions as one user may have.
    TooManyOfUser {
        /// The limit.
        max: usize,
    },
    /// The session is open with another hand-off or lease.
    Differs,
    /// The server's own lease has expired: it serves nobody for now.
    Resting,
}

/// Why the server refuses an acquire.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AcquireRefusal {
    /// This server does not serve the record's group.
    NotServed(NotServed),
    /// The number of this acquire was used already, or is too far behind. Take a new one.
    StaleSeq,
    /// Another session already waits to upgrade the same record: a deadlock. The read is kept.
    UpgradeConflict,
    /// An upgrade of a read lock that this server does not know: the read lock is lost.
    NotHeld,
    /// A deadlock: these owners wait for each other in a cycle.
    Deadlock {
        /// Each waits for the next, the last for the first.
        cycle: Vec<Owner>,
    },
    /// As many sessions wait for this record as may.
    TooManyWaiters {
        /// The limit.
        max: usize,
    },
    /// As many sessions of this user wait for this record as may.
    TooManyUserWaiters {
        /// The limit.
        max: usize,
    },
    /// The session holds or waits for as many records as one session may.
    TooManyClaims {
        /// The limit.
        max: usize,
    },
    /// The server has as many records as it allows.
    TooManyRecords {
        /// The limit.
        max: usize,
    },
    /// The sessions of this user have as many records as one user may have.
    TooManyUserRecords {
        /// The limit.
        max: usize,
    },
    /// The server has as many grants and waiters as it allows, over all sessions.
    TooManyAllClaims {
        /// The limit.
        max: usize,
    },
    /// The sessions of this user have as many grants and waiters as one user may have.
    TooManyUserClaims {
        /// The limit.
        max: usize,
    },
    /// The acquire names more owners than allowed.
    TooManyOwners {
        /// The limit.
        max: usize,
    },
    /// The user may not lock this datatype in this mode.
    Denied {
        /// The mode that was asked for.
        mode: Mode,
    },
    /// The grant was of a lesser mode than asked for, so the client has given it back. The client
    /// reports this itself; no server of this protocol does it.
    WrongMode {
        /// The mode that was asked for.
        asked: Mode,
        /// The mode that was granted.
        granted: Mode,
    },
}

/// This server does not serve a group now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NotServed {
    /// Which group.
    pub group: Group,
}

/// Why a report is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReportRefusal {
    /// This server does not serve the record's group.
    NotServed(NotServed),
    /// More owners or waits than one report may name.
    TooManyOwners {
        /// How many it may.
        max: usize,
    },
}

impl From<NotServed> for ReportRefusal {
    fn from(why: NotServed) -> Self {
        Self::NotServed(why)
    }
}

/// Why a re-assertion is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReassertRefusal {
    /// This server does not serve the group.
    NotServed(NotServed),
    /// This server has served the groups, and has left them all.
    Left(NotServed),
    /// The server's epoch of the group is another.
    WrongEpoch {
        /// The server's.
        current: Epoch,
    },
    /// The former session is not on the list of those that may re-assert in this epoch.
    NotListed,
    /// Another session has come forward as the same former one.
    Claimed,
    /// The server that served the groups before may still act: a stranger can't be sure yet what it
    /// has. Nothing has changed; to be said again after this time.
    TooEarly {
        /// When that server has stopped for sure.
        wait: Duration,
    },
    /// The session re-asserts more than it may hold.
    TooManyClaims {
        /// How many it may.
        max: usize,
    },
    /// The server has as many records as it allows.
    TooManyRecords {
        /// The limit.
        max: usize,
    },
    /// The server is full of grants and waits.
    TooManyAllClaims {
        /// How many may be.
        max: usize,
    },
    /// The acquire names more owners than allowed.
    TooManyOwners {
        /// The limit.
        max: usize,
    },
}

/// Why a change of ownership is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TermRefusal {
    /// Some of the groups are served here, or about to be.
    AlreadyServed,
    /// There is no epoch left above this one.
    LastEpoch,
    /// No write is under way with this number.
    UnknownStore,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session(why) => why.fmt(f),
            Self::Acquire(why) => why.fmt(f),
            Self::Group(why) => why.fmt(f),
            Self::Report(why) => why.fmt(f),
            Self::Reassert(why) => why.fmt(f),
            Self::Term(why) => why.fmt(f),
        }
    }
}

impl SessionRefusal {
    /// Whether trying again may succeed although the request does not change.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unknown | Self::TooMany { .. } | Self::TooManyOfUser { .. } | Self::Resting => {
                true
            }
            Self::Lease { .. } | Self::Differs => false,
        }
    }
}

impl AcquireRefusal {
    /// Whether trying again, as a new acquire, may succeed although the request does not change.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::NotServed(_)
            | Self::StaleSeq
            | Self::UpgradeConflict
            | Self::NotHeld
            | Self::Deadlock { .. }
            | Self::TooManyWaiters { .. }
            | Self::TooManyUserWaiters { .. }
            | Self::TooManyClaims { .. }
            | Self::TooManyRecords { .. }
            | Self::TooManyUserRecords { .. }
            | Self::TooManyAllClaims { .. }
            | Self::TooManyUserClaims { .. } => true,
            Self::TooManyOwners { .. } | Self::Denied { .. } | Self::WrongMode { .. } => false,
        }
    }
}

impl fmt::Display for SessionRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => {
                f.write_str("no such session: it was closed, or its lease expired; open a new one")
            }
            Self::Lease { min, max } => {
                write!(f, "the lease of a session must be from {min:?} to {max:?} on this server")
            }
            Self::TooMany { max } => write!(
                f,
                "too many sessions: the maximum is {max} (max-sessions); try again when one ends"
            ),
            Self::TooManyOfUser { max } => write!(
                f,
                "too many sessions of this user: the maximum is {max} (max-sessions-per-user); try \
                 again when one ends"
            ),
            Self::Differs => f.write_str(
                "the session is open with another lease or hand-off; open a new one for these",
            ),
            Self::Resting => f.write_str(
                "this server can't be sure that it still owns its groups; try again later",
            ),
        }
    }
}

impl fmt::Display for AcquireRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotServed(why) => why.fmt(f),
            Self::StaleSeq => {
                f.write_str("this seq is no longer valid; acquire again with a new one")
            }
            Self::UpgradeConflict => f.write_str(
                "another reader already waits to upgrade, and the two would deadlock: release the \
                 read, then acquire for writing",
            ),
            Self::NotHeld => f.write_str("the read to be upgraded is no longer held"),
            Self::Deadlock { cycle } => {
                f.write_str("deadlock: ")?;
                for owner in cycle {
                    write!(f, "{owner} -> ")?;
                }
                match cycle.first() {
                    Some(owner) => write!(f, "{owner}"),
                    None => f.write_str("unknown owners"),
                }
            }
            Self::TooManyWaiters { max } => {
                write!(f, "too many waiters for this record: the maximum is {max} (max-waiters)")
            }
            Self::TooManyUserWaiters { max } => write!(
                f,
                "too many waiters of this user for this record: the maximum is {max} \
                 (max-waiters-per-user)"
            ),
            Self::TooManyClaims { max } => write!(
                f,
                "too many records of this session: the maximum is {max} (max-claims); release some"
            ),
            Self::TooManyRecords { max } => full(f, *max),
            Self::TooManyUserRecords { max } => write!(
                f,
                "too many records of this user: the maximum is {max} (max-records-per-user); \
                 release some"
            ),
            Self::TooManyAllClaims { max } => full_of_claims(f, *max),
            Self::TooManyUserClaims { max } => write!(
                f,
                "too many grants and waits of this user: the maximum is {max} (four times \
                 max-records-per-user); release some"
            ),
            Self::TooManyOwners { max } => owners(f, *max),
            Self::Denied { mode } => {
                write!(f, "this user lacks the right to {mode} records of this datatype")
            }
            Self::WrongMode { asked, granted } => write!(
                f,
                "the server granted {granted} instead of {asked}, which the protocol does not \
                 allow; the grant is released"
            ),
        }
    }
}

impl fmt::Display for NotServed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not served here now", self.group)
    }
}

impl fmt::Display for ReportRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotServed(why) => why.fmt(f),
            Self::TooManyOwners { max } => owners(f, *max),
        }
    }
}

impl fmt::Display for ReassertRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotServed(why) | Self::Left(why) => why.fmt(f),
            Self::WrongEpoch { current } => write!(f, "the group is in {current}"),
            Self::NotListed => f.write_str("that session may not re-assert"),
            Self::Claimed => f.write_str("another session has already re-asserted for that one"),
            Self::TooEarly { wait } => write!(
                f,
                "the server that served these records before may still answer for {wait:.1?}; \
                 repeat LS.REASSERTED after that"
            ),
            Self::TooManyClaims { max } => {
                write!(f, "too many records of this session: it may re-assert at most {max}")
            }
            Self::TooManyRecords { max } => full(f, *max),
            Self::TooManyAllClaims { max } => full_of_claims(f, *max),
            Self::TooManyOwners { max } => owners(f, *max),
        }
    }
}

fn full(f: &mut fmt::Formatter<'_>, max: usize) -> fmt::Result {
    write!(f, "too many records on this server: the maximum is {max} (max-records)")
}

fn full_of_claims(f: &mut fmt::Formatter<'_>, max: usize) -> fmt::Result {
    write!(
        f,
        "too many grants and waits on this server: the maximum is {max} (four times max-records)"
    )
}

fn owners(f: &mut fmt::Formatter<'_>, max: usize) -> fmt::Result {
    write!(f, "too many owners: the maximum is {max}")
}

impl fmt::Display for TermRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AlreadyServed => "some of these groups are served here already",
            Self::LastEpoch => "the last epoch has been used",
            Self::UnknownStore => "no write to storage has this number",
        })
    }
}

macro_rules! error {
    ($($name:ident),*) => { $(
        impl std::error::Error for $name {}
    )* };
}
error!(
    Refusal,
    SessionRefusal, AcquireRefusal, NotServed, ReportRefusal, ReassertRefusal, TermRefusal
);
