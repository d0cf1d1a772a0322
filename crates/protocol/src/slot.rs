//! The space of records: 16384 slots, as in Redis Cluster, owned in 256 groups of 64.
//!
//! The slot of a name is its CRC16 modulo 16384. If the name has a `{`, a `}` after it and
//! something between the two, only that part counts, so that related records can be put in one
//! slot.

use std::fmt;

/// Number of slots.
pub const SLOTS: u16 = 16384;
/// Number of groups.
pub const GROUPS: usize = 256;
const SLOTS_PER_GROUP: u16 = SLOTS / GROUPS as u16;

/// One of the 16384 parts of the record space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u16);

/// One of the 256 groups of slots: what a server owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group(pub u8);

impl Slot {
    /// The slot of a name.
    #[must_use]
    pub fn of(name: &[u8]) -> Self {
        // One pass for nearly all names: a second one only if there is a brace.
        let (mut crc, mut has_brace) = (0, false);
        for &byte in name {
            has_brace |= byte == b'{';
            crc = crc16_of(crc, byte);
        }
        Self(if has_brace { crc16(tag(name)) } else { crc } % SLOTS)
    }

    /// The slot's number.
    #[must_use]
    pub fn number(self) -> u16 {
        self.0
    }

    /// The group that it belongs to.
    #[must_use]
    pub fn group(self) -> Group {
        Group((self.0 / SLOTS_PER_GROUP) as u8)
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "group {}", self.0)
    }
}

/// What counts of a name: the part in braces, if there is one.
fn tag(name: &[u8]) -> &[u8] {
    let inner = || {
        let open = name.iter().position(|&byte| byte == b'{')?;
        let rest = &name[open + 1..];
        let close = rest.iter().position(|&byte| byte == b'}')?;
        (close > 0).then(|| &rest[..close])
    };
    inner().unwrap_or(name)
}

/// CRC16 with the polynomial 0x1021, most significant bit first, starting at zero.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| crc16_of(crc, byte))
}

/// The same with one more byte.
#[inline]
fn crc16_of(crc: u16, byte: u8) -> u16 {
    let index = (crc >> 8) as u8 ^ byte;
    (crc << 8) ^ CRC16[usize::from(index)]
}

const CRC16: [u16; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut crc = (index as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
};

/// A set of groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupSet([u64; GROUPS / 64]);

impl GroupSet {
    /// No group.
    pub const EMPTY: Self = Self([0; GROUPS / 64]);
    /// Every group.
    pub const ALL: Self = Self([u64::MAX; GROUPS / 64]);

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self == Self::EMPTY
    }

    /// Whether it has `group`.
    #[must_use]
    pub fn contains(self, group: Group) -> bool {
        let (word, bit) = Self::place(group);
        self.0[word] & bit != 0
    }

    /// Adds `group`.
    pub fn insert(&mut self, group: Group) {
        let (word, bit) = Self::place(group);
        self.0[word] |= bit;
    }

    /// What both have.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] & other.0[i]))
    }

    /// What either has.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] | other.0[i]))
    }

    /// What this has and `other` has not.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] & !other.0[i]))
    }

    /// The groups, in order.
    pub fn iter(self) -> impl Iterator<Item = Group> {
        (0..=u8::MAX).map(Group).filter(move |&group| self.contains(group))
    }

    fn place(group: Group) -> (usize, u64) {
        (usize::from(group.0 / 64), 1 << (group.0 % 64))
    }
}

impl FromIterator<Group> for GroupSet {
    fn from_iter<I: IntoIterator<Item = Group>>(groups: I) -> Self {
        let mut set = Self::EMPTY;
        groups.into_iter().for_each(|group| set.insert(group));
        set
    }
}

impl fmt::Display for GroupSet {
    /// As ranges: `0-127,200`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut groups = self.iter().map(|group| group.0).peekable();
        let mut comma = "";
        while let Some(first) = groups.next() {
            let mut last = first;
            while let Some(next) = groups.next_if(|&next| next == last + 1) {
                last = next;
            }
            if first == last {
                write!(f, "{comma}{first}")?;
            } else {
                write!(f, "{comma}{first}-{last}")?;
            }
            comma = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis_cluster() {
        // Values that `CLUSTER KEYSLOT` gives.
        assert_eq!(crc16(b"123456789"), 0x31C3);
        assert_eq!(Slot::of(b"123456789").number(), 12739);
        assert_eq!(Slot::of(b"foo").number(), 12182);
        assert_eq!(Slot::of(b"").number(), 0);
    }

    #[test]
    fn a_tag_in_braces_decides_alone() {
        assert_eq!(Slot::of(b"order:{foo}:1"), Slot::of(b"foo"));
        assert_eq!(Slot::of(b"{foo}{bar}"), Slot::of(b"foo"));
        assert_eq!(tag(b"a:{}b"), b"a:{}b", "an empty tag is no tag");
        assert_eq!(tag(b"a:{b"), b"a:{b");
        assert_eq!(tag(b"foo{{bar}}zap"), b"{bar");
    }

    #[test]
    fn sets_of_groups_print_as_ranges() {
        let set: GroupSet = [0, 1, 2, 63, 64, 65, 200, 255].map(Group).into_iter().collect();
        assert_eq!(set.to_string(), "0-2,63-65,200,255");
        assert_eq!(GroupSet::ALL.to_string(), "0-255");
        assert_eq!(GroupSet::EMPTY.to_string(), "");
        assert_eq!(GroupSet::ALL.without(set).iter().count(), 248);
        assert!(set.and(GroupSet::EMPTY).is_empty());
    }
}
