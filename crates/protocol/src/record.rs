//! What is locked: a data record, `<datatype>:<id>`, and its place in the space of slots.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use crate::record_id::RecordId;
use crate::slot::{Group, Slot};

/// The name of a data record, `<datatype>:<id>`. Cheap to clone: up to 45 bytes are stored inline,
/// longer names are shared.
#[derive(Clone)]
pub struct Record(Name);

/// A name is in place exactly if it fits.
#[derive(Clone)]
enum Name {
    /// Zeros follow the name.
    InPlace {
        len: u8,
        group: Group,
        bytes: [u8; IN_PLACE],
    },
    Shared {
        group: Group,
        bytes: Arc<[u8]>,
    },
}

/// Fills three quarters of a cache line with its length and group.
const IN_PLACE: usize = 45;

const _: () = assert!(size_of::<Record>() == 48);

/// Why bytes are not the name of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadName {
    /// There is no `:` between a datatype and an id.
    NoColon,
    /// Nothing stands before the first `:`.
    NoDatatype,
    /// Nothing stands after the first `:`.
    NoId,
    /// The datatype contains a `:`. The first colon ends the datatype, so this would name another
    /// record.
    ColonInDatatype,
    /// Datatype and id are longer than [`Record::LEN_MAX`] together.
    TooLong {
        /// Their length in bytes.
        len: usize,
    },
}

impl Record {
    /// The longest name: datatype and id together, without the colon between them.
    pub const LEN_MAX: usize = 512;

    /// The name `<datatype>:<id>`. The id is text, bytes or an integer: see [`RecordId`].
    ///
    /// ```
    /// use lockspan_protocol::Record;
    ///
    /// let invoice = Record::new("invoice", "42")?;
    /// assert_eq!(invoice.as_bytes(), b"invoice:42");
    /// assert_eq!(invoice, Record::new("invoice", 42)?);
    /// # Ok::<(), lockspan_protocol::BadName>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`BadName`]: the datatype has a colon, either part is empty, or both together have more than
    /// 512 bytes.
    pub fn new(datatype: impl AsRef<[u8]>, id: impl RecordId) -> Result<Self, BadName> {
        let (datatype, id) = (datatype.as_ref(), &*id.to_id());
        if datatype.contains(&b':') {
            return Err(BadName::ColonInDatatype);
        }
        Self::check(datatype, id)?;
        Ok(Self::of(&[datatype, b":", id].concat()))
    }

    /// Parses `<datatype>:<id>`. The first colon divides them; an id may contain more colons.
    ///
    /// # Errors
    ///
    /// [`BadName`]: there is no colon, either part is empty, or both together have more than 512
    /// bytes.
    pub fn parse(name: &[u8]) -> Result<Self, BadName> {
        let colon = name.iter().position(|&byte| byte == b':').ok_or(BadName::NoColon)?;
        Self::check(&name[..colon], &name[colon + 1..])?;
        Ok(Self::of(name))
    }

    fn of(name: &[u8]) -> Self {
        let group = Slot::of(name).group();
        if name.len() > IN_PLACE {
            return Self(Name::Shared { group, bytes: name.into() });
        }
        let mut bytes = [0; IN_PLACE];
        bytes[..name.len()].copy_from_slice(name);
        Self(Name::InPlace { len: name.len() as u8, group, bytes })
    }

    fn check(datatype: &[u8], id: &[u8]) -> Result<(), BadName> {
        let len = datatype.len() + id.len();
        if datatype.is_empty() {
            Err(BadName::NoDatatype)
        } else if id.is_empty() {
            Err(BadName::NoId)
        } else if len > Self::LEN_MAX {
            Err(BadName::TooLong { len })
        } else {
            Ok(())
        }
    }

