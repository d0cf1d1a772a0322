//! Whether a node keeps what others wait for: after a drain at most so many turns begin, and none
//! after its time. A drain that asks for something else than the one before begins anew; one that
//! repeats it does not.

use std::collections::BTreeMap;

use lockspan_protocol::{Mode, StayLimits, Tick};

use super::{Failure, Kind};

#[derive(Clone, Copy, Debug)]
struct Drain {
    to: Option<Mode>,
    since: Tick,
    turns: u32,
}

/// The drains under way, by node and record.
#[derive(Debug)]
pub(crate) struct Stays {
    limits: StayLimits,
    drains: BTreeMap<(u8, u8), Drain>,
}

impl Stays {
    pub(crate) fn new(limits: StayLimits) -> Self {
        Self { limits, drains: BTreeMap::new() }
    }

    pub(crate) fn drain(&mut self, now: Tick, node: u8, record: u8, to: Option<Mode>) {
        let drain = self.drains.entry((node, record)).or_insert(Drain { to, since: now, turns: 0 });
        if drain.to != to {
            *drain = Drain { to, since: now, turns: 0 };
        }
    }

    /// The record has gone back, or was granted anew, or is lost.
    pub(crate) fn over(&mut self, node: u8, record: u8) {
        self.drains.remove(&(node, record));
    }

    /// A turn begins that is not one of those that may go on anyway.
    pub(crate) fn turn(
        &mut self,
        now: Tick,
        node: u8,
        record: u8,
        mode: Mode,
    ) -> Result<(), Failure> {
        let Some(drain) = self.drains.get_mut(&(node, record)) else { return Ok(()) };
        if drain.to.is_some_and(|to| to.covers(mode)) {
            return Ok(());
        }
        drain.turns += 1;
        let late = now.since(drain.since) >= self.limits.time;
        if drain.turns <= self.limits.turns && !late {
            return Ok(());
        }
        let what = format!(
            "record {record}: turn {} on node {node} began {:?} after the drain, {:?} allow it",
            drain.turns,
            now.since(drain.since),
            self.limits
        );
        Err(Failure::new(Kind::Stay, what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn stays() -> Stays {
        let mut stays = Stays::new(StayLimits { turns: 1, time: Duration::from_micros(50) });
        stays.drain(Tick(100), 0, 0, None);
        stays
    }

    #[test]
    fn a_turn_too_many_is_found_and_a_repeated_drain_does_not_help() {
        let mut stays = stays();
        assert!(stays.turn(Tick(110), 0, 0, Mode::Write).is_ok());
        stays.drain(Tick(120), 0, 0, None);
        assert!(stays.turn(Tick(121), 0, 0, Mode::Write).is_err());
        assert!(stays.turn(Tick(121), 1, 0, Mode::Write).is_ok(), "another node");
        stays.over(0, 0);
        assert!(stays.turn(Tick(122), 0, 0, Mode::Write).is_ok());
    }

    #[test]
    fn a_turn_after_the_time_is_found() {
        assert!(stays().turn(Tick(150), 0, 0, Mode::Read).is_err());
    }

    #[test]
    fn readers_go_on_when_only_writers_have_to_leave() {
        let mut stays = stays();
        stays.drain(Tick(100), 0, 0, Some(Mode::Read));
        assert!(stays.turn(Tick(900), 0, 0, Mode::Read).is_ok());
    }
}
