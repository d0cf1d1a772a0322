//! The fields of a message or a command, read: the way back of [`words`](crate::words).

use std::time::Duration;

use lockspan_protocol::{
    Annotation, Epoch, Group, GroupSet, Handoff, Holder, LocalWait, Mode, Owner, Record, Seq,
    SessionId, Term, Ticket, Token,
};

use crate::error::ErrorCode;
use crate::public::PublicId;

/// What is wrong with a field: what it is, where it stands, what is allowed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bad {
    pub(crate) code: ErrorCode,
    pub(crate) text: String,
}

impl Bad {
    fn new(text: String) -> Self {
        Self { code: ErrorCode::Err, text }
    }
}

const NUMBER: &str = "a whole number from 0 to 18446744073709551615";
const PACKED: &str = "a whole number from 0 to 9223372036854775807";
const EPOCH: &str = "a whole number from 0 to 8388607";
const MODE: &str = "one of R, W";
const OWNERS: &str = "a list of numbers such as 7,8 (or - for none)";
const WAITS: &str = "a list of waits such as 7>8,8>9 (or - for none)";
const GROUPS: &str = "a list of groups from 0 to 255 such as 0-127,200 (or - for none)";
const HOLDERS: &str = "a list of holders such as W,1500,cron%40host,- (or - for none)";
const TERMS: &str = "a list of terms such as 0-127@3;128-255@4 (or - for none)";
/// What a span of time must be.
pub(crate) const MILLIS: &str = "a number of milliseconds such as 1500 or 0.5";

/// Takes one word after the other.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    words: Source<'a>,
    /// What a word is called in messages: `argument` or `field`.
    noun: &'static str,
    /// How many words were taken.
    taken: usize,
}

#[derive(Debug)]
enum Source<'a> {
    List(&'a [&'a [u8]]),
    /// Words with a space between them; `None` past the last.
    Text(Option<&'a [u8]>),
}

impl<'a> Reader<'a> {
    pub(crate) fn list(noun: &'static str, words: &'a [&'a [u8]]) -> Self {
        Self { words: Source::List(words), noun, taken: 0 }
    }

    pub(crate) fn text(noun: &'static str, text: &'a [u8]) -> Self {
        Self { words: Source::Text(Some(text)), noun, taken: 0 }
    }

    /// The next word, if there is one.
    pub(crate) fn next(&mut self) -> Option<&'a [u8]> {
        let word = match &mut self.words {
            Source::List(words) => {
                let (first, rest) = words.split_first()?;
                *words = rest;
                first
            }
            Source::Text(text) => {
                let rest = (*text)?;
                match rest.iter().position(|&byte| byte == b' ') {
                    Some(space) => {
                        *text = Some(&rest[space + 1..]);
                        &rest[..space]
                    }
                    None => text.take()?,
                }
            }
        };
        self.taken += 1;
        Some(word)
    }

