//! The gate: whether a whole frame is there, and whether it may be.
//!
//! It looks at lengths before anybody keeps a byte, so that a peer can neither make us allocate
//! what it only announced, nor nest without end. A frame that is half there costs a step for each
//! of its elements, whatever their size: a large one that trickles in is not read again and again.

use crate::error::WireError;
use crate::limits::WireLimits;

/// A line (a status, an error, a command typed by hand) ends within so many bytes.
pub(crate) const LINE_MAX: usize = 64 << 10;
/// Lists in lists, in what a server sends.
const DEPTH_MAX: usize = 8;
/// The shortest element: `_` and the end of the line.
const ELEMENT_MIN: usize = 3;

/// `None`: not all there yet.
type Seen<T> = Result<Option<T>, WireError>;

/// So many strings are remembered while the gate looks at them: a second reading of the frame costs
/// more than the first.
pub(crate) const FEW: usize = 12;

/// The first strings of a list.
pub(crate) type Few<'a> = [&'a [u8]; FEW];

/// What is at the start of a buffer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// A list of bulk strings: a command, or an event.
    Bulks {
        /// The length of the frame.
        len: usize,
        /// How many strings there are.
        count: usize,
    },
    /// A list whose element with this number is of this kind.
    Other(usize, u8),
}

/// Looks for a list of bulk strings, whatever the kind of list.
pub(crate) fn bulks<'a>(buf: &'a [u8], limits: &WireLimits, few: &mut Few<'a>) -> Seen<Found> {
    let Some((count, mut len)) = length(buf, 0, "a list", limits)? else { return Ok(None) };
    if count > limits.args {
        let max = limits.args;
        return Err(WireError::new(format!(
            "a list has {count} elements, and the maximum is {max}"
        )));
    }
    for index in 0..count {
        let Some(&kind) = buf.get(len) else { return Ok(None) };
        if kind != b'$' {
            return Ok(Some(Found::Other(index + 1, kind)));
        }
        let Some((start, end)) = blob(buf, len, limits)? else { return Ok(None) };
        if let Some(slot) = few.get_mut(index) {
            *slot = &buf[start..end - 2];
        }
        len = end;
    }
    Ok(Some(Found::Bulks { len, count }))
}

/// The length of what a server sent, at the start of `buf`.
pub(crate) fn from_server(buf: &[u8], limits: &WireLimits) -> Seen<usize> {
    // How many elements are still to come, for each list that is open.
    let mut left = [0_usize; DEPTH_MAX];
    let mut depth = 0;
    let mut at = 0;
    loop {
        let Some(&kind) = buf.get(at) else { return Ok(None) };
        let mut elements = 0;
        match kind {
            b'+' | b'-' | b':' | b'#' | b',' | b'(' | b'_' => {
                let Some(end) = line(&buf[at..], limits)? else { return Ok(None) };
                at = fits(at.saturating_add(end), limits)?;
            }
            b'$' | b'=' | b'!' => {
                let Some((_, end)) = blob(buf, at, limits)? else { return Ok(None) };
                at = end;
            }
            b'>' if depth > 0 => return Err(WireError::new("a push inside a list")),
            b'*' | b'~' | b'%' | b'>' => {
                let Some((declared, end)) = length(buf, at, "a list", limits)? else {
                    return Ok(None);
                };
                elements = declared.saturating_mul(if kind == b'%' { 2 } else { 1 });
                fits(end.saturating_add(elements.saturating_mul(ELEMENT_MIN)), limits)?;
                at = end;
            }
            _ => {
                return Err(WireError::new(format!(
                    "a reply begins with {}, which is not a RESP3 type",
                    shown(kind)
                )));
            }
        }
        if elements > 0 {
            if depth == DEPTH_MAX {
                return Err(WireError::new(format!("lists nested more than {DEPTH_MAX} deep")));
            }
            left[depth] = elements;
            depth += 1;
            continue;
        }
        // An element is over, and with it perhaps the lists that it was the last of.
        loop {
            if depth == 0 {
                return Ok(Some(at));
            }
            left[depth - 1] -= 1;
            if left[depth - 1] > 0 {
                break;
            }
            depth -= 1;
        }
    }
}

