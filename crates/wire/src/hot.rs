//! The frames that nearly all are, read and written in one go: an acquire of nobody in particular,
//! a release of all, a grant that nobody wants back.
//!
//! Whatever is not exactly one of them, not all there, or beyond the limits, is none here: then the
//! long way reads or writes it, or says what is wrong with it. Tests hold the two together.

use bytes::BytesMut;
use lockspan_protocol::{Epoch, Mode, Record, Seq, SessionId, ToNode, ToServer, Token};

use crate::limits::WireLimits;
use crate::read::number;
use crate::words::Digits;

/// What was found, and the length of its frame.
type Found<T> = Option<(usize, SessionId, T)>;

/// An acquire or a release at the start of `buf`.
pub(crate) fn tell(buf: &[u8], limits: &WireLimits) -> Found<ToServer> {
    let mut rest = Rest(buf);
    rest.pass(b"*")?;
    let is_acquire = match rest.0.first()? {
        b'9' => true,
        b'6' => false,
        _ => return None,
    };
    rest.0 = &rest.0[1..];
    rest.pass(b"\r\n$7\r\nLS.TELL\r\n")?;
    let session = SessionId(rest.number()?);
    let message = if is_acquire {
        rest.pass(b"$7\r\nacquire\r\n")?;
        let mode = rest.mode()?;
        let seq = Seq(rest.number()?);
        let epoch = Epoch::new(rest.number()?.try_into().ok()?)?;
        rest.pass(b"$1\r\n0\r\n$1\r\n-\r\n")?;
        ToServer::Acquire {
            record: rest.record()?,
            mode,
            seq,
            epoch,
            upgrade: false,
            owners: Vec::new(),
        }
    } else {
        rest.pass(b"$7\r\nrelease\r\n")?;
        let seq = Seq(rest.number()?);
        rest.pass(b"$1\r\n-\r\n")?;
        ToServer::Release { record: rest.record()?, seq, keep: None }
    };
    let words = if is_acquire { 9 } else { 6 };
    rest.found(buf, words, limits).map(|len| (len, session, message))
}

/// A grant at the start of `buf`.
pub(crate) fn granted(buf: &[u8], limits: &WireLimits) -> Found<ToNode> {
    let mut rest = Rest(buf);
    rest.pass(b">8\r\n$8\r\nlockspan\r\n")?;
    let session = SessionId(rest.number()?);
    rest.pass(b"$7\r\ngranted\r\n")?;
    let seq = Seq(rest.number()?);
    let mode = rest.mode()?;
    let token = Token::from_number(rest.number()?.try_into().ok()?)?;
    rest.pass(b"$1\r\n-\r\n")?;
    let record = rest.record()?;
    let message = ToNode::Granted { record, seq, mode, token, give_back: None };
    rest.found(buf, 8, limits).map(|len| (len, session, message))
}

/// Writes an acquire or a release to the end of `out`, if it is one of those.
pub(crate) fn put_tell(session: SessionId, message: &ToServer, out: &mut BytesMut) -> bool {
    let mut frame = Frame::new();
    let record = match message {
        ToServer::Acquire { record, mode, seq, epoch, upgrade: false, owners }
            if owners.is_empty() =>
        {
            frame.put(b"*9\r\n$7\r\nLS.TELL\r\n");
            frame.number(session.0);
            match mode {
                Mode::Read => frame.put(b"$7\r\nacquire\r\n$1\r\nR\r\n"),
                Mode::Write => frame.put(b"$7\r\nacquire\r\n$1\r\nW\r\n"),
                _ => return false,
            }
            frame.number(seq.0);
            frame.number(epoch.number().into());
            frame.put(b"$1\r\n0\r\n$1\r\n-\r\n");
            record
        }
        ToServer::Release { record, seq, keep: None } => {
            frame.put(b"*6\r\n$7\r\nLS.TELL\r\n");
            frame.number(session.0);
            frame.put(b"$7\r\nrelease\r\n");
            frame.number(seq.0);
            frame.put(b"$1\r\n-\r\n");
            record
        }
        _ => return false,
    };
    frame.finish(record, out)
}

