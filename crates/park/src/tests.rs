//! Sleeping, waking and timing out, on the body that this platform uses.

use std::time::{Duration, Instant};

use crate::sync::Ordering;
use crate::{Deadline, Spot, Woken};

#[test]
fn a_changed_word_is_not_slept_on() {
    let spot = Spot::new(1);
    assert_eq!(spot.sleep(0, None), Woken::Changed);
}

#[test]
fn a_sleeper_wakes_after_change_and_ring() {
    let spot = Spot::new(0);
    std::thread::scope(|scope| {
        let alarm = spot.alarm();
        let word = spot.word();
        scope.spawn(move || {
            word.store(7, Ordering::Release);
            alarm.ring();
        });
        assert_eq!(spot.sleep(0, None), Woken::Changed);
    });
    assert_eq!(spot.word().load(Ordering::Acquire), 7);
}

#[test]
fn a_deadline_ends_a_sleep_that_nobody_ends() {
    let spot = Spot::new(0);
    let at = Instant::now() + Duration::from_millis(5);
    assert_eq!(spot.sleep(0, Some(at.into())), Woken::TimedOut);
    assert!(Instant::now() >= at);
}

#[test]
fn a_deadline_in_the_past_has_passed() {
    assert!(Deadline::from(Instant::now()).passed());
    assert_eq!(Deadline::from(Instant::now()).left(), Duration::ZERO);
    let hour = Duration::from_secs(3600);
    let deadline = Deadline::after(hour).unwrap();
    assert!(!deadline.passed());
    let left = deadline.left();
    assert!(left <= hour && left > hour / 2, "{left:?}");
    assert_eq!(Spot::new(0).sleep(0, Some(Instant::now().into())), Woken::TimedOut);
}

#[test]
fn a_time_out_too_long_to_write_is_no_deadline() {
    assert_eq!(Deadline::after(Duration::MAX), None);
}

#[cfg(target_os = "linux")]
#[test]
fn a_realtime_deadline_follows_the_wall_clock() {
    assert!(Deadline::realtime(0, 0).passed());
    assert_eq!(Deadline::monotonic(1, 2_500_000_000), Deadline::monotonic(3, 500_000_000));
    assert!(!Deadline::realtime(i64::MAX, 0).passed());
    assert!(Deadline::realtime(i64::MAX, 0).left() > Duration::from_secs(1 << 62));
    assert_eq!(Deadline::realtime(i64::MIN, 0).left(), Duration::ZERO);
    assert_eq!(Spot::new(0).sleep(0, Some(Deadline::realtime(1, 0))), Woken::TimedOut);
}

#[cfg(target_os = "linux")]
#[test]
fn fair_s18_a_deadline_before_the_clocks_beginning_has_passed() {
    for secs in [-1, -1_000_000, i64::MIN] {
        for deadline in [Deadline::monotonic(secs, 999_999_999), Deadline::realtime(secs, 0)] {
            assert!(deadline.passed());
            assert_eq!(Spot::new(0).sleep(0, Some(deadline)), Woken::TimedOut, "{secs}");
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn fair_s18_seconds_that_do_not_fit_are_the_latest_time_there_is() {
    use crate::deadline::saturating;

    assert_eq!(saturating::<i32, _>(i64::from(u32::MAX)), i32::MAX);
    assert_eq!(saturating::<i32, _>(i64::MAX), i32::MAX);
    assert_eq!(saturating::<i32, _>(u64::MAX), i32::MAX);
    assert_eq!(saturating::<i32, _>(7_i64), 7);
    assert_eq!(saturating::<i64, _>(i64::MAX), i64::MAX);
    assert_eq!(saturating::<i64, _>(1_i64 << 40), 1 << 40);
    assert_eq!(Deadline::monotonic(i64::MAX, 1).timespec().tv_nsec, 1);
}

#[test]
fn an_alarm_outlives_its_spot() {
    let alarm = Spot::new(0).alarm();
    alarm.ring();
}
