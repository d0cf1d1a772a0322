//! The names of a record's keys.
//!
//! `readlock:<datatype>:<id>` and `writelock:<datatype>:<id>` are what everybody agrees upon. The
//! companions begin with `lockspan:`. For a cluster the record's name is put in braces, so that all
//! of them are in one slot.

use std::sync::LazyLock;

use lockspan_protocol::{Record, Slot};

/// The keys of one record.
#[derive(Debug)]
pub(crate) struct Keys {
    /// A set: the identifiers of those who read.
    pub(crate) read: Vec<u8>,
    /// A string: the identifier of who writes.
    pub(crate) write: Vec<u8>,
    /// A sorted set: when each identifier ends.
    ends: Vec<u8>,
    /// A list: writers in line.
    writers: Vec<u8>,
    /// A set: readers in line.
    readers: Vec<u8>,
    /// A string: the last token that was given out in the slot.
    fence: Vec<u8>,
}

impl Keys {
    pub(crate) fn of(record: &Record, hash_tag: bool) -> Self {
        let key = |prefix: &[u8]| {
            let name = record.as_bytes();
            if hash_tag { [prefix, b"{", name, b"}"].concat() } else { [prefix, name].concat() }
        };
        let read = key(b"readlock:");
        let fence = fence(Slot::of(&read));
        Self {
            read,
            write: key(b"writelock:"),
            ends: key(b"lockspan:ends:"),
            writers: key(b"lockspan:writers:"),
            readers: key(b"lockspan:readers:"),
            fence,
        }
    }

    /// The two that everybody agrees upon.
    pub(crate) fn plain(&self) -> [&[u8]; 2] {
        [&self.read, &self.write]
    }

    /// In the order in which the scripts have them.
    pub(crate) fn all(&self) -> [&[u8]; 6] {
        [&self.read, &self.write, &self.ends, &self.writers, &self.readers, &self.fence]
    }
}

/// The counter of a slot: one for all of its records, so that none is left over for each of them.
fn fence(slot: Slot) -> Vec<u8> {
    /// For each slot the least number whose digits are in it.
    static TAGS: LazyLock<Vec<u32>> = LazyLock::new(|| {
        let mut tags = vec![None; usize::from(lockspan_protocol::SLOTS)];
        let mut missing = tags.len();
        for number in 0.. {
            let tag = &mut tags[usize::from(Slot::of(number.to_string().as_bytes()).number())];
            if tag.replace(tag.unwrap_or(number)).is_none() {
                missing -= 1;
            }
            if missing == 0 {
                break;
            }
        }
        tags.into_iter().flatten().collect()
    });
    format!("lockspan:fence:{{{}}}", TAGS[usize::from(slot.number())]).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(name: &str, hash_tag: bool) -> Keys {
        Keys::of(&Record::parse(name.as_bytes()).unwrap(), hash_tag)
    }

    /// Whether a cluster has all of them in one place.
    fn are_together(keys: &Keys) -> bool {
        keys.all().map(Slot::of).windows(2).all(|pair| pair[0] == pair[1])
    }

    #[test]
    fn the_two_keys_are_those_that_everybody_agrees_upon() {
        let keys = keys("invoice:42", false);
        assert_eq!(keys.plain(), [&b"readlock:invoice:42"[..], b"writelock:invoice:42"]);
        assert!(!are_together(&keys));
    }

    #[test]
    fn with_a_hash_tag_all_keys_are_in_one_slot() {
        for name in ["invoice:42", "a:{b}", "a:}b", "a:b}c{d", "a{:b"] {
            assert!(are_together(&keys(name, true)), "{name}");
        }
        assert_eq!(keys("invoice:42", true).plain()[0], b"readlock:{invoice:42}");
        assert!(!are_together(&keys("}:x", true)), "an empty tag is no tag");
    }

    #[test]
    fn the_counter_is_in_the_slot_of_its_records() {
        for number in 0..1000 {
            let keys = keys(&format!("x:{number}"), true);
            assert_eq!(Slot::of(&keys.fence), Slot::of(&keys.read));
        }
    }
}