/// Writes a grant to the end of `out`, as a push, if it is one of those.
pub(crate) fn put_granted(session: SessionId, message: &ToNode, out: &mut BytesMut) -> bool {
    let ToNode::Granted { record, seq, mode, token, give_back: None } = message else {
        return false;
    };
    let mut frame = Frame::new();
    frame.put(b">8\r\n$8\r\nlockspan\r\n");
    frame.number(session.0);
    frame.put(b"$7\r\ngranted\r\n");
    frame.number(seq.0);
    match mode {
        Mode::Read => frame.put(b"$1\r\nR\r\n"),
        Mode::Write => frame.put(b"$1\r\nW\r\n"),
        _ => return false,
    }
    // A token is never negative.
    frame.number(token.number().unsigned_abs());
    frame.put(b"$1\r\n-\r\n");
    frame.finish(record, out)
}

/// Names up to this are written here.
const NAME: usize = 99;

/// A frame before it goes to its buffer in one piece. There is room for all that is written here:
/// at most 76 bytes of words, three numbers of 27, and a name of 106.
struct Frame {
    bytes: [u8; 264],
    len: usize,
}

impl Frame {
    #[inline(always)]
    fn new() -> Self {
        Self { bytes: [0; 264], len: 0 }
    }

    #[inline(always)]
    fn put(&mut self, words: &[u8]) {
        self.bytes[self.len..self.len + words.len()].copy_from_slice(words);
        self.len += words.len();
    }

    /// A number, as a string.
    #[inline(always)]
    fn number(&mut self, number: u64) {
        self.bulk(Digits::of(number).as_bytes());
    }

    /// A string of less than a hundred bytes.
    #[inline(always)]
    fn bulk(&mut self, word: &[u8]) {
        let len = word.len() as u8;
        if len < 10 {
            self.put(&[b'$', b'0' + len, b'\r', b'\n']);
        } else {
            self.put(&[b'$', b'0' + len / 10, b'0' + len % 10, b'\r', b'\n']);
        }
        self.put(word);
        self.put(b"\r\n");
    }

    /// The record is the last; false, and nothing is written, if its name is too long.
    #[inline(always)]
    fn finish(mut self, record: &Record, out: &mut BytesMut) -> bool {
        let name = record.as_bytes();
        if name.len() > NAME {
            return false;
        }
        self.bulk(name);
        out.extend_from_slice(&self.bytes[..self.len]);
        true
    }
}

