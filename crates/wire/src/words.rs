//! The fields of a message, written: as bulk strings, or as words of a text.
//!
//! Every field is one word. A list is one word with commas, nothing is `-`. The record, which may
//! contain any byte, is always the last.

use std::fmt::Write;
use std::time::Duration;

use bytes::BytesMut;
use lockspan_protocol::{
    Annotation, Epoch, GroupSet, Handoff, Holder, LocalWait, Mode, Owner, Record, Seq, SessionId,
    Term,
};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::value::{put_bulk, put_head};

/// Where the words of a message go.
pub(crate) trait Words {
    /// The message is of this kind, and has so many fields.
    fn begin(&mut self, kind: &str, fields: usize);
    /// The next field.
    fn word(&mut self, word: &[u8]);

    fn number(&mut self, number: u64) {
        self.word(Digits::of(number).as_bytes());
    }

    /// A token or a ticket, which are never negative.
    fn packed(&mut self, number: i64) {
        self.number(number.unsigned_abs());
    }

    fn epoch(&mut self, epoch: Epoch) {
        self.number(epoch.number().into());
    }

    fn keep(&mut self, keep: Option<Seq>) {
        match keep {
            Some(seq) => self.number(seq.0),
            None => self.word(b"-"),
        }
    }

    fn mode(&mut self, mode: Option<Mode>) {
        self.word(mode.map_or("-", mode_word).as_bytes());
    }

    fn flag(&mut self, flag: bool) {
        self.word(if flag { b"1" } else { b"0" });
    }

    fn owners(&mut self, owners: &[Owner]) {
        self.list(owners, ",", |owner, text| write!(text, "{}", owner.0));
    }

    fn waits(&mut self, waits: &[LocalWait]) {
        self.list(waits, ",", |wait, text| write!(text, "{}>{}", wait.waiter.0, wait.holder.0));
    }

    fn groups(&mut self, groups: GroupSet) {
        self.word(groups_word(groups).as_bytes());
    }

    fn terms(&mut self, terms: &[Term]) {
        self.list(terms, ";", |term, text| {
            write!(text, "{}@{}", groups_word(term.groups), term.epoch.number())
        });
    }

    fn holders(&mut self, holders: &[Holder]) {
        self.list(holders, ";", |Holder { label, note, mode, held }, text| {
            write!(text, "{},{},", mode_word(*mode), millis_word(*held))?;
            write!(text, "{},{}", escaped(label), note.as_ref().map_or_else(|| "-".into(), escaped))
        });
    }

    fn duration(&mut self, duration: Duration) {
        self.word(millis_word(duration).as_bytes());
    }

    fn record(&mut self, record: &Record) {
        self.word(record.as_bytes());
    }

    fn list<T>(
        &mut self,
        items: &[T],
        separator: &str,
        put: impl Fn(&T, &mut String) -> std::fmt::Result,
    ) {
        if items.is_empty() {
            return self.word(b"-");
        }
        let mut text = String::new();
        for item in items {
            if !text.is_empty() {
                text.push_str(separator);
            }
            put(item, &mut text).expect("a string takes everything");
        }
        self.word(text.as_bytes());
    }
}

/// A list of bulk strings: who speaks, the session, the kind, the fields.
pub(crate) struct Bulks<'a> {
    /// The kind of list: `*` or `>`.
    pub(crate) head: u8,
    /// The first element.
    pub(crate) speaker: &'static str,
    pub(crate) session: SessionId,
    pub(crate) out: &'a mut BytesMut,
    frame: Frame,
}

/// The beginning of a frame, before it goes to its buffer in one piece.
struct Frame {
    bytes: [u8; 192],
    len: usize,
}

impl Frame {
    /// A bulk string, if there is room for it.
    #[inline]
    fn put(&mut self, word: &[u8]) -> bool {
        let Ok(digit @ 0..=9) = u8::try_from(word.len()) else { return self.put_long(word) };
        let end = self.len + word.len() + 6;
        let Some(room) = self.bytes.get_mut(self.len..end) else { return false };
        room[..4].copy_from_slice(&[b'$', b'0' + digit, b'\r', b'\n']);
        room[4..4 + word.len()].copy_from_slice(word);
        room[4 + word.len()..].copy_from_slice(b"\r\n");
        self.len = end;
        true
    }

    /// One of two digits.
    fn put_long(&mut self, word: &[u8]) -> bool {
        let Ok(len @ 10..=99) = u8::try_from(word.len()) else { return false };
        let end = self.len + word.len() + 7;
        let Some(room) = self.bytes.get_mut(self.len..end) else { return false };
        room[..5].copy_from_slice(&[b'$', b'0' + len / 10, b'0' + len % 10, b'\r', b'\n']);
        room[5..5 + word.len()].copy_from_slice(word);
        room[5 + word.len()..].copy_from_slice(b"\r\n");
        self.len = end;
        true
    }
}

