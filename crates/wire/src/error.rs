//! What is wrong with the bytes of a peer, for a program (the code) and for a person (the text).

use std::fmt;

use lockspan_protocol::{
    AcquireRefusal, NotServed, ReassertRefusal, Refusal, ReportRefusal, SessionRefusal, TermRefusal,
};

/// The bytes are not RESP, or more than is allowed. Where the next frame begins is not known any
/// more: answer `-ERR Protocol error: ...` and close.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireError(String);

impl WireError {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The answer before the connection is closed.
    #[must_use]
    pub fn to_reply(&self) -> crate::Value {
        crate::Value::error(ErrorCode::Err, format!("Protocol error: {self}"))
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WireError {}

/// A command that can't be carried out: an error reply, and the connection goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandError {
    /// For programs.
    pub code: ErrorCode,
    /// For people: what was wrong, where, what is allowed.
    pub text: String,
}

impl CommandError {
    /// An error with this code.
    pub fn new(code: ErrorCode, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    pub(crate) fn bad(text: impl Into<String>) -> Self {
        Self::new(ErrorCode::Err, text)
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.code, self.text)
    }
}

impl std::error::Error for CommandError {}

/// The first word of an error reply.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorCode {
    /// The command is wrong: it says where.
    Err,
    /// There is no such session: it was never opened, was closed, or its lease ended.
    NoSession,
    /// Not allowed now.
    Refused,
    /// The acquire would close a cycle of owners that wait for each other.
    Deadlock,
    /// A limit of the server is reached.
    Limit,
    /// What is to be converted, renewed or unlocked is not held.
    NotHeld,
    /// The session has the record already, or waits for it.
    Already,
    /// The number is over, or the epoch has passed.
    Stale,
    /// The server starts, recovers, or does not serve the record now: try again.
    Loading,
    /// No such version of RESP.
    NoProto,
    /// Authenticate first.
    NoAuth,
    /// No such user and password.
    WrongPass,
    /// The user may not do that.
    NoPerm,
    /// A word that this version does not know.
    Other(Box<str>),
}

impl ErrorCode {
    const KNOWN: [Self; 13] = [
        Self::Err,
        Self::NoSession,
        Self::Refused,
        Self::Deadlock,
        Self::Limit,
        Self::NotHeld,
        Self::Already,
        Self::Stale,
        Self::Loading,
        Self::NoProto,
        Self::NoAuth,
        Self::WrongPass,
        Self::NoPerm,
    ];

    /// The word.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Err => "ERR",
            Self::NoSession => "NOSESSION",
            Self::Refused => "REFUSED",
            Self::Deadlock => "DEADLOCK",
            Self::Limit => "LIMIT",
            Self::NotHeld => "NOTHELD",
            Self::Already => "ALREADY",
            Self::Stale => "STALE",
            Self::Loading => "LOADING",
            Self::NoProto => "NOPROTO",
            Self::NoAuth => "NOAUTH",
            Self::WrongPass => "WRONGPASS",
            Self::NoPerm => "NOPERM",
            Self::Other(word) => word,
        }
    }

    /// The code with this word.
    pub(crate) fn of(word: &str) -> Self {
        let known = Self::KNOWN.into_iter().find(|code| code.as_str() == word);
        known.unwrap_or_else(|| Self::Other(word.into()))
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

macro_rules! coded {
    ($($why:ident => $code:expr),* $(,)?) => { $(
        impl From<&$why> for CommandError {
            fn from(why: &$why) -> Self {
                let code: fn(&$why) -> ErrorCode = $code;
                Self::new(code(why), why.to_string())
            }
        }
    )* };
}

coded! {
    SessionRefusal => |why| match why {
        SessionRefusal::Unknown => ErrorCode::NoSession,
        SessionRefusal::Lease { .. }
        | SessionRefusal::TooMany { .. }
        | SessionRefusal::TooManyOfUser { .. } => ErrorCode::Limit,
        SessionRefusal::Resting => ErrorCode::Loading,
        _ => ErrorCode::Refused,
    },
    AcquireRefusal => |why| match why {
        AcquireRefusal::NotServed(_) => ErrorCode::Loading,
        AcquireRefusal::StaleSeq => ErrorCode::Stale,
        AcquireRefusal::NotHeld => ErrorCode::NotHeld,
        AcquireRefusal::Deadlock { .. } => ErrorCode::Deadlock,
        AcquireRefusal::Denied { .. } => ErrorCode::NoPerm,
        AcquireRefusal::TooManyWaiters { .. }
        | AcquireRefusal::TooManyUserWaiters { .. }
        | AcquireRefusal::TooManyClaims { .. }
        | AcquireRefusal::TooManyRecords { .. }
        | AcquireRefusal::TooManyUserRecords { .. }
        | AcquireRefusal::TooManyAllClaims { .. }
        | AcquireRefusal::TooManyUserClaims { .. }
        | AcquireRefusal::TooManyOwners { .. } => ErrorCode::Limit,
        _ => ErrorCode::Refused,
    },
    NotServed => |_| ErrorCode::Loading,
    ReportRefusal => |why| match why {
        ReportRefusal::NotServed(_) => ErrorCode::Loading,
        ReportRefusal::TooManyOwners { .. } => ErrorCode::Limit,
        _ => ErrorCode::Refused,
    },
    ReassertRefusal => |why| match why {
        ReassertRefusal::NotServed(_)
        | ReassertRefusal::Left(_)
        | ReassertRefusal::TooEarly { .. } => ErrorCode::Loading,
        ReassertRefusal::WrongEpoch { .. } => ErrorCode::Stale,
        ReassertRefusal::TooManyClaims { .. }
        | ReassertRefusal::TooManyRecords { .. }
        | ReassertRefusal::TooManyAllClaims { .. }
        | ReassertRefusal::TooManyOwners { .. } => ErrorCode::Limit,
        _ => ErrorCode::Refused,
    },
    TermRefusal => |_| ErrorCode::Refused,
}

impl From<&Refusal> for CommandError {
    fn from(why: &Refusal) -> Self {
        match why {
            Refusal::Session(why) => why.into(),
            Refusal::Acquire(why) => why.into(),
            Refusal::Group(why) => why.into(),
            Refusal::Report(why) => why.into(),
            Refusal::Reassert(why) => why.into(),
            Refusal::Term(why) => why.into(),
            _ => Self::new(ErrorCode::Refused, why.to_string()),
        }
    }
}
