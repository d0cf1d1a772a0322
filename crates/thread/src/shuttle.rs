//! What shuttle's tests share: more threads than loom can search, in many random schedules.
//!
//! `LOCKSPAN_SCHEDULES` says how many of each kind; `cargo xtask test` is content with a thousand.

use shuttle::scheduler::{PctScheduler, RandomScheduler};

/// Runs `test` in random schedules, which find the common orders, and in PCT's, which find rare
/// ones.
pub(crate) fn in_many_schedules(test: impl Fn() + Send + Sync + Clone + 'static) {
    let schedules = std::env::var("LOCKSPAN_SCHEDULES").map_or(1_000, |n| n.parse().unwrap());
    let mut config = shuttle::Config::new();
    config.max_steps = shuttle::MaxSteps::FailAfter(200_000);
    let random = RandomScheduler::new(schedules);
    shuttle::Runner::new(random, config.clone()).run(test.clone());
    for depth in [3, 6] {
        let rare = PctScheduler::new(depth, schedules);
        shuttle::Runner::new(rare, config.clone()).run(test.clone());
    }
}
