//! From bytes to a command: which words it has, and what they mean.

use bytes::{Buf, BytesMut};
use redis_protocol::resp2::decode::decode_range;
use redis_protocol::resp2::types::RangeFrame;
use zeroize::Zeroize as _;

use super::{Command, catalog, inline};
use crate::error::{CommandError, WireError};
use crate::gate::{self, Few, Found};
use crate::hot;
use crate::limits::WireLimits;

/// Takes the next command from `buf`: an array of bulk strings, or a line of text. `None`: it is
/// not all there yet, and nothing was taken. The inner error is an error reply.
pub fn take_command(
    buf: &mut BytesMut,
    limits: &WireLimits,
) -> Result<Option<Result<Command, CommandError>>, WireError> {
    if let Some((len, session, message)) = hot::tell(buf, limits) {
        buf.advance(len);
        return Ok(Some(Ok(Command::Tell { session, message })));
    }
    take_long(buf, limits)
}

/// The same, the long way.
pub(crate) fn take_long(
    buf: &mut BytesMut,
    limits: &WireLimits,
) -> Result<Option<Result<Command, CommandError>>, WireError> {
    loop {
        let (len, command) = match buf.first() {
            None => return Ok(None),
            Some(b'*') => {
                let mut few: Few<'_> = Default::default();
                match gate::bulks(buf, limits, &mut few)? {
                    None => return Ok(None),
                    Some(Found::Bulks { len, count }) => {
                        (len, (count > 0).then(|| of_words(&buf[..len], &few, count)))
                    }
                    Some(Found::Other(element, kind)) => return Err(not_bulk(element, kind)),
                }
            }
            Some(&first) => {
                let Some(newline) = line(buf, first, limits)? else { return Ok(None) };
                (newline + 1, of_line(&buf[..newline], limits)?)
            }
        };
        if command.as_ref().is_some_and(may_hold_password) {
            buf[..len].zeroize();
        }
        buf.advance(len);
        // An empty line or list asks for nothing.
        if command.is_some() {
            return Ok(command);
        }
    }
}

/// Whether the frame of this command has to be overwritten. One that can't be read may be a login
/// with a typing error.
fn may_hold_password(command: &Result<Command, CommandError>) -> bool {
    matches!(command, Err(_) | Ok(Command::Auth { .. } | Command::Hello { auth: Some(_), .. }))
}

fn not_bulk(element: usize, kind: u8) -> WireError {
    WireError::new(format!(
        "element {element} of a command begins with {}, but all must be bulk strings ('$')",
        gate::shown(kind)
    ))
}

/// Reads what the gate has let in.
fn of_words(frame: &[u8], few: &Few<'_>, count: usize) -> Result<Command, CommandError> {
    match few.get(..count) {
        Some(words) => catalog::parse(words),
        None => catalog::parse(&decoded(frame)),
    }
}

/// The words of a command of any length.
fn decoded(frame: &[u8]) -> Vec<&[u8]> {
    let words = match decode_range(frame) {
        Ok(Some((RangeFrame::Array(words), _))) => words,
        _ => Vec::new(),
    };
    let word = |range: &RangeFrame| match range {
        RangeFrame::BulkString((start, end)) => &frame[*start..*end],
        _ => &[],
    };
    words.iter().map(word).collect()
}

/// Where the line ends.
fn line(buf: &[u8], first: u8, limits: &WireLimits) -> Result<Option<usize>, WireError> {
    if !(first.is_ascii_whitespace() || first.is_ascii_alphanumeric() || b"\"'".contains(&first)) {
        return Err(WireError::new(format!(
            "a command must begin with '*' or be a line of text, but this begins with {}{}",
            gate::shown(first),
            if first == 0x16 { " (this port does not use TLS)" } else { "" }
        )));
    }
    let max = gate::LINE_MAX.min(limits.frame);
    let newline = buf.iter().take(max).position(|&byte| byte == b'\n');
    if newline.is_none() && buf.len() >= max {
        return Err(WireError::new(format!(
            "a line of text is longer than the maximum of {max} bytes"
        )));
    }
    Ok(newline)
}

type Line = Option<Result<Command, CommandError>>;

fn of_line(line: &[u8], limits: &WireLimits) -> Result<Line, WireError> {
    let Ok(words) = inline::split(line) else {
        return Ok(Some(Err(CommandError::bad(
            "unbalanced quotes: a quoted word must be closed, and a space must follow it",
        ))));
    };
    let Some(name) = words.first() else { return Ok(None) };
    // A web page can make a browser send lines to us: they must not be taken for commands.
    if name.eq_ignore_ascii_case(b"POST") || name.eq_ignore_ascii_case(b"Host:") {
        return Err(WireError::new("this is HTTP, but this port speaks RESP"));
    }
    if words.len() > limits.args {
        let (args, max) = (words.len(), limits.args);
        return Err(WireError::new(format!(
            "a command has {args} arguments, and the maximum is {max}"
        )));
    }
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_slice()).collect();
    Ok(Some(catalog::parse(&words)))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::value::put_command;

    proptest! {
        /// The gate's short way and the crate's long one see the same words.
        #[test]
        fn few_words_are_those_that_the_crate_decodes(
            words in vec(vec(any::<u8>(), 0..80), 0..=gate::FEW),
            more in vec(any::<u8>(), 0..20),
        ) {
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            let mut buf = BytesMut::new();
            put_command(&words, &mut buf);
            let len = buf.len();
            buf.extend_from_slice(&more);
            let mut few: Few<'_> = Default::default();
            let found = gate::bulks(&buf, &WireLimits::default(), &mut few).unwrap().unwrap();
            prop_assert_eq!(found, Found::Bulks { len, count: words.len() });
            prop_assert_eq!(&few[..words.len()], &words);
            prop_assert_eq!(decoded(&buf[..len]), words);
        }
    }
}
