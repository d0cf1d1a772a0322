//! Replies: a value, and its bytes in RESP2 and RESP3.

use bytes::{Bytes, BytesMut};

use crate::error::{CommandError, ErrorCode};
use crate::limits::Protocol;

/// A reply. In RESP2 a map is a flat array, a boolean 0 or 1, and a push an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Nothing.
    Null,
    /// Yes or no.
    Bool(bool),
    /// A number.
    Int(i64),
    /// A word, such as `OK`.
    Status(Bytes),
    /// Any bytes.
    Bulk(Bytes),
    /// It went wrong.
    Error {
        /// For programs.
        code: ErrorCode,
        /// For people.
        text: String,
    },
    /// A list.
    Array(Vec<Self>),
    /// Pairs, in order.
    Map(Vec<(Self, Self)>),
    /// Sent unasked.
    Push(Vec<Self>),
}

impl Value {
    /// `OK`.
    pub const OK: Self = Self::Status(Bytes::from_static(b"OK"));

    /// A word.
    #[must_use]
    pub const fn status(word: &'static str) -> Self {
        Self::Status(Bytes::from_static(word.as_bytes()))
    }

    /// Any bytes.
    pub fn bulk(bytes: impl Into<Bytes>) -> Self {
        Self::Bulk(bytes.into())
    }

    /// An error.
    pub fn error(code: ErrorCode, text: impl Into<String>) -> Self {
        Self::Error { code, text: text.into() }
    }

    /// A map whose keys are words.
    pub fn map(pairs: impl IntoIterator<Item = (&'static str, Self)>) -> Self {
        let pairs = pairs.into_iter().map(|(key, value)| (Self::from(key), value));
        Self::Map(pairs.collect())
    }
}

impl From<CommandError> for Value {
    fn from(error: CommandError) -> Self {
        Self::Error { code: error.code, text: error.text }
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

/// Beyond `i64` it is a bulk string of digits.
impl From<u64> for Value {
    fn from(number: u64) -> Self {
        i64::try_from(number).map_or_else(|_| Self::bulk(number.to_string()), Self::Int)
    }
}

impl From<&'static str> for Value {
    fn from(text: &'static str) -> Self {
        Self::Bulk(Bytes::from_static(text.as_bytes()))
    }
}

/// Writes a reply to the end of `out`.
pub fn put_value(value: &Value, protocol: Protocol, out: &mut BytesMut) {
    let _ = (value, protocol, out);
    unimplemented!("comes with the next commit")
}

/// Writes a command as a client sends it to the end of `out`: an array of bulk strings.
pub fn put_command(args: &[&[u8]], out: &mut BytesMut) {
    let _ = (args, out);
    unimplemented!("comes with the next commit")
}