/// What is not read yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    /// Exactly this.
    #[inline(always)]
    fn pass<const N: usize>(&mut self, words: &[u8; N]) -> Option<()> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        (first == words).then_some(())
    }

    /// A string of less than a hundred bytes.
    #[inline(always)]
    fn bulk(&mut self) -> Option<&'a [u8]> {
        let (len, rest) = match self.0 {
            [b'$', ones @ b'0'..=b'9', b'\r', b'\n', rest @ ..] => (usize::from(ones - b'0'), rest),
            [b'$', tens @ b'0'..=b'9', ones @ b'0'..=b'9', b'\r', b'\n', rest @ ..] => {
                (usize::from(tens - b'0') * 10 + usize::from(ones - b'0'), rest)
            }
            _ => return None,
        };
        let (word, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        self.pass(b"\r\n")?;
        Some(word)
    }

    #[inline(always)]
    fn number(&mut self) -> Option<u64> {
        number(self.bulk()?)
    }

    #[inline(always)]
    fn mode(&mut self) -> Option<Mode> {
        let (word, rest) = self.0.split_first_chunk::<7>()?;
        self.0 = rest;
        match word {
            b"$1\r\nR\r\n" => Some(Mode::Read),
            b"$1\r\nW\r\n" => Some(Mode::Write),
            _ => None,
        }
    }

    #[inline(always)]
    fn record(&mut self) -> Option<Record> {
        Record::parse(self.bulk()?).ok()
    }

    /// The length of a frame of so many words that ends here, if there may be such a one.
    #[inline(always)]
    fn found(&self, buf: &[u8], words: usize, limits: &WireLimits) -> Option<usize> {
        let len = buf.len() - self.0.len();
        (len <= limits.frame && words <= limits.args).then_some(len)
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use proptest::prelude::*;

    use super::*;
    use crate::tell::put_long_tell;
    use crate::{Command, Event, EventStyle, FromServer};
    use crate::{command::take_long, event::put_long_event, event::take_long_from_server};

    fn record() -> impl Strategy<Value = Record> {
        proptest::collection::vec(any::<u8>(), 1..120).prop_map(|id| Record::new("d", id).unwrap())
    }

    fn mode() -> impl Strategy<Value = Mode> {
        prop_oneof![Just(Mode::Read), Just(Mode::Write)]
    }

    /// What both ways make of the same bytes, at any length and with any one byte changed.
    fn agree<T: PartialEq + std::fmt::Debug>(
        mut frame: Vec<u8>,
        (cut, at, byte): (usize, usize, Option<u8>),
        short: impl Fn(&[u8], &WireLimits) -> Option<T>,
        long: impl Fn(&[u8], &WireLimits) -> Option<T>,
    ) -> Result<(), TestCaseError> {
        let limits = WireLimits::default();
        let whole = frame.len();
        let at = at % whole;
        frame[at] = byte.unwrap_or(frame[at]);
        frame.extend_from_slice(b"*1\r\n");
        let frame = &frame[..whole + 4 - cut % (whole + 4)];
        if let Some(found) = short(frame, &limits) {
            prop_assert_eq!(Some(found), long(frame, &limits));
            let tight = WireLimits { frame: 20, ..limits };
            prop_assert_eq!(short(frame, &tight), None);
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn tells_are_read_alike(
            (session, seq, epoch) in (any::<u64>(), any::<u64>(), 0_u32..1 << 23),
            (record, mode, is_acquire) in (record(), mode(), any::<bool>()),
            change in (0_usize..4, any::<usize>(), any::<Option<u8>>()),
        ) {
            let is_short = record.as_bytes().len() < 100;
            let (session, seq, epoch) = (SessionId(session), Seq(seq), Epoch::new(epoch).unwrap());
            let message = if is_acquire {
                let (upgrade, owners) = (false, Vec::new());
                ToServer::Acquire { record, mode, seq, epoch, upgrade, owners }
            } else {
                ToServer::Release { record, seq, keep: None }
            };
            let mut frame = BytesMut::new();
            put_long_tell(session, &message, &mut frame);
            let mut short = BytesMut::new();
            prop_assert_eq!(super::put_tell(session, &message, &mut short), is_short);
            prop_assert_eq!(&short[..], if is_short { &frame[..] } else { &[] });
            if is_short {
                prop_assert_eq!(
                    tell(&frame, &WireLimits::default()),
                    Some((frame.len(), session, message))
                );
            }
            agree(frame.to_vec(), change, tell, |buf, limits| {
                let mut left = BytesMut::from(buf);
                match take_long(&mut left, limits) {
                    Ok(Some(Ok(Command::Tell { session, message }))) => {
                        Some((buf.len() - left.len(), session, message))
                    }
                    _ => None,
                }
            })?;
        }

        #[test]
        fn grants_are_read_alike(
            (session, seq, token) in (any::<u64>(), any::<u64>(), 0..i64::MAX),
            (record, mode) in (record(), mode()),
            change in (0_usize..4, any::<usize>(), any::<Option<u8>>()),
        ) {
            let is_short = record.as_bytes().len() < 100;
            let (session, seq) = (SessionId(session), Seq(seq));
            let Some(token) = Token::from_number(token) else { return Ok(()) };
            let message = ToNode::Granted { record, seq, mode, token, give_back: None };
            let mut frame = BytesMut::new();
            let event = Event::Node(message.clone());
            put_long_event(session, &event, EventStyle::Push, &mut frame);
            let mut short = BytesMut::new();
            prop_assert_eq!(put_granted(session, &message, &mut short), is_short);
            prop_assert_eq!(&short[..], if is_short { &frame[..] } else { &[] });
            if is_short {
                prop_assert_eq!(
                    granted(&frame, &WireLimits::default()),
                    Some((frame.len(), session, message))
                );
            }
            agree(frame.to_vec(), change, granted, |buf, limits| {
                let mut left = BytesMut::from(buf);
                match take_long_from_server(&mut left, limits) {
                    Ok(Some(FromServer::Event { session, event: Event::Node(message) })) => {
                        Some((buf.len() - left.len(), session, message))
                    }
                    _ => None,
                }
            })?;
        }
    }
}