impl<'a> Bulks<'a> {
    pub(crate) fn new(
        head: u8,
        speaker: &'static str,
        session: SessionId,
        out: &'a mut BytesMut,
    ) -> Self {
        Self { head, speaker, session, out, frame: Frame { bytes: [0; 192], len: 0 } }
    }

    /// What was put goes to the buffer.
    pub(crate) fn finish(&mut self) {
        self.out.extend_from_slice(&self.frame.bytes[..self.frame.len]);
        self.frame.len = 0;
    }
}

impl Words for Bulks<'_> {
    fn begin(&mut self, kind: &str, fields: usize) {
        self.finish();
        put_head(self.head, fields + 3, self.out);
        self.word(self.speaker.as_bytes());
        self.number(self.session.0);
        self.word(kind.as_bytes());
    }

    #[inline]
    fn word(&mut self, word: &[u8]) {
        if !self.frame.put(word) {
            self.finish();
            put_bulk(word, self.out);
        }
    }
}

/// Words with a space between them.
#[derive(Default)]
pub(crate) struct Text(pub(crate) Vec<u8>);

impl Words for Text {
    fn begin(&mut self, kind: &str, _: usize) {
        self.0.extend_from_slice(kind.as_bytes());
    }

    fn word(&mut self, word: &[u8]) {
        self.0.push(b' ');
        self.0.extend_from_slice(word);
    }
}

/// A number in decimal, without an allocation.
pub(crate) struct Digits {
    bytes: [u8; 24],
    start: usize,
}

impl Digits {
    #[inline]
    pub(crate) fn of(number: u64) -> Self {
        const EIGHT: u64 = 100_000_000;
        let mut bytes = [b'0'; 24];
        // Eight at a time; the first eight that are not zeros say where it begins.
        let (mut start, mut rest) = (24, number);
        loop {
            let eight = eight_digits((rest % EIGHT) as u32);
            rest /= EIGHT;
            start -= 8;
            bytes[start..start + 8].copy_from_slice(&(eight + ZEROS).to_le_bytes());
            if rest == 0 {
                // A zero has one digit too.
                start += (eight.trailing_zeros() / 8).min(7) as usize;
                return Self { bytes, start };
            }
        }
    }

    #[inline]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

const ZEROS: u64 = u64::from_le_bytes([b'0'; 8]);

/// The digits of a number below 10^8, the first in the lowest byte: it is divided into fours, those
/// into pairs, those into digits, all parts of a kind at once.
#[inline]
fn eight_digits(number: u32) -> u64 {
    let fours = u64::from(number / 10_000) | (u64::from(number % 10_000) << 32);
    let hundreds = ((fours * 10_486) >> 20) & 0x0000_007F_0000_007F;
    let pairs = hundreds | ((fours - hundreds * 100) << 16);
    let tens = ((pairs * 103) >> 10) & 0x000F_000F_000F_000F;
    tens | ((pairs - tens * 10) << 8)
}

/// A text as one word, without spaces, commas and semicolons: what is not a letter, a digit or `._`
/// is percent-encoded.
pub(crate) fn escaped(text: &Annotation) -> String {
    const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'.').remove(b'_');
    utf8_percent_encode(text.as_str(), ESCAPED).to_string()
}

/// `R` or `W`.
pub(crate) fn mode_word(mode: Mode) -> &'static str {
    match mode {
        Mode::Read => "R",
        Mode::Write => "W",
        _ => newer(&mode),
    }
}

pub(crate) fn handoff_word(handoff: Handoff) -> &'static str {
    match handoff {
        Handoff::Direct => "direct",
        Handoff::Retry => "retry",
    }
}

fn groups_word(groups: GroupSet) -> String {
    if groups.is_empty() { "-".to_owned() } else { groups.to_string() }
}

/// Milliseconds, exact: `1500`, `0.25`.
pub(crate) fn millis_word(duration: Duration) -> String {
    let (millis, nanos) = (duration.as_millis(), duration.subsec_nanos() % 1_000_000);
    if nanos == 0 {
        return millis.to_string();
    }
    let text = format!("{millis}.{nanos:06}");
    text.trim_end_matches('0').to_owned()
}

/// The protocol's enums may grow. All that there is today is matched; whoever adds to them adds it
/// here, and the round trips of the tests tell.
pub(crate) fn newer(what: &dyn std::fmt::Debug) -> ! {
    unreachable!("this version can't write {what:?}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn is_right(number: u64) -> bool {
        Digits::of(number).as_bytes() == number.to_string().as_bytes()
    }

    #[test]
    fn numbers_around_every_change_of_length_are_written() {
        for length in 0..20 {
            let power = 10_u64.pow(length);
            for number in [power - 1, power, power + 1, power.wrapping_mul(9)] {
                assert!(is_right(number), "{number}");
            }
        }
        assert!(is_right(u64::MAX));
        assert!((0..=99_999).chain(99_900_000..=100_100_000).all(is_right));
    }

    proptest! {
        #[test]
        fn numbers_are_written(number in any::<u64>(), length in 0..64_u32) {
            prop_assert!(is_right(number >> length));
        }
    }
}
