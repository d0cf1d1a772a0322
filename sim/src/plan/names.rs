//! The parts of a plan by name, for the command line and for the search for a smaller world.

use std::fmt;

use super::{Class, Plan, Workload};

/// No part of a plan, no class or no workload has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown(pub String);

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nothing in a plan is called '{}'", self.0)
    }
}

impl std::error::Error for Unknown {}

/// A number of a plan: its name, its place, and the least that makes sense.
type Number = (&'static str, fn(&mut Plan) -> &mut u64, u64);

/// Sizes first: the search for a smaller world goes in this order.
const NUMBERS: &[Number] = &[
    ("servers", |plan| &mut plan.servers, 1),
    ("shards", |plan| &mut plan.shards, 1),
    ("nodes", |plan| &mut plan.nodes, 1),
    ("threads", |plan| &mut plan.threads, 1),
    ("records", |plan| &mut plan.records, 1),
    ("time", |plan| &mut plan.time, 1),
    ("cut", |plan| &mut plan.cut, 0),
    ("one-way", |plan| &mut plan.one_way, 0),
    ("store-cut", |plan| &mut plan.store_cut, 0),
    ("move", |plan| &mut plan.moves, 0),
    ("late-answers", |plan| &mut plan.late_answers, 0),
    ("departs", |plan| &mut plan.departs, 0),
    ("suspect", |plan| &mut plan.suspects, 0),
    ("unaware", |plan| &mut plan.unaware, 0),
    ("joins", |plan| &mut plan.joins, 0),
    ("heirs", |plan| &mut plan.heirs, 0),
    ("news", |plan| &mut plan.news, 0),
    ("strangers", |plan| &mut plan.strangers, 0),
    ("rollback", |plan| &mut plan.rollback, 0),
    ("node-crash", |plan| &mut plan.node_crash, 0),
    ("node-pause", |plan| &mut plan.node_pause, 0),
    ("server-crash", |plan| &mut plan.server_crash, 0),
    ("server-pause", |plan| &mut plan.server_pause, 0),
    ("retire", |plan| &mut plan.retires, 0),
    ("loss", |plan| &mut plan.loss, 0),
    ("double", |plan| &mut plan.double, 0),
    ("late", |plan| &mut plan.late, 0),
    ("late-max", |plan| &mut plan.late_max, 0),
    ("drift", |plan| &mut plan.drift, 0),
    ("patience", |plan| &mut plan.patience, 0),
    ("patience-max", |plan| &mut plan.patience_max, 0),
    ("give-back", |plan| &mut plan.give_back, 0),
    ("retry", |plan| &mut plan.retry, 0),
    ("timer-late", |plan| &mut plan.timer_late, 0),
    ("delay-max", |plan| &mut plan.delay_max, 1),
    ("delay-min", |plan| &mut plan.delay_min, 1),
    ("disk-max", |plan| &mut plan.disk_max, 1),
    ("hold-max", |plan| &mut plan.hold_max, 1),
    ("think-max", |plan| &mut plan.think_max, 1),
    ("stay-turns", |plan| &mut plan.stay_turns, 0),
    ("stay-time", |plan| &mut plan.stay_time, 0),
    ("ttl", |plan| &mut plan.ttl, 1_000_000),
    ("resend-node", |plan| &mut plan.resend_node, 1),
    ("resend-server", |plan| &mut plan.resend_server, 1),
    ("reserve", |plan| &mut plan.reserve, 1),
    ("dial-back", |plan| &mut plan.dial_back, 0),
    ("portion", |plan| &mut plan.portion, 1),
    ("search-steps", |plan| &mut plan.search_steps, 1),
];

/// How many of the numbers say how large the world is; the rest say what happens in it.
const SIZES: usize = 6;

/// How many of the numbers are made smaller in the search for a smaller world. The others belong to
/// the class of the world.
const SHRUNK: usize = 38;

impl Plan {
    /// The names of all numbers.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NUMBERS.iter().map(|(name, ..)| *name)
    }

    /// Sets a number by name.
    pub fn set(&mut self, name: &str, value: u64) -> Result<(), Unknown> {
        let mut numbers = NUMBERS.iter();
        let number = numbers.find(|(known, ..)| *known == name);
        let (_, place, least) = number.ok_or_else(|| Unknown(name.to_owned()))?;
        *place(self) = value.max(*least);
        self.repair();
        Ok(())
    }

    /// Makes the numbers agree with each other.
    fn repair(&mut self) {
        self.delay_max = self.delay_max.max(self.delay_min);
        self.late_max = self.late_max.max(self.delay_max);
        self.nodes = self.nodes.clamp(1, 64);
        self.servers = self.servers.clamp(1, 8);
    }

    /// Plans that are simpler than this one in one respect, the boldest first.
    pub(crate) fn simpler(&self) -> Vec<Self> {
        let all =
            NUMBERS[..SHRUNK].iter().enumerate().flat_map(move |(index, (_, place, least))| {
                let mut plan = self.clone();
                let value = *place(&mut plan);
                let steps: &[u64] = if index < SIZES { &[8, 4, 2] } else { &[] };
                let sizes = steps.iter().map(move |step| value - value / step);
                let down = if index < SIZES { value.saturating_sub(1) } else { *least };
                let tried = [*least].into_iter().chain(sizes.rev()).chain([down]);
                tried.filter(move |&to| to < value && to >= *least).map(move |to| {
                    let mut plan = self.clone();
                    *place(&mut plan) = to;
                    plan.repair();
                    plan
                })
            });
        all.filter(|plan| plan != self).collect()
    }

    /// The words for the command line that make this plan out of its seed.
    pub fn flags(&self) -> String {
        let mut plan = self.clone();
        let mut drawn = Self::draw(self.seed);
        let mut flags = format!("--seed {}", self.seed);
        if (plan.class, plan.workload) != (drawn.class, drawn.workload) {
            drawn = Self::draw_with(self.seed, Some(self.class), Some(self.workload));
            flags += &format!(" --class {} --workload {}", self.class, self.workload);
        }
        for (name, place, _) in NUMBERS {
            if place(&mut plan) != place(&mut drawn) {
                flags += &format!(" --{name} {}", place(&mut plan));
            }
        }
        flags
    }
}