    /// The rest: of a text all that follows, spaces and all.
    fn last(&mut self, what: &str) -> Result<&'a [u8], Bad> {
        match &mut self.words {
            Source::List(_) => self.word(what),
            Source::Text(text) => match text.take() {
                Some(rest) => {
                    self.taken += 1;
                    Ok(rest)
                }
                None => Err(self.missing(what)),
            },
        }
    }

    pub(crate) fn word(&mut self, what: &str) -> Result<&'a [u8], Bad> {
        self.next().ok_or_else(|| self.missing(what))
    }

    /// Whether there is no word any more.
    pub(crate) fn is_empty(&self) -> bool {
        match &self.words {
            Source::List(words) => words.is_empty(),
            Source::Text(text) => text.is_none(),
        }
    }

    /// That was all.
    pub(crate) fn end(&mut self) -> Result<(), Bad> {
        match self.next() {
            None => Ok(()),
            Some(word) => Err(Bad::new(format!(
                "unexpected {} at {} {}",
                quoted(word),
                self.noun,
                self.taken
            ))),
        }
    }

    fn missing(&self, what: &str) -> Bad {
        Bad::new(format!("{what} is missing at {} {}", self.noun, self.taken + 1))
    }

    /// The word that was taken last is not what it should be.
    #[cold]
    pub(crate) fn not(&self, what: &str, word: &[u8], allowed: &str) -> Bad {
        let (noun, at) = (self.noun, self.taken);
        Bad::new(format!("{what} {} at {noun} {at} is not {allowed}", quoted(word)))
    }

    /// The next word, as `parse` reads it.
    #[inline]
    pub(crate) fn parsed<T>(
        &mut self,
        what: &str,
        allowed: &str,
        parse: impl FnOnce(&'a [u8]) -> Option<T>,
    ) -> Result<T, Bad> {
        let word = self.word(what)?;
        parse(word).ok_or_else(|| self.not(what, word, allowed))
    }

    /// The value of an option, which may be given once.
    pub(crate) fn once<T>(
        &mut self,
        option: &str,
        value: &mut Option<T>,
        read: impl FnOnce(&mut Self) -> Result<T, Bad>,
    ) -> Result<(), Bad> {
        if value.is_some() {
            let (noun, at) = (self.noun, self.taken);
            return Err(Bad::new(format!("{option} at {noun} {at} was already given")));
        }
        *value = Some(read(self)?);
        Ok(())
    }

    pub(crate) fn number(&mut self, what: &str) -> Result<u64, Bad> {
        self.parsed(what, NUMBER, number)
    }

    pub(crate) fn count(&mut self, what: &str) -> Result<u32, Bad> {
        let allowed = "a whole number from 0 to 4294967295";
        self.parsed(what, allowed, |word| number(word)?.try_into().ok())
    }

    pub(crate) fn session(&mut self, what: &str) -> Result<SessionId, Bad> {
        let word = self.word(what)?;
        number(word).map(SessionId).ok_or_else(|| self.no_session(what, word))
    }

    #[cold]
    fn no_session(&self, what: &str, word: &[u8]) -> Bad {
        if PublicId::read(word).is_none() {
            return self.not(what, word, NUMBER);
        }
        let (noun, at) = (self.noun, self.taken);
        Bad::new(format!(
            "{what} {} at {noun} {at} is a public id, as lists show it, but the secret number that \
             LS.OPEN returned is needed here",
            quoted(word)
        ))
    }

    pub(crate) fn public(&mut self, what: &str) -> Result<PublicId, Bad> {
        let allowed = "a public id such as s4f2a9c01b7e3, as LS.SESSIONS shows it";
        self.parsed(what, allowed, PublicId::read)
    }

    pub(crate) fn seq(&mut self, what: &str) -> Result<Seq, Bad> {
        self.number(what).map(Seq)
    }

    pub(crate) fn optional_seq(&mut self, what: &str) -> Result<Option<Seq>, Bad> {
        let allowed = "a whole number from 0 to 18446744073709551615, or -";
        self.parsed(what, allowed, |word| optional(word, |word| number(word).map(Seq)))
    }

    pub(crate) fn epoch(&mut self, what: &str) -> Result<Epoch, Bad> {
        self.parsed(what, EPOCH, epoch)
    }

    pub(crate) fn token(&mut self, what: &str) -> Result<Token, Bad> {
        self.parsed(what, PACKED, |word| Token::from_number(packed(word)?))
    }

    pub(crate) fn ticket(&mut self, what: &str) -> Result<Ticket, Bad> {
        self.parsed(what, PACKED, ticket)
    }

    pub(crate) fn optional_ticket(&mut self, what: &str) -> Result<Option<Ticket>, Bad> {
        let allowed = "a whole number from 0 to 9223372036854775807, or -";
        self.parsed(what, allowed, |word| optional(word, ticket))
    }

    pub(crate) fn mode(&mut self, what: &str) -> Result<Mode, Bad> {
        self.parsed(what, MODE, mode)
    }

    pub(crate) fn optional_mode(&mut self, what: &str) -> Result<Option<Mode>, Bad> {
        self.parsed(what, "one of R, W, -", |word| optional(word, mode))
    }

    pub(crate) fn flag(&mut self, what: &str) -> Result<bool, Bad> {
        self.parsed(what, "0 or 1", |word| match word {
            b"0" => Some(false),
            b"1" => Some(true),
            _ => None,
        })
    }

    pub(crate) fn handoff(&mut self, what: &str) -> Result<Handoff, Bad> {
        self.parsed(what, "one of direct, retry", |word| {
            if word.eq_ignore_ascii_case(b"direct") {
                Some(Handoff::Direct)
            } else {
                word.eq_ignore_ascii_case(b"retry").then_some(Handoff::Retry)
            }
        })
    }

    pub(crate) fn duration(&mut self, what: &str) -> Result<Duration, Bad> {
        self.parsed(what, MILLIS, duration)
    }

    pub(crate) fn owners(&mut self, what: &str) -> Result<Vec<Owner>, Bad> {
        self.parsed(what, OWNERS, |word| list(word, b',', |item| number(item).map(Owner)))
    }

    pub(crate) fn waits(&mut self, what: &str) -> Result<Vec<LocalWait>, Bad> {
        self.parsed(what, WAITS, |word| {
            list(word, b',', |item| {
                let (waiter, holder) = divide(item, b'>')?;
                Some(LocalWait { waiter: Owner(number(waiter)?), holder: Owner(number(holder)?) })
            })
        })
    }

    pub(crate) fn groups(&mut self, what: &str) -> Result<GroupSet, Bad> {
        self.parsed(what, GROUPS, groups)
    }

    pub(crate) fn terms(&mut self, what: &str) -> Result<Vec<Term>, Bad> {
        self.parsed(what, TERMS, |word| {
            list(word, b';', |item| {
                let (set, number) = divide(item, b'@')?;
                Some(Term { groups: groups(set)?, epoch: epoch(number)? })
            })
        })
    }

    /// The label of a session, or the note of an acquire.
    pub(crate) fn annotation(&mut self, what: &str) -> Result<Annotation, Bad> {
        let word = self.word(what)?;
        Annotation::new(word).map_err(|why| {
            let (noun, at) = (self.noun, self.taken);
            Bad::new(format!("{what} {} at {noun} {at} is not allowed: {why}", quoted(word)))
        })
    }

    pub(crate) fn holders(&mut self, what: &str) -> Result<Vec<Holder>, Bad> {
        self.parsed(what, HOLDERS, |word| list(word, b';', holder))
    }

    /// The record, which is the last field of a message.
    pub(crate) fn record(&mut self) -> Result<Record, Bad> {
        let name = self.last("record")?;
        self.named(name)
    }

    /// A record among other arguments.
    pub(crate) fn record_word(&mut self) -> Result<Record, Bad> {
        let name = self.word("record")?;
        self.named(name)
    }

    fn named(&self, name: &[u8]) -> Result<Record, Bad> {
        Record::parse(name).map_err(|why| {
            let (noun, at) = (self.noun, self.taken);
            Bad::new(format!("record {} at {noun} {at} is not a name: {why}", quoted(name)))
        })
    }
}

