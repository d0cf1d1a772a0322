//! From bytes to a command: which words it has, and what they mean.

use bytes::{Buf, BytesMut};
use redis_protocol::resp2::decode::decode_range;
use redis_protocol::resp2::types::RangeFrame;

use super::{Command, catalog, inline};
use crate::error::{CommandError, WireError};
use crate::gate;
use crate::limits::WireLimits;

/// Takes the next command from `buf`: an array of bulk strings, or a line of text. `None`: it is
/// not all there yet, and nothing was taken. The inner error is an error reply.
pub fn take_command(
    buf: &mut BytesMut,
    limits: &WireLimits,
) -> Result<Option<Result<Command, CommandError>>, WireError> {
    loop {
        let (len, command) = match buf.first() {
            None => return Ok(None),
            Some(b'*') => {
                let Some((len, args)) = gate::command(buf, limits)? else { return Ok(None) };
                (len, (args > 0).then(|| of_frame(&buf[..len])))
            }
            Some(&first) => {
                let Some(newline) = line(buf, first, limits)? else { return Ok(None) };
                (newline + 1, of_line(&buf[..newline], limits)?)
            }
        };
        buf.advance(len);
        // An empty line or list asks for nothing.
        if command.is_some() {
            return Ok(command);
        }
    }
}

/// Reads what the gate has let in.
fn of_frame(frame: &[u8]) -> Result<Command, CommandError> {
    let words = match decode_range(frame) {
        Ok(Some((RangeFrame::Array(words), _))) => words,
        _ => return Err(CommandError::bad("a command must be a list of bulk strings")),
    };
    let word = |range: &RangeFrame| match range {
        RangeFrame::BulkString((start, end)) => &frame[*start..*end],
        _ => &[],
    };
    const FEW: usize = 12;
    if words.len() <= FEW {
        let mut few: [&[u8]; FEW] = [&[]; FEW];
        few.iter_mut().zip(&words).for_each(|(slot, range)| *slot = word(range));
        return catalog::parse(&few[..words.len()]);
    }
    let many: Vec<&[u8]> = words.iter().map(word).collect();
    catalog::parse(&many)
}

/// Where the line ends.
fn line(buf: &[u8], first: u8, limits: &WireLimits) -> Result<Option<usize>, WireError> {
    if !(first.is_ascii_whitespace() || first.is_ascii_alphanumeric() || b"\"'".contains(&first)) {
        return Err(WireError::new(format!(
            "a command begins with '*' or is a line of text, and this begins with {}{}",
            gate::shown(first),
            if first == 0x16 { " (TLS is not spoken here)" } else { "" }
        )));
    }
    let max = gate::LINE_MAX.min(limits.frame);
    let newline = buf.iter().take(max).position(|&byte| byte == b'\n');
    if newline.is_none() && buf.len() >= max {
        return Err(WireError::new(format!("a line of text does not end within {max} bytes")));
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
        return Err(WireError::new("this is HTTP, and RESP is spoken here"));
    }
    if words.len() > limits.args {
        let (args, max) = (words.len(), limits.args);
        return Err(WireError::new(format!(
            "a command of {args} arguments, and at most {max} are allowed"
        )));
    }
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    Ok(Some(catalog::parse(&words)))
}
