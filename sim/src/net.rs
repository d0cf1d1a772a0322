//! The network: each message on its own may be lost, doubled, late, or overtaken. Links can be cut,
//! one way or both.

use std::collections::BTreeMap;

use fastrand::Rng;

use crate::coverage::{Coverage, Hit};
use crate::plan::Plan;
use crate::stream;
use crate::words::Machine;

/// When a message arrives: once, twice or never.
pub(crate) type Arrivals = [Option<u64>; 2];

/// The network of a world.
#[derive(Debug)]
pub(crate) struct Net {
    rng: Rng,
    plan: Plan,
    /// How many cuts there are on each directed link that has any.
    cuts: BTreeMap<(Machine, Machine), u32>,
    /// When the last message on a link arrives, to see whether it is overtaken.
    last: BTreeMap<(Machine, Machine), u64>,
    healed: bool,
}

impl Net {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            rng: stream::Network.rng(plan.seed),
            plan: plan.clone(),
            cuts: BTreeMap::new(),
            last: BTreeMap::new(),
            healed: false,
        }
    }

    /// From now on nothing is lost, doubled, or later than usual.
    pub(crate) fn heal(&mut self) {
        self.healed = true;
        self.cuts.clear();
    }

    pub(crate) fn cut(&mut self, from: Machine, to: Machine) {
        *self.cuts.entry((from, to)).or_insert(0) += 1;
    }

    /// Ends one cut; true if the link is whole again.
    pub(crate) fn join(&mut self, from: Machine, to: Machine) -> bool {
        let Some(cuts) = self.cuts.get_mut(&(from, to)) else { return true };
        *cuts -= 1;
        let whole = *cuts == 0;
        if whole {
            self.cuts.remove(&(from, to));
        }
        whole
    }

    pub(crate) fn is_cut(&self, from: Machine, to: Machine) -> bool {
        !self.cuts.is_empty() && self.cuts.contains_key(&(from, to))
    }

    /// How many links between nodes and servers are cut.
    pub(crate) fn cuts_of_nodes(&self) -> usize {
        let is_node = |machine: &Machine| matches!(machine, Machine::Node(_));
        self.cuts.keys().filter(|(from, to)| is_node(from) || is_node(to)).count()
    }

    /// A message leaves at `now`.
    pub(crate) fn send(
        &mut self,
        now: u64,
        from: Machine,
        to: Machine,
        coverage: &mut Coverage,
    ) -> Arrivals {
        if self.is_cut(from, to) {
            return [None, None];
        }
        if self.healed {
            // Slow no more, too: a network that is slow beside a lease lets leases end.
            let delay = self.delay().min(self.plan.ttl / 50);
            return [Some(now + delay), None];
        }
        if self.happens(self.plan.loss) {
            coverage.hit(Hit::Loss);
            return [None, None];
        }
        let first = now + self.any_delay();
        let second = self.happens(self.plan.double).then(|| now + self.any_delay());
        if second.is_some() {
            coverage.hit(Hit::Double);
        }
        let last = self.last.entry((from, to)).or_insert(0);
        if first < *last {
            coverage.hit(Hit::Reorder);
        }
        *last = first.max(*last);
        [Some(first), second]
    }

    /// How long a message takes when nothing is wrong.
    pub(crate) fn delay(&mut self) -> u64 {
        let (min, max) = (self.plan.delay_min, self.plan.delay_max);
        if min == max { min } else { self.rng.u64(min..=max) }
    }

    fn any_delay(&mut self) -> u64 {
        if self.happens(self.plan.late) {
            self.rng.u64(self.plan.delay_max..=self.plan.late_max)
        } else {
            self.delay()
        }
    }

    fn happens(&mut self, share: u64) -> bool {
        share > 0 && self.rng.u64(..1000) < share
    }
}