    /// The whole name.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Name::InPlace { len, bytes, .. } => &bytes[..usize::from(*len)],
            Name::Shared { bytes, .. } => bytes,
        }
    }

    /// The part before the first colon.
    #[must_use]
    pub fn datatype(&self) -> &[u8] {
        &self.as_bytes()[..self.colon()]
    }

    /// The part after the first colon.
    #[must_use]
    pub fn id(&self) -> &[u8] {
        &self.as_bytes()[self.colon() + 1..]
    }

    /// The place of the record in the order in which several records are locked: by datatype, then
    /// by id, byte by byte. It is not the order of the names: there the colon counts.
    ///
    /// ```
    /// use lockspan_protocol::Record;
    /// let (short, long) = (Record::new("a", "9")?, Record::new("a!", "1")?);
    /// assert!(short.lock_order() < long.lock_order());
    /// assert!(short > long, "the colon comes after the exclamation mark");
    /// # Ok::<(), lockspan_protocol::BadName>(())
    /// ```
    #[must_use]
    pub fn lock_order(&self) -> (&[u8], &[u8]) {
        (self.datatype(), self.id())
    }

    /// The slot of the record, a hash of its name.
    #[must_use]
    pub fn slot(&self) -> Slot {
        Slot::of(self.as_bytes())
    }

    /// The group of slots that owns it.
    #[must_use]
    #[inline]
    pub fn group(&self) -> Group {
        match self.0 {
            Name::InPlace { group, .. } | Name::Shared { group, .. } => group,
        }
    }

    fn colon(&self) -> usize {
        let colon = self.as_bytes().iter().position(|&byte| byte == b':');
        colon.expect("a record's name has a colon")
    }
}

impl PartialEq for Record {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Name::InPlace { len, bytes, .. }, Name::InPlace { len: others, bytes: other, .. }) => {
                // By parts of a fixed size, so that no loop and no call is needed.
                len == others
                    && bytes[..16] == other[..16]
                    && (*len <= 16
                        || (bytes[16..32] == other[16..32] && bytes[29..] == other[29..]))
            }
            (Name::Shared { bytes, .. }, Name::Shared { bytes: other, .. }) => bytes == other,
            _ => false,
        }
    }
}

impl Eq for Record {}

impl PartialOrd for Record {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Record {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl Hash for Record {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

/// [`Record::parse`] of the text.
impl FromStr for Record {
    type Err = BadName;

    fn from_str(name: &str) -> Result<Self, BadName> {
        Self::parse(name.as_bytes())
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.as_bytes().escape_ascii())
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Record({self})")
    }
}

impl fmt::Display for BadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoColon => {
                f.write_str("a record is named <datatype>:<id>, but there is no colon")
            }
            Self::NoDatatype => f.write_str("the datatype, before the colon, is empty"),
            Self::NoId => f.write_str("the id, after the colon, is empty"),
            Self::ColonInDatatype => f.write_str("a datatype must not contain a colon"),
            Self::TooLong { len } => write!(
                f,
                "datatype and id have {len} bytes together, and the maximum is {}",
                Record::LEN_MAX
            ),
        }
    }
}

impl std::error::Error for BadName {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_colon_divides_datatype_and_id() {
        let record = Record::parse(b"order:2026:7").unwrap();
        assert_eq!((record.datatype(), record.id()), (&b"order"[..], &b"2026:7"[..]));
        assert_eq!(record, Record::new("order", "2026:7").unwrap());
        assert_eq!("order:2026:7".parse(), Ok(record));
        assert_eq!("order".parse::<Record>(), Err(BadName::NoColon));
    }

    #[test]
    fn a_bad_name_says_what_is_wrong() {
        assert_eq!(Record::parse(b"order"), Err(BadName::NoColon));
        assert_eq!(Record::parse(b":7"), Err(BadName::NoDatatype));
        assert_eq!(Record::parse(b"order:"), Err(BadName::NoId));
        assert_eq!(Record::new("a:b", "7"), Err(BadName::ColonInDatatype));
        let id = [b'x'; 512];
        assert_eq!(Record::new("a", id), Err(BadName::TooLong { len: 513 }));
        assert!(Record::new("a", &id[1..]).is_ok());
    }

    #[test]
    fn names_of_every_length_are_kept() {
        for len in 1..=510 {
            let id: Vec<u8> = (0..len).map(|at| at as u8).collect();
            let record = Record::new("d", &id).unwrap();
            assert_eq!(record.id(), id);
            assert_eq!(record, Record::parse(record.as_bytes()).unwrap());
            assert_eq!(record.group(), record.slot().group());
        }
    }

    #[test]
    fn any_bytes_are_an_id_and_print_as_text() {
        let record = Record::new("blob", [0, 255, b'\n']).unwrap();
        assert_eq!(record.to_string(), r"blob:\x00\xff\n");
    }
}