/// Where the first line of `buf` ends, with its CR LF.
fn line(buf: &[u8], limits: &WireLimits) -> Seen<usize> {
    let max = LINE_MAX.min(limits.frame);
    let seen = &buf[..buf.len().min(max)];
    let mut from = 0;
    while let Some(found) = seen[from..].iter().position(|&byte| byte == b'\n') {
        let newline = from + found;
        if newline > 0 && seen[newline - 1] == b'\r' {
            return Ok(Some(newline + 1));
        }
        from = newline + 1;
    }
    if buf.len() < max {
        return Ok(None);
    }
    Err(WireError::new(format!("a line is longer than the maximum of {max} bytes")))
}

/// Where the bytes of the blob at `at` begin, and where it ends with its CR LF.
#[inline]
fn blob(buf: &[u8], at: usize, limits: &WireLimits) -> Seen<(usize, usize)> {
    let Some((len, start)) = length(buf, at, "a string", limits)? else { return Ok(None) };
    let end = fits(start.saturating_add(len).saturating_add(2), limits)?;
    match buf.get(end - 2..end) {
        Some(b"\r\n") => Ok(Some((start, end))),
        Some(_) => Err(WireError::new(format!("a string is longer than its length {len} says"))),
        None => Ok(None),
    }
}

/// The number after the kind at `at`, and where its line ends.
#[inline]
fn length(buf: &[u8], at: usize, what: &str, limits: &WireLimits) -> Seen<(usize, usize)> {
    let digits = &buf[at + 1..];
    // Nearly all are so short.
    match digits {
        [ones @ b'0'..=b'9', b'\r', b'\n', ..] if limits.frame >= 9 => {
            Ok(Some((usize::from(ones - b'0'), at + 4)))
        }
        [tens @ b'0'..=b'9', ones @ b'0'..=b'9', b'\r', b'\n', ..] if limits.frame >= 99 => {
            Ok(Some((usize::from(tens - b'0') * 10 + usize::from(ones - b'0'), at + 5)))
        }
        _ => long_length(digits, at, what, limits),
    }
}

fn long_length(digits: &[u8], at: usize, what: &str, limits: &WireLimits) -> Seen<(usize, usize)> {
    let mut len = 0_usize;
    for (index, &byte) in digits.iter().enumerate() {
        match byte {
            b'0'..=b'9' => len = len.saturating_mul(10).saturating_add(usize::from(byte - b'0')),
            b'\r' if index > 0 => {
                return match digits.get(index + 1) {
                    Some(b'\n') => Ok(Some((len, at + index + 3))),
                    Some(_) => {
                        Err(WireError::new(format!("the length of {what} must end with CR LF")))
                    }
                    None => Ok(None),
                };
            }
            b'-' if index == 0 => {
                return Err(WireError::new(format!("the length of {what} is negative")));
            }
            _ => {
                return Err(WireError::new(format!(
                    "the length of {what} must be digits, but has {}",
                    shown(byte)
                )));
            }
        }
        if len > limits.frame {
            return Err(WireError::new(format!(
                "the length of {what} is above the maximum of {} bytes per frame",
                limits.frame
            )));
        }
        if index == 20 {
            return Err(WireError::new(format!("the length of {what} has more than 20 digits")));
        }
    }
    Ok(None)
}

/// `len`, if a frame may be so long.
fn fits(len: usize, limits: &WireLimits) -> Result<usize, WireError> {
    if len <= limits.frame {
        return Ok(len);
    }
    let max = limits.frame;
    Err(WireError::new(format!("a frame has {len} bytes or more, and the maximum is {max}")))
}

/// A byte for a person: `'x'` or `'\x16'`.
pub(crate) fn shown(byte: u8) -> String {
    format!("'{}'", byte.escape_ascii())
}