/// A word for a person, not too long and in one line.
pub(crate) fn quoted(word: &[u8]) -> String {
    const SHOWN: usize = 64;
    match word.get(..SHOWN) {
        Some(start) if word.len() > SHOWN => {
            format!("\"{}...\" ({} bytes)", start.escape_ascii(), word.len())
        }
        _ => format!("\"{}\"", word.escape_ascii()),
    }
}

#[inline]
pub(crate) fn number(word: &[u8]) -> Option<u64> {
    if word.is_empty() || word.len() > 20 {
        return None;
    }
    // Nineteen digits always fit.
    let (safe, last) = word.split_at(word.len().min(19));
    let mut number = 0_u64;
    let (eights, ones) = safe.as_chunks::<8>();
    for eight in eights {
        number = number * 100_000_000 + eight_digits(*eight)?;
    }
    for &byte in ones {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number * 10 + u64::from(digit);
    }
    match last {
        [] => Some(number),
        [byte @ b'0'..=b'9', ..] => number.checked_mul(10)?.checked_add(u64::from(byte - b'0')),
        _ => None,
    }
}

/// Eight digits at once: neighbours are put together, then pairs, then fours.
#[inline]
fn eight_digits(bytes: [u8; 8]) -> Option<u64> {
    const ZEROS: u64 = u64::from_le_bytes([b'0'; 8]);
    const HIGH: u64 = 0xF0F0_F0F0_F0F0_F0F0;
    let word = u64::from_le_bytes(bytes);
    // A digit is 0x30 to 0x39: six more must not leave that row.
    let above = word.wrapping_add(0x0606_0606_0606_0606);
    if word & HIGH != ZEROS || above & HIGH != ZEROS {
        return None;
    }
    let ones = word - ZEROS;
    let pairs = (ones * 10 + (ones >> 8)) & 0x00FF_00FF_00FF_00FF;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_FFFF_0000_FFFF;
    Some((fours * 10_000 + (fours >> 32)) & 0xFFFF_FFFF)
}

