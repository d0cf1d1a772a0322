//! The invariants of the [module](super), as a test.

use super::LockCache;
use super::entry::{Entry, Held};
use crate::mode::Mode;
use crate::record::Record;

impl LockCache {
    /// Panics if an invariant is broken. It looks at every record: for tests and simulators.
    ///
    /// # Panics
    ///
    /// That is its purpose.
    pub fn check(&self) {
        for (record, entry) in self.records.iter() {
            self.check_entry(record, entry);
        }
        assert!(self.records.fits(), "I2: a timer for each acquire, and a place for each record");
        let is_empty = self.is_empty() && self.links.iter().next().is_none();
        assert!(!self.is_closed || is_empty, "I9: closed and not empty");
    }

    fn check_entry(&self, record: &Record, entry: &Entry) {
        let Entry { held, want, asked, drain } = entry;
        assert!(!entry.is_absent(), "I1: nothing is known about {record}");
        assert!(asked.is_none() || want.is_some(), "I2: {record} is asked for and not wanted");
        let upgrade = want.as_ref().is_some_and(|want| want.upgrade);
        if let Some(ask) = asked {
            assert_eq!(held.is_some(), upgrade, "I3: {record} is held, or upgraded and not held");
            assert!(held.is_none_or(|held| held.mode == Mode::Read), "I3: a write is upgraded");
            assert!(held.is_none_or(|held| held.seq < ask.seq), "I3: {record}'s upgrade is older");
            assert!(self.links.open(ask.server).is_some(), "I6: {record} is asked of nobody");
            assert!(ask.seq <= self.seq, "I7: the number of {record} was not given out");
        }
        if let Some(drain) = drain {
            let held = held.map(|held| held.mode);
            assert!(held > drain.to, "I4: {record} is {held:?} and drains to {:?}", drain.to);
        }
        assert!(!upgrade || held.is_some(), "I5: an upgrade of {record}, which is not held");
        if let Some(held) = held {
            assert!(self.end_of(*held).is_some(), "I6: {record} has no lease");
            assert!(held.granted <= held.seq && held.seq <= self.seq, "I7: {record}'s numbers");
        }
        if want.is_some() && asked.is_none() && !entry.must_drain() {
            let group = record.group();
            let server = self.routes.server(group);
            let has_way = server.is_some_and(|server| self.links.open(server).is_some());
            let is_replaced = |held: Held| self.routes.is_replaced(held.rest.server, group);
            let waits = if upgrade {
                self.is_recovering(record) || held.is_some_and(is_replaced)
            } else {
                !has_way
            };
            assert!(waits, "I8: {record} is wanted, and nothing is done about it");
            let is_sought = self.routes.missing().contains(group)
                || server.is_some_and(|server| self.links.get(server).is_some());
            assert!(is_sought || upgrade, "I8: no way to {record} is sought");
        }
    }
}
