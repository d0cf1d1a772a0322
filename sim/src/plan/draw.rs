//! A plan from a seed. The shares below decide what is tried often; they lean towards what has
//! found bugs.

use fastrand::Rng;

use super::{Class, Plan, Workload};
use crate::stream;

const MS: u64 = 1000;
const SECOND: u64 = 1000 * MS;

/// Drift that the margin of a lease covers, in millionths: the rates of any two clocks differ by
/// less than 5 % each way.
pub(crate) const DRIFT_COVERED: u64 = 49_900;

/// Things to do in a world, about.
const JOBS: u64 = 300;

/// What a server does in one step, and of a search at a time, where nothing ends early.
const PORTION: u64 = 512;
const SEARCH_STEPS: u64 = 1000;

impl Plan {
    /// The world of this seed.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        Self::draw_with(seed, None, None)
    }

    /// The world of this seed, but of this class and with this workload.
    #[must_use]
    pub fn draw_with(seed: u64, class: Option<Class>, workload: Option<Workload>) -> Self {
        let mut rng = stream::Plan.rng(seed);
        let drawn = match rng.u32(0..100) {
            0..9 => Class::Calm,
            9..19 => Class::Jitter,
            19..28 => Class::Restart,
            28..46 => Class::Faulty,
            46..80 => Class::Moving,
            80..90 => Class::Strangers,
            90..97 => Class::Drift,
            _ => Class::Rollback,
        };
        let drawn_workload = Workload::ALL[rng.usize(..Workload::ALL.len())];
        let class = class.unwrap_or(drawn);
        let is_drawn = workload.is_none();
        let workload = workload.unwrap_or(drawn_workload);
        let mut plan = Self::quiet(seed, class, workload, &mut rng);
        match class {
            Class::Calm => {}
            Class::Jitter => plan.jitter(&mut rng),
            Class::Restart => plan.restart(&mut rng),
            Class::Faulty => plan.faulty(&mut rng),
            Class::Moving => plan.moving(&mut rng),
            Class::Strangers => {
                plan.moving(&mut rng);
                plan.strangers = rng.u64(1..=3);
                plan.records = plan.records.min(rng.u64(1..=4));
            }
            Class::Rollback => {
                plan.restart(&mut rng);
                plan.rollback = 500;
            }
            Class::Drift => {
                plan.faulty(&mut rng);
                plan.drift = rng.u64(100_000..=500_000);
                // What a slow clock believes comes out when its node was cut off, or its server
                // crashed.
                plan.cut = plan.time / rng.u64(3..8);
                plan.server_crash = plan.time / rng.u64(2..5);
                plan.disk_max = pick(&mut rng, &[20 * MS, 400 * MS]);
            }
        }
        // Drawn last, so that all else of a seed is as it was before there were operators.
        if matches!(class, Class::Faulty | Class::Drift) && rng.u32(..4) == 0 {
            plan.retires = plan.time / rng.u64(1..8);
        }
        // An upgrade that is taken back while its group changes hands leaves a number behind.
        if is_drawn && plan.suspects > 0 {
            plan.workload = match rng.u32(..4) {
                0 => Workload::Upgrades,
                1 | 2 => Workload::Contended,
                _ => plan.workload,
            };
        }
        // Small, so that steps end early in small worlds too.
        plan.portion = pick(&mut rng, &[1, 2, PORTION, PORTION]);
        plan.search_steps = pick(&mut rng, &[1, 5, SEARCH_STEPS, SEARCH_STEPS]);
        // After all else, for the same reason.
        if class == Class::Moving && plan.suspects > 0 && rng.u32(..8) == 0 {
            plan.unaware(&mut rng);
            if is_drawn {
                plan.workload = Workload::Upgrades;
            }
        }
        plan
    }

    /// Sizes, and times without faults.
    fn quiet(seed: u64, class: Class, workload: Workload, rng: &mut Rng) -> Self {
        let nodes = rng.u64(2..=6);
        let threads =
            if workload == Workload::Transactions { rng.u64(1..=2) } else { rng.u64(1..=3) };
        let records = match workload {
            Workload::Cached => nodes + rng.u64(0..4),
            Workload::Contended | Workload::Readers | Workload::Upgrades => rng.u64(1..=3),
            Workload::Many => rng.u64(20..60),
            Workload::Transactions => rng.u64(2..=5),
        };
        let lossless = class.is_lossless();
        let time = if lossless { rng.u64(SECOND..3 * SECOND) } else { rng.u64(4..10) * SECOND };
        let delay = rng.u64(20..500);
        let hold_max = if lossless {
            pick(rng, &[200, 2 * MS, 10 * MS, 40 * MS])
        } else {
            pick(rng, &[2 * MS, 10 * MS, 40 * MS, 200 * MS, 600 * MS])
        };
        let many_servers = matches!(class, Class::Faulty | Class::Drift) && rng.u32(..5) < 2;
        let always_many = matches!(class, Class::Moving | Class::Strangers);
        Self {
            seed,
            class,
            workload,
            servers: if many_servers || always_many { rng.u64(2..=3) } else { 1 },
            shards: pick(rng, &[1, 1, 3]),
            nodes,
            threads,
            records,
            time,
            ttl: pick(rng, &[SECOND, SECOND, 2 * SECOND]),
            delay_min: delay,
            delay_max: delay,
            late: 0,
            late_max: delay,
            loss: 0,
            double: 0,
            cut: 0,
            one_way: 0,
            store_cut: 0,
            moves: 0,
            late_answers: 0,
            departs: 0,
            suspects: 0,
            unaware: 0,
            joins: 0,
            heirs: 0,
            news: 0,
            strangers: 0,
            rollback: 0,
            node_crash: 0,
            node_pause: 0,
            server_crash: 0,
            server_pause: 0,
            retires: 0,
            disk_max: pick(rng, &[MS, 20 * MS, 400 * MS]),
            timer_late: 0,
            think_max: 2 * time * nodes * threads / JOBS,
            hold_max,
            patience: pick(rng, &[0, 100, 500]),
            patience_max: pick(rng, &[4 * delay, 8 * delay, 2 * hold_max + 8 * delay]),
            give_back: pick(rng, &[0, 0, 100]),
            retry: pick(rng, &[0, 500, 1000]),
            drift: 0,
            stay_turns: pick(rng, &[0, 1, 16]),
            stay_time: pick(rng, &[0, 2 * MS, 2 * MS, 20 * MS]),
            resend_node: if lossless { 3600 * SECOND } else { 300 * MS },
            resend_server: if lossless { 3600 * SECOND } else { 500 * MS },
            reserve: if lossless { 3600 * SECOND } else { SECOND },
            dial_back: rng.u64(0..=1),
            portion: PORTION,
            search_steps: SEARCH_STEPS,
        }
    }

    /// Lines must be long when a server crashes, or their order tells nothing.
    fn restart(&mut self, rng: &mut Rng) {
        self.server_crash = self.time / rng.u64(2..8);
        self.hold_max = pick(rng, &[10 * MS, 40 * MS]);
        self.records = self.records.min(rng.u64(1..=4));
        self.patience_max = self.patience_max.max(4 * self.hold_max);
    }

    fn jitter(&mut self, rng: &mut Rng) {
        self.delay_max = self.delay_min + pick(rng, &[200, 2 * MS, 10 * MS]);
        self.late_max = self.delay_max;
        self.double = pick(rng, &[0, 50, 300]);
        self.drift = pick(rng, &[0, DRIFT_COVERED]);
        self.timer_late = pick(rng, &[0, 500]);
        self.patience_max = self.patience_max.max(3 * self.delay_max);
    }

    /// Groups move all the time. In half of the worlds that is all: then nothing may be slow beside
    /// a lease, so that it is known that whoever loses a guard need not have lost it.
    fn moving(&mut self, rng: &mut Rng) {
        if rng.bool() {
            self.jitter(rng);
            self.delay_max = self.delay_max.min(2 * MS).max(self.delay_min);
            self.late_max = self.delay_max;
            self.disk_max = self.disk_max.min(20 * MS);
            self.resend_node = 100 * MS;
        } else {
            self.faulty(rng);
            self.suspects = match rng.u32(..3) {
                0 => 0,
                _ => self.time / rng.u64(2..12),
            };
            // What goes wrong seldom happens together with what moves.
            if rng.bool() {
                (self.node_crash, self.server_crash, self.cut) = (0, 0, 0);
            }
        }
        self.moves = match rng.u32(..4) {
            0 if self.suspects > 0 => 0,
            _ => self.time / rng.u64(6..30),
        };
        self.joins = u64::from(self.servers > 2 && rng.bool());
        self.heirs = rng.u64(0..=1);
        self.news = rng.u64(0..=1);
        self.drift = pick(rng, &[0, DRIFT_COVERED, DRIFT_COVERED]);
        self.hold_max = pick(rng, &[10 * MS, 200 * MS, 600 * MS]);
        self.records = self.records.min(rng.u64(1..=12));
        self.departs = u64::from(self.servers > 2 && rng.u32(..4) == 0);
        if self.is_planned_only() {
            return;
        }
        match rng.u32(..7) {
            // Who hears late that all was heard, and can't reach the owner after that one.
            6 => {
                self.few_records(rng);
                self.hold_max = 1500 * MS;
                self.late_answers = 500;
                self.moves = self.time / rng.u64(6..15);
                (self.suspects, self.server_crash, self.store_cut) = (0, 0, 0);
            }
            // A server that was replaced and does not know does harm where many want the same.
            0 | 5 => {
                self.few_records(rng);
                self.suspects = self.time / rng.u64(4..12);
                (self.moves, self.server_crash, self.store_cut) = (0, 0, 0);
                (self.patience, self.patience_max) = (500, self.hold_max + 20 * MS);
            }
            // Who is cut off from its new owner believes in what it had before. It has to have
            // sessions with several servers for that, and to hold what it has for long.
            1 | 2 => {
                self.few_records(rng);
                self.records = rng.u64(4..=8);
                self.hold_max = 1500 * MS;
                self.suspects = self.time / rng.u64(3..7);
                self.cut = self.time;
                (self.moves, self.server_crash, self.store_cut) = (0, 0, 0);
            }
            // And if that is restarted, it has to rely on its store.
            3 | 4 => {
                self.few_records(rng);
                self.moves = self.time / rng.u64(10..30);
                self.cut = self.time / rng.u64(2..8);
                self.server_crash = self.time / rng.u64(2..8);
            }
            _ => {}
        }
    }

    /// A server was replaced, and neither it nor one of its nodes knows. The new owner waits for
    /// that node, and grants nothing meanwhile. Only this gives what others hold a number that the
    /// old owner does not know: one of them asks the new owner to upgrade its read, and gives up.
    fn unaware(&mut self, rng: &mut Rng) {
        self.few_records(rng);
        (self.server_crash, self.server_pause, self.store_cut, self.cut) = (0, 0, 0, 0);
        (self.moves, self.late_answers, self.joins, self.departs) = (0, 0, 0, 0);
        self.nodes = self.nodes.min(rng.u64(2..=3));
        self.threads = self.threads.max(2);
        self.news = 1;
        self.unaware = 800;
        self.suspects = self.time / rng.u64(4..10);
        self.disk_max = pick(rng, &[MS, 20 * MS]);
        self.hold_max = pick(rng, &[40 * MS, 200 * MS, 600 * MS]);
        self.think_max = self.think_max.min(100 * MS);
        (self.patience, self.patience_max) = (800, pick(rng, &[20 * MS, 100 * MS]));
    }

    /// Few records that many want, and little else that goes wrong.
    fn few_records(&mut self, rng: &mut Rng) {
        self.records = rng.u64(1..=2);
        self.hold_max = pick(rng, &[2 * MS, 40 * MS, 600 * MS, 1500 * MS]);
        self.think_max = self.think_max.min(400 * MS);
        (self.node_crash, self.node_pause, self.one_way) = (0, 0, 0);
        (self.loss, self.late) = (pick(rng, &[0, 10]), 0);
        self.delay_max = self.delay_min + 2 * MS;
        self.late_max = self.delay_max;
    }

    fn faulty(&mut self, rng: &mut Rng) {
        self.jitter(rng);
        // A network that is slow beside the lease shows where the lease is counted from.
        if rng.u32(..6) == 0 {
            self.delay_max = self.ttl / 3;
        }
        self.late = pick(rng, &[0, 5, 30, 200]);
        self.late_max = pick(rng, &[50 * MS, self.ttl / 2, 2 * self.ttl]).max(self.delay_max);
        self.loss = pick(rng, &[0, 10, 50, 200]);
        let time = self.time;
        let gap = |rng: &mut Rng, share: u32| match rng.u32(..100) < share {
            true => time / rng.u64(1..8),
            false => 0,
        };
        self.cut = gap(rng, 50);
        self.one_way = gap(rng, 30);
        self.node_crash = gap(rng, 40);
        self.node_pause = gap(rng, 50);
        self.server_crash = gap(rng, 50);
        self.server_pause = gap(rng, 30);
        if self.servers > 1 {
            self.store_cut = gap(rng, 80);
            self.moves = gap(rng, 40);
        }
    }
}

fn pick(rng: &mut Rng, choices: &[u64]) -> u64 {
    choices[rng.usize(..choices.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_and_every_workload_is_drawn() {
        let plans: Vec<_> = (0..200).map(Plan::draw).collect();
        for class in Class::ALL {
            assert!(plans.iter().any(|plan| plan.class == class), "{class}");
        }
        for workload in Workload::ALL {
            assert!(plans.iter().any(|plan| plan.workload == workload), "{workload}");
        }
    }

    #[test]
    fn a_calm_world_has_no_fault() {
        let plan = Plan::draw_with(1, Some(Class::Calm), None);
        assert_eq!((plan.loss, plan.double, plan.late, plan.drift), (0, 0, 0, 0));
        assert_eq!((plan.cut, plan.node_crash, plan.server_crash), (0, 0, 0));
        assert_eq!(plan.delay_min, plan.delay_max);
    }
}
