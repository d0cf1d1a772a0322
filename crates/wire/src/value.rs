//! Replies: a value, and its bytes in RESP2 and RESP3.
//!
//! The heads of lists are ours, so that a map keeps its order; everything else is written and read
//! by the crate `redis-protocol`.

use bytes::{Bytes, BytesMut};
use redis_protocol::resp2;
use redis_protocol::resp3;

use crate::error::{CommandError, ErrorCode, WireError};
use crate::limits::Protocol;
use crate::words::Digits;

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
    pub const OK: Self = Self::status("OK");

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
    let list = |kind3, values: &[Value], out: &mut BytesMut| {
        put_head(if protocol == Protocol::Resp3 { kind3 } else { b'*' }, values.len(), out);
        values.iter().for_each(|value| put_value(value, protocol, out));
    };
    match value {
        Value::Array(values) => list(b'*', values, out),
        Value::Push(values) => list(b'>', values, out),
        Value::Map(pairs) => {
            match protocol {
                Protocol::Resp3 => put_head(b'%', pairs.len(), out),
                Protocol::Resp2 => put_head(b'*', pairs.len() * 2, out),
            }
            for (key, value) in pairs {
                put_value(key, protocol, out);
                put_value(value, protocol, out);
            }
        }
        Value::Null if protocol == Protocol::Resp3 => put3(&resp3::types::BorrowedFrame::Null, out),
        Value::Null => put2(&resp2::types::BorrowedFrame::Null, out),
        Value::Bool(data) if protocol == Protocol::Resp3 => {
            put3(&resp3::types::BorrowedFrame::Boolean { data: *data, attributes: None }, out);
        }
        Value::Bool(data) => put2(&resp2::types::BorrowedFrame::Integer((*data).into()), out),
        Value::Int(number) => put2(&resp2::types::BorrowedFrame::Integer(*number), out),
        Value::Status(word) => {
            let word = one_line(String::from_utf8_lossy(word).into_owned());
            put2(&resp2::types::BorrowedFrame::SimpleString(word.as_bytes()), out);
        }
        Value::Bulk(bytes) => put_bulk(bytes, out),
        Value::Error { code, text } => {
            let text = one_line(format!("{code} {text}"));
            put2(&resp2::types::BorrowedFrame::Error(&text), out);
        }
    }
}

/// Writes a command as a client sends it to the end of `out`: an array of bulk strings.
pub fn put_command(args: &[&[u8]], out: &mut BytesMut) {
    put_head(b'*', args.len(), out);
    args.iter().for_each(|arg| put_bulk(arg, out));
}

/// A kind and a length: of a list of so many elements, of a string of so many bytes.
pub(crate) fn put_head(kind: u8, len: usize, out: &mut BytesMut) {
    if let Ok(digit @ 0..=9) = u8::try_from(len) {
        out.extend_from_slice(&[kind, b'0' + digit, b'\r', b'\n']);
        return;
    }
    out.extend_from_slice(&[kind]);
    out.extend_from_slice(Digits::of(len as u64).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// A bulk string. Messages are made of nothing else, so this does not go through the crate, which
/// takes twice as long; a test holds the two together.
pub(crate) fn put_bulk(bytes: &[u8], out: &mut BytesMut) {
    out.reserve(bytes.len() + 25);
    put_head(b'$', bytes.len(), out);
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// What both versions write alike, and what RESP2 writes in its own way. The crate makes room for
/// one digit too many just below a great power of ten: what it did not fill is cut off.
fn put2(frame: &resp2::types::BorrowedFrame<'_>, out: &mut BytesMut) {
    let end = resp2::encode::extend_encode_borrowed(out, frame, false);
    out.truncate(end.expect("room is made for all that is written"));
}

fn put3(frame: &resp3::types::BorrowedFrame<'_>, out: &mut BytesMut) {
    let end = resp3::encode::complete::extend_encode_borrowed(out, frame, false);
    out.truncate(end.expect("room is made for all that is written"));
}

/// A status and an error end with their line.
fn one_line(text: String) -> String {
    if text.contains(['\r', '\n']) { text.replace(['\r', '\n'], " ") } else { text }
}

/// Reads what the gate has let in: one value, all of it.
pub(crate) fn read(frame: &Bytes) -> Result<Value, WireError> {
    Values { frame, at: 0 }.next()
}

struct Values<'a> {
    frame: &'a Bytes,
    at: usize,
}

impl Values<'_> {
    fn next(&mut self) -> Result<Value, WireError> {
        match self.frame.get(self.at) {
            Some(b'*' | b'~') => Ok(Value::Array(self.list()?)),
            Some(b'>') => Ok(Value::Push(self.list()?)),
            Some(b'%') => {
                let pairs = self.head()?;
                (0..pairs)
                    .map(|_| Ok((self.next()?, self.next()?)))
                    .collect::<Result<_, _>>()
                    .map(Value::Map)
            }
            _ => self.leaf(),
        }
    }

    fn list(&mut self) -> Result<Vec<Value>, WireError> {
        let elements = self.head()?;
        (0..elements).map(|_| self.next()).collect()
    }

    /// The number of elements of a list.
    fn head(&mut self) -> Result<usize, WireError> {
        let rest = &self.frame[self.at + 1..];
        let end = rest.iter().position(|&byte| byte == b'\r').ok_or_else(cut_off)?;
        self.at += end + 3;
        let digits = std::str::from_utf8(&rest[..end]).ok().and_then(|text| text.parse().ok());
        digits.ok_or_else(cut_off)
    }

    fn leaf(&mut self) -> Result<Value, WireError> {
        use resp3::types::RangeFrame as Frame;
        let start = self.at;
        let rest = &self.frame[start..];
        let (frame, len) = resp3::decode::complete::decode_range(rest)
            .map_err(|error| WireError::new(format!("a reply: {}", error.details())))?
            .ok_or_else(cut_off)?;
        self.at += len;
        let bytes = |(from, to): (usize, usize)| self.frame.slice(start + from..start + to);
        Ok(match frame {
            Frame::Null => Value::Null,
            Frame::Boolean { data, .. } => Value::Bool(data),
            Frame::Number { data, .. } => Value::Int(data),
            Frame::SimpleString { data, .. } => Value::Status(bytes(data)),
            Frame::BlobString { data, .. }
            | Frame::VerbatimString { data, .. }
            | Frame::BigNumber { data, .. } => Value::Bulk(bytes(data)),
            // As it was written: we never compute with one.
            Frame::Double { .. } => Value::Bulk(bytes((1, len - 2))),
            Frame::SimpleError { data, .. } | Frame::BlobError { data, .. } => {
                error(&String::from_utf8_lossy(&bytes(data)))
            }
            _ => return Err(WireError::new("a reply of an unknown type")),
        })
    }
}

fn error(line: &str) -> Value {
    let (code, text) = line.split_once(' ').unwrap_or((line, ""));
    Value::Error { code: ErrorCode::of(code), text: text.to_owned() }
}

fn cut_off() -> WireError {
    WireError::new("a reply is cut off")
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_bulk_string_is_what_the_crate_writes(bytes in vec(any::<u8>(), 0..2000)) {
            let (mut ours, mut theirs) = (BytesMut::from("+"), BytesMut::from("+"));
            put_bulk(&bytes, &mut ours);
            put2(&resp2::types::BorrowedFrame::BulkString(&bytes), &mut theirs);
            prop_assert_eq!(ours, theirs);
        }
    }
}
