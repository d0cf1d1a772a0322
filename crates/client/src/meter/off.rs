//! Takes the place of `meter` in a build without the feature `metrics`: nothing is counted by
//! datatype, and nobody is told.

use std::time::Duration;

use lockspan_protocol::{Mode, Tick, ToNode, ToServer};

use crate::entry::Entry;
use crate::node::{Core, Node};
use crate::record::Record;

/// Never.
pub(crate) const EVERY: Duration = Duration::MAX;

/// A node's part in it: none.
#[derive(Debug)]
pub(crate) struct Meter;

impl Meter {
    pub(crate) fn new() -> Self {
        Self
    }
}

/// What a record on this node has for it: nothing.
#[derive(Debug, Default)]
pub(crate) struct Metered {}

/// A wait that is timed: there is none.
#[derive(Debug)]
pub(crate) enum Wait {}

impl Wait {
    pub(crate) fn over(self, _: Tick) {
        match self {}
    }
}

/// A time for which a node had a record: none is kept.
#[derive(Debug)]
pub(crate) enum Hold {}

impl Hold {
    pub(crate) fn tell(&self) {
        match *self {}
    }
}

impl Record {
    #[inline(always)]
    pub(crate) fn count_cached(&self, _: Mode, _: i64) {}

    pub(crate) fn begin_wait(&self) -> Option<Wait> {
        None
    }
}

impl Node {
    pub(crate) fn count_heard(&self, _: &Core, _: &ToNode) {}

    pub(crate) fn count_told(&self, _: &mut Core, _: &ToServer) {}

    pub(crate) fn hold_begins(&self, _: &Core, _: &Entry) {}

    pub(crate) fn entry_hold_ends(_: &mut Core, _: &Entry) {}

    pub(crate) fn count_lost(&self, _: &mut Core, _: &Entry) {}

    pub(crate) fn publish(&self) {}
}
