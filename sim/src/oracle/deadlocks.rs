//! Whether a transaction that was refused for a deadlock was in one.
//!
//! A refusal that a node hears at time t was decided one delay before, from messages that were sent
//! two delays before t at the earliest. So it is right if the owner was in a cycle at some moment
//! of these two delays, not only if it is in one at t: another owner of the cycle may have given up
//! while the refusal was on its way, and no server can know that.
//!
//! An owner that waits for a record waits for every owner that holds it in a mode that excludes its
//! own, and perhaps for the others that wait for it: the order of a line is the server's business.
//! It is an order, so a cycle is none if all of it are places in lines.

use std::collections::BTreeSet;

use lockspan_protocol::{Mode, Owner};

use super::{Failure, Kind};

/// An owner waits for a record, or holds it.
#[derive(Clone, Copy, Debug)]
struct Stand {
    owner: Owner,
    record: u8,
    mode: Mode,
    holds: bool,
    from: u64,
    until: Option<u64>,
}

impl Stand {
    fn is_at(&self, moment: u64) -> bool {
        self.from <= moment && self.until.is_none_or(|until| moment <= until)
    }

    /// Whether a waiting `self` may have to wait for `other`.
    fn waits_for(&self, other: &Self) -> bool {
        let excluded = self.mode == Mode::Write || other.mode == Mode::Write;
        !self.holds
            && self.record == other.record
            && self.owner != other.owner
            && (excluded || !other.holds)
    }
}

/// Who waits and who holds, and who did a moment ago.
#[derive(Debug)]
pub(crate) struct Deadlocks {
    /// How old what a node hears from a server may be.
    window: u64,
    stands: Vec<Stand>,
}

impl Deadlocks {
    /// For a world in which every message takes `delay`.
    pub(crate) fn new(delay: u64) -> Self {
        Self { window: 2 * delay, stands: Vec::new() }
    }

    pub(crate) fn waits(&mut self, now: u64, owner: Owner, record: u8, mode: Mode) {
        let oldest = now.saturating_sub(self.window);
        self.stands.retain(|stand| stand.until.is_none_or(|until| until >= oldest));
        self.stands.push(Stand { owner, record, mode, holds: false, from: now, until: None });
    }

    pub(crate) fn holds(&mut self, now: u64, owner: Owner, record: u8, mode: Mode) {
        self.end(now, |stand| (stand.owner, stand.record) == (owner, record));
        self.stands.push(Stand { owner, record, mode, holds: true, from: now, until: None });
    }

    /// The owner has given up what it waits for, and released what it holds.
    pub(crate) fn leaves(&mut self, now: u64, owner: Owner) {
        self.end(now, |stand| stand.owner == owner);
    }

    fn end(&mut self, now: u64, which: impl Fn(&Stand) -> bool) {
        let open = self.stands.iter_mut().filter(|stand| stand.until.is_none());
        open.filter(|stand| which(stand)).for_each(|stand| stand.until = Some(now));
    }

    /// The owner is refused. A cycle that is gone was last there when something of it ended.
    pub(crate) fn refused(&self, now: u64, owner: Owner) -> Result<(), Failure> {
        let oldest = now.saturating_sub(self.window);
        let ends = self.stands.iter().filter_map(|stand| stand.until);
        let mut moments = ends.filter(|until| *until >= oldest).chain([now]);
        if moments.any(|moment| self.is_in_cycle(moment, owner)) {
            return Ok(());
        }
        let what = format!("{owner:?} was refused and was in no cycle since {oldest}");
        Err(Failure::new(Kind::Deadlock, what))
    }

    /// Whether the owner reaches itself, over one that holds something at least.
    fn is_in_cycle(&self, moment: u64, owner: Owner) -> bool {
        let present = || self.stands.iter().filter(|stand| stand.is_at(moment));
        let mut reached = BTreeSet::new();
        let mut ahead = vec![(owner, false)];
        while let Some((from, over_holder)) = ahead.pop() {
            for wait in present().filter(|stand| stand.owner == from) {
                for next in present().filter(|other| wait.waits_for(other)) {
                    let next = (next.owner, over_holder || next.holds);
                    if reached.insert(next) {
                        ahead.push(next);
                    }
                }
            }
        }
        reached.contains(&(owner, true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Mode::{Read, Write};

    const D: u64 = 10;
    const A: Owner = Owner(1);
    const B: Owner = Owner(2);

    /// A and B hold a record each, and each waits for the other's since 100 and 110.
    fn crossed() -> Deadlocks {
        let mut deadlocks = Deadlocks::new(D);
        deadlocks.holds(50, A, 0, Write);
        deadlocks.holds(50, B, 1, Write);
        deadlocks.waits(100, A, 1, Write);
        deadlocks.waits(110, B, 0, Write);
        deadlocks
    }

    #[test]
    fn a_refusal_is_right_while_it_could_not_know_that_the_cycle_is_gone() {
        let mut deadlocks = crossed();
        assert!(deadlocks.refused(130, B).is_ok());
        deadlocks.leaves(131, A);
        assert!(deadlocks.refused(131 + 2 * D, B).is_ok(), "the give-up was on its way");
        assert!(deadlocks.refused(132 + 2 * D, B).is_err(), "the server had heard of it");
    }

    #[test]
    fn a_chain_is_no_cycle() {
        let mut deadlocks = Deadlocks::new(D);
        deadlocks.holds(50, A, 0, Write);
        deadlocks.waits(60, B, 0, Write);
        assert!(deadlocks.refused(70, B).is_err());
        deadlocks.waits(70, A, 1, Write);
        deadlocks.waits(71, B, 1, Write);
        let (c, d) = (Owner(3), Owner(4));
        deadlocks.waits(72, c, 2, Write);
        deadlocks.waits(72, d, 2, Write);
        assert!(deadlocks.refused(80, c).is_err(), "two places in one line");
    }

    #[test]
    fn readers_do_not_wait_for_readers() {
        let mut deadlocks = Deadlocks::new(D);
        deadlocks.holds(50, A, 0, Read);
        deadlocks.holds(50, B, 1, Read);
        deadlocks.waits(60, A, 1, Read);
        deadlocks.waits(60, B, 0, Read);
        assert!(deadlocks.refused(70, A).is_err());
    }
}
