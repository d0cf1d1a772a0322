//! The store behind the records: it remembers the highest *write* token that it has seen for each,
//! and refuses what is lower. Who writes has read before, under the same guard and with the same
//! token.

use lockspan_protocol::Token;

use crate::oracle::{Failure, Kind};

#[derive(Clone, Copy, Debug, Default)]
struct Stored {
    /// The highest write token seen.
    mark: Option<Token>,
    /// The token of the last write that was accepted.
    written: Option<Token>,
    /// How often the record was written.
    version: u64,
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    Accepted,
    Refused,
}

/// The stored records.
#[derive(Debug)]
pub(crate) struct Fence {
    records: Vec<Stored>,
}

impl Fence {
    pub(crate) fn new(records: usize) -> Self {
        Self { records: vec![Stored::default(); records] }
    }

    /// A writer reads what it is about to replace, and shows its token. Nothing if that is too old.
    pub(crate) fn read(&mut self, record: u8, token: Token) -> Option<u64> {
        let stored = &mut self.records[usize::from(record)];
        if stored.mark > Some(token) {
            return None;
        }
        stored.mark = Some(token);
        Some(stored.version)
    }

    /// A writer that has read version `base` writes the next.
    pub(crate) fn write(&mut self, record: u8, token: Token, base: u64) -> Result<Write, Failure> {
        let stored = &mut self.records[usize::from(record)];
        if stored.mark > Some(token) {
            return Ok(Write::Refused);
        }
        stored.accept(token, base).map_err(|what| {
            Failure::new(Kind::Fence, format!("record {record}: the write with {token} {what}"))
        })?;
        Ok(Write::Accepted)
    }
}

impl Stored {
    /// Takes the write, and says if it should never have come this far.
    fn accept(&mut self, token: Token, base: u64) -> Result<(), String> {
        let (written, version) = (self.written, self.version);
        self.mark = Some(token);
        self.written = Some(token);
        self.version += 1;
        match written {
            Some(written) if written > token => Err(format!("came after one with {written}")),
            _ if version != base => {
                Err(format!("replaced version {version}, and its writer had seen {base}"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockspan_protocol::Epoch;

    fn token(count: u64) -> Token {
        Token::new(Epoch::NONE, count).unwrap()
    }

    #[test]
    fn a_late_write_is_refused_once_a_later_writer_has_been_seen() {
        let mut fence = Fence::new(1);
        let base = fence.read(0, token(1)).unwrap();
        assert_eq!(fence.read(0, token(2)), Some(0));
        assert_eq!(fence.write(0, token(1), base), Ok(Write::Refused));
        assert_eq!(fence.read(0, token(1)), None);
        assert_eq!(fence.write(0, token(2), 0), Ok(Write::Accepted));
    }

    #[test]
    fn a_lost_update_is_found() {
        let mut fence = Fence::new(1);
        let (a, b) = (fence.read(0, token(1)).unwrap(), fence.read(0, token(1)).unwrap());
        assert_eq!(fence.write(0, token(1), a), Ok(Write::Accepted));
        assert_eq!(fence.write(0, token(1), b).unwrap_err().kind, Kind::Fence);
    }
}