fn packed(word: &[u8]) -> Option<i64> {
    number(word)?.try_into().ok()
}

fn ticket(word: &[u8]) -> Option<Ticket> {
    Ticket::from_number(packed(word)?)
}

fn epoch(word: &[u8]) -> Option<Epoch> {
    Epoch::new(number(word)?.try_into().ok()?)
}

fn mode(word: &[u8]) -> Option<Mode> {
    match word {
        b"R" | b"r" => Some(Mode::Read),
        b"W" | b"w" => Some(Mode::Write),
        _ => None,
    }
}

/// Milliseconds with up to six decimals.
pub(crate) fn duration(word: &[u8]) -> Option<Duration> {
    let (whole, part) = divide(word, b'.').unwrap_or((word, b"0"));
    if part.is_empty() || part.len() > 6 || whole.is_empty() || whole.len() > 23 {
        return None;
    }
    let digits = |word: &[u8]| std::str::from_utf8(word).ok()?.parse::<u128>().ok();
    if !whole.iter().chain(part).all(u8::is_ascii_digit) {
        return None;
    }
    let millis = digits(whole)?;
    let nanos = digits(part)? * 10_u128.pow(6 - part.len() as u32) + millis % 1000 * 1_000_000;
    Some(Duration::new(u64::try_from(millis / 1000).ok()?, nanos as u32))
}

/// `mode,milliseconds,label,note`, the texts as [`escaped`](crate::words::escaped) writes them.
fn holder(word: &[u8]) -> Option<Holder> {
    let mut parts = word.split(|&byte| byte == b',');
    let mut next = || parts.next();
    let text = |word: &[u8]| {
        Annotation::new(&*percent_encoding::percent_decode(word).collect::<Vec<u8>>()).ok()
    };
    let (mode, held) = (mode(next()?)?, duration(next()?)?);
    let label = text(next()?)?;
    let note = optional(next()?, text)?;
    next().is_none().then_some(Holder { label, note, mode, held })
}

fn groups(word: &[u8]) -> Option<GroupSet> {
    let group = |word: &[u8]| u8::try_from(number(word)?).ok();
    let ranges = list(word, b',', |item| match divide(item, b'-') {
        Some((first, last)) => {
            let (first, last) = (group(first)?, group(last)?);
            (first <= last).then_some(first..=last)
        }
        None => group(item).map(|only| only..=only),
    })?;
    Some(ranges.into_iter().flatten().map(Group).collect())
}

fn divide(word: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let place = word.iter().position(|&byte| byte == at)?;
    Some((&word[..place], &word[place + 1..]))
}

fn optional<'a, T>(word: &'a [u8], parse: impl Fn(&'a [u8]) -> Option<T>) -> Option<Option<T>> {
    if word == b"-" { Some(None) } else { parse(word).map(Some) }
}

fn list<T>(word: &[u8], separator: u8, parse: impl Fn(&[u8]) -> Option<T>) -> Option<Vec<T>> {
    if word == b"-" {
        return Some(Vec::new());
    }
    word.split(|&byte| byte == separator).map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_length_are_read_and_no_other_byte_is_a_digit() {
        let all = "18446744073709551615";
        for len in 1..=all.len() {
            let text = &all[..len];
            assert_eq!(number(text.as_bytes()), text.parse().ok(), "{text}");
            for at in 0..len {
                for byte in (0..=u8::MAX).filter(|byte| !byte.is_ascii_digit()) {
                    let mut word = text.as_bytes().to_vec();
                    word[at] = byte;
                    assert_eq!(number(&word), None, "{}", word.escape_ascii());
                }
            }
        }
        assert_eq!(number(b"18446744073709551616"), None);
        assert_eq!(number(b""), None);
        assert_eq!(number(b"000000000000000000001"), None, "21 digits");
    }
}
