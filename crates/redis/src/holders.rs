//! Who holds a record, with label, note and age, for a waiter on another node that asks.
//!
//! Redis has the identifiers of the holders. All else is known by their nodes, which are asked by
//! `PUBLISH`: so labels and notes take no key of their own, and cost nothing until somebody asks.
//!
//! ```text
//! a <asker's identifier> <count> <record>                            who are you?
//! h <asker's count> <identifier> <mode> <milliseconds> <label> <note> <record>
//! ```
//!
//! Label and note are in hexadecimal digits, `-` for none. A holder that does not answer, because
//! its node is gone or it was put there by hand, is shown by what its identifier says.

use std::fmt::Write as _;
use std::time::Duration;

use lockspan_protocol::{AHEAD_UNKNOWN, Annotation, Holder, Mode, Record, Seq, ToNode};
use redis::Value;

use crate::answer::{integer, mode};
use crate::desk::Desk;
use crate::identity::Identity;
use crate::peer::Done;
use crate::script::Op;

/// Holders that are shown.
const HOLDERS: usize = 8;

impl Desk {
    /// The node asks who holds a record for which it waits.
    pub(crate) fn ask_who_holds(&mut self, record: &Record, seq: Seq) {
        let claim = self.claims.get(record).filter(|it| it.is_of(seq) && it.pending.is_some());
        // Where there are the two keys alone, there is no line either.
        if let Some(claim) = claim.filter(|_| !self.settings.plain) {
            let (count, keys) = (claim.count, claim.keys.clone());
            self.call(record, (count, &[]), &keys, Op::Who, None);
        }
    }

    /// Redis says who they are.
    pub(crate) fn holders(&mut self, done: &Done, value: &Value) {
        let Value::Array(values) = value else { return };
        let Some((Value::Int(ahead), holders)) = values.split_first() else { return };
        let claim = self.claims.get_mut(&done.record);
        let Some(claim) = claim.filter(|it| it.count == done.count) else { return };
        claim.ahead = u32::try_from(*ahead).ok();
        let mut known = std::mem::take(&mut claim.holders);
        for value in holders.iter().take(HOLDERS) {
            let Value::BulkString(said) = value else { continue };
            let Some((first, identifier)) = said.split_at_checked(1) else { continue };
            let Some(mode) = mode(first) else { continue };
            let identifier = String::from_utf8_lossy(identifier).into_owned();
            let Some(label) = Annotation::fitted(Identity::of(&identifier).0) else { continue };
            let holder = Holder { label, note: None, mode, held: Duration::ZERO };
            // One that was asked before may have told more.
            let holder = known.remove(&identifier).filter(|it| it.mode == mode).unwrap_or(holder);
            claim.holders.insert(identifier, holder);
        }
        self.say_held_by(&done.record);
    }

    /// Another node asks about a lock of ours.
    pub(crate) fn asked(&self, rest: &[u8]) {
        let words: Vec<&[u8]> = rest.splitn(3, |&byte| byte == b' ').collect();
        let [asker, count, name] = words[..] else { return };
        let (Ok(asker), Some(count)) = (std::str::from_utf8(asker), integer(count)) else { return };
        let Ok(record) = Record::parse(name) else { return };
        let claim = self.claims.get(&record).filter(|it| it.is_held());
        let claim = claim.filter(|it| u64::try_from(count).is_ok_and(|count| it.has(count)));
        let (_, Some(channel)) = Identity::of(asker) else { return };
        let (Some(claim), Some(link)) = (claim, &self.link) else { return };
        let asker = asker.rsplit(':').next().unwrap_or_default();
        let identifier = self.me.identifier(count.unsigned_abs());
        let mode = if claim.mode == Mode::Write { 'w' } else { 'r' };
        let held = claim.changed.elapsed().as_millis();
        let (label, note) = (hex(self.label.as_ref()), hex(claim.note.as_ref()));
        let words = format!("h {asker} {identifier} {mode} {held} {label} {note} ");
        link.publish(&channel, &[words.as_bytes(), name].concat());
    }

    /// A holder has told more about itself.
    pub(crate) fn told_by_holder(&mut self, rest: &[u8]) {
        let words: Vec<&[u8]> = rest.splitn(7, |&byte| byte == b' ').collect();
        let [count, identifier, is, held, label, note, name] = words[..] else { return };
        let (Some(count), Some(held)) = (integer(count), integer(held)) else { return };
        let (Ok(record), Some(mode)) = (Record::parse(name), mode(is)) else { return };
        let claim = self.claims.get_mut(&record);
        let claim = claim.filter(|it| u64::try_from(count) == Ok(it.count));
        // Only holders that Redis has named.
        let holder = claim.and_then(|it| {
            let identifier = std::str::from_utf8(identifier).ok()?;
            it.holders.get_mut(identifier)
        });
        let Some(holder) = holder else { return };
        if let Some(label) = text(label) {
            holder.label = label;
        }
        (holder.note, holder.mode) = (text(note), mode);
        // Not zero, which stands for unknown.
        holder.held = Duration::from_millis(held.unsigned_abs().max(1));
        self.say_held_by(&record);
    }

    /// Tells the node what is known by now.
    fn say_held_by(&self, record: &Record) {
        let Some(claim) = self.claims.get(record).filter(|it| it.pending.is_some()) else { return };
        let seq = claim.upgrade.unwrap_or(claim.seq);
        let (ahead, holders) =
            (claim.ahead.unwrap_or(AHEAD_UNKNOWN), claim.holders.values().cloned().collect());
        self.say(ToNode::HeldBy { record: record.clone(), seq, ahead, holders });
    }
}

fn hex(text: Option<&Annotation>) -> String {
    let Some(text) = text else { return "-".to_owned() };
    text.as_str().bytes().fold(String::new(), |mut digits, byte| {
        // Nothing can go wrong with a String.
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

/// What somebody else calls itself, if that may be shown.
fn text(digits: &[u8]) -> Option<Annotation> {
    let pairs = digits.chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?;
        u8::from_str_radix(pair, 16).ok()
    });
    Annotation::new(&String::from_utf8(pairs.collect::<Option<_>>()?).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_notes_are_read_as_they_were_written_and_nothing_else_is() {
        let label: Annotation = "billing@host9[412] – ärger".parse().unwrap();
        assert_eq!(text(hex(Some(&label)).as_bytes()), Some(label));
        assert_eq!(hex(None), "-");
        let long = "61".repeat(257);
        for bad in ["-", "", "6", "zz", "+1", "0a", "ff", "é1", &long] {
            assert_eq!(text(bad.as_bytes()), None, "{bad}");
        }
    }
}