macro_rules! named {
    ($type:ident: $($variant:ident $name:literal),* $(,)?) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$variant => $name,)* })
            }
        }

        impl std::str::FromStr for $type {
            type Err = Unknown;

            fn from_str(name: &str) -> Result<Self, Unknown> {
                match name {
                    $($name => Ok(Self::$variant),)*
                    _ => Err(Unknown(name.to_owned())),
                }
            }
        }
    };
}

named! {
    Class:
    Calm "calm", Jitter "jitter", Restart "restart", Faulty "faulty", Drift "drift",
    Rollback "rollback", Moving "moving", Strangers "strangers",
}
named! {
    Workload:
    Cached "cached", Contended "contended", Readers "readers", Many "many",
    Upgrades "upgrades", Transactions "transactions",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_made_again_from_its_flags() {
        let mut plan = Plan::draw_with(7, Some(Class::Faulty), Some(Workload::Upgrades));
        plan.set("nodes", 2).unwrap();
        plan.set("loss", 0).unwrap();
        let flags = plan.flags();
        let mut words = flags.split(' ');
        let mut again = Plan::draw_with(7, Some(Class::Faulty), Some(Workload::Upgrades));
        while let (Some(name), Some(value)) = (words.next(), words.next()) {
            if !["--seed", "--class", "--workload"].contains(&name) {
                again.set(&name[2..], value.parse().unwrap()).unwrap();
            }
        }
        assert_eq!(plan, again);
    }

    #[test]
    fn simpler_plans_differ_and_end() {
        let mut plan = Plan::draw(3);
        let mut steps = 0;
        while let Some(simpler) = plan.simpler().into_iter().next() {
            assert_ne!(plan, simpler);
            plan = simpler;
            steps += 1;
            assert!(steps < 1000);
        }
        assert_eq!((plan.nodes, plan.loss), (1, 0));
    }

    #[test]
    fn what_has_no_name_is_refused() {
        assert!(Plan::draw(0).set("colour", 1).is_err());
        assert!("wild".parse::<Class>().is_err());
        assert_eq!("jitter".parse(), Ok(Class::Jitter));
    }
}
