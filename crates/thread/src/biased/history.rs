//! When a lock is worth a bias: see *When a thread gets the bias* in `mod.rs`.

use std::ptr;

use super::record::Record;
use crate::sync::MODEL;

/// How many uses in a row give the bias at first. A model has no time for more than one.
const FIRST: u32 = if MODEL { 1 } else { 8 };
/// By how much that grows when a bias is taken back.
const FACTOR: u32 = 8;
/// As many uses as earn what it costs to take a bias back.
const MOST: u32 = 4096;

/// Who used the fair lock. Belongs to who holds that.
#[derive(Debug)]
pub(super) struct History {
    last: *const Record,
    run: u32,
    needed: u32,
}

impl History {
    pub(super) const fn new() -> Self {
        Self { last: ptr::null(), run: 0, needed: FIRST }
    }

    /// A use has ended; whether its thread is to have the bias.
    pub(super) fn used(&mut self, by: Option<&Record>) -> bool {
        let by = by.map_or(ptr::null(), ptr::from_ref);
        if by.is_null() || by != self.last {
            self.last = by;
            self.run = 0;
        }
        self.run = self.run.saturating_add(1);
        !by.is_null() && self.run >= self.needed
    }

    /// The bias is given to who used the lock last.
    pub(super) fn given(&mut self) {
        self.run = 0;
    }

    /// The bias is taken back.
    pub(super) fn stolen(&mut self) {
        self.needed = self.needed.saturating_mul(FACTOR).min(MOST);
    }
}

#[cfg(all(test, not(any(lockspan_loom, lockspan_shuttle))))]
mod tests {
    use super::*;

    fn uses_until_biased(history: &mut History, by: &Record) -> u32 {
        let mut uses = 1;
        while !history.used(Some(by)) {
            uses += 1;
        }
        history.given();
        uses
    }

    #[test]
    fn each_theft_makes_the_next_bias_dearer_up_to_a_limit() {
        let (mut history, record) = (History::new(), Record::new());
        let runs = [8, 64, 512, 4096, 4096, 4096];
        for run in runs {
            assert_eq!(uses_until_biased(&mut history, &record), run);
            history.stolen();
        }
    }

    #[test]
    fn threads_that_take_turns_get_no_bias_nor_do_those_without_a_record() {
        let (mut history, one, two) = (History::new(), Record::new(), Record::new());
        for _ in 0..100 {
            assert!(!history.used(Some(&one)));
            assert!(!history.used(Some(&two)));
            assert!(!history.used(None));
        }
        assert_eq!(uses_until_biased(&mut history, &one), 8);
    }
}
